// Fault points: places where a test can make an operation fail.
//
// Every call that may fail for a reason outside the program (HDF5, MPI, POSIX)
// passes through exactly one point. Points are numbered per process in the
// order in which they are passed, from 1. Off, a point costs one load.

#ifndef BELAY_CORE_FAULT_H_
#define BELAY_CORE_FAULT_H_

#include <cstdint>
#include <string_view>

#include "belay/status.h"

namespace belay::fault {

// Starts counting at 0 and makes the `number`-th point from now fail, and as
// many after it as `how_many` says; 0 makes none fail; a negative number is
// Disarm.
void Arm(int64_t number, int64_t how_many = 1);

// Stops counting and failing.
void Disarm();

// Returns how many points were passed since Arm.
int64_t Count();

// Returns what Arm got last; negative after Disarm.
int64_t Armed();

// Goes on from there: a child has passed points up to this one.
void SkipTo(int64_t count);

// Returns OK, or Internal `SITE: injected fault` if this is the point that was
// chosen. `site` names the operation, such as "write" or "MPI_Allreduce". For
// a collective operation, call this after it, so that the rank takes part.
Status Point(std::string_view site);

}  // namespace belay::fault

#endif  // BELAY_CORE_FAULT_H_
