#include "pipeline/operator_options.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/integers.h"
#include "core/keys.h"
#include "core/text.h"

namespace belay {
namespace {

constexpr std::pair<const char*, Transfer> kTransfers[] = {
    {"auto", Transfer::kAuto},
    {"independent", Transfer::kIndependent},
    {"two_phase", Transfer::kTwoPhase},
    {"collective", Transfer::kCollective},
    {"hdf5", Transfer::kHdf5}};

const char* NameOf(Transfer transfer) {
  for (const auto& [name, value] : kTransfers) {
    if (value == transfer) return name;
  }
  return "another one";
}

const char* NameOf(bool value) { return value ? "true" : "false"; }

// Parses variables, and collects mistakes.
struct Variables {
  const VariableLookup& lookup;
  std::vector<std::string> mistakes = {};

  // Each returns nothing if the variable is unset or invalid.
  std::optional<std::string> Text(const char* name) const {
    const char* const value = lookup(name);
    if (value == nullptr || *value == '\0') return std::nullopt;
    return value;
  }

  void NoteBad(const char* name, const std::string& need,
               const std::string& found) {
    mistakes.push_back(absl::StrFormat("%s is invalid (need %s, found \"%s\")",
                                       name, need, found));
  }

  std::optional<int64_t> Number(const char* name, int64_t low) {
    const std::optional<std::string> text = Text(name);
    if (!text) return std::nullopt;
    const std::optional<int64_t> number = ParseDigits(*text, INT64_MAX);
    if (number && *number >= low) return number;
    NoteBad(name, absl::StrCat("a whole number of at least ", low), *text);
    return std::nullopt;
  }

  std::optional<bool> Flag(const char* name) {
    const std::optional<std::string> text = Text(name);
    if (!text) return std::nullopt;
    if (*text == "0" || *text == "1") return *text == "1";
    NoteBad(name, "0 or 1", *text);
    return std::nullopt;
  }

  std::optional<Transfer> TransferOf(const char* name) {
    const std::optional<std::string> text = Text(name);
    if (!text) return std::nullopt;
    for (const auto& [known, transfer] : kTransfers) {
      if (*text == known) return transfer;
    }
    NoteBad(name, "auto, independent, two_phase, collective or hdf5", *text);
    return std::nullopt;
  }
};

// Removes a rule, and adds that to the note.
template <typename T>
void Drop(const char* name, T& rule, std::string& note) {
  if (!rule) return;
  rule = T();
  absl::StrAppend(&note, " and of ", name);
}

void ApplyInterval(int64_t interval, ManagerOptions& options,
                   std::vector<std::string>& notes) {
  std::string note = absl::StrFormat(
      "BELAY_INTERVAL: save_interval_steps is %d in place of %d", interval,
      options.save_interval_steps);
  options.save_interval_steps = interval;
  Drop("should_save", options.should_save, note);
  Drop("checkpoint_interval", options.checkpoint_interval, note);
  Drop("auto_interval", options.auto_interval, note);
  notes.push_back(std::move(note));
}

void ApplyKeep(int64_t keep, ManagerOptions& options,
               std::vector<std::string>& notes) {
  std::string note = absl::StrCat(
      "BELAY_KEEP: max_to_keep is ", keep, " in place of ",
      options.max_to_keep ? absl::StrCat(*options.max_to_keep) : "all");
  options.max_to_keep = keep;
  Drop("retention", options.retention, note);
  notes.push_back(std::move(note));
}

// Other variables that belay reads.
constexpr const char* kOtherVariables[] = {"BELAY_ABORT_ON_EXCEPTION",
                                           "BELAY_FOLLOW_LINKS",
                                           "BELAY_JOB_END_TIME",
                                           "BELAY_JOB_NAME",
                                           "BELAY_LOG",
                                           "BELAY_MAX_METADATA_BYTES",
                                           "BELAY_TRUST_HDF5"};

}  // namespace

std::vector<std::string> MisspeltVariables(
    const std::vector<std::string>& names) {
  constexpr std::string_view kPrefix = "BELAY_";
  std::vector<std::string_view> known(std::begin(kOtherVariables),
                                      std::end(kOtherVariables));
  known.insert(known.end(), kOperatorVariables.begin(),
               kOperatorVariables.end());
  std::vector<std::string> lines;
  for (const std::string& name : names) {
    if (!name.starts_with(kPrefix)) continue;
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    // The common prefix must not make names close.
    CloseKeys close(std::string_view(name).substr(kPrefix.size()), 1);
    for (const std::string_view one : known) {
      close.Offer(one.substr(kPrefix.size()));
    }
    if (close.keys().empty()) continue;
    lines.push_back(Cat("belay has no variable ", name,
                        "; close to it: ", kPrefix, close.keys().front()));
  }
  return lines;
}

StatusOr<OperatorOptions> ParseOperatorOptions(const VariableLookup& lookup) {
  Variables variables{lookup};
  OperatorOptions wanted{
      .dir = variables.Text("BELAY_DIR"),
      .save_interval_steps = variables.Number("BELAY_INTERVAL", 1),
      .max_to_keep = variables.Number("BELAY_KEEP", 0),
      .durable = variables.Flag("BELAY_DURABLE"),
      .transfer = variables.TransferOf("BELAY_TRANSFER")};
  if (variables.mistakes.empty()) return wanted;
  return absl::InvalidArgumentError(absl::StrJoin(variables.mistakes, "; "));
}

std::vector<std::string> ApplyOperatorOptions(const OperatorOptions& wanted,
                                              std::string& dir,
                                              ManagerOptions& options) {
  std::vector<std::string> notes;
  if (wanted.dir) {
    notes.push_back(
        absl::StrFormat("BELAY_DIR: the directory is \"%s\" in place of \"%s\"",
                        *wanted.dir, dir));
    dir = *wanted.dir;
  }
  if (options.read_only) return notes;
  if (wanted.save_interval_steps) {
    ApplyInterval(*wanted.save_interval_steps, options, notes);
  }
  if (wanted.max_to_keep) ApplyKeep(*wanted.max_to_keep, options, notes);
  if (wanted.durable) {
    notes.push_back(
        absl::StrFormat("BELAY_DURABLE: save.durable is %s in place of %s",
                        NameOf(*wanted.durable), NameOf(options.save.durable)));
  }
  if (wanted.transfer) {
    notes.push_back(absl::StrFormat(
        "BELAY_TRANSFER: save.transfer is %s in place of %s",
        NameOf(*wanted.transfer), NameOf(options.save.transfer)));
  }
  ApplyToSave(wanted, options.save);
  return notes;
}

void ApplyToSave(const OperatorOptions& wanted, SaveOptions& save) {
  if (wanted.durable) save.durable = *wanted.durable;
  if (wanted.transfer) save.transfer = *wanted.transfer;
}

}  // namespace belay
