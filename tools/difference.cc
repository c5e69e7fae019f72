#include "difference.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "commands.h"
#include "elements.h"

namespace belay::tools {
namespace {

constexpr double kFar = std::numeric_limits<double>::infinity();

// Returns the distance of two numbers.
template <typename T>
double Distance(T a, T b) {
  if constexpr (kIsComplex<T>) {
    // By parts: a NaN or an infinity in one part says nothing about the other.
    return std::hypot(Distance(a.real(), b.real()),
                      Distance(a.imag(), b.imag()));
  } else if constexpr (std::is_floating_point_v<T>) {
    if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
    if (!std::isfinite(a) || !std::isfinite(b)) return kFar;
    return std::abs(static_cast<double>(a) - static_cast<double>(b));
  } else {
    // The distance of two 64-bit integers may exceed their type, but fits into
    // the unsigned type.
    const auto high = static_cast<uint64_t>(a < b ? b : a);
    const auto low = static_cast<uint64_t>(a < b ? a : b);
    return static_cast<double>(high - low);
  }
}

// Returns the position of element `i` of a box in the array.
Shape PositionIn(const Box& box, int64_t i) {
  Shape position = box.offset;
  for (size_t axis = box.shape.size(); axis-- > 0;) {
    position[axis] += i % box.shape[axis];
    i /= box.shape[axis];
  }
  return position;
}

// Compares pieces of one dtype, one after another.
template <typename T>
class Comparer {
 public:
  explicit Comparer(std::optional<double> tolerance) : tolerance_(tolerance) {}

  void Compare(const Box& box, const Tensor& a, const Tensor& b) {
    if (std::memcmp(a.data(), b.data(), a.num_bytes()) == 0) return;
    const std::span<const T> in_a = a.values<T>(), in_b = b.values<T>();
    for (size_t i = 0; i < in_a.size(); ++i) {
      if (std::memcmp(&in_a[i], &in_b[i], sizeof(T)) == 0) continue;
      const double distance =
          tolerance_ ? Distance(Number(in_a[i]), Number(in_b[i])) : 0;
      if (tolerance_ && distance <= *tolerance_) continue;
      if (found_.elements++ > 0 && distance <= found_.largest) continue;
      const auto element = static_cast<int64_t>(i);
      found_.position = PositionIn(box, element);
      found_.a = Tensor::Of<T>({}, {in_a[i]});
      found_.b = Tensor::Of<T>({}, {in_b[i]});
      found_.largest = distance;
    }
  }

  Difference& found() { return found_; }

 private:
  std::optional<double> tolerance_;
  Difference found_;
};

}  // namespace

StatusOr<Difference> CompareArrays(
    const CheckpointReader& a, const CheckpointReader& b,
    const ArrayInfo& array, std::optional<double> tolerance,
    const std::function<void(int64_t)>& progress) {
  const Box whole = WholeBox(array.shape);
  return VisitType(array.dtype, [&]<typename T>(T) -> StatusOr<Difference> {
    Comparer<T> comparer(tolerance);
    const Status status = a.ReadPieces(
        array.key, whole, kPieceBytes,
        [&](const Box& box, const Tensor& in_a) -> Status {
          const StatusOr<Tensor> in_b = b.ReadTensor(array.key, box);
          if (!in_b.ok()) return in_b.status();
          comparer.Compare(box, in_a, *in_b);
          progress(in_a.num_bytes());
          return absl::OkStatus();
        });
    if (!status.ok()) return status;
    if (comparer.found().elements == 0) return Difference();
    // Values may differ because of damage. Pieces end inside blocks, so not all
    // blocks of `b` were verified above.
    const Status intact = b.ReadPieces(
        array.key, whole, kPieceBytes,
        [](const Box&, const Tensor&) { return absl::OkStatus(); });
    if (!intact.ok()) return intact;
    return std::move(comparer.found());
  });
}

}  // namespace belay::tools
