// What belay's handlers are not for. Case 0 has to compile; each other one has
// to be refused with the text behind it.
#include <Eigen/Core>
#include <map>
#include <string>

#include "belay/arrays/eigen.h"
#include "belay/state.h"

void IsRefused() {
#if CASE == 1  // cannot derive from
  struct Derived : belay::standard::MapHandler<std::map<std::string, int>> {};
#elif CASE == 2  // cannot derive from
  struct Derived : belay::EigenHandler<Eigen::MatrixXd> {};
#elif CASE > 2
#error "no such case"
#endif
}
