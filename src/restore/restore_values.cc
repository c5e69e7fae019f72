// The list and receive stages of a restore. They list stored and computed
// values, and complete them when their arrays are read. Also restores values
// for which the program provides no memory.
#include "belay/values/restore_values.h"

#include <iterator>
#include <tuple>

#include "absl/strings/str_format.h"
#include "belay/checkpoint_reader.h"
#include "belay/extend/state.h"
#include "belay/extend/transform_function.h"
#include "core/agreed.h"
#include "core/catch_exceptions.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "core/wire.h"
#include "mpi/all_to_all.h"
#include "pipeline/listing.h"
#include "pipeline/result_text.h"
#include "plan/shards.h"
#include "restore/restore_stages.h"
#include "state/array_access.h"
#include "state/value_tree.h"

namespace belay {
namespace {

// --- Values that are computed from stored arrays ---

std::string NameComputed(const ComputedValue& value) {
  return Cat("compute \"", value.shard.key, "\": ", value.transform.ToString());
}

// Returns a function that finds the forms of stored arrays in an answer.
auto FinderIn(const StoredAnswer& answer) {
  return [&answer](const std::string& key) { return FindSource(answer, key); };
}

// Adds the reads for a value whose result has this form and fits. Requires that
// `shard` has dense memory for the result.
Status PlanValue(const ComputedValue& value, const Shard& shard,
                 const ArrayForm& form, const StoredAnswer& answer,
                 std::vector<TransformMove>& moves, HandlerListing& listing) {
  BELAY_RETURN_IF_ERROR(CheckBox(shard.box, shard.global_shape));
  const Box part = StoredPart(shard.box, form.shape);
  if (IsEmpty(part)) return absl::OkStatus();
  TransformTarget target{.data = static_cast<std::byte*>(shard.data),
                         .dtype = shard.dtype,
                         .shape = shard.box.shape};
  for (size_t i = 0; i < part.offset.size(); ++i) {
    target.offset.push_back(part.offset[i] - shard.box.offset[i]);
  }
  std::vector<TransformRead> reads;
  BELAY_RETURN_IF_ERROR(PlanTransform(value.transform, part, target,
                                      value.tolerance.dtype, FinderIn(answer),
                                      moves, reads));
  for (TransformRead& read : reads) {
    listing.shards.push_back({.key = std::move(read.key),
                              .dtype = read.dtype,
                              .global_shape = std::move(read.stored.shape),
                              .box = std::move(read.box),
                              .replica = shard.replica,
                              .data = read.data});
    listing.tolerances.push_back({.dtype = value.tolerance.dtype});
  }
  return absl::OkStatus();
}

// Gives the shard dense memory for a result. FinishOne scatters the result from
// there.
Status TakeDense(Shard& shard, std::optional<Tensor>& dense) {
  return CatchBadAlloc(Cat("\"", shard.key, "\": its elements"), [&] {
    dense.emplace(shard.dtype, shard.box.shape);
    // Elements that are not stored keep their values.
    GatherElements(shard, shard.box, reinterpret_cast<char*>(dense->data()));
    shard.data = dense->data();
    shard.strides.clear();
    shard.structs = nullptr;
    return absl::OkStatus();
  });
}

// Computes a value from its arrays.
Status FinishOne(ComputedListing& computed, std::vector<LostValues>& lost) {
  const Shard& shard = computed.value.shard;
  std::vector<ComputedLosses> losses;
  BELAY_RETURN_IF_ERROR(FinishTransform(std::move(computed.moves), losses));
  for (const ComputedLosses& one : losses) {
    lost.push_back({.key = shard.key,
                    .from = one.from,
                    .to = one.to,
                    .losses = one.losses});
  }
  if (!computed.dense) return absl::OkStatus();
  ScatterElements(shard, shard.box,
                  reinterpret_cast<const char*>(computed.dense->data()),
                  shard.box);
  return absl::OkStatus();
}

// Lists one value, or adds it to `mismatched` if it does not fit and the
// options tolerate that.
Status ListOne(const RestoreFrame& frame, ComputedValue value,
               const StoredAnswer& answer, ListedRestore& listed,
               std::vector<Conversion>& mismatched) {
  Shard shard = value.shard;
  BELAY_ASSIGN_OR_RETURN(const ArrayForm form,
                         ComputeForm(value.transform, FinderIn(answer)));
  Tolerance tolerance = value.tolerance;
  tolerance.nothing = frame.may_read_nothing;
  const StoredForm need{shard.dtype, shard.global_shape};
  const StoredForm found{form.dtype, form.shape};
  const Conversion difference{.key = shard.key,
                              .dtype = shard.dtype,
                              .shape = shard.global_shape,
                              .stored_dtype = form.dtype,
                              .stored_shape = form.shape};
  if (!Fits(found, need, tolerance)) {
    if (frame.options.mismatched != MismatchPolicy::kError) {
      mismatched.push_back(difference);
      return absl::OkStatus();
    }
    return absl::FailedPreconditionError(
        Cat("another dtype or shape results (need ", FormText(need), ", found ",
            FormText(found), ")"));
  }
  if (found != need) listed.computed_conversions.push_back(difference);
  ComputedListing computed;
  if (IsStrided(shard)) {
    BELAY_RETURN_IF_ERROR(TakeDense(shard, computed.dense));
  }
  BELAY_RETURN_IF_ERROR(
      PlanValue(value, shard, form, answer, computed.moves, listed.listing));
  if (computed.moves.empty() && !computed.dense) return absl::OkStatus();
  computed.value = std::move(value);
  listed.computed.push_back(std::move(computed));
  return absl::OkStatus();
}

// Sorts the conversions and removes duplicates.
void MakeDistinct(std::vector<Conversion>& all) {
  const auto order = [](const Conversion& one) {
    return std::tie(one.key, one.dtype, one.shape, one.stored_dtype,
                    one.stored_shape);
  };
  std::sort(all.begin(), all.end(),
            [&](const auto& a, const auto& b) { return order(a) < order(b); });
  all.erase(std::unique(all.begin(), all.end()), all.end());
}

// Resizes values that can take the length of their result, and adds the memory
// that they release to `former`.
Status GiveComputedLengths(const StoredAnswer& answer,
                           std::vector<ComputedValue>& values,
                           std::vector<FormerElements>& former) {
  MadeBytes bytes;
  for (ComputedValue& value : values) {
    const StatusOr<ArrayForm> form =
        ComputeForm(value.transform, FinderIn(answer));
    if (!form.ok()) continue;
    if (IsResizable(value.shard)) {
      for (const std::string& key : value.transform.StoredKeys()) {
        const ArrayForm* const stored = FindSource(answer, key);
        if (stored != nullptr) bytes.AddStored(key, *stored);
      }
      bytes.AddMade(*form);
      BELAY_RETURN_IF_ERROR(AddPrefix(
          bytes.Check("transforms that give lengths"), NameComputed(value)));
    }
    const ValuePart result{.dtype = form->dtype, .shape = form->shape};
    BELAY_RETURN_IF_ERROR(
        GiveLength(StoredValue{.key = value.shard.key, .parts = {result}},
                   value.shard, former));
  }
  return absl::OkStatus();
}

Status ListComputed(const RestoreFrame& frame,
                    std::vector<ComputedValue> values,
                    const StoredAnswer& answer, ListedRestore& listed,
                    std::vector<Conversion>& mismatched) {
  std::vector<Shard> shards;
  for (const ComputedValue& value : values) shards.push_back(value.shard);
  BELAY_RETURN_IF_ERROR(CheckAfterLengths(listed.listing.former, {}, shards));
  shards = ListShards(std::move(shards), frame.context.rank());
  for (size_t i = 0; i < values.size(); ++i) {
    values[i].shard = std::move(shards[i]);
    const std::string what = NameComputed(values[i]);
    BELAY_RETURN_IF_ERROR(AddPrefix(CatchExceptions([&] {
                                      return ListOne(
                                          frame, std::move(values[i]), answer,
                                          listed, mismatched);
                                    }),
                                    what));
  }
  return absl::OkStatus();
}

// Merges conversions and mismatches of computed values over all ranks.
// Collective; agreed.
Agreed<> ShareComputed(RestoreFrame& frame,
                       std::vector<Conversion>& conversions,
                       std::vector<Conversion>& mismatched) {
  using Both = std::pair<std::vector<Conversion>, std::vector<Conversion>>;
  BELAY_ASSIGN_OR_RETURN_AGREED(
      const std::vector<std::string> gathered,
      Gather(frame.context, Encode(Both(conversions, mismatched))));
  const auto merge = [&]() -> StatusOr<Both> {
    Both all;
    for (const std::string& bytes : gathered) {
      std::optional<Both> one = Decode<Both>(bytes);
      if (!one) return DifferentCalls();
      std::ranges::move(one->first, std::back_inserter(all.first));
      std::ranges::move(one->second, std::back_inserter(all.second));
    }
    MakeDistinct(all.first);
    MakeDistinct(all.second);
    return all;
  };
  BELAY_ASSIGN_OR_RETURN_AGREED(std::tie(conversions, mismatched),
                                ShareFromRoot<Both>(frame.context, merge));
  return {};
}

// Computes values from the arrays that were read. Adds a warning for each key
// of which any rank has lost values. Collective; agreed.
Agreed<> ComputeTogether(RestoreFrame& frame, std::string_view path,
                         std::vector<ComputedListing> computed,
                         std::vector<std::string>& warnings) {
  frame.stages.Enter("compute");
  Status status;
  std::vector<LostValues> lost;
  for (ComputedListing& one : computed) {
    status.Update(
        AddPrefix(CatchExceptions([&] { return FinishOne(one, lost); }),
                  NameComputed(one.value)));
  }
  std::vector<int64_t> has_lost = {
      std::any_of(lost.begin(), lost.end(),
                  [](const LostValues& one) { return one.losses.Any(); })
          ? 1
          : 0};
  BELAY_RETURN_IF_AGREED(MaxAll(frame.context, has_lost, status));
  if (has_lost[0] == 0) return {};
  BELAY_ASSIGN_OR_RETURN_AGREED(
      const std::vector<std::string> told,
      TellLost(frame.context, Cat("restore \"", path, "\""),
               Merged(std::move(lost)), frame.options.strict_dtype));
  warnings.insert(warnings.end(), told.begin(), told.end());
  return {};
}

// --- Rows for other ranks ---

constexpr std::string_view kOnTheirWay = "rows on their way";

// Gets the rows window by window. Collective; agreed.
Agreed<> FetchWindows(CommContext& context, std::vector<IdBlock>& blocks,
                      const WantedIds& wanted,
                      const std::vector<IdWindow>& windows) {
  Mail requests(context.size());
  Mail answers(context.size());
  BlocksByKey by_key;
  Status status = CatchExceptions([&] {
    by_key = IndexBlocks(blocks);
    return absl::OkStatus();
  });
  for (const IdWindow& window : windows) {
    RowRanksOfWindow ranks;
    BELAY_RETURN_IF_AGREED(
        ExchangeMail(context, kOnTheirWay, requests, [&](Messages& to) {
          if (status.ok()) {
            ranks = RequestRows(blocks, wanted, window, to);
          }
          return status;
        }));
    BELAY_RETURN_IF_AGREED(
        ExchangeMail(context, kOnTheirWay, answers, [&](Messages& to) {
          return AnswerRequests(requests.from, by_key, blocks, to);
        }));
    status = CatchExceptions([&] {
      TakeAnswers(answers.from, window, ranks, blocks);
      return absl::OkStatus();
    });
  }
  return Agree(context, status);
}

// Sends rows to the ranks that own them. Collective; agreed.
Agreed<> HandOutRows(RestoreFrame& frame, std::vector<Shard>& shards) {
  frame.stages.Enter("rows");
  Mail mail(frame.context.size());
  BELAY_RETURN_IF_AGREED(
      ExchangeMail(frame.context, kOnTheirWay, mail,
                   [&](Messages& to) { return PackByOwner(shards, to); }));
  return Agree(frame.context, CatchBadAlloc("rows that this rank owns", [&] {
                 return TakeOwned(mail.from, shards);
               }));
}

// Fetches rows by their ids from the ranks that have read them. Collective;
// agreed.
Agreed<> FetchById(RestoreFrame& frame, std::vector<IdBlock>& blocks,
                   std::vector<FormerElements> former) {
  frame.stages.Enter("ids");
  WantedIds wanted;
  std::vector<IdWindow> windows;
  const Status asked = CatchExceptions([&] {
    return CatchBadAlloc("the ids of rows", [&]() -> Status {
      BELAY_ASSIGN_OR_RETURN(wanted, AskForIds(blocks, former));
      windows = CutWindows(blocks, frame.context.size());
      return absl::OkStatus();
    });
  });
  std::vector<int64_t> most = {std::ssize(windows)};
  BELAY_RETURN_IF_AGREED(MaxAll(frame.context, most, asked));
  if (most[0] == 0) {
    BELAY_RETURN_IF_AGREED(Agree(frame.context, CheckNothingIsThere(blocks)));
  }
  windows.resize(static_cast<size_t>(most[0]));
  BELAY_RETURN_IF_AGREED(FetchWindows(frame.context, blocks, wanted, windows));
  const Status same =
      CatchExceptions([&] { return CheckSameIds(blocks, wanted); });
  return Agree(frame.context, same);
}

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

// Rank 0 only.
StatusOr<StoredAnswer> AnswerOnRoot(const std::vector<std::string>& gathered,
                                    const RestoreOptions& options,
                                    const OpenedStep& opened) {
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
  return all;
}

// Asks rank 0 how the values of all ranks are stored. Collective; agreed.
Agreed<StoredAnswer> AskTogether(RestoreFrame& frame, const OpenedStep& opened,
                                 const ValuesToRead& values) {
  const bool asks_all = !HasDefaultPolicies(frame.options);
  BELAY_ASSIGN_OR_RETURN_AGREED(
      const std::vector<std::string> gathered,
      Gather(frame.context, Encode(MakeQuestion(values, asks_all))));
  const auto answer = [&]() -> StatusOr<StoredAnswer> {
    StatusOr<StoredAnswer> found =
        AnswerOnRoot(gathered, frame.options, opened);
    if (found.ok()) return found;
    return AddPrefix(found.status(),
                     absl::StrFormat("restore \"%s\"", opened.source.path));
  };
  return ShareFromRoot<StoredAnswer>(frame.context, answer);
}

void LetAllBeAbsent(ValuesToRead& values) {
  values.may_be_absent.assign(values.shards.size(), true);
  for (HandledValue& value : values.handled) value.may_be_absent = true;
  for (ComputedValue& value : values.computed) value.may_be_absent = true;
}

// Lists the values, after containers have been resized to their stored lengths.
// Adds computed values that do not fit to `mismatched`.
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

// Lists what handlers want next. Returns false if no rank's handlers want more.
// Collective; agreed.
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

// Collective; agreed.
Agreed<AnyValues> FindKinds(CommContext& context,
                            const StatusOr<ValuesToRead>& values) {
  // A rank with an error takes part, so that all ranks return the error.
  std::vector<int64_t> any = {!values.ok(), 0, 0, 0, 0, 0};
  if (values.ok()) {
    const std::vector<Shard>& shards = values->shards;
    any = {!values->handled.empty(),
           std::ranges::count(values->may_be_absent, true) > 0,
           HasRows(shards) || std::ranges::any_of(shards, IsResizable),
           !values->computed.empty(),
           HasOwners(shards),
           std::ranges::any_of(shards, HasIds)};
  }
  BELAY_RETURN_IF_AGREED(MaxAll(context, any));
  return AnyValues{.handled = any[0] != 0,
                   .may_be_absent = any[1] != 0,
                   .take_rows = any[2] != 0,
                   .computed = any[3] != 0,
                   .owned = any[4] != 0,
                   .ids = any[5] != 0};
}

}  // namespace

Agreed<ListedRestore> ListTogether(RestoreFrame& frame,
                                   const OpenedStep& opened,
                                   StatusOr<ValuesToRead> values) {
  const bool asks_all = !HasDefaultPolicies(frame.options);
  if (values.ok() && frame.options.missing != MismatchPolicy::kError) {
    LetAllBeAbsent(*values);
  }
  if (values.ok()) {
    if (Status status = CheckWritable(*values); !status.ok()) values = status;
  }
  BELAY_ASSIGN_OR_RETURN_AGREED(const AnyValues any,
                                FindKinds(frame.context, values));
  ListedRestore listed{.any = any};
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
  if (any.ids) listed.former = listed.listing.former;
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
  if (std::exchange(listed.any.owned, false)) {
    BELAY_RETURN_IF_AGREED(HandOutRows(frame, shards));
  }
  if (std::exchange(listed.any.computed, false)) {
    BELAY_RETURN_IF_AGREED(ComputeTogether(frame, path,
                                           std::exchange(listed.computed, {}),
                                           listed.computed_warnings));
  }
  bool wants_more = false;
  if (listed.any.handled) {
    BELAY_ASSIGN_OR_RETURN_AGREED(wants_more,
                                  ListMoreTogether(frame, listed.listing));
  }
  // Last, because the ids themselves may be restored.
  if (!wants_more && std::exchange(listed.any.ids, false)) {
    BELAY_RETURN_IF_AGREED(
        FetchById(frame, listed.id_blocks, std::move(listed.former)));
    listed.id_blocks.clear();
  }
  return wants_more;
}

// --- Values without memory ---

namespace {

constexpr char kMetadata[] = "the metadata of all values";

// Allocates memory for this rank's values, and returns a State that refers to
// it.
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
  allowing.allow_dtype_cast = true;  // the caller chose the dtypes and shapes
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
  BELAY_ASSIGN_OR_RETURN_AGREED(
      const std::string bytes, FromRoot(frame.context, [&] {
        return CatchBadAlloc(kMetadata, [&]() -> StatusOr<std::string> {
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
