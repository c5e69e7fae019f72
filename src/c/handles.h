// The structs that the handles of belay/belay_c.h point to.

#ifndef BELAY_C_HANDLES_H_
#define BELAY_C_HANDLES_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "belay/async_saver.h"
#include "belay/belay_c.h"
#include "belay/checkpoint_manager.h"
#include "belay/checkpoint_reader.h"
#include "belay/comm.h"
#include "belay/save_restore.h"
#include "belay/state.h"
#include "belay/status.h"
#include "belay/values/sharding_policy.h"
#include "c/rows.h"
#include "core/option_text.h"

namespace belay::c {

// A function of the program that initializes values if no step was restored.
using InitializeFunction = int(void* context);

// A string in a buffer of the program, and the std::string that is saved or
// restored instead of it.
struct BufferedString {
  std::string key;
  char* buffer = nullptr;
  int64_t capacity = 0;
  char padding = '\0';
  std::string value = {};
};

}  // namespace belay::c

struct belay_comm {
  belay::Comm comm;
  // For calls that cannot set a deadline with options.
  double deadline_seconds = 600;
  belay::PlanCache cache = {};
};

struct belay_options {
  belay::OptionTexts texts;
  std::optional<belay::ShardingPolicy> sharding_policy = std::nullopt;
  belay::Status status = {};  // the first mistake in belay_options_set_text
};

// The groups that a sharding policy of the program has formed so far.
struct belay_grouping {
  const std::vector<belay::ShardableTensor>& pieces;
  std::vector<belay::ShardGroup> groups = {};
  belay::Status status = {};  // the first error
};

struct belay_state {
  belay::State state;
  belay::Status status;  // the first error
  // `state` has the addresses of these elements.
  std::deque<belay::c::BufferedString> strings;
  std::deque<belay::c::ProgramRows> rows;
};

struct belay_saver {
  belay_comm* comm;
  belay::AsyncSaver saver;
  int64_t committed_step = BELAY_NO_STEP;
};

struct belay_manager {
  belay_comm* comm = nullptr;
  belay_state* state = nullptr;
  double deadline_seconds = 0;
  // Set only during belay_manager_restore_or_initialize.
  belay::c::InitializeFunction* initialize = nullptr;
  void* context = nullptr;
  belay::Metrics metrics = {};  // of the next step to save
  std::optional<belay::CheckpointManager> manager = std::nullopt;
};

struct belay_run {
  belay_comm comm;
  belay_state state = {};
  belay_manager* manager = nullptr;
};

struct belay_reader {
  belay::CheckpointReader reader;
};

#endif  // BELAY_C_HANDLES_H_
