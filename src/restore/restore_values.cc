#include "belay/values/restore_values.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/catch_bad_alloc.h"
#include "base/status_macros.h"
#include "bytes/fingerprint.h"
#include "mpi/agree_same.h"
#include "restore/restore_options.h"
#include "restore/restore_stages.h"
#include "values/array_placing.h"

namespace belay {
namespace {

// What is stored, on all ranks. Collective; agreed.
StatusOr<std::vector<StoredValueInfo>> ShareStoredValues(
    RestoreFrame& frame, const SavedCheckpoint& saved) {
  frame.stages.Enter("metadata");
  BELAY_ASSIGN_OR_RETURN_AGREED(
      const std::string bytes, FromRoot(frame.context, [&] {
        return CatchBadAlloc("the metadata of all values",
                             [&]() -> StatusOr<std::string> {
                               return EncodeStoredValues(StoredValuesOf(saved));
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
StatusOr<State> PlaceTogether(RestoreFrame& frame, const SavedCheckpoint& saved,
                              const std::vector<ArrayRestoreArgsFor>& args,
                              RestoredValues& values) {
  BELAY_ASSIGN_OR_RETURN_AGREED(const std::vector<StoredValueInfo> stored,
                                ShareStoredValues(frame, saved));
  const auto place = [&]() -> StatusOr<State> {
    BELAY_ASSIGN_OR_RETURN(
        const std::vector<PlacedArray> placed,
        PlaceArrays(stored, args, frame.context.rank(), frame.context.size()));
    return MakeMemory(placed, values);
  };
  StatusOr<State> state = place();
  BELAY_RETURN_IF_AGREED(Agree(frame.context, state.status()));
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
  const RestoreSource wanted = source.value_or(RestoreSource{.path = dir});
  RestoreFrame frame(comm, wanted.path, allowing);
  frame.may_read_nothing = true;
  Status mine = source.status();
  mine.Update(CheckNoArgs(dir, options));
  BELAY_RETURN_IF_AGREED(BeginRestore(frame, wanted, mine));
  BELAY_RETURN_IF_AGREED(AgreeSame(frame.context,
                                   "restore: the arguments of values",
                                   Fingerprint(EncodeArgs(args))));
  BELAY_ASSIGN_OR_RETURN_AGREED(const OpenedStep opened,
                                OpenStep(frame, wanted));
  RestoredValues values;
  BELAY_ASSIGN_OR_RETURN_AGREED(
      const State state, PlaceTogether(frame, opened.saved, args, values));
  const auto as_placed = [](std::string_view) {
    return RestoreChoice{
        .tolerance = {.dtype = true, .lengths = true, .nothing = true}};
  };
  BELAY_ASSIGN_OR_RETURN_AGREED(
      values.result,
      ReadValues(frame, opened,
                 ChooseValues(state, *frame.handlers, as_placed)));
  return values;
}

}  // namespace belay
