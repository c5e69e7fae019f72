// What HDF5 says about everything in a file, as lines of text: for tests that
// compare two files.

#ifndef BELAY_TESTS_H5_DESCRIPTION_H_
#define BELAY_TESTS_H5_DESCRIPTION_H_

#include <hdf5.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "h5_testing.h"

namespace belay::h5 {

inline std::string Hex(const std::string& bytes) {
  return absl::BytesToHexString(bytes);
}

inline std::string PropertiesText(hid_t properties) {
  size_t size = 0;
  EXPECT_GE(H5Pencode(properties, nullptr, &size), 0);
  std::string bytes(size, '\0');
  EXPECT_GE(H5Pencode(properties, bytes.data(), &size), 0);
  bool track_times = true;
  EXPECT_GE(H5Pget_obj_track_times(properties, &track_times), 0);
  H5Pclose(properties);
  return absl::StrCat(Hex(bytes), track_times ? " times" : "");
}

inline std::string TypeText(hid_t type) {
  size_t size = 0;
  EXPECT_GE(H5Tencode(type, nullptr, &size), 0);
  std::string bytes(size, '\0');
  EXPECT_GE(H5Tencode(type, bytes.data(), &size), 0);
  H5Tclose(type);
  return Hex(bytes);
}

inline std::string SpaceText(hid_t space) {
  hsize_t lengths[H5S_MAX_RANK], largest[H5S_MAX_RANK];
  const int ndim = H5Sget_simple_extent_dims(space, lengths, largest);
  EXPECT_GE(ndim, 0);
  const int kind = H5Sget_simple_extent_type(space);
  H5Sclose(space);
  return absl::StrCat(kind, " [", absl::StrJoin(lengths, lengths + ndim, ","),
                      "] of [", absl::StrJoin(largest, largest + ndim, ","),
                      "]");
}

inline std::string AttributesText(hid_t object) {
  H5O_info_t info;
  EXPECT_GE(H5Oget_info2(object, &info, H5O_INFO_NUM_ATTRS), 0);
  std::string text = absl::StrCat(info.num_attrs, " attributes");
  for (hsize_t i = 0; i < info.num_attrs; ++i) {
    const hid_t attribute = H5Aopen_by_idx(
        object, ".", H5_INDEX_NAME, H5_ITER_INC, i, H5P_DEFAULT, H5P_DEFAULT);
    char name[64] = "";
    EXPECT_GE(H5Aget_name(attribute, sizeof(name), name), 0);
    const hid_t type = H5Aget_type(attribute);
    std::string value(H5Aget_storage_size(attribute), '\0');
    EXPECT_GE(H5Aread(attribute, type, value.data()), 0);
    absl::StrAppend(&text, " ", name, "=", value, " ", TypeText(type), " ",
                    SpaceText(H5Aget_space(attribute)));
    H5Aclose(attribute);
  }
  return text;
}

// Types are left to CheckStoredType: one type can be encoded in several ways.
inline std::string DatasetText(hid_t dataset) {
  return absl::StrCat("dataset ", SpaceText(H5Dget_space(dataset)), " ",
                      PropertiesText(H5Dget_create_plist(dataset)), " ",
                      H5Dget_storage_size(dataset), " bytes, ",
                      AttributesText(dataset));
}

inline std::string GroupText(hid_t group) {
  H5G_info_t info;
  EXPECT_GE(H5Gget_info(group, &info), 0);
  return absl::StrCat("group of ", info.nlinks, " stored as ",
                      static_cast<int>(info.storage_type), " ",
                      PropertiesText(H5Gget_create_plist(group)), " ",
                      AttributesText(group));
}

// What a link to another file says; nothing for one to an object of this file.
inline std::string LinkText(hid_t group, const std::string& name) {
  H5L_info_t info;
  EXPECT_GE(H5Lget_info(group, name.c_str(), &info, H5P_DEFAULT), 0) << name;
  if (info.type == H5L_TYPE_HARD) return "";
  EXPECT_EQ(info.type, H5L_TYPE_EXTERNAL) << name;
  std::string value(info.u.val_size, '\0');
  EXPECT_GE(
      H5Lget_val(group, name.c_str(), value.data(), value.size(), H5P_DEFAULT),
      0);
  return absl::StrCat("link ", Hex(value));
}

// Appends a line for the object, and those of what is below it.
inline void Describe(hid_t object, const std::string& path,
                     std::vector<std::string>& lines) {
  if (H5Iget_type(object) == H5I_DATASET) {
    lines.push_back(absl::StrCat(path, ": ", DatasetText(object)));
    return;
  }
  lines.push_back(absl::StrCat(path, ": ", GroupText(object)));
  std::vector<std::string> names;
  const auto visit = [](hid_t, const char* name, const H5L_info_t* info,
                        void* out) {
    EXPECT_EQ(info->cset, H5T_CSET_UTF8) << name;
    static_cast<std::vector<std::string>*>(out)->push_back(name);
    return herr_t{0};
  };
  EXPECT_GE(
      H5Literate(object, H5_INDEX_NAME, H5_ITER_INC, nullptr, visit, &names),
      0);
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end())) << path;
  for (const std::string& name : names) {
    if (const std::string target = LinkText(object, name); !target.empty()) {
      lines.push_back(absl::StrCat(path, "/", name, ": ", target));
      continue;
    }
    const hid_t child = H5Oopen(object, name.c_str(), H5P_DEFAULT);
    EXPECT_GE(child, 0) << path << "/" << name;
    if (child < 0) continue;
    Describe(child, absl::StrCat(path, "/", name), lines);
    H5Oclose(child);
  }
}

// Returns a line for each object of a file: everything but where its bytes lie.
inline std::vector<std::string> DescriptionOf(const std::string& path) {
  std::vector<std::string> lines;
  Handle file = Value(OpenFileReadOnly(path));
  const hid_t root = H5Oopen(file.get(), "/", H5P_DEFAULT);
  Describe(root, "", lines);
  H5Oclose(root);
  Ok(file.Close());
  return lines;
}

}  // namespace belay::h5

#endif  // BELAY_TESTS_H5_DESCRIPTION_H_
