// Fed: datasets, each as its dtype, its axes, the length of its texts and its
// path. The file that is made for them has each of them under its path, with
// its shape, its type and its place.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "format/element_type.h"
#include "format/file_metadata.h"
#include "format/file_reader.h"
#include "fuzz_input.h"
#include "fuzz_target.h"
#include "hdf5_bytes.h"

namespace belay::fuzz_file_metadata {
namespace {

constexpr size_t kMaxDatasets = 100;

std::vector<h5::DatasetSpec> SpecsOf(std::string_view input) {
  std::vector<h5::DatasetSpec> specs;
  FuzzInput in(input);
  while (!in.empty() && specs.size() < kMaxDatasets) {
    h5::DatasetSpec spec;
    const auto code = in.Number<uint8_t>();
    if (IsKnownDType(code)) spec.dtype = DType{code};
    const int axes = in.Number<uint8_t>() % 3;
    for (int axis = 0; axis < axes; ++axis) {
      spec.shape.push_back(in.Number<uint16_t>());
    }
    const auto length = in.Number<uint16_t>();
    if (spec.dtype == DType::kString) spec.string_bytes = length;
    spec.path = in.Text();
    specs.push_back(spec);
  }
  return specs;
}

void CheckFound(const h5::ContiguousDataset& found, const h5::DatasetSpec& spec,
                int64_t offset) {
  const bool is_null = spec.dtype == DType::kString && spec.string_bytes == 0;
  Require(found.shape == (is_null ? Shape{0} : spec.shape),
          "a dataset has the shape that it was made with");
  Require(found.type == h5::EncodedType(h5::GetElementType(spec)).value_or(""),
          "a dataset has the type that it was made with");
  Require(found.offset == offset, "a dataset lies where it was placed");
  Require(found.bytes == (offset < 0 ? 0 : h5::StoredBytes(spec)),
          "a dataset has the bytes that it was made with");
}

void Run(std::string_view input) {
  const std::vector<h5::DatasetSpec> specs = SpecsOf(input);
  const StatusOr<std::optional<h5::FileMetadata>> made =
      h5::EncodeFileMetadata({.datasets = specs});
  Require(made.ok(), "known dtypes can be encoded");
  if (!made->has_value()) return;  // left to HDF5
  const h5::FileMetadata& metadata = **made;
  // Its data would be zeros.
  h5::BoundedFile file("made", metadata.file_bytes, kFuzzBudget,
                       [&](int64_t offset, void* data, int64_t bytes) {
                         std::string part(static_cast<size_t>(bytes), '\0');
                         if (offset < std::ssize(metadata.bytes)) {
                           metadata.bytes.copy(part.data(), part.size(),
                                               static_cast<size_t>(offset));
                         }
                         part.copy(static_cast<char*>(data), part.size());
                         return absl::OkStatus();
                       });
  StatusOr<h5::FileReader> reader = h5::FileReader::Open(file);
  Require(reader.ok(), "a file that was made can be opened");
  for (size_t i = 0; i < specs.size(); ++i) {
    const auto found = reader->Find(specs[i].path);
    if (absl::IsResourceExhausted(found.status())) return;
    Require(found.ok() && found->has_value(), "each dataset is found");
    CheckFound(**found, specs[i], metadata.offsets[i]);
    const auto other = reader->Find(specs[i].path + "~");
    const bool is_listed =
        std::any_of(specs.begin(), specs.end(), [&](const auto& spec) {
          return (spec.path + "/").starts_with(specs[i].path + "~/");
        });
    Require(is_listed || absl::IsResourceExhausted(other.status()) ||
                (other.ok() && !other->has_value()),
            "a name that is not there is not found");
  }
}

const RegisterFuzzTarget kTarget({"file_metadata", Run});

}  // namespace
}  // namespace belay::fuzz_file_metadata
