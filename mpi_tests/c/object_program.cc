// Objects of a C++ program, which a program in C restores by their keys, and
// which restore what it has saved.

#include <mpi.h>

#include <cstdint>
#include <string>
#include <vector>

#include "belay/arrays/box.h"
#include "belay/check.h"
#include "belay/checkpoint.h"
#include "belay/comm.h"

extern "C" {
#include "c_test.h"
}

namespace {

constexpr int64_t kLength = 6, kWidth = 4;

// A layer whose rows are cut over the ranks.
struct Layer {
  explicit Layer(const belay::Comm& comm) {
    box.offset = {kLength * comm.rank() / comm.size(), 0};
    box.shape = {kLength * (comm.rank() + 1) / comm.size() - box.offset[0],
                 kWidth};
    kernel.resize(static_cast<size_t>(belay::NumElements(box.shape)));
  }

  void Track(belay::Tracker& tracker) {
    tracker.Child("kernel",
                  belay::TrackedValue({kLength, kWidth}, box, kernel));
    tracker.Value("bias", bias);
    tracker.Value("name", name);
  }

  belay::Box box;
  std::vector<double> kernel;
  std::vector<float> bias = std::vector<float>(3);
  std::string name;
};

struct Program {
  explicit Program(const belay::Comm& comm) : layers(2, Layer(comm)) {}

  void Track(belay::Tracker& tracker) {
    tracker.Child("layers", layers);
    tracker.Value("time", time);
  }

  std::vector<Layer> layers;
  double time = 0;
};

double ElementAt(const Layer& layer, size_t i) {
  return static_cast<double>(layer.box.offset[0] * kWidth) +
         static_cast<double>(i);
}

}  // namespace

void SaveObjects(const char* dir) {
  belay::Comm comm = belay::Check(belay::Comm::Duplicate(MPI_COMM_WORLD));
  Program program(comm);
  program.time = 0.25;
  Layer& layer = program.layers[1];
  for (size_t i = 0; i < layer.kernel.size(); ++i) {
    layer.kernel[i] = ElementAt(layer, i);
  }
  layer.bias = {1, 2, 3};
  layer.name = "dense";
  belay::Checkpoint checkpoint(comm, program);
  belay::Check(checkpoint.Save(dir));
  belay::Check(comm.Close());
}

int64_t CountWrongObjects(const char* dir) {
  belay::Comm comm = belay::Check(belay::Comm::Duplicate(MPI_COMM_WORLD));
  Program program(comm);
  belay::Checkpoint checkpoint(comm, program);
  const auto status = belay::Check(checkpoint.Restore(dir));
  int64_t wrong = program.time != 0.75;
  const Layer& layer = program.layers[1];
  for (size_t i = 0; i < layer.kernel.size(); ++i) {
    wrong += layer.kernel[i] != ElementAt(layer, i);
  }
  wrong += layer.bias != std::vector<float>{4, 5, 6};
  wrong += layer.name != "wide";
  // Only this layer and the time were saved.
  wrong += status.AssertExistingObjectsMatched().ok();
  belay::Check(comm.Close());
  return wrong;
}
