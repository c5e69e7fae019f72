// The state of a program: a flat list of named values.
//
// A State borrows the caller's memory: add every value once, then pass the
// State to Save and Restore as often as needed. Adding does no I/O. A mistake
// (a null pointer, memory whose size differs from its box) is stored, and Save
// or Restore returns it.
//
// Each save and restore looks up where the elements of the program's
// containers, such as a std::vector, are at that time. So the program may swap
// them, assign to them, or reserve memory. Functions that take Memory accept a
// pointer only as AtAddress(pointer) (belay/arrays/memory.h).

#ifndef BELAY_STATE_H_
#define BELAY_STATE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <ranges>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "belay/arrays/box.h"
#include "belay/arrays/dtype.h"
#include "belay/arrays/flat_buffer.h"
#include "belay/arrays/layout.h"
#include "belay/arrays/memory.h"
#include "belay/extend/row_shards.h"
#include "belay/extend/shard.h"
#include "belay/extend/type_handler.h"
#include "belay/rows.h"
#include "belay/status.h"

namespace belay {

class ShardedVariable;
class Tensor;

// A value whose C++ type is known.
struct TypedValue {
  std::string key;
  ValueRef value;
  // Used if the registry has no handler for the type of the value; may be null.
  TypeHandlerPtr handler;
  // Its index among the shards if it needs no handler, else -1.
  int64_t shard = -1;
};

// State::Add uses these to distinguish values from pointers to values.
template <typename T>
concept NotPointer = !std::is_pointer_v<std::remove_cvref_t<T>>;
template <typename T>
concept SingleNumber = Element<std::remove_const_t<T>>;
template <typename T>
concept NotSingleNumber = !SingleNumber<T>;

class State {
 public:
  // The replica number of values that every rank holds in full; Save replaces
  // it with the rank.
  static constexpr int64_t kReplicaIsRank = -1;

  // Adds a value that every rank holds. It must be equal on all ranks, to the
  // last bit, unless its handler says otherwise: see
  // SaveOptions::check_replicas and AddFromRank0. A number, an enum, a
  // std::string, a contiguous range of numbers, a Tensor and a
  // ShardedVariable need no handler; any other class does. For a std::string, a
  // Tensor and a resizable range such as a std::vector, each save and restore
  // looks up the address and the length again, and a restore resizes the range
  // to the stored length. Any other container keeps its length. A view must be
  // a temporary, such as std::span(pointer, length), and its elements must stay
  // where they are. A const value can only be saved. Local.
  template <NotPointer T>
  void Add(std::string_view key, T&& value) {
    using V = std::remove_reference_t<T>;
    using U = std::remove_const_t<V>;
    constexpr bool kHasAddress = std::is_lvalue_reference_v<T>;
    tracking::RequireThatItLasts<T, kHasAddress ||
                                        std::ranges::borrowed_range<T>>();
    tracking::RequireThatItIsNoNamedView<T>();
    static_assert(!kIsText<V>,
                  "belay would store the chars of this array, its end with "
                  "them: add a std::string, or numbers of another type");
    if constexpr (kNeedsNoHandler<V>) {
      const size_t shard = shards_.size();
      AddPlain(key, value);
      if constexpr (kHasAddress) {
        if (shards_.size() == shard + 1) {
          typed_.push_back({std::string(key), RefTo(value), nullptr,
                            static_cast<int64_t>(shard)});
        }
      }
      for (size_t i = shard; i < shards_.size(); ++i) {
        shards_[i].is_const |= std::is_const_v<V>;
      }
    } else {
      static_assert(!std::is_arithmetic_v<U>,
                    "belay has no DType for this C++ type");
      static_assert(std::is_class_v<U>,
                    "belay has no value of this type: it stores numbers of at "
                    "most 8 bytes, texts, contiguous ranges of numbers, and "
                    "objects of classes that have a handler");
      AddTyped(key, RefTo(value), StandardHandler<U>::Get());
    }
  }

  // The same for the object that the pointer points to. Local.
  template <NotSingleNumber T>
  void Add(std::string_view key, T* const& value) {
    static_assert(!std::is_pointer_v<T>,
                  "belay stores numbers and class objects, not pointers");
    if (value == nullptr) return AddNull(key);
    Add(key, *value);
  }

  // Adds the single number that the pointer points to, because a pointer has no
  // length. Local.
  template <SingleNumber T>
  [[deprecated(
      "a pointer adds one number, however many lie behind it: add the number "
      "itself, or a range such as std::span(pointer, length)")]] void
  Add(std::string_view key, T* const& number) {
    static_assert(!std::is_same_v<std::remove_const_t<T>, char>,
                  "belay would store one char of this pointer: add a "
                  "std::string, or an int8_t");
    if (number == nullptr) return AddNull(key);
    Add(key, *number);
  }

  // Adds a value that every rank holds but that may differ between ranks, such
  // as a time step that each rank has computed with a different rounding error.
  // A save stores the value of rank 0 and compares nothing; a restore gives it
  // to all ranks. A number, an enum, a std::string, a contiguous range of
  // numbers or a Tensor, as for Add; handlers are not used. Local.
  template <NotPointer T>
  void AddFromRank0(std::string_view key, T&& value) {
    using V = std::remove_reference_t<T>;
    static_assert(kNeedsNoHandler<V> &&
                      !std::is_same_v<std::remove_const_t<V>, ShardedVariable>,
                  "belay saves numbers, texts, contiguous ranges of numbers, "
                  "and Tensors from rank 0");
    const size_t shard = shards_.size(), typed = typed_.size();
    Add(key, std::forward<T>(value));
    SaveFromRank0(shard, typed);
  }
  // The same for an array of any shape, as in AddReplicated. Local.
  void AddFromRank0(std::string_view key, const Shape& shape,
                    const Memory& memory);

  // Adds bytes that only the program can read, such as the state of another
  // library, equal on all ranks. Each save calls `get`. A restore calls `set`
  // on every rank with all stored bytes. For bytes in memory, pass a
  // std::string or a std::vector<std::byte> to Add or, if each rank has its
  // own, to AddPerRank. Local.
  void AddBytes(std::string_view key,
                std::function<StatusOr<std::string>()> get,
                std::function<Status(const std::string&)> set);

  // Adds a value that is separate on each rank: a number, a contiguous range of
  // numbers, whose length may differ between ranks, or a std::string, whose
  // bytes are stored. If the number of ranks is the same as in the save, each
  // rank gets its own value back, and a resizable range is resized to its
  // length. Otherwise the options say what each rank gets; by default it is an
  // error. Stored in the same form as by AddRows. Local.
  template <NotPointer T>
  void AddPerRank(std::string_view key, T&& value,
                  const PerRankOptions& options = {}) {
    using V = std::remove_reference_t<T>;
    tracking::RequireThatItLasts<T, std::is_lvalue_reference_v<T> ||
                                        std::ranges::borrowed_range<T>>();
    tracking::RequireThatItIsNoNamedView<T>();
    static_assert(!kIsText<V>,
                  "belay would store the chars of this array, its end with "
                  "them: add a std::string, or numbers of another type");
    static_assert(
        PerRankValue<T>,
        "belay stores numbers of at most 8 bytes, structs whose "
        "fields belay::RowType lists (belay/arrays/fields.h), contiguous "
        "ranges of both, and std::strings per rank");
    if constexpr (PerRankValue<T>) {
      AddRowsShard(key, PerRankOf<V>(value, options));
    }
  }

  // The same for the object that the pointer points to, as above. Local.
  template <NotSingleNumber T>
  void AddPerRank(std::string_view key, T* const& value,
                  const PerRankOptions& options = {}) {
    if (value == nullptr) return AddNull(key);
    AddPerRank(key, *value, options);
  }
  // The same for a single number, as in Add. Local.
  template <SingleNumber T>
  [[deprecated(
      "a pointer adds one number, however many lie behind it: add the number "
      "itself, or a range such as std::span(pointer, length)")]] void
  AddPerRank(std::string_view key, T* const& number,
             const PerRankOptions& options = {}) {
    static_assert(!std::is_same_v<std::remove_const_t<T>, char>,
                  "belay would store one char of this pointer: add a "
                  "std::string, or an int8_t");
    if (number == nullptr) return AddNull(key);
    AddPerRank(key, *number, options);
  }

  // Adds the rows of an array that this rank holds: any number of them, in a
  // range such as std::vector<double> or std::vector<std::array<double, 3>>. A
  // restore resizes a resizable range to the rows that it gets. The rows of all
  // ranks are stored in rank order as one array, [rows of all ranks] or [rows
  // of all ranks, row...]. The options say how they are restored; by default, a
  // different number of ranks gets even parts. Local.
  template <RowRange R>
  void AddRows(
      std::string_view key, R& rows,
      const RowsOptions<std::remove_cv_t<std::ranges::range_value_t<R>>>&
          options = {}) {
    tracking::RequireThatItIsNoNamedView<R&>();
    AddRowsShard(key, RowsOf(rows, options));
  }
  // The same for the elements of a view, such as std::span(pointer, rows),
  // which must stay where they are. Local.
  template <RowView R>
  void AddRows(
      std::string_view key, R&& rows,
      const RowsOptions<std::remove_cv_t<std::ranges::range_value_t<R>>>&
          options = {}) {
    AddRowsShard(key, RowsOf(rows, options));
  }
  // Does not compile: the error says what rows are. Local.
  template <NotRowRange R>
  void AddRows(std::string_view, R&) {
    static_assert(RowRange<R>,
                  "belay: rows are a contiguous range, such as a std::vector, "
                  "of numbers, of std::arrays of numbers, or of structs whose "
                  "fields belay::RowType lists (belay/arrays/fields.h)");
  }

  // Adds rows with global ids, such as the cells of an unstructured mesh: row i
  // of `rows` is row ids[i] of the array. For a save, the ids of all ranks must
  // be 0, 1, ..., each once, in any order, on any rank. A restore may request
  // the rows of any ids, including ids that other ranks request. Each save and
  // restore looks up both ranges again, and a restore resizes `rows` to the
  // length of `ids`. If the checkpoint also holds the ids, the program must
  // restore them first, in a separate restore. Stored in the order of the ids.
  // Local.
  template <IdRange Ids, RowRange R>
  void AddRowsById(std::string_view key, const Ids& ids, R& rows,
                   const IdOptions& options = {}) {
    tracking::RequireThatItIsNoNamedView<R&>();
    AddRowsShard(key, RowsByIdOf(ids, rows, options));
  }
  // The same for rows that a view refers to. Local.
  template <IdRange Ids, RowView R>
  void AddRowsById(std::string_view key, const Ids& ids, R&& rows,
                   const IdOptions& options = {}) {
    AddRowsShard(key, RowsByIdOf(ids, rows, options));
  }
  // Does not compile: the error says what ids or rows are. Local.
  template <NotIdRange Ids, RowRange R>
  void AddRowsById(std::string_view, const Ids&, R&, const IdOptions& = {}) {
    static_assert(IdRange<Ids>,
                  "belay: ids are a contiguous range of whole numbers, such as "
                  "a std::vector<int64_t>");
  }
  // As above. Local.
  template <IdRange Ids, NotRowRange R>
  void AddRowsById(std::string_view, const Ids&, R&, const IdOptions& = {}) {
    static_assert(RowRange<R>,
                  "belay: rows are a contiguous range, such as a std::vector, "
                  "of numbers, of std::arrays of numbers, or of structs whose "
                  "fields belay::RowType lists (belay/arrays/fields.h)");
  }
  // Does not compile: the ids must outlive the call. Local.
  template <LastingIds Ids, RowRange R>
  void AddRowsById(std::string_view key, const Ids&& ids, R& rows,
                   const IdOptions& options = {}) = delete;

  // Adds an array that every rank holds in full and that is equal on all ranks,
  // as above. Here and below, the memory must have as many elements as the
  // shape, or as the box with its ghost cells. A container must keep that
  // length; otherwise the next save or restore returns an error. Local.
  void AddReplicated(std::string_view key, const Shape& shape,
                     const Memory& memory);

  // Adds the piece `box` of an array that is partitioned over the ranks. The
  // memory holds the elements of the box, possibly with ghost cells around
  // them, in the order given by its MemoryLayout. May be called several times
  // for one key with different boxes. Ranks that hold no piece do not call it.
  // The pieces of all ranks must tile the array. Local.
  void AddPiece(std::string_view key, const Shape& global_shape, const Box& box,
                const Memory& memory);

  // Adds this rank's piece of an array that is laid out on a mesh of as many
  // ranks as the communicator has; a save or a restore refuses any other mesh.
  // The memory holds layout.LocalBox(global_shape, rank). If only some ranks
  // hold the array, add it with AddPiece and that box. Local.
  void AddLaidOut(std::string_view key, const Layout& layout,
                  const Shape& global_shape, int rank, const Memory& memory);

  // Adds the elements [begin, end) of a flat buffer, which the memory holds.
  // Each piece that overlaps the range is added under `prefix` and its key, as
  // boxes at their positions in the buffer. The ranges of all ranks must cover
  // the pieces. The arrays can be restored into other ranges or any other
  // partition. Local.
  void AddFlatRange(std::string_view prefix,
                    const std::vector<FlatPiece>& pieces, int64_t begin,
                    int64_t end, const Memory& memory);

  // Adds the components of a variable that this rank holds, one shard each. The
  // variable may be restored with any other components. Local.
  void AddShardedVariable(std::string_view key, ShardedVariable& variable);

  // Returns the added shards, in order. Local.
  const std::vector<Shard>& shards() const { return shards_; }

  // Returns the values whose type is known, in order. Local.
  const std::vector<TypedValue>& typed() const { return typed_; }

  // Returns the first mistake made while adding. Local.
  const Status& status() const { return status_; }

 private:
  // belay/extend/state.h
  friend void AddShard(State& state, Shard shard);
  friend void AddValue(State& state, std::string_view key,
                       const ValueRef& value, TypeHandlerPtr handler);
  template <typename T>
  friend T& Own(State& state, std::shared_ptr<T> object);
  template <typename T>
  friend T& Owned(const State& state, size_t number);
  friend void SetAddress(State& state, size_t number, void* begin);
  friend struct OwnedObjects;
  friend struct StateVersion;

  template <typename T>
  static constexpr bool kNeedsNoHandler =
      Element<std::remove_const_t<T>> ||
      std::is_same_v<std::remove_const_t<T>, std::string> || ElementRange<T> ||
      std::is_same_v<std::remove_const_t<T>, Tensor> ||
      std::is_same_v<std::remove_const_t<T>, ShardedVariable>;
  template <typename T>
  static constexpr bool kIsText = std::is_array_v<T>&&
      std::is_same_v<std::remove_cv_t<std::remove_extent_t<T>>, char>;

  template <typename T>
  void AddPlain(std::string_view key, T& value) {
    using U = std::remove_const_t<T>;
    if constexpr (std::is_same_v<U, std::string>) {
      AddText(key, const_cast<U*>(&value));
    } else if constexpr (std::is_same_v<U, Tensor>) {
      AddTensor(key, const_cast<U*>(&value));
    } else if constexpr (std::is_same_v<U, ShardedVariable>) {
      AddShardedVariable(key, const_cast<U&>(value));
    } else if constexpr (Element<U>) {
      AddReplicated(key, Shape{}, AtAddress(&value));
    } else {
      const Shape shape = {static_cast<int64_t>(std::ranges::size(value))};
      if constexpr (tracking::kIsView<T>) {
        AddReplicated(key, shape, Memory::PresentOnly(value));
      } else {
        AddReplicated(key, shape, Memory(value));
      }
      if constexpr (ResizableRange<U>) shards_.back().object_elements = -1;
    }
  }
  void AddRowsShard(std::string_view key, Shard shard) {
    shard.key = std::string(key);
    AddShard(std::move(shard));
  }
  void AddShard(Shard shard);
  void AddTyped(std::string_view key, const ValueRef& value,
                TypeHandlerPtr handler);
  // Adds a shard that lacks only its memory.
  void AddMemory(Shard shard, const Memory& memory);
  // Marks the shards and typed values from these indexes on as saved from rank
  // 0.
  void SaveFromRank0(size_t first_shard, size_t first_typed);
  void AddText(std::string_view key, std::string* value);
  void AddTensor(std::string_view key, Tensor* value);
  void AddNull(std::string_view key);
  void AddError(std::string_view key, const Status& status);

  std::vector<Shard> shards_;
  std::vector<TypedValue> typed_;
  std::vector<std::shared_ptr<void>> kept_;
  std::vector<std::shared_ptr<void>> functions_;  // of Memory
  uint64_t version_ = 0;  // changes with each value that is added
  Status status_;
};

}  // namespace belay

// How State::Add handles values of these types.
#include "belay/handlers/standard_handlers.h"  // IWYU pragma: export

#endif  // BELAY_STATE_H_
