#include "c/rows.h"

#include <algorithm>
#include <new>
#include <stdexcept>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/text.h"
#include "belay/arrays/box.h"
#include "belay/arrays/shard.h"
#include "belay/rows.h"
#include "belay/state.h"
#include "c/add.h"
#include "c/error.h"
#include "c/handles.h"

namespace belay::c {
namespace {

// The memory of so many rows, or null.
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

// Sets the number of rows in a restore. Where they do not fit, as many are
// taken as there is room for, so that the error names that number.
void SetCount(ProgramRows& rows, int64_t count) {
  const belay_rows& given = rows.given;
  if (given.count32 != nullptr && count > INT32_MAX) {
    throw std::out_of_range("the count has 32 bits, which is too few");
  }
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
      const auto& rows = *static_cast<ProgramRows*>(object);
      return {rows.data, rows.dtype, Shape{rows.count * rows.width}};
    },
    .resize =
        [](void* object, size_t elements) {
          auto& rows = *static_cast<ProgramRows*>(object);
          SetCount(rows, static_cast<int64_t>(elements) / rows.width);
        }};

// How a row is stored.
StatusOr<rows::RowForm> FormOf(const std::string& key,
                               const belay_rows& given) {
  if (given.fields != nullptr) {
    rows::RowForm form{
        .structs = fields::LayoutOf(given.fields->fields, given.fields->bytes)};
    form.shape = {form.structs->stored_bytes};
    return form;
  }
  const StatusOr<DType> dtype = DTypeOf(key, given.dtype);
  if (!dtype.ok()) return dtype.status();
  const StatusOr<Shape> shape =
      NumbersOf(key, "shape", given.ndim, given.shape);
  if (!shape.ok()) return shape.status();
  const StatusOr<int64_t> width = CheckedNumElements(*shape);
  if (!width.ok() || *width == 0) {
    return Mistake(key, Cat("rows have no numbers: ", ShapeText(*shape)));
  }
  return rows::RowForm{.dtype = *dtype, .shape = *shape};
}

Status CheckGiven(const std::string& key, const belay_rows& given) {
  if (given.count != nullptr && given.count32 != nullptr) {
    return Mistake(key, "both count and count32 are given (need one of them)");
  }
  if (given.ids != nullptr && given.ids32 != nullptr) {
    return Mistake(key, "both ids and ids32 are given (need one of them)");
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
    if (given.ids == nullptr && given.ids32 == nullptr) {
      throw std::invalid_argument("there are rows, and no ids");
    }
    const int64_t id = given.ids != nullptr ? given.ids[i] : given.ids32[i];
    return id - given.first_id;
  };
  return rank_rows;
}

// Adds rows that restores distribute as `rank_rows` says.
template <typename Function>
int AddRows(belay_state* state, const char* key, const belay_rows* rows,
            Function rank_rows) {
  return Add(state, key, [&](const std::string& name) -> Status {
    if (rows == nullptr) return NullArgument("rows");
    Status status = CheckGiven(name, *rows);
    if (!status.ok()) return status;
    const StatusOr<rows::RowForm> form = FormOf(name, *rows);
    if (!form.ok()) return form.status();
    ProgramRows& added = state->rows.emplace_back(
        ProgramRows{.key = name,
                    .given = *rows,
                    .dtype = form->dtype,
                    .width = NumElements(form->shape)});
    added.given.shape = nullptr;
    added.given.fields = nullptr;
    Shard shard = rows::ShardOf(*form, nullptr, 0, rank_rows(&added));
    shard.key = name;
    shard.object = &added;
    shard.access = &kProgramRows;
    state->state.AddShard(std::move(shard));
    return absl::OkStatus();
  });
}

}  // namespace

Status TakeRows(ProgramRows& rows) {
  const int64_t count = CountOf(rows.given);
  const bool is_bounded = rows.given.resize == nullptr;
  if (count < 0 || (is_bounded && count > rows.given.capacity)) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "rows \"%s\": no number of rows (need 0 to %s, found %d)", rows.key,
        is_bounded ? absl::StrFormat("%d", rows.given.capacity) : "any number",
        count));
  }
  void* const data = MemoryFor(rows.given, count);
  if (data == nullptr && count > 0) {
    return absl::ResourceExhaustedError(absl::StrFormat(
        "rows \"%s\": resize returned null (need memory for %d rows)", rows.key,
        count));
  }
  rows.data = data;
  rows.count = count;
  return absl::OkStatus();
}

void GiveCount(const ProgramRows& rows) {
  if (rows.given.count != nullptr) *rows.given.count = rows.count;
  if (rows.given.count32 != nullptr) {
    *rows.given.count32 = static_cast<int32_t>(rows.count);
  }
}

}  // namespace belay::c

using belay::Status;
using belay::StatusOr;
using belay::c::Call;
using belay::c::NullArgument;

int belay_fields_create(int64_t bytes, belay_fields** result) {
  return Call([&]() -> Status {
    if (result == nullptr) return NullArgument("result");
    *result = nullptr;
    *result = new belay_fields{.bytes = bytes};
    return absl::OkStatus();
  });
}

int belay_fields_add(belay_fields* fields, const char* name, int dtype,
                     int ndim, const int64_t* shape, int64_t offset) {
  return Call([&]() -> Status {
    if (fields == nullptr) return NullArgument("fields");
    if (name == nullptr) return NullArgument("name");
    const StatusOr<belay::DType> type = belay::c::DTypeOf(name, dtype);
    if (!type.ok()) return type.status();
    const StatusOr<belay::Shape> lengths =
        belay::c::NumbersOf(name, "shape", ndim, shape);
    if (!lengths.ok()) return lengths.status();
    const StatusOr<int64_t> elements = belay::CheckedNumElements(*lengths);
    if (!elements.ok()) return elements.status();
    const int64_t bytes = *elements * belay::DTypeSize(*type);
    if (offset < 0 || bytes > fields->bytes - offset) {
      return belay::c::Mistake(
          name, absl::StrFormat("the field is not inside its struct (need %d "
                                "bytes from %d on, found %d in all)",
                                bytes, offset, fields->bytes));
    }
    fields->fields.push_back({name, *type, *lengths, offset});
    return absl::OkStatus();
  });
}

void belay_fields_free(belay_fields** fields) {
  if (fields != nullptr) delete std::exchange(*fields, nullptr);
}

int belay_state_add_rows(belay_state* state, const char* key,
                         const belay_rows* rows) {
  return belay::c::AddRows(state, key, rows, [](const belay::c::ProgramRows*) {
    return belay::RankRows();
  });
}

int belay_state_add_rows_by_id(belay_state* state, const char* key,
                               const belay_rows* rows) {
  return belay::c::AddRows(state, key, rows, belay::c::RowsWithIds);
}
