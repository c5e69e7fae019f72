// Fault points: places where a test can make an operation fail.
//
// Every call that may fail for a reason outside the program (HDF5, MPI, POSIX)
// passes exactly one point. A process numbers its points from 1, in the order
// in which it passes them. A point that is off costs one load.

#ifndef BELAY_CORE_FAULT_H_
#define BELAY_CORE_FAULT_H_

#include <cstdint>
#include <string_view>

#include "belay/status.h"

namespace belay::fault {

// Starts counting at 0 and makes `how_many` points fail, from the `number`-th
// on; number 0 makes none fail, a negative number is Disarm.
void Arm(int64_t number, int64_t how_many = 1);

void Disarm();

int64_t Count();

// Returns the number of the last Arm; negative after Disarm.
int64_t Armed();

// Goes on counting from there, after points that a child has passed.
void SkipTo(int64_t count);

// Returns OK, or Internal `SITE: injected fault` if this point is to fail.
// `site` names the operation, such as "write" or "MPI_Allreduce". Comes after a
// collective operation, so that the rank takes part.
Status Point(std::string_view site);

}  // namespace belay::fault

#endif  // BELAY_CORE_FAULT_H_
