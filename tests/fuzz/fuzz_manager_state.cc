// Fed: the state file of a manager. A state that can be read is written and
// read back as it was, and is one to go on from.
#include <cstdint>
#include <vector>

#include "fuzz_target.h"
#include "manager/manager_state.h"

namespace belay::fuzz_manager_state {
namespace {

constexpr char kPrefix[] = "step";

void Run(std::string_view input) {
  const StatusOr<ManagerState> state = ParseState(input, kPrefix, "read");
  if (!state.ok()) return;
  const StatusOr<std::string> text = StateText(*state, kPrefix);
  Require(text.ok(), "a state that was read can be written");
  const StatusOr<ManagerState> again = ParseState(*text, kPrefix, "read");
  Require(again.ok(), "a state that was written can be read");
  // Not the states: they may hold NaN.
  Require(StateText(*again, kPrefix).value_or("") == *text,
          "a state comes back as it was");
  std::vector<int64_t> committed;
  for (const StepRecord& record : state->steps) {
    if (record.step % 2 == 0) committed.push_back(record.step);
  }
  const RecoveredState recovered = RecoverState(*state, committed, 1e9);
  Require(recovered.state.steps.size() <= committed.size() + 1,
          "steps that are not there are forgotten");
}

const RegisterFuzzTarget kTarget({"manager_state", Run});

}  // namespace
}  // namespace belay::fuzz_manager_state
