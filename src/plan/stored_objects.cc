#include "plan/stored_objects.h"

#include <functional>
#include <iterator>
#include <numeric>

#include "plan/stored_values.h"

namespace belay {

std::string FindDamage(const StoredGraph& graph, size_t num_arrays) {
  ColumnDamage damage("graph");
  const size_t nodes = graph.node_parent.size();
  damage.CheckLength("nodes/optimizer", graph.node_optimizer, nodes);
  damage.CheckLength("nodes/name", graph.node_name, nodes);
  damage.CheckRange("nodes/parent", graph.node_parent, -1, nodes);
  damage.CheckRange("nodes/optimizer", graph.node_optimizer, -1, nodes);

  size_t rows = graph.child_holder.size();
  damage.CheckLength("children/name", graph.child_name, rows);
  damage.CheckLength("children/node", graph.child_node, rows);
  damage.CheckRange("children/holder", graph.child_holder, 0, nodes);
  damage.CheckAscending("children/holder", graph.child_holder);
  damage.CheckRange("children/node", graph.child_node, 0, nodes);

  rows = graph.attribute_node.size();
  damage.CheckLength("attributes/name", graph.attribute_name, rows);
  damage.CheckLength("attributes/array", graph.attribute_array, rows);
  damage.CheckLength("attributes/layout", graph.attribute_layout, rows);
  damage.CheckLength("attributes/opaque", graph.attribute_opaque, rows);
  damage.CheckRange("attributes/node", graph.attribute_node, 0, nodes);
  damage.CheckAscending("attributes/node", graph.attribute_node);
  damage.CheckRange("attributes/array", graph.attribute_array, 0, num_arrays);
  damage.CheckRange("attributes/opaque", graph.attribute_opaque, 0, 2);

  rows = graph.slot_optimizer.size();
  damage.CheckLength("slots/variable", graph.slot_variable, rows);
  damage.CheckLength("slots/name", graph.slot_name, rows);
  damage.CheckLength("slots/node", graph.slot_node, rows);
  damage.CheckRange("slots/optimizer", graph.slot_optimizer, 0, nodes);
  damage.CheckAscending("slots/optimizer", graph.slot_optimizer);
  damage.CheckRange("slots/variable", graph.slot_variable, 0, nodes);
  damage.CheckRange("slots/node", graph.slot_node, 0, nodes);
  return damage.Take();
}

// --- Stored rows ---

namespace {

// More ranks than any job has; a damaged number must not overflow.
constexpr int64_t kMaxRanks = INT32_MAX;

// Returns whether the rows of all ranks add up to `total`.
bool Fit(const RowRanks& ranks, int64_t total) {
  if (ranks.ranks < 1 || ranks.ranks > kMaxRanks) return false;
  if (ranks.count >= 0) {
    return ranks.count <= total / ranks.ranks &&
           ranks.count * ranks.ranks == total;
  }
  return ranks.first.front() == 0 && ranks.first.back() == total &&
         std::is_sorted(ranks.first.begin(), ranks.first.end());
}

}  // namespace

RowRanks MakeRowRanks(const std::vector<int64_t>& counts) {
  RowRanks ranks{.ranks = static_cast<int64_t>(counts.size())};
  const bool all_equal =
      std::adjacent_find(counts.begin(), counts.end(), std::not_equal_to<>()) ==
      counts.end();
  if (all_equal && !counts.empty()) {
    ranks.count = counts[0];
    return ranks;
  }
  ranks.first.assign(1, 0);
  std::partial_sum(counts.begin(), counts.end(),
                   std::back_inserter(ranks.first));
  return ranks;
}

RowColumns ToRowColumns(const std::vector<StoredRows>& rows) {
  RowColumns columns;
  for (const StoredRows& one : rows) {
    columns.array.push_back(one.array);
    columns.ranks.push_back(one.ranks.ranks);
    columns.count.push_back(one.ranks.count);
    columns.first.insert(columns.first.end(), one.ranks.first.begin(),
                         one.ranks.first.end());
  }
  return columns;
}

std::string FromRowColumns(const RowColumns& columns,
                           const std::vector<Shape>& shapes,
                           std::vector<StoredRows>& rows) {
  const size_t num_rows = columns.array.size();
  ColumnDamage damage("rows");
  damage.CheckLength("ranks", columns.ranks, num_rows);
  damage.CheckLength("count", columns.count, num_rows);
  damage.CheckRange("array", columns.array, 0, shapes.size());
  damage.CheckRows("array", columns.array, [&](size_t i) {
    return (i == 0 || columns.array[i - 1] < columns.array[i]) &&
           !shapes[columns.array[i]].empty();
  });
  damage.CheckRange("ranks", columns.ranks, 1, size_t{kMaxRanks} + 1);
  damage.CheckRows("count", columns.count,
                   [&](size_t i) { return columns.count[i] >= -1; });
  if (std::string text = damage.Take(); !text.empty()) return text;
  size_t next = 0;
  damage.CheckRows("first", columns.array, [&](size_t i) {
    StoredRows one{
        .array = columns.array[i],
        .ranks = {.ranks = columns.ranks[i], .count = columns.count[i]}};
    if (one.ranks.count < 0) {
      const auto size = static_cast<size_t>(one.ranks.ranks) + 1;
      if (size > columns.first.size() - next) return false;
      const auto begin =
          columns.first.begin() + static_cast<std::ptrdiff_t>(next);
      one.ranks.first.assign(begin, begin + static_cast<std::ptrdiff_t>(size));
      next += size;
    }
    if (!Fit(one.ranks, shapes[one.array][0])) return false;
    rows.push_back(std::move(one));
    return true;
  });
  damage.CheckLength("first", columns.first, next);
  return damage.Take();
}

}  // namespace belay
