// A restore, from its options to its result.

#include "core/program_words.h"
#include "format/paths.h"
#include "pipeline/listing.h"
#include "pipeline/result_text.h"
#include "plan/shared_targets.h"
#include "restore/flat_file.h"
#include "restore/restore_stages.h"
#include "state/stored_answer.h"
#include "storage/commit.h"

namespace belay {

Status CheckReading(std::string_view operation, const std::string& path,
                    const RestoreOptions& options) {
  const std::string start =
      absl::StrFormat("%s \"%s\"", AbslView(operation), path);
  BELAY_RETURN_IF_ERROR(CheckRanges(start, options));
  if (options.read_sharing == ReadSharing::kEachRank &&
      options.primary_replica) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%s: primary_replica says that others do not read, but read_sharing is "
        "%s",
        start, ValueInProgram(options.read_sharing)));
  }
  return absl::OkStatus();
}

ReadRules MakeReadRules(const RestoreOptions& options) {
  return {.sharing = options.read_sharing,
          .primary_replica = options.primary_replica,
          .max_bytes_in_flight = options.max_bytes_in_flight};
}

Status CheckNoArgs(const std::string& dir, const RestoreOptions& options) {
  const char* const name = !options.args.empty()        ? "args"
                           : options.selects != nullptr ? "selects"
                           : options.on_open != nullptr ? "on_open"
                           : !HasDefaultPolicies(options)
                               ? "missing, unexpected or mismatched"
                               : nullptr;
  if (name == nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat(
      "restore \"%s\": the option %s is for values that the program has: %s",
      dir, name, kArrayArgsWord.InProgram()));
}

namespace {

std::vector<CommonOption> CommonArguments(const RestoreSource& source,
                                          const RestoreOptions& options) {
  std::vector<CommonOption> common = {
      {"the step", Encode(source.step)},
      {"the path", WithoutSlashes(source.path)},
      {"the kind of source", Encode(source.kind)},
      {"the save that is meant", Encode(source.identity)}};
  for (CommonOption& option : CommonOptions(options)) {
    common.push_back({Cat("the option ", option.name), option.bytes});
  }
  return common;
}

}  // namespace

RestoreFrame::RestoreFrame(const Comm& comm, const std::string& path,
                           const RestoreOptions& chosen)
    : context{comm, Deadline(comm, chosen.deadline_seconds,
                             absl::StrFormat("restore \"%s\"", path))},
      stages(context),
      options(chosen),
      handlers(GetHandlers(chosen.handlers)) {}

RestoreSource MakeSource(const std::string& dir, std::optional<int64_t> step) {
  if (!step) return {.path = dir, .kind = RestoreSource::Kind::kRun};
  if (*step >= 0) return {.path = StepPath(dir, *step), .step = *step};
  return {.path = dir,
          .problem = absl::InvalidArgumentError(absl::StrFormat(
              "restore \"%s\": step is out of range (need 0 to %d, found %d); "
              "the newest one is %s",
              dir, INT64_MAX, *step, kLatestStepWord.InProgram()))};
}

Agreed<> BeginRestore(RestoreFrame& frame, const RestoreSource& source,
                      const Status& mine) {
  frame.stages.Enter("list");
  Status sound = source.problem;
  sound.Update(mine);
  sound.Update(CheckReading("restore", source.path, frame.options));
  BELAY_RETURN_IF_AGREED(
      AgreeSameText(frame.context, "restore: the directory",
                    source.kind == RestoreSource::Kind::kCheckpoint
                        ? GetParent(source.path)
                        : WithoutSlashes(source.path),
                    sound));
  return AgreeOnArguments(frame.context, "restore",
                          CommonArguments(source, frame.options));
}

Agreed<BlockCounts> CompareTogether(CommContext& context,
                                    const std::string& operation,
                                    const ReadBlocks& read) {
  BELAY_RETURN_IF_AGREED(XorToRoot(context, read.registers));
  BELAY_RETURN_IF_AGREED(SumAll(context, read.covered));
  BlockCounts counts;
  BELAY_RETURN_IF_AGREED(OnRoot(context, [&] {
    return CompareChecksums(read.saved, read.plan, operation, read.registers,
                            read.covered, counts);
  }));
  std::vector<int64_t> shared = {counts.verified, counts.partial};
  BELAY_RETURN_IF_AGREED(MaxAll(context, shared));
  return BlockCounts{.verified = shared[0], .partial = shared[1]};
}

// --- Plan stage ---

namespace {

// The plan of a restore on this rank.
struct PlannedReads {
  // Equal on all ranks.
  RestoreResult result;  // as far as known
  bool checks = false;
  int64_t num_blocks = 0;
  int64_t stream_bytes = 0;  // of the longest delivery stream
  std::vector<std::string> file_names;
  std::vector<FilteredDataset> filtered;
  std::vector<StackedArray> stacked;  // each rank plans its own reads
  // This rank's part.
  RankReads reads;
  std::vector<StoredForm> forms;  // per shard; empty: no conversion
  RestorePlan plan;               // rank 0 only
};

// Rank 0's message to all ranks.
template <typename Archive>
void Fields(Archive& archive, PlannedReads& planned) {
  RestoreResult& result = planned.result;
  archive(result.path, result.step, result.num_arrays, result.read_sharing,
          result.sharing_note, planned.checks, planned.num_blocks,
          planned.stream_bytes, planned.file_names, planned.filtered,
          planned.stacked);
}

bool MayConvert(const RestoreOptions& options) {
  const Tolerance most = MostTolerance(options);
  return most.dtype || most.lengths;
}

std::string InMessages(const OpenedStep& opened) {
  return absl::StrFormat("restore \"%s\"", opened.source.path);
}

// Returns what all ranks want, in its stored form, divided into reads that rank
// 0 plans and reads that each rank plans itself. Rank 0 only.
StatusOr<DividedWants> WantOnRoot(const RestoreFrame& frame,
                                  const SavedCheckpoint& saved,
                                  const ListedRanks& listed, Dividing dividing,
                                  std::vector<Conversion>& conversions) {
  Tolerance most = MostTolerance(frame.options);
  most.nothing = frame.may_read_nothing;
  DividedWants wants = DivideWants(saved, listed, dividing);
  BELAY_ASSIGN_OR_RETURN(conversions, WantAsStored(saved, most, wants.central));
  return wants;
}

// Rank 0 only.
Status PlanOnRoot(const RestoreFrame& frame, const OpenedStep& opened,
                  const ListedRanks& listed,
                  const std::string& no_shared_memory, PlannedReads& planned) {
  const SavedCheckpoint& saved = opened.saved;
  ReadRules rules = MakeReadRules(frame.options);
  if (!no_shared_memory.empty()) rules.sharing = ReadSharing::kEachRank;
  // With a primary replica, ranks cannot plan their own reads.
  const Dividing dividing =
      rules.primary_replica ? Dividing::kNothing : Dividing::kWhatPays;
  BELAY_ASSIGN_OR_RETURN(
      DividedWants wants,
      WantOnRoot(frame, saved, listed, dividing, planned.result.conversions));
  BELAY_RETURN_IF_ERROR(CheckKinds(saved, wants.central));
  BELAY_ASSIGN_OR_RETURN(planned.plan,
                         PlanRestore(saved, wants.central, rules));
  AddLocalArrays(saved, wants, planned.plan);
  planned.result.path = opened.source.path;
  planned.result.step = opened.source.step;
  planned.result.num_arrays = std::ssize(planned.plan.arrays);
  planned.result.read_sharing = planned.plan.sharing;
  planned.result.sharing_note =
      no_shared_memory.empty()
          ? planned.plan.note
          : Cat("each rank reads: no memory can be shared (", no_shared_memory,
                ")");
  planned.checks = saved.has_checksums;
  planned.num_blocks = planned.plan.num_blocks;
  planned.stream_bytes = planned.plan.stream_bytes;
  for (const StoredFile& file : saved.files) {
    planned.file_names.push_back(file.name);
  }
  planned.filtered = planned.plan.filtered;
  planned.stacked = std::move(wants.stacked);
  return absl::OkStatus();
}

// Sends the wanted shards to rank 0, and rank 0's answer to all ranks.
// Collective; agreed.
Agreed<RootMessage> AskForWanted(
    RestoreFrame& frame, const std::vector<Shard>& shards,
    absl::FunctionRef<StatusOr<RootMessages>(ListedRanks)> answer) {
  frame.stages.Enter("plan");
  RankShards wanted{.node = 0, .shards = DescribeShards(shards)};
  // The current lengths of strings do not matter, and may differ between ranks.
  for (ShardInfo& shard : wanted.shards) shard.string_bytes = 0;
  SentLists sent_lists;
  return GatherDescriptions(frame.context, std::move(wanted), sent_lists,
                            answer);
}

// Sends the conversions to all ranks, and returns the stored forms of this
// rank's shards. Collective; agreed.
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

// Plans which rank reads what. `tolerances` has one element per shard. If
// `no_shared_memory` is not empty, it is the reason why memory cannot be
// shared, and each rank reads for itself. It must be equal on all ranks.
// Collective; agreed.
Agreed<PlannedReads> PlanReads(RestoreFrame& frame, const OpenedStep& opened,
                               const std::vector<Shard>& shards,
                               const std::vector<Tolerance>& tolerances,
                               const std::string& no_shared_memory) {
  PlannedReads planned;
  const auto plan = [&](const ListedRanks& listed) -> StatusOr<RootMessages> {
    BELAY_RETURN_IF_ERROR(
        AddPrefix(PlanOnRoot(frame, opened, listed, no_shared_memory, planned),
                  InMessages(opened)));
    RootMessages messages{.common = Encode(planned)};
    for (const RankReads& reads : planned.plan.ranks) {
      messages.parts.push_back(Encode(reads));
    }
    return messages;
  };
  BELAY_ASSIGN_OR_RETURN_AGREED(const RootMessage message,
                                AskForWanted(frame, shards, plan));
  if (MayConvert(frame.options)) {
    BELAY_ASSIGN_OR_RETURN_AGREED(
        planned.forms,
        ShareForms(frame, shards, tolerances, planned.result.conversions));
  }
  WireReader(message.common)(planned);
  WireReader(message.part)(planned.reads);
  planned.checks = planned.checks && frame.options.checksums;
  std::vector<WantedBox> wanted;
  for (const Shard& shard : shards) {
    wanted.push_back({.key = shard.key, .box = &shard.box});
  }
  AddLocalReads(planned.stacked, wanted, planned.reads);
  planned.stacked.clear();
  return planned;
}

// Adds to `result` a warning for each key of which any rank has lost values.
// `result` must have the conversions. Collective; agreed.
// Errors: those of TellLost.
Agreed<> WarnOfLosses(RestoreFrame& frame, const FormedShards& formed,
                      RestoreResult& result) {
  const bool is_lossy =
      std::ranges::any_of(result.conversions, [](const Conversion& one) {
        return IsLossyConversion(one.stored_dtype, one.dtype);
      });
  if (!is_lossy) return {};
  std::vector<int64_t> has_lost = {AnyLost(formed.losses) ? 1 : 0};
  BELAY_RETURN_IF_AGREED(MaxAll(frame.context, has_lost));
  if (has_lost[0] == 0) return {};
  BELAY_ASSIGN_OR_RETURN_AGREED(
      result.warnings,
      TellLost(frame.context, Cat("restore \"", result.path, "\""),
               ListLost(formed, ConversionWay::kFromStored),
               frame.options.strict_dtype));
  return {};
}

// Plans and reads an HDF5 file of another program, and agrees on `mine`.
// Collective; agreed.
Agreed<RestoreResult> ReadFlat(RestoreFrame& frame, const OpenedStep& opened,
                               const std::vector<Shard>& shards,
                               const std::vector<Tolerance>& tolerances,
                               const Status& mine) {
  const RestoreSource& source = opened.source;
  if (frame.options.read_sharing == ReadSharing::kOnce ||
      frame.options.primary_replica) {
    return Agree(frame.context,
                 absl::UnimplementedError(absl::StrFormat(
                     "restore \"%s\": for HDF5 files of other programs each "
                     "rank reads its own boxes; leave read_sharing and "
                     "primary_replica at their defaults",
                     source.path)))
        .error();
  }
  RestoreResult result{.path = source.path, .step = source.step};
  result.sharing_note = "each rank reads a file of another program";
  std::vector<StoredForm> forms;
  if (MayConvert(frame.options)) {
    const auto want = [&](const ListedRanks& listed) -> StatusOr<RootMessages> {
      const StatusOr<DividedWants> wants = WantOnRoot(
          frame, opened.saved, listed, Dividing::kNothing, result.conversions);
      BELAY_RETURN_IF_ERROR(AddPrefix(wants.status(), InMessages(opened)));
      return RootMessages();
    };
    BELAY_RETURN_IF_AGREED(AskForWanted(frame, shards, want));
    BELAY_ASSIGN_OR_RETURN_AGREED(
        forms, ShareForms(frame, shards, tolerances, result.conversions));
  }
  frame.stages.Enter("read");
  Status status = mine;
  std::vector<ConversionLosses> losses(forms.empty() ? 0 : shards.size());
  status.Update(ReadFlatFile(source.path, shards, forms,
                             &result.counters.staged_bytes,
                             frame.options.deadline_seconds, losses));
  BELAY_RETURN_IF_AGREED(Agree(frame.context, status));
  BELAY_RETURN_IF_AGREED(WarnOfLosses(frame, {shards, forms, losses}, result));
  return result;
}

// --- Read stage ---

// Collective; agreed.
Agreed<Nodes> FindNodes(CommContext& context) {
  BELAY_ASSIGN_OR_RETURN_AGREED(const int32_t node, NodeOfRank(context));
  BELAY_ASSIGN_OR_RETURN_AGREED(const std::vector<std::string> all,
                                AllGather(context, Encode(node)));
  std::vector<int32_t> numbers;
  for (const std::string& bytes : all) {
    numbers.push_back(WireReader(bytes).Get<int32_t>());
  }
  return GroupByNode(numbers);
}

// Finds what this rank sends to and receives from other nodes. Collective;
// agreed.
Agreed<RankTransits> FindTransits(CommContext& context, const RestorePlan& plan,
                                  const Nodes& nodes) {
  if (nodes.ranks.size() == 1) return RankTransits{};
  std::vector<std::string> parts;
  if (context.is_root()) {
    for (const RankTransits& transits : PlanTransits(plan, nodes)) {
      parts.push_back(Encode(transits));
    }
  }
  BELAY_ASSIGN_OR_RETURN_AGREED(const std::string part,
                                Scatter(context, parts));
  return Decode<RankTransits>(part).value_or(RankTransits{});
}

// Resources for delivery.
struct Sharing {
  Nodes nodes;
  int64_t portion_bytes = 0;
  SharedMemory memory;
};

// Collective; agreed.
Agreed<Sharing> PrepareSharing(RestoreFrame& frame) {
  BELAY_ASSIGN_OR_RETURN_AGREED(Nodes nodes, FindNodes(frame.context));
  const int64_t portion_bytes =
      PortionBytes(MostSlots(nodes), frame.options.max_bytes_in_flight);
  BELAY_ASSIGN_OR_RETURN_AGREED(
      SharedMemory memory,
      MakeDeliveryMemory(frame.context, nodes, portion_bytes));
  return Sharing{.nodes = std::move(nodes),
                 .portion_bytes = portion_bytes,
                 .memory = std::move(memory)};
}

// Reads and delivers data that several ranks want. Collective; agreed.
Agreed<> Deliver(CommContext& context, const PlannedReads& planned,
                 const Sharing& sharing, const Status& mine, const ReadJob& job,
                 ReadCounts& counts) {
  BELAY_ASSIGN_OR_RETURN_AGREED(
      const RankTransits transits,
      FindTransits(context, planned.plan, sharing.nodes));
  return DeliverAll(context, mine,
                    {.reading = job,
                     .transits = transits,
                     .nodes = sharing.nodes,
                     .memory = sharing.memory,
                     .portion_bytes = sharing.portion_bytes,
                     .stream_bytes = planned.stream_bytes},
                    counts);
}

struct ReadData {
  std::vector<ConversionLosses> losses;  // per shard; empty: no conversion
  std::vector<uint32_t> registers;
  std::vector<int64_t> covered;
  ReadCounts counts;
};

// Reads what only this rank wants and, with `sharing`, what several ranks want.
// Agrees on `mine`. Collective; agreed.
Agreed<ReadData> ReadWith(RestoreFrame& frame, const std::vector<Shard>& shards,
                          const PlannedReads& planned,
                          const std::optional<Sharing>& sharing, Status mine) {
  ReadData data;
  const Status has_room = CatchBadAlloc("texts and checksums", [&] {
    for (const TextLength& text : planned.reads.texts) {
      shards[text.shard].text->resize(text.bytes);
    }
    data.registers.assign(planned.checks ? planned.num_blocks : 0, 0);
    data.covered.assign(planned.checks ? planned.num_blocks : 0, 0);
    data.losses.resize(planned.forms.empty() ? 0 : shards.size());
    return absl::OkStatus();
  });
  mine.Update(has_room);
  const ReadJob job{.shards = shards,
                    .reads = planned.reads,
                    .directory = planned.result.path,
                    .file_names = planned.file_names,
                    .filtered = planned.filtered,
                    .registers = data.registers,
                    .covered = data.covered,
                    .forms = planned.forms,
                    .losses = data.losses,
                    .max_bytes_in_flight = frame.options.max_bytes_in_flight};
  if (has_room.ok()) mine.Update(ReadAll(job, data.counts));
  BELAY_RETURN_IF_AGREED(sharing ? Deliver(frame.context, planned, *sharing,
                                           mine, job, data.counts)
                                 : Agree(frame.context, mine));
  return data;
}

// Carries out the planned reads into the shards' memory, and agrees on `mine`.
// If memory cannot be shared, plans again and sets `no_shared_memory`.
// Collective; agreed.
Agreed<ReadData> ReadPlanned(RestoreFrame& frame, const OpenedStep& opened,
                             const std::vector<Shard>& shards,
                             const std::vector<Tolerance>& tolerances,
                             const Status& mine, PlannedReads& planned,
                             std::string& no_shared_memory) {
  frame.stages.Enter("read");
  std::optional<Sharing> sharing;
  if (planned.stream_bytes > 0) {
    Agreed<Sharing> prepared = PrepareSharing(frame);
    if (prepared.ok()) {
      sharing = *std::move(prepared);
    } else if (frame.options.read_sharing == ReadSharing::kAuto &&
               !frame.options.primary_replica) {
      no_shared_memory = std::string(prepared.status().message());
      BELAY_ASSIGN_OR_RETURN_AGREED(
          planned,
          PlanReads(frame, opened, shards, tolerances, no_shared_memory));
      frame.stages.Enter("read");
    } else {
      return prepared.error();
    }
  }
  return ReadWith(frame, shards, planned, sharing, mine);
}

}  // namespace

// --- Call of on_open ---

template <typename Archive>
void Fields(Archive& archive, StepArray& array) {
  archive(array.key, array.dtype, array.shape, array.fields);
}
template <typename Archive>
void Fields(Archive& archive, StoredStep& step) {
  archive(step.path, step.step, step.arrays);
}

namespace {

// Calls RestoreOptions::on_open. Collective; agreed.
// Errors: those of on_open; Internal - it threw; ResourceExhausted.
Agreed<> CallOnOpen(RestoreFrame& frame, const OpenedStep& opened) {
  frame.stages.Enter("tell");
  constexpr char kKeys[] = "the keys of all arrays";
  BELAY_ASSIGN_OR_RETURN_AGREED(
      const std::string bytes, FromRoot(frame.context, [&] {
        return CatchBadAlloc(kKeys, [&]() -> StatusOr<std::string> {
          StoredStep step{.path = opened.source.path,
                          .step = opened.source.step};
          for (const StoredArray& array : opened.saved.arrays) {
            step.arrays.push_back({.key = array.key,
                                   .dtype = array.dtype,
                                   .shape = array.shape,
                                   .fields = array.fields});
          }
          return Encode(step);
        });
      }));
  Status mine = CatchBadAlloc(kKeys, [&]() -> Status {
    const std::optional<StoredStep> stored = Decode<StoredStep>(bytes);
    if (!stored) return DifferentCalls();
    return CatchExceptions([&] { return frame.options.on_open(*stored); });
  });
  // A manager must not treat the files as damaged because on_open has failed.
  if (absl::IsDataLoss(mine) || absl::IsNotFound(mine) ||
      absl::IsUnimplemented(mine)) {
    mine = absl::FailedPreconditionError(mine.message());
  }
  return Agree(frame.context,
               AddPrefix(mine, InMessages(opened), kOnOpenWord.InProgram()));
}

// --- All stages ---

// Plans, reads and verifies the shards, and agrees on `mine`.
// `no_shared_memory` is that of ReadPlanned. Collective; agreed.
Agreed<RestoreResult> ReadShards(RestoreFrame& frame, const OpenedStep& opened,
                                 const std::vector<Shard>& shards,
                                 const std::vector<Tolerance>& tolerances,
                                 const Status& mine,
                                 std::string& no_shared_memory) {
  if (opened.source.kind == RestoreSource::Kind::kFlatFile) {
    return ReadFlat(frame, opened, shards, tolerances, mine);
  }
  BELAY_ASSIGN_OR_RETURN_AGREED(
      PlannedReads planned,
      PlanReads(frame, opened, shards, tolerances, no_shared_memory));
  BELAY_ASSIGN_OR_RETURN_AGREED(
      ReadData data, ReadPlanned(frame, opened, shards, tolerances, mine,
                                 planned, no_shared_memory));
  RestoreResult result = std::move(planned.result);
  if (planned.checks) {
    frame.stages.Enter("verify");
    BELAY_ASSIGN_OR_RETURN_AGREED(
        const BlockCounts blocks,
        CompareTogether(
            frame.context, Cat("restore \"", result.path, "\""),
            {opened.saved, planned.plan, data.registers, data.covered}));
    result.blocks_verified = blocks.verified;
    result.blocks_partial = blocks.partial;
  }
  result.counters.bytes = data.counts.bytes;
  result.counters.delivered_bytes = data.counts.delivered_bytes;
  result.counters.io_calls = data.counts.io_calls;
  result.counters.staged_bytes = data.counts.staged_bytes;
  result.counters.files = std::ssize(planned.file_names);
  BELAY_RETURN_IF_AGREED(
      WarnOfLosses(frame, {shards, planned.forms, data.losses}, result));
  return result;
}

// Adds the result of one round to the sum of earlier rounds.
void AddResult(RestoreResult round, RestoreResult& sum) {
  sum.path = std::move(round.path);
  sum.step = round.step;
  sum.num_arrays += round.num_arrays;
  sum.warnings.insert(sum.warnings.end(), round.warnings.begin(),
                      round.warnings.end());
  sum.blocks_verified += round.blocks_verified;
  sum.blocks_partial += round.blocks_partial;
  std::vector<Conversion>& all = sum.conversions;
  all.insert(all.end(), round.conversions.begin(), round.conversions.end());
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& a, const auto& b) { return a.key < b.key; });
  sum.counters.bytes += round.counters.bytes;
  sum.counters.io_calls += round.counters.io_calls;
  sum.counters.delivered_bytes += round.counters.delivered_bytes;
  sum.counters.files = round.counters.files;
  // Reports kOnce if any round has read once.
  const bool reads_once = sum.read_sharing == ReadSharing::kOnce;
  if (sum.sharing_note.empty() || (!reads_once && round.num_arrays > 0)) {
    sum.read_sharing = round.read_sharing;
    sum.sharing_note = std::move(round.sharing_note);
  }
  sum.counters.staged_bytes =
      std::max(sum.counters.staged_bytes, round.counters.staged_bytes);
}

// Runs all stages from list on. Collective; agreed.
Agreed<RestoreResult> RunStages(RestoreFrame& frame, const OpenedStep& opened,
                                StatusOr<ValuesToRead> values) {
  BELAY_ASSIGN_OR_RETURN_AGREED(ListedRestore listed,
                                ListTogether(frame, opened, std::move(values)));
  RestoreResult result = std::move(listed.report);
  result.conversions = listed.computed_conversions;
  std::string no_shared_memory;  // once set, for all later rounds
  for (bool more = true; more;) {
    std::vector<Shard> shards =
        ListShards(std::move(listed.listing.shards), frame.context.rank());
    const StatusOr<std::vector<SharedTarget>> shared = SetApart(shards);
    Status mine = listed.status;
    mine.Update(shared.status());
    Agreed<RestoreResult> round =
        ReadShards(frame, opened, shards, listed.listing.tolerances, mine,
                   no_shared_memory);
    Status together;
    if (round.ok()) {
      together = PutTogether(
          *shared, absl::StrFormat("restore \"%s\"", round->path), shards);
    }
    BELAY_RETURN_IF_AGREED(
        CheckUnchanged(frame, opened, round.status(), together));
    BELAY_RETURN_IF_AGREED(round);
    AddResult(*std::move(round), result);
    BELAY_ASSIGN_OR_RETURN_AGREED(
        more, ReceiveTogether(frame, result.path, shards, listed));
  }
  result.warnings.insert(result.warnings.end(),
                         listed.computed_warnings.begin(),
                         listed.computed_warnings.end());
  result.counters.peak_memory_bytes = PeakMemoryBytes();
  result.counters.stages = frame.stages.Finish();
  BELAY_RETURN_IF_AGREED(CombineCounters(frame.context, result.counters));
  return result;
}

// Checks a State. Layouts are checked first, because a layout for other ranks
// may be why memory does not fit.
Status CheckState(const RestoreFrame& frame, const State& state) {
  Status status = CheckLayouts(state.shards(), frame.context.size());
  status.Update(state.status());
  return status;
}

// Checks a State, unless on_open fills it: then it is checked after that call.
Status StatusBefore(const RestoreFrame& frame, const State& state) {
  return frame.options.on_open != nullptr ? absl::OkStatus()
                                          : CheckState(frame, state);
}

// Reads the values of `state` that the options select. Collective; agreed.
Agreed<RestoreResult> ReadState(RestoreFrame& frame, const OpenedStep& opened,
                                const State& state) {
  if (frame.options.on_open != nullptr) {
    BELAY_RETURN_IF_AGREED(CallOnOpen(frame, opened));
    BELAY_RETURN_IF_AGREED(Agree(frame.context, CheckState(frame, state)));
  }
  BELAY_ASSIGN_OR_RETURN_AGREED(const RestoreChooser chooser,
                                AgreeOnChooser(frame, ListKeys(state)));
  return ReadValues(
      frame, opened,
      ChooseValues(state, *frame.handlers,
                   [&](std::string_view key) { return chooser.Choose(key); }));
}

}  // namespace

Agreed<RestoreResult> ReadValues(RestoreFrame& frame, const OpenedStep& opened,
                                 StatusOr<ValuesToRead> values) {
  Agreed<RestoreResult> result = RunStages(frame, opened, std::move(values));
  if (absl::IsDataLoss(result.status())) {
    const Agreed<std::string> hint =
        FromRoot(frame.context, [&]() -> StatusOr<std::string> {
          return EarlierStepHint(opened.source.path);
        });
    if (hint.ok()) {
      result = SameOnAllRanks(InsertBeforeRank(result.status(), *hint)).error();
    }
  }
  LogResult(frame.context, result);
  return result;
}

Agreed<RestoreResult> RestoreState(const Comm& comm,
                                   const RestoreSource& source,
                                   const State& state,
                                   const RestoreOptions& options) {
  RestoreFrame frame(comm, source.path, options);
  BELAY_RETURN_IF_AGREED(
      BeginRestore(frame, source, StatusBefore(frame, state)));
  BELAY_ASSIGN_OR_RETURN_AGREED(const OpenedStep opened,
                                OpenStep(frame, source));
  return ReadState(frame, opened, state);
}

StatusOr<RestoreResult> Restore(const Comm& comm, const std::string& dir,
                                std::optional<int64_t> step, const State& state,
                                const RestoreOptions& options) {
  BELAY_RETURN_IF_AGREED(CheckComm(comm, "restore", dir));
  return RestoreState(comm, MakeSource(dir, step), state, options);
}

StatusOr<std::optional<RestoreResult>> RestoreLatest(
    const Comm& comm, const std::string& dir, const State& state,
    const RestoreOptions& options) {
  BELAY_RETURN_IF_AGREED(CheckComm(comm, "restore", dir));
  const RestoreSource source{.path = dir, .kind = RestoreSource::Kind::kRun};
  RestoreFrame frame(comm, dir, options);
  BELAY_RETURN_IF_AGREED(
      BeginRestore(frame, source, StatusBefore(frame, state)));
  BELAY_ASSIGN_OR_RETURN_AGREED(const std::optional<OpenedStep> opened,
                                OpenStepIfAny(frame, source));
  if (!opened) return std::nullopt;
  BELAY_ASSIGN_OR_RETURN_AGREED(RestoreResult result,
                                ReadState(frame, *opened, state));
  return result;
}

}  // namespace belay
