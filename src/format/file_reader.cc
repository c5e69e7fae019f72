#include "format/file_reader.h"

#include <algorithm>
#include <limits>

#include "core/status_macros.h"
#include "core/text.h"
#include "format/chunk_filters.h"
#include "format/object_header.h"
#include "format/read_links.h"

namespace belay::h5 {
namespace {

using Kind = HeaderMessage::Kind;

constexpr uint8_t kFilterPipeline = 0x0b;
enum LayoutClass { kCompact = 0, kContiguous = 1, kChunked = 2, kVirtual = 3 };
constexpr int kMaxAxes = 32;  // of HDF5
constexpr int kMaxDepth = 10000;

Status NotRead(const BoundedFile& file, std::string_view path,
               std::string_view what) {
  return absl::UnimplementedError(Cat("read \"", file.name(), "\": \"", path,
                                      "\" has ", what,
                                      ", which is not read here"));
}

Status DamagedDataset(const BoundedFile& file, std::string_view path,
                      std::string_view what) {
  return absl::DataLossError(Cat("read \"", file.name(), "\": the ", what,
                                 " of \"", path, "\" is missing or damaged"));
}

StatusOr<Shape> ParseSpace(const BoundedFile& file, std::string_view path,
                           const StoredMessage* message) {
  enum Types { kScalar = 0, kSimple = 1, kNull = 2 };
  if (message == nullptr) return DamagedDataset(file, path, "shape");
  MetadataReader in(message->bytes);
  const uint64_t version = in.Number(1);
  const uint64_t axes = in.Number(1);
  in.Number(1);  // whether the largest lengths follow
  const uint64_t type = in.Number(1);
  Shape shape;
  if (version != 2 || axes > kMaxAxes || type > kNull ||
      (type != kSimple && axes > 0)) {
    return DamagedDataset(file, path, "shape");
  }
  for (uint64_t axis = 0; axis < axes; ++axis) {
    const int64_t length = in.Address();
    if (length < 0) return DamagedDataset(file, path, "shape");
    shape.push_back(length);
  }
  if (type == kNull) return Shape{0};
  if (!in.ok()) return DamagedDataset(file, path, "shape");
  return shape;
}

// Returns the class of the layout, which is `need`.
Status CheckLayout(const BoundedFile& file, std::string_view path,
                   const StoredMessage* message, LayoutClass need) {
  if (message == nullptr) return DamagedDataset(file, path, "layout");
  MetadataReader in(message->bytes);
  const uint64_t version = in.Number(1);
  const uint64_t layout = in.Number(1);
  if (version != 3 && version != 4) {
    return NotRead(file, path, Cat("a layout of version ", version));
  }
  if (layout == need) return absl::OkStatus();
  constexpr std::string_view kNames[] = {"its bytes in its header", "no chunks",
                                         "chunks",
                                         "its bytes in other datasets"};
  return NotRead(file, path,
                 layout <= kVirtual ? std::string(kNames[layout])
                                    : Cat("a layout of class ", layout));
}

Status ParseLayout(const BoundedFile& file, std::string_view path,
                   const StoredMessage* message, ContiguousDataset& dataset) {
  BELAY_RETURN_IF_ERROR(CheckLayout(file, path, message, kContiguous));
  MetadataReader in(std::string_view(message->bytes).substr(2));
  dataset.offset = in.Address();
  dataset.bytes = in.Address();
  if (!in.ok() || dataset.bytes < 0) {
    return DamagedDataset(file, path, "layout");
  }
  return absl::OkStatus();
}

// The bytes of an element, as its type says.
int64_t ReadElementBytes(std::string_view type) {
  return static_cast<int64_t>(MetadataReader(type.substr(4)).Number(4));
}

// The bytes are those of the shape and the type, and lie in the file.
Status CheckExtent(const BoundedFile& file, std::string_view path,
                   const ContiguousDataset& dataset) {
  if (dataset.type.size() < 8) return DamagedDataset(file, path, "type");
  int64_t need = ReadElementBytes(dataset.type);
  for (const int64_t length : dataset.shape) {
    if (length > 0 && need > std::numeric_limits<int64_t>::max() / length) {
      return DamagedDataset(file, path, "shape");
    }
    need *= length;
  }
  if (need != dataset.bytes || (need > 0 && dataset.offset == kNoAddress)) {
    return absl::DataLossError(
        Cat("read \"", file.name(), "\": \"", path,
            "\" has another number of bytes than its shape says (need ", need,
            ", found ", dataset.bytes, ")"));
  }
  if (need > 0 &&
      (dataset.offset > file.size() || need > file.size() - dataset.offset)) {
    return absl::DataLossError(Cat("read \"", file.name(), "\": \"", path,
                                   "\" is larger than its file (need ", need,
                                   " bytes at offset ", dataset.offset,
                                   ", found ", file.size(), " in all)"));
  }
  return absl::OkStatus();
}

const StoredMessage* Find(const std::vector<StoredMessage>& messages,
                          Kind kind) {
  return FindMessage(messages, static_cast<uint8_t>(kind));
}

bool HasFilters(const std::vector<StoredMessage>& messages) {
  return std::ranges::any_of(messages, [](const StoredMessage& message) {
    return message.kind == kFilterPipeline;
  });
}

StatusOr<std::optional<ContiguousDataset>> ParseDataset(
    const BoundedFile& file, std::string_view path,
    const std::vector<StoredMessage>& messages) {
  const auto find = [&](Kind kind) { return Find(messages, kind); };
  ContiguousDataset dataset;
  if (HasFilters(messages)) return NotRead(file, path, "filters");
  BELAY_ASSIGN_OR_RETURN(dataset.shape,
                         ParseSpace(file, path, find(Kind::kDataspace)));
  const StoredMessage* type = find(Kind::kDatatype);
  if (type == nullptr) return DamagedDataset(file, path, "type");
  dataset.type = type->bytes;
  BELAY_RETURN_IF_ERROR(ParseLayout(file, path, find(Kind::kLayout), dataset));
  BELAY_RETURN_IF_ERROR(CheckExtent(file, path, dataset));
  return dataset;
}

Status InDataset(const BoundedFile& file, std::string_view path,
                 const Status& status) {
  return Status(status.code(), Cat("read \"", file.name(), "\": \"", path,
                                   "\": ", std::string(status.message())));
}

StatusOr<std::optional<ChunkedDataset>> ParseChunked(
    const BoundedFile& file, std::string_view path,
    const std::vector<StoredMessage>& messages) {
  const auto find = [&](Kind kind) { return Find(messages, kind); };
  const StoredMessage* layout = find(Kind::kLayout);
  BELAY_RETURN_IF_ERROR(CheckLayout(file, path, layout, kChunked));
  ChunkedDataset dataset;
  BELAY_ASSIGN_OR_RETURN(dataset.shape,
                         ParseSpace(file, path, find(Kind::kDataspace)));
  const StoredMessage* type = find(Kind::kDatatype);
  if (type == nullptr || type->bytes.size() < 8) {
    return DamagedDataset(file, path, "type");
  }
  dataset.type = type->bytes;
  dataset.element_bytes = ReadElementBytes(dataset.type);
  if (HasFilters(messages)) {
    const StoredMessage* only = FindMessage(messages, kFilterPipeline);
    if (only == nullptr) return DamagedDataset(file, path, "list of filters");
    StatusOr<std::vector<Filter>> filters = ParseFilterPipeline(only->bytes);
    if (!filters.ok()) return InDataset(file, path, filters.status());
    dataset.filters = *std::move(filters);
  }
  const Status chunks = ParseChunks(layout->bytes, dataset);
  if (!chunks.ok()) return InDataset(file, path, chunks);
  return dataset;
}

}  // namespace

StatusOr<FileReader> FileReader::Open(BoundedFile& file) {
  FileReader reader(file);
  BELAY_ASSIGN_OR_RETURN(const int64_t root, ReadSuperblock(file));
  BELAY_ASSIGN_OR_RETURN(reader.groups_[""], ReadObjectHeader(file, root));
  return reader;
}

// Null if there is none. `path` is empty, or ends with "/".
StatusOr<const FileReader::Messages*> FileReader::FindGroup(
    std::string_view path) {
  // From the root on: a path may have more parts than a stack has frames.
  const std::optional<Messages>* group = &groups_.find("")->second;
  int depth = 0;
  for (size_t begin = 0; begin < path.size() && group->has_value();) {
    if (++depth > kMaxDepth) {
      return file_->Damaged(0, "too many groups lie inside each other");
    }
    const size_t end = path.find('/', begin);
    const std::string_view above = path.substr(0, end + 1);
    auto known = groups_.find(above);
    if (known == groups_.end()) {
      BELAY_RETURN_IF_ERROR(
          file_->Charge(std::ssize(above), "the path of a group"));
      BELAY_ASSIGN_OR_RETURN(
          const std::optional<int64_t> address,
          FindLink(*file_, **group, path.substr(begin, end - begin)));
      std::optional<Messages> messages;
      if (address) {
        BELAY_ASSIGN_OR_RETURN(messages, ReadObjectHeader(*file_, *address));
      }
      known = groups_.emplace(above, std::move(messages)).first;
    }
    group = &known->second;
    begin = end + 1;
  }
  return group->has_value() ? &**group : nullptr;
}

StatusOr<std::optional<FileReader::Messages>> FileReader::FindObject(
    std::string_view path) {
  const size_t end = path.rfind('/');
  const size_t begin = end == path.npos ? 0 : end + 1;
  BELAY_ASSIGN_OR_RETURN(const Messages* group,
                         FindGroup(path.substr(0, begin)));
  if (group == nullptr) return std::nullopt;
  BELAY_ASSIGN_OR_RETURN(const std::optional<int64_t> address,
                         FindLink(*file_, *group, path.substr(begin)));
  if (!address) return std::nullopt;
  BELAY_ASSIGN_OR_RETURN(Messages messages, ReadObjectHeader(*file_, *address));
  return messages;
}

StatusOr<std::optional<ContiguousDataset>> FileReader::Find(
    std::string_view path) {
  BELAY_ASSIGN_OR_RETURN(const std::optional<Messages> messages,
                         FindObject(path));
  if (!messages) return std::nullopt;
  return ParseDataset(*file_, path, *messages);
}

StatusOr<std::optional<ChunkedDataset>> FileReader::FindChunked(
    std::string_view path) {
  BELAY_ASSIGN_OR_RETURN(const std::optional<Messages> messages,
                         FindObject(path));
  if (!messages) return std::nullopt;
  return ParseChunked(*file_, path, *messages);
}

}  // namespace belay::h5
