// Stage list of a restore: lists values with handlers, and leaves out values
// that are not stored.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "belay/checkpoint_reader.h"
#include "belay/state.h"
#include "belay/values/restore_values.h"
#include "core/agreed.h"
#include "core/catch_exceptions.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "core/wire.h"
#include "plan/stored_values.h"
#include "restore/restore_stages.h"
#include "state/rank_rows.h"
#include "state/stored_answer.h"
#include "state/value_tree.h"

namespace belay {
namespace {

// Fails if memory would be allocated for an array that claims to be larger than
// its file can hold.
Status CheckLengths(const OpenedStep& opened, const StoredQuestion& question) {
  if (opened.too_large.empty()) return absl::OkStatus();
  std::vector<std::string> keys;
  for (const auto* some :
       {&question.handled, &question.optional_handled, &question.resizable,
        &question.sources, &question.optional_sources}) {
    keys.insert(keys.end(), some->begin(), some->end());
  }
  for (const std::string& id : question.rows) keys.push_back(GetStoredKey(id));
  for (const auto& [array, cause] : opened.too_large) {
    for (const std::string& key : keys) {
      if (array != key && !array.starts_with(key + "/")) continue;
      return absl::FailedPreconditionError(
          absl::StrFormat("its length is taken from the file, but dataset "
                          "\"%s\" %s",
                          array, cause));
    }
  }
  return absl::OkStatus();
}

// For all ranks, as bytes. Rank 0 only.
StatusOr<std::string> AnswerOnRoot(const std::vector<std::string>& gathered,
                                   const RestoreOptions& options,
                                   const OpenedStep& opened) {
  const auto answer = [&]() -> StatusOr<std::string> {
    const StoredQuestion question = MergeQuestions(gathered);
    BELAY_RETURN_IF_ERROR(CheckLengths(opened, question));
    BELAY_ASSIGN_OR_RETURN(StoredAnswer all,
                           AnswerQuestion(opened.saved, question));
    if (!all.rows.empty()) {
      auto restorers = RanksThatRestoreRows(gathered);
      for (FoundRows& one : all.rows) {
        one.restorers = std::move(restorers[one.id]);
      }
    }
    if (!HasDefaultPolicies(options)) {
      all.mismatched = FindMismatched(opened.saved, question.arrays);
      all.unexpected = FindUnexpected(opened.saved, question);
      BELAY_RETURN_IF_ERROR(React(options, all));
    }
    return Encode(all);
  };
  StatusOr<std::string> bytes = answer();
  if (bytes.ok()) return bytes;
  return Status(bytes.status().code(),
                absl::StrFormat("restore \"%s\": %s", opened.source.path,
                                bytes.status().message()));
}

// Asks rank 0 what is stored of the values of all ranks. Collective; agreed.
Agreed<StoredAnswer> AskTogether(RestoreFrame& frame, const OpenedStep& opened,
                                 const ValuesToRead& values) {
  const RestoreOptions& options = frame.options;
  BELAY_ASSIGN_OR_RETURN_AGREED(
      const std::vector<std::string> gathered,
      Gather(frame.context,
             Encode(MakeQuestion(values, !HasDefaultPolicies(options)))));
  BELAY_ASSIGN_OR_RETURN_AGREED(
      const std::string bytes, FromRoot(frame.context, [&] {
        return AnswerOnRoot(gathered, options, opened);
      }));
  return DecodeFromRoot<StoredAnswer>(bytes);
}

bool AnyMayBeAbsent(const ValuesToRead& values) {
  const std::vector<bool>& optional = values.may_be_absent;
  return std::find(optional.begin(), optional.end(), true) != optional.end();
}

// Returns true if any length comes from the index.
bool AnyTakesRows(const ValuesToRead& values) {
  return HasRows(values.shards) ||
         std::any_of(values.shards.begin(), values.shards.end(), IsResizable);
}

bool AnyHasIds(const ValuesToRead& values) {
  return std::any_of(values.shards.begin(), values.shards.end(), HasIds);
}

void LetAllBeAbsent(ValuesToRead& values) {
  values.may_be_absent.assign(values.shards.size(), true);
  for (HandledValue& value : values.handled) value.may_be_absent = true;
  for (ComputedValue& value : values.computed) value.may_be_absent = true;
}

Status CheckAllWritable(const StatusOr<ValuesToRead>& values) {
  return values.ok() ? CheckWritable(*values) : values.status();
}

// Lists the values, containers with their stored lengths. Adds values that do
// not fit to `mismatched`.
Status ListFitted(const RestoreFrame& frame, ValuesToRead values,
                  const StoredAnswer& answer, ListedRestore& listed,
                  std::vector<Conversion>& mismatched) {
  std::vector<ComputedValue> computed = std::move(values.computed);
  BELAY_RETURN_IF_ERROR(PlaceRows(answer.rows, frame.context.rank(),
                                  frame.context.size(), values.shards,
                                  values.former, listed.id_blocks));
  BELAY_RETURN_IF_ERROR(
      GiveLengths(answer.lengths, values.shards, values.former));
  BELAY_RETURN_IF_ERROR(GiveComputedLengths(answer, computed, values.former));
  BELAY_ASSIGN_OR_RETURN(
      listed.listing,
      ListForRestore(std::move(values), *frame.handlers, answer.stored));
  return ListComputed(frame, std::move(computed), answer, listed, mismatched);
}

// Lists what handlers want next; false if nothing. Collective; agreed.
Agreed<bool> ListMoreTogether(RestoreFrame& frame, HandlerListing& listing) {
  frame.stages.Enter("handlers");
  BELAY_ASSIGN_OR_RETURN_AGREED(
      HandlerListing more,
      AgreeOn(frame.context, ListMore(listing, *frame.handlers)));
  // The new listing may borrow from what the last one keeps.
  more.kept.insert(more.kept.end(), listing.kept.begin(), listing.kept.end());
  listing = std::move(more);
  std::vector<int64_t> any = {listing.handled.empty() ? 0 : 1};
  BELAY_RETURN_IF_AGREED(MaxAll(frame.context, any));
  return any[0] != 0;
}

// Kinds of values that any rank has.
struct AnyValues {
  bool handled = false;  // or an error, so that all ranks ask
  bool may_be_absent = false;
  bool take_rows = false;
  bool computed = false;
  bool owned = false;
  bool have_ids = false;
};

// Collective; agreed.
Agreed<AnyValues> FindKinds(CommContext& context,
                            const StatusOr<ValuesToRead>& values) {
  // A rank with an error takes part, so that all ranks return it.
  std::vector<int64_t> any = {!values.ok() || !values->handled.empty() ? 1 : 0,
                              values.ok() && AnyMayBeAbsent(*values) ? 1 : 0,
                              values.ok() && AnyTakesRows(*values) ? 1 : 0,
                              values.ok() && !values->computed.empty() ? 1 : 0,
                              values.ok() && HasOwners(values->shards) ? 1 : 0,
                              values.ok() && AnyHasIds(*values) ? 1 : 0};
  BELAY_RETURN_IF_AGREED(MaxAll(context, any));
  return AnyValues{.handled = any[0] != 0,
                   .may_be_absent = any[1] != 0,
                   .take_rows = any[2] != 0,
                   .computed = any[3] != 0,
                   .owned = any[4] != 0,
                   .have_ids = any[5] != 0};
}

}  // namespace

Agreed<ListedRestore> ListTogether(RestoreFrame& frame,
                                   const OpenedStep& opened,
                                   StatusOr<ValuesToRead> values) {
  const bool asks_all = !HasDefaultPolicies(frame.options);
  if (values.ok() && frame.options.missing != MismatchPolicy::kError) {
    LetAllBeAbsent(*values);
  }
  if (const Status status = CheckAllWritable(values); !status.ok()) {
    values = status;
  }
  BELAY_ASSIGN_OR_RETURN_AGREED(const AnyValues any,
                                FindKinds(frame.context, values));
  ListedRestore listed{.any_handlers = any.handled,
                       .any_computed = any.computed,
                       .any_owned = any.owned,
                       .any_ids = any.have_ids};
  if (any.handled) frame.stages.Enter("handlers");
  StoredAnswer answer;
  const bool asks = any.handled || any.may_be_absent || any.take_rows ||
                    any.computed || asks_all;
  if (asks) {
    BELAY_RETURN_IF_AGREED(Agree(frame.context, values.status()));
    BELAY_ASSIGN_OR_RETURN_AGREED(answer, AskTogether(frame, opened, *values));
    LeaveOut(answer, *values);
  }
  std::vector<Conversion> mismatched;
  Status status = CatchExceptions([&] {
    return ListFitted(frame, *std::move(values), answer, listed, mismatched);
  });
  if (asks) {
    BELAY_RETURN_IF_AGREED(Agree(frame.context, status));
  } else {
    listed.status = std::move(status);
  }
  if (any.have_ids) listed.former = listed.listing.former;
  if (any.computed) {
    BELAY_RETURN_IF_AGREED(
        ShareComputed(frame, listed.computed_conversions, mismatched));
    answer.mismatched.insert(answer.mismatched.end(), mismatched.begin(),
                             mismatched.end());
  }
  Report(frame.options, std::move(answer), listed.report);
  return listed;
}

Agreed<bool> ReceiveTogether(RestoreFrame& frame, std::string_view path,
                             std::vector<Shard>& shards,
                             ListedRestore& listed) {
  if (std::exchange(listed.any_owned, false)) {
    BELAY_RETURN_IF_AGREED(HandOutRows(frame, shards));
  }
  if (std::exchange(listed.any_computed, false)) {
    BELAY_RETURN_IF_AGREED(ComputeTogether(frame, path,
                                           std::exchange(listed.computed, {}),
                                           listed.computed_warnings));
  }
  bool wants_more = false;
  if (listed.any_handlers) {
    BELAY_ASSIGN_OR_RETURN_AGREED(wants_more,
                                  ListMoreTogether(frame, listed.listing));
  }
  // Last, because the ids themselves may be restored.
  if (!wants_more && std::exchange(listed.any_ids, false)) {
    BELAY_RETURN_IF_AGREED(
        FetchById(frame, listed.id_blocks, std::move(listed.former)));
    listed.id_blocks.clear();
  }
  return wants_more;
}

// Trees of values.

namespace {

// Collective; agreed.
Agreed<State> MakeTogether(RestoreFrame& frame, const SavedCheckpoint& saved,
                           ValueTree& tree) {
  frame.stages.Enter("metadata");
  BELAY_ASSIGN_OR_RETURN_AGREED(
      const std::string bytes, FromRoot(frame.context, [&] {
        return CatchBadAlloc("the metadata of all values",
                             [&]() -> StatusOr<std::string> {
                               return Encode(WholeCheckpoint(AllValues(saved)));
                             });
      }));
  State state;
  BELAY_RETURN_IF_AGREED(Agree(frame.context, CatchBadAlloc("all values", [&] {
                                 return AddTree(*Decode<StoredValue>(bytes),
                                                tree, state);
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
