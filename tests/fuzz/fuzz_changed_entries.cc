// Fed: entries that a process has, and a message that changes them. The changes
// are refused or lead to a list, of at most as many entries as the message can
// ask for; and any list can be told to a process that has any other.
#include <cstdint>
#include <string>

#include "core/list_exchange.h"
#include "fuzz_input.h"
#include "fuzz_target.h"

namespace belay::fuzz_changed_entries {
namespace {

// A message may repeat the entries that are there as often as it has bytes.
constexpr uint8_t kMaxEntries = 32;

void Run(std::string_view input) {
  FuzzInput in(input);
  Entries base;
  const int count = in.Number<uint8_t>() % kMaxEntries;
  for (int i = 0; i < count; ++i) base.push_back(in.Text());
  WireReader message(in.Rest());
  const StatusOr<Entries> changed = GetChanged(base, message);
  if (!changed.ok()) return;
  WireWriter out;
  PutChanges(ComputeHashes(base), *changed, out);
  WireReader back(out.bytes());
  const StatusOr<Entries> again = GetChanged(base, back);
  Require(again.ok() && *again == *changed, "changed entries come back");
  Require(back.done(), "the changes of entries are read to their end");
}

const RegisterFuzzTarget kTarget({"changed_entries", Run});

}  // namespace
}  // namespace belay::fuzz_changed_entries
