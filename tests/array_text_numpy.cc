// Prints arrays as `belay show` does, for array_text_numpy.py to compare with
// NumPy. Reads cases from stdin, each a line and the bytes of the array:
//
//   dtype  the largest number of elements that is not abbreviated  ndim  shape
//
// and prints the text of each, followed by a NUL byte.

#include <iostream>
#include <sstream>
#include <string>

#include "array_text.h"
#include "belay/arrays/indexing.h"

namespace belay::tools {
namespace {

// x[box] by way of indexing.
StatusOr<Tensor> PartOf(const Tensor& x, const Box& box) {
  Index index;
  for (size_t i = 0; i < box.shape.size(); ++i) {
    index.push_back(Slice{.start = box.offset[i],
                          .stop = box.offset[i] + box.shape[i],
                          .step = 1});
  }
  return GetItem(x, index);
}

// Returns false at the end.
bool PrintCase() {
  std::string name;
  int64_t max_elements = 0;
  size_t ndim = 0;
  std::string line;
  if (!std::getline(std::cin, line)) return false;
  std::istringstream words(line);
  words >> name >> max_elements >> ndim;
  Shape shape(ndim);
  for (int64_t& length : shape) words >> length;
  Tensor tensor(ParseDType(name).value(), shape);
  std::cin.read(reinterpret_cast<char*>(tensor.data()), tensor.num_bytes());
  const StatusOr<Excerpt> excerpt =
      ReadExcerpt(tensor.dtype(), WholeBox(shape), max_elements,
                  [&](const Box& box) { return PartOf(tensor, box); });
  std::cout << ArrayText(excerpt.value()) << '\0';
  return true;
}

}  // namespace
}  // namespace belay::tools

int main() {
  while (belay::tools::PrintCase()) continue;
  return 0;
}
