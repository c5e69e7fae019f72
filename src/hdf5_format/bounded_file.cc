#include "hdf5_format/bounded_file.h"

#include "base/status_macros.h"
#include "base/text.h"

namespace belay::h5 {

Status BoundedFile::ReadTo(int64_t offset, void* data, int64_t bytes,
                           std::string_view what) {
  if (offset < 0 || bytes < 0 || offset > size_ || bytes > size_ - offset) {
    return absl::DataLossError(
        Cat("read \"", name_, "\": ", what, " of ", bytes, " bytes at offset ",
            offset, " does not lie in the file (found ", size_, " bytes)"));
  }
  return bytes == 0 ? absl::OkStatus() : read_(offset, data, bytes);
}

StatusOr<std::string> BoundedFile::Read(int64_t offset, int64_t bytes,
                                        std::string_view what) {
  // Looked at before memory is taken.
  BELAY_RETURN_IF_ERROR(ReadTo(offset, nullptr, 0, what));
  if (bytes < 0 || bytes > size_ - offset) {
    return ReadTo(offset, nullptr, bytes, what);
  }
  BELAY_RETURN_IF_ERROR(Charge(bytes, what));
  std::string read(static_cast<size_t>(bytes), '\0');
  BELAY_RETURN_IF_ERROR(ReadTo(offset, read.data(), bytes, what));
  return read;
}

Status BoundedFile::Charge(int64_t bytes, std::string_view what) {
  if (bytes <= budget_) {
    budget_ -= bytes;
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(
      Cat("read \"", name_, "\": ", what, " takes more memory than a file of ",
          "its size may (need ", bytes, " bytes, found ", budget_, " left)"));
}

Status BoundedFile::Damaged(int64_t offset, std::string_view problem) const {
  return absl::DataLossError(
      Cat("read \"", name_, "\": ", problem, " (at offset ", offset, ")"));
}

}  // namespace belay::h5
