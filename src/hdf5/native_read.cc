#include "hdf5/native_read.h"

#include <algorithm>
#include <cstddef>
#include <exception>
#include <filesystem>
#include <limits>
#include <set>
#include <system_error>

#include "absl/container/flat_hash_set.h"
#include "core/catch_exceptions.h"
#include "core/status_macros.h"
#include "core/strided_copy.h"
#include "core/text.h"
#include "hdf5/file.h"

namespace belay::h5 {
namespace {

// A single read of 2 GiB fails, and each small read costs a call.
constexpr int64_t kMaxReadBytes = int64_t{256} << 20;

Status ReadTile(const Handle& dataset, const Handle& type, const Handle& space,
                const Box& box, std::byte* data) {
  BELAY_RETURN_IF_ERROR(SelectBox(space, box));
  BELAY_ASSIGN_OR_RETURN(const Handle memory,
                         NewSpace(box.shape, dataset.name()));
  return Check(H5Dread(dataset.get(), type.get(), memory.get(), space.get(),
                       H5P_DEFAULT, data),
               "read dataset", dataset.name());
}

StatusOr<std::string> ReadVariableText(const Handle& dataset,
                                       const Handle& type) {
  char* characters = nullptr;
  const Status status = Check(H5Dread(dataset.get(), type.get(), H5S_ALL,
                                      H5S_ALL, H5P_DEFAULT, &characters),
                              "read dataset", dataset.name());
  std::string text = characters == nullptr ? "" : characters;
  H5free_memory(characters);
  BELAY_RETURN_IF_ERROR(status);
  return text;
}

void RemovePadding(H5T_str_t padding, std::string& text) {
  if (padding == H5T_STR_NULLTERM) {
    text.resize(std::min(text.find('\0'), text.size()));
    return;
  }
  const char filler = padding == H5T_STR_SPACEPAD ? ' ' : '\0';
  text.resize(text.find_last_not_of(filler) + 1);
}

StatusOr<std::string> ReadFixedText(const Handle& dataset, const Handle& type) {
  const size_t bytes = H5Tget_size(type.get());
  std::string text;
  BELAY_RETURN_IF_ERROR(
      CatchBadAlloc(Cat(bytes, " bytes of \"", dataset.name(), "\""), [&] {
        text.resize(bytes);
        return absl::OkStatus();
      }));
  BELAY_RETURN_IF_ERROR(Check(H5Dread(dataset.get(), type.get(), H5S_ALL,
                                      H5S_ALL, H5P_DEFAULT, text.data()),
                              "read dataset", dataset.name()));
  RemovePadding(H5Tget_strpad(type.get()), text);
  return text;
}

// --- Sources of virtual datasets ---

// A source dataset of a virtual dataset.
struct Source {
  std::filesystem::path file;
  Handle open_file;
  Handle dataset;  // not open if it is missing
};

Source OpenIn(const std::filesystem::path& file, const std::string& path) {
  Source source{.file = file, .open_file = OpenIfThere(file)};
  if (source.open_file.is_open()) {
    source.dataset = Handle(
        H5Dopen2(source.open_file.get(), path.c_str(), H5P_DEFAULT), path);
  }
  return source;
}

// Searches where HDF5 does: in the directory of the file's path, in the working
// directory, and in the directory of the file that symbolic links lead to.
Source OpenSource(const std::filesystem::path& file, const std::string& name,
                  const std::string& path) {
  if (name == ".") return OpenIn(file, path);
  Source source =
      OpenIn(std::filesystem::path(file).replace_filename(name), path);
  if (!source.dataset.is_open()) source = OpenIn(name, path);
  if (!source.dataset.is_open()) {
    std::error_code error;
    std::filesystem::path real = std::filesystem::canonical(file, error);
    if (!error) source = OpenIn(real.replace_filename(name), path);
  }
  H5Eclear2(H5E_DEFAULT);
  return source;
}

// The sources of a virtual dataset and, recursively, of its virtual sources.
struct Sources {
  std::set<std::vector<std::string>> seen;      // file, name and dataset
  std::vector<std::vector<std::string>> chain;  // of the current recursion
  std::set<std::string> files;
  std::vector<Identity> shown_by;  // datasets of the current recursion
  Status problem;  // first source that is missing or its own source
};

Status ShowsItself(std::string_view path) {
  return absl::DataLossError(
      Cat("read dataset \"", path, "\": it shows itself"));
}

Status FindSources(const Handle& dataset, const std::filesystem::path& file,
                   Sources& sources) {
  constexpr size_t kMaxShownFrom = 16;
  constexpr size_t kMaxSources = 100'000;
  BELAY_ASSIGN_OR_RETURN(const Handle properties,
                         GetCreationProperties(dataset));
  if (H5Pget_layout(properties.get()) != H5D_VIRTUAL) return absl::OkStatus();
  if (sources.shown_by.size() == kMaxShownFrom) {
    return absl::UnimplementedError(
        Cat("read dataset \"", dataset.name(),
            "\": it is shown by too many virtual datasets, one through the "
            "other (need at most ",
            kMaxShownFrom, ")"));
  }
  BELAY_ASSIGN_OR_RETURN(const Identity identity, FindIdentity(dataset));
  if (std::ranges::find(sources.shown_by, identity) != sources.shown_by.end()) {
    sources.problem.Update(ShowsItself(dataset.name()));
    return absl::OkStatus();
  }
  sources.shown_by.push_back(identity);
  size_t count = 0;
  BELAY_RETURN_IF_ERROR(Check(H5Pget_virtual_count(properties.get(), &count),
                              "count sources of", dataset.name()));
  for (size_t i = 0; i < count; ++i) {
    BELAY_ASSIGN_OR_RETURN(
        const std::string name,
        ReadSourceName(H5Pget_virtual_filename, dataset, properties, i,
                       absl::StatusCode::kUnimplemented));
    BELAY_ASSIGN_OR_RETURN(
        const std::string path,
        ReadSourceName(H5Pget_virtual_dsetname, dataset, properties, i,
                       absl::StatusCode::kUnimplemented));
    const std::vector<std::string> names = {file.string(), name, path};
    if (std::ranges::find(sources.chain, names) != sources.chain.end()) {
      sources.problem.Update(ShowsItself(path));
      continue;
    }
    if (!sources.seen.insert(names).second) continue;
    if (sources.seen.size() > kMaxSources) {
      return absl::UnimplementedError(
          Cat("read dataset \"", dataset.name(),
              "\": it has too many sources (need at most ", kMaxSources, ")"));
    }
    const Source source = OpenSource(file, name, path);
    if (!source.dataset.is_open()) {
      sources.problem.Update(absl::DataLossError(
          Cat("read dataset \"", dataset.name(), "\": its source \"", path,
              "\" in file \"", name, "\" is missing")));
      continue;
    }
    std::error_code error;  // then `real` is empty
    const auto real = std::filesystem::canonical(source.file, error);
    sources.files.insert((error ? source.file : real).string());
    sources.chain.push_back(names);
    BELAY_RETURN_IF_ERROR(FindSources(source.dataset, source.file, sources));
    sources.chain.pop_back();
  }
  sources.shown_by.pop_back();
  return absl::OkStatus();
}

// --- Stored bytes ---

constexpr int64_t kMaxStored = std::numeric_limits<int64_t>::max();

int64_t Sum(int64_t a, int64_t b) {
  return a > kMaxStored - b ? kMaxStored : a + b;
}

// Returns 0 for a missing file.
int64_t FileBytes(const std::filesystem::path& path) {
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  return error
             ? 0
             : static_cast<int64_t>(std::min<std::uintmax_t>(size, kMaxStored));
}

// Returns the total size of the files with a virtual dataset's sources.
StatusOr<int64_t> CountSourceBytes(const Handle& dataset,
                                   const std::string& file) {
  Sources sources;
  const Status found = FindSources(dataset, file, sources);
  if (absl::IsUnimplemented(found)) return 0;
  BELAY_RETURN_IF_ERROR(found);
  int64_t bytes = 0;
  for (const std::string& source : sources.files) {
    bytes = Sum(bytes, FileBytes(source));
  }
  return bytes;
}

// Returns the bytes that a dataset's `count` raw files have for it. HDF5 looks
// for them in the directory of `file`, and in the working directory.
StatusOr<int64_t> CountRawFileBytes(const Handle& dataset,
                                    const Handle& properties,
                                    const std::string& file, int count) {
  int64_t bytes = 0;
  for (int i = 0; i < count; ++i) {
    constexpr size_t kMaxName = 4096;
    std::string name(kMaxName + 1, '\0');
    off_t offset = 0;
    hsize_t size = 0;
    BELAY_RETURN_IF_ERROR(
        Check(H5Pget_external(properties.get(), static_cast<unsigned>(i),
                              kMaxName, name.data(), &offset, &size),
              "get raw file of", dataset.name()));
    name.resize(std::min(name.find('\0'), kMaxName));
    const auto beside = std::filesystem::path(file).replace_filename(name);
    const int64_t file_bytes = std::max(FileBytes(beside), FileBytes(name));
    const int64_t there =
        std::max<int64_t>(file_bytes - std::max<int64_t>(offset, 0), 0);
    bytes = Sum(bytes, static_cast<int64_t>(std::min<hsize_t>(
                           size, static_cast<hsize_t>(there))));
  }
  return bytes;
}

}  // namespace

Status ReadNative(const Handle& dataset, DType dtype, const Box& box,
                  void* data) {
  if (IsEmpty(box)) return absl::OkStatus();
  BELAY_ASSIGN_OR_RETURN(const Handle type, FileType({dtype}));
  BELAY_ASSIGN_OR_RETURN(const Handle space, GetSpace(dataset));
  auto* target = static_cast<std::byte*>(data);
  return TryForEachTile(box, kMaxReadBytes / DTypeSize(dtype),
                        [&](const Box& tile) {
                          std::byte* const place = target;
                          target += NumElements(tile.shape) * DTypeSize(dtype);
                          return ReadTile(dataset, type, space, tile, place);
                        });
}

StatusOr<std::string> ReadNativeText(const Handle& dataset) {
  BELAY_ASSIGN_OR_RETURN(const Handle space, GetSpace(dataset));
  if (H5Sget_simple_extent_type(space.get()) == H5S_NULL) return std::string();
  BELAY_ASSIGN_OR_RETURN(const Handle type, GetType(dataset));
  const bool is_variable = H5Tis_variable_str(type.get()) > 0;
  return is_variable ? ReadVariableText(dataset, type)
                     : ReadFixedText(dataset, type);
}

Status CheckSources(const Handle& dataset, const std::string& file) {
  Sources sources;
  BELAY_RETURN_IF_ERROR(FindSources(dataset, file, sources));
  return sources.problem;
}

StatusOr<int64_t> StoredBytes(const Handle& dataset) {
  BELAY_ASSIGN_OR_RETURN(const std::string file,
                         ReadName(
                             [&](char* name, size_t size) {
                               return H5Fget_name(dataset.get(), name, size);
                             },
                             "get file of", dataset.name()));
  BELAY_ASSIGN_OR_RETURN(const Handle properties,
                         GetCreationProperties(dataset));
  if (H5Pget_layout(properties.get()) == H5D_VIRTUAL) {
    return CountSourceBytes(dataset, file);
  }
  BELAY_ASSIGN_OR_RETURN(const int64_t raw_files,
                         Number(H5Pget_external_count(properties.get()),
                                "count raw files of", dataset.name()));
  if (raw_files > 0) {
    return CountRawFileBytes(dataset, properties, file,
                             static_cast<int>(raw_files));
  }
  // A damaged file may claim any size.
  const auto stored = static_cast<int64_t>(
      std::min<hsize_t>(H5Dget_storage_size(dataset.get()), kMaxStored));
  return std::min(stored, FileBytes(file));
}

namespace {

#if H5_VERSION_GE(1, 12, 0)
using ObjectInfo = H5O_info1_t;
#else
using ObjectInfo = H5O_info_t;
#endif

}  // namespace

StatusOr<Identity> FindIdentity(const Handle& object) {
  ObjectInfo info;
  BELAY_RETURN_IF_ERROR(Check(H5Oget_info2(object.get(), &info, H5O_INFO_BASIC),
                              "get place of", object.name()));
  return Identity(info.fileno, info.addr);
}

// --- Virtual pieces ---

StatusOr<std::string> ReadSourceName(GetSourceName get, const Handle& dataset,
                                     const Handle& properties, size_t index,
                                     absl::StatusCode code_of_pattern) {
  BELAY_ASSIGN_OR_RETURN(const std::string format,
                         ReadName(
                             [&](char* name, size_t size) {
                               return get(properties.get(), index, name, size);
                             },
                             "get source of", dataset.name()));
  std::string name;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] == '%' && format.substr(i + 1, 1) != "%") {
      return Status(
          code_of_pattern,
          Cat("read dataset \"", dataset.name(),
              "\": its sources are given by a pattern (\"", format, "\")"));
    }
    if (format[i] == '%') ++i;
    name += format[i];
  }
  return name;
}

namespace {

// Returns the box that is selected in a dataspace.
StatusOr<Box> SelectedBox(const Handle& space) {
  BELAY_ASSIGN_OR_RETURN(const int64_t ndim,
                         Number(H5Sget_simple_extent_ndims(space.get()),
                                "get number of axes of", space.name()));
  Dims begin(static_cast<size_t>(ndim)), last(begin);
  BELAY_RETURN_IF_ERROR(
      Check(H5Sget_select_bounds(space.get(), begin.data(), last.data()),
            "get selection of", space.name()));
  BELAY_ASSIGN_OR_RETURN(const int64_t selected,
                         Number(H5Sget_select_npoints(space.get()),
                                "get selection of", space.name()));
  Box box{Shape(begin.begin(), begin.end()), Shape(begin.size())};
  for (size_t i = 0; i < begin.size(); ++i) {
    box.shape[i] = static_cast<int64_t>(last[i] - begin[i] + 1);
  }
  if (NumElements(box.shape) == selected) return box;
  return absl::DataLossError(
      Cat("open dataset \"", space.name(), "\": a piece fills no box"));
}

StatusOr<VirtualPiece> ReadPiece(const Handle& dataset,
                                 const Handle& properties, size_t index) {
  VirtualPiece piece;
  BELAY_ASSIGN_OR_RETURN(
      piece.file, ReadSourceName(H5Pget_virtual_filename, dataset, properties,
                                 index, absl::StatusCode::kDataLoss));
  BELAY_ASSIGN_OR_RETURN(
      piece.path, ReadSourceName(H5Pget_virtual_dsetname, dataset, properties,
                                 index, absl::StatusCode::kDataLoss));
  BELAY_ASSIGN_OR_RETURN(const Handle shown,
                         Own(H5Pget_virtual_vspace(properties.get(), index),
                             "get pieces of", dataset.name()));
  BELAY_ASSIGN_OR_RETURN(piece.box, SelectedBox(shown));
  BELAY_ASSIGN_OR_RETURN(const Handle source,
                         Own(H5Pget_virtual_srcspace(properties.get(), index),
                             "get pieces of", dataset.name()));
  if (H5Sget_select_type(source.get()) == H5S_SEL_ALL) return piece;
  BELAY_ASSIGN_OR_RETURN(const Box whole, SelectedBox(source));
  if (whole == WholeBox(piece.box.shape)) return piece;
  return absl::DataLossError(Cat("open dataset \"", dataset.name(),
                                 "\": a piece is a part of \"", piece.path,
                                 "\""));
}

}  // namespace

StatusOr<std::vector<VirtualPiece>> ReadPieces(const Handle& dataset) {
  BELAY_ASSIGN_OR_RETURN(const Handle properties,
                         GetCreationProperties(dataset));
  std::vector<VirtualPiece> pieces;
  if (H5Pget_layout(properties.get()) != H5D_VIRTUAL) return pieces;
  size_t count = 0;
  BELAY_RETURN_IF_ERROR(Check(H5Pget_virtual_count(properties.get(), &count),
                              "count sources of", dataset.name()));
  for (size_t i = 0; i < count; ++i) {
    BELAY_ASSIGN_OR_RETURN(VirtualPiece piece,
                           ReadPiece(dataset, properties, i));
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

// --- Dataset listing ---

namespace {

// Groups that link to each other can have exponentially many paths.
constexpr int64_t kMaxRepeats = 10'000;
// ListGroup is recursive, and the stack is finite.
constexpr size_t kMaxDepth = 1000;
constexpr size_t kPathShown = 100;

struct ListedLink {
  std::string name;
  bool is_hard = true;
};

// HDF5 is C: no exception may pass through it.
herr_t CollectLink(hid_t /*group*/, const char* name, const H5L_info_t* info,
                   void* data) noexcept {
  try {
    static_cast<std::vector<ListedLink>*>(data)->push_back(
        {.name = name, .is_hard = info->type == H5L_TYPE_HARD});
    return 0;
  } catch (const std::exception&) {
    return -1;
  }
}

class Walk {
 public:
  // Lists the datasets below the group at `path`.
  Status ListGroup(const Handle& group, const std::string& path) {
    BELAY_ASSIGN_OR_RETURN(const Identity identity, FindIdentity(group));
    if (std::find(above_.begin(), above_.end(), identity) != above_.end()) {
      return absl::OkStatus();
    }
    if (!seen_.insert(identity).second && ++num_repeats_ > kMaxRepeats) {
      return absl::ResourceExhaustedError(
          Cat("list group \"", path, "\": more than ", kMaxRepeats,
              " paths lead to groups that have another path"));
    }
    if (above_.size() == kMaxDepth) {
      return absl::ResourceExhaustedError(
          Cat("list group \"", path.substr(0, kPathShown),
              "...\": too many groups inside each other (need at most ",
              kMaxDepth, ")"));
    }
    above_.push_back(identity);
    std::vector<ListedLink> links;
    BELAY_RETURN_IF_ERROR(
        Check(H5Literate(group.get(), H5_INDEX_NAME, H5_ITER_INC, nullptr,
                         CollectLink, &links),
              "list group", group.name()));
    for (const ListedLink& link : links) {
      BELAY_RETURN_IF_ERROR(ListLink(
          group, link, path.empty() ? link.name : Cat(path, "/", link.name)));
    }
    above_.pop_back();
    return absl::OkStatus();
  }

  std::vector<ListedDataset> TakeListed() { return std::move(listed_); }

 private:
  Status ListLink(const Handle& group, const ListedLink& link,
                  const std::string& path) {
    BELAY_ASSIGN_OR_RETURN(
        const Handle access,
        LinkAccess(H5P_LINK_ACCESS, OtherFiles::kFollowed, path));
    const hid_t id = H5Oopen(group.get(), link.name.c_str(), access.get());
    if (id < 0 && !link.is_hard) {
      H5Eclear2(H5E_DEFAULT);
      listed_.push_back(
          {.path = path, .array = {.problem = "is a link that leads nowhere"}});
      return absl::OkStatus();
    }
    BELAY_ASSIGN_OR_RETURN(const Handle object, Own(id, "open object", path));
    const H5I_type_t type = H5Iget_type(object.get());
    if (type == H5I_GROUP) return ListGroup(object, path);
    if (type != H5I_DATASET) return absl::OkStatus();
    BELAY_ASSIGN_OR_RETURN(NativeArray array, DescribeDataset(object));
    listed_.push_back({.path = path, .array = std::move(array)});
    return absl::OkStatus();
  }

  std::vector<Identity> above_;
  absl::flat_hash_set<Identity> seen_;
  int64_t num_repeats_ = 0;
  std::vector<ListedDataset> listed_;
};

}  // namespace

StatusOr<std::vector<ListedDataset>> ListDatasets(const Handle& file) {
  BELAY_ASSIGN_OR_RETURN(
      const Handle root,
      Own(H5Gopen2(file.get(), "/", H5P_DEFAULT), "open group", "/"));
  Walk walk;
  BELAY_RETURN_IF_ERROR(walk.ListGroup(root, ""));
  std::vector<ListedDataset> listed = walk.TakeListed();
  std::sort(listed.begin(), listed.end(),
            [](const auto& a, const auto& b) { return a.path < b.path; });
  return listed;
}

}  // namespace belay::h5
