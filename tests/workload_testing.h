// The models of tests/data/models, and cuts of them.

#ifndef BELAY_TESTS_WORKLOAD_TESTING_H_
#define BELAY_TESTS_WORKLOAD_TESTING_H_

#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "workload/model_spec.h"
#include "workload/parallelism.h"
#include "workload/rank_state.h"

namespace belay {

inline ModelSpec TestModel(const std::string& name) {
  StatusOr<ModelSpec> model =
      ReadModel(absl::StrCat(BELAY_TEST_MODELS, "/", name, ".tsv"));
  if (model.ok()) return *std::move(model);
  std::cerr << model.status() << "\n";
  std::abort();
}

inline Parallelism Parallel(const std::string& text) {
  return ParseParallelism(text).value();
}

inline std::vector<RankShards> TestStates(const ModelSpec& model,
                                          const std::string& parallelism,
                                          const StateOptions& options = {}) {
  return RankStates(model, Parallel(parallelism), options).value();
}

}  // namespace belay

#endif  // BELAY_TESTS_WORKLOAD_TESTING_H_
