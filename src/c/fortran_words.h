// Errors name axes, boxes and shapes as C has them: from 0, the slowest axis
// first. Fortran counts from 1, and its first axis is the fastest.

#ifndef BELAY_C_FORTRAN_WORDS_H_
#define BELAY_C_FORTRAN_WORDS_H_

#include <string>
#include <string_view>

namespace belay::c {

// Returns a message with boxes as sections, such as (1:4, 3:8), and with shapes
// and axes in the order of Fortran. What else stands in quotes stays as it is.
// Local.
std::string InAxesOfFortran(std::string_view message);

}  // namespace belay::c

#endif  // BELAY_C_FORTRAN_WORDS_H_
