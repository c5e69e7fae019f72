// The fields of a struct, for storing a range of structs.
//
//   struct Particle {
//     int64_t id;
//     double position[3];
//     float charge;
//   };
//   template <>
//   struct belay::RowType<Particle> {
//     static belay::FieldsOf<Particle> Fields() {
//       return {{"id", &Particle::id},
//               {"position", &Particle::position},
//               {"charge", &Particle::charge}};
//     }
//   };
//   state.AddRows("particles", particles);  // std::vector<Particle>
//
// Other programs see a compound type with these names. Only the listed fields
// are stored, packed: no padding and no other members. A field is a number, an
// array of numbers, or a struct that has fields itself, which are then named
// like `position.x`.

#ifndef BELAY_ARRAYS_FIELDS_H_
#define BELAY_ARRAYS_FIELDS_H_

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "belay/arrays/box.h"
#include "belay/arrays/dtype.h"

namespace belay {

struct StructField {
  std::string name;
  DType dtype = DType::kU8;
  Shape shape = {};    // of an array, else empty
  int64_t offset = 0;  // bytes from the start of the struct
};

// How a struct is laid out in memory, and how it is stored.
struct StructLayout {
  // Bytes that are contiguous in memory and in the stored struct.
  struct Part {
    int64_t stored = 0;  // offset in the stored struct
    int64_t memory = 0;  // offset in the program's struct
    int64_t bytes = 0;
  };

  std::vector<StructField> fields;  // in the order in which they are stored
  std::string text;   // stored fields, such as "id:i64 x:f64[3]"; "": bytes
  int64_t bytes = 0;  // of the program's struct
  int64_t stored_bytes = 0;
  std::vector<Part> parts;  // ascending by `stored`
  std::string problem;      // an error in the fields, or ""
};

// Says how rows of T are stored. Programs specialize it for their own structs,
// with FieldsOf or StoredAsBytes.
template <typename T>
struct RowType {};

template <typename T>
class FieldsOf;
template <typename T>
struct StoredAsBytes;

// A struct whose fields the program lists.
template <typename T>
concept StructRow = std::is_class_v<T> && requires {
  { RowType<T>::Fields() } -> std::same_as<FieldsOf<T>>;
};

// Implementation details: how the fields are found.
namespace fields {

// Returns the layout of a struct of `bytes` bytes with these fields. Local.
std::shared_ptr<const StructLayout> LayoutOf(std::vector<StructField> listed,
                                             int64_t bytes);

// Returns the layout of a struct whose bytes are stored unchanged, except that
// bytes not flagged in `is_value` are stored as 0. Local.
std::shared_ptr<const StructLayout> LayoutOfBytes(
    const std::vector<std::byte>& is_value);

template <typename T>
inline constexpr bool kIsStdArray = false;
template <typename T, size_t kLength>
inline constexpr bool kIsStdArray<std::array<T, kLength>> = true;

// Adds the fields of a member of type M. Local.
template <typename M, bool kInArray = false>
void AddMember(const std::string& name, int64_t offset, const Shape& shape,
               std::vector<StructField>& all) {
  if constexpr (Element<M>) {
    all.push_back({name, DTypeOf<M>(), shape, offset});
  } else if constexpr (std::is_bounded_array_v<M>) {
    Shape more = shape;
    more.push_back(static_cast<int64_t>(std::extent_v<M>));
    AddMember<std::remove_extent_t<M>, true>(name, offset, more, all);
  } else if constexpr (kIsStdArray<M>) {
    Shape more = shape;
    more.push_back(static_cast<int64_t>(std::tuple_size_v<M>));
    AddMember<typename M::value_type, true>(name, offset, more, all);
  } else {
    static_assert(StructRow<M> &&
                      !std::is_base_of_v<StoredAsBytes<M>, RowType<M>> &&
                      !kInArray,
                  "belay: a field is a number, an array of numbers or a struct "
                  "whose fields belay::RowType lists; no pointer, which has no "
                  "meaning in another run, and no array of structs");
    const std::shared_ptr<const StructLayout> inner =
        RowType<M>::Fields().layout();
    for (const StructField& field : inner->fields) {
      all.push_back({name + "." + field.name, field.dtype, field.shape,
                     offset + field.offset});
    }
  }
}

// Returns the offset of a member in its struct. Local.
template <typename T, typename M, typename C>
int64_t OffsetOf(M C::*member) {
  alignas(T) static std::byte memory[sizeof(T)] = {};
  const T& object = *reinterpret_cast<const T*>(memory);
  return reinterpret_cast<const std::byte*>(&(object.*member)) - memory;
}

// Flags the bytes of a T that are not padding. Local.
template <typename T>
std::vector<std::byte> ValueBytes() {
  std::vector<std::byte> is_value(sizeof(T), std::byte{1});
#if defined(__has_builtin)
#if __has_builtin(__builtin_clear_padding)
  // Not on the stack: a T may be large.
  std::vector<std::byte> memory(sizeof(T) + alignof(T), std::byte{1});
  void* place = memory.data();
  size_t room = memory.size();
  std::align(alignof(T), sizeof(T), place, room);
  __builtin_clear_padding(static_cast<T*>(place));
  const auto* const begin = static_cast<const std::byte*>(place);
  is_value.assign(begin, begin + sizeof(T));
#else
  static_assert(std::has_unique_object_representations_v<T>,
                "belay: this compiler does not tell where the struct has "
                "padding; list its fields");
#endif
#endif
  return is_value;
}

}  // namespace fields

// One member of T and its stored name, which consists of letters, digits, `_`,
// `-` and `.`.
template <typename T>
struct FieldOf {
  template <typename M, typename C>
  FieldOf(std::string_view name, M C::*member) {
    static_assert(!std::is_function_v<M>, "belay: a field is no function");
    fields::AddMember<std::remove_cv_t<M>>(
        std::string(name), fields::OffsetOf<T>(member), {}, found);
  }

  std::vector<StructField> found;
};

// The fields of T, in the order in which they are stored.
template <typename T>
class FieldsOf {
 public:
  static_assert(std::is_trivially_copyable_v<T>,
                "belay stores structs of plain data, which are trivially "
                "copyable: no std::string or std::vector among their members, "
                "and no constructor that copies them");

  FieldsOf(std::initializer_list<FieldOf<T>> members) {
    std::vector<StructField> all;
    for (const FieldOf<T>& member : members) {
      all.insert(all.end(), member.found.begin(), member.found.end());
    }
    layout_ = fields::LayoutOf(std::move(all), sizeof(T));
  }
  explicit FieldsOf(std::shared_ptr<const StructLayout> layout)
      : layout_(std::move(layout)) {}

  // Local.
  std::shared_ptr<const StructLayout> layout() const { return layout_; }

 private:
  std::shared_ptr<const StructLayout> layout_;
};

// For a struct that is stored as its bytes, which only the program can read:
//
//   template <>
//   struct belay::RowType<Cell> : belay::StoredAsBytes<Cell> {};
//
// Padding is stored as 0. Pointers in it have no meaning in another run.
template <typename T>
struct StoredAsBytes {
  // Local.
  static FieldsOf<T> Fields() {
    static const std::shared_ptr<const StructLayout> kLayout =
        fields::LayoutOfBytes(fields::ValueBytes<T>());
    return FieldsOf<T>(kLayout);
  }
};

}  // namespace belay

#endif  // BELAY_ARRAYS_FIELDS_H_
