// Checking columns that came from a file.

#ifndef BELAY_PLAN_STORED_COLUMN_DAMAGE_H_
#define BELAY_PLAN_STORED_COLUMN_DAMAGE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/text.h"

namespace belay {

// Collects what is wrong; only the first damage is kept.
class ColumnDamage {
 public:
  // `table` is what the names of the columns begin with.
  explicit ColumnDamage(std::string_view table) : table_(table) {}

  // Requires as many rows as the first column of the table has.
  template <typename T>
  void CheckLength(std::string_view name, const std::vector<T>& column,
                   size_t rows) {
    if (!text_.empty() || column.size() == rows) return;
    text_ = absl::StrFormat(
        "column \"%s/%s\" has the wrong length (need %d rows, found %d)",
        AbslView(table_), AbslView(name), rows, column.size());
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

  // Requires of each row what `is_good` says of its number.
  template <typename T, typename IsGood>
  void CheckRows(std::string_view name, const std::vector<T>& column,
                 const IsGood& is_good) {
    for (size_t i = 0; i < column.size() && text_.empty(); ++i) {
      if (is_good(i)) continue;
      text_ = absl::StrFormat("%s/%s of row %d is out of range",
                              AbslView(table_), AbslView(name), i);
    }
  }

  std::string Take() { return std::move(text_); }

 private:
  std::string_view table_;
  std::string text_;
};

}  // namespace belay

#endif  // BELAY_PLAN_STORED_COLUMN_DAMAGE_H_
