// Shared code of the contenders that save (belay_runs.cc).

#ifndef BELAY_BENCHMARKS_SAVER_H_
#define BELAY_BENCHMARKS_SAVER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "arrays.h"
#include "belay/options.h"
#include "belay/save_restore.h"
#include "belay/state.h"
#include "race.h"

namespace belay::bench {

// Data that a saving contender keeps between its runs.
struct Saver {
  const Comm* comm = nullptr;
  bool stages = false;
  std::shared_ptr<Arrays> arrays;
  State state;
  std::string dir;
  SaveOptions options;
  PlanCache cache;
  int64_t step = 0;
  SaveResult last;
};

// Removes the last saved step. Collective.
Status RemoveLastStep(const Saver& saver);

// Restores that step into other memory, and compares the values. Collective.
Status RestoreElsewhere(const Saver& saver);

// Returns a short description of the last save. Local.
std::string SaveText(const Saver& saver);

}  // namespace belay::bench

#endif  // BELAY_BENCHMARKS_SAVER_H_
