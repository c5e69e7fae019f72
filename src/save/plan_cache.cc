#include "save/plan_cache.h"

#include <memory>

namespace belay {

PlanCache::PlanCache() : plan_(std::make_unique<CachedPlan>()) {}
PlanCache::~PlanCache() = default;
PlanCache::PlanCache(PlanCache&&) noexcept = default;
PlanCache& PlanCache::operator=(PlanCache&&) noexcept = default;

CachedPlan& PlanOf(PlanCache& cache) {
  if (cache.plan_ == nullptr) cache.plan_ = std::make_unique<CachedPlan>();
  return *cache.plan_;
}

}  // namespace belay
