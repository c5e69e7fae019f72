// What a call of C gets as options, and what surrounds such a call.

#ifndef BELAY_C_OPTIONS_H_
#define BELAY_C_OPTIONS_H_

#include <functional>
#include <string>
#include <vector>

#include "belay/belay_c.h"
#include "belay/comm.h"
#include "belay/options.h"
#include "belay/status.h"
#include "c/handles.h"
#include "core/option_text.h"
#include "core/status_macros.h"

namespace belay::c {

// The texts of null are none.
OptionReader ReaderOf(const belay_options* options);

// Reads the options of a call.
// Errors: InvalidArgument - an unknown name, or a value that cannot be read.
template <typename Options>
Status ReadOptions(const belay_options* given, Options& options) {
  if (given != nullptr) BELAY_RETURN_IF_ERROR(given->status);
  OptionReader reader = ReaderOf(given);
  reader.ReadAll(options);
  return reader.Finish();
}

Status ReadRestoreOptions(const belay_options* given, RestoreOptions& options);

// The option deadline_seconds alone, which DeadlineOf returns.
Status CheckCommOptions(const belay_options* given);

// What surrounds a collective call: arguments before it, strings after it.

// Calls `prepare`, which must not communicate, and returns the same Status on
// all ranks: its own, or ResourceExhausted or Internal if it threw. Collective.
// `operation` is named if a rank does not arrive within the deadline.
Status PrepareTogether(const Comm& comm, double deadline_seconds,
                       const std::string& operation,
                       const std::function<Status()>& prepare);

// Names an operation as messages do: `save "run"`. `dir` may be null.
std::string OperationOn(const char* operation, const char* dir);

// Returns the option deadline_seconds, its default if it is no number.
double DeadlineOf(const belay_options* options);

// Checks a State, and takes what the program has beside the elements of arrays:
// the strings in its buffers and the numbers of its rows.
// Errors: InvalidArgument - it is null; the first mistake in adding to it;
//   those of TakeRows.
Status TakeValues(belay_state* state);

// Gives the program what a restore has changed of these; the keys `missing`,
// ascending, it has not.
// Errors: OutOfRange - a string is longer than its buffer; those of GiveCounts.
Status GiveValues(const std::vector<std::string>& missing, belay_state& state);

// Copies a string of the program.
// Errors: InvalidArgument - it is null; names the argument.
Status TakeText(const char* name, const char* text, std::string& taken);

}  // namespace belay::c

#endif  // BELAY_C_OPTIONS_H_
