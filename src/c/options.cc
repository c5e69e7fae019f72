#include "c/options.h"

#include <csignal>
#include <cstring>
#include <deque>
#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "c/error.h"
#include "c/handles.h"
#include "core/catch_exceptions.h"
#include "core/keys.h"
#include "core/text.h"
#include "mpi/collective.h"
#include "mpi/deadline.h"

namespace belay::c {
namespace {

// Those of null are all unset.
const belay_options& OptionsOf(const belay_options* options) {
  static const auto* const kNone = new belay_options();
  return options == nullptr ? *kNone : *options;
}

// Returns the number of a signal; 0 if there is no such signal.
int SignalOf(const std::string& text) {
  constexpr std::pair<std::string_view, int> kSignals[] = {
      {"SIGHUP", SIGHUP},   {"SIGINT", SIGINT},   {"SIGTERM", SIGTERM},
      {"SIGUSR1", SIGUSR1}, {"SIGUSR2", SIGUSR2}, {"SIGXCPU", SIGXCPU},
      {"SIGALRM", SIGALRM}, {"SIGCONT", SIGCONT}};
  for (const auto& [name, number] : kSignals) {
    if (text == name) return number;
  }
  int number = 0;
  return absl::SimpleAtoi(text, &number) && number > 0 ? number : 0;
}

}  // namespace

OptionReader::OptionReader(const belay_options* options)
    : values_(OptionsOf(options).values),
      sharding_policy_(OptionsOf(options).sharding_policy) {}

bool OptionReader::IsSet(const std::string& name) const {
  return values_.contains(name);
}

const std::string* OptionReader::Find(const std::string& name) {
  known_.push_back(name);
  const auto found = values_.find(name);
  return found == values_.end() ? nullptr : &found->second;
}

void OptionReader::Refuse(const std::string& name, const std::string& text,
                          const std::string& needed) {
  status_.Update(absl::InvalidArgumentError(
      absl::StrFormat("option \"%s\": unusable value (need %s, found \"%s\")",
                      name, needed, text)));
}

void OptionReader::Read(const std::string& name, bool& value) {
  const std::string* const text = Find(name);
  if (text == nullptr) return;
  if (*text == "true" || *text == "1") {
    value = true;
  } else if (*text == "false" || *text == "0") {
    value = false;
  } else {
    Refuse(name, *text, "true or false");
  }
}

void OptionReader::Read(const std::string& name, int64_t& value) {
  const std::string* const text = Find(name);
  if (text != nullptr && !absl::SimpleAtoi(*text, &value)) {
    Refuse(name, *text, "a whole number");
  }
}

void OptionReader::Read(const std::string& name, double& value) {
  const std::string* const text = Find(name);
  if (text != nullptr && !absl::SimpleAtod(*text, &value)) {
    Refuse(name, *text, "a number");
  }
}

void OptionReader::Read(const std::string& name, std::string& value) {
  const std::string* const text = Find(name);
  if (text != nullptr) value = *text;
}

void OptionReader::ReadSignals(const std::string& name,
                               std::vector<int>& signals) {
  const std::string* const text = Find(name);
  if (text == nullptr) return;
  signals.clear();
  const std::vector<std::string> words =
      absl::StrSplit(*text, absl::ByAnyChar(" ,"), absl::SkipEmpty());
  for (const std::string& word : words) {
    const int number = SignalOf(word);
    if (number == 0) return Refuse(name, *text, "signals such as SIGTERM");
    signals.push_back(number);
  }
}

void OptionReader::ReadShardingPolicy(const std::string& limit,
                                      ShardingPolicy& policy) {
  const std::string* const max_bytes = Find(limit);
  const std::string* const name = Find(kPolicyOption);
  // The last call counts: a text that came after the function has replaced it.
  if (name != nullptr &&
      (!sharding_policy_ || *name != sharding_policy_->description)) {
    return Refuse(kPolicyOption, *name,
                  "the function belay_options_set_sharding_policy");
  }
  if (sharding_policy_ && max_bytes != nullptr) {
    return Refuse(limit, *max_bytes,
                  "nothing beside belay_options_set_sharding_policy");
  }
  if (sharding_policy_) policy = *sharding_policy_;
  if (max_bytes == nullptr) return;
  int64_t number = 0;
  Read(limit, number);
  policy = MaxShardSize(number);
}

Status OptionReader::Finish() const {
  for (const auto& [name, value] : values_) {
    bool is_known = false;
    for (const std::string& known : known_) is_known |= known == name;
    if (is_known) continue;
    CloseKeys close(name);
    for (const std::string& known : known_) close.Offer(known);
    return absl::InvalidArgumentError(
        absl::StrFormat("option \"%s\": no such option here (need one of %s)%s",
                        name, absl::StrJoin(known_, ", "), close.Hint()));
  }
  return status_;
}

}  // namespace belay::c

int belay_options_create(belay_options** result) {
  return belay::c::Call([&]() -> belay::Status {
    if (result == nullptr) return belay::c::NullArgument("result");
    *result = nullptr;
    *result = new belay_options();
    return absl::OkStatus();
  });
}

int belay_options_set(belay_options* options, const char* name,
                      const char* value) {
  return belay::c::Call([&]() -> belay::Status {
    if (options == nullptr) return belay::c::NullArgument("options");
    if (name == nullptr) return belay::c::NullArgument("name");
    if (value == nullptr) return belay::c::NullArgument("value");
    options->values[name] = value;
    return absl::OkStatus();
  });
}

void belay_options_free(belay_options** options) {
  if (options != nullptr) delete std::exchange(*options, nullptr);
}

// --- Prepare ---

namespace belay::c {

Status PrepareTogether(const Comm& comm, double deadline_seconds,
                       const std::string& operation,
                       const std::function<Status()>& prepare) {
  const Status mine = CatchExceptions([&] { return prepare(); });
  CommContext context{comm, Deadline(comm, deadline_seconds, operation,
                                     /*watchdog=*/false)};
  context.deadline.Enter("arguments");
  return Agree(context, mine);
}

std::string OperationOn(const char* operation, const char* dir) {
  return Cat(operation, " \"", dir != nullptr ? dir : "", "\"");
}

double DeadlineOf(const belay_options* options) {
  constexpr double kUsual = 600;
  if (options == nullptr) return kUsual;
  const auto found = options->values.find("deadline_seconds");
  double seconds = 0;
  if (found == options->values.end() ||
      !absl::SimpleAtod(found->second, &seconds) || !(seconds >= 0)) {
    return kUsual;
  }
  return seconds;
}

Status TakeValues(belay_state* state) {
  if (state == nullptr) return NullArgument("state");
  if (!state->status.ok()) return state->status;
  Status status = TakeRows(state->rows);
  if (!status.ok()) return status;
  for (BufferedString& string : state->strings) {
    std::string_view text(string.buffer, static_cast<size_t>(string.capacity));
    if (string.padding == '\0') {
      text = text.substr(0, text.find('\0'));
    } else {
      text = text.substr(0, text.find_last_not_of(string.padding) + 1);
    }
    string.value.assign(text);
  }
  return absl::OkStatus();
}

namespace {

Status GiveStrings(const std::deque<BufferedString>& strings) {
  for (const BufferedString& string : strings) {
    const auto length = static_cast<int64_t>(string.value.size());
    if (length > string.capacity) {
      return absl::OutOfRangeError(absl::StrFormat(
          "restore \"%s\": the string is longer than its buffer (need %d "
          "bytes, found %d)",
          string.key, length, string.capacity));
    }
    std::memset(string.buffer, string.padding,
                static_cast<size_t>(string.capacity));
    std::memcpy(string.buffer, string.value.data(), string.value.size());
  }
  return absl::OkStatus();
}

}  // namespace

Status GiveValues(const std::vector<std::string>& missing, belay_state& state) {
  Status status = GiveCounts(missing, state.rows);
  status.Update(GiveStrings(state.strings));
  return status;
}

Status TakeText(const char* name, const char* text, std::string& taken) {
  if (text == nullptr) return NullArgument(name);
  taken = text;
  return absl::OkStatus();
}

// Which options there are for which call.

namespace {

void ReadSave(OptionReader& reader, SaveOptions& options) {
  reader.ReadWord("file_layout", options.file_layout,
                  {{"shared", FileLayout::kShared},
                   {"per_node", FileLayout::kPerNode},
                   {"per_task", FileLayout::kPerTask}});
  reader.ReadWord(
      "array_layout", options.array_layout,
      {{"auto", ArrayLayout::kAuto}, {"canonical", ArrayLayout::kCanonical}});
  reader.ReadShardingPolicy("max_shard_size", options.sharding_policy);
  reader.ReadWord("transfer", options.transfer,
                  {{"auto", Transfer::kAuto},
                   {"collective", Transfer::kCollective},
                   {"independent", Transfer::kIndependent},
                   {"hdf5", Transfer::kHdf5},
                   {"two_phase", Transfer::kTwoPhase}});
  reader.Read("float32_as_bfloat16", options.float32_as_bfloat16);
  reader.Read("strict_dtype", options.strict_dtype);
  reader.Read("overwrite", options.overwrite);
  reader.Read("checksums", options.checksums);
  reader.Read("check_replicas", options.check_replicas);
  reader.Read("max_bytes_in_flight", options.max_bytes_in_flight);
  reader.Read("durable", options.durable);
  reader.Read("read_back", options.read_back);
  reader.Read("deadline_seconds", options.deadline_seconds);
}

void ReadPolicy(OptionReader& reader, const std::string& name,
                MismatchPolicy& policy) {
  reader.ReadWord(name, policy,
                  {{"error", MismatchPolicy::kError},
                   {"warn", MismatchPolicy::kWarn},
                   {"collect", MismatchPolicy::kCollect},
                   {"ignore", MismatchPolicy::kIgnore}});
}

void ReadAsync(OptionReader& reader, AsyncOptions& options) {
  reader.Read("max_staging_bytes", options.max_staging_bytes);
  reader.Read("initial_staging_bytes", options.initial_staging_bytes);
  reader.Read("max_bytes_per_second", options.max_bytes_per_second);
}

void ReadManager(OptionReader& reader, ManagerOptions& options) {
  reader.Read("prefix", options.prefix);
  reader.Read("save_interval_steps", options.save_interval_steps);
  reader.Read("save_first_step", options.save_first_step);
  reader.Read("tolerated_failures", options.tolerated_failures);
  reader.ReadSignals("stop_signals", options.stop_signals);
  reader.Read("stop_at_time_limit", options.stop_at_time_limit);
  reader.Read("time_limit_poll_seconds", options.time_limit_poll_seconds);
  reader.Read("end_time", options.end_time);
  reader.Read("final_save_margin", options.final_save_margin);
  reader.Read("max_to_keep", options.max_to_keep);
  reader.Read("keep_period", options.keep_period);
  reader.Read("keep_time_interval", options.keep_time_interval);
  reader.Read("keep_checkpoint_every_n_hours",
              options.keep_checkpoint_every_n_hours);
  reader.Read("read_only", options.read_only);
  reader.Read("remove_leftovers", options.remove_leftovers);
  reader.ReadWord("restore_match", options.restore_match,
                  {{"anything", RestoreMatch::kAnything},
                   {"nontrivial", RestoreMatch::kNontrivial},
                   {"existing_objects", RestoreMatch::kExistingObjects},
                   {"consumed", RestoreMatch::kConsumed}});
  reader.ReadWord("newer_steps", options.newer_steps,
                  {{"refuse", NewerSteps::kRefuse},
                   {"set_aside", NewerSteps::kSetAside},
                   {"delete", NewerSteps::kDelete}});
}

}  // namespace

Status ReadSaveOptions(const belay_options* given, SaveOptions& options) {
  OptionReader reader(given);
  ReadSave(reader, options);
  return reader.Finish();
}

Status ReadRestoreOptions(const belay_options* given, RestoreOptions& options) {
  OptionReader reader(given);
  reader.Read("allow_dtype_cast", options.allow_dtype_cast);
  reader.Read("strict_dtype", options.strict_dtype);
  reader.Read("allow_shape_mismatch", options.allow_shape_mismatch);
  ReadPolicy(reader, "missing", options.missing);
  if (options.missing == MismatchPolicy::kIgnore) {
    options.missing = MismatchPolicy::kCollect;  // GiveCounts needs the keys
  }
  ReadPolicy(reader, "unexpected", options.unexpected);
  ReadPolicy(reader, "mismatched", options.mismatched);
  reader.Read("checksums", options.checksums);
  reader.ReadWord("read_sharing", options.read_sharing,
                  {{"auto", ReadSharing::kAuto},
                   {"each_rank", ReadSharing::kEachRank},
                   {"once", ReadSharing::kOnce}});
  reader.Read("max_bytes_in_flight", options.max_bytes_in_flight);
  reader.Read("deadline_seconds", options.deadline_seconds);
  return reader.Finish();
}

// Their only one is read by DeadlineOf.
Status CheckCommOptions(const belay_options* given) {
  OptionReader reader(given);
  double seconds = 0;
  reader.Read("deadline_seconds", seconds);
  Status status = reader.Finish();
  if (status.ok() && !(seconds >= 0)) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "option \"deadline_seconds\": out of range (need at least 0, found %g)",
        seconds));
  }
  return status;
}

Status ReadAsyncOptions(const belay_options* given, AsyncOptions& options) {
  OptionReader reader(given);
  ReadAsync(reader, options);
  return reader.Finish();
}

Status ReadManagerOptions(const belay_options* given, ManagerOptions& options) {
  OptionReader reader(given);
  ReadManager(reader, options);
  ReadSave(reader, options.save);
  bool is_async = false;
  AsyncOptions async;
  reader.Read("async_save", is_async);
  ReadAsync(reader, async);
  if (is_async) options.async = async;
  return reader.Finish();
}

}  // namespace belay::c
