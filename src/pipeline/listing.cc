#include "pipeline/listing.h"

#include <array>
#include <map>

#include "absl/container/flat_hash_set.h"
#include "belay/state.h"
#include "core/catch_exceptions.h"
#include "core/layout.h"
#include "core/status_macros.h"
#include "graph/graph_match.h"
#include "plan/shards.h"
#include "state/rank_rows.h"
#include "state/struct_fields.h"

namespace belay {

Agreed<RootMessage> GatherLists(
    CommContext& context, std::vector<Entries> lists, SentLists& sent_lists,
    absl::FunctionRef<StatusOr<RootMessages>(const Heard&)> answer) {
  ListsToSend now = PrepareLists(std::move(lists));
  const std::string announced = Announce(now, sent_lists);
  BELAY_ASSIGN_OR_RETURN_AGREED(std::vector<std::string> announcements,
                                Gather(context, announced));
  const std::vector<std::string> asks = AskFor(announcements, sent_lists);
  BELAY_ASSIGN_OR_RETURN_AGREED(const std::string ask, Scatter(context, asks));
  std::string reference;
  if (NeedsReference(ask)) {
    if (context.is_root()) reference = MakeReference(now);
    BELAY_RETURN_IF_AGREED(Broadcast(context, reference));
  }
  std::string mine = Answer(ask, reference, now, sent_lists);
  BELAY_ASSIGN_OR_RETURN_AGREED(std::vector<std::string> answers,
                                Gather(context, mine));
  context.agreement_bytes += std::ssize(announced) + std::ssize(mine);
  if (context.is_root()) {
    context.agreement_bytes +=
        std::ssize(asks) * std::ssize(ask) + std::ssize(reference);
  }
  Heard heard;
  const auto listen = [&]() -> StatusOr<RootMessages> {
    BELAY_ASSIGN_OR_RETURN(heard,
                           Hear(announcements, asks, answers, now, sent_lists));
    // Frees memory first: with very many shards, the answer needs much memory.
    announcements.clear();
    answers.clear();
    now.lists.clear();
    return answer(heard);
  };
  std::exchange(mine, std::string());
  BELAY_ASSIGN_OR_RETURN_AGREED(
      RootMessage message, FromRootInParts(context, [&] {
        return CatchBadAlloc("what all ranks have", listen);
      }));
  sent_lists.heard = std::move(heard.lists);
  sent_lists.mine = std::move(now.hashes);
  return message;
}

Agreed<RootMessage> GatherDescriptions(
    CommContext& context, RankShards mine, SentLists& sent_lists,
    absl::FunctionRef<StatusOr<RootMessages>(ListedRanks)> answer) {
  Description description = Describe(mine, context.rank(), context.size());
  mine = {};  // there may be very many
  return GatherLists(
      context, {std::move(description.shared), std::move(description.own)},
      sent_lists, [&](const Heard& heard) -> StatusOr<RootMessages> {
        BELAY_ASSIGN_OR_RETURN(ListedRanks listed, ListRanks(heard));
        return answer(std::move(listed));
      });
}

// --- Listing ---

namespace {

// Returns the length of a string; 0 for other types.
int64_t StringBytes(const Shard& shard) {
  if (shard.dtype != DType::kString) return 0;
  return static_cast<int64_t>(shard.text->size());
}

void PutDevice(const DeviceSpec& device, WireWriter& out) {
  const auto put = [&](const std::optional<std::string>& name) {
    out.PutText(name ? std::string_view(*name) : "");
  };
  put(device.job);
  put(device.device_type);
  out.Put(std::array{device.replica.value_or(-1),
                     device.device_index.value_or(-1)});
}

// Returns the part of a shard's device that rank 0 cannot derive.
std::string DescribeOwnDevice(const Shard& shard) {
  if (!shard.device.job || !shard.device.task) return "";
  return OwnDevice(shard.device,
                   DefaultDevice(*shard.device.job, *shard.device.task,
                                 shard.layout, shard.replica));
}

}  // namespace

std::vector<Shard> ListShards(std::vector<Shard> shards, int rank) {
  for (Shard& shard : shards) {
    if (shard.replica == State::kReplicaIsRank) shard.replica = rank;
  }
  return shards;
}

Status CheckLayouts(const std::vector<Shard>& shards, int num_ranks) {
  absl::flat_hash_set<std::string_view> seen;  // few layouts, many shards
  for (const Shard& shard : shards) {
    if (shard.layout.empty() || !seen.insert(shard.layout).second) continue;
    const StatusOr<Layout> layout = Layout::Parse(shard.layout);
    if (!layout.ok()) continue;
    BELAY_RETURN_IF_ERROR(CheckLayoutOfKey(shard.key, *layout, num_ranks));
  }
  return absl::OkStatus();
}

Status MapToDevices(std::vector<Shard>& shards, const JobEnvironment& job,
                    int rank) {
  return CompleteDevices(shards, *JobDevice(job, 0, rank).job, rank);
}

std::string FindJobName(const std::vector<Shard>& shards) {
  if (shards.empty()) return std::string(kDefaultJob);
  return *shards[0].device.job;
}

void PutStructure(const std::vector<Shard>& shards, WireWriter& out) {
  for (const Shard& shard : shards) {
    out.PutText(shard.key);
    out.PutShape(shard.global_shape);
    // The planner checks the axes of the box, so their number may differ here.
    out.PutShape(shard.box.offset);
    out.PutShape(shard.box.shape);
    out.Put(std::array<int64_t, 6>{
        static_cast<int64_t>(shard.dtype), shard.replica, StringBytes(shard),
        shard.rows != nullptr, HasIds(shard),
        shard.rows != nullptr ? shard.rows->count : -1});
    out.Put(shard.from_rank0);
    out.PutText(shard.layout);
    out.PutText(GetFieldsText(shard));
    PutDevice(shard.device, out);
  }
}

StatusOr<DType> StoredDType(const ArgsByKey& args, const SaveOptions& options,
                            const std::string& key, DType dtype) {
  if (key == SaveCounterKey()) return dtype;
  const DType f32_dtype =
      options.float32_as_bfloat16 ? DType::kBF16 : DType::kF32;
  return DTypeToStore(args, f32_dtype, key, dtype);
}

bool StoresAllAsTheyAre(const SaveOptions& options) {
  return !options.float32_as_bfloat16 && options.args.empty();
}

StatusOr<std::vector<StoredForm>> FormsToStore(const std::vector<Shard>& shards,
                                               const SaveOptions& options) {
  std::vector<StoredForm> forms;
  if (StoresAllAsTheyAre(options)) return forms;
  BELAY_ASSIGN_OR_RETURN(const ArgsByKey args, CompileArgs(options.args));
  forms.reserve(shards.size());
  bool differs = false;
  for (const Shard& shard : shards) {
    BELAY_ASSIGN_OR_RETURN(const DType dtype,
                           StoredDType(args, options, shard.key, shard.dtype));
    if (dtype != shard.dtype && shard.structs != nullptr) {
      return absl::InvalidArgumentError(Cat(
          "store \"", shard.key, "\": the fields of its structs keep their ",
          "dtypes (found dtype ", DTypeName(dtype), " in its arguments)"));
    }
    differs = differs || dtype != shard.dtype;
    forms.push_back({.dtype = dtype, .shape = shard.global_shape});
  }
  if (!differs) forms.clear();
  return forms;
}

Status CheckHandledForms(const std::vector<ListedValue>& values,
                         const std::vector<Shard>& shards,
                         const std::vector<StoredForm>& forms) {
  if (forms.empty()) return absl::OkStatus();
  std::map<std::string, const ListedValue*> value_of;  // keys are part keys
  for (const ListedValue& value : values) {
    if (!IsStandardTypestr(value.typestr)) continue;
    const bool is_container = IsBuiltinTypestr(value.typestr);
    for (const std::string& part : value.parts) {
      if (is_container) continue;
      value_of[PartKey(value.key, part)] = &value;
    }
  }
  for (size_t i = 0; i < shards.size(); ++i) {
    const auto found = value_of.find(shards[i].key);
    if (found == value_of.end() || forms[i].dtype == shards[i].dtype) continue;
    return absl::InvalidArgumentError(
        Cat("args \"", shards[i].key, "\": it is a part of \"",
            found->second->key, "\", whose handler \"", found->second->typestr,
            "\" needs its dtype again (need ", DTypeName(shards[i].dtype),
            ", found ", DTypeName(forms[i].dtype), ")"));
  }
  return absl::OkStatus();
}

std::vector<bool> FindOnAllRanks(const std::vector<Shard>& shards) {
  std::vector<bool> found;
  found.reserve(shards.size());
  for (const Shard& shard : shards) {
    found.push_back(shard.replica == State::kReplicaIsRank);
  }
  return found;
}

std::vector<ShardInfo> DescribeShards(const std::vector<Shard>& shards,
                                      const std::vector<StoredForm>& forms,
                                      const std::vector<bool>& on_all_ranks) {
  std::vector<ShardInfo> infos;
  infos.reserve(shards.size());
  for (const Shard& shard : shards) {
    infos.push_back({.key = shard.key,
                     .dtype = shard.dtype,
                     .from_rank0 = shard.from_rank0,
                     .global_shape = shard.global_shape,
                     .box = shard.box,
                     .replica = shard.replica,
                     .string_bytes = StringBytes(shard),
                     .layout = shard.layout,
                     .device = DescribeOwnDevice(shard),
                     .fields = GetFieldsText(shard)});
  }
  for (size_t i = 0; i < forms.size(); ++i) infos[i].dtype = forms[i].dtype;
  for (size_t i = 0; i < on_all_ranks.size(); ++i) {
    infos[i].on_all_ranks = on_all_ranks[i];
  }
  return infos;
}

}  // namespace belay
