// Fault points: places where a test can make an operation fail.
//
// Every call that may fail for a reason outside the program (HDF5, MPI, POSIX)
// passes exactly one point. Each process numbers the points from 1, in the
// order in which it passes them. A disarmed point costs one load.

#ifndef BELAY_CORE_FAULT_H_
#define BELAY_CORE_FAULT_H_

#include <cstdint>
#include <string_view>

#include "belay/status.h"

namespace belay::fault {

// Resets the count to 0 and makes `how_many` points fail, starting with number
// `number`. If `number` is 0, none fails; a negative number is the same as
// Disarm.
void Arm(int64_t number, int64_t how_many = 1);

void Disarm();

int64_t Count();

// Returns the number passed to the last Arm; negative after Disarm.
int64_t Armed();

// Continues counting from `count`, after points that a child process has
// passed.
void SkipTo(int64_t count);

// Returns OK, or Internal `SITE: injected fault` if this point is set to fail.
// `site` names the operation, such as "write" or "MPI_Allreduce". Call it after
// a collective operation, so that this rank has taken part.
Status Point(std::string_view site);

}  // namespace belay::fault

#endif  // BELAY_CORE_FAULT_H_
