#include "belay/restore_values.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/catch_bad_alloc.h"
#include "base/status_macros.h"
#include "bytes/fingerprint.h"
#include "restore/restore_options.h"
#include "restore/restore_run.h"
#include "values/array_placing.h"

namespace belay {
namespace {

// What is stored, on all ranks. Collective; agreed.
StatusOr<std::vector<StoredValueInfo>> ShareStoredValues(RestoreRun& run) {
  run.stages.Enter("metadata");
  BELAY_ASSIGN_OR_RETURN_AGREED(
      const std::string bytes, FromRoot(run.team, [&] {
        return CatchBadAlloc(
            "the metadata of all values", [&]() -> StatusOr<std::string> {
              return EncodeStoredValues(StoredValuesOf(run.saved));
            });
      }));
  return DecodeStoredValues(bytes);
}

// Memory for what this rank restores, and a State of it. Local.
StatusOr<State> MakeMemory(const std::vector<PlacedArray>& placed,
                           RestoredValues& values) {
  State state;
  for (const PlacedArray& array : placed) {
    if (array.dtype == DType::kString) {
      state.Add(array.key, values.texts[array.key]);
      continue;
    }
    BELAY_RETURN_IF_ERROR(CatchBadAlloc(
        absl::StrFormat("\"%s\": %d elements of %s", array.key,
                        NumElements(array.box.shape), DTypeName(array.dtype)),
        [&] {
          values.arrays[array.key] = {
              .global_shape = array.global_shape,
              .box = array.box,
              .tensor = Tensor(array.dtype, array.box.shape),
              .layout = array.layout};
          return absl::OkStatus();
        }));
    Tensor& tensor = values.arrays[array.key].tensor;
    if (array.has_zeros) {
      std::fill_n(tensor.data(), tensor.num_bytes(), std::byte{0});
    }
    state.AddShard({.key = array.key,
                    .dtype = array.dtype,
                    .global_shape = array.global_shape,
                    .box = array.box,
                    .replica = array.replica,
                    .data = tensor.data()});
  }
  BELAY_RETURN_IF_ERROR(state.status());
  return state;
}

// Collective; agreed.
StatusOr<State> PlaceTogether(RestoreRun& run,
                              const std::vector<ArrayRestoreArgsFor>& args,
                              RestoredValues& values) {
  BELAY_ASSIGN_OR_RETURN_AGREED(const std::vector<StoredValueInfo> stored,
                                ShareStoredValues(run));
  const auto place = [&]() -> StatusOr<State> {
    BELAY_ASSIGN_OR_RETURN(
        const std::vector<PlacedArray> placed,
        PlaceArrays(stored, args, run.team.rank(), run.team.size()));
    return MakeMemory(placed, values);
  };
  StatusOr<State> state = place();
  BELAY_RETURN_IF_AGREED(Agree(run.team, state.status()));
  return state;
}

}  // namespace

StatusOr<RestoredValues> RestoreValues(
    const Comm& comm, const std::string& dir, std::optional<int64_t> step,
    const std::vector<ArrayRestoreArgsFor>& args,
    const RestoreOptions& options) {
  BELAY_RETURN_IF_AGREED(CheckComm(comm, "restore", dir));
  const StatusOr<RestoreSource> source = SourceOf(dir, step);
  RestoreOptions allowing = options;
  allowing.allow_dtype_cast = true;  // what differs was asked for
  allowing.allow_shape_mismatch = true;
  RestoreRun run(comm, source.value_or(RestoreSource{.path = dir}), allowing);
  run.may_read_nothing = true;
  Status mine = source.status();
  mine.Update(CheckNoArgs(dir, options));
  BELAY_RETURN_IF_AGREED(BeginRestore(run, mine));
  BELAY_RETURN_IF_AGREED(AgreeSame(run.team, "restore: the arguments of values",
                                   Fingerprint(EncodeArgs(args))));
  BELAY_RETURN_IF_AGREED(OpenStage(run));
  RestoredValues values;
  BELAY_ASSIGN_OR_RETURN_AGREED(const State state,
                                PlaceTogether(run, args, values));
  const auto as_placed = [](std::string_view) {
    return RestoreChoice{
        .tolerance = {.dtype = true, .lengths = true, .nothing = true}};
  };
  BELAY_ASSIGN_OR_RETURN_AGREED(
      values.result,
      ReadValues(run, ChooseValues(state, *run.handlers, as_placed)));
  return values;
}

}  // namespace belay
