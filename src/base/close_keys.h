// Which stored keys somebody may have meant by one that is not stored.

#ifndef BELAY_BASE_CLOSE_KEYS_H_
#define BELAY_BASE_CLOSE_KEYS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace belay {

// Returns the number of bytes to insert, remove or replace that makes `b` out
// of `a`, or `limit` + 1 if there are more than `limit`. Local.
int64_t EditDistance(std::string_view a, std::string_view b, int64_t limit);

// Offers keys, one after the other, as what is meant by an absent one.
class CloseKeys {
 public:
  // `absent` is borrowed. At most `count` keys are kept.
  explicit CloseKeys(std::string_view absent, size_t count = 3);

  // Keeps `key`, borrowed, if it is among the closest so far: a third of its
  // bytes differ at most, its part after the last '/' is the same, or one of
  // the two lies below the other. Not where one has over 4096 bytes. Local.
  void Offer(std::string_view key);

  // The keys that are kept, the closest first. Local.
  std::vector<std::string_view> keys() const;

  // Returns the keys as the end of a message, `; close to it: "a", "b"`, or
  // nothing if there are none. Local.
  std::string Hint() const;

 private:
  struct Close {
    int64_t distance;
    std::string_view key;

    friend auto operator<=>(const Close&, const Close&) = default;
  };

  std::string_view absent_;
  size_t count_;
  std::vector<Close> close_;  // ascending
};

}  // namespace belay

#endif  // BELAY_BASE_CLOSE_KEYS_H_
