// The C interface of belay, in C99. Bindings of other languages use it as well.
//
//   belay_comm* comm;
//   belay_state* state;
//   belay_comm_create(MPI_COMM_WORLD, &comm);
//   belay_state_create(&state);
//   belay_state_add_piece(state, "u", BELAY_F64, 2, global, offset, shape,
//                         NULL, u);
//   if (belay_save(comm, "run", step, state, NULL) != BELAY_OK) {
//     fprintf(stderr, "%s\n", belay_error_message());
//   }
//
// belay/belay.h is the C++ interface; a C++ program may include both. All
// languages write the same format, so each can restore what another has saved.
//
// Errors: a function returns a belay_code as an int, and belay_error_message
// has its text. No C++ exception leaves the library. A collective function
// returns the same code and message on all ranks, even if only one rank passed
// an invalid argument. A null handle of a communicator, a manager or a saver is
// the exception: without it a rank cannot reach the others, so only that rank
// returns BELAY_INVALID_ARGUMENT.
//
// Ownership: the caller owns each handle that a function creates, and passes it
// to the function that frees it, which sets it to null. Freeing null does
// nothing. Strings and shapes that are passed in are copied. A pointer for a
// result may be null if the result is not needed.

#ifndef BELAY_BELAY_C_H_
#define BELAY_BELAY_C_H_

#include <mpi.h>
#include <stdint.h>

#include "belay/c/base.h"
#include "belay/c/state.h"

#ifdef __cplusplus
extern "C" {
#endif

// --- Communicators ---

// Duplicates a communicator. Collective. The caller still owns `comm`. The
// result caches the plans of saves, so the next save of the same structure
// skips planning: create one and keep it. Free it after the managers and savers
// that were created with it.
// Errors: as belay::Comm::Duplicate.
int belay_comm_create(MPI_Comm comm, belay_comm** result);

// The same with options. Collective. The option "deadline_seconds" limits how
// long this call, belay_comm_free, belay_saver_create and belay_count_rows wait
// for ranks that do not call them, before they end the job. It is "600" by
// default; "0" waits forever. `options` may be null.
// Errors: as above; BELAY_INVALID_ARGUMENT - an option is unknown or has an
//   invalid value.
int belay_comm_create_with_options(MPI_Comm comm, const belay_options* options,
                                   belay_comm** result);

// Frees the duplicate. Collective. If a rank does not make this call within the
// deadline, the waiting ranks end the job.
int belay_comm_free(belay_comm** comm);

// Return the number of this rank, and the number of ranks. Local.
int belay_comm_rank(const belay_comm* comm, int* rank);
int belay_comm_size(const belay_comm* comm, int* size);

// --- Options ---

// Creates a set of options with their default values. Local. Functions that
// take options also accept null, which means all defaults.
int belay_options_create(belay_options** result);

// Sets an option by its name in docs/c.md, such as ("overwrite", "true"),
// ("max_to_keep", "3") or ("transfer", "two_phase"). Local. Setting it again
// replaces the value. The function that receives the options checks them, and
// returns BELAY_INVALID_ARGUMENT for an unknown name or a value that it cannot
// parse.
int belay_options_set(belay_options* options, const char* name,
                      const char* value);

// Describes a piece that a task will write, without its values; see
// belay::ShardableTensor. Its pointers are valid only during the call that
// receives it.
typedef struct belay_shardable_tensor {
  const char* key;
  int dtype;  // a belay_dtype
  int ndim;
  const int64_t* global_shape;
  const int64_t* offset;  // of the piece in the array
  const int64_t* shape;   // of the piece
  const char* device;     // such as "/job:train/replica:0/task:5/device:GPU:0"
  int64_t bytes;
  int node;  // the lowest rank that shares memory with the task
} belay_shardable_tensor;

// A custom sharding policy: a function that sorts the `count` pieces that a
// task will write into groups. Rank 0 calls it once for each task. It puts each
// piece into one group with belay_grouping_add and returns BELAY_OK; another
// code ends the save with that code on all ranks. It must not call MPI or any
// other function of belay.
typedef int (*belay_group_function)(void* context,
                                    const belay_shardable_tensor* pieces,
                                    int64_t count, belay_grouping* grouping);

// Sets the sharding policy of saves: belay::ShardingPolicy. Local.
// `description` names it in errors and must not be empty. `parameters` is a
// string that describes everything besides the pieces that the result depends
// on. While `parameters` and `description` stay the same, saves reuse their
// plan. If `parameters` is null, every save calls the function and plans again.
// Both strings must be equal on all ranks. `context` is passed to the function,
// which may be called as long as saves and managers use the options. Cannot be
// combined with the option max_shard_size.
// Errors: BELAY_INVALID_ARGUMENT - a null argument, an empty description.
int belay_options_set_sharding_policy(belay_options* options,
                                      const char* description,
                                      const char* parameters,
                                      belay_group_function group,
                                      void* context);

// Puts a piece into a group; both are counted from 0. Local. If `offset` and
// `shape` are given, puts only that box of the piece into the group; `offset`
// is a position in the array, like that of the piece. The boxes of a piece must
// tile it. If both are null, puts the whole piece. No group may stay empty. The
// grouping keeps the first error, and the save returns it.
// Errors: BELAY_INVALID_ARGUMENT - no such piece, or only one of `offset` and
//   `shape`; BELAY_OUT_OF_RANGE - a group below 0, or 2^22 or above.
int belay_grouping_add(belay_grouping* grouping, int64_t group, int64_t piece,
                       const int64_t* offset, const int64_t* shape);

// Sets options by a text such as "max_to_keep=3 async_save
// save_on_steps=10,20": with blanks between them, and a name alone for true. A
// value with blanks stands in single or double quotes. Local. The function that
// gets the options checks the text, too.
int belay_options_set_text(belay_options* options, const char* text);

// Local.
void belay_options_free(belay_options** options);

// --- Saving and restoring ---

// Saves `state` as the step <dir>/step_<step>. Collective. `dir`, `step` and
// `options` (save options) must be equal on all ranks. After an error nothing
// is committed, and the call may be repeated.
// Errors: as belay::Save.
int belay_save(belay_comm* comm, const char* dir, int64_t step,
               belay_state* state, const belay_options* options);

// Restores the values of `state` from a step, or with BELAY_LATEST_STEP from
// the newest one. Collective. `dir`, `step` and `options` (restore options)
// must be equal on all ranks. `restored_step` is set to the number of the step.
// Errors: as belay::Restore; after one the values are unspecified.
int belay_restore(belay_comm* comm, const char* dir, int64_t step,
                  belay_state* state, const belay_options* options,
                  int64_t* restored_step);

// Restores the newest step, if there is one. Collective. Otherwise leaves the
// values as they are and sets `restored_step` to BELAY_NO_STEP. `dir` and
// `options` (restore options) must be equal on all ranks.
// Errors: as belay::RestoreLatest.
int belay_restore_latest(belay_comm* comm, const char* dir, belay_state* state,
                         const belay_options* options, int64_t* restored_step);

// Writes the numbers of the committed steps in `dir` to `steps`, ascending and
// at most `capacity` of them, and the number of all committed steps to `count`.
// Local. `steps` may be null if `capacity` is 0.
// Errors: as belay::ListSteps.
int belay_list_steps(const char* dir, int64_t capacity, int64_t* steps,
                     int64_t* count);

// Sets `count` to the number of rows of a key that this rank will get, so that
// the program can allocate memory before a restore. Reads no rows. Collective.
// `dir`, `step` (BELAY_LATEST_STEP: the newest one) and `key` must be equal on
// all ranks. If some ranks do not restore the key, the others get more. Not
// needed for rows with ids: a rank gets one row for each of its ids.
// Errors: BELAY_NOT_FOUND - no such step or key; BELAY_FAILED_PRECONDITION -
//   the array has no axes; as belay::CheckpointReader::Open.
int belay_count_rows(belay_comm* comm, const char* dir, int64_t step,
                     const char* key, int64_t* count);

// --- Saves in the background ---

// Creates a saver. Collective. It borrows `comm`. `options` (async options)
// must be equal on all ranks.
int belay_saver_create(belay_comm* comm, const belay_options* options,
                       belay_saver** result);

// Copies the values of `state` and returns; a background thread writes them.
// Collective. The program may change its values as soon as the call returns. If
// the previous save is still in progress, waits for it first; if that save
// failed, returns its error and starts no new save. Arguments as for
// belay_save.
// Errors: as belay::AsyncSaver::Save.
int belay_saver_save(belay_saver* saver, const char* dir, int64_t step,
                     belay_state* state, const belay_options* options);

// Commits the step once all ranks have written it. Collective. Does not wait
// for the disk: call it in each time step. `is_pending` is set to 1 while a
// save is in progress, else to 0.
// Errors: those of the save, which has then ended.
int belay_saver_poll(belay_saver* saver, int* is_pending);

// Waits for the save in progress, if there is one. Collective.
// Errors: as belay_saver_poll.
int belay_saver_wait(belay_saver* saver);

// If the option `snapshot` is lazy, waits until the values of the save are
// copied. Call it before the program changes them. Collective.
// Errors: as belay::AsyncSaver::WaitForSnapshot.
int belay_saver_wait_for_snapshot(belay_saver* saver);

// Sets `step` to the last step that this saver has committed, or to
// BELAY_NO_STEP if there is none yet. Local. Equal on all ranks.
int belay_saver_committed_step(const belay_saver* saver, int64_t* step);

// Waits for the save in progress and frees the saver, even after an error.
// Collective.
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

// Restores the newest step that is not damaged. Collective. `options` (restore
// options) must be equal on all ranks. `restored_step` is BELAY_NO_STEP if
// there is no step at all.
// Errors: as belay::CheckpointManager::RestoreLatest.
int belay_manager_restore_latest(belay_manager* manager,
                                 const belay_options* options,
                                 int64_t* restored_step);

// Restores the step with this number. Collective. `step` and `options` (restore
// options) must be equal on all ranks.
// Errors: as belay::CheckpointManager::Restore.
int belay_manager_restore(belay_manager* manager, int64_t step,
                          const belay_options* options);

// Sets `should_save` to 1 if the rules ask to save this step, or if the job
// must stop and this is its last save, else to 0. Collective. Call it in each
// step.
// Errors: as belay::CheckpointManager::ShouldSave.
int belay_manager_should_save(belay_manager* manager, int64_t step,
                              int* should_save);

// Sets a metric of the next step that is saved; the options best_metric and
// best_mode rate steps by it. Local. Only the metrics of rank 0 are used.
// Errors: BELAY_INVALID_ARGUMENT - a null argument.
int belay_manager_set_metric(belay_manager* manager, const char* name,
                             double value);

// Saves the step if the rules ask for it, or if `force` is not 0, and deletes
// the steps that no rule keeps. Collective. `saved` is set to 1 if the step was
// saved or, with the option async_save, if its save has begun, else to 0.
// Errors: as belay::CheckpointManager::Save.
int belay_manager_save(belay_manager* manager, int64_t step, int force,
                       int* saved);

// Sets `should_stop` to 1 if the job must stop, as the ranks have agreed in
// belay_manager_should_save or belay_manager_save, else to 0. Local. After the
// last save end the program with exit code BELAY_STOPPED_EXIT_CODE
// (docs/restart.md).
int belay_manager_should_stop(const belay_manager* manager, int* should_stop);

// Sets `step` to the newest step that is not known to be damaged, or to
// BELAY_NO_STEP. Local.
int belay_manager_latest_step(const belay_manager* manager, int64_t* step);

// Waits for the save in the background, if there is one. Collective.
// Errors: those of the save.
int belay_manager_wait(belay_manager* manager);

// As belay_saver_wait_for_snapshot. Collective.
// Errors: as belay::CheckpointManager::WaitForSnapshot.
int belay_manager_wait_for_snapshot(belay_manager* manager);

// Waits for the save in the background, releases the run and frees the manager,
// even after an error. Collective.
// Errors: as belay_manager_wait.
int belay_manager_close(belay_manager** manager);

// --- A run in one object ---
//
//   belay_run* run;
//   belay_run_open(MPI_COMM_WORLD, "run", "save_interval_steps=10", &run);
//   belay_state_add_scalar(belay_run_state(run), "time", BELAY_F64, &time);
//   belay_run_restore(run, NULL, &step);
//   if (step == BELAY_NO_STEP) { step = 0; start(); }
//   while (step < steps) {
//     advance();
//     belay_run_step(run, ++step, NULL);
//   }
//   belay_run_close(&run);
//
// Rank 0 prints what it saves and restores to stderr, unless BELAY_LOG or
// belay_set_log says otherwise.

// Duplicates the communicator, creates a state, and opens the run in `dir`.
// Collective. `options` is a text as for belay_options_set_text, of manager and
// save options; null: all defaults. `dir` and `options` must be equal on all
// ranks.
// Errors: as belay_comm_create and belay_manager_create.
int belay_run_open(MPI_Comm comm, const char* dir, const char* options,
                   belay_run** result);

// What the run consists of, for all that these functions do not do: the state,
// to which the program adds its values, the manager and the communicator.
// Local. The run owns them: do not close or free them. Null if `run` is null.
belay_state* belay_run_state(belay_run* run);
belay_manager* belay_run_manager(belay_run* run);
belay_comm* belay_run_comm(belay_run* run);

// Restores the newest step that is not damaged, if there is one. Collective.
// Otherwise sets `restored_step` to BELAY_NO_STEP. `options` is a text of
// restore options, equal on all ranks; null: all defaults.
// Errors: as belay_manager_restore_latest.
int belay_run_restore(belay_run* run, const char* options,
                      int64_t* restored_step);

// Saves the step if the rules ask for it or the job must stop, as
// belay_manager_should_save decides. Collective. Call it at the end of each
// step. `outcome` gets a belay_outcome. The last step of a run is not saved
// unless it is due: belay_manager_save(belay_run_manager(run), step, 1, NULL)
// saves it in any case.
// Errors: as belay_manager_save; for a step that is not saved, as
//   belay_manager_should_save, in the next call.
int belay_run_step(belay_run* run, int64_t step, int* outcome);

// As belay_manager_should_stop. Local.
int belay_run_should_stop(const belay_run* run, int* should_stop);

// Waits for a save in the background, and frees the run and its parts, also
// after an error. Collective.
// Errors: as belay_manager_close and belay_comm_free.
int belay_run_close(belay_run** run);

// --- Reading without MPI ---

// Opens a step, or the newest step of a directory of steps. Local. Needs no
// MPI_Init. Reads only the index.
// Errors: as belay::CheckpointReader::Open.
int belay_reader_open(const char* path, belay_reader** result);

// Local.
void belay_reader_close(belay_reader** reader);

// Returns the number of the step. Local.
int belay_reader_step(const belay_reader* reader, int64_t* step);

// Returns the time when the save began, by the clock of rank 0, in seconds
// since 1970 (UTC). Local.
int belay_reader_time(const belay_reader* reader, int64_t* seconds);

// Return the number of arrays, and the key of the array at `index`; keys are in
// ascending order. Local. The key is valid until the reader is closed.
// Errors: BELAY_OUT_OF_RANGE - no such index.
int belay_reader_num_arrays(const belay_reader* reader, int64_t* count);
int belay_reader_key(const belay_reader* reader, int64_t index,
                     const char** key);

// Returns the belay_dtype of an array, its number of axes and their lengths, of
// which at most `capacity` are written to `shape`. Local.
// Errors: BELAY_NOT_FOUND - no such key.
int belay_reader_describe(const belay_reader* reader, const char* key,
                          int* dtype, int* ndim, int capacity, int64_t* shape);

// Reads the box [offset, offset + shape) of an array, row-major, into `data`,
// whose elements must have the stored dtype. Local. If `offset` and `shape` are
// null, reads the whole array. `ndim` must be the number of axes of the array.
// Errors: as belay::CheckpointReader::ReadTensor; BELAY_FAILED_PRECONDITION -
//   another dtype.
int belay_reader_read(const belay_reader* reader, const char* key, int dtype,
                      int ndim, const int64_t* offset, const int64_t* shape,
                      void* data);

// Reads a string. Local. Writes at most `capacity` bytes to `buffer`, filled up
// with zero bytes if the string is shorter, and the length of the string to
// `length`. `buffer` may be null if `capacity` is 0.
// Errors: as belay::CheckpointReader::ReadText.
int belay_reader_read_string(const belay_reader* reader, const char* key,
                             char* buffer, int64_t capacity, int64_t* length);

// Reads every byte of a step, or of the newest step of a directory of steps,
// and compares it with its checksum. Local. Needs no MPI_Init. `progress`, if
// it is not null, is called with the number of bytes done and the total number
// of bytes.
// Errors: as belay::VerifyCheckpoint; BELAY_DATA_LOSS - blocks or files are
//   damaged; the error text has a line for each.
int belay_verify(const char* path,
                 void (*progress)(void* context, int64_t done, int64_t total),
                 void* context);

#ifdef __cplusplus
}
#endif

#endif  // BELAY_BELAY_C_H_
