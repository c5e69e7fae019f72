// The object graph of the golden checkpoints stays readable.

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "belay/checkpoint_reader.h"
#include "format/paths.h"
#include "golden/objects.h"
#include "golden/values.h"
#include "graph/live_graph.h"
#include "graph/object_graph.h"
#include "h5_testing.h"
#include "storage/index_file.h"

namespace belay::golden_graph_test {
namespace {

using nlohmann::json;

std::string Dir(int64_t step) {
  const auto dir =
      std::filesystem::path(__FILE__).replace_filename("../golden/format_1_0");
  return JoinPath(dir.string(), StepName(step));
}

TEST(GoldenGraphTest, TheGraphIsThatOfTheObjects) {
  const SavedCheckpoint saved = h5::Value(ReadIndex(Dir(golden::kGraphStep)));
  golden::Objects objects(0);
  EXPECT_EQ(h5::Value(FromStoredGraph(saved.graph, saved.arrays, saved.values)),
            h5::Value(TrackObjects(objects, 0)).graph);
}

TEST(GoldenGraphTest, StepsWithoutObjectsHaveNoGraph) {
  for (const int64_t step :
       {golden::kSharedStep, golden::kGroupsStep, golden::kPerTaskStep}) {
    EXPECT_EQ(h5::Value(ReadIndex(Dir(step))).graph, StoredGraph());
  }
}

// Of both ranks that saved.
TEST(GoldenGraphTest, TheReaderReadsEveryValue) {
  const CheckpointReader reader =
      h5::Value(CheckpointReader::Open(Dir(golden::kGraphStep)));
  for (const int rank : {0, 1}) {
    golden::Objects objects(rank);
    LiveGraph live = h5::Value(TrackObjects(objects, rank));
    h5::Ok(FetchOpaqueStates(live));
    const State state = ListValues(live, OwnKeys(live));
    ASSERT_EQ(state.shards().size(), 12);
    for (const Shard& shard : state.shards()) {
      if (shard.dtype == DType::kString) {
        EXPECT_EQ(h5::Value(reader.ReadText(shard.key)), *shard.text);
        continue;
      }
      const Tensor tensor = h5::Value(reader.ReadTensor(shard.key, shard.box));
      EXPECT_EQ(std::memcmp(tensor.data(), shard.data, tensor.num_bytes()), 0)
          << shard.key;
    }
  }
}

// What h5py shows of the graph, by its path below .belay/graph.
json Expected() {
  return {{"nodes/name",
           {"", "model", "adam", "save_counter", "embed", "layers", "steps",
            "0", "1", "kernel", "bias", "kernel", "bias", "m", "m"}},
          {"nodes/parent", {-1, 0, 0, 0, 1, 1, 2, 5, 5, 7, 7, 8, 8, 4, 12}},
          {"nodes/optimizer",
           {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 2, 2}},
          {"children/holder", {0, 0, 0, 1, 1, 1, 1, 2, 5, 5, 7, 7, 8, 8}},
          {"children/name",
           {"model", "adam", "save_counter", "embed", "layers", "decoder",
            "whole", "steps", "0", "1", "kernel", "bias", "kernel", "bias"}},
          {"children/node", {1, 2, 3, 4, 5, 4, 1, 6, 7, 8, 9, 10, 11, 12}},
          {"attributes/node", {1, 2, 2, 3, 4, 6, 9, 10, 11, 12, 13, 14}},
          {"attributes/opaque", {0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
          {"slots/optimizer", {2, 2}},
          {"slots/variable", {4, 12}},
          {"slots/name", {"m", "m"}},
          {"slots/node", {13, 14}}};
}

TEST(GoldenGraphTest, PythonReadsTheTables) {
  const json expected = Expected();
  std::vector<std::string> paths;
  for (const auto& item : expected.items()) {
    paths.push_back(".belay/graph/" + item.key());
  }
  const std::vector<std::string> others = {
      ".belay/arrays/key", ".belay/graph/attributes/name",
      ".belay/graph/attributes/array", ".belay/graph/attributes/layout"};
  paths.insert(paths.end(), others.begin(), others.end());
  const json found =
      h5::Python(JoinPath(Dir(golden::kGraphStep), IndexName()), paths);
  for (const auto& [path, values] : expected.items()) {
    EXPECT_EQ(found[".belay/graph/" + path]["values"], values) << path;
  }
  // The values, by key.
  const auto& keys = found[others[0]]["values"];
  const auto& names = found[others[1]]["values"];
  const auto& arrays = found[others[2]]["values"];
  const auto& layouts = found[others[3]]["values"];
  ASSERT_EQ(arrays.size(), 12);
  json values = json::array();
  for (size_t i = 0; i < arrays.size(); ++i) {
    values.push_back({names[i], keys[arrays[i].get<size_t>()], layouts[i]});
  }
  const std::string layout = "[rows,-] on rows=2";
  EXPECT_EQ(values[0], json({"gr\xc3\xb6\xc3\x9f"
                             "e a/b.c",
                             "model/.ATTRIBUTES/gr\xc3\xb6\xc3\x9f"
                             "e a.Sb..c",
                             ""}));
  EXPECT_EQ(values[2], json({"random", "adam/.ATTRIBUTES/random", ""}));
  EXPECT_EQ(values[4],
            json({"VARIABLE_VALUE", "model/embed/.ATTRIBUTES/VARIABLE_VALUE",
                  layout}));
  EXPECT_EQ(values[11],
            json({"VARIABLE_VALUE",
                  "model/layers/1/bias/.OPTIMIZER_SLOT/adam/m/.ATTRIBUTES/"
                  "VARIABLE_VALUE",
                  ""}));
}

}  // namespace
}  // namespace belay::golden_graph_test
