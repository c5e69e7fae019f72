// The state of a program as a flat list of named values.
//
// A State borrows the caller's memory: add every value once, then pass the
// State to Save and Restore as often as wanted. Adding does no I/O. A mistake
// (a null pointer, memory of another size than its box) is remembered and
// returned by Save or Restore.

#ifndef BELAY_STATE_H_
#define BELAY_STATE_H_

#include <cstdint>
#include <memory>
#include <ranges>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "belay/box.h"
#include "belay/dtype.h"
#include "belay/flat_buffer.h"
#include "belay/layout.h"
#include "belay/memory.h"
#include "belay/rows.h"
#include "belay/shard.h"
#include "belay/status.h"
#include "belay/type_handler.h"

namespace belay {

class ShardedVariable;
class Tensor;

// A value whose C++ type is known.
struct TypedValue {
  std::string key;
  ValueRef value;
  // What lists it if the registry has no handler for its type; may be null.
  TypeHandlerPtr handler;
  // Its place among the shards if it needs no handler, else -1.
  int64_t shard = -1;
};

// What State::Add tells apart: a value, and what a pointer leads to.
template <typename T>
concept NoPointer = !std::is_pointer_v<std::remove_cvref_t<T>>;
template <typename T>
concept SingleNumber = Element<std::remove_const_t<T>>;
template <typename T>
concept NoSingleNumber = !SingleNumber<T>;

class State {
 public:
  // The replica number of values that every rank holds whole; Save puts the
  // rank in its place.
  static constexpr int64_t kReplicaIsRank = -1;

  // Adds a value that every rank holds, equal on all ranks unless its handler
  // says otherwise: see SaveOptions::check_replicas. A number, an enum, a
  // std::string, a contiguous range of numbers, a Tensor and a ShardedVariable
  // need no handler; any other class does. Of a std::string, a Tensor and a
  // range that can change its length, as a std::vector, each save and restore
  // asks anew where the elements lie and how many there are, and such a range
  // takes the stored length. Any other range, as a std::span, is asked here,
  // once, and keeps its length. A const value can be saved only. Local.
  template <NoPointer T>
  void Add(std::string_view key, T&& value) {
    using V = std::remove_reference_t<T>;
    using U = std::remove_const_t<V>;
    constexpr bool kHasAddress = std::is_lvalue_reference_v<T>;
    tracking::RequireThatItLasts<T, kHasAddress ||
                                        std::ranges::borrowed_range<T>>();
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
      AddValue(key, RefTo(value), StandardHandler<U>::Get());
    }
  }

  // The same for what the pointer leads to. Local.
  template <NoSingleNumber T>
  void Add(std::string_view key, T* const& value) {
    static_assert(!std::is_pointer_v<T>,
                  "belay stores numbers and objects of classes, no pointers");
    if (value == nullptr) return AddNull(key);
    Add(key, *value);
  }

  // The one number that the pointer leads to: a pointer does not say whether
  // more lie behind it. Local.
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

  // Adds a value of which each rank has its own: a number, a contiguous range
  // of numbers, whose length need not be that of other ranks, or a std::string,
  // whose bytes are stored. As many ranks as have saved get their own back, and
  // a range that can change its length takes that of what it gets; for another
  // number of ranks the options say what each gets, and an error is the
  // default. Stored as AddRows does. Local.
  template <NoPointer T>
  void AddPerRank(std::string_view key, T&& value,
                  const PerRankOptions& options = {}) {
    using V = std::remove_reference_t<T>;
    tracking::RequireThatItLasts<T, std::is_lvalue_reference_v<T> ||
                                        std::ranges::borrowed_range<T>>();
    static_assert(!kIsText<V>,
                  "belay would store the chars of this array, its end with "
                  "them: add a std::string, or numbers of another type");
    static_assert(PerRankValue<T>,
                  "belay stores numbers of at most 8 bytes, structs whose "
                  "fields belay::RowType lists (belay/fields.h), contiguous "
                  "ranges of both, and std::strings per rank");
    if constexpr (PerRankValue<T>) {
      AddRowsShard(key, PerRankOf<V>(value, options));
    }
  }

  // The same for what the pointer leads to, as above. Local.
  template <NoSingleNumber T>
  void AddPerRank(std::string_view key, T* const& value,
                  const PerRankOptions& options = {}) {
    if (value == nullptr) return AddNull(key);
    AddPerRank(key, *value, options);
  }
  // The same for one number, as Add. Local.
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

  // Adds the rows that this rank holds of an array: any number of them, in a
  // range such as std::vector<double> or std::vector<std::array<double, 3>>. A
  // range that can change its length takes that of what it gets. What is stored
  // is one array, [rows of all ranks] or [rows of all ranks, row...], in the
  // order of the ranks. Restored as the options say, by default evenly on
  // another number of ranks. Local.
  template <RowRange R>
  void AddRows(
      std::string_view key, R& rows,
      const RowsOptions<std::remove_cv_t<std::ranges::range_value_t<R>>>&
          options = {}) {
    AddRowsShard(key, RowsOf(rows, options));
  }
  // The same for what a view leads to, such as std::span(pointer, rows). Local.
  template <RowView R>
  void AddRows(
      std::string_view key, R&& rows,
      const RowsOptions<std::remove_cv_t<std::ranges::range_value_t<R>>>&
          options = {}) {
    AddRowsShard(key, RowsOf(rows, options));
  }
  // Does not compile: says what rows are. Local.
  template <NoRowRange R>
  void AddRows(std::string_view, R&) {
    static_assert(RowRange<R>,
                  "belay: rows are a contiguous range, such as a std::vector, "
                  "of numbers, of std::arrays of numbers, or of structs whose "
                  "fields belay::RowType lists (belay/fields.h)");
  }

  // Adds rows that have numbers over all ranks, such as the cells of an
  // unstructured mesh: row i of `rows` is row ids[i] of the array. For a save
  // the ids of all ranks are 0, 1, ... each once, in any order, on any rank; a
  // restore gets the rows of any ids, also of those that others get. Both
  // ranges are asked anew each time, and `rows` takes the length of `ids` in a
  // restore. If the ids are restored as well, in another way, they come first.
  // Stored in the order of the ids. Local.
  template <IdRange Ids, RowRange R>
  void AddRowsById(std::string_view key, const Ids& ids, R& rows,
                   const IdOptions& options = {}) {
    AddRowsShard(key, RowsByIdOf(ids, rows, options));
  }
  // The same for rows that a view leads to. Local.
  template <IdRange Ids, RowView R>
  void AddRowsById(std::string_view key, const Ids& ids, R&& rows,
                   const IdOptions& options = {}) {
    AddRowsShard(key, RowsByIdOf(ids, rows, options));
  }
  // Does not compile: says what ids or rows are. Local.
  template <NoIdRange Ids, RowRange R>
  void AddRowsById(std::string_view, const Ids&, R&, const IdOptions& = {}) {
    static_assert(IdRange<Ids>,
                  "belay: ids are a contiguous range of whole numbers, such as "
                  "a std::vector<int64_t>");
  }
  // As above. Local.
  template <IdRange Ids, NoRowRange R>
  void AddRowsById(std::string_view, const Ids&, R&, const IdOptions& = {}) {
    static_assert(RowRange<R>,
                  "belay: rows are a contiguous range, such as a std::vector, "
                  "of numbers, of std::arrays of numbers, or of structs whose "
                  "fields belay::RowType lists (belay/fields.h)");
  }
  // Does not compile: the ids have to last. Local.
  template <IdsThatLast Ids, RowRange R>
  void AddRowsById(std::string_view key, const Ids&& ids, R& rows,
                   const IdOptions& options = {}) = delete;

  // Adds an array that every rank holds whole, equal on all ranks as above. A
  // range has as many elements as the shape; of a pointer nobody can tell. Here
  // and below, a range such as a std::vector may move its elements, and each
  // save and restore finds them, but keeps its length; what a pointer or a
  // std::span leads to stays where it is. Local.
  void AddReplicated(std::string_view key, const Shape& shape,
                     const Memory& memory);

  // Adds the piece `box` of an array that is cut over the ranks; the memory
  // holds the elements of the box, or these and ghost cells around them, in the
  // order that its MemoryLayout says. May be called several times for one key
  // with other boxes, and not at all on ranks that hold nothing. The pieces of
  // all ranks must tile the array. Local.
  void AddPiece(std::string_view key, const Shape& global_shape, const Box& box,
                const Memory& memory);

  // Adds this rank's piece of an array that is laid out on a mesh; the memory
  // holds layout.LocalBox(global_shape, rank). Local.
  void AddLaidOut(std::string_view key, const Layout& layout,
                  const Shape& global_shape, int rank, const Memory& memory);

  // The same for a type that is known at run time only. Local.
  void AddLaidOutBytes(std::string_view key, DType dtype, const Layout& layout,
                       const Shape& global_shape, int rank, void* data);

  // Adds the elements [begin, end) of a flat buffer, which the memory holds:
  // each piece that they meet, under `prefix` and its key, in boxes that lie
  // where the buffer has them. The ranges of all ranks must cover the pieces.
  // The arrays restore into other ranges, or cut in any other way. Local.
  void AddFlatRange(std::string_view prefix,
                    const std::vector<FlatPiece>& pieces, int64_t begin,
                    int64_t end, const Memory& memory);

  // The same for a type that is known at run time only. Local.
  void AddFlatRangeBytes(std::string_view prefix, DType dtype,
                         const std::vector<FlatPiece>& pieces, int64_t begin,
                         int64_t end, void* data);

  // Adds the components of a variable that this rank holds, each as one shard.
  // The variable can be restored with any other components. Local.
  void AddShardedVariable(std::string_view key, ShardedVariable& variable);

  // Adds a shard as it is. Save fills in the parts of its device that are not
  // set. Local.
  void AddShard(Shard shard);

  // Adds a value for the handler of its type, or for `handler` if the registry
  // has none. Local.
  void AddValue(std::string_view key, const ValueRef& value,
                TypeHandlerPtr handler = nullptr);

  // Holds on to an object until the save or the restore of this State has
  // returned, and the State is gone. For what a handler makes to be listed.
  // Local.
  template <typename T>
  T& Own(std::shared_ptr<T> object) {
    T& kept = *object;
    kept_.push_back(std::move(object));
    return kept;
  }
  // The object that was kept as the one with this number, which is a T. The
  // `more` of TypeHandler::Received has what was kept when the value was
  // listed. Local.
  template <typename T>
  T& Owned(size_t number) const {
    return *static_cast<T*>(kept_.at(number).get());
  }

  // What was added, in order. Local.
  const std::vector<Shard>& shards() const { return shards_; }

  // The values whose type is known, in order. Local.
  const std::vector<TypedValue>& typed() const { return typed_; }

  // The first mistake that was made while adding. Local.
  const Status& status() const { return status_; }

 private:
  friend struct OwnedObjects;

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
      AddReplicated(key, Shape{}, Memory(&value));
    } else {
      AddReplicated(key, Shape{static_cast<int64_t>(std::ranges::size(value))},
                    Memory(value));
      if constexpr (ResizableRange<U>) shards_.back().object_elements = -1;
    }
  }
  void AddRowsShard(std::string_view key, Shard shard) {
    shard.key = std::string(key);
    AddShard(std::move(shard));
  }
  // Adds a shard that has all but its memory.
  void AddMemory(Shard shard, const Memory& memory);
  void AddText(std::string_view key, std::string* value);
  void AddTensor(std::string_view key, Tensor* value);
  void AddNull(std::string_view key);
  void AddError(std::string_view key, const Status& status);

  std::vector<Shard> shards_;
  std::vector<TypedValue> typed_;
  std::vector<std::shared_ptr<void>> kept_;
  Status status_;
};

}  // namespace belay

// What State::Add does with values of these types.
#include "belay/standard_handlers.h"  // IWYU pragma: export

#endif  // BELAY_STATE_H_
