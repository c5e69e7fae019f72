// Trains a small character language model that survives being killed, and stops
// in time when its job has to end.
//
//   mpirun -n 4 ./char_lm --dir run --save-every 50 --steps 400
//   mpirun -n 3 ./char_lm --dir run --save-every 50 --steps 400 --resume
//
// A training program uses belay in three places: Track lists the state, Resume
// restores it, and TrainLoop saves it. The exit code is 0 after the last step,
// 85 if the job had to stop before, and 1 after an error.

#include <mpi.h>
#include <signal.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <map>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "belay/checkpoint_manager.h"
#include "model.h"
#include "progress.h"
#include "text.h"

namespace char_lm {
namespace {

struct Options {
  std::string text = "/usr/share/common-licenses";
  std::string dir = "run";
  std::string loss_log;
  int64_t steps = 400;
  int64_t save_every = 50;
  int64_t report_every = 10;
  int64_t batch = 32;
  int64_t sample = 0;
  uint64_t seed = 1;
  float learning_rate = 5e-4f;
  bool resume = false;
  double mtbf = 0;
  int64_t tolerated_failures = 0;
  bool stop_at_time_limit = false;
  double margin = 30;
  double deadline = 600;
  belay::FileLayout file_layout = belay::FileLayout::kShared;
  bool read_back = false;
  bool async = false;
  double step_seconds = 0;
  ModelShape shape;

  bool Saves() const { return save_every > 0 || mtbf > 0; }
};

// Everything that a restarted job needs: the model, and the rest of the state.
struct Training {
  Model model;
  DataCursor cursor;
  int64_t step = 0;  // completed steps
  std::string vocabulary;

  void Track(belay::Tracker& tracker) {
    tracker.Value("step", step);
    tracker.Value("position", cursor.position);
    tracker.Value("random", cursor.random);
    tracker.Value("vocabulary", vocabulary);
  }
};

belay::ManagerOptions ManagerOptionsOf(const Options& options,
                                       belay::PlanCache& cache) {
  belay::ManagerOptions how;
  if (options.mtbf > 0) {
    how.save_policy.auto_interval =
        belay::AutoInterval{.mtbf_seconds = options.mtbf};
  } else if (options.save_every > 0) {
    how.save_policy.save_interval_steps = options.save_every;
  } else {
    how.read_only = true;
  }
  how.tolerated_failures = options.tolerated_failures;
  how.stop_signals = {SIGUSR1, SIGTERM};
  how.stop_at_time_limit = options.stop_at_time_limit;
  how.final_save_margin = options.margin;
  // Later saves of the same state reuse the plan of the first one.
  how.save.cache = &cache;
  how.save.deadline_seconds = options.deadline;
  how.save.file_layout = options.file_layout;
  how.save.read_back = options.read_back;
  if (options.async && !how.read_only) how.async = belay::AsyncOptions();
  return how;
}

belay::Status Resume(const Options& options, const Text& text,
                     belay::CheckpointManager& manager, Training& training,
                     Progress& progress) {
  if (!options.resume && options.Saves() && manager.LatestStep()) {
    return absl::AlreadyExistsError(absl::StrFormat(
        "start: \"%s\" has checkpoints already; go on with --resume, or choose "
        "another --dir",
        options.dir));
  }
  if (!options.resume) return absl::OkStatus();
  const auto restored = manager.RestoreLatest();
  if (!restored.ok()) return restored.status();
  if (!restored->step) {
    progress.Say("  no checkpoint yet: starting from the beginning");
    return absl::OkStatus();
  }
  const auto all = restored->load_status.AssertExistingObjectsMatched();
  if (!all.ok()) return all;
  if (training.vocabulary != text.vocabulary) {
    return absl::FailedPreconditionError(
        "resume: the text has other characters than the one before");
  }
  progress.Resumed(manager.StepPath(*restored->step), *restored);
  return absl::OkStatus();
}

// Returns whether the save was missed: true after a tolerated failure.
belay::StatusOr<bool> SaveNow(belay::CheckpointManager& manager, int64_t step,
                              const belay::ManagedSaveOptions& how,
                              Progress& progress) {
  const auto saved = manager.Save(step, how);
  if (!saved.ok()) return saved.status();
  if (saved->finished) progress.Saved(*saved->finished);
  if (saved->outcome == belay::SaveOutcome::kSaved) {
    progress.Saved(saved->result);
  }
  return saved->failure.has_value();
}

// Saves the step if it is due. `missed` says whether the last save was missed.
belay::Status SaveIfDue(belay::CheckpointManager& manager, int64_t step,
                        Progress& progress, bool& missed) {
  const auto due = manager.ShouldSave(step);
  if (!due.ok()) return due.status();
  if (!*due) return absl::OkStatus();
  const auto outcome = SaveNow(manager, step, {}, progress);
  if (outcome.ok()) missed = *outcome;
  return outcome.status();
}

// Returns early if the job must stop.
belay::Status TrainLoop(const Ranks& ranks, const Options& options,
                        const Text& text, belay::CheckpointManager& manager,
                        Training& training, Progress& progress) {
  bool missed = false;
  while (training.step < options.steps && !manager.ShouldStop()) {
    const Batch batch =
        NextBatch(text, options.shape.context, options.batch, training.cursor);
    ++training.step;
    const double loss = TrainStep(ranks, training.model, batch, training.step,
                                  options.learning_rate);
    progress.Step(training.step, loss);
    std::this_thread::sleep_for(
        std::chrono::duration<double>(options.step_seconds));
    const belay::Status status =
        SaveIfDue(manager, training.step, progress, missed);
    if (!status.ok()) return status;
    progress.Notes(manager.notes());
  }
  const auto ended = manager.Wait();
  if (!ended.ok()) return ended.status();
  if (*ended && (*ended)->outcome == belay::SaveOutcome::kSaved) {
    progress.Saved((*ended)->result);
  }
  missed = missed || (*ended && (*ended)->failure);
  // The interval that belay chooses may not end at the last step, and no rule
  // repeats a missed save. A failure of this forced save is not tolerated.
  const bool has_all = manager.LatestStep().value_or(0) >= training.step;
  const bool is_owed = options.mtbf > 0 || missed;
  if (!is_owed || manager.ShouldStop() || has_all) return absl::OkStatus();
  return SaveNow(manager, training.step, {.force = true}, progress).status();
}

// Lets the model continue the text from its middle. Does not change the random
// numbers of the training.
std::string WriteSample(const Ranks& ranks, const Options& options,
                        const Text& text, const Model& model) {
  const int64_t context = options.shape.context;
  RandomState random = SeedRandom(options.seed);
  const auto middle = text.tokens.begin() +
                      (static_cast<int64_t>(text.tokens.size()) - context) / 2;
  std::vector<int32_t> tokens(middle, middle + context);
  std::string sample;
  for (int64_t n = 0; n < options.sample; ++n) {
    Batch batch;
    batch.size = 1;
    batch.inputs.assign(tokens.end() - context, tokens.end());
    std::vector<float> weights = Predict(ranks, model, batch);
    // The power favors likely characters, which gives fewer typos.
    for (float& weight : weights) weight *= std::sqrt(weight);
    float left = UnitFloat(NextRandom(random)) *
                 std::accumulate(weights.begin(), weights.end(), 0.0f);
    size_t token = 0;
    while (token + 1 < weights.size() && left >= weights[token]) {
      left -= weights[token++];
    }
    tokens.push_back(static_cast<int32_t>(token));
    sample += text.vocabulary[token];
  }
  return sample;
}

void Introduce(const Ranks& ranks, const Text& text, Training& training,
               const Progress& progress) {
  int64_t parameters = 0;
  for (const Param* param : training.model.Params()) {
    parameters += belay::NumElements(param->shape);
  }
  progress.Say(absl::StrFormat(
      "char_lm: %.2f million parameters on %d rank%s, %d characters of text, "
      "%d distinct",
      static_cast<double>(parameters) / 1e6, ranks.size,
      ranks.size == 1 ? "" : "s", text.tokens.size(), text.vocabulary.size()));
}

// Does what a rank can do without the others: reads the text, creates its part
// of the model, opens the log.
belay::StatusOr<Training> Prepare(const Ranks& ranks, Options& options,
                                  Text& text, Progress& progress) {
  auto read = ReadText(options.text);
  if (!read.ok()) return read.status();
  text = *std::move(read);
  options.shape.vocabulary = static_cast<int64_t>(text.vocabulary.size());
  if (static_cast<int64_t>(text.tokens.size()) <= options.shape.context) {
    return absl::InvalidArgumentError("read text \"" + options.text +
                                      "\": shorter than the context");
  }
  auto model = CreateModel(options.shape, ranks, options.seed);
  if (!model.ok()) return model.status();
  const belay::Status status = progress.OpenLog(options.loss_log);
  if (!status.ok()) return status;
  return Training{.model = *std::move(model),
                  .cursor = {.random = SeedRandom(options.seed)},
                  .vocabulary = text.vocabulary};
}

// Everything from here on is collective: all ranks get the same. Returns the
// exit code.
belay::StatusOr<int> Train(const Ranks& ranks, const Options& options,
                           const Text& text, Training& training,
                           Progress& progress) {
  auto comm = belay::Comm::Duplicate(ranks.comm);
  if (!comm.ok()) return comm.status();
  Introduce(ranks, text, training, progress);
  belay::Checkpoint checkpoint(
      *comm, {{"model", training.model}, {"train", training}});
  belay::PlanCache cache;
  auto manager = belay::CheckpointManager::Create(
      checkpoint, options.dir, ManagerOptionsOf(options, cache));
  if (!manager.ok()) return manager.status();
  progress.Notes(manager->notes());
  belay::Status status = Resume(options, text, *manager, training, progress);
  if (!status.ok()) return status;
  status = TrainLoop(ranks, options, text, *manager, training, progress);
  if (!status.ok()) return status;
  if (const auto reason = manager->ShouldStop();
      reason && training.step < options.steps) {
    progress.Say(absl::StrFormat(
        "  stopped at step %d because of %s: start it again with --resume",
        training.step, reason->ToString()));
    return belay::kStoppedExitCode;
  }
  if (options.sample > 0) {
    progress.Say("the model writes:\n" +
                 WriteSample(ranks, options, text, training.model));
  }
  return 0;
}

// Returns the exit code.
int Run(const Ranks& ranks, Options options) {
  Text text;
  Progress progress(ranks.rank == 0, options.report_every, options.steps);
  auto training = Prepare(ranks, options, text, progress);
  // One rank may have failed alone; the others must not start without it.
  int all_ready = training.ok();
  MPI_Allreduce(MPI_IN_PLACE, &all_ready, 1, MPI_INT, MPI_LAND, ranks.comm);
  if (!all_ready) {
    if (training.ok()) return 1;
    std::fprintf(stderr, "rank %d: %s\n", ranks.rank,
                 training.status().ToString().c_str());
    return 1;
  }
  const belay::StatusOr<int> code =
      Train(ranks, options, text, *training, progress);
  if (code.ok()) return *code;
  if (ranks.rank == 0) {
    std::fprintf(stderr, "%s\n", code.status().ToString().c_str());
  }
  return 1;
}

std::map<std::string, belay::FileLayout> FileLayouts() {
  return {{"shared", belay::FileLayout::kShared},
          {"per_node", belay::FileLayout::kPerNode},
          {"per_task", belay::FileLayout::kPerTask}};
}

void DeclareFlags(CLI::App& app, Options& o) {
  app.option_defaults()->always_capture_default();
  app.option_defaults()->take_last();
  app.add_option("--steps", o.steps, "train up to this step")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--save-every", o.save_every, "steps between saves; 0: never")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--mtbf", o.mtbf,
                 "save instead as often as is best for a failure every so many "
                 "seconds; 0: do not")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--tolerated-failures", o.tolerated_failures,
                 "go on though so many saves in a row fail because of the file "
                 "system")
      ->check(CLI::NonNegativeNumber);
  app.add_flag("--stop-at-time-limit", o.stop_at_time_limit,
               "stop in time before the job's time limit");
  app.add_option("--margin", o.margin,
                 "seconds to be left then, after the last save")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--deadline", o.deadline,
                 "seconds that a part of a save may take, or the job ends with "
                 "exit code 75; 0: no limit")
      ->check(CLI::NonNegativeNumber);
  app.add_option_function<std::string>(
         "--files",
         [&o](const std::string& name) {
           o.file_layout = FileLayouts().at(name);
         },
         "one for all, or for each of these")
      ->default_str("shared")
      ->check(CLI::IsMember(FileLayouts()));
  app.add_flag("--async", o.async, "train on while a step is written");
  app.add_flag("--read-back", o.read_back,
               "compare what was saved with what is in memory");
  app.add_option("--step-seconds", o.step_seconds,
                 "sleep so long in each step, as if the model were larger")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--report-every", o.report_every, "steps between lines")
      ->check(CLI::PositiveNumber);
  app.add_option("--dir", o.dir, "where the checkpoints are");
  app.add_flag("--resume", o.resume, "go on from the last checkpoint, if any");
  app.add_option("--batch", o.batch, "examples in a step")
      ->check(CLI::PositiveNumber);
  app.add_option("--text", o.text, "a file, or a directory of files");
  app.add_option("--loss-log", o.loss_log, "append the loss of every step");
  app.add_option("--sample", o.sample, "write so many characters at the end")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--seed", o.seed, "of the weights and the noise");
  app.add_option("--learning-rate", o.learning_rate);
  app.add_option("--context", o.shape.context, "characters that it sees")
      ->check(CLI::PositiveNumber);
  app.add_option("--embedding", o.shape.embedding, "numbers per character")
      ->check(CLI::PositiveNumber);
  app.add_option("--hidden", o.shape.hidden, "hidden units")
      ->check(CLI::PositiveNumber);
}

}  // namespace
}  // namespace char_lm

int main(int argc, char** argv) {
  CLI::App app("Trains a small character language model with checkpoints.");
  char_lm::Options options;
  char_lm::DeclareFlags(app, options);
  CLI11_PARSE(app, argc, argv);

  MPI_Init(&argc, &argv);
  char_lm::Ranks ranks = {.comm = MPI_COMM_WORLD};
  MPI_Comm_rank(ranks.comm, &ranks.rank);
  MPI_Comm_size(ranks.comm, &ranks.size);
  const int exit_code = char_lm::Run(ranks, options);
  MPI_Finalize();
  return exit_code;
}
