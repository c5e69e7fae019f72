#include "hdf5_format/element_type.h"

#include <utility>

#include "base/text.h"
#include "bytes/struct_text.h"

namespace belay::h5 {

int64_t ElementBytes(const ElementType& type) {
  if (!type.fields.empty()) return BytesOfFields(type.fields);
  return type.dtype == DType::kString ? type.string_bytes
                                      : DTypeSize(type.dtype);
}

Shape DatasetAxes(const ElementType& type, Shape lengths) {
  if (!type.fields.empty() && !lengths.empty()) lengths.pop_back();
  return lengths;
}

StatusOr<Box> DatasetBox(const ElementType& type, Box box) {
  if (type.fields.empty()) return box;
  // Not none of a scalar, which would be all of it.
  if (IsEmpty(box) && box.shape.size() < 2) return Box{{0}, {0}};
  if (IsEmpty(box)) {
    return Box{DatasetAxes(type, std::move(box.offset)),
               DatasetAxes(type, std::move(box.shape))};
  }
  if (box.shape.empty() || box.offset.back() != 0 ||
      box.shape.back() != ElementBytes(type)) {
    return absl::InternalError(Cat("box \"", BoxText(box),
                                   "\" has parts of structs of ",
                                   ElementBytes(type), " bytes"));
  }
  box.offset.pop_back();
  box.shape.pop_back();
  return box;
}

bool NeedsDTypeAttribute(DType dtype) {
  return dtype == DType::kF8E4M3 || dtype == DType::kF8E5M2;
}

}  // namespace belay::h5
