#include "belay/values/restore_values.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "belay/extend/state.h"
#include "belay/extend/transform_function.h"
#include "core/agreed.h"
#include "core/catch_exceptions.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "core/wire.h"
#include "mpi/all_to_all.h"
#include "mpi/collective.h"
#include "pipeline/listing.h"
#include "pipeline/lost_values.h"
#include "plan/shards.h"
#include "plan/stored_values.h"
#include "restore/restore_stages.h"
#include "state/array_access.h"
#include "state/rank_rows.h"
#include "state/stored_answer.h"
#include "state/transform.h"

namespace belay {
namespace {

// Sends the metadata of all values to all ranks. Collective; agreed.
Agreed<std::vector<StoredArray>> ShareStoredValues(
    RestoreFrame& frame, const SavedCheckpoint& saved) {
  frame.stages.Enter("metadata");
  BELAY_ASSIGN_OR_RETURN_AGREED(
      const std::string bytes, FromRoot(frame.context, [&] {
        return CatchBadAlloc("the metadata of all values",
                             [&]() -> StatusOr<std::string> {
                               return Encode(ListStoredArrays(saved));
                             });
      }));
  return DecodeFromRoot<std::vector<StoredArray>>(bytes);
}

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
  BELAY_ASSIGN_OR_RETURN_AGREED(const std::vector<StoredArray> stored,
                                ShareStoredValues(frame, saved));
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

// Values that are computed from stored arrays.

namespace {

std::string WhatIs(const ComputedValue& value) {
  return Cat("compute \"", value.shard.key, "\": ", value.transform.ToString());
}

Status Explain(std::string_view what, const Status& status) {
  if (status.ok()) return status;
  return Status(status.code(), Cat(what, ": ", std::string(status.message())));
}

// Finds the forms of stored arrays in an answer.
auto FinderIn(const StoredAnswer& answer) {
  return [&answer](const std::string& key) { return FindSource(answer, key); };
}

// Adds the reads for a value whose result has this form and fits.
Status PlanValue(const ComputedValue& value, const ArrayForm& form,
                 const StoredAnswer& answer, std::vector<TransformMove>& moves,
                 HandlerListing& listing) {
  const Shard& shard = value.shard;
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

Conversion DifferenceOf(const Shard& shard, const ArrayForm& form) {
  return {.key = shard.key,
          .dtype = shard.dtype,
          .shape = shard.global_shape,
          .stored_dtype = form.dtype,
          .stored_shape = form.shape};
}

// Allocates dense memory for a result, from which FinishOne scatters it.
Status TakeDense(Shard& shard, ComputedListing& computed) {
  return CatchBadAlloc(
      Cat("\"", shard.key, "\": its elements"), [&]() -> Status {
        computed.shard = shard;
        computed.dense.emplace(shard.dtype, shard.box.shape);
        // Elements that are not stored keep their values.
        GatherElements(shard, shard.box,
                       reinterpret_cast<char*>(computed.dense->data()));
        shard.data = computed.dense->data();
        shard.strides.clear();
        shard.structs = nullptr;
        return absl::OkStatus();
      });
}

// Computes a value from its arrays.
Status FinishOne(ComputedListing& computed, std::vector<LostValues>& lost) {
  std::vector<ComputedLosses> losses;
  BELAY_RETURN_IF_ERROR(FinishTransform(std::move(computed.moves), losses));
  for (const ComputedLosses& one : losses) {
    lost.push_back({.key = computed.key,
                    .from = one.from,
                    .to = one.to,
                    .losses = one.losses});
  }
  if (!computed.dense) return absl::OkStatus();
  const Shard& shard = computed.shard;
  ScatterElements(shard, shard.box,
                  reinterpret_cast<const char*>(computed.dense->data()),
                  shard.box);
  return absl::OkStatus();
}

// Lists one value.
Status ListOne(const RestoreFrame& frame, ComputedValue value,
               const StoredAnswer& answer, ListedRestore& listed,
               std::vector<Conversion>& mismatched) {
  std::vector<Shard> placed =
      ListShards({std::move(value.shard)}, frame.context.rank());
  value.shard = std::move(placed[0]);
  const Shard& shard = value.shard;
  BELAY_ASSIGN_OR_RETURN(const ArrayForm form,
                         ComputeForm(value.transform, FinderIn(answer)));
  Tolerance tolerance = value.tolerance;
  tolerance.nothing = frame.may_read_nothing;
  const StoredForm need{shard.dtype, shard.global_shape};
  const StoredForm found{form.dtype, form.shape};
  if (!Fits(found, need, tolerance)) {
    if (frame.options.mismatched != MismatchPolicy::kError) {
      mismatched.push_back(DifferenceOf(shard, form));
      return absl::OkStatus();
    }
    return absl::FailedPreconditionError(
        Cat("another dtype or shape results (need ", FormText(need), ", found ",
            FormText(found), ")"));
  }
  if (found != need) {
    listed.computed_conversions.push_back(DifferenceOf(shard, form));
  }
  ComputedListing computed;
  if (IsStrided(shard)) {
    BELAY_RETURN_IF_ERROR(TakeDense(value.shard, computed));
  }
  BELAY_RETURN_IF_ERROR(
      PlanValue(value, form, answer, computed.moves, listed.listing));
  if (computed.moves.empty() && !computed.dense) return absl::OkStatus();
  computed.what = WhatIs(value);
  computed.key = shard.key;
  listed.computed.push_back(std::move(computed));
  return absl::OkStatus();
}

// Each once, ascending.
void MakeDistinct(std::vector<Conversion>& all) {
  const auto order = [](const Conversion& one) {
    return std::tie(one.key, one.dtype, one.shape, one.stored_dtype,
                    one.stored_shape);
  };
  std::sort(all.begin(), all.end(),
            [&](const auto& a, const auto& b) { return order(a) < order(b); });
  all.erase(std::unique(all.begin(), all.end()), all.end());
}

}  // namespace

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
      BELAY_RETURN_IF_ERROR(
          Explain(WhatIs(value), bytes.Check("transforms that give lengths")));
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
  for (size_t i = 0; i < values.size(); ++i) {
    values[i].shard = std::move(shards[i]);
    const std::string what = WhatIs(values[i]);
    BELAY_RETURN_IF_ERROR(Explain(what, CatchExceptions([&] {
                                    return ListOne(frame, std::move(values[i]),
                                                   answer, listed, mismatched);
                                  })));
  }
  return absl::OkStatus();
}

Agreed<> ShareComputed(RestoreFrame& frame,
                       std::vector<Conversion>& conversions,
                       std::vector<Conversion>& mismatched) {
  using Both = std::pair<std::vector<Conversion>, std::vector<Conversion>>;
  BELAY_ASSIGN_OR_RETURN_AGREED(
      const std::vector<std::string> gathered,
      Gather(frame.context, Encode(Both(conversions, mismatched))));
  const auto merge = [&]() -> StatusOr<std::string> {
    Both all;
    for (const std::string& bytes : gathered) {
      std::optional<Both> one = Decode<Both>(bytes);
      if (!one) return DifferentCalls();
      std::ranges::move(one->first, std::back_inserter(all.first));
      std::ranges::move(one->second, std::back_inserter(all.second));
    }
    MakeDistinct(all.first);
    MakeDistinct(all.second);
    return Encode(all);
  };
  BELAY_ASSIGN_OR_RETURN_AGREED(const std::string bytes,
                                FromRoot(frame.context, merge));
  BELAY_ASSIGN_OR_RETURN_AGREED(std::tie(conversions, mismatched),
                                DecodeFromRoot<Both>(bytes));
  return {};
}

Agreed<> ComputeTogether(RestoreFrame& frame, std::string_view path,
                         std::vector<ComputedListing> computed,
                         std::vector<std::string>& warnings) {
  frame.stages.Enter("compute");
  Status status;
  std::vector<LostValues> lost;
  for (ComputedListing& one : computed) {
    status.Update(Explain(
        one.what, CatchExceptions([&] { return FinishOne(one, lost); })));
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

bool MayConvert(const RestoreOptions& options) {
  const Tolerance most = MostTolerance(options);
  return most.dtype || most.lengths;
}

Agreed<std::vector<StoredForm>> ShareForms(
    RestoreFrame& frame, const std::vector<Shard>& shards,
    const std::vector<Tolerance>& tolerances,
    std::vector<Conversion>& conversions) {
  std::string bytes;
  if (frame.context.is_root()) bytes = Encode(conversions);
  BELAY_RETURN_IF_AGREED(Broadcast(frame.context, bytes));
  BELAY_ASSIGN_OR_RETURN_AGREED(conversions,
                                DecodeFromRoot<std::vector<Conversion>>(bytes));
  if (conversions.empty()) return std::vector<StoredForm>();
  return AgreeOn(frame.context, FindForms(shards, tolerances, conversions));
}

Agreed<> TellLostValues(RestoreFrame& frame, const FormedShards& formed,
                        RestoreResult& result) {
  const bool is_lossy =
      std::any_of(result.conversions.begin(), result.conversions.end(),
                  [](const Conversion& one) {
                    return IsLossyConversion(one.stored_dtype, one.dtype);
                  });
  if (!is_lossy) return {};
  std::vector<int64_t> has_lost = {AnyLost(formed.losses) ? 1 : 0};
  BELAY_RETURN_IF_AGREED(MaxAll(frame.context, has_lost));
  if (has_lost[0] == 0) return {};
  BELAY_ASSIGN_OR_RETURN_AGREED(
      std::vector<std::string> warnings,
      TellLost(frame.context, Cat("restore \"", result.path, "\""),
               ListLost(formed, ConversionWay::kFromStored),
               frame.options.strict_dtype));
  result.warnings = std::move(warnings);
  return {};
}

// Rows for other ranks.

namespace {

constexpr std::string_view kOnTheirWay = "rows on their way";

// Gets the rows of one window after the other. Collective; agreed.
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

}  // namespace

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

}  // namespace belay
