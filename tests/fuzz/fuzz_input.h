// Inputs that are values one behind the other, and not a file.

#ifndef BELAY_TESTS_FUZZ_FUZZ_INPUT_H_
#define BELAY_TESTS_FUZZ_FUZZ_INPUT_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace belay {

// Takes values off an input; past its end come zeros and empty texts.
class FuzzInput {
 public:
  static constexpr uint8_t kLong = 255;

  explicit FuzzInput(std::string_view bytes) : bytes_(bytes) {}

  template <typename T>
  T Number() {
    T number{};
    const std::string_view taken = Bytes(sizeof(T));
    std::memcpy(&number, taken.data(), taken.size());
    return number;
  }

  // A byte with the length, or 255 and the length in two bytes, then the text.
  std::string Text() {
    size_t length = Number<uint8_t>();
    if (length == kLong) length = Number<uint16_t>();
    return std::string(Bytes(length));
  }

  // As many as are there.
  std::string_view Bytes(size_t count) {
    const std::string_view taken =
        bytes_.substr(0, std::min(count, bytes_.size()));
    bytes_.remove_prefix(taken.size());
    return taken;
  }

  std::string_view Rest() const { return bytes_; }
  bool empty() const { return bytes_.empty(); }

 private:
  std::string_view bytes_;
};

// Makes such inputs. Texts have less than 64 KiB.
class FuzzInputWriter {
 public:
  template <typename T>
  void Put(T number) {
    bytes_.append(reinterpret_cast<const char*>(&number), sizeof(T));
  }
  void PutText(std::string_view text) {
    if (text.size() < FuzzInput::kLong) {
      Put(static_cast<uint8_t>(text.size()));
    } else {
      Put(FuzzInput::kLong);
      Put(static_cast<uint16_t>(text.size()));
    }
    bytes_ += text;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

}  // namespace belay

#endif  // BELAY_TESTS_FUZZ_FUZZ_INPUT_H_
