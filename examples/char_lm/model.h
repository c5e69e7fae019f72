// A small language model: predicts the next character from the last ones.
//
//   embedding table        cut by rows over the ranks
//   hidden layer (tanh)    cut by columns: each rank owns some hidden units
//   output layer, softmax  whole on every rank
//
// Arrays of activations are [feature][example], so the pieces of all ranks are
// consecutive. The loss is the same to the last bit on any number of ranks (see
// exchange.h).

#ifndef CHAR_LM_MODEL_H_
#define CHAR_LM_MODEL_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "belay/arrays/layout.h"
#include "belay/objects/trackable.h"
#include "exchange.h"
#include "text.h"

namespace char_lm {

struct ModelShape {
  int64_t vocabulary = 0;
  int64_t context = 16;    // characters that the model sees
  int64_t embedding = 64;  // numbers per character
  int64_t hidden = 1024;   // hidden units
};

// One trained array: this rank's piece of it and of its Adam moments.
struct Param {
  std::string key;
  belay::Layout layout;
  belay::Shape shape;  // of the whole array
  belay::Box box;      // of the piece; all vectors below hold its elements
  std::vector<float> value;
  std::vector<float> mean;
  std::vector<float> square;
  std::vector<float> gradient;

  // Describes the value and its moments. Local.
  void Track(belay::Tracker& tracker);
};

struct Model {
  ModelShape shape;
  Param embedding;      // [vocabulary, embedding]
  Param hidden_weight;  // [context * embedding, hidden]
  Param hidden_bias;    // [hidden]
  Param output_weight;  // [hidden, vocabulary]
  Param output_bias;    // [vocabulary]

  std::array<Param*, 5> Params() {
    return {&embedding, &hidden_weight, &hidden_bias, &output_weight,
            &output_bias};
  }

  // Describes all parameters. Local.
  void Track(belay::Tracker& tracker);
};

// Makes this rank's part of a model with random weights. They depend only on
// the seed and on their position in the whole array. Local.
// Errors: as belay::Layout::Create.
belay::StatusOr<Model> CreateModel(const ModelShape& shape, const Ranks& ranks,
                                   uint64_t seed);

// Does one step of Adam on the batch and returns the loss before it, in nats
// per character. Collective. Same on all ranks: everything except the pieces.
// `step` counts from 1.
double TrainStep(const Ranks& ranks, Model& model, const Batch& batch,
                 int64_t step, float learning_rate);

// Returns the probabilities of the next character, [vocabulary][size].
// Collective. Same on all ranks: batch.
std::vector<float> Predict(const Ranks& ranks, const Model& model,
                           const Batch& batch);

}  // namespace char_lm

#endif  // CHAR_LM_MODEL_H_
