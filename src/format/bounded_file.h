// Reads files from untrusted sources, and parses numbers in their metadata.

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

// Bounds-checked reading of a file from an untrusted source.

// Reads only inside the file, and allocates at most a budget in total.
class BoundedFile {
 public:
  // Reads exactly `bytes` bytes at `offset`, which are inside the file.
  using ReadAt =
      std::function<Status(int64_t offset, void* data, int64_t bytes)>;

  // `size` is the file's size. `budget` is the number of bytes that all calls
  // of Charge may take in total. `advice` ends errors about the budget, such as
  // "; free some".
  BoundedFile(std::string name, int64_t size, int64_t budget, ReadAt read,
              std::string advice = "")
      : name_(std::move(name)),
        size_(size),
        budget_(budget),
        read_(std::move(read)),
        advice_(std::move(advice)) {}

  // Checks that a range of bytes is inside the file.
  // Errors: DataLoss.
  Status CheckRange(int64_t offset, int64_t bytes, std::string_view what) const;

  // Reads to `data`, which has room. `what` describes the bytes in errors.
  // Errors: DataLoss - they are not inside the file; those of `read`.
  Status ReadTo(int64_t offset, void* data, int64_t bytes,
                std::string_view what);

  // Reads metadata, and charges its bytes to the budget.
  // Errors: those of ReadTo and Charge.
  StatusOr<std::string> Read(int64_t offset, int64_t bytes,
                             std::string_view what);

  // Takes `count` times `bytes` bytes from the budget.
  // Errors: ResourceExhausted - it has fewer left; DataLoss - a number below
  //   zero.
  Status Charge(int64_t bytes, std::string_view what, int64_t count = 1);

  // Identifies metadata that was read and whose checksum was right.
  struct Checked {
    int64_t offset;
    int64_t bytes;
    int64_t checksum_at;

    friend auto operator<=>(const Checked&, const Checked&) = default;
  };

  // Returns the content that Keep stored for `part`, or null.
  const std::string* FindKept(const Checked& part) const;

  // Keeps `content`, so that the next search does not read it again.
  std::string_view Keep(const Checked& part, std::string content);

  // Returns an error about the bytes at an offset.
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

// Parsing of metadata, field by field.

// Reads past the end return zeros and make ok() false. Check ok() before using
// what was read. Borrows the bytes.
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

  // Returns an address or a length of 8 bytes. Returns kNoAddress if it is
  // undefined or has more than 63 bits, which no file needs.
  int64_t Address() {
    const auto address = static_cast<int64_t>(Number(8));
    return address < 0 ? -1 : address;
  }

  // Returns the next `count` bytes; none if fewer are left.
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
