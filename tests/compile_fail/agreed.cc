// Which errors can be those of a collective function. Case 0 has to compile;
// each other one has to be refused with the text behind it.
#include "core/agreed.h"

#include "core/status_macros.h"
#include "mpi/collective.h"

namespace {

using belay::Agree;
using belay::Agreed;
using belay::CommContext;
using belay::Status;
using belay::StatusOr;

Status Local();
StatusOr<int> LocalNumber();
Agreed<int> Number();

Agreed<> Collective(CommContext& context) {
#if CASE == 0
  BELAY_RETURN_IF_AGREED(Agree(context, Local()));
  BELAY_ASSIGN_OR_RETURN_AGREED(const int number, Number());
  return number > 0 ? Agree(context, Local()) : Agreed<>();
#elif CASE == 1  // could not convert
  BELAY_RETURN_IF_ERROR(Local());
#elif CASE == 2  // has no member named
  BELAY_RETURN_IF_AGREED(Local());
#elif CASE == 3  // has no member named
  BELAY_ASSIGN_OR_RETURN_AGREED(const int number, LocalNumber());
  return number > 0 ? Agree(context, Local()) : Agreed<>();
#elif CASE == 4  // could not convert
  BELAY_ASSIGN_OR_RETURN(const int number, Number());
  return number > 0 ? Agree(context, Local()) : Agreed<>();
#elif CASE == 5  // could not convert
  return Local();
#elif CASE == 6  // is private within this context
  return belay::AgreedError(Local());
#else
#error no such case
#endif
}

}  // namespace
