#include "hdf5/native_read.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>

#include "base/catch_bad_alloc.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "geometry/runs.h"
#include "hdf5/error.h"
#include "hdf5/file.h"
#include "hdf5/property.h"
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

bool HasDataset(const std::string& file, const std::string& path) {
  const Handle source = OpenIfThere(file);
  if (!source.is_open()) return false;
  return Handle(H5Dopen2(source.get(), path.c_str(), H5P_DEFAULT), path)
      .is_open();
}

// Where HDF5 looks: beside the file, then in the working directory.
bool HasSource(const std::string& file, const std::string& source,
               const std::string& path) {
  if (source == ".") return HasDataset(file, path);
  const bool found =
      HasDataset(std::filesystem::path(file).replace_filename(source), path) ||
      HasDataset(source, path);
  H5Eclear2(H5E_DEFAULT);
  return found;
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
  BELAY_ASSIGN_OR_RETURN(const Handle properties,
                         Own(H5Dget_create_plist(dataset.get()),
                             "get properties of", dataset.name()));
  if (H5Pget_layout(properties.get()) != H5D_VIRTUAL) return absl::OkStatus();
  size_t count = 0;
  BELAY_RETURN_IF_ERROR(Check(H5Pget_virtual_count(properties.get(), &count),
                              "count sources of", dataset.name()));
  for (size_t i = 0; i < count; ++i) {
    BELAY_ASSIGN_OR_RETURN(
        const std::string source,
        SourceName(H5Pget_virtual_filename, dataset, properties, i));
    BELAY_ASSIGN_OR_RETURN(
        const std::string path,
        SourceName(H5Pget_virtual_dsetname, dataset, properties, i));
    if (HasSource(file, source, path)) continue;
    return absl::DataLossError(Cat("read dataset \"", dataset.name(),
                                   "\": its source \"", path, "\" in file \"",
                                   source, "\" is missing"));
  }
  return absl::OkStatus();
}

}  // namespace belay::h5
