// Which structs can be rows, and that ids have to last. Case 0 has to compile;
// each other one has to be refused with the text behind it.
#include "belay/rows.h"

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "belay/objects/trackable.h"
#include "belay/state.h"

namespace {

struct Inner {
  float a;
};
struct Unlisted {
  float a;
};
struct Base {
  int64_t id;
};

struct Good : Base {
  enum Kind : uint8_t { kA, kB };
  double x[3];
  std::array<std::array<int16_t, 2>, 3> table;
  Kind kind;
  Inner inner;
  float* next;  // not listed
};

struct Bad {
  double* pointer;
  Inner inner[2];
  Unlisted unlisted;
  std::array<Inner, 2> array;
  void Go() {}
};

struct NotPlain {
  int64_t id;
  std::string name;
};

}  // namespace

template <>
struct belay::RowType<Inner> {
  static FieldsOf<Inner> Fields() { return {{"a", &Inner::a}}; }
};
template <>
struct belay::RowType<Good> {
  static FieldsOf<Good> Fields() {
    return {{"id", &Good::id},
            {"x", &Good::x},
            {"table", &Good::table},
            {"kind", &Good::kind},
            {"inner", &Good::inner}};
  }
};

void Compiles(belay::Tracker& tracker, belay::State& state) {
  std::vector<Good> rows;
  std::vector<int64_t> ids;
  Good one;
  state.AddRows("rows", rows);
  state.AddRowsById("rows", ids, rows);
  state.AddRows("rows", std::span(rows.data(), rows.size()));
  state.AddRowsById("rows", std::span(ids.data(), 1),
                    std::span(rows.data(), 1));
  state.AddPerRank("one", one);
  tracker.Rows("rows", rows);
  tracker.RowsById("rows", ids, rows);
  tracker.PerRank("one", one);
}

void IsRefused(belay::Tracker& tracker, belay::State& state) {
  std::vector<double> rows;
  std::vector<int64_t> ids;
  std::vector<Unlisted> structs;
#if CASE == 1  // a field is a number, an array of numbers or a struct
  belay::FieldsOf<Bad> fields = {{"x", &Bad::pointer}};
#elif CASE == 2   // a field is a number, an array of numbers or a struct
  belay::FieldsOf<Bad> fields = {{"x", &Bad::inner}};
#elif CASE == 3   // a field is a number, an array of numbers or a struct
  belay::FieldsOf<Bad> fields = {{"x", &Bad::unlisted}};
#elif CASE == 4   // a field is a number, an array of numbers or a struct
  belay::FieldsOf<Bad> fields = {{"x", &Bad::array}};
#elif CASE == 5   // a field is no function
  belay::FieldsOf<Bad> fields = {{"x", &Bad::Go}};
#elif CASE == 6   // belay stores structs of plain data
  belay::FieldsOf<NotPlain> fields = {{"id", &NotPlain::id}};
#elif CASE == 7   // structs whose fields belay::RowType lists
  state.AddRows("x", structs);
#elif CASE == 8   // use of deleted function
  state.AddRowsById("x", std::vector<int64_t>(3), rows);
#elif CASE == 9   // use of deleted function
  tracker.RowsById("x", std::vector<int64_t>(3), rows);
#elif CASE == 10  // ids are a contiguous range of whole numbers
  state.AddRowsById("x", rows, rows);
#elif CASE == 11  // structs whose fields belay::RowType lists
  state.AddRowsById("x", ids, structs);
#elif CASE == 12  // structs whose fields belay::RowType lists
  state.AddPerRank("x", structs);
#elif CASE > 12
#error "no such case"
#endif
  Compiles(tracker, state);
}
