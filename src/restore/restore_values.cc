#include "belay/values/restore_values.h"

#include <iterator>
#include <tuple>

#include "absl/strings/str_format.h"
#include "belay/checkpoint_reader.h"
#include "belay/extend/state.h"
#include "belay/extend/transform_function.h"
#include "belay/values/restore_values.h"
#include "core/agreed.h"
#include "core/catch_exceptions.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "core/wire.h"
#include "mpi/all_to_all.h"
#include "pipeline/listing.h"
#include "pipeline/lost_values.h"
#include "plan/shards.h"
#include "restore/restore_stages.h"
#include "state/array_access.h"
#include "state/value_tree.h"

namespace belay {
namespace {

constexpr char kMetadata[] = "the metadata of all values";

// Allocates memory for this rank's values, and returns a State of it.
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
    AddShard(state, {.key = array.key,
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
Agreed<State> PlaceTogether(RestoreFrame& frame, const SavedCheckpoint& saved,
                            const std::vector<ArrayRestoreArgsFor>& args,
                            RestoredValues& values) {
  using Stored = std::vector<StoredArray>;
  frame.stages.Enter("metadata");
  const auto list = [&]() -> StatusOr<Stored> {
    return ListStoredArrays(saved);
  };
  BELAY_ASSIGN_OR_RETURN_AGREED(
      const Stored stored,
      ShareFromRoot<Stored>(frame.context, list, kMetadata));
  const auto place = [&]() -> StatusOr<State> {
    BELAY_ASSIGN_OR_RETURN(
        const std::vector<PlacedArray> placed,
        PlaceArrays(stored, args, frame.context.rank(), frame.context.size()));
    return MakeMemory(placed, values);
  };
  return AgreeOn(frame.context, place());
}

}  // namespace

StatusOr<RestoredValues> RestoreValues(
    const Comm& comm, const std::string& dir, std::optional<int64_t> step,
    const std::vector<ArrayRestoreArgsFor>& args,
    const RestoreOptions& options) {
  BELAY_RETURN_IF_AGREED(CheckComm(comm, "restore", dir));
  const RestoreSource source = MakeSource(dir, step);
  RestoreOptions allowing = options;
  allowing.allow_dtype_cast = true;  // what differs was asked for
  allowing.allow_shape_mismatch = true;
  RestoreFrame frame(comm, source.path, allowing);
  frame.may_read_nothing = true;
  BELAY_RETURN_IF_AGREED(
      BeginRestore(frame, source, CheckNoArgs(dir, options)));
  BELAY_RETURN_IF_AGREED(AgreeSame(frame.context,
                                   "restore: the arguments of values",
                                   Fingerprint(EncodeArgs(args))));
  BELAY_ASSIGN_OR_RETURN_AGREED(const OpenedStep opened,
                                OpenStep(frame, source));
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

// --- Trees of values ---

namespace {

// Collective; agreed.
Agreed<State> MakeTogether(RestoreFrame& frame, const SavedCheckpoint& saved,
                           ValueTree& tree) {
  frame.stages.Enter("metadata");
  const auto list = [&]() -> StatusOr<StoredValue> {
    return WholeCheckpoint(AllValues(saved));
  };
  BELAY_ASSIGN_OR_RETURN_AGREED(
      const StoredValue whole,
      ShareFromRoot<StoredValue>(frame.context, list, kMetadata));
  State state;
  BELAY_RETURN_IF_AGREED(Agree(frame.context, CatchBadAlloc("all values", [&] {
                                 return AddTree(whole, tree, state);
                               })));
  return state;
}

}  // namespace

StatusOr<ValueTree> RestoreTree(const Comm& comm, const std::string& dir,
                                std::optional<int64_t> step,
                                const RestoreOptions& options) {
  BELAY_RETURN_IF_AGREED(CheckComm(comm, "restore", dir));
  const RestoreSource source = MakeSource(dir, step);
  RestoreFrame frame(comm, source.path, options);
  BELAY_RETURN_IF_AGREED(
      BeginRestore(frame, source, CheckNoArgs(dir, options)));
  BELAY_ASSIGN_OR_RETURN_AGREED(const OpenedStep opened,
                                OpenStep(frame, source));
  ValueTree tree;
  BELAY_ASSIGN_OR_RETURN_AGREED(const State state,
                                MakeTogether(frame, opened.saved, tree));
  const auto as_stored = [](std::string_view) { return RestoreChoice{}; };
  BELAY_RETURN_IF_AGREED(ReadValues(
      frame, opened, ChooseValues(state, *frame.handlers, as_stored)));
  return tree;
}

StatusOr<ValueTree> ReadTree(const CheckpointReader& reader) {
  std::vector<StoredValue> values;
  for (ValueInfo& value : reader.Values()) {
    values.push_back({.key = std::move(value.key),
                      .typestr = std::move(value.typestr),
                      .parts = std::move(value.parts),
                      .values = {}});
  }
  ValueTree tree;
  const StoredValue whole = WholeCheckpoint(values);
  Status built =
      CatchBadAlloc("all values", [&] { return BuildTree(whole, tree); });
  if (!built.ok()) return PrintableStatus(built);
  for (const TreeLeaf& leaf : ListLeaves(tree)) {
    if (leaf.node->text) {
      BELAY_ASSIGN_OR_RETURN(*leaf.node->text, reader.ReadText(leaf.path));
    } else {
      BELAY_ASSIGN_OR_RETURN(*leaf.node->tensor, reader.ReadTensor(leaf.path));
    }
  }
  return tree;
}

}  // namespace belay
