#include "belay/arrays/mdspan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <complex>
#include <vector>

#include "state/stored_answer.h"
#include "state/value_listing.h"
#include "strided_view.h"

namespace belay::mdspan_test {
namespace {

using ::testing::HasSubstr;
using testing::StridedView;

// One that says no more than it has to.
struct PlainView {
  int extents() const { return 0; }
  int rank() const { return 2; }
  int64_t extent(size_t axis) const { return axis == 0 ? 2 : 3; }
  float* data_handle() const { return data; }
  float* data;
};

// One whose elements lie in tiles, all of them densely.
struct TiledView : PlainView {
  bool is_exhaustive() const { return true; }
  bool is_strided() const { return false; }
};

// One through something else than a pointer.
struct AtomicView : PlainView {
  struct Handle {};
  Handle data_handle() const { return {}; }
};

static_assert(MdspanLike<StridedView<double, 3>>);
static_assert(MdspanLike<StridedView<std::complex<float>, 0>>);
static_assert(MdspanLike<PlainView>);
static_assert(!MdspanLike<StridedView<const double, 2>>);
static_assert(!MdspanLike<StridedView<std::string, 2>>);
static_assert(!MdspanLike<AtomicView>);
static_assert(!MdspanLike<std::vector<double>>);

template <typename V>
StatusOr<HandlerListing> List(V& view) {
  State state;
  state.Add("v", view);
  return ListForSave(state, HandlerTable());
}

TEST(MdspanTest, AViewIsAnArrayOfItsAxes) {
  std::vector<double> data(24);
  StridedView<double, 3> view(data.data(), {2, 3, 4});
  const HandlerListing listing = List(view).value();
  ASSERT_EQ(listing.shards.size(), 1);
  EXPECT_EQ(listing.shards[0].key, "v");
  EXPECT_EQ(listing.shards[0].global_shape, Shape({2, 3, 4}));
  EXPECT_EQ(listing.shards[0].dtype, DType::kF64);
  EXPECT_EQ(listing.shards[0].data, data.data());
  EXPECT_TRUE(listing.values.empty());  // as any other array
  PlainView plain{.data = nullptr};
  std::vector<float> floats(6);
  plain.data = floats.data();
  EXPECT_EQ(List(plain)->shards[0].global_shape, Shape({2, 3}));
}

TEST(MdspanTest, SmallViews) {
  int16_t number = 3;
  StridedView<int16_t, 0> scalar(&number, {});
  EXPECT_EQ(List(scalar)->shards[0].global_shape, Shape());
  StridedView<int16_t, 2> empty(nullptr, {0, 5}, {7, 7});
  EXPECT_EQ(List(empty)->shards[0].global_shape, Shape({0, 5}));
  // Along an axis of one element no step is taken.
  StridedView<int16_t, 2> one(&number, {1, 1}, {100, 9});
  EXPECT_TRUE(List(one).ok());
}

TEST(MdspanTest, WhatDoesNotLieRowByRowIsRefused) {
  std::vector<double> data(100);
  const auto error = [](auto view) {
    const Status status = List(view).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  using View = StridedView<double, 2>;
  EXPECT_EQ(error(View(data.data(), {3, 4}, {1, 3})),
            "list \"v\" (handler \"belay::testing::"
            "StridedView<double, 2ul>\"): the elements of the view do not lie "
            "densely, row by row (found stride 3 along axis 1 of [3, 4] "
            "instead of 1): copy them to a view that has layout_right");
  EXPECT_THAT(error(View(data.data(), {3, 4}, {5, 1})),
              HasSubstr("found gaps between them"));
  EXPECT_THAT(error(View(data.data(), {3, 4}, {8, 2})), HasSubstr("gaps"));
  EXPECT_THAT(error(TiledView()), HasSubstr("found no strides"));
  EXPECT_THAT(error(View(nullptr, {3, 4})), HasSubstr("the pointer is null"));
}

TEST(MdspanTest, ARestoreWantsTheShapeOfTheView) {
  std::vector<float> data(6);
  StridedView<float, 2> view(data.data(), {2, 3});
  State state;
  state.Add("v", view);
  const StoredValue stored = PlainValue(
      "v", {.name = "", .dtype = DType::kF32, .shape = {9, 3}, .bytes = 108});
  const HandlerListing listing =
      ListForRestore(
          ChooseValues(state, HandlerTable(),
                       [](std::string_view) { return RestoreChoice(); })
              .value(),
          HandlerTable(), {stored})
          .value();
  EXPECT_EQ(listing.shards[0].global_shape, Shape({2, 3}));
  EXPECT_EQ(listing.shards[0].data, data.data());
}

}  // namespace
}  // namespace belay::mdspan_test
