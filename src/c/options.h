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

// Checks that the only option is deadline_seconds, and that it is valid.
// DeadlineOf returns its value.
Status CheckCommOptions(const belay_options* given);

// Helpers for collective calls: read the arguments before the call, and return
// values to the program after it.

// Calls `prepare`, which must not communicate, and agrees on its Status, which
// is ResourceExhausted or Internal if it threw. Collective. If a rank does not
// arrive within the deadline, the message names `operation`.
Status PrepareTogether(const Comm& comm, double deadline_seconds,
                       const std::string& operation,
                       const std::function<Status()>& prepare);

// Returns an operation's name for messages: `save "run"`. `dir` may be null.
std::string OperationOn(const char* operation, const char* dir);

// Returns the option deadline_seconds, or its default if it is not set or is
// not a number from 0 up.
double DeadlineOf(const belay_options* options);

// Checks a state, and reads the values that it does not access by itself:
// strings in the program's buffers, and the counts of its rows.
// Errors: InvalidArgument - the state is null; the first error in adding to it;
//   those of TakeRows.
Status TakeValues(belay_state* state);

// Writes restored strings and counts of rows to the program's memory. The keys
// `missing`, ascending, were not restored.
// Errors: OutOfRange - a string is longer than its buffer; those of GiveCounts.
Status GiveValues(const std::vector<std::string>& missing, belay_state& state);

// Copies a string of the program to `taken`.
// Errors: InvalidArgument - the string is null; names the argument.
Status TakeText(const char* name, const char* text, std::string& taken);

}  // namespace belay::c

#endif  // BELAY_C_OPTIONS_H_
