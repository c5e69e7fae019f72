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
#include "hdf5/handle.h"
#include "hdf5/types.h"

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

StatusOr<Handle> SpaceOf(const Handle& dataset) {
  return Own(H5Dget_space(dataset.get()), "get dataspace of", dataset.name());
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

// Without what fills the text up to its length.
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

// A name in which HDF5 reads "%%" as a percent sign, and "%b" as a number.
StatusOr<std::string> PlainName(const Handle& dataset,
                                const std::string& format) {
  std::string name;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] == '%' && format.substr(i + 1, 1) != "%") {
      return absl::UnimplementedError(
          Cat("read dataset \"", dataset.name(),
              "\": its sources are given by a pattern (\"", format, "\")"));
    }
    if (format[i] == '%') ++i;
    name += format[i];
  }
  return name;
}

using GetName = ssize_t (*)(hid_t, size_t, char*, size_t);

StatusOr<std::string> SourceName(GetName get, const Handle& dataset,
                                 const Handle& properties, size_t index) {
  BELAY_ASSIGN_OR_RETURN(const int64_t length,
                         Number(get(properties.get(), index, nullptr, 0),
                                "get source of", dataset.name()));
  std::string name(static_cast<size_t>(length) + 1, '\0');
  BELAY_RETURN_IF_ERROR(
      Number(get(properties.get(), index, name.data(), name.size()),
             "get source of", dataset.name())
          .status());
  name.pop_back();
  return PlainName(dataset, name);
}

// A dataset that a virtual one shows, and the path of its file.
struct Source {
  std::filesystem::path file;
  Handle open_file;
  Handle dataset;  // none: it is missing
};

Source OpenIn(const std::filesystem::path& file, const std::string& path) {
  Source source{.file = file, .open_file = OpenIfThere(file)};
  if (source.open_file.is_open()) {
    source.dataset = Handle(
        H5Dopen2(source.open_file.get(), path.c_str(), H5P_DEFAULT), path);
  }
  return source;
}

// Where HDF5 looks: beside the path of the file, in the working directory, and
// beside the file that links of that path lead to.
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

// The sources of a virtual dataset, those that its sources show in turn, too.
struct Sources {
  std::set<std::vector<std::string>> seen;      // file, name and dataset
  std::vector<std::vector<std::string>> chain;  // of these, on the way there
  std::set<std::string> files;                  // each counts once
  std::vector<Identity> shown_by;               // the datasets on the way there
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
                         Own(H5Dget_create_plist(dataset.get()),
                             "get properties of", dataset.name()));
  if (H5Pget_layout(properties.get()) != H5D_VIRTUAL) return absl::OkStatus();
  if (sources.shown_by.size() == kMostDepth) {
    return absl::UnimplementedError(
        Cat("read dataset \"", dataset.name(),
            "\": it is shown by too many virtual datasets, one through the "
            "other (need at most ",
            kMostDepth, ")"));
  }
  BELAY_ASSIGN_OR_RETURN(const Identity identity, IdentityOf(dataset));
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
        SourceName(H5Pget_virtual_filename, dataset, properties, i));
    BELAY_ASSIGN_OR_RETURN(
        const std::string path,
        SourceName(H5Pget_virtual_dsetname, dataset, properties, i));
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

// --- What is stored ---

constexpr int64_t kMostStored = std::numeric_limits<int64_t>::max();

int64_t Sum(int64_t a, int64_t b) {
  return a > kMostStored - b ? kMostStored : a + b;
}

// The path of the file that has the dataset.
StatusOr<std::string> FileThatHas(const Handle& dataset) {
  BELAY_ASSIGN_OR_RETURN(const int64_t length,
                         Number(H5Fget_name(dataset.get(), nullptr, 0),
                                "get file of", dataset.name()));
  std::string name(static_cast<size_t>(length) + 1, '\0');
  BELAY_RETURN_IF_ERROR(
      Number(H5Fget_name(dataset.get(), name.data(), name.size()),
             "get file of", dataset.name())
          .status());
  name.pop_back();
  return name;
}

// None of a file that is not there.
int64_t SizeOfFile(const std::filesystem::path& path) {
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  return error ? 0
               : static_cast<int64_t>(
                     std::min<std::uintmax_t>(size, kMostStored));
}

// Of a file that another one names: HDF5 looks beside that and in the working
// directory.
int64_t SizeOfNamed(const std::string& file, const std::string& name) {
  const std::filesystem::path beside =
      std::filesystem::path(file).replace_filename(name);
  return std::max(SizeOfFile(beside), SizeOfFile(name));
}

// Of the files that a virtual dataset shows.
StatusOr<int64_t> SourceBytes(const Handle& dataset, const std::string& file) {
  Sources sources;
  const Status found = FindSources(dataset, file, sources);
  if (absl::IsUnimplemented(found)) return 0;
  BELAY_RETURN_IF_ERROR(found);
  int64_t bytes = 0;
  for (const std::string& source : sources.files) {
    bytes = Sum(bytes, SizeOfFile(source));
  }
  return bytes;
}

// Of the files that have the raw bytes of a dataset.
StatusOr<int64_t> ExternalBytes(const Handle& dataset, const Handle& properties,
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
    const int64_t there = std::max<int64_t>(
        SizeOfNamed(file, name) - std::max<int64_t>(offset, 0), 0);
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
  BELAY_ASSIGN_OR_RETURN(const Handle space, SpaceOf(dataset));
  auto* target = static_cast<std::byte*>(data);
  return TryForEachTile(box, kMaxReadBytes / DTypeSize(dtype),
                        [&](const Box& tile) {
                          std::byte* const place = target;
                          target += NumElements(tile.shape) * DTypeSize(dtype);
                          return ReadTile(dataset, type, space, tile, place);
                        });
}

StatusOr<std::string> ReadNativeText(const Handle& dataset) {
  BELAY_ASSIGN_OR_RETURN(const Handle space, SpaceOf(dataset));
  if (H5Sget_simple_extent_type(space.get()) == H5S_NULL) return std::string();
  BELAY_ASSIGN_OR_RETURN(const Handle type, Own(H5Dget_type(dataset.get()),
                                                "get type of", dataset.name()));
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
  BELAY_ASSIGN_OR_RETURN(const std::string file, FileThatHas(dataset));
  BELAY_ASSIGN_OR_RETURN(const Handle properties,
                         Own(H5Dget_create_plist(dataset.get()),
                             "get properties of", dataset.name()));
  if (H5Pget_layout(properties.get()) == H5D_VIRTUAL) {
    return SourceBytes(dataset, file);
  }
  BELAY_ASSIGN_OR_RETURN(const int64_t raw_files,
                         Number(H5Pget_external_count(properties.get()),
                                "count raw files of", dataset.name()));
  if (raw_files > 0) {
    return ExternalBytes(dataset, properties, file,
                         static_cast<int>(raw_files));
  }
  // A damaged file says anything.
  const auto stored = static_cast<int64_t>(
      std::min<hsize_t>(H5Dget_storage_size(dataset.get()), kMostStored));
  return std::min(stored, SizeOfFile(file));
}

}  // namespace belay::h5
