// Each fuzz target on its corpus, once, so that what must hold of hostile bytes
// is tested by every build, and the targets stay what the library is.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "fuzz_target.h"

namespace belay::fuzz_corpus_test {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxInputs = 26;
constexpr size_t kMaxBytes = 20 * 1000;

fs::path Corpus() { return BELAY_FUZZ_CORPUS; }

std::string InputOf(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file),
          std::istreambuf_iterator<char>()};
}

TEST(FuzzCorpusTest, EachTargetHasACorpus) {
  std::set<std::string> folders, targets;
  for (const auto& entry : fs::directory_iterator(Corpus())) {
    folders.insert(entry.path().filename());
  }
  for (const FuzzTarget& target : FuzzTargets()) targets.insert(target.name);
  EXPECT_EQ(folders, targets);
}

TEST(FuzzCorpusTest, InputsAreFewAndSmall) {
  for (const auto& folder : fs::directory_iterator(Corpus())) {
    size_t count = 0;
    for (const auto& entry : fs::directory_iterator(folder)) {
      EXPECT_LE(entry.file_size(), kMaxBytes) << entry.path();
      ++count;
    }
    EXPECT_GE(count, 1) << folder.path();
    EXPECT_LE(count, kMaxInputs) << folder.path();
  }
}

// Those of the corpus, as they are and cut off, and what a fuzzer would repair.
TEST(FuzzCorpusTest, TargetsReturn) {
  for (const FuzzTarget& target : FuzzTargets()) {
    SCOPED_TRACE(target.name);
    target.run("");
    for (const auto& entry : fs::directory_iterator(Corpus() / target.name)) {
      const std::string input = InputOf(entry.path());
      target.run(input);
      target.run(std::string_view(input).substr(0, input.size() / 2));
      if (target.repair == nullptr) continue;
      std::string repaired = input;
      target.repair(repaired);
      target.run(repaired);
    }
  }
}

}  // namespace
}  // namespace belay::fuzz_corpus_test
