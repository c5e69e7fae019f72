// A shard: "these bytes are this box of that array, held by this task".
//
// Everything in a checkpoint is first listed as shards; listing does no I/O.
// (TensorFlow's ShardableTensor.)

#ifndef BELAY_EXTEND_SHARD_H_
#define BELAY_EXTEND_SHARD_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "belay/arrays/box.h"
#include "belay/arrays/device.h"
#include "belay/arrays/dtype.h"
#include "belay/arrays/memory.h"

namespace belay {

struct RankRows;
struct StructLayout;

// The number of ghost cells on each axis: cells around the box of a shard that
// are also in its memory and that a restore fills.
struct GhostCells {
  Shape before;
  Shape after;
  std::vector<bool> periodic;  // as in MemoryLayout, or empty
};

// Borrows the caller's memory until Save or Restore returns. Exactly one of
// `data` and `text` is used: `text` for DType::kString, `data` for the rest.
struct Shard {
  std::string key;
  DType dtype = DType::kU8;
  Shape global_shape;
  Box box;
  // Where the shard is, for sharding policies. Save fills in the unset parts:
  // /job:J/replica:R/task:T/device:CPU:0, where J is the name of the job
  // (JobDevice), R the replica number if there is a `layout`, else 0, and T the
  // rank. Restore ignores it.
  DeviceSpec device = {};
  // Shards of one key with the same box hold the same values and differ in this
  // number; only one of them is written.
  int64_t replica = 0;
  // The elements of `box`, dense and row-major unless there are strides. Save
  // reads them, Restore writes them. May be null if the box is empty.
  void* data = nullptr;
  // Save reads it; Restore resizes and writes it.
  std::string* text = nullptr;
  // How the array is laid out on a mesh, as returned by Layout::ToString;
  // stored with the array. "": not given.
  std::string layout = {};
  // The object that holds the elements and may move them; each save and restore
  // finds them with `access`. Null: no such object, or the elements do not
  // move.
  void* object = nullptr;
  const ArrayAccess* access = nullptr;
  // -1: the object holds the whole array and has its shape. Otherwise: the
  // number of elements that the object had when it was added and must still
  // have; the elements of `box` begin at index `object_offset`.
  int64_t object_elements = -1;
  int64_t object_offset = 0;
  // The rows of this rank: `global_shape` and `box` describe only these; the
  // stored array is the concatenation of the rows of all ranks (rows.h). Null:
  // no rows.
  std::shared_ptr<const RankRows> rows = nullptr;
  // The elements are the bytes of structs, one struct along the last axis, in
  // this memory layout (fields.h). Null: no structs.
  std::shared_ptr<const StructLayout> structs = nullptr;
  // The memory must not be written: a restore refuses the shard.
  bool is_const = false;
  // A save stores the value of rank 0 and does not compare it with those of
  // other ranks. For values that every rank holds (State::kReplicaIsRank).
  bool from_rank0 = false;
  // Distance from one index of an axis to the next, in elements; empty: dense,
  // row-major.
  Shape strides = {};
  std::shared_ptr<const GhostCells> ghosts = nullptr;  // null: none
};

}  // namespace belay

#endif  // BELAY_EXTEND_SHARD_H_
