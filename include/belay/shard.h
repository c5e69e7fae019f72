// A shard: "these bytes are this box of that array, held by this task".
//
// Everything that a checkpoint holds is listed as shards first; listing does
// no I/O. (TensorFlow's ShardableTensor.)

#ifndef BELAY_SHARD_H_
#define BELAY_SHARD_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "belay/box.h"
#include "belay/device.h"
#include "belay/dtype.h"
#include "belay/memory.h"

namespace belay {

struct RankRows;
struct StructLayout;

// Cells around the box of a shard that lie in its memory as well, and that a
// restore fills; by axis.
struct GhostCells {
  Shape before;
  Shape after;
  std::vector<bool> periodic;  // as of MemoryLayout, or empty
};

// Borrows the caller's memory until Save or Restore returns. Exactly one of
// `data` and `text` is used: `text` for DType::kString, `data` for the rest.
struct Shard {
  std::string key;
  DType dtype = DType::kU8;
  Shape global_shape;
  Box box;
  // Where it lies, for sharding policies. Save fills in what is not set:
  // /job:J/replica:R/task:T/device:CPU:0, where J is the name of the job
  // (JobDevice), R the replica number if there is a `layout`, else 0, and T the
  // rank. Restore does not look at it.
  DeviceSpec device = {};
  // Shards of one key with the same box hold the same values; they differ in
  // this number, and only one of them is written.
  int64_t replica = 0;
  // The elements of `box`, dense and row-major unless there are strides. Read
  // by Save, written by Restore; may be null if the box is empty.
  void* data = nullptr;
  // Read by Save, resized and written by Restore.
  std::string* text = nullptr;
  // How the array is laid out on a mesh, as Layout::ToString says it, which is
  // kept with it; "": not said.
  std::string layout = {};
  // The object that holds the elements and may move them: `access` finds them
  // for each save and restore. Null: none, or it keeps them where they are.
  void* object = nullptr;
  const ArrayAccess* access = nullptr;
  // -1: the object holds all of the array, which has its shape. Else the number
  // of elements that it had when it was added and still has to have; those of
  // `box` are behind `object_offset` others.
  int64_t object_elements = -1;
  int64_t object_offset = 0;
  // The rows of this rank: `global_shape` and `box` are theirs, and the array
  // that is stored has those of all ranks, one behind the other (rows.h). Null:
  // no rows.
  std::shared_ptr<const RankRows> rows = nullptr;
  // The elements are the bytes of structs, one struct along the last axis, and
  // lie in memory as this says (fields.h). Null: they are no structs.
  std::shared_ptr<const StructLayout> structs = nullptr;
  // The memory must not be written: a restore refuses it.
  bool is_const = false;
  // Elements from one index of an axis to the next; empty: dense, row-major.
  Shape strides = {};
  std::shared_ptr<const GhostCells> ghosts = nullptr;  // null: none
};

}  // namespace belay

#endif  // BELAY_SHARD_H_
