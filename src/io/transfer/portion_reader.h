// Hands out the orders of a rank portion by portion, for a transfer in which
// ranks gather runs for each other, and sums them for the checksums.

#ifndef BELAY_IO_TRANSFER_PORTION_READER_H_
#define BELAY_IO_TRANSFER_PORTION_READER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "belay/arrays/box.h"
#include "belay/status.h"
#include "io/transfer/file_domains.h"
#include "io/transfer/staging.h"
#include "io/transfer/transfer.h"
#include "plan/shard_memory.h"

namespace belay {

// What a portion of one rank weighs at most, but for a quarter more, where the
// transfer may take `memory`. Local.
int64_t PortionWeight(int64_t memory);

class PortionReader {
 public:
  explicit PortionReader(const WriteJob& job);

  // Local.
  bool HasMore(int64_t round) const {
    const std::vector<WriteOrder>& orders = job_.writes.orders;
    return next_order_ < orders.size() && orders[next_order_].round == round;
  }

  // The next segments of a round, ascending by offset; they weigh a sixth of
  // job.memory and a quarter of that more at most. Local.
  StatusOr<Segments> Next(int64_t round);

  // The most that was staged at once. Local.
  int64_t staged_bytes() const { return staging_.most_bytes(); }

 private:
  // Cuts an order into tiles that weigh a small part of a portion.
  void CutIntoTiles(const WriteOrder& order);
  // Adds the next tile of the next order; returns its bytes.
  int64_t AddTile(const WriteOrder& order, Segments& segments);

  const WriteJob& job_;
  const int64_t most_weight_;
  FormedShards formed_;
  Checksummer sum_;
  Staging staging_;
  size_t next_order_ = 0;
  std::vector<Box> tiles_;  // of the next order
  size_t next_tile_ = 0;
};

}  // namespace belay

#endif  // BELAY_IO_TRANSFER_PORTION_READER_H_
