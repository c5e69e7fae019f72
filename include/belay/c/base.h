// The C interface: handles, codes, element types, errors, log messages.
//
// belay/belay_c.h includes it and explains errors and ownership.

#ifndef BELAY_C_BASE_H_
#define BELAY_C_BASE_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct belay_comm belay_comm;
typedef struct belay_options belay_options;
typedef struct belay_state belay_state;
typedef struct belay_saver belay_saver;
typedef struct belay_manager belay_manager;
typedef struct belay_reader belay_reader;
typedef struct belay_fields belay_fields;
typedef struct belay_grouping belay_grouping;
typedef struct belay_run belay_run;

// Error codes, the same as those of absl::Status. docs/errors.md explains them.
enum belay_code {
  BELAY_OK = 0,
  BELAY_CANCELLED = 1,
  BELAY_UNKNOWN = 2,
  BELAY_INVALID_ARGUMENT = 3,
  BELAY_DEADLINE_EXCEEDED = 4,
  BELAY_NOT_FOUND = 5,
  BELAY_ALREADY_EXISTS = 6,
  BELAY_PERMISSION_DENIED = 7,
  BELAY_RESOURCE_EXHAUSTED = 8,
  BELAY_FAILED_PRECONDITION = 9,
  BELAY_ABORTED = 10,
  BELAY_OUT_OF_RANGE = 11,
  BELAY_UNIMPLEMENTED = 12,
  BELAY_INTERNAL = 13,
  BELAY_UNAVAILABLE = 14,
  BELAY_DATA_LOSS = 15,
  BELAY_UNAUTHENTICATED = 16
};

// Element types, with the numbers of belay::DType.
enum belay_dtype {
  BELAY_F16 = 1,
  BELAY_BF16 = 2,
  BELAY_F32 = 3,
  BELAY_F64 = 4,
  BELAY_F8E4M3 = 5,
  BELAY_F8E5M2 = 6,
  BELAY_I8 = 7,
  BELAY_I16 = 8,
  BELAY_I32 = 9,
  BELAY_I64 = 10,
  BELAY_U8 = 11,
  BELAY_U16 = 12,
  BELAY_U32 = 13,
  BELAY_U64 = 14,
  BELAY_BOOL = 15,   // one byte, 0 or 1
  BELAY_C64 = 16,    // two f32: real, imaginary
  BELAY_C128 = 17,   // two f64: real, imaginary
  BELAY_STRING = 18  // only as a result of belay_reader_describe
};

// What a rank gets if per-rank values were saved on a different number of
// ranks.
enum belay_other_ranks {
  BELAY_OTHER_RANKS_ERROR = 0,  // an error
  BELAY_OTHER_RANKS_EVEN = 1,   // all elements in rank order, split evenly
  BELAY_OTHER_RANKS_FIRST = 2   // the values of rank 0
};

// What a call has done that saves a step if it is due.
enum belay_outcome {
  BELAY_STEP_SKIPPED = 0,  // nothing: no save was due
  BELAY_STEP_SAVED = 1,    // the step is committed
  BELAY_STEP_BEGUN = 2,    // a thread writes it; it may still fail
  BELAY_STEP_FAILED = 3    // the save has failed, which the options tolerate
};

// The last argument of such a function is a null pointer.
#ifdef __GNUC__
#define BELAY_ENDS_WITH_NULL __attribute__((sentinel))
#else
#define BELAY_ENDS_WITH_NULL
#endif

// The exit code of a program that has stopped in time, for its batch script.
#define BELAY_STOPPED_EXIT_CODE 85

// In place of a step number: the newest step.
#define BELAY_LATEST_STEP INT64_MIN
// As a result: no step. Numbers of steps are never negative.
#define BELAY_NO_STEP ((int64_t)-1)

// --- Errors and versions ---

// Returns the text of the last error of this thread; "" if there was none.
// Local. The text is valid until the next error of this thread. A call that
// succeeds leaves it as it is.
const char* belay_error_message(void);

// Makes all later errors print boxes, shapes and axes as in Fortran: the
// fastest axis first, indexes counted from 1, and boxes as array sections.
// Local. For bindings of languages with this convention.
void belay_use_fortran_axes(void);

// Does nothing if the code is BELAY_OK. Otherwise prints it with the text of
// the last error, and ends all ranks of the job with exit code 1. An error that
// all ranks got is printed once. Local. For programs that cannot continue after
// an error:
//   belay_check(belay_save(comm, dir, step, state, NULL), __FILE__, __LINE__);
// `file` may be null.
void belay_check(int code, const char* file, int line);

// Returns the name of a code, such as "NOT_FOUND"; "" for other numbers. Local.
const char* belay_code_name(int code);

// Returns the version of the library that is loaded, such as "0.1.0". Local.
const char* belay_version(void);

// --- Log messages ---

enum belay_log_level {
  BELAY_LOG_DEBUG = 0,    // duration of each stage of a save or a restore
  BELAY_LOG_INFO = 1,     // a save or a restore is done; notes of a manager
  BELAY_LOG_WARNING = 2,  // done, but needs attention
  BELAY_LOG_ERROR = 3     // failed; the caller gets the same error
};

// Sets the function that is called with each message of level `least` and
// above, in place of the previous one. Local, for this process. A message has
// one or more lines, without a final newline, and is safe to print on a
// terminal; its text is valid during the call. With a null `sink`, the
// environment variable BELAY_LOG decides again. Messages about what all ranks
// know are logged by rank 0 only, in the thread that called belay. `sink` must
// not call belay_set_log, MPI, or a collective function.
// Errors: BELAY_INVALID_ARGUMENT - `least` is not a belay_log_level.
int belay_set_log(void (*sink)(void* context, int level, const char* message),
                  void* context, int least);

#ifdef __cplusplus
}
#endif

#endif  // BELAY_C_BASE_H_
