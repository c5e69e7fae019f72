#include "sharded_by_hand.h"

#include <mpi.h>

#include <cstring>

namespace belay::bench {
namespace {

// The size of an update, [row, delta].
constexpr int64_t kUpdateBytes = kRowBytes + sizeof(int64_t);

Status AllToAllV(const Comm& comm, const Side& to, Side& from) {
  const int code =
      MPI_Alltoallv(to.bytes.data(), to.counts.data(), to.offsets.data(),
                    MPI_BYTE, from.bytes.data(), from.counts.data(),
                    from.offsets.data(), MPI_BYTE, comm.raw());
  if (code == MPI_SUCCESS) return absl::OkStatus();
  return absl::InternalError("MPI_Alltoallv");
}

// Returns the side that receives what `side` sends. Collective.
Side Opposite(const Comm& comm, const Side& side) {
  Side other(comm.size());
  MPI_Alltoall(side.counts.data(), 1, MPI_INT, other.counts.data(), 1, MPI_INT,
               comm.raw());
  other.Lay();
  return other;
}

void AddRow(const Component& part, int64_t row, const std::byte* delta) {
  float* target =
      reinterpret_cast<float*>(part.data) + (row - part.first_row) * kColumns;
  float added[kColumns];
  std::memcpy(added, delta, kRowBytes);
  for (int64_t column = 0; column < kColumns; ++column) {
    target[column] += added[column];
  }
}

}  // namespace

std::shared_ptr<ByHand> SortUpdates(const Comm& comm, const Table& table) {
  const auto sorted = std::make_shared<ByHand>(comm.size());
  for (size_t i = 0; i < table.picked.size(); ++i) {
    const int owner = table.OwnerOf(table.picked[i]);
    if (owner == comm.rank()) {
      sorted->kept.push_back(static_cast<int64_t>(i));
    } else {
      sorted->to.counts[owner] += kUpdateBytes;
    }
  }
  sorted->to.Lay();
  std::vector<int> next = sorted->to.offsets;
  for (size_t i = 0; i < table.picked.size(); ++i) {
    const int owner = table.OwnerOf(table.picked[i]);
    if (owner == comm.rank()) continue;
    std::byte* at = sorted->to.bytes.data() + next[owner];
    std::memcpy(at, &table.picked[i], sizeof(int64_t));
    std::memcpy(at + sizeof(int64_t), table.deltas.data() + i * kRowBytes,
                kRowBytes);
    next[owner] += kUpdateBytes;
  }
  sorted->from = Opposite(comm, sorted->to);
  return sorted;
}

Status ScatterAddByHand(const Comm& comm, const Table& table, ByHand& sorted) {
  Status status = AllToAllV(comm, sorted.to, sorted.from);
  if (!status.ok()) return status;
  const Component& part = table.part(comm);
  const std::byte* const bytes = sorted.from.bytes.data();
  for (size_t at = 0; at < sorted.from.bytes.size(); at += kUpdateBytes) {
    int64_t row;
    std::memcpy(&row, bytes + at, sizeof(row));
    AddRow(part, row, bytes + at + sizeof(row));
  }
  for (int64_t i : sorted.kept) {
    AddRow(part, table.picked[i], table.deltas.data() + i * kRowBytes);
  }
  return absl::OkStatus();
}

std::shared_ptr<ByHand> SortRequests(const Comm& comm, const Table& table) {
  const auto sorted = std::make_shared<ByHand>(comm.size());
  for (size_t i = 0; i < table.picked.size(); ++i) {
    const int owner = table.OwnerOf(table.picked[i]);
    if (owner == comm.rank()) {
      sorted->kept.push_back(static_cast<int64_t>(i));
    } else {
      sorted->to.counts[owner] += sizeof(int64_t);
    }
  }
  sorted->to.Lay();
  std::vector<int> next = sorted->to.offsets;
  for (int64_t row : table.picked) {
    const int owner = table.OwnerOf(row);
    if (owner == comm.rank()) continue;
    std::memcpy(sorted->to.bytes.data() + next[owner], &row, sizeof(row));
    next[owner] += sizeof(row);
  }
  sorted->from = Opposite(comm, sorted->to);
  sorted->rows_to = Side(comm.size());
  for (int rank = 0; rank < comm.size(); ++rank) {
    sorted->rows_to.counts[rank] = static_cast<int>(
        sorted->from.counts[rank] / sizeof(int64_t) * kRowBytes);
  }
  sorted->rows_to.Lay();
  sorted->kept_rows.resize(sorted->kept.size() * kRowBytes);
  sorted->rows_from = Opposite(comm, sorted->rows_to);
  return sorted;
}

Status LookUpByHand(const Comm& comm, const Table& table, ByHand& sorted) {
  Status status = AllToAllV(comm, sorted.to, sorted.from);
  if (!status.ok()) return status;
  const Component& part = table.part(comm);
  std::byte* next = sorted.rows_to.bytes.data();
  const std::byte* const asked = sorted.from.bytes.data();
  for (size_t at = 0; at < sorted.from.bytes.size(); at += sizeof(int64_t)) {
    int64_t row;
    std::memcpy(&row, asked + at, sizeof(row));
    std::memcpy(next, part.data + (row - part.first_row) * kRowBytes,
                kRowBytes);
    next += kRowBytes;
  }
  next = sorted.kept_rows.data();
  for (int64_t i : sorted.kept) {
    const int64_t row = table.picked[i] - part.first_row;
    std::memcpy(next, part.data + row * kRowBytes, kRowBytes);
    next += kRowBytes;
  }
  return AllToAllV(comm, sorted.rows_to, sorted.rows_from);
}

std::vector<int64_t> RowsAskedFor(const ByHand& sorted) {
  std::vector<int64_t> rows(sorted.to.bytes.size() / sizeof(int64_t));
  if (!rows.empty()) {
    std::memcpy(rows.data(), sorted.to.bytes.data(), sorted.to.bytes.size());
  }
  return rows;
}

}  // namespace belay::bench
