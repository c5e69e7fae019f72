// What is no index does not become one. Case 0 has to compile; each other one
// has to be refused with the text behind it.
#include "belay/arrays/indexing.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "belay/arrays/tensor.h"
#include "belay/comm.h"
#include "belay/save_restore.h"
#include "belay/variable/sharded_variable_ops.h"

void Compiles(const belay::Comm& comm, belay::ShardedVariable& v,
              const belay::Tensor& mask) {
  using belay::Index;
  const size_t row = 1;
  (void)belay::Read(comm, v, {row});
  (void)belay::Read(comm, v, {row, -1});
  (void)belay::Read(comm, v, {});
  (void)belay::Read(comm, v, {belay::Slice{row, row + 2}});
  (void)belay::Read(comm, v, Index{&mask}, 0);
  (void)belay::AssignSlice(comm, v, {belay::Ellipsis{}, row}, mask);
  (void)Index(std::vector<belay::IndexItem>{row, belay::NewAxis{}});
}

void IsRefused(const belay::Comm& comm, belay::State& state,
               belay::ShardedVariable& v, const belay::Tensor& mask) {
  using belay::Index;
#if CASE == 1  // no matching function
  (void)Index{true};
#elif CASE == 2  // no matching function
  (void)Index{1.5};
#elif CASE == 3  // no matching function
  const int64_t row = 1;
  (void)Index{&row};
#elif CASE == 4  // no matching function
  (void)Index(3);
#elif CASE == 5  // could not convert
  (void)belay::Slice{true};
#elif CASE == 6  // could not convert
  (void)belay::Slice{0, 2.5};
#elif CASE == 7  // no matching function
  (void)Index{mask};
#elif CASE == 8  // no matching function
  (void)belay::Read(comm, v, {"2:3"});
#elif CASE == 9  // cannot convert
  int64_t step = belay::kLatestStep;
  (void)belay::Restore(comm, "run", step - 1, state);
#elif CASE != 0
#error "no such case"
#endif
  (void)comm, (void)state, (void)v, (void)mask;
}
