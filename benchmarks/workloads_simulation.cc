// States of simulation codes: pieces with ghost cells around them, lists of
// particles, and cells with ids.

#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "belay/save_restore.h"
#include "contenders.h"
#include "workloads.h"

namespace belay::bench {
namespace {

using Particle = std::array<double, 6>;

// A field of which each rank owns a box, stored with ghost cells.
struct Field {
  Shape global_shape;
  Box box;
  Shape held;  // with the ghost cells
  int64_t width = 2;
  std::vector<double> memory;
  std::shared_ptr<Arrays> packed = std::make_shared<Arrays>();

  MemoryLayout Layout() const {
    return {.before = std::vector<int64_t>(held.size(), width)};
  }
  // Copies the owned cells to the packed memory, row by row.
  void Pack() {
    const int64_t columns = box.shape.back();
    const int64_t rows = NumElements(box.shape) / columns;
    char* to = packed->buffer.data();
    for (int64_t row = 0; row < rows; ++row) {
      std::memcpy(to, memory.data() + FirstOfRow(row),
                  static_cast<size_t>(columns) * sizeof(double));
      to += columns * static_cast<int64_t>(sizeof(double));
    }
  }
  // Returns the index of the first owned cell of a row; rows are counted over
  // all axes except the last.
  int64_t FirstOfRow(int64_t row) const {
    int64_t place = width, stride = held.back();
    for (size_t axis = box.shape.size() - 1; axis-- > 0;) {
      place += (row % box.shape[axis] + width) * stride;
      row /= box.shape[axis];
      stride *= held[axis];
    }
    return place;
  }
};

// Makes a field in which each rank owns a box of this shape; the boxes are
// consecutive along the first axis.
std::shared_ptr<Field> MakeField(const Context& context, const Shape& owned) {
  auto field = std::make_shared<Field>();
  const int rank = context.comm->rank(), size = context.comm->size();
  field->global_shape = owned;
  field->global_shape[0] *= size;
  field->box = {.offset = Shape(owned.size(), 0), .shape = owned};
  field->box.offset[0] = owned[0] * rank;
  field->held = owned;
  for (int64_t& length : field->held) length += 2 * field->width;
  field->memory.assign(static_cast<size_t>(NumElements(field->held)), -1);
  AddPiece(*field->packed, {.key = "field",
                            .dtype = DType::kF64,
                            .global_shape = field->global_shape,
                            .box = field->box});
  field->packed->unique_bytes = 8 * NumElements(field->global_shape);
  AllocateAndFill(*field->packed, size);
  const int64_t columns = owned.back();
  const char* from = field->packed->buffer.data();
  for (int64_t row = 0; row < NumElements(owned) / columns; ++row) {
    std::memcpy(field->memory.data() + field->FirstOfRow(row), from,
                static_cast<size_t>(columns) * sizeof(double));
    from += columns * static_cast<int64_t>(sizeof(double));
  }
  return field;
}

// Saves of a state that borrows `kept`; each save replaces the last one.
struct Saving {
  const Comm* comm = nullptr;
  std::string dir;
  bool durable = false;
  std::shared_ptr<void> kept;
  State state;
  PlanCache cache;

  Status Run() {
    return Save(*comm, dir, 0, state, {.durable = durable, .cache = &cache})
        .status();
  }
  Status Clean() const {
    MPI_Barrier(comm->raw());
    std::error_code failed;
    if (comm->rank() == 0) std::filesystem::remove_all(dir, failed);
    MPI_Barrier(comm->raw());
    return absl::OkStatus();
  }
};

std::shared_ptr<Saving> NewSaving(const Context& context, const Medium& medium,
                                  const std::string& name,
                                  std::shared_ptr<void> kept) {
  auto saving = std::make_shared<Saving>();
  saving->comm = context.comm;
  saving->dir = medium.dir + "/" + name;
  saving->durable = medium.durable;
  saving->kept = std::move(kept);
  return saving;
}

Contender SaveInPlace(const Context& context, const Medium& medium,
                      const std::shared_ptr<Field>& field) {
  auto saving = std::make_shared<Saving>(context.comm, medium.dir + "/in_place",
                                         medium.durable, field);
  saving->state.AddPiece("field", field->global_shape, field->box,
                         {field->memory, field->Layout()});
  return {.name = "in place",
          .run = [saving] { return saving->Run(); },
          .check = [saving, field, context]() -> Status {
            std::vector<char> buffer(field->packed->buffer.size());
            const State state = MakeState(*field->packed, buffer);
            const auto restored = Restore(*context.comm, saving->dir, 0, state);
            if (!restored.ok()) return restored.status();
            return CheckContents(*field->packed, buffer);
          },
          .clean = [saving] { return saving->Clean(); }};
}

// Packs first, then runs another contender.
Contender PackAnd(const std::string& name, const std::shared_ptr<Field>& field,
                  Contender then) {
  then.name = name;
  then.run = [field, run = std::move(then.run)] {
    field->Pack();
    return run();
  };
  return then;
}

StatusOr<std::vector<Contender>> RaceField(const Context& context,
                                           const Medium& medium,
                                           const Shape& owned) {
  const auto field = MakeField(context, owned);
  std::vector<Contender> contenders;
  contenders.push_back(SaveInPlace(context, medium, field));
  contenders.push_back(PackAnd("pack and pwrite", field,
                               PlainWrite(context, medium, field->packed)));
  contenders.push_back(
      PackAnd("pack and save", field,
              BelaySave("packed", context, medium, field->packed, {}, true)));
  contenders.push_back(PlainWrite(context, medium, field->packed));
  return contenders;
}

// Makes all particles, partitioned evenly over the ranks.
std::shared_ptr<Arrays> MakeParticles(const Context& context) {
  const int64_t each = Scaled(context, 10'000'000) / context.comm->size() + 1;
  auto arrays = std::make_shared<Arrays>();
  const int64_t all = each * context.comm->size();
  AddPiece(*arrays, {.key = "particles",
                     .dtype = DType::kF64,
                     .global_shape = {all, 6},
                     .box = {.offset = {each * context.comm->rank(), 0},
                             .shape = {each, 6}}});
  arrays->unique_bytes = 48 * all;
  AllocateAndFill(*arrays, context.comm->size());
  return arrays;
}

std::shared_ptr<std::vector<Particle>> InRows(const Arrays& arrays) {
  auto rows = std::make_shared<std::vector<Particle>>(arrays.buffer.size() /
                                                      sizeof(Particle));
  std::memcpy(rows->data(), arrays.buffer.data(),
              rows->size() * sizeof(Particle));
  return rows;
}

StatusOr<std::vector<Contender>> RaceSaveOfParticles(const Context& context,
                                                     const Medium& medium) {
  const auto arrays = MakeParticles(context);
  const auto rows = InRows(*arrays);
  const auto saving = NewSaving(context, medium, "rows", rows);
  saving->state.AddRows("particles", *rows);
  Contender save{.name = "rows",
                 .run = [saving] { return saving->Run(); },
                 .clean = [saving] { return saving->Clean(); }};
  return std::vector<Contender>{std::move(save),
                                PlainWrite(context, medium, arrays)};
}

// Restores on all ranks what all ranks except the last have saved.
StatusOr<std::vector<Contender>> RaceRestoreOfParticles(const Context& context,
                                                        const Medium& medium) {
  const auto arrays = MakeParticles(context);
  const auto rows = InRows(*arrays);
  const std::string dir = medium.dir + "/to_restore_rows";
  const int rank = context.comm->rank(), size = context.comm->size();
  const bool saves = rank + 1 < size || size == 1;
  StatusOr<Comm> savers = context.comm->Split(saves ? 0 : -1);
  Status status = savers.status();
  if (status.ok() && saves) {
    State state;
    state.AddRows("particles", *rows);
    status = Save(*savers, dir, 0, state, {.durable = medium.durable}).status();
    status.Update(savers->Close());
  }
  status = AllOk(*context.comm, status);
  if (!status.ok()) return status;
  auto state = std::make_shared<State>();
  state->AddRows("particles", *rows);
  // The state borrows the rows.
  Contender restore{.name = "rows", .run = [context, dir, state, kept = rows] {
                      return Restore(*context.comm, dir, 0, *state).status();
                    }};
  StatusOr<Contender> plain = PlainRead(context, medium, arrays);
  if (!plain.ok()) return plain.status();
  // The bytes that all ranks except one have saved.
  if (size > 1) arrays->plain_bytes = arrays->plain_bytes / size * (size - 1);
  return std::vector<Contender>{std::move(restore), *std::move(plain)};
}

using Cell = std::array<double, 4>;

// A mesh whose cells are distributed over the ranks in random order.
struct Mesh {
  std::vector<int64_t> ids;  // of this rank
  std::vector<Cell> cells;
  std::shared_ptr<Arrays> arrays;  // the same bytes, evenly
};

std::shared_ptr<Mesh> MakeMesh(const Context& context) {
  const int rank = context.comm->rank(), size = context.comm->size();
  const int64_t each = Scaled(context, 8'000'000) / size + 1;
  auto mesh = std::make_shared<Mesh>();
  std::vector<int64_t> all(static_cast<size_t>(each * size));
  std::iota(all.begin(), all.end(), 0);
  std::shuffle(all.begin(), all.end(), std::mt19937_64(1));
  mesh->ids.assign(all.begin() + rank * each, all.begin() + (rank + 1) * each);
  for (const int64_t id : mesh->ids) {
    mesh->cells.push_back({static_cast<double>(id), 0, 0, 1});
  }
  mesh->arrays = std::make_shared<Arrays>();
  AddPiece(*mesh->arrays,
           {.key = "cells",
            .dtype = DType::kF64,
            .global_shape = {each * size, 4},
            .box = {.offset = {each * rank, 0}, .shape = {each, 4}}});
  mesh->arrays->unique_bytes = 32 * each * size;
  AllocateAndFill(*mesh->arrays, size);
  return mesh;
}

Status CheckMesh(const Mesh& mesh) {
  for (size_t i = 0; i < mesh.ids.size(); ++i) {
    if (mesh.cells[i][0] == static_cast<double>(mesh.ids[i])) continue;
    return absl::DataLossError(absl::StrCat("cell ", mesh.ids[i]));
  }
  return absl::OkStatus();
}

StatusOr<std::vector<Contender>> RaceSaveOfIds(const Context& context,
                                               const Medium& medium) {
  const auto mesh = MakeMesh(context);
  const auto saving = NewSaving(context, medium, "ids", mesh);
  saving->state.AddRowsById("cells", mesh->ids, mesh->cells);
  Contender save{.name = "by id",
                 .run = [saving] { return saving->Run(); },
                 .clean = [saving] { return saving->Clean(); }};
  return std::vector<Contender>{std::move(save),
                                PlainWrite(context, medium, mesh->arrays)};
}

StatusOr<std::vector<Contender>> RaceRestoreOfIds(const Context& context,
                                                  const Medium& medium) {
  const auto mesh = MakeMesh(context);
  const auto saving = NewSaving(context, medium, "ids_to_restore", mesh);
  saving->state.AddRowsById("cells", mesh->ids, mesh->cells);
  Status status = saving->Run();
  if (!status.ok()) return status;
  Contender restore{.name = "by id",
                    .run =
                        [saving] {
                          return Restore(*saving->comm, saving->dir, 0,
                                         saving->state)
                              .status();
                        },
                    .check = [mesh] { return CheckMesh(*mesh); }};
  StatusOr<Contender> plain = PlainRead(context, medium, mesh->arrays);
  if (!plain.ok()) return plain.status();
  return std::vector<Contender>{std::move(restore), *std::move(plain)};
}

std::vector<Comparison> FieldComparisons(const std::string& name) {
  return {{absl::StrCat(name), "in place", "pack and pwrite", 1.15},
          {absl::StrCat(name, ".packed"), "in place", "pack and save", 0.9}};
}

}  // namespace

Workload SaveHalo2d() {
  return {.title = "save a field of two axes with two ghost cells at each side",
          .comparisons = FieldComparisons("save.halo.2d"),
          .make = [](const Context& context, const Medium& medium) {
            return RaceField(context, medium, {Scaled(context, 2048), 2048});
          }};
}

Workload SaveHalo3d() {
  return {
      .title = "save a field of three axes with two ghost cells at each side",
      .comparisons = FieldComparisons("save.halo.3d"),
      .make = [](const Context& context, const Medium& medium) {
        return RaceField(context, medium, {Scaled(context, 160), 160, 160});
      }};
}

Workload SaveShortRows() {
  return {.title = "save 20,000 rows of 100 numbers with ghost cells",
          .comparisons = {{"save.rows.100", "in place", "pwrite", 1.3}},
          .make = [](const Context& context, const Medium& medium) {
            return RaceField(context, medium, {Scaled(context, 20000), 100});
          }};
}

Workload SaveParticles() {
  return {.title = "save 10 million rows of 48 bytes",
          .comparisons = {{"save.particles", "rows", "pwrite", 1.15}},
          .make = RaceSaveOfParticles};
}

Workload RestoreParticles() {
  return {.title =
              "restore 10 million rows of 48 bytes on another number of "
              "ranks",
          .comparisons = {{"restore.particles", "rows", "pread", 1.3}},
          .make = RaceRestoreOfParticles};
}

Workload SaveIds() {
  return {.title = "save a mesh of 8 million cells in random order of ids",
          .comparisons = {{"save.ids", "by id", "pwrite", 2.5}},
          .make = RaceSaveOfIds};
}

Workload RestoreIds() {
  return {.title = "restore a mesh of 8 million cells in random order of ids",
          .comparisons = {{"restore.ids", "by id", "pread", 2.5}},
          .make = RaceRestoreOfIds};
}

}  // namespace belay::bench
