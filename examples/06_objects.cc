// Saves a model with its optimizer as objects, and restores them by name.
//
//   mpirun -n 4 ./06_objects run
//   belay graph run

#include <mpi.h>

#include <cstdio>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "belay/arrays/mesh.h"
#include "belay/checkpoint.h"

namespace {

constexpr int64_t kSize = 64;

// A dense layer whose rows are partitioned over the ranks.
struct Dense {
  Dense(const belay::Layout& cut, int rank)
      : layout(cut),
        kernel(belay::NumElements(cut.LocalBox({kSize, kSize}, rank)->shape)),
        bias(kSize) {}

  void Track(belay::Tracker& tracker) {
    tracker.Child("kernel",
                  belay::TrackedValue(layout, {kSize, kSize}, kernel));
    tracker.Value("bias", bias);
  }

  belay::Layout layout;
  std::vector<float> kernel, bias;
};

// Adam's state for the kernels.
struct Adam {
  explicit Adam(std::vector<Dense>& of)
      : layers(of),
        moments(of.size(), std::vector<float>(of[0].kernel.size())) {}

  void Track(belay::Tracker& tracker) {
    tracker.Value("step", step);
    const belay::Shape shape = {kSize, kSize};
    for (size_t i = 0; i < layers.size(); ++i) {
      tracker.Slot(
          "m", belay::TrackedValue(layers[i].layout, shape, layers[i].kernel),
          belay::TrackedValue(layers[i].layout, shape, moments[i]));
    }
  }

  std::vector<Dense>& layers;
  std::vector<std::vector<float>> moments;
  int64_t step = 0;
};

// The state of a random generator, which only the program can read.
void TrackRandom(belay::Tracker& tracker, std::mt19937& random) {
  tracker.Bytes(
      "state",
      [&random]() -> belay::StatusOr<std::string> {
        std::ostringstream out;
        out << random;
        return out.str();
      },
      [&random](const std::string& bytes) {
        std::istringstream(bytes) >> random;
        return absl::OkStatus();
      });
}

belay::Status SaveAndRestore(const belay::Comm& comm, const std::string& dir) {
  auto mesh = belay::Mesh::Create({{"rows", comm.size()}});
  if (!mesh.ok()) return mesh.status();
  auto layout = belay::Layout::Create(*mesh, {{"rows"}, {}});
  if (!layout.ok()) return layout.status();

  std::vector<Dense> model(2, Dense(*layout, comm.rank()));
  Adam adam(model);
  std::mt19937 random(7);
  const auto generator = [&](belay::Tracker& t) { TrackRandom(t, random); };
  model[1].bias[3] = 2.5f;
  adam.step = 1000;
  const auto next = std::mt19937(random)();

  belay::Checkpoint checkpoint(
      comm, {{"model", model}, {"adam", adam}, {"random", generator}});
  auto saved = checkpoint.Save(dir, {.overwrite = true});
  if (!saved.ok()) return saved.status();

  // A new program without an optimizer.
  std::vector<Dense> other(2, Dense(*layout, comm.rank()));
  random.seed(0);
  Adam* optimizer = nullptr;
  const auto program = [&](belay::Tracker& tracker) {
    tracker.Child("model", other);
    tracker.Child("random", generator);
    if (optimizer != nullptr) tracker.Child("adam", *optimizer);
  };
  belay::Checkpoint later(comm, program);
  auto status = later.Restore(dir);
  if (!status.ok()) return status.status();
  if (comm.rank() == 0) std::printf("%s\n", status->ToString().c_str());

  // Now it creates one.
  Adam late(other);
  optimizer = &late;
  status = later.RestoreDeferred();
  if (!status.ok()) return status.status();
  if (comm.rank() == 0) std::printf("%s", status->ToString().c_str());
  if (other[1].bias[3] != 2.5f || late.step != 1000 || random() != next) {
    return absl::DataLossError("not what was saved");
  }
  return status->AssertConsumed();
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  auto comm = belay::Comm::Duplicate(MPI_COMM_WORLD);
  const auto status = comm.ok()
                          ? SaveAndRestore(*comm, argc > 1 ? argv[1] : "run")
                          : comm.status();
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  MPI_Finalize();
  return status.ok() ? 0 : 1;
}
