#include "core/keys.h"

#include <re2/re2.h>

#include <algorithm>
#include <cstdlib>

#include "absl/strings/str_format.h"
#include "belay/values/restore_args.h"
#include "core/status_macros.h"
#include "core/text.h"

namespace belay {
namespace {

std::string_view LastPart(std::string_view key) {
  return key.substr(key.rfind('/') + 1);
}

bool LiesBelow(std::string_view key, std::string_view group) {
  return key.size() > group.size() && key.starts_with(group) &&
         key[group.size()] == '/';
}

re2::StringPiece Piece(std::string_view text) {
  return {text.data(), text.size()};
}

}  // namespace

int64_t EditDistance(std::string_view a, std::string_view b, int64_t limit) {
  const auto columns = static_cast<int64_t>(b.size());
  const auto rows = static_cast<int64_t>(a.size());
  if (std::abs(rows - columns) > limit) return limit + 1;
  // distance[j] is the distance from the first i bytes of `a` to the first j
  // bytes of `b`.
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
  // The time of a comparison is proportional to the square of the length.
  constexpr int64_t kMaxBytes = 4096;
  if (length > kMaxBytes) return;
  const bool is_related = LastPart(key) == LastPart(absent_) ||
                          LiesBelow(key, absent_) || LiesBelow(absent_, key);
  int64_t limit = is_related ? length : (length + 2) / 3;
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

std::string CloseKeys::AbsentText(std::string_view details) const {
  return Cat("key is not in the checkpoint",
             details.empty() ? "" : Cat(" (", details, ")"), Hint());
}

// --- Key patterns ---

struct KeyPatterns::Impl {
  std::vector<std::unique_ptr<const RE2>> expressions;

  bool Matches(size_t i, std::string_view key) const {
    return RE2::FullMatch(Piece(key), *expressions[i]);
  }
};

StatusOr<KeyPatterns> KeyPatterns::Compile(
    const std::vector<std::string>& expressions) {
  RE2::Options options(RE2::Latin1);  // a key may not be valid UTF-8
  options.set_log_errors(false);
  options.set_dot_nl(true);
  auto impl = std::make_shared<Impl>();
  for (const std::string& text : expressions) {
    auto expression = std::make_unique<const RE2>(text, options);
    if (!expression->ok()) {
      return absl::InvalidArgumentError(
          absl::StrFormat("keys \"%s\": not a regular expression: %s", text,
                          expression->error()));
    }
    impl->expressions.push_back(std::move(expression));
  }
  KeyPatterns patterns;
  if (!expressions.empty()) patterns.impl_ = std::move(impl);
  return patterns;
}

int64_t KeyPatterns::ProgramBytes() const {
  constexpr int64_t kInstructionBytes = 32;
  int64_t instructions = 0;
  if (impl_ == nullptr) return 0;
  for (const auto& expression : impl_->expressions) {
    instructions += expression->ProgramSize();
  }
  return instructions * kInstructionBytes;
}

StatusOr<KeyPatterns> PatternCache::Compile(const std::string& expression) {
  constexpr int64_t kMaxBytes = int64_t{64} << 20;
  if (const auto known = all_.find(expression); known != all_.end()) {
    return known->second;
  }
  BELAY_ASSIGN_OR_RETURN(const KeyPatterns made,
                         KeyPatterns::Compile({expression}));
  bytes_ += made.ProgramBytes() + std::ssize(expression);
  if (bytes_ > kMaxBytes) {
    return absl::ResourceExhaustedError(
        Cat("keys ", QuotedText(Shortened(expression, 80)),
            ": the regular expressions are too large (need at most ",
            BytesText(kMaxBytes), " for all, found ", BytesText(bytes_),
            " up to this one)"));
  }
  all_.emplace(expression, made);
  return made;
}

int64_t CountKeyParts(std::string_view key) {
  return 1 + std::ranges::count(key, '/');
}

int KeyPatterns::Find(std::string_view key) const {
  if (impl_ == nullptr) return -1;
  for (size_t i = 0; i < impl_->expressions.size(); ++i) {
    if (impl_->Matches(i, key)) return static_cast<int>(i);
  }
  return -1;
}

Status KeyPatterns::CheckRewrite(int place, const std::string& rewrite) const {
  const RE2& expression = *impl_->expressions[static_cast<size_t>(place)];
  std::string problem;
  if (expression.CheckRewriteString(Piece(rewrite), &problem)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrFormat("keys \"%s\": \"%s\" is not a key to be made from it: %s",
                      expression.pattern(), rewrite, problem));
}

std::string KeyPatterns::Rewrite(int place, std::string_view key,
                                 const std::string& rewrite) const {
  const RE2& expression = *impl_->expressions[static_cast<size_t>(place)];
  std::vector<re2::StringPiece> groups(
      static_cast<size_t>(RE2::MaxSubmatch(Piece(rewrite))) + 1);
  const auto count = static_cast<int>(groups.size());
  std::string result;
  expression.Match(Piece(key), 0, key.size(), RE2::ANCHOR_BOTH, groups.data(),
                   count);
  expression.Rewrite(&result, Piece(rewrite), groups.data(), count);
  return result;
}

std::vector<int64_t> KeyPatterns::Unmatched(
    const std::vector<std::string_view>& keys) const {
  std::vector<int64_t> unmatched;
  if (impl_ == nullptr) return unmatched;
  for (size_t i = 0; i < impl_->expressions.size(); ++i) {
    unmatched.push_back(std::ranges::none_of(
        keys, [&](std::string_view key) { return impl_->Matches(i, key); }));
  }
  return unmatched;
}

Status KeyPatterns::NoMatchError(size_t place,
                                 const std::vector<std::string_view>& keys,
                                 std::string_view option) const {
  const std::string& text = impl_->expressions[place]->pattern();
  CloseKeys close(text);
  for (std::string_view key : keys) close.Offer(key);
  return absl::InvalidArgumentError(
      absl::StrFormat("%s \"%s\": matches no key (need one of %d)%s", option,
                      text, keys.size(), close.Hint()));
}

Status KeyPatterns::CheckAllMatch(const std::vector<std::string_view>& keys,
                                  std::string_view option) const {
  const std::vector<int64_t> unmatched = Unmatched(keys);
  const auto first = std::find(unmatched.begin(), unmatched.end(), 1);
  if (first == unmatched.end()) return absl::OkStatus();
  return NoMatchError(static_cast<size_t>(first - unmatched.begin()), keys,
                      option);
}

std::string ExactKey(std::string_view key) {
  return RE2::QuoteMeta(Piece(key));
}

std::string KeyPrefix(std::string_view prefix) {
  return ExactKey(prefix) + ".*";
}

}  // namespace belay
