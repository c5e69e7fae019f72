// Results on which all ranks of a communicator agree: either all ranks have a
// value, or all have the same error.
//
// If one rank returns early, the others wait forever in the next exchange.
// Collective functions therefore return Agreed<T>, which is constructed from a
// value or from the error of another Agreed. Only functions of src/mpi turn a
// rank's Status into such an error.
//
//   BELAY_RETURN_IF_AGREED(expr)              returns the error of an Agreed
//   BELAY_ASSIGN_OR_RETURN_AGREED(lhs, expr)  the same, or assigns its value

#ifndef BELAY_CORE_AGREED_H_
#define BELAY_CORE_AGREED_H_

#include <ostream>
#include <type_traits>
#include <utility>

#include "belay/status.h"
#include "core/status_macros.h"

namespace belay {

struct Agreement;  // mpi/collective.h
template <typename T = void>
class Agreed;

class AgreedError {
 public:
  const Status& status() const { return error_; }
  operator absl::Status() && { return std::move(error_); }
  template <typename T>
  operator absl::StatusOr<T>() && {
    return std::move(error_);
  }

 private:
  friend struct Agreement;
  template <typename T>
  friend class Agreed;
  explicit AgreedError(Status error) : error_(std::move(error)) {}

  Status error_;
};

template <typename T>
class [[nodiscard]] Agreed {
 public:
  Agreed(AgreedError error) : result_(std::move(error)) {}
  template <typename U>
  requires(std::is_convertible_v<U&&, T> &&
           !std::is_same_v<std::remove_cvref_t<U>, Status>) Agreed(U&& value)
      : result_(T(std::forward<U>(value))) {}

  bool ok() const { return result_.ok(); }
  const Status& status() const { return result_.status(); }
  // Requires an error.
  AgreedError error() const { return AgreedError(result_.status()); }
  Agreed<void> ended() const;

  T& value() & { return result_.value(); }
  T&& value() && { return std::move(result_).value(); }
  T& operator*() & { return *result_; }
  const T& operator*() const& { return *result_; }
  T&& operator*() && { return *std::move(result_); }
  T* operator->() { return &*result_; }
  const T* operator->() const { return &*result_; }

  operator absl::StatusOr<T>() && { return std::move(result_); }

 private:
  StatusOr<T> result_;
};

template <>
class [[nodiscard]] Agreed<void> {
 public:
  Agreed() = default;
  Agreed(AgreedError error) : status_(std::move(error)) {}

  bool ok() const { return status_.ok(); }
  const Status& status() const { return status_; }
  // Requires an error.
  AgreedError error() const { return AgreedError(status_); }

  friend bool operator==(const Agreed& agreed, const Status& status) {
    return agreed.status_ == status;
  }
  friend std::ostream& operator<<(std::ostream& out, const Agreed& agreed) {
    return out << agreed.status_;
  }
  operator absl::Status() && { return std::move(status_); }

 private:
  Status status_;
};

template <typename T>
Agreed<void> Agreed<T>::ended() const {
  if (ok()) return {};
  return error();
}

}  // namespace belay

#define BELAY_RETURN_IF_AGREED(expr)                       \
  do {                                                     \
    const auto& belay_agreed_ = (expr);                    \
    if (!belay_agreed_.ok()) return belay_agreed_.error(); \
  } while (false)

#define BELAY_ASSIGN_OR_RETURN_AGREED_(result, lhs, expr) \
  auto result = (expr);                                   \
  if (!result.ok()) return result.error();                \
  lhs = std::move(result).value()

#define BELAY_ASSIGN_OR_RETURN_AGREED(lhs, expr)                               \
  BELAY_ASSIGN_OR_RETURN_AGREED_(BELAY_MACRO_CONCAT_(belay_agreed_, __LINE__), \
                                 lhs, expr)

#endif  // BELAY_CORE_AGREED_H_
