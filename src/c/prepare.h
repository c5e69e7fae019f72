// What surrounds a collective call: arguments before it, strings after it.

#ifndef BELAY_C_PREPARE_H_
#define BELAY_C_PREPARE_H_

#include <functional>
#include <string>
#include <vector>

#include "belay/comm.h"
#include "belay/status.h"
#include "c/handles.h"

namespace belay::c {

// Calls `prepare`, which must not communicate, and returns the same Status on
// all ranks: its own, or ResourceExhausted or Internal if it threw. Collective.
// `operation` is named if a rank does not arrive within the deadline.
Status PrepareTogether(const Comm& comm, double deadline_seconds,
                       const std::string& operation,
                       const std::function<Status()>& prepare);

// Names an operation as messages do: `save "run"`. `dir` may be null. Local.
std::string OperationOn(const char* operation, const char* dir);

// Returns the option deadline_seconds, its default if it is no number. Local.
double DeadlineOf(const belay_options* options);

// Checks a State, and takes what the program has beside the elements of arrays:
// the strings in its buffers and the numbers of its rows. Local.
// Errors: InvalidArgument - it is null; the first mistake in adding to it;
//   those of TakeRows.
Status TakeValues(belay_state* state);

// Gives the program what a restore has changed of these; the keys `missing`,
// ascending, it has not. Local.
// Errors: OutOfRange - a string is longer than its buffer; those of GiveCounts.
Status GiveValues(const std::vector<std::string>& missing, belay_state& state);

// Copies a string of the program. Local.
// Errors: InvalidArgument - it is null; names the argument.
Status TakeText(const char* name, const char* text, std::string& taken);

}  // namespace belay::c

#endif  // BELAY_C_PREPARE_H_
