#include "plan/progressions.h"

#include <algorithm>

namespace belay {

void Progressions::Append(int64_t value) {
  const int64_t position = size_++;
  if (!runs_.empty()) {
    Run& last = runs_.back();
    if (last.count == 1) last.step = value - last.first;
    if (value - last.Last() == last.step) {
      ++last.count;
      return;
    }
  }
  runs_.push_back({.begin = position, .first = value, .step = 0, .count = 1});
}

int64_t Progressions::operator[](int64_t position) const {
  const auto after = std::partition_point(
      runs_.begin(), runs_.end(),
      [&](const Run& run) { return run.begin <= position; });
  const Run& run = *(after - 1);
  return run.first + run.step * (position - run.begin);
}

int64_t Progressions::UpperBound(int64_t value) const {
  const auto run =
      std::partition_point(runs_.begin(), runs_.end(),
                           [&](const Run& one) { return one.Last() <= value; });
  if (run == runs_.end()) return size_;
  if (value < run->first) return run->begin;
  return run->begin + (value - run->first) / run->step + 1;
}

void Progressions::Put(WireWriter& out) const {
  out.Put<uint64_t>(runs_.size());
  for (const Run& run : runs_) out.Put(run);
}

Progressions Progressions::Get(WireReader& in) {
  Progressions all;
  const auto num_runs = in.Get<uint64_t>();
  for (uint64_t i = 0; i < num_runs && in.ok(); ++i) {
    all.runs_.push_back(in.Get<Run>());
  }
  for (const Run& run : all.runs_) all.size_ += run.count;
  return all;
}

}  // namespace belay
