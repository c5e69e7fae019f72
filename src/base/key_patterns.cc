#include "base/key_patterns.h"

#include <re2/re2.h>

#include <algorithm>

#include "absl/strings/str_format.h"
#include "base/close_keys.h"
#include "base/text.h"
#include "belay/values/restore_args.h"

namespace belay {
namespace {

re2::StringPiece Piece(std::string_view text) {
  return {text.data(), text.size()};
}

}  // namespace

struct KeyPatterns::Impl {
  std::vector<std::unique_ptr<const RE2>> expressions;

  bool Matches(size_t i, std::string_view key) const {
    return RE2::FullMatch(Piece(key), *expressions[i]);
  }
};

StatusOr<KeyPatterns> KeyPatterns::Compile(
    const std::vector<std::string>& expressions) {
  RE2::Options options(RE2::Latin1);  // a key may be no UTF-8
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
    const bool matches = std::any_of(
        keys.begin(), keys.end(),
        [&](std::string_view key) { return impl_->Matches(i, key); });
    unmatched.push_back(matches ? 0 : 1);
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
