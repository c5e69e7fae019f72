// The time of day.

#ifndef BELAY_BASE_PROCESS_UNIX_TIME_H_
#define BELAY_BASE_PROCESS_UNIX_TIME_H_

namespace belay {

// Seconds since 1970 by the system's clock, which somebody may set. Local.
double UnixTime();

// The same as of the first call in this process, and from then on by a clock
// that nobody can set: the difference of two of these is the time between them.
// Local.
double SteadyUnixTime();

}  // namespace belay

#endif  // BELAY_BASE_PROCESS_UNIX_TIME_H_
