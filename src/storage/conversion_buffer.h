// Values that are stored with another dtype are converted part by part in a
// buffer, on their way between the program's memory and a file. Values that are
// not dense in memory, or slow to read in place, take the same way. Such values
// are "staged" below.
//
//   save:     program's shard -> StageForSave: one order or tile -> file
//   restore:  file -> RoomFor: one tile -> HandOver -> program's shard
//
// At most the bytes of one transfer are staged at a time, so that a large state
// needs no more memory than a small one.

#ifndef BELAY_STORAGE_CONVERSION_BUFFER_H_
#define BELAY_STORAGE_CONVERSION_BUFFER_H_

#include <algorithm>
#include <span>

#include "belay/extend/shard.h"
#include "core/element_conversion.h"
#include "plan/plan.h"
#include "plan/shards.h"
#include "plan/stored_values.h"

namespace belay {

// Shards of the program, and the form that each is stored in. Borrows all.
struct FormedShards {
  std::span<const Shard> shards;
  std::span<const StoredForm> forms;  // empty: all are stored as they are
  // What conversion loses, by shard; empty: not counted.
  std::span<ConversionLosses> losses = {};
};

// Bytes of one io element where it is stored.
int64_t StoredElementSize(const FormedShards& formed, int32_t shard);

// The shape of the shard's array where it is stored; of a text its length,
// which it has by then.
Shape StoredArrayShape(const FormedShards& formed, int32_t shard);

// Returns whether the shard's dtype is another one where it is stored.
bool IsConverted(const FormedShards& formed, int32_t shard);

// Returns whether the shard's elements are not those that are stored, one
// behind the other: they have another dtype, or lie apart.
bool IsStaged(const FormedShards& formed, int32_t shard);

// The shard's own memory; its box may reach past the array that is stored.
// Its elements are there if it is not staged.
ShardMemory OwnMemory(const FormedShards& formed, int32_t shard);

// Bytes of a part of the shard as it is stored.
int64_t StoredBytes(const FormedShards& formed, int32_t shard, const Box& part);

// Bytes that a save stages of a part of the shard.
int64_t StagedBytes(const FormedShards& formed, int32_t shard, const Box& part);

// Memory for parts in the dtype that is stored, used again and again. Up to two
// pages more than is asked for are used.
class ConversionBuffer {
 public:
  // Makes room for `bytes`, and drops earlier elements. The room lies
  // in its pages as bytes at `file_offset` do (storage/file_system.h).
  // Errors: ResourceExhausted - there is no memory; names the key.
  Status Start(int64_t bytes, std::string_view key, int64_t file_offset = 0);

  // Returns the next bytes of the room. Requires that they are left.
  char* Take(int64_t bytes);

  // The most that was started at once.
  int64_t most_bytes() const { return most_bytes_; }

 private:
  std::unique_ptr<std::byte[]> memory_;
  char* page_ = nullptr;  // the first one
  int64_t size_ = 0;
  int64_t taken_ = 0;  // of it, from the page on
  int64_t most_bytes_ = 0;
};

// Makes room for the orders of one round, which come first of these, but for no
// more than `most_bytes`: what is handed over at a time.
// Errors: those of ConversionBuffer::Start.
Status StartRound(const FormedShards& formed,
                  std::span<const WriteOrder> orders, int64_t most_bytes,
                  ConversionBuffer& buffer);

// Returns where the elements of `part` lie as they are stored: converted or
// gathered in `buffer`, or the shard's own memory. Requires room for
// StagedBytes.
ShardMemory StageForSave(const FormedShards& formed, int32_t shard,
                         const Box& part, ConversionBuffer& buffer);

// Returns room in `buffer` for the elements of `part` as they are stored.
// Requires that their bytes are left.
ShardMemory RoomFor(const FormedShards& formed, int32_t shard, const Box& part,
                    ConversionBuffer& buffer);

// Once `part` has been read there: copies it into the shard's own memory, as
// the dtype that it has there; nothing if it was read in place.
void HandOver(const FormedShards& formed, int32_t shard, const Box& part,
              const ShardMemory& staged);

}  // namespace belay

#endif  // BELAY_STORAGE_CONVERSION_BUFFER_H_
