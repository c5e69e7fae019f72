// Writes the corpus: small inputs that the targets accept, from which a fuzzer
// makes others.
//
//   write_corpus CORPUS GOLDEN
//
// GOLDEN is tests/golden, whose indexes some inputs are made of.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/list_exchange.h"
#include "corpus_files.h"
#include "corpus_messages.h"
#include "corpus_texts.h"
#include "format/index_columns.h"
#include "format/paths.h"
#include "fuzz_input.h"
#include "graph/object_graph.h"
#include "index_bytes.h"
#include "storage/index_file.h"

namespace belay {
namespace {

constexpr size_t kMaxBytes = 20 * 1000;

// Inputs of one target, numbered.
void WriteInputs(const std::filesystem::path& corpus, const char* target,
                 const std::vector<std::string>& inputs) {
  std::filesystem::create_directories(corpus / target);
  int number = 0;
  for (const std::string& input : inputs) {
    if (input.size() > kMaxBytes) continue;
    std::ofstream file(corpus / target / absl::StrCat(++number, ".bin"),
                       std::ios::binary);
    file << input;
  }
}

// What the golden checkpoints have.
struct Golden {
  std::vector<std::string> files;
  std::vector<SavedCheckpoint> indexes;
};

Golden ReadGolden(const std::filesystem::path& directory) {
  std::vector<std::string> steps;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(directory)) {
    if (entry.path().filename() == IndexName()) {
      steps.push_back(entry.path().parent_path());
    }
  }
  std::sort(steps.begin(), steps.end());
  Golden golden;
  for (const std::string& step : steps) {
    golden.indexes.push_back(ReadIndex(step).value());
    std::ifstream file(JoinPath(step, IndexName()), std::ios::binary);
    golden.files.emplace_back(std::istreambuf_iterator<char>(file),
                              std::istreambuf_iterator<char>());
  }
  return golden;
}

// A key of nothing but groups.
SavedCheckpoint DeepKey() {
  return {.arrays = {{.key = std::string(6000, '/'), .shape = {0}}}};
}

std::vector<std::string> ChangedEntries() {
  const Entries base = {"one", "two", "three"};
  std::vector<std::string> inputs;
  for (const Entries& now :
       std::vector<Entries>{{}, base, {"two", "new", "one"}, {"a", "b"}}) {
    WireWriter message;
    PutChanges(ComputeHashes(base), now, message);
    FuzzInputWriter out;
    out.Put(static_cast<uint8_t>(base.size()));
    for (const std::string& entry : base) out.PutText(entry);
    inputs.push_back(out.bytes() + message.bytes());
  }
  return inputs;
}

void WriteCorpus(const std::filesystem::path& corpus, const Golden& golden) {
  std::vector<std::string> columns, files = golden.files;
  for (const SavedCheckpoint& saved : golden.indexes) {
    columns.push_back(InputOfColumns(ToColumns(saved)));
    files.push_back(IndexFileOf(ToColumns(saved)));
  }
  columns.push_back(InputOfColumns(ToColumns(DeepKey())));
  WriteInputs(corpus, "index_columns", columns);
  WriteInputs(corpus, "index_file", files);
  WriteInputs(corpus, "changed_entries", ChangedEntries());
  WriteInputs(corpus, "data_file", DataFiles());
  WriteInputs(corpus, "file_metadata", ListsOfDatasets());
  WriteInputs(corpus, "object_header", ObjectHeaders());
  WriteInputs(corpus, "object_graph", ObjectMessages(golden.indexes));
  WriteInputs(corpus, "plan_messages", PlanMessages(golden.indexes));
  WriteInputs(corpus, "lease", LeaseTexts());
  WriteInputs(corpus, "manager_state", StateTexts());
  WriteInputs(corpus, "metadata", MetadataTexts());
  WriteInputs(corpus, "safetensors_header", SafetensorsHeaders());
  WriteInputs(corpus, "safetensors_index", SafetensorsIndexes());
  WriteInputs(corpus, "struct_text", StructTexts());
  WriteInputs(corpus, "texts", OtherTexts());
}

}  // namespace
}  // namespace belay

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: write_corpus CORPUS GOLDEN\n");
    return 2;
  }
  belay::WriteCorpus(argv[1], belay::ReadGolden(argv[2]));
}
