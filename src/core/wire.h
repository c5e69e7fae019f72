// Messages between ranks, and fingerprints.

#ifndef BELAY_CORE_WIRE_H_
#define BELAY_CORE_WIRE_H_

#include <compare>
#include <cstddef>
#include <cstring>
#include <map>
#include <span>
#include <type_traits>
#include <utility>

#include "belay/arrays/box.h"

namespace belay {

// Converts values to bytes and back, for messages between ranks and for
// fingerprints. Native byte order; never written to disk.
//
// A function `Fields` declared next to a struct lists the struct's fields in
// message order. It serves both writing and reading, and must not change a
// value that it writes.
//
//   template <typename Archive>
//   void Fields(Archive& archive, Lease& lease) {
//     archive(lease.holder, lease.steps, lease.box);
//   }
//   std::string bytes = Encode(lease);
//   std::optional<Lease> same = Decode<Lease>(bytes);
//
// A field is a number, an enum, a string, a string_view into the bytes, a
// Shape, a Box, a struct that has Fields, or a vector, map, pair or optional of
// these.

class WireReader;
class WireWriter;

namespace wire_internal {

template <typename T>
concept Plain = std::is_arithmetic_v<T> || std::is_enum_v<T>;
template <typename T, typename Archive>
concept HasFields = requires(Archive& archive, T& value) {
  Fields(archive, value);
};
template <typename T, template <typename...> typename Of>
inline constexpr bool kIs = false;
template <template <typename...> typename Of, typename... Ts>
inline constexpr bool kIs<Of<Ts...>, Of> = true;

}  // namespace wire_internal

// Appends values to a byte string.
class WireWriter {
 public:
  template <typename... Ts>
  void operator()(const Ts&... values) {
    (PutField(values), ...);
  }
  template <typename T>
  void Put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(T));
  }
  void PutText(std::string_view text) {
    Put<uint32_t>(static_cast<uint32_t>(text.size()));
    bytes_.append(text);
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
  template <typename T>
  void PutField(const T& value) {
    using wire_internal::kIs;
    if constexpr (wire_internal::Plain<T>) {
      Put(value);
    } else if constexpr (std::is_convertible_v<const T&, std::string_view>) {
      PutText(value);
    } else if constexpr (std::is_same_v<T, Shape>) {
      PutShape(value);
    } else if constexpr (std::is_same_v<T, Box>) {
      PutBox(value);
    } else if constexpr (kIs<T, std::pair>) {
      (*this)(value.first, value.second);
    } else if constexpr (kIs<T, std::optional>) {
      Put(value.has_value());
      if (value) PutField(*value);
    } else if constexpr (kIs<T, std::vector> || kIs<T, std::map>) {
      Put<uint64_t>(value.size());
      for (const auto& element : value) PutField(element);
    } else {
      static_assert(wire_internal::HasFields<T, WireWriter>,
                    "write a function Fields for it beside the struct");
      Fields(*this, const_cast<T&>(value));
    }
  }

  std::string bytes_;
};

// Reads values in the order in which they were written. Past the end it reads
// zeros and empty strings, and ok() is false.
class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : bytes_(bytes) {}

  template <typename... Ts>
  void operator()(Ts&... values) {
    (GetField(values), ...);
  }
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
  // The bytes not read yet.
  std::string_view Rest() const { return bytes_.substr(position_); }
  bool done() const { return position_ == bytes_.size(); }
  bool ok() const { return ok_; }

 private:
  template <typename T>
  void GetField(T& value) {
    using wire_internal::kIs;
    if constexpr (std::is_same_v<T, bool>) {
      value = Get<uint8_t>() != 0;
    } else if constexpr (wire_internal::Plain<T>) {
      value = Get<T>();
    } else if constexpr (std::is_convertible_v<T, std::string_view>) {
      value = GetText();
    } else if constexpr (std::is_same_v<T, Shape>) {
      value = GetShape();
    } else if constexpr (std::is_same_v<T, Box>) {
      value = GetBox();
    } else if constexpr (kIs<T, std::pair>) {
      (*this)(value.first, value.second);
    } else if constexpr (kIs<T, std::optional>) {
      value.reset();
      if (Get<uint8_t>() != 0) GetField(value.emplace());
    } else if constexpr (kIs<T, std::vector>) {
      GetElements<typename T::value_type>(value);
    } else if constexpr (kIs<T, std::map>) {
      GetElements<std::pair<typename T::key_type, typename T::mapped_type>>(
          value);
    } else {
      static_assert(wire_internal::HasFields<T, WireReader>,
                    "write a function Fields for it beside the struct");
      Fields(*this, value);
    }
  }
  // Stops at the end of the bytes, even if the element count is larger.
  template <typename Element, typename T>
  void GetElements(T& all) {
    all.clear();
    const auto size = Get<uint64_t>();
    for (uint64_t i = 0; i < size && ok_; ++i) {
      Element element{};
      GetField(element);
      all.insert(all.end(), std::move(element));
    }
  }
  bool Has(size_t size) {
    ok_ = ok_ && size <= bytes_.size() - position_;
    return ok_;
  }

  std::string_view bytes_;
  size_t position_ = 0;
  bool ok_ = true;
};

template <typename T>
std::string Encode(const T& value) {
  WireWriter out;
  out(value);
  return out.Take();
}

// Returns nothing unless the bytes are exactly one value of type T.
template <typename T>
std::optional<T> Decode(std::string_view bytes) {
  WireReader in(bytes);
  T value{};
  in(value);
  if (!in.ok() || !in.done()) return std::nullopt;
  return value;
}

// A growing message to one rank, in reused memory.
class Message {
 public:
  // Adds bytes with unspecified values; valid until the next call.
  std::byte* Extend(size_t size) {
    const size_t begin = size_, end = begin + size;
    if (end > memory_.size()) memory_.resize(end + end / 8);  // may throw
    size_ = end;
    return memory_.data() + begin;
  }
  void Append(std::string_view bytes) {
    if (bytes.empty()) return;
    std::memcpy(Extend(bytes.size()), bytes.data(), bytes.size());
  }
  void Clear() { size_ = 0; }
  std::span<std::byte> bytes() { return std::span(memory_).first(size_); }

 private:
  std::vector<std::byte> memory_;
  size_t size_ = 0;
};

using Messages = std::vector<Message>;  // indexed by rank

// Returns a 64-bit hash that is equal in every process for equal bytes.
// Different seeds give different hashes. Never written to disk.
uint64_t Fingerprint(std::string_view bytes, uint64_t seed = 0);

// 128-bit hash of a byte string. Large enough that accidental collisions are
// ruled out.
struct Hash128 {
  uint64_t low = 0;
  uint64_t high = 0;

  friend auto operator<=>(const Hash128&, const Hash128&) = default;
  template <typename Hash>
  friend Hash AbslHashValue(Hash state, const Hash128& hash) {
    return Hash::combine(std::move(state), hash.low, hash.high);
  }
};

// Returns the same hash in every process. Never written to disk.
Hash128 ComputeHash(std::string_view bytes);

}  // namespace belay

#endif  // BELAY_CORE_WIRE_H_
