// Early returns with an error of this rank alone. For errors on which all ranks
// agree, use the macros of core/agreed.h, which accept only such errors.

#ifndef BELAY_CORE_STATUS_MACROS_H_
#define BELAY_CORE_STATUS_MACROS_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define BELAY_MACRO_CONCAT_INNER_(a, b) a##b
#define BELAY_MACRO_CONCAT_(a, b) BELAY_MACRO_CONCAT_INNER_(a, b)

#define BELAY_ASSIGN_OR_RETURN_(result, lhs, expr) \
  auto result = (expr);                            \
  if (!result.ok()) return result.status();        \
  lhs = std::move(result).value()

#define BELAY_RETURN_IF_ERROR(expr)                \
  do {                                             \
    ::absl::Status belay_status_ = (expr);         \
    if (!belay_status_.ok()) return belay_status_; \
  } while (false)
#define BELAY_ASSIGN_OR_RETURN(lhs, expr)                                    \
  BELAY_ASSIGN_OR_RETURN_(BELAY_MACRO_CONCAT_(belay_result_, __LINE__), lhs, \
                          expr)

#endif  // BELAY_CORE_STATUS_MACROS_H_
