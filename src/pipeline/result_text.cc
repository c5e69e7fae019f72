#include "pipeline/result_text.h"

#include <charconv>
#include <cmath>
#include <complex>
#include <filesystem>
#include <iterator>
#include <limits>
#include <system_error>
#include <tuple>

#include "absl/strings/str_join.h"
#include "core/log.h"
#include "pipeline/stages.h"

namespace belay {
namespace {

constexpr size_t kMaxStages = 3;
constexpr size_t kMaxKeys = 5;

std::string_view TransferText(Transfer transfer) {
  switch (transfer) {
    case Transfer::kCollective:
      return "collective MPI-IO";
    case Transfer::kIndependent:
      return "positional writes";
    case Transfer::kHdf5:
      return "collective HDF5";
    case Transfer::kTwoPhase:
      return "two-phase writes";
    case Transfer::kAuto:
      break;
  }
  return "no transfer";
}

std::string StageText(const StageTime& stage) {
  return Cat(stage.stage, " ", SecondsText(stage.seconds));
}

// "0.42 s (write 0.3 s, plan 50 ms, commit 30 ms)", longest stages first.
std::string TimesText(std::vector<StageTime> stages) {
  double sum = 0;
  for (const StageTime& stage : stages) sum += stage.seconds;
  std::string text = SecondsText(sum);
  std::stable_sort(
      stages.begin(), stages.end(),
      [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
  if (stages.size() > kMaxStages) stages.resize(kMaxStages);
  std::vector<std::string> parts;
  for (const StageTime& stage : stages) {
    parts.push_back(StageText(stage));
  }
  if (!parts.empty()) text += Cat(" (", absl::StrJoin(parts, ", "), ")");
  return text;
}

double Ratio(int64_t a, int64_t b) {
  return static_cast<double>(a) / static_cast<double>(b);
}

void AddKeys(std::string_view what, const std::vector<std::string>& keys,
             std::string& text) {
  if (keys.empty()) return;
  text += Cat("\n", what, ": ", JoinFirst(keys, kMaxKeys, ", "));
}

void AddConversions(std::string_view what,
                    const std::vector<Conversion>& conversions,
                    std::string& text) {
  std::vector<std::string> keys;
  for (const Conversion& one : conversions) keys.push_back(one.key);
  AddKeys(what, keys, text);
}

// "stripes: 40, with 1.1 writers and 1.3 requests per stripe; 6.5 requests per
// server, 8 at the busiest of 8".
void AddStripes(const TransferCounters& counters, std::string& text) {
  if (counters.stripes == 0) return;
  text += absl::StrFormat(
      "\nstripes: %d, with %.3g writers and %.3g requests per stripe",
      counters.stripes, Ratio(counters.stripe_writers, counters.stripes),
      Ratio(counters.stripe_requests, counters.stripes));
  if (counters.stripe_servers == 0) return;
  text += absl::StrFormat(
      "; %.3g requests per server, %d at the busiest of %d",
      Ratio(counters.stripe_requests, counters.stripe_servers),
      counters.busiest_server_requests, counters.stripe_servers);
}

// Returns the text without warnings.
std::string Summary(const SaveResult& result) {
  std::string text = Cat("saved step ", result.step, " in \"", result.path,
                         "\": ", CountText(result.num_arrays, "array"), ", ",
                         BytesText(result.counters.bytes), " in ",
                         CountText(result.counters.files, "file"), " by ",
                         TransferText(result.transfer), ", ",
                         TimesText(result.counters.stages));
  if (!result.transfer_note.empty()) {
    text += Cat("\ntransfer: ", result.transfer_note);
  }
  AddStripes(result.counters, text);
  return text;
}

std::string Summary(const RestoreResult& result) {
  std::string text = Cat("restored step ", result.step, " from \"", result.path,
                         "\": ", CountText(result.num_arrays, "array"), ", ",
                         BytesText(result.counters.bytes), " read, ",
                         CountText(result.blocks_verified, "checksum"),
                         " compared, ", TimesText(result.counters.stages));
  AddKeys("not stored", result.missing, text);
  AddKeys("stored, and not restored", result.unexpected, text);
  AddConversions("stored in another form, and not restored", result.mismatched,
                 text);
  AddConversions("converted", result.conversions, text);
  return text;
}

std::string WithWarnings(std::string text,
                         const std::vector<std::string>& warnings) {
  for (const std::string& warning : warnings) {
    text += Cat("\nwarning: ", warning);
  }
  return text;
}

template <typename Result>
void LogAny(const CommContext& context, const Agreed<Result>& result) {
  if (!context.is_root()) return;
  if (!result.ok()) return LogError(context, result.status());
  if (IsLogged(LogLevel::kInfo)) {
    Log(LogLevel::kInfo, Summary(*result));
  }
  for (const std::string& warning : result->warnings) {
    Log(LogLevel::kWarning, warning);
  }
  if (!IsLogged(LogLevel::kDebug)) return;
  for (const StageTime& stage : result->counters.stages) {
    Log(LogLevel::kDebug, Cat("stage ", StageText(stage)));
  }
}

}  // namespace

std::string SaveResult::ToString() const {
  return WithWarnings(Summary(*this), warnings);
}

std::string RestoreResult::ToString() const {
  return WithWarnings(Summary(*this), warnings);
}

void LogError(const CommContext& context, const Status& status) {
  if (!context.is_root() || !IsLogged(LogLevel::kError)) return;
  Log(LogLevel::kError, status.ToString());
}

void LogNoStep(const CommContext& context, const std::string& dir) {
  if (!context.is_root() || !IsLogged(LogLevel::kWarning)) return;
  std::error_code failed;  // if set, the path is logged as given
  const std::filesystem::path path = std::filesystem::absolute(dir, failed);
  Log(LogLevel::kWarning,
      Cat("restore \"", failed ? dir : path.lexically_normal().string(),
          "\": no step is there, so nothing was restored and the program "
          "begins anew"));
}

void LogResult(const CommContext& context, const Agreed<SaveResult>& result) {
  LogAny(context, result);
}

void LogResult(const CommContext& context,
               const Agreed<RestoreResult>& result) {
  LogAny(context, result);
}

// --- Lost values ---

template <typename Archive>
void Fields(Archive& archive, LostValues& one) {
  archive(one.key, one.from, one.to);
  for (size_t loss = 0; loss < kNumLosses; ++loss) {
    archive(one.losses.counts[loss]);
    for (auto& byte : one.losses.examples[loss]) archive(byte);
  }
}

namespace {

// More warnings would hide the rest of the log.
constexpr size_t kMaxWarnings = 20;

using Identity = std::tuple<std::string_view, DType, DType>;

Identity GetIdentity(const LostValues& one) {
  return {one.key, one.from, one.to};
}

void AddTo(const ConversionLosses& more, ConversionLosses& sum) {
  sum.values += more.values;
  for (size_t loss = 0; loss < kNumLosses; ++loss) {
    if (sum.counts[loss] == 0) sum.examples[loss] = more.examples[loss];
    sum.counts[loss] += more.counts[loss];
  }
}

// --- As text ---

// Returns the shortest text that identifies the number within its dtype.
template <typename Number>
std::string ShortestText(Number number) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), number).ptr;
  return {text, end};
}

std::string FloatText(double value, bool is_double) {
  if (std::isnan(value)) return "NaN";
  return is_double ? ShortestText(value)
                   : ShortestText(static_cast<float>(value));
}

template <typename To>
To ElementAs(DType dtype, const ConversionLosses::Element& element) {
  To value;
  ConvertElements(dtype, element.data(), DTypeOf<To>(), &value, 1);
  return value;
}

std::string ElementText(DType dtype, const ConversionLosses::Element& element) {
  switch (FindKind(dtype)) {
    case DTypeKind::kFloat:
      return FloatText(ElementAs<double>(dtype, element), dtype == DType::kF64);
    case DTypeKind::kComplex: {
      const auto value = ElementAs<std::complex<double>>(dtype, element);
      const bool is_double = dtype == DType::kC128;
      return Cat("(", FloatText(value.real(), is_double), ", ",
                 FloatText(value.imag(), is_double), ")");
    }
    default:
      return dtype == DType::kU64
                 ? ShortestText(ElementAs<uint64_t>(dtype, element))
                 : ShortestText(ElementAs<int64_t>(dtype, element));
  }
}

// "-128 or 127", the limits of an integer range.
std::string EndsText(DType dtype) {
  const double huge = std::numeric_limits<double>::infinity();
  std::vector<std::string> ends;
  for (const double end : {-huge, huge}) {
    ConversionLosses::Element element = {};
    ConvertElements(DType::kF64, &end, dtype, element.data(), 1);
    ends.push_back(ElementText(dtype, element));
  }
  return absl::StrJoin(ends, " or ");
}

// Returns the text after the number of lost values.
std::string WhatHappens(Loss loss, DType from, DType to, bool is_one) {
  const std::string_view are = is_one ? " is " : " are ";
  const std::string_view become = is_one ? "becomes " : "become ";
  const std::string_view dtype = DTypeName(to);
  const bool is_integer = FindKind(to) == DTypeKind::kInteger;
  switch (loss) {
    case Loss::kTooLarge:
      if (is_integer) {
        return Cat(are, "outside the range of ", dtype, " and ", become,
                   EndsText(to));
      }
      return Cat(are, "too large for ", dtype, " and ", become,
                 to == DType::kF8E4M3 ? "448 or -448" : "infinite");
    case Loss::kNotFinite:
      if (is_integer) {
        return Cat(are, "NaN or infinite and ", become, "0, ", EndsText(to));
      }
      return Cat(are, "infinite and ", become, "448 or -448");
    case Loss::kChanged:
      break;
  }
  if (FindKind(to) == DTypeKind::kBool) {
    return Cat(are, "neither 0 nor 1 and ", become, "true");
  }
  if (is_integer) {
    return Cat(is_one ? " loses its fraction in " : " lose their fraction in ",
               dtype);
  }
  if (FindKind(from) == DTypeKind::kInteger) {
    return Cat(are, is_one ? "an integer" : "integers", " that ", dtype,
               " does not hold exactly");
  }
  return Cat(are, "too small for ", dtype, " and ", become, "0");
}

// "\"m/w\": 3 of 400 f64 values are too large for bf16 and become infinite
// (such as 1e+300)", and so on for other losses.
std::string DescribeLosses(const LostValues& lost) {
  std::vector<std::string> parts;
  for (size_t loss = 0; loss < kNumLosses; ++loss) {
    const int64_t count = lost.losses.counts[loss];
    if (count == 0) continue;
    const std::string of = parts.empty() ? Cat(" of ", lost.losses.values, " ",
                                               DTypeName(lost.from), " values")
                                         : "";
    parts.push_back(Cat(
        count, of,
        WhatHappens(static_cast<Loss>(loss), lost.from, lost.to, count == 1),
        " (such as ", ElementText(lost.from, lost.losses.examples[loss]), ")"));
  }
  return Cat("\"", lost.key, "\": ", absl::StrJoin(parts, "; "));
}

// --- As bytes ---

// The first keys with lost values, without keys that were only converted. In
// the merged keys of all ranks, the number of converted values is incomplete.
struct GatheredLost {
  std::vector<LostValues> first;
  // The number of keys with lost values; a lower bound if a rank has more keys
  // than it sends.
  int64_t num_keys = 0;
  bool is_exact = true;
};
template <typename Archive>
void Fields(Archive& archive, GatheredLost& lost) {
  archive(lost.first, lost.num_keys, lost.is_exact);
}

// Returns the first keys with lost values.
GatheredLost KeepFirst(std::vector<LostValues> all) {
  std::erase_if(all, [](const LostValues& one) { return !one.losses.Any(); });
  GatheredLost kept{.num_keys = std::ssize(all)};
  if (all.size() > kMaxWarnings) all.resize(kMaxWarnings);
  kept.first = std::move(all);
  return kept;
}

// The first keys over all ranks are among the first keys of each rank, so ranks
// send only those.
StatusOr<GatheredLost> MergeFirst(const std::vector<std::string>& gathered) {
  std::vector<LostValues> all;
  int64_t most_keys = 0;
  bool is_exact = true;
  for (const std::string& bytes : gathered) {
    GatheredLost one = Decode<GatheredLost>(bytes).value_or(GatheredLost());
    most_keys = std::max(most_keys, one.num_keys);
    if (one.num_keys > std::ssize(one.first)) is_exact = false;
    std::ranges::move(one.first, std::back_inserter(all));
  }
  GatheredLost merged = KeepFirst(Merged(std::move(all)));
  merged.num_keys = std::max(merged.num_keys, most_keys);
  merged.is_exact = is_exact;
  return merged;
}

// Collective; agreed.
Agreed<GatheredLost> GatherLost(CommContext& context,
                                const std::vector<LostValues>& mine) {
  BELAY_ASSIGN_OR_RETURN_AGREED(const std::vector<std::string> gathered,
                                Gather(context, Encode(KeepFirst(mine))));
  return ShareFromRoot<GatheredLost>(
      context, [&] { return MergeFirst(gathered); }, "the keys of lost values");
}

// "3 more keys", "at least 3 more keys".
std::string MoreKeysText(const GatheredLost& lost, int64_t told) {
  return Cat(lost.is_exact ? "" : "at least ",
             CountText(lost.num_keys - told, "more key"));
}

}  // namespace

std::vector<LostValues> Merged(std::vector<LostValues> all) {
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return GetIdentity(a) < GetIdentity(b);
  });
  std::vector<LostValues> merged;
  for (LostValues& one : all) {
    if (!merged.empty() && GetIdentity(merged.back()) == GetIdentity(one)) {
      AddTo(one.losses, merged.back().losses);
    } else {
      merged.push_back(std::move(one));
    }
  }
  return merged;
}

bool AnyLost(std::span<const ConversionLosses> losses) {
  return std::any_of(losses.begin(), losses.end(),
                     [](const ConversionLosses& one) { return one.Any(); });
}

std::vector<LostValues> ListLost(const FormedShards& formed,
                                 ConversionWay way) {
  std::vector<LostValues> all;
  for (size_t i = 0; i < formed.losses.size(); ++i) {
    if (formed.losses[i].values == 0) continue;
    LostValues one{.key = formed.shards[i].key,
                   .from = formed.shards[i].dtype,
                   .to = formed.forms[i].dtype,
                   .losses = formed.losses[i]};
    if (way == ConversionWay::kFromStored) std::swap(one.from, one.to);
    all.push_back(std::move(one));
  }
  return Merged(std::move(all));
}

Agreed<std::vector<std::string>> TellLost(CommContext& context,
                                          std::string_view what,
                                          const std::vector<LostValues>& mine,
                                          bool strict) {
  BELAY_ASSIGN_OR_RETURN_AGREED(GatheredLost gathered,
                                GatherLost(context, mine));
  std::vector<LostValues>& lost = gathered.first;
  std::vector<int64_t> values(lost.size(), 0);
  for (size_t i = 0; i < lost.size(); ++i) {
    const auto found = std::lower_bound(
        mine.begin(), mine.end(), lost[i], [](const auto& a, const auto& b) {
          return GetIdentity(a) < GetIdentity(b);
        });
    if (found == mine.end() || GetIdentity(*found) != GetIdentity(lost[i])) {
      continue;
    }
    values[i] = found->losses.values;
  }
  BELAY_RETURN_IF_AGREED(SumAll(context, values));
  std::vector<std::string> warnings;
  for (size_t i = 0; i < lost.size(); ++i) {
    lost[i].losses.values = values[i];
    warnings.push_back(Cat(what, ": ", DescribeLosses(lost[i])));
  }
  if (strict && !warnings.empty()) {
    const std::string others =
        gathered.num_keys == 1
            ? ""
            : Cat("; the same holds for ", MoreKeysText(gathered, 1));
    return SameOnAllRanks(absl::FailedPreconditionError(
                              Cat(warnings[0], others,
                                  "; strict_dtype does not allow this: choose "
                                  "a dtype that has these "
                                  "values, or turn strict_dtype off")))
        .error();
  }
  if (gathered.num_keys > std::ssize(lost)) {
    warnings.push_back(Cat(what, ": conversions change values of ",
                           MoreKeysText(gathered, std::ssize(lost)),
                           " by more than rounding"));
  }
  return warnings;
}

}  // namespace belay
