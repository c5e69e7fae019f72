// The contenders that the workloads compare: belay, plain calls, handwritten
// HDF5 code.
//
// All of them keep the arrays alive and use the arrays' own buffer.

#ifndef BELAY_BENCHMARKS_CONTENDERS_H_
#define BELAY_BENCHMARKS_CONTENDERS_H_

#include <memory>
#include <string>
#include <vector>

#include "arrays.h"
#include "belay/options.h"
#include "race.h"

namespace belay::bench {

// --- Plain calls (plain.cc) ---

// memcpy of the same number of bytes per rank into warm memory.
Contender MemoryCopy(std::shared_ptr<Arrays> arrays);

// open, pwrite of one contiguous region per rank, close; one file for all.
Contender PlainWrite(const Context& context, const Medium& medium,
                     std::shared_ptr<Arrays> arrays);

// The same with one file per rank.
Contender PlainWriteOwnFile(const Context& context, const Medium& medium,
                            std::shared_ptr<Arrays> arrays);

// open, pread of one contiguous region per rank, close. Writes the file first.
// Collective.
// Errors: Internal - the file cannot be written.
StatusOr<Contender> PlainRead(const Context& context, const Medium& medium,
                              std::shared_ptr<Arrays> arrays);

// --- belay (belay_runs.cc, belay_async.cc) ---

// belay::Save of a new step. The first step is restored into other buffers and
// compared. With `cached`, every save except the first reuses the plan.
Contender BelaySave(const std::string& name, const Context& context,
                    const Medium& medium, std::shared_ptr<Arrays> arrays,
                    SaveOptions options = {}, bool cached = false);

// Only the call of AsyncSaver::Save. The wait for the end of each save is not
// timed; the first step is checked as in BelaySave. With `kept`, the saver, its
// memory and its plan are kept between saves.
Contender BelayAsyncSave(const std::string& name, const Context& context,
                         const Medium& medium, std::shared_ptr<Arrays> arrays,
                         bool kept);

// A computation on all cores except one, or on all, in pieces of some
// milliseconds; ranks without a core sleep.
class Computing {
 public:
  explicit Computing(const Comm& comm, bool on_all_cores = false);

  // Computes one piece. Local.
  void Compute();

 private:
  bool computes_;
  std::vector<float> values_;
};

// Returns how many pieces take about `seconds`. Collective.
int PiecesFor(const Comm& comm, Computing& computing, double seconds);

// Computes `pieces` pieces without a save.
Contender ComputeOnly(const std::string& name,
                      std::shared_ptr<Computing> computing, int pieces);

// From the call of AsyncSaver::Save to the commit. All ranks compute, and call
// Poll after each piece.
Contender BelayAsyncCommit(const std::string& name, const Context& context,
                           const Medium& medium, std::shared_ptr<Arrays> arrays,
                           std::shared_ptr<Computing> computing);

// The call of AsyncSaver::Save while the previous save is being written, after
// all cores have computed one piece since that save began.
Contender BelayAsyncWait(const std::string& name, const Context& context,
                         const Medium& medium, std::shared_ptr<Arrays> arrays,
                         std::shared_ptr<Computing> computing);

// A save whose values the thread copies while all ranks compute `pieces`
// pieces, and the wait for the copy after them.
Contender BelayLazySave(const std::string& name, const Context& context,
                        const Medium& medium, std::shared_ptr<Arrays> arrays,
                        std::shared_ptr<Computing> computing, int pieces);

// Saves one step for any number of BelayRestore; `name` distinguishes it from
// others. Collective.
// Errors: as belay::Save.
StatusOr<std::string> SaveForRestore(const Context& context,
                                     const Medium& medium,
                                     std::shared_ptr<Arrays> arrays,
                                     const std::string& name = "to_restore");

// belay::Restore of that step into the arrays' own buffer.
Contender BelayRestore(const std::string& name, const Context& context,
                       const std::string& dir, std::shared_ptr<Arrays> arrays,
                       RestoreOptions options = {});

// --- HDF5 by hand (handmade_hdf5.cc) ---

// H5Fcreate by all ranks, then for every array H5Dcreate and one collective
// H5Dwrite, then H5Fclose. Needs pieces that tile without replicas, f32.
Contender HandmadeHdf5(const Context& context, const Medium& medium,
                       std::shared_ptr<Arrays> arrays);

}  // namespace belay::bench

#endif  // BELAY_BENCHMARKS_CONTENDERS_H_
