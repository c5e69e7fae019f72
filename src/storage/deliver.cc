#include "storage/deliver.h"

#include "belay/arrays/flat_buffer.h"
#include "core/strided_copy.h"
#include "mpi/all_to_all.h"

namespace belay {
namespace {

constexpr int kTag = 1;

// The bytes [begin, end) of a stream.
struct Range {
  int64_t begin = 0;
  int64_t end = 0;
};

// Goes through parts of streams, ascending by position, portion by portion. A
// part may reach over several portions.
template <typename Part, typename BytesOf>
class Portions {
 public:
  Portions(const std::vector<Part>& parts, BytesOf bytes_of)
      : parts_(parts), bytes_of_(bytes_of) {}

  // Calls visit(part, range) for all that lies in the next portion. Requires
  // that portions are asked for one after the other.
  template <typename Visit>
  void ForEachIn(const Range& portion, Visit visit) {
    while (next_ < parts_.size() && parts_[next_].position < portion.end) {
      if (parts_[next_].position >= 0) open_.push_back(&parts_[next_]);
      ++next_;
    }
    std::erase_if(open_, [&](const Part* part) {
      const int64_t end = part->position + bytes_of_(*part);
      visit(*part, Range{std::max(part->position, portion.begin),
                         std::min(end, portion.end)});
      return end <= portion.end;
    });
  }

 private:
  const std::vector<Part>& parts_;
  BytesOf bytes_of_;
  size_t next_ = 0;
  std::vector<const Part*> open_;  // begun, and not at its end
};

// One restore on one rank.
class Delivering {
 public:
  Delivering(CommContext& context, const DeliverJob& job, ReadCounts& counts)
      : context_(context),
        job_(job),
        memory_(job.memory),
        formed_{job.reading.shards, job.reading.forms, job.reading.losses},
        node_(job.nodes.node[context.rank()]),
        slots_(SlotsOnNode(job.nodes, node_)),
        num_slots_(MostSlots(job.nodes)),
        counts_(counts),
        files_(job.reading, counts),
        sums_(job.reading) {}

  // Collective; agreed.
  Agreed<> CarryOut(const Status& mine) {
    Status status = mine;
    Portions orders(job_.reading.reads.orders, [&](const ReadOrder& order) {
      return NumElements(order.box.shape) * SizeOf(order.shard);
    });
    Portions deliveries(
        job_.reading.reads.deliveries,
        [](const Delivery& delivery) { return delivery.bytes; });
    const auto bytes_of = [](const Transit& transit) { return transit.bytes; };
    Portions sends(job_.transits.sends, bytes_of);
    Portions receives(job_.transits.receives, bytes_of);
    for (int64_t at = 0; at < job_.stream_bytes; at += job_.portion_bytes) {
      context_.deadline.GoOn();  // a long restore is no hang
      portion_ = {at, at + job_.portion_bytes};
      orders.ForEachIn(portion_, [&](const ReadOrder& order, Range range) {
        if (status.ok()) status = Read(order, range);
      });
      // A rank that failed still sends, because others wait for it.
      status.Update(Exchange(sends, receives));
      memory_.Sync();
      BELAY_RETURN_IF_AGREED(Agree(context_, status));
      memory_.Sync();
      deliveries.ForEachIn(portion_,
                           [&](const Delivery& delivery, Range range) {
                             Copy(delivery, range);
                           });
    }
    sums_.Flush();
    return Agree(context_, files_.Close());
  }

 private:
  int64_t SizeOf(int32_t shard) const {
    return StoredElementSize(formed_, shard);
  }

  // Returns the address of a byte of a stream in this round.
  char* At(int32_t reader, int64_t position) const {
    const int32_t carrier = Carrier(job_.nodes, reader, node_);
    const int64_t half = portion_.begin / job_.portion_bytes % 2;
    return memory_.Part(job_.nodes.place[carrier]) +
           (half * num_slots_ + slots_[reader]) * job_.portion_bytes +
           (position - portion_.begin);
  }

  // Calls visit(memory) for the boxes that hold a range of a part of a stream.
  void ForEachBox(int32_t reader, int32_t shard, const Box& part,
                  int64_t position, Range range,
                  absl::FunctionRef<void(const ShardMemory&)> visit) const {
    const int64_t size = SizeOf(shard);
    char* at = At(reader, range.begin);
    for (Box& box : BoxesOfRange(part, (range.begin - position) / size,
                                 (range.end - position) / size)) {
      const int64_t bytes = NumElements(box.shape) * size;
      visit({.data = at,
             .element_size = size,
             .box = std::move(box),
             .array = StoredArrayShape(formed_, shard)});
      at += bytes;
    }
  }

  Status Read(const ReadOrder& order, Range range) {
    Status status;
    ForEachBox(context_.rank(), order.shard, order.box, order.position, range,
               [&](const ShardMemory& memory) {
                 if (!status.ok()) return;
                 status = files_.ReadInto(memory, memory.box, order);
                 if (!status.ok()) return;
                 sums_.Add(memory, memory.box, order.first_block);
               });
    return status;
  }

  template <typename Transits>
  Status Exchange(Transits& sends, Transits& receives) {
    if (job_.nodes.ranks.size() == 1) return absl::OkStatus();
    Parcels parcels(context_, kTag);
    receives.ForEachIn(portion_, [&](const Transit& transit, Range range) {
      parcels.Receive(std::as_writable_bytes(std::span(
                          At(transit.peer, range.begin), Length(range))),
                      transit.peer);
    });
    sends.ForEachIn(portion_, [&](const Transit& transit, Range range) {
      parcels.Send(std::as_bytes(std::span(At(context_.rank(), range.begin),
                                           Length(range))),
                   transit.peer);
    });
    return parcels.Finish();
  }

  static size_t Length(Range range) {
    return static_cast<size_t>(range.end - range.begin);
  }

  // Copies what this rank wants of it, converted if need be.
  void Copy(const Delivery& delivery, Range range) {
    const int32_t shard = delivery.shard;
    const ShardMemory own = MemoryOf(formed_.shards[shard]);
    ForEachBox(delivery.reader, shard, delivery.box, delivery.position, range,
               [&](const ShardMemory& memory) {
                 const std::optional<Box> part = Intersect(memory.box, own.box);
                 if (!part) return;
                 if (delivery.reader != context_.rank()) {
                   counts_.delivered_bytes +=
                       StoredBytes(formed_, shard, *part);
                 }
                 HandOver(formed_, shard, *part, memory);
               });
  }

  CommContext& context_;
  const DeliverJob& job_;
  const SharedMemory& memory_;
  FormedShards formed_;
  int32_t node_;
  std::vector<int32_t> slots_;
  int64_t num_slots_;
  ReadCounts& counts_;
  DataFiles files_;
  ReadSums sums_;
  Range portion_;
};

}  // namespace

Agreed<SharedMemory> MakeDeliveryMemory(CommContext& context,
                                        const Nodes& nodes,
                                        int64_t portion_bytes) {
  const int32_t place = nodes.place[context.rank()];
  const std::vector<int32_t>& ranks = nodes.ranks[nodes.node[context.rank()]];
  return SharedMemory::Create(context,
                              {.first = ranks[0],
                               .place = place,
                               .ranks = static_cast<int32_t>(ranks.size())},
                              2 * MostSlots(nodes) * portion_bytes);
}

Agreed<> DeliverAll(CommContext& context, const Status& mine,
                    const DeliverJob& job, ReadCounts& counts) {
  return Delivering(context, job, counts).CarryOut(mine);
}

}  // namespace belay
