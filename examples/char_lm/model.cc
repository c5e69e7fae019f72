#include "model.h"

#include <algorithm>
#include <cmath>

namespace char_lm {
namespace {

constexpr float kMeanDecay = 0.9f;
constexpr float kSquareDecay = 0.999f;
constexpr float kEpsilon = 1e-8f;

// Values that the forward pass stores for the backward pass.
struct Activations {
  std::vector<float> input;          // [context * embedding][size]
  std::vector<float> hidden_piece;   // [own hidden units][size]
  std::vector<float> hidden;         // [hidden][size]
  std::vector<float> probabilities;  // [vocabulary][size]
};

// sums[k] += factor * terms[k]. All sums of the model use this function, so the
// terms of a sum are added in the order of the calls.
inline void MulAdd(float* sums, float factor, const float* terms, int64_t n) {
  for (int64_t k = 0; k < n; ++k) sums[k] += factor * terms[k];
}

std::vector<float> Transpose(const std::vector<float>& in, int64_t rows,
                             int64_t columns) {
  std::vector<float> out(in.size());
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      out[c * rows + r] = in[r * columns + c];
    }
  }
  return out;
}

// sums[r] = the sum over row r of in[rows][columns].
void SumRows(const std::vector<float>& in, int64_t columns,
             std::vector<float>& sums) {
  for (size_t r = 0; r < sums.size(); ++r) {
    sums[r] = 0;
    for (int64_t c = 0; c < columns; ++c) sums[r] += in[r * columns + c];
  }
}

// Returns the index in the whole array of element i of the parameter's piece.
int64_t GlobalIndex(const Param& param, int64_t i) {
  if (param.shape.size() == 1) return param.box.offset[0] + i;
  const int64_t width = param.box.shape[1];
  return (param.box.offset[0] + i / width) * param.shape[1] +
         param.box.offset[1] + i % width;
}

belay::Status Initialize(Param& param, int rank, uint64_t seed, float scale) {
  const auto box = param.layout.LocalBox(param.shape, rank);
  if (!box.ok()) return box.status();
  param.box = *box;
  const int64_t size = belay::NumElements(box->shape);
  for (auto* v : {&param.value, &param.mean, &param.square, &param.gradient}) {
    v->assign(size, 0.0f);
  }
  for (int64_t i = 0; i < size; ++i) {
    const uint64_t bits = MixBits(MixBits(seed) + GlobalIndex(param, i));
    param.value[i] = scale * (2 * UnitFloat(bits) - 1);
  }
  return absl::OkStatus();
}

// Looks up every character in the table, whose rows all ranks exchange for
// this.
std::vector<float> Embed(const Ranks& ranks, const Model& model,
                         const Batch& batch) {
  const int64_t width = model.shape.embedding;
  const std::vector<float> table =
      GatherPieces(ranks, model.embedding.layout, model.embedding.shape, 1,
                   model.embedding.value);
  std::vector<float> input(model.shape.context * width * batch.size);
  for (int64_t c = 0; c < model.shape.context; ++c) {
    for (int64_t b = 0; b < batch.size; ++b) {
      const int64_t token = batch.inputs[c * batch.size + b];
      for (int64_t e = 0; e < width; ++e) {
        input[(c * width + e) * batch.size + b] = table[token * width + e];
      }
    }
  }
  return input;
}

// Returns tanh(weight^T input + bias) for this rank's hidden units.
std::vector<float> HiddenPiece(const Model& model,
                               const std::vector<float>& input, int64_t size) {
  const std::vector<float>& bias = model.hidden_bias.value;
  const int64_t units = static_cast<int64_t>(bias.size());
  const int64_t features = model.hidden_weight.shape[0];
  std::vector<float> sums(units * size);
  for (int64_t j = 0; j < units; ++j) {
    std::fill_n(&sums[j * size], size, bias[j]);
  }
  const float* weight = model.hidden_weight.value.data();
  for (int64_t i = 0; i < features; ++i) {
    for (int64_t j = 0; j < units; ++j) {
      MulAdd(&sums[j * size], *weight++, &input[i * size], size);
    }
  }
  for (float& sum : sums) sum = std::tanh(sum);
  return sums;
}

// Returns output_weight^T hidden + output_bias.
std::vector<float> Logits(const Model& model, const std::vector<float>& hidden,
                          int64_t size) {
  const int64_t vocabulary = model.shape.vocabulary;
  std::vector<float> logits(vocabulary * size);
  for (int64_t v = 0; v < vocabulary; ++v) {
    std::fill_n(&logits[v * size], size, model.output_bias.value[v]);
  }
  const float* weight = model.output_weight.value.data();
  for (int64_t j = 0; j < model.shape.hidden; ++j) {
    for (int64_t v = 0; v < vocabulary; ++v) {
      MulAdd(&logits[v * size], *weight++, &hidden[j * size], size);
    }
  }
  return logits;
}

// Turns each column of values[rows][columns] into probabilities.
void Softmax(int64_t rows, int64_t columns, std::vector<float>& values) {
  for (int64_t c = 0; c < columns; ++c) {
    float largest = values[c];
    for (int64_t r = 0; r < rows; ++r) {
      largest = std::max(largest, values[r * columns + c]);
    }
    float sum = 0;
    for (int64_t r = 0; r < rows; ++r) {
      float& value = values[r * columns + c];
      value = std::exp(value - largest);
      sum += value;
    }
    for (int64_t r = 0; r < rows; ++r) values[r * columns + c] /= sum;
  }
}

Activations Forward(const Ranks& ranks, const Model& model,
                    const Batch& batch) {
  Activations a;
  a.input = Embed(ranks, model, batch);
  a.hidden_piece = HiddenPiece(model, a.input, batch.size);
  a.hidden = GatherPieces(ranks, model.hidden_bias.layout,
                          model.hidden_bias.shape, batch.size, a.hidden_piece);
  a.probabilities = Logits(model, a.hidden, batch.size);
  Softmax(model.shape.vocabulary, batch.size, a.probabilities);
  return a;
}

double MeanLoss(const std::vector<float>& probabilities, const Batch& batch) {
  double sum = 0;
  for (int64_t b = 0; b < batch.size; ++b) {
    const double p = probabilities[batch.targets[b] * batch.size + b];
    sum -= std::log(std::max(p, 1e-30));
  }
  return sum / static_cast<double>(batch.size);
}

// Returns the gradient of the mean loss with respect to the logits.
std::vector<float> LogitGradient(const std::vector<float>& probabilities,
                                 const Batch& batch) {
  std::vector<float> gradient = probabilities;
  for (int64_t b = 0; b < batch.size; ++b) {
    gradient[batch.targets[b] * batch.size + b] -= 1;
  }
  for (float& g : gradient) g /= static_cast<float>(batch.size);
  return gradient;
}

// gradient[i][j] = sum over examples of in[i] * out[j].
void WeightGradient(const std::vector<float>& in, const std::vector<float>& out,
                    int64_t size, std::vector<float>& gradient) {
  const int64_t width = static_cast<int64_t>(out.size()) / size;
  const int64_t features = static_cast<int64_t>(in.size()) / size;
  const std::vector<float> by_example = Transpose(out, width, size);
  std::fill(gradient.begin(), gradient.end(), 0.0f);
  for (int64_t i = 0; i < features; ++i) {
    for (int64_t b = 0; b < size; ++b) {
      MulAdd(gradient.data() + i * width, in[i * size + b],
             by_example.data() + b * width, width);
    }
  }
}

// Returns the gradient with respect to the sums inside the tanh of this rank's
// units.
std::vector<float> HiddenGradient(const Model& model, const Activations& a,
                                  const std::vector<float>& by_logits,
                                  int64_t size) {
  const int64_t vocabulary = model.shape.vocabulary;
  const int64_t first = model.hidden_bias.box.offset[0];
  const int64_t units = model.hidden_bias.box.shape[0];
  std::vector<float> gradient(units * size);
  for (int64_t j = 0; j < units; ++j) {
    const float* weight =
        model.output_weight.value.data() + (first + j) * vocabulary;
    for (int64_t v = 0; v < vocabulary; ++v) {
      MulAdd(&gradient[j * size], weight[v], &by_logits[v * size], size);
    }
  }
  for (size_t k = 0; k < gradient.size(); ++k) {
    gradient[k] *= 1 - a.hidden_piece[k] * a.hidden_piece[k];
  }
  return gradient;
}

// Returns the gradient with respect to the input: for each element, a sum over
// the hidden units of all ranks.
std::vector<float> InputGradient(const Ranks& ranks, const Model& model,
                                 const std::vector<float>& by_hidden,
                                 int64_t size) {
  constexpr int64_t kFeaturesPerStretch = 128;
  const int64_t units = model.hidden_bias.box.shape[0];
  std::vector<float> sums(model.hidden_weight.shape[0] * size);
  AddInRankOrder(
      ranks, kFeaturesPerStretch * size, sums,
      [&](int64_t first, int64_t last) {
        for (int64_t i = first / size; i < last / size; ++i) {
          const float* weight = model.hidden_weight.value.data() + i * units;
          for (int64_t j = 0; j < units; ++j) {
            MulAdd(&sums[i * size], weight[j], &by_hidden[j * size], size);
          }
        }
      });
  return sums;
}

// Sums the gradient of every use of the table rows that this rank holds.
void EmbeddingGradient(const std::vector<float>& by_input, const Batch& batch,
                       const ModelShape& shape, Param& table) {
  const int64_t width = shape.embedding;
  const int64_t first = table.box.offset[0];
  std::fill(table.gradient.begin(), table.gradient.end(), 0.0f);
  for (int64_t c = 0; c < shape.context; ++c) {
    for (int64_t b = 0; b < batch.size; ++b) {
      const int64_t row = batch.inputs[c * batch.size + b] - first;
      if (row < 0 || row >= table.box.shape[0]) continue;
      for (int64_t e = 0; e < width; ++e) {
        table.gradient[row * width + e] +=
            by_input[(c * width + e) * batch.size + b];
      }
    }
  }
}

void Backward(const Ranks& ranks, const Activations& a, const Batch& batch,
              Model& model) {
  const int64_t size = batch.size;
  const std::vector<float> by_logits = LogitGradient(a.probabilities, batch);
  const std::vector<float> by_hidden =
      HiddenGradient(model, a, by_logits, size);
  const std::vector<float> by_input =
      InputGradient(ranks, model, by_hidden, size);
  WeightGradient(a.hidden, by_logits, size, model.output_weight.gradient);
  SumRows(by_logits, size, model.output_bias.gradient);
  WeightGradient(a.input, by_hidden, size, model.hidden_weight.gradient);
  SumRows(by_hidden, size, model.hidden_bias.gradient);
  EmbeddingGradient(by_input, batch, model.shape, model.embedding);
}

void AdamStep(int64_t step, float learning_rate, Param& param) {
  const double t = static_cast<double>(step);
  const float mean_scale = static_cast<float>(1 / (1 - std::pow(0.9, t)));
  const float square_scale = static_cast<float>(1 / (1 - std::pow(0.999, t)));
  for (size_t i = 0; i < param.value.size(); ++i) {
    const float g = param.gradient[i];
    float& mean = param.mean[i];
    float& square = param.square[i];
    mean = kMeanDecay * mean + (1 - kMeanDecay) * g;
    square = kSquareDecay * square + (1 - kSquareDecay) * g * g;
    param.value[i] -= learning_rate * mean * mean_scale /
                      (std::sqrt(square * square_scale) + kEpsilon);
  }
}

}  // namespace

belay::StatusOr<Model> CreateModel(const ModelShape& shape, const Ranks& ranks,
                                   uint64_t seed) {
  const auto mesh = belay::Mesh::Create({{"ranks", ranks.size}});
  if (!mesh.ok()) return mesh.status();
  const auto rows = belay::Layout::Create(*mesh, {{"ranks"}, {}});
  const auto columns = belay::Layout::Create(*mesh, {{}, {"ranks"}});
  const auto line = belay::Layout::Create(*mesh, {{"ranks"}});
  for (const auto* layout : {&rows, &columns, &line}) {
    if (!layout->ok()) return layout->status();
  }
  const int64_t features = shape.context * shape.embedding;
  Model model = {
      .shape = shape,
      .embedding = {.key = "embedding",
                    .layout = *rows,
                    .shape = {shape.vocabulary, shape.embedding}},
      .hidden_weight = {.key = "hidden_weight",
                        .layout = *columns,
                        .shape = {features, shape.hidden}},
      .hidden_bias = {.key = "hidden_bias",
                      .layout = *line,
                      .shape = {shape.hidden}},
      .output_weight = {.key = "output_weight",
                        .layout = belay::Layout::Replicated(*mesh, 2),
                        .shape = {shape.hidden, shape.vocabulary}},
      .output_bias = {.key = "output_bias",
                      .layout = belay::Layout::Replicated(*mesh, 1),
                      .shape = {shape.vocabulary}}};
  const float from_features = 1 / std::sqrt(static_cast<float>(features));
  const float from_hidden = 1 / std::sqrt(static_cast<float>(shape.hidden));
  const std::array<float, 5> scales = {1, from_features, 0, from_hidden, 0};
  for (size_t i = 0; i < scales.size(); ++i) {
    const belay::Status status =
        Initialize(*model.Params()[i], ranks.rank, seed + i, scales[i]);
    if (!status.ok()) return status;
  }
  return model;
}

void Param::Track(belay::Tracker& tracker) {
  tracker.Value("value", layout, shape, value);
  tracker.Value("mean", layout, shape, mean);
  tracker.Value("square", layout, shape, square);
}

void Model::Track(belay::Tracker& tracker) {
  for (Param* param : Params()) tracker.Child(param->key, *param);
}

double TrainStep(const Ranks& ranks, Model& model, const Batch& batch,
                 int64_t step, float learning_rate) {
  const Activations a = Forward(ranks, model, batch);
  Backward(ranks, a, batch, model);
  for (Param* param : model.Params()) AdamStep(step, learning_rate, *param);
  return MeanLoss(a.probabilities, batch);
}

std::vector<float> Predict(const Ranks& ranks, const Model& model,
                           const Batch& batch) {
  return Forward(ranks, model, batch).probabilities;
}

}  // namespace char_lm
