// The option table: one row per option of saves, restores, background savers
// and managers. Code that reads, checks, compares, documents or names an option
// takes it from here.
//
// An option has one name, that of its field, also in C, Fortran and Python,
// unless the row gives another name.

#ifndef BELAY_CORE_OPTION_TABLE_H_
#define BELAY_CORE_OPTION_TABLE_H_

#include <array>
#include <cfloat>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include "belay/manager/manager_options.h"
#include "belay/options.h"
#include "belay/status.h"
#include "belay/values/async_options.h"
#include "core/program_words.h"
#include "core/text.h"

namespace belay {

// The range of a number.
struct Bounds {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool is_open = false;  // low and high themselves are out of range
};

constexpr Bounds AtLeast(double low) { return {.low = low, .high = DBL_MAX}; }
constexpr Bounds Above(double low) {
  return {.low = low, .high = DBL_MAX, .is_open = true};
}

// Less common properties of an option.
struct OptionTraits {
  Bounds bounds = {};
  // The documented default, if it differs from the struct's.
  const char* usual = nullptr;
  // The name in C, Fortran and Python, if it differs from the field's.
  const char* other_name = nullptr;
  bool is_only_cpp = false;        // even if others could pass it
  bool may_differ = false;         // between ranks
  const char* variable = nullptr;  // environment variable that overrides it
};

template <typename T>
inline constexpr bool kIsFunction = false;
template <typename T>
inline constexpr bool kIsFunction<std::function<T>> = true;

// True for borrowed objects, and functions whose arguments do not exist in
// other languages.
template <typename T>
inline constexpr bool kIsOnlyCpp =
    std::is_pointer_v<T> ||
    std::is_same_v<T, std::optional<PreservationPolicy>> ||
    (kIsFunction<T> &&
     !std::is_same_v<T, decltype(SaveOptions::before_commit)> &&
     !std::is_same_v<T, decltype(SaveOptions::after_commit)> &&
     !std::is_same_v<T, std::function<void(int64_t, int64_t)>>);

template <typename Options, typename T>
struct OptionRow {
  const char* name;  // of the field
  T Options::*field;
  const char* help;  // Markdown
  OptionTraits traits;

  bool is_only_cpp() const { return kIsOnlyCpp<T> || traits.is_only_cpp; }
  // The name in C, Fortran and Python.
  const char* other_name() const {
    return traits.other_name != nullptr ? traits.other_name : name;
  }
};

template <typename Options, typename T>
constexpr OptionRow<Options, T> Option(const char* name, T Options::*field,
                                       const char* help,
                                       OptionTraits traits = {}) {
  return {name, field, help, traits};
}

// --- The words for values, in the order of the enums ---

constexpr std::array<const char*, 3> ListWords(FileLayout) {
  return {"shared", "per_node", "per_task"};
}
constexpr std::array<const char*, 2> ListWords(ArrayLayout) {
  return {"auto", "canonical"};
}
constexpr std::array<const char*, 5> ListWords(Transfer) {
  return {"collective", "independent", "hdf5", "two_phase", "auto"};
}
constexpr std::array<const char*, 3> ListWords(ReadSharing) {
  return {"auto", "each_rank", "once"};
}
constexpr std::array<const char*, 4> ListWords(MismatchPolicy) {
  return {"error", "warn", "collect", "ignore"};
}
constexpr std::array<const char*, 2> ListWords(SnapshotMode) {
  return {"in_call", "lazy"};
}
constexpr std::array<const char*, 4> ListWords(RestoreMatch) {
  return {"anything", "nontrivial", "existing_objects", "consumed"};
}
constexpr std::array<const char*, 2> ListWords(BestMode) {
  return {"max", "min"};
}
constexpr std::array<const char*, 3> ListWords(NewerSteps) {
  return {"refuse", "set_aside", "delete"};
}

template <typename T>
concept HasWords = requires(T value) {
  ListWords(value);
};

// Returns the word for a value; "another" if the value is not in the enum.
template <HasWords T>
std::string_view FindWord(T value) {
  const auto words = ListWords(value);
  const auto number = static_cast<size_t>(value);
  return number < words.size() ? words[number] : "another";
}

// --- The rows, in the order of the fields ---

template <typename Options>
struct OptionTable;

// Structs among a manager's options whose fields are the manager's own options
// in other languages.
template <typename T>
concept OptionGroup =
    std::is_same_v<T, SavePolicy> || std::is_same_v<T, RetentionPolicy>;

inline constexpr Bounds kBytesInFlight{.low = 4096, .high = 1 << 30};
inline constexpr OptionTraits kDeadline{.bounds = {.low = 0},
                                        .may_differ = true};

template <>
struct OptionTable<SaveOptions> {
  static constexpr const char* kName = "SaveOptions";
  using O = SaveOptions;
  static constexpr auto kRows = std::make_tuple(
      Option("file_layout", &O::file_layout,
             "one file, or one per node or task"),
      Option("array_layout", &O::array_layout,
             "`canonical`: the same file bytes for any decomposition, in one "
             "shared file of the default policy; otherwise the result has a "
             "warning"),
      Option(
          "sharding_policy", &O::sharding_policy,
          "sorts what a rank writes into groups: `ShardByTask()`, "
          "`MaxShardSize(bytes)`, or [your own](sharding.md#your-own). Group i "
          "of all ranks that share files goes into file i. Other languages "
          "have the option `max_shard_size` for `MaxShardSize`",
          {.usual = "`ShardByTask()`"}),
      Option(
          "args", &O::args,
          "how individual values are stored, by regular expressions for their "
          "keys ([arguments](arguments.md))"),
      Option("float32_as_bfloat16", &O::float32_as_bfloat16,
             "store f32 arrays as bf16 unless `args` name a dtype: half the "
             "bytes; restore them with `allow_dtype_cast`"),
      Option("overwrite", &O::overwrite, "replace a committed step"),
      Option("checksums", &O::checksums, "CRC32C per MiB of each array"),
      Option(
          "check_replicas", &O::check_replicas,
          "refuse replicas that are not equal, naming key, box and ranks; "
          "later saves compare [samples](state.md#values-that-every-rank-"
          "holds), other ones each time; `true`: all in every save, `false`: "
          "never",
          {.usual = "first save of a structure"}),
      Option(
          "strict_dtype", &O::strict_dtype,
          "fail if a dtype of `args` or `float32_as_bfloat16` changes a value "
          "by more than rounding ([which values](arguments.md#values-that-a-"
          "dtype-does-not-have)); otherwise the result and the log have a "
          "warning for each key"),
      Option("handlers", &O::handlers,
             "of values of other types ([handlers](handlers.md))",
             {.usual = "the global registry", .may_differ = true}),
      Option(
          "metadata", &O::metadata,
          "strings by name, stored beside the values for people and programs "
          "to read; those of rank 0 count",
          {.may_differ = true}),
      Option(
          "transfer", &O::transfer,
          "how the bytes reach the file; the file is the same. `independent`: "
          "each rank writes its own runs with `pwrite`. `two_phase`: ranks "
          "first exchange runs, so that each writes a part of the file in few "
          "calls. `auto`: `two_phase` if the mean run is shorter than 8 KiB, "
          "or if several nodes would share more than one of four "
          "[stripes](performance.md#striping) of a file; otherwise "
          "`independent`. `collective`: collective MPI-IO. `hdf5`: collective "
          "HDF5",
          {.variable = "BELAY_TRANSFER"}),
      Option("max_bytes_in_flight", &O::max_bytes_in_flight,
             "per rank: the bytes transferred in a round, and the memory for "
             "converting values or for exchanging runs",
             {.bounds = kBytesInFlight, .usual = "256 MiB"}),
      Option("durable", &O::durable, "sync before the commit",
             {.variable = "BELAY_DURABLE"}),
      Option("read_back", &O::read_back,
             "read all values back and compare them"),
      Option(
          "mpi_io_hints", &O::mpi_io_hints,
          "for creating data files ([striping](performance.md#striping)) and "
          "for `collective`; `striping_unit` also for `auto`"),
      Option(
          "before_commit", &O::before_commit,
          "`before_commit(directory, step)` is called on rank 0 when the step "
          "is on disk but has no name yet. An error or exception refuses the "
          "step. It must not communicate",
          {.may_differ = true}),
      Option("after_commit", &O::after_commit,
             "`after_commit(result)` is called on rank 0 after the commit. It "
             "must not communicate",
             {.may_differ = true}),
      Option("deadline_seconds", &O::deadline_seconds,
             "how long one stage may take before the job ends "
             "([deadline](errors.md#the-deadline)); 0: forever",
             kDeadline),
      Option(
          "cache", &O::cache,
          "a `PlanCache`: later saves of the same structure skip planning and "
          "HDF5. A `Checkpoint`, and so a manager, has its own; a communicator "
          "of C, Fortran or Python as well",
          {.may_differ = true}));
};

template <>
struct OptionTable<RestoreOptions> {
  static constexpr const char* kName = "RestoreOptions";
  using O = RestoreOptions;
  static constexpr auto kRows = std::make_tuple(
      Option("allow_dtype_cast", &O::allow_dtype_cast,
             "convert numbers that are stored with another dtype"),
      Option("allow_shape_mismatch", &O::allow_shape_mismatch,
             "restore what both shapes have in common"),
      Option(
          "missing", &O::missing,
          "values of a `State` that are not stored are an error, a warning, an "
          "entry of a list, or not reported ([how "
          "strict](arguments.md#how-strict-a-restore-is))"),
      Option("unexpected", &O::unexpected,
             "the same for stored values that no rank needs"),
      Option("mismatched", &O::mismatched,
             "the same for arrays that are stored with another dtype or shape"),
      Option(
          "strict_dtype", &O::strict_dtype,
          "fail if `allow_dtype_cast` changes a value by more than rounding; "
          "otherwise a warning for each key"),
      Option("args", &O::args,
             "how individual arrays are restored, by regular expressions for "
             "their keys ([arguments](arguments.md))"),
      Option("selects", &O::selects,
             "a function of the key: restores only the values for which it "
             "returns true",
             {.usual = "all values"}),
      Option(
          "on_open", &O::on_open,
          "is called on all ranks when the step is open; adds to the `State` "
          "what is stored ([patches](simulations.md#patches))"),
      Option("checksums", &O::checksums, "verify the blocks that are read"),
      Option(
          "read_sharing", &O::read_sharing,
          "who reads data that several ranks want. `once`: one rank for all. "
          "`each_rank`: each for itself. `auto`: `once` where it saves at "
          "least 1 MiB per rank and 256 KiB per round"),
      Option("primary_replica", &O::primary_replica,
             "only shards with this replica number read"),
      Option("max_bytes_in_flight", &O::max_bytes_in_flight,
             "per rank: memory for values in transit",
             {.bounds = kBytesInFlight, .usual = "256 MiB"}),
      Option("handlers", &O::handlers, "as above",
             {.usual = "the global registry", .may_differ = true}),
      Option("deadline_seconds", &O::deadline_seconds, "as above", kDeadline));
};

template <>
struct OptionTable<AsyncOptions> {
  static constexpr const char* kName = "AsyncOptions";
  using O = AsyncOptions;
  static constexpr auto kRows = std::make_tuple(
      Option(
          "max_staging_bytes", &O::max_staging_bytes,
          "the most bytes that a rank copies; the call itself writes the rest",
          {.bounds = AtLeast(0), .usual = "no limit"}),
      Option(
          "initial_staging_bytes", &O::initial_staging_bytes,
          "bytes of this rank for which memory is taken at once, so that the "
          "first save need not",
          {.bounds = AtLeast(0), .may_differ = true}),
      Option("max_bytes_per_second", &O::max_bytes_per_second,
             "the most that the thread of a rank writes; 0: no limit",
             {.bounds = AtLeast(0)}),
      Option("snapshot", &O::snapshot,
             "`lazy`: the thread copies the values while the program goes on, "
             "which must not change them before it has waited for the "
             "[snapshot](async.md)"));
};

template <>
struct OptionTable<AutoInterval> {
  static constexpr const char* kName = "AutoInterval";
  using O = AutoInterval;
  static constexpr auto kRows = std::make_tuple(
      Option("mtbf_seconds", &O::mtbf_seconds,
             "the mean time between failures of the whole job",
             {.bounds = Above(0), .usual = "none"}),
      Option("overhead_budget", &O::overhead_budget,
             "saves cost at most this fraction of the time",
             {.bounds = {.low = 0, .high = 1, .is_open = true}}));
};

template <>
struct OptionTable<SavePolicy> {
  static constexpr const char* kName = "SavePolicy";
  using O = SavePolicy;
  static constexpr auto kRows = std::make_tuple(
      Option("save_interval_steps", &O::save_interval_steps,
             "save the first step, and multiples of this number "
             "([when](manager.md#when-it-saves))",
             {.bounds = AtLeast(1), .variable = "BELAY_INTERVAL"}),
      Option("save_on_steps", &O::save_on_steps, "save these steps as well",
             {.bounds = AtLeast(0)}),
      Option(
          "save_first_step", &O::save_first_step,
          "`false`: save the first step only if the two options above ask for "
          "it"),
      Option("should_save", &O::should_save,
             "a function that says whether to save, in place of these"),
      Option("step_counter", &O::step_counter,
             "the training step, for a program that numbers its checkpoints "
             "differently"),
      Option("checkpoint_interval", &O::checkpoint_interval,
             "save if `step_counter` has grown by this much",
             {.bounds = AtLeast(1), .is_only_cpp = true}),
      Option(
          "auto_interval", &O::auto_interval,
          "`AutoInterval`, in place of all these: save as often as failures "
          "and the durations of saves make optimal ([how "
          "often](restart.md#how-often-to-save)). Other languages have its two "
          "fields as options",
          {.other_name = "mtbf_seconds"}));
};

template <>
struct OptionTable<RetentionPolicy> {
  static constexpr const char* kName = "RetentionPolicy";
  using O = RetentionPolicy;
  static constexpr auto kRows = std::make_tuple(
      Option("max_to_keep", &O::max_to_keep,
             "how many steps to keep: the newest or, with `best_fn` or "
             "`best_metric`, the best",
             {.bounds = AtLeast(0), .usual = "all", .variable = "BELAY_KEEP"}),
      Option("keep_period", &O::keep_period, "keep multiples of this number",
             {.bounds = AtLeast(1)}),
      Option(
          "keep_time_interval", &O::keep_time_interval,
          "keep the first step, and each one that is this many seconds after "
          "the last one kept",
          {.bounds = Above(0)}),
      Option(
          "keep_checkpoint_every_n_hours", &O::keep_checkpoint_every_n_hours,
          "of the steps that the other rules would delete, keep one per this "
          "many hours",
          {.bounds = Above(0)}),
      Option("best_fn", &O::best_fn, "rates a step by its metrics"),
      Option("best_metric", &O::best_metric,
             "the name of the metric that rates steps"),
      Option("best_mode", &O::best_mode, "`min`: smaller is better"),
      Option("keep_checkpoints_without_metrics",
             &O::keep_checkpoints_without_metrics,
             "keep steps that `best_fn` or `best_metric` cannot rate"),
      Option("preservation", &O::preservation,
             "a policy in place of all these ([what is "
             "kept](manager.md#what-it-keeps))"));
};

template <>
struct OptionTable<ManagerOptions> {
  static constexpr const char* kName = "ManagerOptions";
  using O = ManagerOptions;
  static constexpr auto kRows = std::make_tuple(
      Option("prefix", &O::prefix,
             "step directories are named `<prefix>_<number>`"),
      Option("save_policy", &O::save_policy,
             "`SavePolicy`: [when](manager.md#when-it-saves) to save; other "
             "languages have its fields as options",
             {.usual = "as below"}),
      Option(
          "async", &O::async,
          "`AsyncOptions`: save in the [background](async.md). In C and "
          "Fortran a flag, with the options of savers beside it; in Python a "
          "flag, or a dict of them",
          {.other_name = "async_save"}),
      Option("tolerated_failures", &O::tolerated_failures,
             "how many saves in a row may fail on the way to the file system "
             "before a save returns an error "
             "([failures](manager.md#when-a-save-fails))",
             {.bounds = AtLeast(0)}),
      Option("stop_signals", &O::stop_signals,
             "signals that ask the job to stop, on any rank, such as SIGUSR1 "
             "([stopping](restart.md)); Python and C take names"),
      Option(
          "stop_at_time_limit", &O::stop_at_time_limit,
          "stop before the [time limit](restart.md#the-time-limit) of the job"),
      Option("time_limit_poll_seconds", &O::time_limit_poll_seconds,
             "how often rank 0 asks Slurm for it",
             {.bounds = Above(0), .may_differ = true}),
      Option(
          "end_time", &O::end_time,
          "stop before this time instead, in seconds since 1970; that of rank "
          "0 counts",
          {.bounds = {.low = -DBL_MAX, .high = DBL_MAX}, .may_differ = true}),
      Option("final_save_margin", &O::final_save_margin,
             "seconds to leave after the last save",
             {.bounds = AtLeast(0), .may_differ = true}),
      Option("retention", &O::retention,
             "`RetentionPolicy`: [which steps to "
             "keep](manager.md#what-it-keeps); other languages have its fields "
             "as options",
             {.usual = "as below"}),
      Option("read_only", &O::read_only,
             "save and delete nothing; needs no lease"),
      Option("remove_leftovers", &O::remove_leftovers,
             "remove what crashed saves left, when the manager is created"),
      Option("restore_match", &O::restore_match,
             "how much a restore must find ([what it "
             "restores](manager.md#what-it-restores))"),
      Option("newer_steps", &O::newer_steps,
             "what happens to newer steps after a restore of an older one "
             "([going back](manager.md#going-back))"),
      Option("init_fn", &O::init_fn,
             "is called by `RestoreOrInitialize` on all ranks if there is no "
             "step"),
      Option("clock", &O::clock, "the time in seconds since 1970; for tests",
             {.usual = "the system's", .may_differ = true}),
      Option("metadata", &O::metadata, "is stored with each step of the run",
             {.may_differ = true}),
      Option("save", &O::save,
             "`SaveOptions` of all its saves; other languages have them among "
             "those of the manager",
             {.usual = "as above", .may_differ = true}));
};

// Calls `visit` with each row of a struct.
template <typename Options, typename Visit>
constexpr void ForEachOption(Visit visit) {
  std::apply([&](const auto&... rows) { (visit(rows), ...); },
             OptionTable<Options>::kRows);
}

template <typename Options, typename T>
OptionRow<Options, T> FindRow(T Options::*field) {
  const OptionRow<Options, T>* found = nullptr;
  ForEachOption<Options>([&](const auto& row) {
    if constexpr (std::is_same_v<decltype(row.field), T Options::*>) {
      if (row.field == field) found = &row;
    }
  });
  return *found;
}

// --- Options in messages ---

// Returns the word "two_phase" as the program writes it: kTwoPhase, "two_phase"
// or two_phase.
std::string ValueInProgram(std::string_view word);
template <HasWords T>
std::string ValueInProgram(T value) {
  return ValueInProgram(FindWord(value));
}

// Returns the name in the program's language, such as "overwrite".
template <typename Options, typename T>
const char* BareName(T Options::*field) {
  const auto row = FindRow(field);
  return LanguageOfProgram() == Language::kCpp ? row.name : row.other_name();
}

// Returns "SaveOptions.overwrite" in C++, else "the option overwrite".
template <typename Options, typename T>
std::string OptionName(T Options::*field) {
  const bool is_cpp = LanguageOfProgram() == Language::kCpp;
  return Cat(is_cpp ? Cat(OptionTable<Options>::kName, ".") : "the option ",
             BareName(field));
}

// Returns `file_layout="per_node"`, as the program would set it.
template <typename Options, typename T>
std::string OptionSetting(T Options::*field, T value) {
  const bool is_cpp = LanguageOfProgram() == Language::kCpp;
  return Cat(BareName(field), is_cpp ? " = " : "=", ValueInProgram(value));
}

// Returns "set SaveOptions.overwrite" or, in Python, "pass overwrite=True".
template <typename Options>
std::string SetOption(bool Options::*field) {
  if (LanguageOfProgram() != Language::kPython) {
    return Cat("set ", OptionName(field));
  }
  return Cat("pass ", BareName(field), "=True");
}

// Returns "set RestoreOptions.missing to kWarn or kIgnore" in C++, `pass
// missing="warn" or "ignore"` in Python, "set the option missing to warn or
// ignore" in C.
template <typename Options, typename T>
std::string SetOption(T Options::*field, std::initializer_list<T> values) {
  std::string one_of;
  for (const T value : values) {
    one_of += Cat(one_of.empty() ? "" : " or ", ValueInProgram(value));
  }
  if (LanguageOfProgram() == Language::kPython) {
    return Cat("pass ", BareName(field), "=", one_of);
  }
  return Cat("set ", OptionName(field), " to ", one_of);
}

// --- Checks ---

// Returns "" if the number is in range, else an error message.
std::string OutOfRange(std::string_view name, int64_t value, Bounds bounds);
std::string OutOfRange(std::string_view name, double value, Bounds bounds);
// Such as "at least 0" or "4096 to 1073741824".
std::string BoundsText(Bounds bounds);

template <typename Options>
std::vector<std::string> FindOutOfRange(const Options& options);

// Appends a message for each number in `value` that is out of range.
template <typename T>
void CheckRange(const char* name, const T& value, Bounds bounds,
                std::vector<std::string>& mistakes) {
  std::string mistake;
  if constexpr (HasWords<T>) {
    mistake = OutOfRange(name, static_cast<int64_t>(value),
                         {.low = 0, .high = ListWords(value).size() - 1.0});
  } else if constexpr (std::is_same_v<T, int64_t> ||
                       std::is_same_v<T, double>) {
    mistake = OutOfRange(name, value, bounds);
  } else if constexpr (std::is_same_v<T, std::vector<int64_t>>) {
    for (const int64_t one : value) CheckRange(name, one, bounds, mistakes);
  } else if constexpr (OptionGroup<T>) {
    for (std::string& inner : FindOutOfRange(value)) {
      mistakes.push_back(std::move(inner));
    }
  } else if constexpr (requires {
                         OptionTable<typename T::value_type>::kRows;
                       }) {
    if (!value) return;
    for (std::string& inner : FindOutOfRange(*value)) {
      mistakes.push_back(std::move(inner));
    }
  } else if constexpr (requires { value.has_value(); }) {
    if (value) CheckRange(name, *value, bounds, mistakes);
  }
  if (!mistake.empty()) mistakes.push_back(std::move(mistake));
}

// Returns a message for each option that is out of range.
template <typename Options>
std::vector<std::string> FindOutOfRange(const Options& options) {
  std::vector<std::string> mistakes;
  ForEachOption<Options>([&](const auto& row) {
    CheckRange(row.name, options.*row.field, row.traits.bounds, mistakes);
  });
  return mistakes;
}

// Returns the first message of FindOutOfRange as an error that begins with
// `start`, such as `save "run"`.
template <typename Options>
Status CheckRanges(std::string_view start, const Options& options) {
  const std::vector<std::string> mistakes = FindOutOfRange(options);
  if (mistakes.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(Cat(start, ": ", mistakes[0]));
}

// --- Values as text, for C and for the environment ---

bool ReadText(const std::string& text, bool& value);
bool ReadText(const std::string& text, int64_t& value);
bool ReadText(const std::string& text, double& value);
bool ReadText(const std::string& text, std::string& value);
// Values are separated by blanks or commas. Signals may be given by name.
bool ReadText(const std::string& text, std::vector<int64_t>& steps);
bool ReadText(const std::string& text, std::vector<int>& signals);
template <HasWords T>
bool ReadText(const std::string& text, T& value) {
  const auto words = ListWords(value);
  for (size_t i = 0; i < words.size(); ++i) {
    if (text == words[i]) return value = static_cast<T>(i), true;
  }
  return false;
}
template <typename T>
bool ReadText(const std::string& text, std::optional<T>& value) requires
    requires(T inner) {
  ReadText(text, inner);
}
{ return ReadText(text, value.emplace()); }

template <typename T>
concept HasText = requires(T value) {
  ReadText(std::string(), value);
};

// Describes a valid value, such as "a whole number of at least 1".
template <HasText T>
std::string NeededText(Bounds bounds = {}) {
  std::string needed;
  if constexpr (HasWords<T>) {
    for (const char* const word : ListWords(T())) {
      needed += Cat(needed.empty() ? "" : ", ", word);
    }
  } else if constexpr (std::is_same_v<T, bool>) {
    needed = "true or false";
  } else if constexpr (std::is_same_v<T, int64_t>) {
    needed = "a whole number";
  } else if constexpr (std::is_same_v<T, double>) {
    needed = "a number";
  } else if constexpr (std::is_same_v<T, std::string>) {
    needed = "a text";
  } else if constexpr (std::is_same_v<T, std::vector<int>>) {
    needed = "signals such as SIGTERM";
  } else if constexpr (std::is_same_v<T, std::vector<int64_t>>) {
    needed = "whole numbers";
  } else {
    return NeededText<typename T::value_type>(bounds);
  }
  const bool has_bounds = bounds.low > -DBL_MAX;
  return has_bounds ? Cat(needed, " of ", BoundsText(bounds)) : needed;
}

}  // namespace belay

#endif  // BELAY_CORE_OPTION_TABLE_H_
