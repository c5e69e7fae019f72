// Random options of saves, and random restores of arrays.

#ifndef BELAY_MPI_TESTS_RANDOM_CASE_H_
#define BELAY_MPI_TESTS_RANDOM_CASE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "belay/arrays/dtype.h"
#include "belay/comm.h"
#include "belay/options.h"
#include "belay/state.h"
#include "belay/values/restore_args.h"
#include "belay/values/save_args.h"
#include "belay/values/sharding_policy.h"
#include "random_array.h"
#include "random_piece.h"
#include "random_restore.h"

namespace belay::testing {

using Arrays = std::vector<std::unique_ptr<RandomArray>>;

// Some of the ranks.
struct Group {
  Comm comm;
  int rank = -1;  // -1: this is none of them
  int ranks = 0;
};

// The forms in which a save stores its arrays; the same on all ranks.
inline SaveOptions DrawSaveOptions(const Arrays& arrays, Random& same) {
  SaveOptions options{.overwrite = true, .durable = false};
  options.file_layout = static_cast<FileLayout>(Uniform(0, 2, same));
  options.array_layout = static_cast<ArrayLayout>(Uniform(0, 1, same));
  if (OnceIn(5, same)) {
    options.sharding_policy = MaxShardSize(Uniform(40, 4000, same));
  }
  options.transfer = static_cast<Transfer>(Uniform(0, 4, same));
  options.checksums = !OnceIn(8, same);
  options.read_back = OnceIn(8, same);
  if (OnceIn(3, same)) options.max_bytes_in_flight = 4096;
  if (OnceIn(3, same)) options.check_replicas = OnceIn(2, same);
  for (const auto& array : arrays) {
    SaveArgs args;
    constexpr DType kDTypes[] = {DType::kF32, DType::kF64, DType::kI32,
                                 DType::kI64, DType::kU8,  DType::kBF16};
    if (array->is_small() && OnceIn(3, same)) {
      args.dtype = kDTypes[Uniform(0, 5, same)];
    }
    const bool may_chunk = options.array_layout == ArrayLayout::kAuto;
    if (may_chunk && OnceIn(4, same)) {
      args.chunk_byte_size = Uniform(8, 4000, same);
    }
    if (may_chunk && OnceIn(6, same)) args.filters = Deflate();
    if (args == SaveArgs()) continue;
    options.args.push_back({ExactKey(array->key()), args});
  }
  return options;
}

// Whether anything is stored as another dtype.
inline bool HasCasts(const SaveOptions& options) {
  return std::any_of(
      options.args.begin(), options.args.end(),
      [](const SaveArgsFor& one) { return one.args.dtype.has_value(); });
}

inline std::string ToText(const SaveOptions& options) {
  std::string text = absl::StrCat(
      "file layout ", static_cast<int>(options.file_layout), ", array layout ",
      static_cast<int>(options.array_layout), ", transfer ",
      static_cast<int>(options.transfer), ", in flight ",
      options.max_bytes_in_flight, ", read back ", options.read_back);
  for (const SaveArgsFor& one : options.args) {
    absl::StrAppend(
        &text, ", ", one.keys, ":",
        one.args.dtype ? std::string(DTypeName(*one.args.dtype)) : "",
        " chunk ", one.args.chunk_byte_size, " filters ",
        one.args.filters.size());
  }
  return text;
}

// What the ranks of a group restore of a step, and in what ways.
class Restoring {
 public:
  Restoring(const Arrays& arrays, const Group& group, int saved_ranks,
            int64_t step, bool has_casts, uint32_t seed)
      : arrays_(arrays),
        group_{group.rank, group.ranks, saved_ranks},
        step_(step),
        same_(seed),
        own_(seed + 1000 + group.rank) {
    options_.allow_dtype_cast = has_casts || OnceIn(2, same_);
    options_.checksums = !OnceIn(8, same_);
    options_.read_sharing = static_cast<ReadSharing>(Uniform(0, 2, same_));
    if (OnceIn(3, same_)) options_.max_bytes_in_flight = 4096;
    if (OnceIn(4, same_)) options_.unexpected = MismatchPolicy::kCollect;
    if (OnceIn(8, same_)) options_.missing = MismatchPolicy::kCollect;
    options_.selects = [this](std::string_view key) {
      return left_out_.count(std::string(key)) == 0;
    };
  }

  const State& state() const { return state_; }
  const RestoreOptions& options() const { return options_; }
  const Mistake& mistake() const { return mistake_; }

  // Adds all arrays, some of them twice, and one that may be a mistake.
  void AddAll(bool may_fail) {
    const int64_t last = std::ssize(arrays_) - 1;
    const int64_t victim = may_fail ? Uniform(0, last, same_) : -1;
    for (int64_t i = 0; i <= last; ++i) {
      const std::string& key = arrays_[i]->key();
      Add(*arrays_[i], key, i == victim);
      if (i == victim || !OnceIn(4, same_)) continue;
      const std::string again = key + "_again";
      Add(*arrays_[i], again, false);
      options_.args.push_back({ExactKey(again), {.stored_key = key}});
    }
  }

  void Check() const {
    for (const auto& [what, checker] : checkers_) {
      EXPECT_EQ(checker(), "") << what;
    }
  }

  std::string ToString() const {
    return absl::StrCat("restore step ", step_, " on rank ", group_.rank,
                        " of ", group_.ranks, ", sharing ",
                        static_cast<int>(options_.read_sharing), ", in flight ",
                        options_.max_bytes_in_flight, text_);
  }

 private:
  void Add(const RandomArray& array, const std::string& key, bool may_fail) {
    Wanted wanted{.key = key,
                  .group = group_,
                  .may_fail = may_fail,
                  .same = same_,
                  .own = own_,
                  .state = state_};
    DrawHolders();
    wanted.holders = holders_;
    const Checker checker = array.Want(step_ - 1, wanted);
    const std::string what =
        absl::StrCat(key, " as ", wanted.text, " on ranks ",
                     absl::StrJoin(wanted.holders, ","));
    absl::StrAppend(&text_, "\n  ", what);
    if (checker != nullptr) {
      checkers_.emplace_back(what, checker);
    } else if (OnceIn(3, own_)) {
      AddLeftOut(key);
    } else if (group_.rank >= 0 && OnceIn(2, own_)) {
      wanted.holders = {group_.rank};
      wanted.may_fail = false;
      checkers_.emplace_back("pieces of " + key,
                             array.WantPieces(step_ - 1, wanted));
    }
    if (wanted.mistake.code != absl::StatusCode::kOk) {
      mistake_ = wanted.mistake;
      absl::StrAppend(&text_, ", a mistake");
    }
  }

  // What this rank has of a key that only others restore.
  void AddLeftOut(const std::string& key) {
    const auto left_out = std::make_shared<std::vector<double>>(3, 5.0);
    left_out_.insert(key);
    state_.AddRows(key, *left_out);
    checkers_.emplace_back(key + ", which is left out", [left_out] {
      return Difference(std::vector<double>(3, 5.0), *left_out);
    });
  }

  // The ranks that restore a key.
  void DrawHolders() {
    holders_.clear();
    const bool all_hold = !OnceIn(6, same_);
    const int64_t always = Uniform(0, group_.ranks - 1, same_);
    for (int i = 0; i < group_.ranks; ++i) {
      const bool is_drawn = OnceIn(2, same_);
      if (all_hold || i == always || is_drawn) holders_.push_back(i);
    }
  }

  const Arrays& arrays_;
  const Restorers group_;
  const int64_t step_;
  Random same_, own_;
  std::vector<int> holders_;
  std::set<std::string> left_out_;
  State state_;
  RestoreOptions options_;
  Mistake mistake_;
  std::vector<std::pair<std::string, Checker>> checkers_;
  std::string text_;
};

// The seed of another generator.
inline uint32_t Seed(Random& same) { return static_cast<uint32_t>(same()); }

}  // namespace belay::testing

#endif  // BELAY_MPI_TESTS_RANDOM_CASE_H_
