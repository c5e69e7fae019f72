// The beginning of a restore: what is asked for, and whether all ranks ask for
// the same.
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "bytes/wire.h"
#include "format/paths.h"
#include "mpi/agree_same.h"
#include "pipeline/agree_arguments.h"
#include "pipeline/save_options.h"
#include "restore/restore_options.h"
#include "restore/restore_stages.h"

namespace belay {
namespace {

template <typename T>
CommonOption Named(const char* name, const T& value) {
  WireWriter out;
  out.Put(value);
  return {name, out.Take()};
}

std::vector<CommonOption> CommonArguments(const RestoreSource& source,
                                          const RestoreOptions& options) {
  return {
      Named("the step", source.step),
      {"the path", WithoutSlashes(source.path)},
      Named("the kind of source", source.kind),
      Named("the save that is meant", source.identity),
      Named("the option checksums", options.checksums),
      Named("the option allow_dtype_cast", options.allow_dtype_cast),
      Named("the option strict_dtype", options.strict_dtype),
      Named("the option allow_shape_mismatch", options.allow_shape_mismatch),
      {"the option args", EncodeArgs(options.args)},
      Named("the option selects", options.selects != nullptr),
      Named("the option on_open", options.on_open != nullptr),
      Named("the option missing", options.missing),
      Named("the option unexpected", options.unexpected),
      Named("the option mismatched", options.mismatched),
      Named("the option read_sharing", options.read_sharing),
      {"the option primary_replica",
       options.primary_replica ? absl::StrFormat("%d", *options.primary_replica)
                               : ""},
      Named("the option max_bytes_in_flight", options.max_bytes_in_flight)};
}

}  // namespace

RestoreFrame::RestoreFrame(const Comm& comm, const std::string& path,
                           const RestoreOptions& chosen)
    : context{comm, Deadline(comm, chosen.deadline_seconds,
                             absl::StrFormat("restore \"%s\"", path))},
      stages(context),
      options(chosen),
      handlers(HandlersOf(chosen.handlers)) {}

StatusOr<RestoreSource> SourceOf(const std::string& dir,
                                 std::optional<int64_t> step) {
  if (!step) {
    return RestoreSource{.path = dir, .kind = RestoreSource::Kind::kRun};
  }
  if (*step >= 0) {
    return RestoreSource{.path = StepPath(dir, *step), .step = *step};
  }
  return absl::InvalidArgumentError(
      absl::StrFormat("restore \"%s\": step is out of range (need 0 to %d, "
                      "found %d); the newest one is kLatestStep",
                      dir, INT64_MAX, *step));
}

Status BeginRestore(RestoreFrame& frame, const RestoreSource& source,
                    const Status& mine) {
  frame.stages.Enter("list");
  Status sound = mine;
  sound.Update(
      CheckDeadlineSeconds(absl::StrFormat("restore \"%s\"", source.path),
                           frame.options.deadline_seconds));
  sound.Update(CheckReading("restore", source.path, frame.options));
  BELAY_RETURN_IF_AGREED(
      AgreeSameText(frame.context, "restore: the directory",
                    source.kind == RestoreSource::Kind::kCheckpoint
                        ? ParentOf(source.path)
                        : WithoutSlashes(source.path),
                    sound));
  return AgreeOnArguments(frame.context, "restore",
                          CommonArguments(source, frame.options));
}

}  // namespace belay
