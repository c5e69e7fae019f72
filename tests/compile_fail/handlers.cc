// Which types of the standard library have a handler. Case 0 has to compile;
// each other one has to be refused with the text behind it.
#include <Eigen/Core>
#include <any>
#include <chrono>
#include <filesystem>
#include <forward_list>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "belay/arrays/eigen.h"
#include "belay/handlers/standard_handlers.h"
#include "belay/objects/trackable.h"
#include "belay/state.h"

namespace {

// One of the program's may get a handler while it runs.
struct Own {};

struct NoDefault {
  explicit NoDefault(int) {}
};

}  // namespace

template <>
inline constexpr bool belay::kHasRegisteredHandler<std::multiset<int>> = true;

void Compiles(belay::Tracker& tracker) {
  belay::State state;
  std::map<int, std::pair<Own, std::chrono::seconds>> map;
  std::variant<std::tuple<int, Own>, std::mt19937> variant;
  std::multiset<int> registered;
  state.Add("map", map);
  state.Add("variant", variant);
  state.Add("registered", registered);
  tracker.Value("map", map);
  tracker.Value("registered", registered);
}

void IsRefused(belay::Tracker& tracker) {
  belay::State state;
#if CASE == 1  // T = std::set<int>
  std::set<int> set;
  state.Add("x", set);
#elif CASE == 2  // belay has no handler for this type T of the standard library
  std::map<std::string, std::set<long>> map;
  state.Add("x", map);
#elif CASE == 3  // belay has no handler for this type T of the standard library
  std::map<double, int> map;
  state.Add("x", map);
#elif CASE == 4  // belay has no handler for this type T of the standard library
  std::optional<std::filesystem::path> path;
  state.Add("x", path);
#elif CASE == 5  // belay has no handler for this type T of the standard library
  std::any any;
  tracker.Value("x", any);
#elif CASE == 6  // T = std::forward_list<double>
  std::pair<int, std::forward_list<double>> pair;
  tracker.Value("x", pair);
#elif CASE == 7  // belay has no handler for this type T of the standard library
  std::random_device device;
  state.Add("x", device);
#elif CASE == 8  // those of a steady clock mean nothing in another job
  std::chrono::steady_clock::time_point time;
  state.Add("x", time);
#elif CASE == 9  // each needs a default constructor
  std::variant<int, NoDefault> variant;
  state.Add("x", variant);
#elif CASE == 10  // belay has no DType for this C++ type
  std::tuple<int, long double> tuple;
  state.Add("x", tuple);
#elif CASE == 11  // belay has no handler for this type T of Eigen
  Eigen::DiagonalMatrix<double, 3> diagonal;
  state.Add("x", diagonal);
#elif CASE == 12  // cannot derive from
  struct Derived : belay::standard::MapHandler<std::map<int, int>> {};
#elif CASE == 13  // cannot derive from
  struct Derived : belay::EigenHandler<Eigen::MatrixXd> {};
#elif CASE > 13
#error "no such case"
#endif
  (void)tracker, (void)state;
}
