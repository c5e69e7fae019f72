// Prints random cases of indexing with their results, for indexing_numpy.py to
// compare with NumPy. One case per line, the fields separated by tabs:
//
//   get  shape  index  "IndexError", "ValueError" or: result shape, values
//   set  shape  index  value shape  "IndexError", "ValueError" or: values
//   mask  shape  mask shape  mask values  result shape  values
//
// All arrays hold 0, 1, 2, ..; a value that is assigned holds -1, -2, ..

#include <iostream>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "belay/arrays/indexing.h"
#include "index_oracle.h"

namespace belay {
namespace {

Tensor Iota(const Shape& shape) {
  Tensor tensor(DType::kI64, shape);
  std::iota(tensor.values<int64_t>().begin(), tensor.values<int64_t>().end(),
            0);
  return tensor;
}

std::string ValuesText(const Tensor& tensor) {
  const auto values = tensor.values<int64_t>();
  return "[" + absl::StrJoin(values.begin(), values.end(), ", ") + "]";
}

std::string ErrorText(const Status& status) {
  return status.code() == absl::StatusCode::kOutOfRange ? "IndexError"
                                                        : "ValueError";
}

// Valid most of the time, else with an item changed or one put in.
Index AnyIndex(IndexDraw& draw, const Shape& shape) {
  const Index valid = draw.AnyIndex(shape);
  if (valid.empty() || draw.Number(0, 4) > 0) return valid;
  std::vector<IndexItem> index(valid.begin(), valid.end());
  const size_t place = draw.Number(0, index.size() - 1);
  switch (draw.Number(0, 3)) {
    case 0:
      index[place] = draw.Number(-9, 9);
      break;
    case 1:
      index[place] = Slice{.start = {}, .stop = {}, .step = 0};
      break;
    case 2:
      index.insert(index.begin() + place, draw.Number(0, 1));
      break;
    default:
      index.insert(index.begin() + place, draw.AnySlice(3));
  }
  return Index(std::move(index));
}

void PrintGet(IndexDraw& draw) {
  const Shape shape = draw.AnyShape(0);
  const Index index = AnyIndex(draw, shape);
  std::cout << "get\t" << ShapeText(shape) << '\t' << IndexText(index) << '\t';
  const StatusOr<Tensor> item = GetItem(Iota(shape), index);
  if (item.ok()) {
    std::cout << ShapeText(item->shape()) << '\t' << ValuesText(*item) << '\n';
  } else {
    std::cout << ErrorText(item.status()) << '\n';
  }
}

void PrintSet(IndexDraw& draw) {
  const Shape shape = draw.AnyShape(0);
  const Index index = draw.AnyIndex(shape);
  Shape value_shape = IndexOracle(shape, index).shape;
  for (int64_t& length : value_shape) {
    if (draw.Number(0, 3) == 0) length = draw.Number(0, 5) > 0 ? 1 : 2;
  }
  if (draw.Number(0, 2) == 0 && !value_shape.empty()) {
    value_shape.erase(value_shape.begin());
  }
  if (draw.Number(0, 2) == 0) value_shape.insert(value_shape.begin(), 1);
  Tensor value = Iota(value_shape);
  for (int64_t& element : value.values<int64_t>()) element = -1 - element;
  Tensor x = Iota(shape);
  const Status status = SetItem(x, index, value);
  std::cout << "set\t" << ShapeText(shape) << '\t' << IndexText(index) << '\t'
            << ShapeText(value_shape) << '\t'
            << (status.ok() ? ValuesText(x) : ErrorText(status)) << '\n';
}

void PrintMask(IndexDraw& draw) {
  const Shape shape = draw.AnyShape(1);
  const Tensor mask = draw.AnyMask(shape);
  const Tensor item = GetItem(Iota(shape), {&mask}).value();
  const auto values = mask.values<bool>();
  std::cout << "mask\t" << ShapeText(shape) << '\t' << ShapeText(mask.shape())
            << "\t[" << absl::StrJoin(values.begin(), values.end(), ", ")
            << "]\t" << ShapeText(item.shape()) << '\t' << ValuesText(item)
            << '\n';
}

}  // namespace
}  // namespace belay

int main() {
  belay::IndexDraw draw(2026);
  for (int i = 0; i < 4000; ++i) {
    belay::PrintGet(draw);
    belay::PrintSet(draw);
    if (i % 4 == 0) belay::PrintMask(draw);
  }
}
