#include "mpi/all_gather.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/catch_bad_alloc.h"
#include "base/fault.h"
#include "base/status_macros.h"
#include "mpi/parcels.h"

namespace belay {
namespace {

constexpr int kPartsTag = 3;

bool Gets(int rank, int to) { return to < 0 || to == rank; }

void KeepOwn(const GatherPart& part) {
  if (part.bytes > 0 && part.source != part.target) {
    std::memcpy(part.target, part.source, part.bytes);
  }
}

// Without agreement.
Status Move(CommContext& context, std::span<const GatherPart> parts, int to) {
  ++context.messages;
  Parcels parcels(context, kPartsTag);
  const bool gets = Gets(context.rank(), to);
  for (const GatherPart& part : parts) {
    if (gets && part.rank != context.rank()) {
      parcels.Receive({part.target, static_cast<size_t>(part.bytes)},
                      part.rank);
    }
  }
  // Each rank begins with another one, so that none is overrun.
  for (int step = 1; step < context.size(); ++step) {
    const int other = (context.rank() + step) % context.size();
    if (!Gets(other, to)) continue;
    for (const GatherPart& part : parts) {
      if (part.rank != context.rank()) continue;
      context.bytes_sent += part.bytes;
      parcels.Send({part.source, static_cast<size_t>(part.bytes)}, other);
    }
  }
  for (const GatherPart& part : parts) {
    if (gets && part.rank == context.rank()) KeepOwn(part);
  }
  return parcels.Finish();
}

}  // namespace

Status GatherParts(CommContext& context, std::span<const GatherPart> parts,
                   int to) {
  Status status = Move(context, parts, to);
  status.Update(fault::Point("MPI_Isend"));
  return Agree(context, status);
}

StatusOr<std::vector<std::string>> AllGather(CommContext& context,
                                             const std::string& mine) {
  const auto size = static_cast<int64_t>(mine.size());
  const void* own = &size;  // void: clang-tidy takes long for another type
  std::vector<int64_t> sizes(context.size());
  void* all_sizes = sizes.data();
  Status status = Exchange(
      context,
      [&](MPI_Request* request) {
        return MPI_Iallgather(own, 1, MPI_INT64_T, all_sizes, 1, MPI_INT64_T,
                              context.comm.raw(), request);
      },
      "MPI_Iallgather");
  status.Update(fault::Point("MPI_Iallgather"));
  std::vector<std::string> all(context.size());
  if (status.ok()) {
    status = CatchBadAlloc("the bytes of all ranks", [&] {
      for (int rank = 0; rank < context.size(); ++rank) {
        all[rank].resize(sizes[rank]);
      }
      return absl::OkStatus();
    });
  }
  BELAY_RETURN_IF_AGREED(Agree(context, status));
  std::vector<GatherPart> parts;
  for (int rank = 0; rank < context.size(); ++rank) {
    parts.push_back({.rank = rank,
                     .bytes = sizes[rank],
                     .source = reinterpret_cast<const std::byte*>(mine.data()),
                     .target = reinterpret_cast<std::byte*>(all[rank].data())});
  }
  BELAY_RETURN_IF_AGREED(GatherParts(context, parts, -1));
  return all;
}

}  // namespace belay
