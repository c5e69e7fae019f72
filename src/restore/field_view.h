// A field of an array of structs, seen as an array of its own: "particles.x".

#ifndef BELAY_RESTORE_FIELD_VIEW_H_
#define BELAY_RESTORE_FIELD_VIEW_H_

#include <cstddef>
#include <optional>
#include <string_view>

#include "belay/arrays/box.h"
#include "belay/arrays/fields.h"
#include "belay/arrays/shard.h"
#include "belay/status.h"
#include "plan/plan.h"
#include "restore/array_reading.h"

namespace belay {

// An array of a checkpoint, or a field of one.
struct ArrayView {
  size_t number = 0;  // of the array
  DType dtype = DType::kU8;
  Shape shape = {};
  std::optional<StructField> field = {};  // as it is stored
};

// The field that such a key names, if it does. `saved` has no such array.
// Local.
std::optional<ArrayView> FindField(const SavedCheckpoint& saved,
                                   std::string_view key);

// The box of the array that is read for one of the view. Local.
Box ArrayBox(const ArrayView& view, const StoredArray& array, const Box& box);

// Reads a box of the view to `data`, dense and row-major. Local.
// Errors: those of ArrayReading::Read; ResourceExhausted.
Status ReadView(const ArrayView& view, const StoredArray& array, const Box& box,
                ArrayReading& reading, void* data);

}  // namespace belay

#endif  // BELAY_RESTORE_FIELD_VIEW_H_
