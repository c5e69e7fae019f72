#include "plan/filters.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <iterator>

#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/status_macros.h"
#include "core/text.h"

namespace belay {
namespace {

// As HDF5 registers them: those of its own are below 256.
constexpr int kDeflate = 1;
constexpr int kShuffle = 2;
constexpr int kFletcher32 = 3;
constexpr int kScaleOffset = 6;  // the last of HDF5's own
constexpr int kMaxId = 65535;
// HDF5 allows 32 filters; no filter that is registered has as many parameters.
constexpr size_t kMaxFilters = 32;
constexpr size_t kMaxParameters = 64;

std::string Joined(const std::vector<uint32_t>& numbers) {
  return absl::StrJoin(numbers, ",");
}

std::string NameOf(int id) {
  constexpr std::string_view kNames[] = {
      "", "deflate", "shuffle", "fletcher32", "szip", "nbit", "scaleoffset"};
  const bool is_own = id > 0 && id < static_cast<int>(std::size(kNames));
  return is_own ? std::string(kNames[id]) : Cat("filter ", id);
}

// Takes a number off the front of `text`.
template <typename T>
bool TakeNumber(std::string_view& text, T& number) {
  const char* end = text.data() + text.size();
  const auto [next, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<size_t>(next - text.data()));
  return true;
}

bool Take(std::string_view& text, char c) {
  if (text.empty() || text.front() != c) return false;
  text.remove_prefix(1);
  return true;
}

// Takes "2(4,5)" off the front of `text`.
bool TakeFilter(std::string_view& text, Filter& filter) {
  if (!TakeNumber(text, filter.id) || !Take(text, '(')) return false;
  while (!Take(text, ')')) {
    if (!filter.parameters.empty() && !Take(text, ',')) return false;
    if (!TakeNumber(text, filter.parameters.emplace_back())) return false;
  }
  return true;
}

// Checks what holds for all filters that a checkpoint may have.
Status CheckNumbers(const std::vector<Filter>& filters) {
  if (filters.size() > kMaxFilters) {
    return absl::InvalidArgumentError(
        absl::StrFormat("too many filters (need at most %d, found %d)",
                        kMaxFilters, filters.size()));
  }
  for (const Filter& filter : filters) {
    if (filter.id < 1 || filter.id > kMaxId) {
      return absl::InvalidArgumentError(
          absl::StrFormat("not the number of a filter (need 1 to %d, found %d)",
                          kMaxId, filter.id));
    }
    if (filter.parameters.size() > kMaxParameters) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "filter %d has too many parameters (need at most %d, found %d)",
          filter.id, kMaxParameters, filter.parameters.size()));
    }
    const bool has_level =
        filter.parameters.size() == 1 && filter.parameters[0] <= 9;
    if (filter.id == kDeflate && !has_level) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "filter 1, deflate, needs one level from 0 to 9 (found %s)",
          FiltersText({filter})));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<Filter> Deflate(int level) {
  // HDF5 gives the shuffle the length of the elements.
  return {{.id = kShuffle}, {kDeflate, {static_cast<uint32_t>(level)}}};
}

Status CheckFilters(const std::vector<Filter>& filters) {
  BELAY_RETURN_IF_ERROR(CheckNumbers(filters));
  for (const Filter& filter : filters) {
    if (filter.id > kFletcher32 && filter.id <= kScaleOffset) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "filter %d, %s, is not for checkpoints: HDF5 sets it up by calls of "
          "its own (need another filter)",
          filter.id, NameOf(filter.id)));
    }
  }
  // A reader does not believe that few bytes have been deflated twice, and does
  // not shuffle them over and over.
  for (const int id : {kDeflate, kShuffle, kFletcher32}) {
    const auto found = std::ranges::count(filters, id, &Filter::id);
    if (found <= 1) continue;
    return absl::InvalidArgumentError(absl::StrFormat(
        "filter %d, %s, is given several times (need at most 1, found %d)", id,
        NameOf(id), found));
  }
  return absl::OkStatus();
}

bool AreLossless(const std::vector<Filter>& filters) {
  return std::all_of(filters.begin(), filters.end(), [](const Filter& filter) {
    return filter.id <= kFletcher32;
  });
}

std::string FiltersText(const std::vector<Filter>& filters) {
  std::string text;
  for (const Filter& filter : filters) {
    text += Cat(text.empty() ? "" : ",", filter.id, "(",
                Joined(filter.parameters), ")");
  }
  return text;
}

std::string DescribeFilters(const std::vector<Filter>& filters) {
  std::string text;
  for (const Filter& filter : filters) {
    text += Cat(text.empty() ? "" : ", ", NameOf(filter.id));
    if (filter.parameters.empty()) continue;
    text += Cat("(", Joined(filter.parameters), ")");
  }
  return text;
}

StatusOr<std::vector<Filter>> ParseFilters(std::string_view text) {
  std::vector<Filter> filters;
  std::string_view rest = text;
  bool is_text = true;
  while (!rest.empty() && is_text) {
    is_text = filters.empty() || Take(rest, ',');
    is_text = is_text && TakeFilter(rest, filters.emplace_back());
  }
  if (is_text && CheckNumbers(filters).ok()) return filters;
  return absl::DataLossError(absl::StrFormat("\"%s\" names no filters",
                                             absl::CEscape(AbslView(text))));
}

}  // namespace belay
