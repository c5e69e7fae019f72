// The objects of the golden checkpoint that has a graph.
// Never change a value or a name here: files in the repository hold it.

#ifndef BELAY_TESTS_GOLDEN_OBJECTS_H_
#define BELAY_TESTS_GOLDEN_OBJECTS_H_

#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "belay/objects/trackable.h"

namespace belay::golden {

inline constexpr int64_t kGraphStep = 11;

// Two rows of an array f32 [4, 3] on each of two ranks.
struct Table {
  Table(int rank, float first) : rows(6) {
    std::iota(rows.begin(), rows.end(), first + 6 * static_cast<float>(rank));
  }

  TrackedValue AsLeaf() {
    const Mesh mesh = Mesh::Create({{"rows", 2}}).value();
    return {Layout::Create(mesh, {{"rows"}, {}}).value(), {4, 3}, rows};
  }

  std::vector<float> rows;
};

struct Dense {
  std::vector<float> kernel = {1, 2, 3, 4, 5, 6};
  std::vector<float> bias = {0.5f, -0.5f};

  void Track(Tracker& tracker) {
    tracker.Child("kernel", kernel);
    tracker.Child("bias", bias);
  }
};

// Holds itself, and the embedding twice.
struct Model {
  explicit Model(int rank) : embed(rank, 0) {}

  Table embed;
  std::vector<Dense> layers = std::vector<Dense>(2);
  int32_t odd = -5;

  void Track(Tracker& tracker) {
    tracker.Child("embed", embed.AsLeaf());
    tracker.Child("layers", layers);
    tracker.Child("decoder", embed.AsLeaf());
    tracker.Child("whole", *this);
    tracker.Value(
        "gr\xc3\xb6\xc3\x9f"
        "e a/b.c",
        odd);
  }
};

// Keeps a momentum for two of the model's variables.
struct Adam {
  Adam(int rank, Model& variables) : model(variables), embed_m(rank, 100) {}

  Model& model;
  Table embed_m;
  std::vector<float> bias_m = {7, 8};
  double rate = 0.25;
  int64_t steps = 3;
  std::string random = std::string("\x01\x00\xff", 3);

  void Track(Tracker& tracker) {
    tracker.Value("rate", rate);
    tracker.Bytes(
        "random", [this] { return random; },
        [this](const std::string& bytes) {
          random = bytes;
          return absl::OkStatus();
        });
    tracker.Child("steps", steps);
    tracker.Slot("m", model.embed.AsLeaf(), embed_m.AsLeaf());
    tracker.Slot("m", model.layers[1].bias, bias_m);
  }
};

// All of them, as one of two ranks holds them.
struct Objects {
  explicit Objects(int rank) : model(rank), adam(rank, model) {}

  Model model;
  Adam adam;
  int64_t save_counter = 11;

  void Track(Tracker& tracker) {
    tracker.Child("model", model);
    tracker.Child("adam", adam);
    tracker.Child("save_counter", save_counter);
  }
};

}  // namespace belay::golden

#endif  // BELAY_TESTS_GOLDEN_OBJECTS_H_
