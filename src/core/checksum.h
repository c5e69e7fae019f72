// CRC32C of the blocks of an array, computed from pieces in any order.
//
// An array's row-major bytes are cut into blocks of kBlockBytes (the last one
// may be shorter). With a zero initial register and no final inversion, the CRC
// register is linear: a block's register is the xor of the registers of its
// pieces, each computed as if all other bytes were zero. So every rank sums its
// own bytes, and one xor over all ranks gives every block's register. The
// result does not depend on how the array was cut.

#ifndef BELAY_CORE_CHECKSUM_H_
#define BELAY_CORE_CHECKSUM_H_

#include <cstddef>
#include <cstdint>
#include <span>

namespace belay {

// Part of the file format.
inline constexpr int64_t kBlockBytes = int64_t{1} << 20;

// Continues a raw CRC32C register (reflected polynomial 0x82F63B78, no
// inversion) over `size` bytes, with the fastest instructions of this CPU.
uint32_t CrcRegister(uint32_t state, const void* data, size_t size);

// Portable version of CrcRegister, for tests.
uint32_t CrcRegisterPortable(uint32_t state, const void* data, size_t size);

// Returns the register after `bytes` zero bytes.
uint32_t CrcAppendZeros(uint32_t state, uint64_t bytes);

// Returns the standard CRC32C (as in iSCSI; check value 0xE3069283 for
// "123456789") of a block of `bytes` bytes whose raw register is `state`.
uint32_t StandardCrc(uint32_t state, uint64_t bytes);

int64_t NumBlocks(int64_t array_bytes);

// Sums the runs of one array into per-block registers.
class BlockSum {
 public:
  // Borrows `registers`, which has NumBlocks(array_bytes) entries, and xors
  // into it. Runs added in ascending order with a constant gap are cheapest.
  BlockSum(int64_t array_bytes, std::span<uint32_t> registers);
  ~BlockSum() { Flush(); }
  BlockSum(const BlockSum&) = delete;
  BlockSum& operator=(const BlockSum&) = delete;

  // Adds the bytes [offset, offset + size) of the array, and copies them to
  // `copy` unless that is null. No byte may be added twice.
  void Add(int64_t offset, const void* data, int64_t size,
           char* copy = nullptr);

  // Completes the sums, as the destructor does.
  void Flush();

  // Completes the sums and starts another array. This is cheaper than a new
  // BlockSum, as arrays are often cut alike.
  void Restart(int64_t array_bytes, std::span<uint32_t> registers);

 private:
  // A distance in bytes and the factor that moves a register by it.
  struct Distance {
    int64_t bytes = -1;
    uint32_t factor = 0;
  };

  void AddInBlock(int64_t offset, const char* data, int64_t size, char* copy);
  // Returns state_ moved by `bytes` bytes. Caches the factor in `last`.
  uint32_t MoveBy(int64_t bytes, Distance& last) const;

  int64_t array_bytes_ = 0;
  std::span<uint32_t> registers_;
  // Sum of the latest runs of one block, up to byte position_. end_ is the end
  // of that block, or 0 if there is no sum.
  uint32_t state_ = 0;
  int64_t position_ = 0;
  int64_t end_ = 0;
  Distance step_;  // from the end of one run to the end of the next
  Distance tail_;  // from the end of the last run to the end of the block
};

// Copies bytes that do not overlap. Large copies bypass the caches if the
// processor supports it: the target need not be loaded first, and the source
// stays in the cache for the next copy.
void StreamCopy(char* target, const char* source, int64_t bytes);

// Combines StreamCopy and CrcRegister. On x86-64, most of the work is one loop
// over two halves, which takes three quarters of the time of separate calls.
uint32_t CopyAndSum(uint32_t state, char* target, const char* source,
                    int64_t bytes);

}  // namespace belay

#endif  // BELAY_CORE_CHECKSUM_H_
