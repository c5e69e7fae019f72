// The C interface of belay, in C99. Other languages bind it, too.
//
//   belay_comm* comm;
//   belay_state* state;
//   belay_comm_create(MPI_COMM_WORLD, &comm);
//   belay_state_create(&state);
//   belay_state_add_piece(state, "u", BELAY_F64, 2, global, offset, shape,
//   NULL,
//                         u);
//   if (belay_save(comm, "run", step, state, NULL) != BELAY_OK) {
//     fprintf(stderr, "%s\n", belay_error_message());
//   }
//
// belay/belay.h is the C++ interface; a C++ program may include both. All
// languages write the same steps: each restores what another has saved.
//
// Errors: a function returns a belay_code as an int, and belay_error_message
// has its text. No C++ exception leaves the library. A collective function
// returns the same code and message on all ranks, also if only one rank has
// passed a wrong argument. A null handle of a communicator, a manager or a
// saver is the exception: without it a rank cannot reach the others, so it
// returns BELAY_INVALID_ARGUMENT alone.
//
// Ownership: the caller owns each handle that a function creates, and passes it
// to the function that frees it, which sets it to null. Freeing null does
// nothing. Strings and shapes that are passed in are copied. A pointer for a
// result may be null if the result is not needed.

#ifndef BELAY_BELAY_C_H_
#define BELAY_BELAY_C_H_

#include <mpi.h>
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

// What went wrong: the codes of absl::Status. docs/errors.md explains them.
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

// What a rank gets of per-rank values that another number of ranks has saved.
enum belay_other_ranks {
  BELAY_OTHER_RANKS_ERROR = 0,  // an error
  BELAY_OTHER_RANKS_EVEN = 1,   // all elements in rank order, split evenly
  BELAY_OTHER_RANKS_FIRST = 2   // those of rank 0
};

// In place of a step number: the newest step.
#define BELAY_LATEST_STEP INT64_MIN
// As a result: no step. Real steps are not negative.
#define BELAY_NO_STEP ((int64_t)-1)

// --- Errors and versions ---

// Returns the text of the last error of this thread; "" if there was none.
// Local. The text is valid until the next error of this thread. A call that
// succeeds leaves it as it is.
const char* belay_error_message(void);

// Does nothing if the code is BELAY_OK. Otherwise prints it with the text of
// the last error, and ends all ranks of the job with exit code 1. An error that
// all ranks got is printed once. Local. For programs that cannot go on:
//   belay_check(belay_save(comm, dir, step, state, NULL), __FILE__, __LINE__);
// `file` may be null.
void belay_check(int code, const char* file, int line);

// Returns the name of a code, such as "NOT_FOUND"; "" for other numbers. Local.
const char* belay_code_name(int code);

// Returns the version of the library that is loaded, such as "0.1.0". Local.
const char* belay_version(void);

// --- Communicators ---

// Duplicates a communicator. Collective. `comm` stays the caller's. Plans of
// saves are kept with the result, so that the next save of the same structure
// skips planning: create one and keep it. Free it after the managers and savers
// that were created with it.
// Errors: as belay::Comm::Duplicate.
int belay_comm_create(MPI_Comm comm, belay_comm** result);

// Frees the duplicate. Collective.
int belay_comm_free(belay_comm** comm);

// Number of this rank, and number of ranks. Local.
int belay_comm_rank(const belay_comm* comm, int* rank);
int belay_comm_size(const belay_comm* comm, int* size);

// --- Options ---

// Creates a set of options, all with their defaults. Local. A function that
// takes options also takes null: all defaults.
int belay_options_create(belay_options** result);

// Sets an option by its name in docs/c.md, such as ("overwrite", "true"),
// ("max_to_keep", "3") or ("transfer", "two_phase"). Local. Setting it again
// replaces the value. The function that gets the options checks them: an
// unknown name or a value that cannot be read is BELAY_INVALID_ARGUMENT there.
int belay_options_set(belay_options* options, const char* name,
                      const char* value);

// Local.
void belay_options_free(belay_options** options);

// --- States ---

// Creates an empty state: a list of named values in memory of the program.
// Local. A state borrows the values: saves read them and restores write them,
// so they must stay where they are until the state is freed.
int belay_state_create(belay_state** result);

// Frees the list, not the values. Local. Managers that use it must be closed
// before.
void belay_state_free(belay_state** state);

// Adds an array that every rank holds whole: `ndim` axes with the lengths
// `shape`. Local. It must be equal on all ranks. `strides` has the distance in
// elements from one index of an axis to the next, for arrays inside larger
// memory; null: dense and row-major.
// Errors of all belay_state_add functions: BELAY_INVALID_ARGUMENT - a null
//   pointer, an unknown dtype, a negative number. The state keeps the first
//   error, and saves and restores return it on all ranks.
int belay_state_add_array(belay_state* state, const char* key, int dtype,
                          int ndim, const int64_t* shape,
                          const int64_t* strides, void* data);

// Adds a number that is equal on all ranks: an array without axes. Local.
int belay_state_add_scalar(belay_state* state, const char* key, int dtype,
                           void* data);

// Adds a piece of an array of the shape `global_shape` that is cut over the
// ranks. Local. The piece begins at `offset`, counted from 0, and has the
// lengths `shape`; `data` points to its first element, and `strides` is as
// above. May be called several times for one key, and not at all on ranks that
// hold nothing. The pieces of all ranks must tile the array.
int belay_state_add_piece(belay_state* state, const char* key, int dtype,
                          int ndim, const int64_t* global_shape,
                          const int64_t* offset, const int64_t* shape,
                          const int64_t* strides, void* data);

// Adds `count` numbers that this rank has of its own, for example the state of
// a random number generator. Local. `count` may differ between ranks.
// `other_ranks` is a belay_other_ranks.
int belay_state_add_per_rank(belay_state* state, const char* key, int dtype,
                             int64_t count, void* data, int other_ranks);

// Adds a string that is equal on all ranks: the bytes of `buffer` before the
// first zero byte, or all `capacity` bytes. Local. A restore writes the stored
// string and zero bytes after it.
// Errors of a restore: BELAY_OUT_OF_RANGE - the stored string is longer than
//   the buffer.
int belay_state_add_string(belay_state* state, const char* key, char* buffer,
                           int64_t capacity);

// The same for strings that are padded with blanks, as in Fortran: blanks at
// the end of the buffer are not stored. Local.
int belay_state_add_padded_string(belay_state* state, const char* key,
                                  char* buffer, int64_t capacity);

// Notes a mistake that the caller has found, as the functions above note
// theirs, and returns the code. Local. For bindings of other languages: all
// ranks learn of it in the next save or restore.
int belay_state_fail(belay_state* state, int code, const char* message);

// --- Saving and restoring ---

// Saves `state` as the step <dir>/step_<step>. Collective. `dir`, `step` and
// `options` (save options) must be equal on all ranks. After an error nothing
// is committed, and the call may be repeated.
// Errors: as belay::Save.
int belay_save(belay_comm* comm, const char* dir, int64_t step,
               belay_state* state, const belay_options* options);

// Restores the values of `state` from a step, or with BELAY_LATEST_STEP from
// the newest one. Collective. `dir`, `step` and `options` (restore options)
// must be equal on all ranks. `restored_step` gets the number of the step.
// Errors: as belay::Restore; after one the values are unspecified.
int belay_restore(belay_comm* comm, const char* dir, int64_t step,
                  belay_state* state, const belay_options* options,
                  int64_t* restored_step);

// Restores the newest step, if there is one. Collective. Otherwise leaves the
// values as they are and sets `restored_step` to BELAY_NO_STEP. `dir` and
// `options` (restore options) must be equal on all ranks.
// Errors: as belay::RestoreLatestOrNothing.
int belay_restore_latest_or_nothing(belay_comm* comm, const char* dir,
                                    belay_state* state,
                                    const belay_options* options,
                                    int64_t* restored_step);

// Writes the numbers of the committed steps in `dir`, ascending, to `steps`, at
// most `capacity` of them, and how many there are to `count`. Local. `steps`
// may be null if `capacity` is 0.
// Errors: as belay::ListSteps.
int belay_list_steps(const char* dir, int64_t capacity, int64_t* steps,
                     int64_t* count);

// --- Saves in the background ---

// Creates a saver. Collective. It borrows `comm`. `options` (async options)
// must be equal on all ranks.
int belay_saver_create(belay_comm* comm, const belay_options* options,
                       belay_saver** result);

// Copies the values of `state` and returns; a thread writes them. Collective.
// The program may change its values at once. Waits for the save before, if that
// is still under way, and returns its error if it has failed; nothing is begun
// then. Arguments as for belay_save.
// Errors: as belay::AsyncSaver::Save.
int belay_saver_save(belay_saver* saver, const char* dir, int64_t step,
                     belay_state* state, const belay_options* options);

// Commits the step once all ranks have written it. Collective. Does not wait
// for the disk: call it in each time step. `is_pending` is set to 1 while a
// save is under way, else to 0.
// Errors: those of the save, which is not under way any more then.
int belay_saver_poll(belay_saver* saver, int* is_pending);

// Waits for the save that is under way, if there is one. Collective.
// Errors: as belay_saver_poll.
int belay_saver_wait(belay_saver* saver);

// Returns the last step that this saver has committed, BELAY_NO_STEP before the
// first. Local. Equal on all ranks.
int belay_saver_committed_step(const belay_saver* saver, int64_t* step);

// Waits, and frees the saver, also after an error. Collective.
// Errors: as belay_saver_poll.
int belay_saver_close(belay_saver** saver);

// --- The steps of a run ---

// Opens the run in `dir`: belay::CheckpointManager::Create. Collective. Borrows
// `comm` and `state`. `dir` and `options` (manager options, and save options
// for its saves) must be equal on all ranks.
// Errors: as belay::CheckpointManager::Create.
int belay_manager_create(belay_comm* comm, belay_state* state, const char* dir,
                         const belay_options* options, belay_manager** result);

// Restores the newest step that is not damaged, if there is one. Collective.
// Otherwise calls `initialize` on all ranks, unless it is null, and sets
// `restored_step` to BELAY_NO_STEP. If `initialize` returns a code other than
// BELAY_OK on any rank, all ranks return it. `options` (restore options) must
// be equal on all ranks.
// Errors: as belay::CheckpointManager::RestoreOrInitialize.
int belay_manager_restore_or_initialize(belay_manager* manager,
                                        const belay_options* options,
                                        int (*initialize)(void* context),
                                        void* context, int64_t* restored_step);

// Restores a step, or with BELAY_LATEST_STEP the newest one that is not
// damaged. Collective. `step` and `options` (restore options) must be equal on
// all ranks. `restored_step` is BELAY_NO_STEP if there is no step at all.
// Errors: as belay::CheckpointManager::Restore.
int belay_manager_restore(belay_manager* manager, int64_t step,
                          const belay_options* options, int64_t* restored_step);

// Sets `should_save` to 1 if the rules ask to save this step, or if the job
// must stop and this is its last save, else to 0. Collective. Call it in each
// step.
// Errors: as belay::CheckpointManager::ShouldSave.
int belay_manager_should_save(belay_manager* manager, int64_t step,
                              int* should_save);

// Saves the step if the rules ask for it, or if `force` is not 0, and deletes
// the steps that no rule keeps. Collective. `saved` is set to 1 if the step was
// saved or, with the option async_save, if its save has begun, else to 0.
// Errors: as belay::CheckpointManager::Save.
int belay_manager_save(belay_manager* manager, int64_t step, int force,
                       int* saved);

// Sets `should_stop` to 1 if the job must stop, as the ranks have agreed in
// belay_manager_should_save or belay_manager_save, else to 0. Local. After the
// last save end the program with exit code 85 (docs/restart.md).
int belay_manager_should_stop(const belay_manager* manager, int* should_stop);

// Returns the newest step that is not known to be damaged, or BELAY_NO_STEP.
// Local.
int belay_manager_latest(const belay_manager* manager, int64_t* step);

// Waits for the save in the background, if there is one. Collective.
// Errors: those of the save.
int belay_manager_wait(belay_manager* manager);

// Waits, releases the run and frees the manager, also after an error.
// Collective.
// Errors: as belay_manager_wait.
int belay_manager_close(belay_manager** manager);

// --- Reading without MPI ---

// Opens a step, or the newest step of a directory of steps. Local. Needs no
// MPI_Init. Reads only the index.
// Errors: as belay::CheckpointReader::Open.
int belay_reader_open(const char* path, belay_reader** result);

// Local.
void belay_reader_close(belay_reader** reader);

// The number of the step. Local.
int belay_reader_step(const belay_reader* reader, int64_t* step);

// The number of arrays, and the key of the array with that index; keys ascend.
// Local. The key is valid until the reader is closed.
// Errors: BELAY_OUT_OF_RANGE - no such index.
int belay_reader_num_arrays(const belay_reader* reader, int64_t* count);
int belay_reader_key(const belay_reader* reader, int64_t index,
                     const char** key);

// Describes an array: its belay_dtype, its number of axes and their lengths, of
// which at most `capacity` are written to `shape`. Local.
// Errors: BELAY_NOT_FOUND - no such key.
int belay_reader_describe(const belay_reader* reader, const char* key,
                          int* dtype, int* ndim, int capacity, int64_t* shape);

// Reads the box [offset, offset + shape) of an array, row-major, into `data`,
// whose elements must have the stored dtype. Local. With null for `offset` and
// `shape`, reads all of it; `ndim` must be that of the array.
// Errors: as belay::CheckpointReader::ReadTensor; BELAY_FAILED_PRECONDITION -
//   another dtype.
int belay_reader_read(const belay_reader* reader, const char* key, int dtype,
                      int ndim, const int64_t* offset, const int64_t* shape,
                      void* data);

// Reads a string. Local. Writes at most `capacity` bytes to `buffer`, zero
// bytes after a shorter string, and the length of the string to `length`.
// `buffer` may be null if `capacity` is 0.
// Errors: as belay::CheckpointReader::ReadText.
int belay_reader_read_string(const belay_reader* reader, const char* key,
                             char* buffer, int64_t capacity, int64_t* length);

#ifdef __cplusplus
}
#endif

#endif  // BELAY_BELAY_C_H_
