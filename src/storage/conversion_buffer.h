// Values stored with another dtype are converted part by part in a buffer, on
// their way between the program's memory and a file. The buffer also serves
// values that are not dense in memory, or slow to read in place. All of these
// values are "staged" below.
//
//   save:     program's shard -> StageForSave: one order or tile -> file
//   restore:  file -> RoomFor: one tile -> HandOver -> program's shard
//
// Stages at most the bytes of one transfer at a time, so that a large state
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

// The program's shards, and the form in which each is stored. Borrows all.
struct FormedShards {
  std::span<const Shard> shards;
  std::span<const StoredForm> forms;  // empty: all are stored unchanged
  // Losses of conversion, per shard; empty: not counted.
  std::span<ConversionLosses> losses = {};
};

// Bytes of one io element where it is stored.
int64_t StoredElementSize(const FormedShards& formed, int32_t shard);

// The shape of the shard's array as stored; for a text, its length, which must
// be final.
Shape StoredArrayShape(const FormedShards& formed, int32_t shard);

// Returns true if the shard is stored with another dtype.
bool IsConverted(const FormedShards& formed, int32_t shard);

// Returns true if the shard's memory is not the stored elements in a row: the
// elements have another dtype, or are strided.
bool IsStaged(const FormedShards& formed, int32_t shard);

// The shard's own memory. Its box may extend past the stored array. The stored
// elements are there unless the shard is staged.
ShardMemory OwnMemory(const FormedShards& formed, int32_t shard);

// The size in bytes of a part of the shard as stored.
int64_t StoredBytes(const FormedShards& formed, int32_t shard, const Box& part);

// The number of bytes that a save stages for a part of the shard.
int64_t StagedBytes(const FormedShards& formed, int32_t shard, const Box& part);

// Reusable memory for parts in their stored dtype. Uses up to two pages more
// than requested.
class ConversionBuffer {
 public:
  // Makes room for `bytes`, and drops earlier elements. The room starts at the
  // same offset within its page as bytes at `file_offset` within theirs
  // (storage/file_system.h).
  // Errors: ResourceExhausted - there is no memory; names the key.
  Status Start(int64_t bytes, std::string_view key, int64_t file_offset = 0);

  // Returns the next bytes of the room. Requires that they are left.
  char* Take(int64_t bytes);

  // The largest size requested in a Start.
  int64_t most_bytes() const { return most_bytes_; }

 private:
  std::unique_ptr<std::byte[]> memory_;
  char* page_ = nullptr;  // the first page boundary
  int64_t size_ = 0;
  int64_t taken_ = 0;  // counted from the page boundary
  int64_t most_bytes_ = 0;
};

// Makes room for the leading orders that belong to the same round, but for at
// most `most_bytes`: what is handed over at a time.
// Errors: those of ConversionBuffer::Start.
Status StartRound(const FormedShards& formed,
                  std::span<const WriteOrder> orders, int64_t most_bytes,
                  ConversionBuffer& buffer);

// Returns where the elements of `part` are in their stored form: converted or
// gathered in `buffer`, or in the shard's own memory. Requires room for
// StagedBytes.
ShardMemory StageForSave(const FormedShards& formed, int32_t shard,
                         const Box& part, ConversionBuffer& buffer);

// Returns room in `buffer` for the elements of `part` in their stored form.
// Requires that their bytes are left.
ShardMemory RoomFor(const FormedShards& formed, int32_t shard, const Box& part,
                    ConversionBuffer& buffer);

// Copies `part`, which has been read into `staged`, to the shard's own memory
// in the dtype that it has there. Does nothing if it was read in place.
void HandOver(const FormedShards& formed, int32_t shard, const Box& part,
              const ShardMemory& staged);

}  // namespace belay

#endif  // BELAY_STORAGE_CONVERSION_BUFFER_H_
