// Takes metadata apart, field by field.

#ifndef BELAY_HDF5_FORMAT_READ_METADATA_READER_H_
#define BELAY_HDF5_FORMAT_READ_METADATA_READER_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace belay::h5 {

// Reads past the end give zeros, and are remembered: look at ok() before what
// was read is trusted. Borrows the bytes.
class MetadataReader {
 public:
  explicit MetadataReader(std::string_view bytes) : bytes_(bytes) {}

  // Returns a number of 1 to 8 bytes, little-endian. Local.
  uint64_t Number(int width) {
    uint64_t number = 0;
    const std::string_view taken = Bytes(static_cast<size_t>(width));
    if (!taken.empty()) std::memcpy(&number, taken.data(), taken.size());
    return number;
  }

  // Returns an address or a length of 8 bytes; one that is not there is
  // kNoAddress, and so is one of more than 63 bits, which no file has. Local.
  int64_t Address() {
    const auto address = static_cast<int64_t>(Number(8));
    return address < 0 ? -1 : address;
  }

  // Returns the next bytes; none if there are not so many. Local.
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

#endif  // BELAY_HDF5_FORMAT_READ_METADATA_READER_H_
