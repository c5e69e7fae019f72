#include "base/close_keys.h"

#include <algorithm>
#include <cstdlib>

#include "base/printable.h"
#include "base/text.h"

namespace belay {
namespace {

std::string_view LastPart(std::string_view key) {
  return key.substr(key.rfind('/') + 1);
}

// Whether `key` is `group` and more parts.
bool LiesBelow(std::string_view key, std::string_view group) {
  return key.size() > group.size() && key.starts_with(group) &&
         key[group.size()] == '/';
}

}  // namespace

int64_t EditDistance(std::string_view a, std::string_view b, int64_t limit) {
  const auto columns = static_cast<int64_t>(b.size());
  const auto rows = static_cast<int64_t>(a.size());
  if (std::abs(rows - columns) > limit) return limit + 1;
  // distance[j]: of the first i bytes of `a` to the first j bytes of `b`.
  std::vector<int64_t> distance(columns + 1);
  for (int64_t j = 0; j <= columns; ++j) distance[j] = j;
  for (int64_t i = 1; i <= rows; ++i) {
    int64_t diagonal = distance[0];
    int64_t smallest = distance[0] = i;
    for (int64_t j = 1; j <= columns; ++j) {
      const int64_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = distance[j];
      distance[j] = std::min({replaced, distance[j] + 1, distance[j - 1] + 1});
      smallest = std::min(smallest, distance[j]);
    }
    if (smallest > limit) return limit + 1;
  }
  return std::min(distance[columns], limit + 1);
}

CloseKeys::CloseKeys(std::string_view absent, size_t count)
    : absent_(absent), count_(count) {}

void CloseKeys::Offer(std::string_view key) {
  const auto length =
      static_cast<int64_t>(std::max(key.size(), absent_.size()));
  // A key this long is no slip of a finger, and comparing takes its square.
  constexpr int64_t kMostBytes = 4096;
  if (length > kMostBytes) return;
  const bool is_related = LastPart(key) == LastPart(absent_) ||
                          LiesBelow(key, absent_) || LiesBelow(absent_, key);
  int64_t limit = is_related ? length : (length + 2) / 3;
  // Farther than all that are kept is too far.
  if (close_.size() == count_ && count_ > 0) {
    limit = std::min(limit, close_.back().distance);
  }
  const int64_t distance = EditDistance(absent_, key, limit);
  if (distance > limit) return;
  const Close close{distance, key};
  close_.insert(std::upper_bound(close_.begin(), close_.end(), close), close);
  if (close_.size() > count_) close_.pop_back();
}

std::vector<std::string_view> CloseKeys::keys() const {
  std::vector<std::string_view> keys;
  for (const Close& close : close_) keys.push_back(close.key);
  return keys;
}

std::string CloseKeys::Hint() const {
  std::string hint;
  for (const Close& close : close_) {
    hint += Cat(hint.empty() ? "; close to it: " : ", ", QuotedText(close.key));
  }
  return hint;
}

}  // namespace belay
