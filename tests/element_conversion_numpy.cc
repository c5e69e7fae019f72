// usage: element_conversion_numpy FROM TO < elements > elements
//
// For element_conversion_numpy.py to compare with NumPy.

#include <cstdint>
#include <iostream>
#include <iterator>
#include <string>

#include "core/element_conversion.h"

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const auto from = belay::ParseDType(argv[1]);
  const auto to = belay::ParseDType(argv[2]);
  if (!from.ok() || !to.ok() || !belay::IsConvertible(*from, *to)) return 2;
  const std::string in(std::istreambuf_iterator<char>(std::cin), {});
  const auto count = static_cast<int64_t>(in.size()) / belay::DTypeSize(*from);
  std::string out(count * belay::DTypeSize(*to), '\0');
  belay::ConvertElements(*from, in.data(), *to, out.data(), count);
  std::cout << out;
}
