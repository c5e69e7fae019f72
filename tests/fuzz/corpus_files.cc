#include "corpus_files.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "format/element_type.h"
#include "format/file_metadata.h"
#include "format/file_reader.h"
#include "format/stored_columns.h"
#include "fuzz_input.h"
#include "hdf5_bytes.h"

namespace belay {
namespace {

using h5::DatasetSpec;

// A file of these datasets with their bytes; zeros where there are none.
std::string FileOfDatasets(const std::vector<DatasetSpec>& specs,
                           const std::vector<std::string>& values = {}) {
  h5::FileMetadata made =
      h5::EncodeFileMetadata({.datasets = specs}).value().value();
  made.bytes.resize(static_cast<size_t>(made.file_bytes), '\0');
  for (size_t i = 0; i < values.size(); ++i) {
    if (made.offsets[i] < 0) continue;
    made.bytes.replace(static_cast<size_t>(made.offsets[i]), values[i].size(),
                       values[i]);
  }
  return made.bytes;
}

// One column as a dataset and its bytes.
template <typename T>
std::pair<DatasetSpec, std::string> DatasetOf(std::string_view path,
                                              const std::vector<T>& column) {
  DatasetSpec spec{
      .path = std::string(path), .shape = {std::ssize(column)}, .chunk = {}};
  std::string bytes;
  if constexpr (std::is_same_v<T, std::string>) {
    spec.dtype = DType::kString;
    spec.string_bytes = 1;
    for (const std::string& text : column) {
      spec.string_bytes = std::max(spec.string_bytes, std::ssize(text));
    }
    for (std::string text : column) {
      text.resize(static_cast<size_t>(spec.string_bytes), '\0');
      bytes += text;
    }
  } else {
    spec.dtype = DTypeOf<T>();
    bytes.assign(reinterpret_cast<const char*>(column.data()),
                 column.size() * sizeof(T));
  }
  return {std::move(spec), std::move(bytes)};
}

std::vector<DatasetSpec> SmallDatasets() {
  return {{"w", DType::kF32, 0, {4, 3}, {}},
          {"layers/0/kernel", DType::kBF16, 0, {2, 2}, {}},
          {"layers/0/bias", DType::kC64, 0, {3}, {}},
          {"layers/1", DType::kBool, 0, {}, {}},
          {"name", DType::kString, 5, {}, {}},
          {"none", DType::kString, 0, {}, {}},
          {"empty", DType::kI64, 0, {0, 7}, {}},
          {"particles", DType::kU8, 0, {2, 20}, {}, {}, "id:i64 x:f32[3]"}};
}

// So many that their links lie in a heap.
std::vector<DatasetSpec> ManyDatasets() {
  std::vector<DatasetSpec> specs;
  for (int i = 0; i < 30; ++i) {
    specs.push_back({absl::StrCat("group/", i), DType::kI32, 0, {1}, {}});
  }
  return specs;
}

// A line for each dataset, and one for what is not there.
std::string DataFileOf(const std::vector<DatasetSpec>& specs) {
  std::string input;
  for (const DatasetSpec& spec : specs)
    absl::StrAppend(&input, spec.path, "\n");
  return absl::StrCat(input, "group/none\nnone/none\n", FileOfDatasets(specs));
}

std::string ListOf(const std::vector<DatasetSpec>& specs) {
  FuzzInputWriter out;
  for (const DatasetSpec& spec : specs) {
    out.Put(static_cast<uint8_t>(spec.dtype));
    out.Put(static_cast<uint8_t>(spec.shape.size()));
    for (const int64_t length : spec.shape) {
      out.Put(static_cast<uint16_t>(length));
    }
    out.Put(static_cast<uint16_t>(spec.string_bytes));
    out.PutText(spec.path);
  }
  return out.bytes();
}

// The messages of the header that begins the objects.
std::string MessagesOf(std::string_view objects) {
  const std::string bytes = FileOfObjects(objects, kFuzzObjectsAt);
  h5::BoundedFile file = FileInMemory(bytes);
  const std::vector<h5::StoredMessage> messages =
      h5::ReadObjectHeader(file, kFuzzObjectsAt).value();
  FuzzInputWriter out;
  for (const h5::StoredMessage& message : messages) {
    out.Put(message.kind);
    out.PutText(message.bytes);
  }
  return out.bytes();
}

// A message that says that more lie in the one behind it.
std::string ContinuedMessages() {
  constexpr uint8_t kContinuation = 0x10;
  // Behind the prefix of the header, and the heads of two messages.
  constexpr int64_t kPrefixBytes = 10, kHeadBytes = 4, kPlaceBytes = 16;
  const std::string block = std::string("OCHK") +
                            std::string("\0\4\0\0\1\2\3\4", 8) +
                            std::string(4, '\0');
  FuzzInputWriter place;
  place.Put(kFuzzObjectsAt + kPrefixBytes + 2 * kHeadBytes + kPlaceBytes);
  place.Put(std::ssize(block));
  FuzzInputWriter out;
  out.Put(kContinuation);
  out.PutText(place.bytes());
  out.Put(uint8_t{0});
  out.PutText(block);
  return out.bytes();
}

// Four bytes in one chunk, whose shuffle does nothing to them. They are those
// that the header begins with.
std::string FilteredMessages() {
  constexpr uint8_t kSpace = 0x01, kType = 0x03, kLayout = 0x08,
                    kFilters = 0x0b;
  FuzzInputWriter layout;
  for (const uint8_t byte : {4, 2, 2, 2, 1, 4, 1, 1}) layout.Put(byte);
  layout.Put(int64_t{4});
  layout.Put(uint32_t{0});
  layout.Put(kFuzzObjectsAt);
  FuzzInputWriter out;
  out.Put(kSpace);
  out.PutText(std::string("\2\1\0\1\4\0\0\0\0\0\0\0", 12));
  out.Put(kType);
  out.PutText(h5::EncodedType({DType::kU8}).value());
  out.Put(kFilters);
  out.PutText(std::string("\2\1\2\0\0\0\1\0\1\0\0\0", 12));
  out.Put(kLayout);
  out.PutText(layout.bytes());
  return out.bytes();
}

}  // namespace

std::string IndexFileOf(const IndexColumns& columns) {
  std::vector<DatasetSpec> specs;
  std::vector<std::string> values;
  const auto add = [&](std::string_view path, const auto& column) {
    auto [spec, bytes] = DatasetOf(path, column);
    specs.push_back(std::move(spec));
    values.push_back(std::move(bytes));
  };
  ForEachColumn(columns, add);
  const IndexDigest digest = ComputeDigest(ToStoredColumns(columns));
  add(kDigestColumn, std::vector<uint32_t>{digest.structure, digest.values});
  return FileOfDatasets(specs, values);
}

std::vector<std::string> DataFiles() {
  return {DataFileOf(SmallDatasets()), DataFileOf(ManyDatasets())};
}

std::vector<std::string> ListsOfDatasets() {
  std::vector<DatasetSpec> small = SmallDatasets();
  small.pop_back();  // lists say nothing of structs
  return {ListOf(small), ListOf(ManyDatasets())};
}

std::vector<std::string> ObjectHeaders() {
  std::vector<std::string> inputs;
  for (const DatasetSpec& spec : SmallDatasets()) {
    const bool is_named = h5::NeedsDTypeAttribute(spec.dtype);
    std::string objects;
    h5::PutDatasetHeader(
        objects, spec, h5::EncodedType(h5::GetElementType(spec)).value(),
        is_named ? h5::EncodedDTypeAttribute(spec.dtype).value() : "",
        h5::HasBytes(spec) ? kFuzzObjectsAt : -1);
    inputs.push_back(MessagesOf(objects));
  }
  std::string group;
  if (h5::PutGroup(group, kFuzzObjectsAt, {{"x", 48}, {"y", 48}}) ==
      kFuzzObjectsAt) {
    inputs.push_back(MessagesOf(group));
  }
  inputs.push_back(ContinuedMessages());
  inputs.push_back(FilteredMessages());
  return inputs;
}

}  // namespace belay
