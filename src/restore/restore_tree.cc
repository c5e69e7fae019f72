// Values of any structure, whole.

#include <utility>

#include "base/catch_bad_alloc.h"
#include "base/printable.h"
#include "base/status_macros.h"
#include "belay/checkpoint_reader.h"
#include "belay/state.h"
#include "belay/values/restore_values.h"
#include "plan/stored/stored_values.h"
#include "restore/restore_options.h"
#include "restore/restore_stages.h"
#include "values/tree_building.h"

namespace belay {
namespace {

// Collective; agreed.
StatusOr<State> MakeTogether(RestoreFrame& frame, const SavedCheckpoint& saved,
                             ValueTree& tree) {
  frame.stages.Enter("metadata");
  BELAY_ASSIGN_OR_RETURN_AGREED(
      const std::string bytes, FromRoot(frame.context, [&] {
        return CatchBadAlloc(
            "the metadata of all values", [&]() -> StatusOr<std::string> {
              return EncodeValues({WholeCheckpoint(AllValues(saved))});
            });
      }));
  State state;
  BELAY_RETURN_IF_AGREED(Agree(frame.context, CatchBadAlloc("all values", [&] {
                                 return AddTree(DecodeValues(bytes)[0], tree,
                                                state);
                               })));
  return state;
}

}  // namespace

StatusOr<ValueTree> RestoreTree(const Comm& comm, const std::string& dir,
                                std::optional<int64_t> step,
                                const RestoreOptions& options) {
  BELAY_RETURN_IF_AGREED(CheckComm(comm, "restore", dir));
  const StatusOr<RestoreSource> source = SourceOf(dir, step);
  const RestoreSource wanted = source.value_or(RestoreSource{.path = dir});
  RestoreFrame frame(comm, wanted.path, options);
  Status mine = source.status();
  mine.Update(CheckNoArgs(dir, options));
  BELAY_RETURN_IF_AGREED(BeginRestore(frame, wanted, mine));
  BELAY_ASSIGN_OR_RETURN_AGREED(const OpenedStep opened,
                                OpenStep(frame, wanted));
  ValueTree tree;
  BELAY_ASSIGN_OR_RETURN_AGREED(const State state,
                                MakeTogether(frame, opened.saved, tree));
  const auto as_stored = [](std::string_view) { return RestoreChoice{}; };
  BELAY_RETURN_IF_AGREED(
      ReadValues(frame, opened, ChooseValues(state, *frame.handlers, as_stored))
          .status());
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
  for (const TreeLeaf& leaf : LeavesOf(tree)) {
    if (leaf.node->text) {
      BELAY_ASSIGN_OR_RETURN(*leaf.node->text, reader.ReadText(leaf.path));
    } else {
      BELAY_ASSIGN_OR_RETURN(*leaf.node->tensor, reader.ReadTensor(leaf.path));
    }
  }
  return tree;
}

}  // namespace belay
