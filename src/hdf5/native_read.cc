#include "hdf5/native_read.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <limits>
#include <set>
#include <system_error>

#include "core/catch_exceptions.h"
#include "core/status_macros.h"
#include "core/strided_copy.h"
#include "core/text.h"
#include "hdf5/dataset_listing.h"
#include "hdf5/file.h"

namespace belay::h5 {
namespace {

// One read of 2 GiB fails; small ones cost a call each.
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

// Looks where HDF5 does: beside the path of the file, in the working directory,
// and beside the file that links of that path lead to.
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

// The sources of a virtual dataset, and the sources of virtual sources.
struct Sources {
  std::set<std::vector<std::string>> seen;      // file, name and dataset
  std::vector<std::vector<std::string>> chain;  // those of the recursion
  std::set<std::string> files;
  std::vector<Identity> shown_by;  // the datasets of the recursion
  Status problem;  // the first source that is missing or shows itself
};

Status ShowsItself(std::string_view path) {
  return absl::DataLossError(
      Cat("read dataset \"", path, "\": it shows itself"));
}

Status FindSources(const Handle& dataset, const std::filesystem::path& file,
                   Sources& sources) {
  constexpr size_t kMostDepth = 16;
  constexpr size_t kMostSources = 100'000;
  BELAY_ASSIGN_OR_RETURN(const Handle properties,
                         GetCreationProperties(dataset));
  if (H5Pget_layout(properties.get()) != H5D_VIRTUAL) return absl::OkStatus();
  if (sources.shown_by.size() == kMostDepth) {
    return absl::UnimplementedError(
        Cat("read dataset \"", dataset.name(),
            "\": it is shown by too many virtual datasets, one through the "
            "other (need at most ",
            kMostDepth, ")"));
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
    if (sources.seen.size() > kMostSources) {
      return absl::UnimplementedError(
          Cat("read dataset \"", dataset.name(),
              "\": it has too many sources (need at most ", kMostSources, ")"));
    }
    const Source source = OpenSource(file, name, path);
    if (!source.dataset.is_open()) {
      sources.problem.Update(absl::DataLossError(
          Cat("read dataset \"", dataset.name(), "\": its source \"", path,
              "\" in file \"", name, "\" is missing")));
      continue;
    }
    std::error_code error;  // then the path is empty
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

constexpr int64_t kMostStored = std::numeric_limits<int64_t>::max();

int64_t Sum(int64_t a, int64_t b) {
  return a > kMostStored - b ? kMostStored : a + b;
}

// Returns 0 for a missing file.
int64_t FileBytes(const std::filesystem::path& path) {
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  return error ? 0
               : static_cast<int64_t>(
                     std::min<std::uintmax_t>(size, kMostStored));
}

// Returns the bytes of the files of a virtual dataset's sources.
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

// Returns the bytes that the `count` raw files of a dataset have for it. HDF5
// looks for them beside `file`, and in the working directory.
StatusOr<int64_t> CountRawFileBytes(const Handle& dataset,
                                    const Handle& properties,
                                    const std::string& file, int count) {
  int64_t bytes = 0;
  for (int i = 0; i < count; ++i) {
    constexpr size_t kMostName = 4096;
    std::string name(kMostName + 1, '\0');
    off_t offset = 0;
    hsize_t size = 0;
    BELAY_RETURN_IF_ERROR(
        Check(H5Pget_external(properties.get(), static_cast<unsigned>(i),
                              kMostName, name.data(), &offset, &size),
              "get raw file of", dataset.name()));
    name.resize(std::min(name.find('\0'), kMostName));
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
      std::min<hsize_t>(H5Dget_storage_size(dataset.get()), kMostStored));
  return std::min(stored, FileBytes(file));
}

}  // namespace belay::h5
