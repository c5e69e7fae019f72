// What a restore matched: a report, and the assertions of TensorFlow's load
// status over it.
//
//   auto status = checkpoint.Restore(path);
//   Status all = status->AssertConsumed();
//   std::cout << status->ToString();

#ifndef BELAY_LOAD_STATUS_H_
#define BELAY_LOAD_STATUS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "belay/status.h"

namespace belay {

// A stored value that belongs to a value of the program.
struct MatchedValue {
  std::string stored_key;
  std::string key;  // of the program; mostly the same
};

// A value of the program that the file does not have.
struct MissingValue {
  std::string key;
  std::vector<int> ranks;  // that wanted it
};

// A stored value that no rank wanted.
struct UnusedValue {
  enum class Cause {
    kObject,     // no rank has its object
    kSlot,       // no rank has this slot, or its optimizer, or its variable
    kAttribute,  // its object is there, without this value
  };
  std::string stored_key;
  std::string object;  // such as "(root).model.dense"
  Cause cause = Cause::kObject;
};

// A value of the program whose stored counterpart has another dtype or shape.
struct DifferentValue {
  std::string key;
  std::string stored_key;
  std::string needed;  // such as "f32 [4, 3]"
  std::string found;
  std::vector<int> ranks;
};

// What was matched, on one rank or on all together. A stored value counts as
// unused or deferred if no rank could use it.
struct LoadReport {
  std::vector<int> ranks;   // that it is about
  int64_t num_objects = 0;  // that were matched, but for the root
  std::vector<MatchedValue> matched;
  std::vector<MissingValue> missing;
  std::vector<UnusedValue> unused;
  std::vector<DifferentValue> incompatible;
  // Among those that are matched: what the options of the restore let differ.
  std::vector<DifferentValue> converted;
  // Stored values that the arguments leave out, though the program has them.
  std::vector<std::string> skipped;
  // Values of the program that are not stored, where the arguments allow that.
  std::vector<std::string> defaulted;
  // Stored objects that are restored as soon as the program has them.
  std::vector<std::string> deferred;
  // Objects of the program that hold values and match nothing.
  std::vector<std::string> unmatched_objects;
  // An object of the program that cannot be matched, as another one was.
  std::vector<std::string> warnings;

  // Returns the report as text of several lines. Local.
  std::string ToString() const;
};

// The outcome of a restore. A plain value: it does not follow what the program
// does later. All functions are local.
class LoadStatus {
 public:
  enum class Kind {
    kObjectGraph,
    kNameBased,           // of a checkpoint without an object graph
    kInitializationOnly,  // there was no checkpoint
  };

  // `report` is about all ranks, `rank_reports` about single ones, in a program
  // the own rank, and may be empty.
  LoadStatus(Kind kind, LoadReport report,
             std::vector<LoadReport> rank_reports = {})
      : kind_(kind),
        report_(std::move(report)),
        rank_reports_(std::move(rank_reports)) {}

  // The status of a restore without a checkpoint. Local.
  static LoadStatus InitializationOnly() {
    return LoadStatus(Kind::kInitializationOnly, {});
  }

  // Checks that every value of the program was matched, and every stored value
  // used. Of a checkpoint without a graph: the former only. Local.
  // Errors: FailedPrecondition - not so; says which.
  Status AssertConsumed() const;

  // Checks that every value of the program was matched; empty containers do
  // not count. Local.
  // Errors: FailedPrecondition - not so; says which.
  Status AssertExistingObjectsMatched() const;

  // Checks that more than the root and the save counter was matched. Local.
  // Errors: FailedPrecondition - nothing was.
  Status AssertNontrivialMatch() const;

  // Says that it is fine if values are left over. Local.
  LoadStatus& ExpectPartial() {
    expects_partial_ = true;
    return *this;
  }

  // What to warn of: stored values that nobody used. "" if there are none, or
  // after ExpectPartial. Local.
  std::string PartialWarning() const;

  Kind kind() const { return kind_; }
  const LoadReport& report() const { return report_; }
  const std::vector<LoadReport>& rank_reports() const { return rank_reports_; }

  // Returns the report as text of several lines, and what ranks have to say
  // beside it. Local.
  std::string ToString() const;

 private:
  Kind kind_;
  LoadReport report_;
  std::vector<LoadReport> rank_reports_;
  bool expects_partial_ = false;
};

}  // namespace belay

#endif  // BELAY_LOAD_STATUS_H_
