#include "checkpoint/plan_cache.h"

namespace belay {

PlanCache::PlanCache() : impl_(std::make_unique<Impl>()) {}
PlanCache::Impl& PlanCache::impl() {
  // One that was moved from begins anew.
  if (impl_ == nullptr) impl_ = std::make_unique<Impl>();
  return *impl_;
}

PlanCache::~PlanCache() = default;
PlanCache::PlanCache(PlanCache&&) noexcept = default;
PlanCache& PlanCache::operator=(PlanCache&&) noexcept = default;

}  // namespace belay
