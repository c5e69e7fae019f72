// CRC32C of the blocks of an array, computed from pieces in any order.
//
// An array's row-major bytes are cut into blocks of kBlockBytes (the last one
// may be shorter). With a zero initial register and no final inversion the CRC
// register is linear: the register of a block is the xor of the registers of
// its pieces, each taken as if all other bytes were zero. So every rank sums
// its own bytes, one xor over the ranks gives every block, and the result does
// not depend on how the array was cut.

#ifndef BELAY_CORE_CHECKSUM_H_
#define BELAY_CORE_CHECKSUM_H_

#include <cstddef>
#include <cstdint>
#include <span>

namespace belay {

// Part of the format.
inline constexpr int64_t kBlockBytes = int64_t{1} << 20;

// Continues a raw CRC32C register (reflected polynomial 0x82F63B78, no
// inversion) over `size` bytes, with the fastest instructions of this CPU.
uint32_t CrcRegister(uint32_t state, const void* data, size_t size);

// The same in portable code, for tests.
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
  // `registers` has NumBlocks(array_bytes) entries, is borrowed, and is xored
  // into. Runs that are added in ascending order with a constant gap are
  // cheapest.
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

  // Completes the sums and goes on with another array: cheaper than a new
  // BlockSum, as arrays are often cut alike.
  void Restart(int64_t array_bytes, std::span<uint32_t> registers);

 private:
  // A distance in bytes and the factor that moves a register by it.
  struct Distance {
    int64_t bytes = -1;
    uint32_t factor = 0;
  };

  void AddInBlock(int64_t offset, const char* data, int64_t size, char* copy);
  // Returns state_ moved by that many bytes. `last` remembers the factor.
  uint32_t MoveBy(int64_t bytes, Distance& last) const;

  int64_t array_bytes_ = 0;
  std::span<uint32_t> registers_;
  // The sum of the latest runs of one block, as of the byte position_; end_ is
  // the end of that block, or 0 when nothing is held.
  uint32_t state_ = 0;
  int64_t position_ = 0;
  int64_t end_ = 0;
  Distance step_;  // from the end of one run to the end of the next
  Distance tail_;  // from the end of the last run to the end of the block
};

// Copies bytes that do not overlap. Long ones go past the caches where the
// processor can do that: then the target need not be loaded first, and the
// source stays in the cache for the next copy.
void StreamCopy(char* target, const char* source, int64_t bytes);

// Does the work of StreamCopy and CrcRegister, on x86-64 mostly in one loop
// over two halves, which takes three quarters of the time.
uint32_t CopyAndSum(uint32_t state, char* target, const char* source,
                    int64_t bytes);

}  // namespace belay

#endif  // BELAY_CORE_CHECKSUM_H_
