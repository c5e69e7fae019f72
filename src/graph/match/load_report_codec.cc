// A report as bytes, for messages from rank 0.
#include "bytes/wire.h"
#include "graph/match/load_report.h"

namespace belay {
namespace {

template <typename T, typename Put>
void PutAll(WireWriter& out, const std::vector<T>& all, Put&& put) {
  out.Put<uint64_t>(all.size());
  for (const T& one : all) put(one);
}

void PutRanks(WireWriter& out, const std::vector<int>& ranks) {
  PutAll(out, ranks, [&](int rank) { out.Put<int32_t>(rank); });
}

std::vector<int> GetRanks(WireReader& in) {
  return in.GetAll<int>([&] { return static_cast<int>(in.Get<int32_t>()); });
}

void PutDifferent(WireWriter& out, const std::vector<DifferentValue>& values) {
  PutAll(out, values, [&](const DifferentValue& value) {
    out.PutText(value.key);
    out.PutText(value.stored_key);
    out.PutText(value.needed);
    out.PutText(value.found);
    PutRanks(out, value.ranks);
  });
}

std::vector<DifferentValue> GetDifferent(WireReader& in) {
  const auto text = [&] { return std::string(in.GetText()); };
  // Braces: from left to right.
  return in.GetAll<DifferentValue>([&] {
    return DifferentValue{.key = text(),
                          .stored_key = text(),
                          .needed = text(),
                          .found = text(),
                          .ranks = GetRanks(in)};
  });
}

}  // namespace

std::string EncodeLoadReport(const LoadReport& report) {
  WireWriter out;
  PutRanks(out, report.ranks);
  out.Put(report.num_objects);
  PutAll(out, report.matched, [&](const MatchedValue& value) {
    out.PutText(value.stored_key);
    out.PutText(value.key);
  });
  PutAll(out, report.missing, [&](const MissingValue& value) {
    out.PutText(value.key);
    PutRanks(out, value.ranks);
  });
  PutAll(out, report.unused, [&](const UnusedValue& value) {
    out.PutText(value.stored_key);
    out.PutText(value.object);
    out.Put(value.cause);
  });
  PutDifferent(out, report.incompatible);
  PutDifferent(out, report.converted);
  out.PutTexts(report.skipped);
  out.PutTexts(report.defaulted);
  out.PutTexts(report.deferred);
  out.PutTexts(report.unmatched_objects);
  out.PutTexts(report.warnings);
  return out.Take();
}

StatusOr<LoadReport> DecodeLoadReport(std::string_view bytes) {
  WireReader in(bytes);
  const auto text = [&] { return std::string(in.GetText()); };
  LoadReport report;
  report.ranks = GetRanks(in);
  report.num_objects = in.Get<int64_t>();
  // Braces: from left to right.
  report.matched = in.GetAll<MatchedValue>(
      [&] { return MatchedValue{.stored_key = text(), .key = text()}; });
  report.missing = in.GetAll<MissingValue>(
      [&] { return MissingValue{.key = text(), .ranks = GetRanks(in)}; });
  report.unused = in.GetAll<UnusedValue>([&] {
    return UnusedValue{.stored_key = text(),
                       .object = text(),
                       .cause = in.Get<UnusedValue::Cause>()};
  });
  report.incompatible = GetDifferent(in);
  report.converted = GetDifferent(in);
  report.skipped = in.GetTexts();
  report.defaulted = in.GetTexts();
  report.deferred = in.GetTexts();
  report.unmatched_objects = in.GetTexts();
  report.warnings = in.GetTexts();
  if (!in.ok() || !in.done()) {
    return absl::DataLossError("read load report \"\": the bytes are damaged");
  }
  return report;
}

}  // namespace belay
