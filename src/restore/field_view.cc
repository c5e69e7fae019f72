#include "restore/field_view.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/catch_bad_alloc.h"
#include "base/status_macros.h"
#include "bytes/struct_text.h"
#include "geometry/runs.h"

namespace belay {
namespace {

// Lets a shard have nothing but the field in its memory.
std::shared_ptr<const StructLayout> LayoutOfField(const StructField& field,
                                                  int64_t stored_bytes) {
  const int64_t bytes = FieldBytes(field);
  return std::make_shared<const StructLayout>(
      StructLayout{.bytes = bytes,
                   .stored_bytes = stored_bytes,
                   .parts = {{.stored = field.offset, .bytes = bytes}}});
}

// The same box of the axes behind the first one.
Box Inner(const Box& box) {
  return {Shape(box.offset.begin() + 1, box.offset.end()),
          Shape(box.shape.begin() + 1, box.shape.end())};
}

// Copies the part `box` of fields that are whole at `from`.
void CopyParts(const StructField& field, const Box& box, int64_t rows,
               const char* from, char* to) {
  const int64_t size = DTypeSize(field.dtype);
  for (int64_t i = 0; i < rows; ++i) {
    ForEachRun(box, WholeBox(field.shape), box, [&](const Run& run) {
      std::memcpy(to + run.b * size, from + run.a * size,
                  static_cast<size_t>(run.length * size));
    });
    from += FieldBytes(field);
    to += NumElements(box.shape) * size;
  }
}

}  // namespace

std::optional<ArrayView> FindField(const SavedCheckpoint& saved,
                                   std::string_view key) {
  for (size_t dot = key.find('.'); dot != key.npos;
       dot = key.find('.', dot + 1)) {
    const StoredArray* const array =
        FindArray(saved, std::string(key.substr(0, dot)));
    if (array == nullptr || array->fields.empty()) continue;
    const auto fields = ParseFields(array->fields);
    if (!fields.ok()) continue;
    for (const StructField& field : *fields) {
      if (field.name != key.substr(dot + 1)) continue;
      ArrayView view{.number = static_cast<size_t>(array - saved.arrays.data()),
                     .dtype = field.dtype,
                     .shape = {array->shape[0]},
                     .field = field};
      view.shape.insert(view.shape.end(), field.shape.begin(),
                        field.shape.end());
      return view;
    }
  }
  return std::nullopt;
}

Box ArrayBox(const ArrayView& view, const StoredArray& array, const Box& box) {
  if (!view.field) return box;
  return {{box.offset[0], 0}, {box.shape[0], array.shape[1]}};
}

Status ReadView(const ArrayView& view, const StoredArray& array, const Box& box,
                ArrayReading& reading, void* data) {
  Shard shard{.key = array.key,
              .dtype = array.dtype,
              .global_shape = array.shape,
              .box = ArrayBox(view, array, box),
              .data = data};
  if (!view.field) return reading.Read(shard);
  shard.structs = LayoutOfField(*view.field, array.shape[1]);
  const Box inner = Inner(box);
  if (inner == WholeBox(view.field->shape)) return reading.Read(shard);
  std::vector<char> whole;
  BELAY_RETURN_IF_ERROR(CatchBadAlloc("whole fields", [&] {
    whole.resize(static_cast<size_t>(box.shape[0] * FieldBytes(*view.field)));
    return absl::OkStatus();
  }));
  shard.data = whole.data();
  BELAY_RETURN_IF_ERROR(reading.Read(shard));
  CopyParts(*view.field, inner, box.shape[0], whole.data(),
            static_cast<char*>(data));
  return absl::OkStatus();
}

}  // namespace belay
