// Reports what a restore matched, with the assertions of TensorFlow's load
// status.
//
//   auto status = checkpoint.Restore(path);
//   Status all = status->AssertConsumed();
//   std::cout << status->ToString();

#ifndef BELAY_OBJECTS_LOAD_STATUS_H_
#define BELAY_OBJECTS_LOAD_STATUS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "belay/status.h"

namespace belay {

// A stored value that matches a value of the program.
struct MatchedValue {
  std::string stored_key;
  std::string key;  // of the program; usually the same
};

// A value of the program that is not stored.
struct MissingValue {
  std::string key;
  std::vector<int> ranks;  // that requested it
};

// A stored value that no rank requested.
struct UnusedValue {
  enum class Cause {
    kObject,     // no rank has its object
    kSlot,       // no rank has this slot, or its optimizer, or its variable
    kAttribute,  // its object exists, without this value
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

// What matched, on one rank or on all ranks together. A stored value counts as
// unused or deferred if no rank could use it.
struct LoadReport {
  std::vector<int> ranks;   // that it covers
  int64_t num_objects = 0;  // matched, without the root
  std::vector<MatchedValue> matched;
  std::vector<MissingValue> missing;
  std::vector<UnusedValue> unused;
  std::vector<DifferentValue> incompatible;
  // Matched values with a difference that the restore options allowed.
  std::vector<DifferentValue> converted;
  // Stored values that the program has but the arguments skip.
  std::vector<std::string> skipped;
  // Values of the program that are not stored, if the arguments allow that.
  std::vector<std::string> defaulted;
  // Stored objects that will be restored once the program creates them.
  std::vector<std::string> deferred;
  // Objects of the program that hold values but match no stored object.
  std::vector<std::string> unmatched_objects;
  // Objects and values of the program that were not matched because another one
  // took the stored one.
  std::vector<std::string> warnings;

  // Returns the report as text of several lines. Local.
  std::string ToString() const;
};

// The outcome of a restore. A plain value: later changes of the program do not
// affect it. All functions are local.
class LoadStatus {
 public:
  enum class Kind {
    kObjectGraph,
    kNameBased,           // the checkpoint has no object graph
    kInitializationOnly,  // there was no checkpoint
  };

  // `report` covers all ranks. `rank_reports` covers single ranks (in a
  // program, its own rank) and may be empty.
  LoadStatus(Kind kind, LoadReport report,
             std::vector<LoadReport> rank_reports = {})
      : kind_(kind),
        report_(std::move(report)),
        rank_reports_(std::move(rank_reports)) {}

  // Returns the status of a restore without a checkpoint. Local.
  static LoadStatus InitializationOnly() {
    return LoadStatus(Kind::kInitializationOnly, {});
  }

  // Checks that every value of the program was matched and every stored value
  // was used. Without a graph in the checkpoint, only the former. Local.
  // Errors: FailedPrecondition - the check failed; names the values.
  Status AssertConsumed() const;

  // Checks that every value of the program was matched; ignores empty
  // containers. Local.
  // Errors: FailedPrecondition - the check failed; names the values.
  Status AssertExistingObjectsMatched() const;

  // Checks that something other than the root and the save counter was matched.
  // Local.
  // Errors: FailedPrecondition - nothing was.
  Status AssertNontrivialMatch() const;

  // Declares that unused values are expected. Local.
  LoadStatus& ExpectPartial() {
    expects_partial_ = true;
    return *this;
  }

  // Returns a warning about stored values that no rank used; "" if there are
  // none, or after ExpectPartial. Local.
  std::string PartialWarning() const;

  Kind kind() const { return kind_; }
  const LoadReport& report() const { return report_; }
  const std::vector<LoadReport>& rank_reports() const { return rank_reports_; }

  // Returns the report as text of several lines, followed by the differences on
  // single ranks. Local.
  std::string ToString() const;

 private:
  Kind kind_;
  LoadReport report_;
  std::vector<LoadReport> rank_reports_;
  bool expects_partial_ = false;
};

}  // namespace belay

#endif  // BELAY_OBJECTS_LOAD_STATUS_H_
