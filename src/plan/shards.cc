#include "plan/shards.h"

#include <limits>

#include "core/status_macros.h"

namespace belay {

bool IsStrided(const Shard& shard) {
  return !shard.strides.empty() ||
         (shard.structs != nullptr && !IsDense(*shard.structs));
}

int64_t SpanBytes(const Shard& shard) {
  if (shard.structs != nullptr) {
    return shard.box.shape[0] * shard.structs->bytes;
  }
  int64_t elements = 1;
  if (shard.strides.empty()) elements = NumElements(shard.box.shape);
  for (size_t axis = 0; axis < shard.strides.size(); ++axis) {
    elements += (shard.box.shape[axis] - 1) * shard.strides[axis];
  }
  return elements * DTypeSize(shard.dtype);
}

void GatherElements(const Shard& shard, const Box& box, char* to) {
  const auto* from = static_cast<const char*>(shard.data);
  if (shard.structs != nullptr) {
    return PackStructs(*shard.structs, box, from, shard.box, to, box);
  }
  const Shape dense;
  CopyElements(box, from, MakeStore(shard), to, {box, dense},
               DTypeSize(shard.dtype));
}

void ScatterElements(const Shard& shard, const Box& box, const char* from,
                     const Box& from_box) {
  auto* const to = static_cast<char*>(shard.data);
  if (shard.structs != nullptr) {
    return UnpackStructs(*shard.structs, box, from, from_box, to, shard.box);
  }
  const Shape dense;
  CopyElements(box, from, {from_box, dense}, to, MakeStore(shard),
               DTypeSize(shard.dtype));
}

// --- Shard memory ---

ShardMemory GetMemory(const Shard& shard) {
  if (shard.dtype == DType::kString) {
    const auto length = static_cast<int64_t>(shard.text->size());
    return {.data = shard.text->data(),
            .element_size = 1,
            .box = WholeBox({length}),
            .array = {length}};
  }
  return {.data = static_cast<char*>(shard.data),
          .element_size = IoElementSize(shard.dtype),
          .box = shard.box,
          .array = shard.global_shape};
}

int64_t FileOffset(const Box& box, const Extent& extent, int64_t element_size) {
  return extent.offset + FirstRun(box, box, extent.box).b * element_size;
}

void ForEachSegment(const ShardMemory& memory, const Box& box,
                    const Extent& extent,
                    absl::FunctionRef<void(char*, int64_t, int64_t)> visit) {
  const int64_t size = memory.element_size;
  ForEachRun(box, memory.box, extent.box, [&](const ElementRun& run) {
    visit(memory.data + run.a * size, extent.offset + run.b * size,
          run.length * size);
  });
}

namespace {

// A box with one axis is a single run.
OneRun MakeVectorRun(const ShardMemory& memory, const Box& box,
                     const Extent& extent) {
  const int64_t size = memory.element_size;
  const int64_t first = box.offset[0];
  return {.data = memory.data + (first - memory.box.offset[0]) * size,
          .bytes = box.shape[0] * size,
          .array_offset = first * size,
          .file_offset = extent.offset + (first - extent.box.offset[0]) * size};
}

}  // namespace

std::optional<OneRun> FindOneRun(const ShardMemory& memory, const Box& box,
                                 const Extent& extent) {
  const int64_t elements = NumElements(box.shape);
  if (elements == 0) return std::nullopt;
  if (box.shape.size() == 1) return MakeVectorRun(memory, box, extent);
  const ElementRun in_file = FirstRun(box, memory.box, extent.box);
  if (in_file.length != elements) return std::nullopt;
  const ElementRun in_array = FirstRun(box, memory.box, WholeBox(memory.array));
  if (in_array.length != elements) return std::nullopt;
  const int64_t size = memory.element_size;
  return OneRun{.data = memory.data + in_file.a * size,
                .bytes = elements * size,
                .array_offset = in_array.b * size,
                .file_offset = extent.offset + in_file.b * size};
}

BlockSum& Checksummer::FindSum(const ShardMemory& memory, int64_t first_block) {
  if (first_block != first_block_) {
    const int64_t bytes = NumElements(memory.array) * memory.element_size;
    sum_.Restart(bytes, registers_.subspan(first_block, NumBlocks(bytes)));
    first_block_ = first_block;
  }
  return sum_;
}

void Checksummer::Add(const ShardMemory& memory, const Box& box,
                      int64_t first_block) {
  // An empty array has no block: its first_block belongs to the next array.
  if (registers_.empty() || IsEmpty(box)) return;
  const int64_t size = memory.element_size;
  BlockSum& sum = FindSum(memory, first_block);
  ForEachRun(
      box, memory.box, WholeBox(memory.array), [&](const ElementRun& run) {
        sum.Add(run.b * size, memory.data + run.a * size, run.length * size);
      });
}

void Checksummer::AddCopying(const ShardMemory& memory, const OneRun& run,
                             int64_t first_block, char* copy) {
  if (registers_.empty()) return StreamCopy(copy, run.data, run.bytes);
  FindSum(memory, first_block).Add(run.array_offset, run.data, run.bytes, copy);
}

// --- Shard device ---

namespace {

Status CheckName(std::string_view what,
                 const std::optional<std::string>& name) {
  if (!name.has_value()) return absl::OkStatus();
  if (!name->empty() && name->find_first_of("/:") == name->npos) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      Cat(what, " (need a name without '/' and ':', found \"", *name, "\")"));
}

// Errors state only the cause.
Status CheckDevice(const DeviceSpec& device, int rank) {
  BELAY_RETURN_IF_ERROR(CheckName("job", device.job));
  BELAY_RETURN_IF_ERROR(CheckName("device type", device.device_type));
  for (const auto& [what, number] :
       {std::pair("replica", device.replica),
        std::pair("device index", device.device_index)}) {
    if (number.value_or(0) >= 0) continue;
    return absl::InvalidArgumentError(
        Cat(what, " (need at least 0, found ", *number, ")"));
  }
  if (device.task.value_or(rank) == rank) return absl::OkStatus();
  return absl::InvalidArgumentError(Cat("the task is not this rank (need ",
                                        rank, ", found ", *device.task, ")"));
}

Status NameShard(const Shard& shard, const Status& cause) {
  if (cause.ok()) return cause;  // avoids calling DeviceText
  return AddPrefix(cause, "list \"", shard.key, "\": device \"",
                   DeviceText(shard.device), "\"");
}

// Checks the devices. Returns the job that they name, or `job`.
StatusOr<std::string> FindJob(const std::vector<Shard>& shards,
                              const std::string& job, int rank) {
  const Shard* named = nullptr;
  for (const Shard& shard : shards) {
    if (shard.device == DeviceSpec()) continue;
    BELAY_RETURN_IF_ERROR(NameShard(shard, CheckDevice(shard.device, rank)));
    if (!shard.device.job.has_value()) continue;
    if (named == nullptr) named = &shard;
    if (*shard.device.job == *named->device.job) continue;
    return NameShard(shard, absl::InvalidArgumentError(Cat(
                                "a rank is a task of one job (need \"",
                                *named->device.job, "\" as key \"", named->key,
                                "\", found \"", *shard.device.job, "\")")));
  }
  return named == nullptr ? job : *named->device.job;
}

}  // namespace

DeviceSpec DefaultDevice(std::string_view job, int rank,
                         std::string_view layout, int64_t replica) {
  // Replica numbers that are out of range are reported later, when the shards
  // of all ranks are compared.
  const bool counts = !layout.empty() && replica >= 0 &&
                      replica <= std::numeric_limits<int>::max();
  return RankDevice(job, counts ? static_cast<int>(replica) : 0, rank);
}

Status CompleteDevices(std::vector<Shard>& shards, const std::string& job,
                       int rank) {
  BELAY_ASSIGN_OR_RETURN(const std::string own, FindJob(shards, job, rank));
  for (Shard& shard : shards) {
    DeviceSpec base = DefaultDevice(own, rank, shard.layout, shard.replica);
    if (shard.device == DeviceSpec()) {
      shard.device = std::move(base);
      continue;
    }
    // Converting to text and back normalizes the spelling of the type.
    BELAY_ASSIGN_OR_RETURN(
        shard.device, ParseDevice(DeviceText(MergeDevice(base, shard.device))));
  }
  return absl::OkStatus();
}

std::string OwnDevice(const DeviceSpec& device, const DeviceSpec& base) {
  DeviceSpec own;
  if (device.replica != base.replica) own.replica = device.replica;
  if (device.device_type != base.device_type ||
      device.device_index != base.device_index) {
    // As text, a device index needs a device type.
    own.device_type = device.device_type;
    own.device_index = device.device_index;
  }
  return DeviceText(own);
}

}  // namespace belay
