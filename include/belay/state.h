// The state of a program as a flat list of named values.
//
// A State borrows the caller's memory: add every value once, then pass the
// State to Save and Restore as often as wanted. Adding does no I/O. A mistake
// (a null pointer, an unknown dtype) is remembered and returned by Save or
// Restore.

#ifndef BELAY_STATE_H_
#define BELAY_STATE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "belay/box.h"
#include "belay/dtype.h"
#include "belay/layout.h"
#include "belay/shard.h"
#include "belay/status.h"

namespace belay {

class ShardedVariable;

class State {
 public:
  // The replica number of values that every rank holds whole; Save puts the
  // rank in its place.
  static constexpr int64_t kReplicaIsRank = -1;

  // Adds a scalar or a std::string that every rank holds, equal on all ranks:
  // one of them is written, and nobody compares. A struct is added field by
  // field. Local.
  template <typename T>
  void Add(std::string_view key, T* value) {
    if constexpr (std::is_same_v<T, std::string>) {
      AddText(key, value);
    } else {
      AddReplicated(key, Shape{}, value);
    }
  }

  // Adds an array that every rank holds whole, equal on all ranks as above.
  // Local.
  template <typename T>
  void AddReplicated(std::string_view key, const Shape& shape, T* data) {
    AddShard({.key = std::string(key),
              .dtype = DTypeOf<T>(),
              .global_shape = shape,
              .box = WholeBox(shape),
              .replica = kReplicaIsRank,
              .data = data});
  }

  // Adds the piece `box` of an array that is cut over the ranks. May be called
  // several times for one key with other boxes, and not at all on ranks that
  // hold nothing. The pieces of all ranks must tile the array. Local.
  template <typename T>
  void AddPiece(std::string_view key, const Shape& global_shape, const Box& box,
                T* data) {
    AddShard({.key = std::string(key),
              .dtype = DTypeOf<T>(),
              .global_shape = global_shape,
              .box = box,
              .data = data});
  }

  // Adds this rank's piece of an array that is laid out on a mesh; `data`
  // holds layout.LocalBox(global_shape, rank). Local.
  template <typename T>
  void AddLaidOut(std::string_view key, const Layout& layout,
                  const Shape& global_shape, int rank, T* data) {
    AddLaidOutBytes(key, DTypeOf<T>(), layout, global_shape, rank, data);
  }

  // The same for a type that is known at run time only. Local.
  void AddLaidOutBytes(std::string_view key, DType dtype, const Layout& layout,
                       const Shape& global_shape, int rank, void* data);

  // Adds the components of a variable that this rank holds, each as one shard.
  // The variable can be restored with any other components. Local.
  void AddShardedVariable(std::string_view key, ShardedVariable& variable);

  // Adds a shard as it is; its device is filled in by Save. Local.
  void AddShard(Shard shard);

  // What was added, in order. Local.
  const std::vector<Shard>& shards() const { return shards_; }

  // The first mistake that was made while adding. Local.
  const Status& status() const { return status_; }

 private:
  void AddText(std::string_view key, std::string* value);

  std::vector<Shard> shards_;
  Status status_;
};

}  // namespace belay

#endif  // BELAY_STATE_H_
