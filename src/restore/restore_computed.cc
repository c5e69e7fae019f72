// The part of a restore in which values are computed from stored arrays.
#include <algorithm>
#include <tuple>
#include <utility>

#include "base/catch_bad_alloc.h"
#include "base/catch_exceptions.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "bytes/wire.h"
#include "pipeline/listing.h"
#include "pipeline/lost_values.h"
#include "plan/shard_store.h"
#include "plan/stored/stored_form.h"
#include "restore/restore_stages.h"
#include "transform/made_bytes.h"
#include "values/array_access.h"
#include "values/conversions.h"

namespace belay {
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

// Adds what is read for a value whose result has this form and fits. Local.
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

// Lets a value be computed in memory of its own, whose elements then go where
// the shard has them. Local.
Status TakeDense(Shard& shard, ComputedListing& computed) {
  return CatchBadAlloc(
      Cat("\"", shard.key, "\": its elements"), [&]() -> Status {
        computed.shard = shard;
        computed.dense.emplace(shard.dtype, shard.box.shape);
        // What is not stored stays as it is.
        GatherElements(shard, shard.box,
                       reinterpret_cast<char*>(computed.dense->data()));
        shard.data = computed.dense->data();
        shard.strides.clear();
        shard.structs = nullptr;
        return absl::OkStatus();
      });
}

// Computes a value of which all is read. Local.
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

// Lists one value. Local.
Status ListOne(const RestoreFrame& frame, ComputedValue value,
               const StoredAnswer& answer, ListedRestore& listed,
               std::vector<Conversion>& mismatched) {
  std::vector<Shard> placed =
      ListShards({std::move(value.shard)}, frame.context.rank());
  value.shard = std::move(placed[0]);
  const Shard& shard = value.shard;
  BELAY_ASSIGN_OR_RETURN(const ArrayForm form,
                         FormOf(value.transform, FinderIn(answer)));
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
    const StatusOr<ArrayForm> form = FormOf(value.transform, FinderIn(answer));
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

Status ShareComputed(RestoreFrame& frame, std::vector<Conversion>& conversions,
                     std::vector<Conversion>& mismatched) {
  WireWriter mine;
  mine.PutText(EncodeConversions(conversions));
  mine.PutText(EncodeConversions(mismatched));
  BELAY_ASSIGN_OR_RETURN_AGREED(const std::vector<std::string> gathered,
                                Gather(frame.context, mine.Take()));
  const auto merge = [&]() -> StatusOr<std::string> {
    std::vector<Conversion> converted, unfit;
    for (const std::string& bytes : gathered) {
      WireReader in(bytes);
      for (Conversion& one : DecodeConversions(in.GetText())) {
        converted.push_back(std::move(one));
      }
      for (Conversion& one : DecodeConversions(in.GetText())) {
        unfit.push_back(std::move(one));
      }
    }
    MakeDistinct(converted);
    MakeDistinct(unfit);
    WireWriter out;
    out.PutText(EncodeConversions(converted));
    out.PutText(EncodeConversions(unfit));
    return out.Take();
  };
  BELAY_ASSIGN_OR_RETURN_AGREED(const std::string bytes,
                                FromRoot(frame.context, merge));
  WireReader in(bytes);
  conversions = DecodeConversions(in.GetText());
  mismatched = DecodeConversions(in.GetText());
  return absl::OkStatus();
}

Status ComputeTogether(RestoreFrame& frame, std::string_view path,
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
  if (has_lost[0] == 0) return absl::OkStatus();
  BELAY_ASSIGN_OR_RETURN_AGREED(
      const std::vector<std::string> told,
      TellLost(frame.context, Cat("restore \"", path, "\""),
               Merged(std::move(lost)), frame.options.strict_dtype));
  warnings.insert(warnings.end(), told.begin(), told.end());
  return absl::OkStatus();
}

}  // namespace belay
