// The return types of belay, and the meaning of the codes.
//
// belay uses absl::Status and absl::StatusOr unchanged. A collective call
// returns the same code and message on every rank; the message ends with the
// lowest failing rank and the number of ranks, "[rank 2 of 4]".
//
//   InvalidArgument     a caller's value is wrong, or ranks disagree
//   FailedPrecondition  wrong state, or a stored dtype or shape that differs
//   NotFound            no such checkpoint, file or key
//   AlreadyExists       the step is already committed
//   OutOfRange          a box or an index outside its shape
//   ResourceExhausted   space, quota or memory
//   PermissionDenied    the file system refuses
//   DataLoss            checksum, truncation, hole or damaged index
//   DeadlineExceeded    a helper process took too long (if a rank does not
//                       arrive, the others end the job)
//   Unavailable         the file system fails in a way that may be temporary
//   Unimplemented       not supported here; says what is
//   Internal            HDF5, MPI or the system failed; with its own text
//
// A message reads: operation "object": cause (need N unit, found M).

#ifndef BELAY_STATUS_H_
#define BELAY_STATUS_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "belay/cxx20.h"

namespace belay {

using absl::Status;
using absl::StatusOr;

}  // namespace belay

#endif  // BELAY_STATUS_H_
