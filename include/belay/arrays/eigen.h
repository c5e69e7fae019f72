// Dense Eigen matrices and arrays as values.
//
//   Eigen::MatrixXd weights;
//   state.Add("weights", weights);
//
// Element (i, j) is element [i, j] of the stored array, in any storage order;
// column-major matrices are copied. A type with one row or one column at
// compile time has one axis. A restore resizes a matrix of dynamic size to the
// stored lengths. Include this header where such values are added; belay itself
// does not need Eigen.

#ifndef BELAY_ARRAYS_EIGEN_H_
#define BELAY_ARRAYS_EIGEN_H_

#include <Eigen/Core>
#include <concepts>
#include <cstdint>
#include <memory>
#include <string>

#include "belay/arrays/box.h"
#include "belay/arrays/dtype.h"
#include "belay/extend/state.h"
#include "belay/extend/type_handler.h"
#include "belay/state.h"
#include "belay/status.h"

namespace belay {

// Eigen::Matrix or Eigen::Array.
template <typename M>
concept EigenMatrix = requires {
  typename M::PlainObject;
  requires std::same_as<typename M::PlainObject, M>;
  requires std::derived_from<M, Eigen::PlainObjectBase<M>>;
  requires Element<typename M::Scalar>;
};

// Stores a matrix as an array with the same axes. Local.
template <EigenMatrix M>
class EigenHandler final : public Handler<M> {
 public:
  // Empty: the value is stored as a plain array. Local.
  std::string typestr() const override { return ""; }
  bool HasFinalize() const override { return false; }

  Status ListForSave(M& matrix, State& parts) const override {
    if constexpr (kIsDense) {
      parts.AddReplicated("", ShapeOf(matrix), AtAddress(matrix.data()));
    } else {
      ByRows& rows = Own(parts, std::make_shared<ByRows>(matrix));
      parts.AddReplicated("", ShapeOf(matrix), AtAddress(rows.data()));
    }
    return absl::OkStatus();
  }

  Status ListForRestore(M& matrix, const StoredValue& stored,
                        State& parts) const override {
    const ValuePart* part = stored.Find("");
    Status status = Resize(matrix, part == nullptr ? Shape() : part->shape);
    if (!status.ok()) return status;
    if constexpr (kIsDense) {
      parts.AddReplicated("", ShapeOf(matrix), AtAddress(matrix.data()));
    } else {
      ByRows& rows =
          Own(parts, std::make_shared<ByRows>(matrix.rows(), matrix.cols()));
      parts.AddReplicated("", ShapeOf(matrix), AtAddress(rows.data()));
    }
    return absl::OkStatus();
  }

  Status Received(M& matrix, const StoredValue&, int,
                  State& more) const override {
    if constexpr (!kIsDense) matrix = Owned<ByRows>(more, 0);
    return absl::OkStatus();
  }

 private:
  // A vector is dense in either order.
  static constexpr bool kIsDense = M::IsRowMajor || M::IsVectorAtCompileTime;
  using ByRows = Eigen::Array<typename M::Scalar, Eigen::Dynamic,
                              Eigen::Dynamic, Eigen::RowMajor>;

  static Shape ShapeOf(const M& matrix) {
    if constexpr (M::IsVectorAtCompileTime) return Shape{matrix.size()};
    return Shape{matrix.rows(), matrix.cols()};
  }

  static Status Resize(M& matrix, const Shape& shape) {
    constexpr bool kIsVector = M::IsVectorAtCompileTime;
    const bool has_axes = shape.size() == (kIsVector ? 1 : 2);
    const int64_t rows =
        !has_axes || (kIsVector && M::RowsAtCompileTime == 1) ? 1 : shape[0];
    const int64_t columns = !has_axes                   ? 1
                            : !kIsVector                ? shape[1]
                            : M::ColsAtCompileTime == 1 ? 1
                                                        : shape[0];
    const auto fits = [](int fixed, int64_t length) {
      return fixed == Eigen::Dynamic || fixed == length;
    };
    if (!has_axes || !fits(M::RowsAtCompileTime, rows) ||
        !fits(M::ColsAtCompileTime, columns)) {
      return absl::FailedPreconditionError(
          "an array of another shape is stored than the matrix can have "
          "(found " +
          ShapeText(shape) + ")");
    }
    matrix.resize(rows, columns);
    return absl::OkStatus();
  }
};

// Local.
template <EigenMatrix M>
struct StandardHandler<M> {
  static TypeHandlerPtr Get() {
    static const TypeHandlerPtr handler =
        std::make_shared<const EigenHandler<M>>();
    return handler;
  }
};

}  // namespace belay

#endif  // BELAY_ARRAYS_EIGEN_H_
