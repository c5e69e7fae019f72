// What the handles of belay/belay_c.h point to.

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

// A function of the program that sets up what no step has.
using InitializeFunction = int(void* context);

// A string in a buffer of the program, and the std::string that is saved or
// restored in its place.
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
  // Of the calls that have no options with another one.
  double deadline_seconds = 600;
  belay::PlanCache cache = {};
};

struct belay_options {
  belay::OptionTexts texts;
  std::optional<belay::ShardingPolicy> sharding_policy = std::nullopt;
  belay::Status status = {};  // the first mistake in belay_options_set_text
};

// What a policy of the program has made of the pieces so far.
struct belay_grouping {
  const std::vector<belay::ShardableTensor>& pieces;
  std::vector<belay::ShardGroup> groups = {};
  belay::Status status = {};  // the first mistake
};

struct belay_state {
  belay::State state;
  belay::Status status;  // the first mistake
  // `state` has their addresses.
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
  // During belay_manager_restore_or_initialize.
  belay::c::InitializeFunction* initialize = nullptr;
  void* context = nullptr;
  belay::Metrics metrics = {};  // of the next step that is saved
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
