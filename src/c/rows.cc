#include "c/rows.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "belay/arrays/box.h"
#include "belay/belay_c.h"
#include "belay/checkpoint_reader.h"
#include "belay/extend/row_shards.h"
#include "belay/extend/shard.h"
#include "belay/save_restore.h"
#include "belay/state.h"
#include "belay/status.h"
#include "c/add.h"
#include "c/error.h"
#include "c/handles.h"
#include "c/options.h"
#include "core/agreed.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "core/wire.h"
#include "mpi/collective.h"
#include "mpi/deadline.h"

namespace belay::c {
namespace {

// Returns the program's memory for `count` rows, or null.
void* MemoryFor(const belay_rows& given, int64_t count) {
  if (given.resize != nullptr) return given.resize(given.context, count);
  return given.data;
}

bool HasCount(const belay_rows& given) {
  return given.count != nullptr || given.count32 != nullptr;
}

int64_t CountOf(const belay_rows& given) {
  if (given.count != nullptr) return *given.count;
  return given.count32 != nullptr ? *given.count32 : given.capacity;
}

// Returns the address of the count, which is equal for rows that share a count.
// Null: no count.
const void* CountAddress(const belay_rows& given) {
  return given.count != nullptr ? static_cast<const void*>(given.count)
                                : given.count32;
}

// Sets the number of rows during a restore. If `count` rows do not fit, the
// number remains smaller than `count`, and the caller's error names it.
void SetCount(ProgramRows& rows, int64_t count) {
  const belay_rows& given = rows.given;
  if (given.count32 != nullptr && count > INT32_MAX) return;
  if (given.resize != nullptr) {
    void* const data = MemoryFor(given, count);
    if (data == nullptr && count > 0) throw std::bad_alloc();
    rows.data = data;
    rows.count = count;
    return;
  }
  rows.count = std::min(count, given.capacity);
  if (!HasCount(given)) rows.count = given.capacity;
}

constexpr ArrayAccess kProgramRows = {
    .view = [](void* object) -> ArrayAccess::View {
      auto& rows = *static_cast<ProgramRows*>(object);
      if (rows.may_move && rows.count > 0) {
        void* const data = MemoryFor(rows.given, rows.count);
        if (data != nullptr) rows.data = data;
      }
      return {rows.data, rows.dtype, Shape{rows.count * rows.width}};
    },
    .resize =
        [](void* object, size_t elements) {
          auto& rows = *static_cast<ProgramRows*>(object);
          SetCount(rows, static_cast<int64_t>(elements) / rows.width);
        }};

// Returns the form in which a row is stored.
StatusOr<rows::RowForm> FormOf(const std::string& key,
                               const belay_rows& given) {
  if (given.fields != nullptr) {
    rows::RowForm form{
        .structs = fields::LayoutOf(given.fields->fields, given.fields->bytes)};
    if (!form.structs->problem.empty()) {
      return Mistake(key, Cat("its structs: ", form.structs->problem));
    }
    form.shape = {form.structs->stored_bytes};
    return form;
  }
  BELAY_ASSIGN_OR_RETURN(const DType dtype, DTypeOf(key, given.dtype));
  BELAY_ASSIGN_OR_RETURN(const Shape shape,
                         NumbersOf(key, "shape", given.ndim, given.shape));
  const StatusOr<int64_t> width = CheckedNumElements(shape);
  if (!width.ok() || *width == 0) {
    return Mistake(key, Cat("rows have no numbers: ", ShapeText(shape)));
  }
  return rows::RowForm{.dtype = dtype, .shape = shape};
}

Status CheckIds(const std::string& key, const belay_rows& given, bool has_ids) {
  if (given.ids != nullptr && given.ids32 != nullptr) {
    return Mistake(key, "both ids and ids32 are given (need one of them)");
  }
  if (given.total < 0) {
    return Mistake(key,
                   absl::StrFormat("negative total (found %d)", given.total));
  }
  if (!has_ids && (given.ids != nullptr || given.ids32 != nullptr ||
                   given.first_id != 0 || given.total != 0)) {
    return Mistake(key,
                   "ids, ids32, first_id or total are given, and the rows have "
                   "no ids (call belay_state_add_rows_by_id)");
  }
  return absl::OkStatus();
}

Status CheckGiven(const std::string& key, const belay_rows& given) {
  if (given.count != nullptr && given.count32 != nullptr) {
    return Mistake(key, "both count and count32 are given (need one of them)");
  }
  if (HasNonzero(given.reserved)) {
    return Mistake(key, "the member reserved of belay_rows is not 0");
  }
  if (given.resize != nullptr) {
    if (HasCount(given)) return absl::OkStatus();
    return Mistake(key, "resize is given, and no count");
  }
  if (given.capacity < 0) {
    return Mistake(
        key, absl::StrFormat("negative capacity (found %d)", given.capacity));
  }
  if (given.capacity > 0 && given.data == nullptr) {
    return Mistake(key, "the member data is null");
  }
  return absl::OkStatus();
}

RankRows RowsWithIds(const ProgramRows* rows) {
  RankRows rank_rows;
  if (rows->given.total > 0) rank_rows.count = rows->given.total;
  rank_rows.num_ids = [rows] { return static_cast<size_t>(rows->count); };
  rank_rows.id = [rows](size_t i) {
    const belay_rows& given = rows->given;
    const int64_t id = given.ids != nullptr ? given.ids[i] : given.ids32[i];
    int64_t row = -1;  // used on overflow: no row has such an id
    return __builtin_sub_overflow(id, given.first_id, &row) ? -1 : row;
  };
  return rank_rows;
}

// Adds rows. If `has_ids`, restores distribute them by id.
int AddRows(belay_state* state, const char* key, const belay_rows* rows,
            bool has_ids) {
  return Add(state, key, [&](const std::string& name) -> Status {
    if (rows == nullptr) return NullArgument("rows");
    Status status = CheckGiven(name, *rows);
    status.Update(CheckIds(name, *rows, has_ids));
    if (!status.ok()) return status;
    BELAY_ASSIGN_OR_RETURN(const rows::RowForm form, FormOf(name, *rows));
    ProgramRows& added =
        state->rows.emplace_back(ProgramRows{.key = name,
                                             .given = *rows,
                                             .dtype = form.dtype,
                                             .width = NumElements(form.shape),
                                             .has_ids = has_ids});
    added.row_bytes = added.width * DTypeSize(form.dtype);
    if (rows->fields != nullptr) {
      added.row_bytes = std::max(added.row_bytes, rows->fields->bytes);
    }
    added.given.shape = nullptr;
    added.given.fields = nullptr;
    Shard shard = rows::ShardOf(form, nullptr, 0,
                                has_ids ? RowsWithIds(&added) : RankRows());
    shard.key = name;
    shard.object = &added;
    shard.access = &kProgramRows;
    AddShard(state->state, std::move(shard));
    return absl::OkStatus();
  });
}

Status TakeCount(ProgramRows& rows) {
  const belay_rows& given = rows.given;
  const int64_t count = CountOf(given);
  const bool is_bounded = given.resize == nullptr;
  const int64_t most = std::min(
      is_bounded ? given.capacity : std::numeric_limits<int64_t>::max(),
      std::numeric_limits<int64_t>::max() / rows.row_bytes);
  if (count < 0 || count > most) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "rows \"%s\": invalid number of rows (need 0 to %s, found %d)",
        rows.key, is_bounded ? absl::StrFormat("%d", most) : "any number",
        count));
  }
  if (rows.has_ids && count > 0 && given.ids == nullptr &&
      given.ids32 == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrFormat("rows \"%s\": there are no ids (need %d, found none)",
                        rows.key, count));
  }
  rows.count = count;
  return absl::OkStatus();
}

// Gets the memory for the current count of rows.
Status TakeMemory(ProgramRows& rows) {
  rows.data = MemoryFor(rows.given, rows.count);
  if (rows.data != nullptr || rows.count == 0) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrFormat(
      "rows \"%s\": resize returned null (need memory for %d rows)", rows.key,
      rows.count));
}

// Rows of several keys may share memory, which the resize function of each key
// may move. They can be found again only if resize does not move memory that
// already has room.
Status CheckStays(ProgramRows& rows) {
  if (!rows.may_move || rows.count == 0) return absl::OkStatus();
  BELAY_RETURN_IF_ERROR(TakeMemory(rows));
  const void* const data = rows.data;
  BELAY_RETURN_IF_ERROR(TakeMemory(rows));
  if (rows.data == data) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrFormat(
      "rows \"%s\": resize moves the rows each time it is called (need the "
      "same address for the same number of rows, %d, as there are other rows "
      "with a function resize)",
      rows.key, rows.count));
}

// Sets the count in the program. Rows that were not restored are resized to it.
Status GiveCount(int64_t count, bool is_restored, ProgramRows& rows) {
  if (!is_restored && rows.count != count) {
    if (rows.given.resize != nullptr) {
      rows.count = count;
      BELAY_RETURN_IF_ERROR(TakeMemory(rows));
    } else if (count > rows.given.capacity) {
      return absl::FailedPreconditionError(absl::StrFormat(
          "restore \"%s\": it is not stored, and shares its count with rows "
          "that are more than it has room for (need %d, found %d)",
          rows.key, count, rows.given.capacity));
    }
  }
  if (rows.given.count != nullptr) *rows.given.count = count;
  if (rows.given.count32 != nullptr) {
    *rows.given.count32 = static_cast<int32_t>(count);
  }
  return absl::OkStatus();
}

}  // namespace

Status TakeRows(std::deque<ProgramRows>& all) {
  const auto num_resized = std::ranges::count_if(
      all,
      [](const ProgramRows& rows) { return rows.given.resize != nullptr; });
  for (ProgramRows& rows : all) {
    rows.may_move = num_resized > 1 && rows.given.resize != nullptr;
    BELAY_RETURN_IF_ERROR(TakeCount(rows));
    BELAY_RETURN_IF_ERROR(TakeMemory(rows));
  }
  for (ProgramRows& rows : all) BELAY_RETURN_IF_ERROR(CheckStays(rows));
  return absl::OkStatus();
}

Status GiveCounts(const std::vector<std::string>& missing,
                  std::deque<ProgramRows>& all) {
  Status status;
  std::map<const void*, const ProgramRows*> first;  // the first restored rows
  std::map<const void*, int64_t> counts;
  const auto is_restored = [&](const ProgramRows& rows) {
    return !std::binary_search(missing.begin(), missing.end(), rows.key);
  };
  for (const ProgramRows& rows : all) {
    const void* const address = CountAddress(rows.given);
    if (address == nullptr || !is_restored(rows)) continue;
    int64_t& count = counts.emplace(address, rows.count).first->second;
    count = std::min(count, rows.count);
    const ProgramRows& other = *first.emplace(address, &rows).first->second;
    if (other.count == rows.count) continue;
    status.Update(absl::FailedPreconditionError(absl::StrFormat(
        "restore \"%s\": it shares its count with \"%s\", and this rank gets "
        "another number of rows of it (need %d, found %d)",
        rows.key, other.key, other.count, rows.count)));
  }
  for (ProgramRows& rows : all) {
    const auto found = counts.find(CountAddress(rows.given));
    if (found == counts.end()) continue;
    status.Update(GiveCount(found->second, is_restored(rows), rows));
  }
  return status;
}

void GiveCountsOfResized(const std::deque<ProgramRows>& all) {
  std::map<const void*, int64_t> counts;
  for (const ProgramRows& rows : all) {
    if (rows.given.resize == nullptr) continue;
    counts.emplace(CountAddress(rows.given), rows.count);
  }
  for (const ProgramRows& rows : all) {
    const auto found = counts.find(CountAddress(rows.given));
    if (found == counts.end()) continue;
    found->second = std::min(found->second, rows.count);
  }
  for (const ProgramRows& rows : all) {
    const auto found = counts.find(CountAddress(rows.given));
    if (found == counts.end()) continue;
    if (rows.given.count != nullptr) *rows.given.count = found->second;
    if (rows.given.count32 != nullptr) {
      *rows.given.count32 = static_cast<int32_t>(found->second);
    }
  }
}

}  // namespace belay::c

using belay::Status;
using belay::StatusOr;
using belay::c::Call;
using belay::c::NullArgument;

int belay_fields_create(int64_t bytes, belay_fields** result) {
  return Call({{"result", result}}, [&]() -> Status {
    *result = nullptr;
    *result = new belay_fields{.bytes = bytes};
    return absl::OkStatus();
  });
}

int belay_fields_add(belay_fields* fields, const char* name, int dtype,
                     int ndim, const int64_t* shape, int64_t offset) {
  return Call({{"fields", fields}, {"name", name}}, [&]() -> Status {
    BELAY_ASSIGN_OR_RETURN(const belay::DType type,
                           belay::c::DTypeOf(name, dtype));
    BELAY_ASSIGN_OR_RETURN(const belay::Shape lengths,
                           belay::c::NumbersOf(name, "shape", ndim, shape));
    BELAY_ASSIGN_OR_RETURN(const int64_t elements,
                           belay::CheckedNumElements(lengths));
    const int64_t bytes = elements * belay::DTypeSize(type);
    if (offset < 0 || bytes > fields->bytes - offset) {
      return belay::c::Mistake(
          name, absl::StrFormat("the field is not inside its struct (need %d "
                                "bytes from %d on, found %d in all)",
                                bytes, offset, fields->bytes));
    }
    fields->fields.push_back({name, type, lengths, offset});
    return absl::OkStatus();
  });
}

void belay_fields_free(belay_fields** fields) {
  if (fields != nullptr) delete std::exchange(*fields, nullptr);
}

int belay_state_add_rows(belay_state* state, const char* key,
                         const belay_rows* rows) {
  return belay::c::AddRows(state, key, rows, /*has_ids=*/false);
}

int belay_state_add_rows_by_id(belay_state* state, const char* key,
                               const belay_rows* rows) {
  return belay::c::AddRows(state, key, rows, /*has_ids=*/true);
}

// Counting the rows of a rank, for programs that allocate before a restore.

namespace {

using belay::CommContext;
using belay::RootMessages;
using belay::Status;
using belay::StatusOr;
using belay::c::NullArgument;

struct Wanted {
  std::string dir;
  std::string key;
  int64_t step = 0;
};

uint64_t FingerprintOf(const Wanted& wanted) {
  belay::WireWriter out;
  out.PutText(wanted.dir);
  out.PutText(wanted.key);
  out.Put(wanted.step);
  return belay::Fingerprint(out.bytes());
}

// Returns a message to each rank with its number of rows. Rank 0 only.
StatusOr<RootMessages> CountsOfRanks(const Wanted& wanted, int num_ranks) {
  const std::string path = wanted.step == BELAY_LATEST_STEP
                               ? wanted.dir
                               : belay::StepPath(wanted.dir, wanted.step);
  BELAY_ASSIGN_OR_RETURN(const belay::CheckpointReader reader,
                         belay::CheckpointReader::Open(path));
  BELAY_ASSIGN_OR_RETURN(const std::vector<int64_t> counts,
                         reader.RowCounts(wanted.key, num_ranks));
  RootMessages messages;
  for (const int64_t count : counts) {
    belay::WireWriter out;
    out.Put(count);
    messages.parts.push_back(out.Take());
  }
  return messages;
}

// Collective.
StatusOr<int64_t> CountTogether(const belay_comm& handle, const Wanted& wanted,
                                const Status& mine) {
  const belay::Comm& comm = handle.comm;
  CommContext context{
      comm,
      belay::Deadline(comm, handle.deadline_seconds,
                      belay::c::OperationOn("count rows", wanted.dir.c_str()),
                      /*watchdog=*/false)};
  context.deadline.Enter("count rows");
  BELAY_RETURN_IF_AGREED(belay::AgreeSame(context, "directory, step or key",
                                          FingerprintOf(wanted), mine));
  BELAY_ASSIGN_OR_RETURN_AGREED(const belay::RootMessage message,
                                belay::FromRootInParts(context, [&] {
                                  return CountsOfRanks(wanted, comm.size());
                                }));
  return belay::WireReader(message.part).Get<int64_t>();
}

}  // namespace

int belay_count_rows(belay_comm* comm, const char* dir, int64_t step,
                     const char* key, int64_t* count) {
  return belay::c::Call({{"comm", comm}}, [&]() -> Status {
    Wanted wanted{.step = step};
    Status mine = belay::c::TakeText("dir", dir, wanted.dir);
    mine.Update(belay::c::TakeText("key", key, wanted.key));
    if (step < 0 && step != BELAY_LATEST_STEP) {
      mine.Update(absl::InvalidArgumentError(
          belay::Cat("count rows \"", wanted.dir, "\": a negative step (found ",
                     step, ")")));
    }
    BELAY_ASSIGN_OR_RETURN(const int64_t found,
                           CountTogether(*comm, wanted, mine));
    belay::c::Give(count, found);
    return absl::OkStatus();
  });
}
