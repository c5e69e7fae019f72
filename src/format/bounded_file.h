// Reading the bytes of a file that anybody may have made, and the numbers in
// its metadata.

#ifndef BELAY_FORMAT_BOUNDED_FILE_H_
#define BELAY_FORMAT_BOUNDED_FILE_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "belay/status.h"

namespace belay::h5 {

// The bytes of a file that anybody may have made, read within its bounds.

// Reads that lie in the file, and take no more memory in all than a budget.
class BoundedFile {
 public:
  // Reads all of `bytes` bytes at `offset`, which lie in the file.
  using ReadAt =
      std::function<Status(int64_t offset, void* data, int64_t bytes)>;

  // `size` is that of the file, and `budget` the bytes that all calls of Charge
  // may take; `advice` says in an error what to do about it, as "; free some".
  BoundedFile(std::string name, int64_t size, int64_t budget, ReadAt read,
              std::string advice = "")
      : name_(std::move(name)),
        size_(size),
        budget_(budget),
        read_(std::move(read)),
        advice_(std::move(advice)) {}

  // Checks that bytes lie in the file.
  // Errors: DataLoss.
  Status CheckRange(int64_t offset, int64_t bytes, std::string_view what) const;

  // Reads to `data`, which has room. `what` names it in errors.
  // Errors: DataLoss - it does not lie in the file; those of `read`.
  Status ReadTo(int64_t offset, void* data, int64_t bytes,
                std::string_view what);

  // Returns metadata, and charges it.
  // Errors: those of ReadTo and Charge.
  StatusOr<std::string> Read(int64_t offset, int64_t bytes,
                             std::string_view what);

  // Takes `count` times `bytes` bytes from the budget.
  // Errors: ResourceExhausted - it has fewer left; DataLoss - a number
  //   below zero.
  Status Charge(int64_t bytes, std::string_view what, int64_t count = 1);

  // Metadata that has been read, and whose checksum at some place was right.
  struct Checked {
    int64_t offset;
    int64_t bytes;
    int64_t checksum_at;

    friend auto operator<=>(const Checked&, const Checked&) = default;
  };

  // Returns what Keep was given for it, or null.
  const std::string* FindKept(const Checked& part) const;

  // Keeps it, so that the next search does not read it again.
  std::string_view Keep(const Checked& part, std::string content);

  // Returns an error that says what is wrong at an offset.
  Status Damaged(int64_t offset, std::string_view problem) const;

  const std::string& name() const { return name_; }
  int64_t size() const { return size_; }

 private:
  std::string name_;
  int64_t size_;
  int64_t budget_;
  ReadAt read_;
  std::string advice_;
  std::map<Checked, std::string> kept_;
};

// Takes metadata apart, field by field.

// Reads past the end give zeros, and are remembered: look at ok() before what
// was read is trusted. Borrows the bytes.
class MetadataReader {
 public:
  explicit MetadataReader(std::string_view bytes) : bytes_(bytes) {}

  // Returns a number of 1 to 8 bytes, little-endian.
  uint64_t Number(int width) {
    uint64_t number = 0;
    const std::string_view taken = Bytes(static_cast<size_t>(width));
    if (!taken.empty()) std::memcpy(&number, taken.data(), taken.size());
    return number;
  }

  // Returns an address or a length of 8 bytes; one that is not there is
  // kNoAddress, and so is one of more than 63 bits, which no file has.
  int64_t Address() {
    const auto address = static_cast<int64_t>(Number(8));
    return address < 0 ? -1 : address;
  }

  // Returns the next bytes; none if fewer are left.
  std::string_view Bytes(size_t count) {
    if (count > bytes_.size()) {
      is_ok_ = false;
      bytes_ = {};
      return {};
    }
    const std::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return taken;
  }

  bool ok() const { return is_ok_; }
  size_t left() const { return bytes_.size(); }

 private:
  std::string_view bytes_;
  bool is_ok_ = true;
};

}  // namespace belay::h5

#endif  // BELAY_FORMAT_BOUNDED_FILE_H_
