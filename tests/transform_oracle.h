// What the tests of transforms check against: random functions of arrays, each
// computed element by element. Shares no code with the library.

#ifndef BELAY_TESTS_TRANSFORM_ORACLE_H_
#define BELAY_TESTS_TRANSFORM_ORACLE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "belay/arrays/box.h"
#include "belay/extend/transform_function.h"
#include "belay/values/transform.h"
#include "core/strided_copy.h"
#include "state/transform.h"

namespace belay::transform_plan_test {

using Random = std::mt19937;

inline int64_t Uniform(int64_t low, int64_t high, Random& random) {
  return std::uniform_int_distribution<int64_t>(low, high)(random);
}

// A dense array of numbers, and the transform that makes it.
struct Oracle {
  Transform transform;
  Shape shape;
  std::vector<int32_t> values;

  int32_t At(const Shape& element) const {
    int64_t position = 0;
    for (size_t i = 0; i < shape.size(); ++i) {
      position = position * shape[i] + element[i];
    }
    return values[static_cast<size_t>(position)];
  }
};

// Fills an array from its elements.
inline Oracle Make(Transform transform, const Shape& shape,
                   const std::function<int32_t(const Shape&)>& at) {
  Oracle made{.transform = std::move(transform), .shape = shape};
  const int64_t size = NumElements(shape);
  Shape element(shape.size(), 0);
  for (int64_t i = 0; i < size; ++i) {
    int64_t rest = i;
    for (size_t axis = shape.size(); axis-- > 0;) {
      element[axis] = rest % shape[axis];
      rest /= shape[axis];
    }
    made.values.push_back(at(element));
  }
  return made;
}

// Sums over an axis, which shows what a function of a program is asked.
class SumOver : public TransformFunction {
 public:
  explicit SumOver(size_t axis) : axis_(axis) {}
  std::string description() const override {
    return "sum over " + std::to_string(axis_);
  }
  StatusOr<ArrayForm> Result(
      const std::vector<ArrayForm>& inputs) const override {
    ArrayForm form = inputs[0];
    form.shape.erase(form.shape.begin() + static_cast<std::ptrdiff_t>(axis_));
    return form;
  }
  StatusOr<std::vector<Box>> Needs(const std::vector<ArrayForm>& inputs,
                                   const Box& wanted) const override {
    Box box = wanted;
    const auto axis = static_cast<std::ptrdiff_t>(axis_);
    box.offset.insert(box.offset.begin() + axis, 0);
    box.shape.insert(box.shape.begin() + axis, inputs[0].shape[axis_]);
    return std::vector<Box>{box};
  }
  Status Compute(const std::vector<Tensor>& inputs, const std::vector<Box>&,
                 const Box& wanted, Tensor& result) const override {
    const Shape& shape = inputs[0].shape();
    const Oracle in{.shape = shape,
                    .values = {inputs[0].values<int32_t>().begin(),
                               inputs[0].values<int32_t>().end()}};
    const Oracle out = Sum(in, axis_);
    EXPECT_EQ(out.shape, wanted.shape);
    std::copy(out.values.begin(), out.values.end(),
              result.values<int32_t>().begin());
    return absl::OkStatus();
  }
  static Oracle Sum(const Oracle& x, size_t axis) {
    const auto at = static_cast<std::ptrdiff_t>(axis);
    Shape shape = x.shape;
    shape.erase(shape.begin() + at);
    return Make({}, shape, [&](const Shape& element) {
      int32_t sum = 0;
      Shape inner = element;
      inner.insert(inner.begin() + at, 0);
      for (; inner[axis] < x.shape[axis]; ++inner[axis]) sum += x.At(inner);
      return sum;
    });
  }

 private:
  size_t axis_;
};

// Stored arrays, and random functions of them.
class World {
 public:
  explicit World(uint32_t seed) : random_(seed) {}

  Oracle Stored(const Shape& shape) {
    const std::string key = "k" + std::to_string(stored_.size());
    stored_[key] =
        Make(Transform(key), shape, [&](const Shape&) { return ++last_; });
    forms_[key] = {DType::kI32, shape};
    return stored_[key];
  }

  // An array of this shape.
  Oracle Any(const Shape& shape, int depth) {
    if (depth == 0) return Stored(shape);
    const auto axis = static_cast<size_t>(
        shape.empty() ? 0 : Uniform(0, std::ssize(shape) - 1, random_));
    switch (Uniform(0, 6, random_)) {
      case 0:
        return shape.empty() ? Stored(shape) : Stack(shape, axis, depth);
      case 1:
        return shape.empty() ? Stored(shape) : Concat(shape, axis, depth);
      case 2:
        return shape.empty() ? Stored(shape) : Part(shape, axis, depth);
      case 3:
        return Transpose(shape, depth);
      case 4:
        return Slice(shape, depth);
      case 5:
        return Apply(shape, depth);
      default:
        return Any(shape, depth - 1);
    }
  }

  const ArrayForm* Find(const std::string& key) const {
    const auto found = forms_.find(key);
    return found == forms_.end() ? nullptr : &found->second;
  }

  // Does what a restore does for a read.
  void Read(const TransformRead& read) {
    const Oracle& array = stored_.at(read.key);
    EXPECT_EQ(read.stored.shape, array.shape);
    EXPECT_EQ(CheckBox(read.box, array.shape), absl::OkStatus());
    ForEachRun(read.box, WholeBox(array.shape), read.box,
               [&](const ElementRun& run) {
                 std::copy_n(array.values.begin() + run.a, run.length,
                             reinterpret_cast<int32_t*>(read.data) + run.b);
               });
  }

  Random& random() { return random_; }

 private:
  Oracle Stack(const Shape& shape, size_t axis, int depth) {
    Shape inner = shape;
    inner.erase(inner.begin() + static_cast<std::ptrdiff_t>(axis));
    std::vector<Oracle> parts;
    std::vector<Transform> transforms;
    for (int64_t i = 0; i < shape[axis]; ++i) {
      parts.push_back(Any(inner, depth - 1));
      transforms.push_back(parts.back().transform);
    }
    if (parts.empty()) return Stored(shape);
    return Make(Transform::Stack(transforms, SomeName(axis, shape.size())),
                shape, [&](const Shape& element) {
                  Shape rest = element;
                  rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(axis));
                  return parts[static_cast<size_t>(element[axis])].At(rest);
                });
  }

  Oracle Concat(const Shape& shape, size_t axis, int depth) {
    std::vector<Oracle> parts;
    std::vector<Transform> transforms;
    int64_t left = shape[axis];
    while (left > 0 || parts.empty()) {
      Shape inner = shape;
      inner[axis] = Uniform(0, left, random_);
      left -= inner[axis];
      parts.push_back(Any(inner, depth - 1));
      transforms.push_back(parts.back().transform);
    }
    return Make(Transform::Concat(transforms, SomeName(axis, shape.size())),
                shape, [&](const Shape& element) {
                  Shape rest = element;
                  size_t part = 0;
                  while (rest[axis] >= parts[part].shape[axis]) {
                    rest[axis] -= parts[part++].shape[axis];
                  }
                  return parts[part].At(rest);
                });
  }

  Oracle Part(const Shape& shape, size_t axis, int depth) {
    Shape inner = shape;
    const bool splits = Uniform(0, 1, random_) == 0;
    const int64_t number = Uniform(1, 3, random_);
    const int64_t part = Uniform(0, number - 1, random_);
    const int64_t offset = splits ? part * shape[axis] : number;
    inner[axis] = splits ? number * shape[axis] : shape[axis] + 2 * number;
    const Oracle x = Any(inner, depth - 1);
    const int name = SomeName(axis, shape.size());
    return Make(splits
                    ? Transform::Split(x.transform, name, number, part)
                    : Transform::Narrow(x.transform, name, offset, shape[axis]),
                shape, [&](const Shape& element) {
                  Shape there = element;
                  there[axis] += offset;
                  return x.At(there);
                });
  }

  Oracle Transpose(const Shape& shape, int depth) {
    std::vector<int> axes(shape.size());
    for (size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<int>(i);
    std::shuffle(axes.begin(), axes.end(), random_);
    Shape inner(shape.size(), 0);
    for (size_t i = 0; i < axes.size(); ++i) {
      inner[static_cast<size_t>(axes[i])] = shape[i];
    }
    const Oracle x = Any(inner, depth - 1);
    return Make(Transform::Transpose(x.transform, axes), shape,
                [&](const Shape& element) {
                  Shape there(element.size(), 0);
                  for (size_t i = 0; i < axes.size(); ++i) {
                    there[static_cast<size_t>(axes[i])] = element[i];
                  }
                  return x.At(there);
                });
  }

  // Steps of both signs, integers, new axes.
  Oracle Slice(const Shape& shape, int depth) {
    Shape inner;
    Index index;
    std::vector<std::function<int64_t(const Shape&)>> places;
    if (Uniform(0, 2, random_) == 0) {
      const int64_t at = Uniform(0, 2, random_);
      inner.push_back(3);
      index.push_back(at - 3);
      places.push_back([at](const Shape&) { return at; });
    }
    const bool keeps_last = !shape.empty() && Uniform(0, 1, random_) == 0;
    const size_t sliced = shape.size() - (keeps_last ? 1 : 0);
    for (size_t i = 0; i < sliced; ++i) {
      if (shape[i] == 1 && Uniform(0, 1, random_) == 0) {
        index.push_back(NewAxis());
        continue;
      }
      const int64_t step = Uniform(1, 3, random_);
      const int64_t start = Uniform(0, 2, random_);
      const int64_t last = start + (shape[i] - 1) * step;
      const bool turned = Uniform(0, 1, random_) == 0 && shape[i] > 0;
      inner.push_back(start + shape[i] * step + 1);
      if (turned) {
        const int64_t stop = start - step;
        index.push_back(belay::Slice{
            last, stop < 0 ? SliceNumber() : SliceNumber(stop), -step});
      } else {
        index.push_back(belay::Slice{start, start + shape[i] * step, step});
      }
      places.push_back([=](const Shape& element) {
        return turned ? last - element[i] * step : start + element[i] * step;
      });
    }
    if (Uniform(0, 1, random_) == 0) index.push_back(Ellipsis());
    if (keeps_last) {
      inner.push_back(shape.back());
      places.push_back([](const Shape& element) { return element.back(); });
    }
    const Oracle x = Any(inner, depth - 1);
    return Make(Transform::Slice(x.transform, index), shape,
                [&](const Shape& element) {
                  Shape there;
                  for (const auto& place : places) {
                    there.push_back(place(element));
                  }
                  return x.At(there);
                });
  }

  Oracle Apply(const Shape& shape, int depth) {
    const auto axis =
        static_cast<size_t>(Uniform(0, std::ssize(shape), random_));
    Shape inner = shape;
    inner.insert(inner.begin() + static_cast<std::ptrdiff_t>(axis), 2);
    const Oracle x = Any(inner, depth - 1);
    Oracle sum = SumOver::Sum(x, axis);
    sum.transform =
        Transform::Apply(std::make_shared<SumOver>(axis), {x.transform});
    return sum;
  }

  // From either end.
  int SomeName(size_t axis, size_t num_axes) {
    const int name = static_cast<int>(axis);
    return Uniform(0, 1, random_) == 0 ? name
                                       : name - static_cast<int>(num_axes);
  }

  Random random_;
  int32_t last_ = 0;
  std::map<std::string, Oracle> stored_;
  std::map<std::string, ArrayForm> forms_;
};

}  // namespace belay::transform_plan_test

#endif  // BELAY_TESTS_TRANSFORM_ORACLE_H_
