// Plain values to bytes and back, for messages between ranks and for
// fingerprints. Native byte order; never written to disk.

#ifndef BELAY_BYTES_WIRE_H_
#define BELAY_BYTES_WIRE_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "belay/arrays/box.h"

namespace belay {

// Appends values to a byte string.
class WireWriter {
 public:
  template <typename T>
  void Put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(T));
  }
  void PutText(std::string_view text) {
    Put<uint32_t>(static_cast<uint32_t>(text.size()));
    bytes_.append(text);
  }
  void PutTexts(const std::vector<std::string>& texts) {
    Put<uint64_t>(texts.size());
    for (const std::string& text : texts) PutText(text);
  }
  void PutShape(const Shape& shape) {
    Put<uint8_t>(static_cast<uint8_t>(shape.size()));
    for (int64_t length : shape) Put(length);
  }
  void PutBox(const Box& box) {
    PutShape(box.offset);
    for (int64_t length : box.shape) Put(length);
  }
  const std::string& bytes() const { return bytes_; }
  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Reads them back in the same order. Whoever reads past the end gets zeros and
// empty texts from there on, and ok() is false.
class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : bytes_(bytes) {}

  template <typename T>
  T Get() {
    T value{};
    if (Has(sizeof(T))) {
      std::memcpy(&value, bytes_.data() + position_, sizeof(T));
      position_ += sizeof(T);
    }
    return value;
  }
  std::string_view GetText() {
    const auto size = Get<uint32_t>();
    if (!Has(size)) return {};
    std::string_view text = bytes_.substr(position_, size);
    position_ += size;
    return text;
  }
  Shape GetShape() {
    Shape shape(Get<uint8_t>());
    for (int64_t& length : shape) length = Get<int64_t>();
    return shape;
  }
  Box GetBox() {
    Box box{.offset = GetShape(), .shape = {}};
    box.shape.resize(box.offset.size());
    for (int64_t& length : box.shape) length = Get<int64_t>();
    return box;
  }
  // Elements behind their number, each read by `read`. Stops at the end of the
  // bytes, whatever the number says.
  template <typename T, typename Read>
  std::vector<T> GetAll(Read read) {
    const auto size = Get<uint64_t>();
    std::vector<T> all;
    for (uint64_t i = 0; i < size && ok_; ++i) all.push_back(read());
    return all;
  }
  std::vector<std::string> GetTexts() {
    return GetAll<std::string>([&] { return std::string(GetText()); });
  }
  // The bytes that were not read yet.
  std::string_view Rest() const { return bytes_.substr(position_); }
  bool done() const { return position_ == bytes_.size(); }
  bool ok() const { return ok_; }

 private:
  bool Has(size_t size) {
    ok_ = ok_ && size <= bytes_.size() - position_;
    return ok_;
  }

  std::string_view bytes_;
  size_t position_ = 0;
  bool ok_ = true;
};

}  // namespace belay

#endif  // BELAY_BYTES_WIRE_H_
