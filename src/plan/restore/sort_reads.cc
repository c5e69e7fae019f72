#include "plan/restore/sort_reads.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>

namespace belay {
namespace {

// Where an order reads. Orders are large, so these are sorted in their place.
struct ReadPlace {
  int32_t file = 0;
  int32_t filtered = 0;
  int64_t offset = 0;
  size_t index = 0;  // of the order
};

// Puts orders into the order of `places`.
std::vector<ReadOrder> Arranged(std::vector<ReadOrder>& orders,
                                const std::vector<ReadPlace>& places) {
  std::vector<ReadOrder> arranged;
  arranged.reserve(orders.size());
  for (const ReadPlace& place : places) {
    arranged.push_back(std::move(orders[place.index]));
  }
  return arranged;
}

}  // namespace

void SortReads(std::vector<ReadOrder>& orders) {
  std::vector<ReadPlace> places;
  places.reserve(orders.size());
  for (size_t i = 0; i < orders.size(); ++i) {
    places.push_back(
        {orders[i].file, orders[i].filtered, orders[i].extent.offset, i});
  }
  const auto is_before = [&](const ReadPlace& a, const ReadPlace& b) {
    const auto first = std::tie(a.file, a.filtered, a.offset);
    const auto second = std::tie(b.file, b.filtered, b.offset);
    if (first != second) return first < second;
    const Box& box = orders[a.index].box;
    const Box& other = orders[b.index].box;
    return std::tie(box.offset, a.index) < std::tie(other.offset, b.index);
  };
  if (std::is_sorted(places.begin(), places.end(), is_before)) return;
  std::sort(places.begin(), places.end(), is_before);
  orders = Arranged(orders, places);
}

}  // namespace belay
