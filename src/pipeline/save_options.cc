#include "pipeline/save_options.h"

#include "absl/strings/str_format.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "core/wire.h"
#include "format/chunk_filters.h"
#include "hdf5/dataset.h"
#include "hdf5/program.h"
#include "plan/policy.h"
#include "plan/save_args.h"

namespace belay {
namespace {

constexpr int64_t kMinInFlight = int64_t{4} << 10;
constexpr int64_t kMaxInFlight = int64_t{1} << 30;

Status CheckRange(std::string_view start, const char* name, int64_t value,
                  int64_t low, int64_t high) {
  if (low <= value && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("%s: %s is out of range (need %d to %d, found %d)",
                      AbslView(start), name, low, high, value));
}

template <typename Enum>
Status CheckEnum(std::string_view start, const char* name, Enum value,
                 Enum last) {
  return CheckRange(start, name, static_cast<int64_t>(value), 0,
                    static_cast<int64_t>(last));
}

// Adds which arguments have failed.
Status OfArguments(std::string_view start, const SaveArgsFor& one,
                   const Status& filters) {
  if (filters.ok()) return filters;
  return Status(filters.code(),
                absl::StrFormat("%s: arguments for \"%s\": %s", AbslView(start),
                                one.keys, filters.message()));
}

template <typename T>
CommonOption Common(const char* name, const T& value) {
  WireWriter out;
  out.Put(value);
  return {name, out.Take()};
}

}  // namespace

Status CheckDeadlineSeconds(std::string_view start, double seconds) {
  if (seconds >= 0) return absl::OkStatus();  // which NaN is not
  return absl::InvalidArgumentError(absl::StrFormat(
      "%s: deadline_seconds is out of range (need at least 0, found %g)",
      AbslView(start), seconds));
}

Status CheckBytesInFlight(std::string_view start, int64_t bytes) {
  return CheckRange(start, "max_bytes_in_flight", bytes, kMinInFlight,
                    kMaxInFlight);
}

Status CheckSaveOptions(std::string_view start, const SaveOptions& options) {
  BELAY_RETURN_IF_ERROR(CheckBytesInFlight(start, options.max_bytes_in_flight));
  BELAY_RETURN_IF_ERROR(CheckEnum(start, "file_layout", options.file_layout,
                                  FileLayout::kPerTask));
  BELAY_RETURN_IF_ERROR(CheckEnum(start, "array_layout", options.array_layout,
                                  ArrayLayout::kCanonical));
  BELAY_RETURN_IF_ERROR(
      CheckEnum(start, "transfer", options.transfer, Transfer::kAuto));
  for (const Status& status : {CheckDescription(options.sharding_policy),
                               CompileArgs(options.args).status()}) {
    if (status.ok()) continue;
    return Status(status.code(),
                  absl::StrFormat("%s: %s", AbslView(start), status.message()));
  }
  for (const SaveArgsFor& one : options.args) {
    BELAY_RETURN_IF_ERROR(
        OfArguments(start, one, h5::CheckCanWrite(one.args.filters)));
  }
  return CheckDeadlineSeconds(start, options.deadline_seconds);
}

Status CheckFiltersCanBeRead(std::string_view start,
                             const SaveOptions& options) {
  for (const SaveArgsFor& one : options.args) {
    if (h5::CanUndo(one.args.filters)) continue;
    BELAY_RETURN_IF_ERROR(
        OfArguments(start, one, h5::CheckProgramCanRead(one.args.filters)));
  }
  return absl::OkStatus();
}

ReplicaChecks ChecksOf(const SaveOptions& options) {
  if (!options.check_replicas) return ReplicaChecks::kOncePerPlan;
  return *options.check_replicas ? ReplicaChecks::kEachSave
                                 : ReplicaChecks::kNone;
}

std::vector<CommonOption> CommonSaveOptions(const SaveOptions& options) {
  WireWriter hints;
  for (const auto& [key, value] : options.mpi_io_hints) {
    hints.PutText(key);
    hints.PutText(value);
  }
  return {Common("file_layout", options.file_layout),
          Common("sharding_policy", PolicyHash(options.sharding_policy)),
          Common("array_layout", options.array_layout),
          {"args", EncodeArgs(options.args)},
          Common("float32_as_bfloat16", options.float32_as_bfloat16),
          Common("strict_dtype", options.strict_dtype),
          Common("overwrite", options.overwrite),
          Common("checksums", options.checksums),
          Common("check_replicas", ChecksOf(options)),
          Common("transfer", options.transfer),
          Common("max_bytes_in_flight", options.max_bytes_in_flight),
          Common("durable", options.durable),
          Common("read_back", options.read_back),
          {"mpi_io_hints", hints.Take()}};
}

}  // namespace belay
