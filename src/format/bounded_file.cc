#include "format/bounded_file.h"

#include "core/status_macros.h"
#include "core/text.h"

namespace belay::h5 {

Status BoundedFile::CheckRange(int64_t offset, int64_t bytes,
                               std::string_view what) const {
  if (offset >= 0 && bytes >= 0 && offset <= size_ && bytes <= size_ - offset) {
    return absl::OkStatus();
  }
  return absl::DataLossError(
      Cat("read \"", name_, "\": ", what, " of ", bytes, " bytes at offset ",
          offset, " does not lie in the file (found ", size_, " bytes)"));
}

Status BoundedFile::ReadTo(int64_t offset, void* data, int64_t bytes,
                           std::string_view what) {
  BELAY_RETURN_IF_ERROR(CheckRange(offset, bytes, what));
  return bytes == 0 ? absl::OkStatus() : read_(offset, data, bytes);
}

StatusOr<std::string> BoundedFile::Read(int64_t offset, int64_t bytes,
                                        std::string_view what) {
  // Checked before memory is allocated.
  BELAY_RETURN_IF_ERROR(CheckRange(offset, bytes, what));
  BELAY_RETURN_IF_ERROR(Charge(bytes, what));
  std::string read(static_cast<size_t>(bytes), '\0');
  BELAY_RETURN_IF_ERROR(ReadTo(offset, read.data(), bytes, what));
  return read;
}

Status BoundedFile::Charge(int64_t bytes, std::string_view what,
                           int64_t count) {
  if (bytes < 0 || count < 0) {
    return absl::DataLossError(Cat("read \"", name_, "\": the size of ", what,
                                   " is damaged (found ", count, " times ",
                                   bytes, " bytes)"));
  }
  if (bytes == 0 || count <= budget_ / bytes) {
    budget_ -= count * bytes;
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(
      Cat("read \"", name_, "\": ", what, " takes more memory than a file of ",
          "its size may", advice_, " (need ", count, " times ", bytes,
          " bytes, found ", budget_, " left)"));
}

const std::string* BoundedFile::FindKept(const Checked& part) const {
  const auto found = kept_.find(part);
  return found == kept_.end() ? nullptr : &found->second;
}

std::string_view BoundedFile::Keep(const Checked& part, std::string content) {
  return kept_.insert_or_assign(part, std::move(content)).first->second;
}

Status BoundedFile::Damaged(int64_t offset, std::string_view problem) const {
  return absl::DataLossError(
      Cat("read \"", name_, "\": ", problem, " (at offset ", offset, ")"));
}

}  // namespace belay::h5
