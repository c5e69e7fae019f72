// Shared by the h5 tests: a fresh directory per test, files as bytes, and a
// second opinion on every file by h5py.

#ifndef BELAY_TESTS_H5_TESTING_H_
#define BELAY_TESTS_H5_TESTING_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>
#include <stdlib.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "belay/status.h"
#include "core/status_macros.h"
#include "file_bytes.h"
#include "hdf5/file.h"

namespace belay::h5 {

// Returns the value, or fails the test with the message. Throws, so that the
// test ends there.
template <typename T>
T Value(StatusOr<T> result) {
  if (!result.ok()) throw std::runtime_error(result.status().ToString());
  return std::move(result).value();
}

inline void Ok(const Status& status) { EXPECT_EQ(status.ToString(), "OK"); }

// Writes the elements of a box, dense and row-major at `data`, by one process.
// An empty box or text writes nothing.
inline Status WriteHyperslab(const Handle& dataset, const Box& array_box,
                             const ElementType& type, const void* data) {
  const bool is_empty_text =
      type.dtype == DType::kString && type.string_bytes == 0;
  if (IsEmpty(array_box) || is_empty_text) return absl::OkStatus();
  BELAY_ASSIGN_OR_RETURN(const Box box, DatasetBox(type, array_box));
  BELAY_ASSIGN_OR_RETURN(const Handle memory,
                         NewSpace(box.shape, dataset.name()));
  BELAY_ASSIGN_OR_RETURN(const Handle selection, GetSpace(dataset));
  BELAY_RETURN_IF_ERROR(SelectBox(selection, box));
  BELAY_ASSIGN_OR_RETURN(const Handle stored, FileType(type));
  return Check(H5Dwrite(dataset.get(), stored.get(), memory.get(),
                        selection.get(), H5P_DEFAULT, data),
               "write dataset", dataset.name());
}

// Overwrites bytes of a file at an offset, as a writer without HDF5 does.
inline void PatchBytes(const std::string& path, int64_t offset,
                       const void* data, size_t size) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(offset);
  file.write(static_cast<const char*>(data),
             static_cast<std::streamsize>(size));
  ASSERT_TRUE(file.good()) << path;
}

// Returns what h5_read.py, which sits beside this file, says of a file.
inline nlohmann::json Python(const std::string& file,
                             const std::vector<std::string>& paths) {
  const auto script =
      std::filesystem::path(__FILE__).replace_filename("h5_read.py");
  std::string command = "/usr/bin/python3 '" + script.string() + "' '" + file;
  for (const std::string& path : paths) command += "' '" + path;
  FILE* pipe = popen((command + "'").c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("popen failed");
  std::string text;
  for (int c; (c = std::fgetc(pipe)) != EOF;) text += static_cast<char>(c);
  if (pclose(pipe) != 0) throw std::runtime_error("failed: " + command);
  return nlohmann::json::parse(text);
}

// Returns how many files, datasets, groups, named types and attributes are
// open.
inline std::vector<int64_t> OpenIds() {
  std::vector<int64_t> counts;
  for (const unsigned type : {H5F_OBJ_FILE, H5F_OBJ_DATASET, H5F_OBJ_GROUP,
                              H5F_OBJ_DATATYPE, H5F_OBJ_ATTR}) {
    counts.push_back(H5Fget_obj_count(hid_t{H5F_OBJ_ALL}, type));
  }
  return counts;
}

class H5Test : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = ::testing::TempDir() + "belay_h5_XXXXXX";
    ASSERT_NE(mkdtemp(dir_.data()), nullptr);
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  std::string Path(const std::string& name) const { return dir_ + "/" + name; }

  std::string dir_;
};

}  // namespace belay::h5

#endif  // BELAY_TESTS_H5_TESTING_H_
