#include "model/stored_graph.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/str_format.h"

namespace belay {
namespace {

// Collects what is wrong; only the first damage is kept.
class Damage {
 public:
  // Requires as many rows as the first column of the table has.
  template <typename T>
  void CheckLength(std::string_view name, const std::vector<T>& column,
                   size_t rows) {
    if (!text_.empty() || column.size() == rows) return;
    text_ = absl::StrFormat(
        "column \"graph/%s\" has the wrong length (need %d rows, found %d)",
        name, rows, column.size());
  }

  // Requires numbers from `first` to before `end`.
  template <typename T>
  void CheckRange(std::string_view name, const std::vector<T>& column,
                  int64_t first, size_t end) {
    CheckRows(name, column, [&](size_t i) {
      const int64_t number = column[i];
      return number >= first && number < static_cast<int64_t>(end);
    });
  }

  void CheckAscending(std::string_view name,
                      const std::vector<int32_t>& column) {
    CheckRows(name, column,
              [&](size_t i) { return i == 0 || column[i - 1] <= column[i]; });
  }

  std::string Take() { return std::move(text_); }

 private:
  template <typename T, typename IsGood>
  void CheckRows(std::string_view name, const std::vector<T>& column,
                 const IsGood& is_good) {
    for (size_t i = 0; i < column.size() && text_.empty(); ++i) {
      if (is_good(i)) continue;
      text_ = absl::StrFormat("graph/%s of row %d is out of range", name, i);
    }
  }

  std::string text_;
};

void CheckNodes(const StoredGraph& graph, Damage& damage) {
  const size_t nodes = graph.node_parent.size();
  damage.CheckLength("nodes/optimizer", graph.node_optimizer, nodes);
  damage.CheckLength("nodes/name", graph.node_name, nodes);
  damage.CheckRange("nodes/parent", graph.node_parent, -1, nodes);
  damage.CheckRange("nodes/optimizer", graph.node_optimizer, -1, nodes);
}

void CheckChildren(const StoredGraph& graph, Damage& damage) {
  const size_t nodes = graph.node_parent.size();
  const size_t rows = graph.child_holder.size();
  damage.CheckLength("children/name", graph.child_name, rows);
  damage.CheckLength("children/node", graph.child_node, rows);
  damage.CheckRange("children/holder", graph.child_holder, 0, nodes);
  damage.CheckAscending("children/holder", graph.child_holder);
  damage.CheckRange("children/node", graph.child_node, 0, nodes);
}

void CheckAttributes(const StoredGraph& graph, size_t num_arrays,
                     Damage& damage) {
  const size_t nodes = graph.node_parent.size();
  const size_t rows = graph.attribute_node.size();
  damage.CheckLength("attributes/name", graph.attribute_name, rows);
  damage.CheckLength("attributes/array", graph.attribute_array, rows);
  damage.CheckLength("attributes/layout", graph.attribute_layout, rows);
  damage.CheckLength("attributes/opaque", graph.attribute_opaque, rows);
  damage.CheckRange("attributes/node", graph.attribute_node, 0, nodes);
  damage.CheckAscending("attributes/node", graph.attribute_node);
  damage.CheckRange("attributes/array", graph.attribute_array, 0, num_arrays);
  damage.CheckRange("attributes/opaque", graph.attribute_opaque, 0, 2);
}

void CheckSlots(const StoredGraph& graph, Damage& damage) {
  const size_t nodes = graph.node_parent.size();
  const size_t rows = graph.slot_optimizer.size();
  damage.CheckLength("slots/variable", graph.slot_variable, rows);
  damage.CheckLength("slots/name", graph.slot_name, rows);
  damage.CheckLength("slots/node", graph.slot_node, rows);
  damage.CheckRange("slots/optimizer", graph.slot_optimizer, 0, nodes);
  damage.CheckAscending("slots/optimizer", graph.slot_optimizer);
  damage.CheckRange("slots/variable", graph.slot_variable, 0, nodes);
  damage.CheckRange("slots/node", graph.slot_node, 0, nodes);
}

}  // namespace

std::string DamageOf(const StoredGraph& graph, size_t num_arrays) {
  Damage damage;
  CheckNodes(graph, damage);
  CheckChildren(graph, damage);
  CheckAttributes(graph, num_arrays, damage);
  CheckSlots(graph, damage);
  return damage.Take();
}

}  // namespace belay
