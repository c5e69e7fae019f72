#include "core/fault.h"

#include <atomic>
#include <string>

namespace belay::fault {
namespace {

constexpr int64_t kOff = -1;

// Global, since any thread can pass a point anywhere.
std::atomic<int64_t> chosen{kOff};
std::atomic<int64_t> last{kOff};
std::atomic<int64_t> passed{0};

}  // namespace

void Arm(int64_t number, int64_t how_many) {
  passed.store(0);
  last.store(number + how_many - 1);
  chosen.store(number);
}

void Disarm() { chosen.store(kOff); }

int64_t Armed() { return chosen.load(); }

int64_t Count() { return passed.load(); }

void SkipTo(int64_t count) { passed.store(count); }

Status Point(std::string_view site) {
  const int64_t number = chosen.load(std::memory_order_relaxed);
  if (number == kOff) return absl::OkStatus();
  const int64_t now = passed.fetch_add(1) + 1;
  if (now < number || now > last.load()) return absl::OkStatus();
  return absl::InternalError(std::string(site) + ": injected fault");
}

}  // namespace belay::fault
