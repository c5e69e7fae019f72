#include "types/staging.h"

#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/huge_pages.h"
#include "base/status_macros.h"
#include "base/with_memory.h"
#include "geometry/runs.h"
#include "types/element_conversion.h"

namespace belay {
namespace {

StoredForm FormOf(const Shard& shard) {
  return {.dtype = shard.dtype, .shape = shard.global_shape};
}

std::string FormText(const StoredForm& form) {
  return absl::StrFormat("%s %s", DTypeName(form.dtype), ShapeText(form.shape));
}

Status CheckShard(const Shard& shard) {
  Status status = CheckedNumElements(shard.global_shape).status();
  if (status.ok()) status = CheckBox(shard.box, shard.global_shape);
  if (status.ok()) return status;
  return Status(status.code(), absl::StrFormat("stage \"%s\": %s", shard.key,
                                               status.message()));
}

// Lists `as_stored`, with a buffer, in place of `wanted`.
Status AddStaged(const Shard& wanted, Shard as_stored, Staging& staging) {
  const int64_t bytes =
      NumElements(as_stored.box.shape) * DTypeSize(as_stored.dtype);
  StagedShard staged{.wanted = wanted, .place = staging.shards.size()};
  BELAY_RETURN_IF_ERROR(WithMemory(
      absl::StrFormat("%d bytes to convert \"%s\"", bytes, wanted.key), [&] {
        staged.buffer = NewBytes(bytes);
        return absl::OkStatus();
      }));
  as_stored.data = staged.buffer.get();
  staging.bytes += bytes;
  staging.shards.push_back(std::move(as_stored));
  staging.staged.push_back(std::move(staged));
  return absl::OkStatus();
}

Status AddAsStored(const Shard& wanted, const StoredForm& form,
                   Staging& staging) {
  if (!IsConvertible(form, FormOf(wanted))) {
    return absl::FailedPreconditionError(
        absl::StrFormat("stage \"%s\": not convertible (need %s, found %s)",
                        wanted.key, FormText(FormOf(wanted)), FormText(form)));
  }
  BELAY_RETURN_IF_ERROR(CheckShard(wanted));
  Shard as_stored = wanted;
  as_stored.dtype = form.dtype;
  as_stored.global_shape = form.shape;
  as_stored.box = StoredPart(wanted.box, form.shape);
  if (form.dtype == wanted.dtype && as_stored.box == wanted.box) {
    staging.shards.push_back(std::move(as_stored));
    return absl::OkStatus();
  }
  return AddStaged(wanted, std::move(as_stored), staging);
}

}  // namespace

bool IsConvertible(const StoredForm& from, const StoredForm& to) {
  return IsConvertible(from.dtype, to.dtype) &&
         from.shape.size() == to.shape.size();
}

Box StoredPart(const Box& wanted, const Shape& stored) {
  const Shape nothing(stored.size(), 0);
  return Intersect(wanted, WholeBox(stored))
      .value_or(Box{.offset = nothing, .shape = nothing});
}

StatusOr<Staging> StageForSave(const std::vector<Shard>& shards, DType from,
                               DType to) {
  Staging staging;
  for (const Shard& shard : shards) {
    if (shard.dtype != from) {
      staging.shards.push_back(shard);
      continue;
    }
    BELAY_RETURN_IF_ERROR(CheckShard(shard));
    Shard as_stored = shard;
    as_stored.dtype = to;
    BELAY_RETURN_IF_ERROR(AddStaged(shard, std::move(as_stored), staging));
    ConvertElements(from, shard.data, to, staging.staged.back().buffer.get(),
                    NumElements(shard.box.shape));
  }
  return staging;
}

StatusOr<Staging> StageForRestore(const std::vector<Shard>& shards,
                                  const StoredForms& stored) {
  Staging staging;
  for (const Shard& shard : shards) {
    const auto form = stored.find(shard.key);
    if (form == stored.end() || form->second == FormOf(shard)) {
      staging.shards.push_back(shard);
      continue;
    }
    BELAY_RETURN_IF_ERROR(AddAsStored(shard, form->second, staging));
  }
  return staging;
}

void HandOver(const Staging& staging) {
  for (const StagedShard& staged : staging.staged) {
    const Shard& wanted = staged.wanted;
    const Shard& stored = staging.shards[staged.place];
    const std::byte* source = staged.buffer.get();
    auto* target = static_cast<std::byte*>(wanted.data);
    ForEachRun(stored.box, stored.box, wanted.box, [&](const Run& run) {
      ConvertElements(stored.dtype, source + run.a * DTypeSize(stored.dtype),
                      wanted.dtype, target + run.b * DTypeSize(wanted.dtype),
                      run.length);
    });
  }
}

}  // namespace belay
