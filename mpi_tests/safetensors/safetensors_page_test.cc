// The code of docs/safetensors.md, which shows parts of this file word for
// word.

#include "safetensors_testing.h"

namespace belay::safetensors_page_test {
namespace {

using testing::SafetensorsTest;

class SafetensorsPageTest : public SafetensorsTest {};

Status LeaveForPyTorch(const belay::Comm& comm, const std::string& run,
                       const std::string& directory) {
  auto exported =
      belay::ExportSafetensors(comm, run, belay::kLatestStep, directory,
                               {.keys = {"model/.*"},
                                .metadata = {{"format", "pt"}},
                                .max_file_bytes = int64_t{5} << 30});
  if (!exported.ok()) return exported.status();
  return absl::OkStatus();
}

TEST_F(SafetensorsPageTest, AStateLeaves) {
  SaveTensors(4);
  EXPECT_EQ(LeaveForPyTorch(comm_, run(), File("hf")), absl::OkStatus());
  std::erase_if(tensors_, [](const auto& tensor) {
    return !tensor.name.starts_with("model/");
  });
  ExpectFile(File("hf/model.safetensors"), 4, "format=pt");
}

Status StartFromPyTorch(const belay::Comm& comm, const std::string& directory,
                        const std::string& run, const belay::State& state) {
  auto imported = belay::ImportSafetensors(comm, {directory}, run, /*step=*/0);
  if (!imported.ok()) return imported.status();
  // There "transformer.h.0.weight", here "model/h/0/weight".
  auto restored =
      belay::Restore(comm, run, /*step=*/0, state,
                     {.args = {{"model/h/([0-9]+)/(.*)",
                                {.stored_key = "transformer.h.\\1.\\2"}}}});
  return restored.status();
}

TEST_F(SafetensorsPageTest, AStateArrives) {
  tensors_ = {{"transformer.h.0.weight", DType::kF32, {4, 6}},
              {"transformer.h.11.weight", DType::kF32, {4, 6}}};
  WriteFiles(9);
  std::vector<float> first(24), last(24);
  State state;
  state.AddReplicated("model/h/0/weight", {4, 6}, first);
  state.AddReplicated("model/h/11/weight", {4, 6}, last);
  ASSERT_EQ(StartFromPyTorch(comm_, File("indexed"), run(), state),
            absl::OkStatus());
  const auto bytes = [](const std::vector<float>& values) {
    return std::string(reinterpret_cast<const char*>(values.data()), 96);
  };
  EXPECT_EQ(bytes(first), testing::PatternText(tensors_[0].name, 96, 9));
  EXPECT_EQ(bytes(last), testing::PatternText(tensors_[1].name, 96, 9));
}

}  // namespace
}  // namespace belay::safetensors_page_test
