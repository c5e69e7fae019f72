// Rows of a sharded variable, compared with handwritten MPI code.

#include <mpi.h>

#include <memory>
#include <vector>

#include "belay/variable/sharded_variable_ops.h"
#include "belay/variable/sparse_ops.h"
#include "sharded_by_hand.h"
#include "sharded_table.h"
#include "workloads.h"

namespace belay::bench {
namespace {

StatusOr<std::vector<Contender>> MakeScatters(const Context& context) {
  StatusOr<std::shared_ptr<Table>> first = MakeTable(context);
  if (!first.ok()) return first.status();
  StatusOr<std::shared_ptr<Table>> second = MakeTable(context);
  if (!second.ok()) return second.status();
  const Comm* comm = context.comm;
  const auto sorted = SortUpdates(*comm, **second);
  return std::vector<Contender>{
      {.name = "belay",
       .run =
           [comm, table = *first] {
             return ScatterAdd(*comm, table->variable, table->indices,
                               table->deltas);
           },
       .check = [comm, table = *first] { return CheckSums(*comm, *table); }},
      {.name = "MPI_Alltoallv",
       .run = [comm, table = *second,
               sorted] { return ScatterAddByHand(*comm, *table, *sorted); },
       .check = [comm, table = *second] { return CheckSums(*comm, *table); }}};
}

StatusOr<std::vector<Contender>> MakeLookups(const Context& context) {
  StatusOr<std::shared_ptr<Table>> made = MakeTable(context);
  if (!made.ok()) return made.status();
  const std::shared_ptr<Table> table = *made;
  const Comm* comm = context.comm;
  const auto sorted = SortRequests(*comm, *table);
  const auto kept =
      std::make_shared<std::vector<std::byte>>(sorted->kept.size() * kRowBytes);
  const auto result = std::make_shared<Tensor>();
  return std::vector<Contender>{
      {.name = "belay",
       .run =
           [=] {
             StatusOr<Tensor> rows =
                 EmbeddingLookup(*comm, table->variable, table->indices);
             if (rows.ok()) *result = *std::move(rows);
             return rows.status();
           },
       .check = [=] { return CheckRows(table->picked, result->data()); }},
      {.name = "MPI_Alltoallv",
       .run = [=] { return LookUpByHand(*comm, *table, *sorted); },
       .check =
           [=] {
             return CheckRows(RowsAskedFor(*sorted),
                              sorted->rows_from.bytes.data());
           }}};
}

StatusOr<std::vector<Contender>> MakeReads(const Context& context) {
  StatusOr<std::shared_ptr<Table>> made = MakeTable(context);
  if (!made.ok()) return made.status();
  const std::shared_ptr<Table> table = *made;
  const Comm* comm = context.comm;
  Side from(comm->size());
  for (const Component& component : table->variable) {
    from.counts[component.owner] =
        static_cast<int>(component.num_rows * kRowBytes);
  }
  from.Lay();
  const auto all = std::make_shared<Side>(std::move(from));
  const auto result =
      std::make_shared<Tensor>(DType::kF32, table->variable.shape());
  std::vector<int64_t> rows(table->num_rows);
  for (int64_t row = 0; row < table->num_rows; ++row) rows[row] = row;
  return std::vector<Contender>{
      {.name = "belay",
       .run = [=] { return Read(*comm, table->variable, {Slice{}}, *result); },
       .check = [=] { return CheckRows(rows, result->data()); }},
      {.name = "MPI_Allgatherv",
       .run =
           [=] {
             MPI_Allgatherv(table->part(*comm).data, all->counts[comm->rank()],
                            MPI_BYTE, all->bytes.data(), all->counts.data(),
                            all->offsets.data(), MPI_BYTE, comm->raw());
             return absl::OkStatus();
           },
       .check = [=] { return CheckRows(rows, all->bytes.data()); }}};
}

}  // namespace

Workload ScatterAddRows() {
  return {
      .title = "add to 100,000 rows of a sharded variable per rank",
      .comparisons = {{"sharded.scatter_add", "belay", "MPI_Alltoallv", 2.0}},
      .uses_files = false,
      .make = [](const Context& context, const Medium&) {
        return MakeScatters(context);
      }};
}

Workload LookUpRows() {
  return {.title = "look up 100,000 rows of a sharded variable per rank",
          .comparisons = {{"sharded.lookup", "belay", "MPI_Alltoallv", 2.0}},
          .uses_files = false,
          .make = [](const Context& context, const Medium&) {
            return MakeLookups(context);
          }};
}

Workload ReadAllRows() {
  return {
      .title = "read a sharded variable whole on every rank",
      .comparisons = {{"sharded.read.rows", "belay", "MPI_Allgatherv", 1.3}},
      .uses_files = false,
      .make = [](const Context& context, const Medium&) {
        return MakeReads(context);
      }};
}

}  // namespace belay::bench
