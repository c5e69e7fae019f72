// Makes every fault point of an export and of an import fail on every rank, one
// at a time: the same error everywhere, no hang, and nothing that looks like a
// result. BELAY_SWEEP_STRIDE=1 takes every point.

#include <filesystem>

#include "fault_points.h"
#include "safetensors_testing.h"

namespace belay::testing {
namespace {

constexpr int64_t kOld = 1;
constexpr int64_t kNew = 2;

class SafetensorsFaultTest : public SafetensorsTest {
 protected:
  static void SetUpTestSuite() { UseMemory(); }

  void SetUp() override {
    SafetensorsTest::SetUp();
    // Some of each kind; the large one would only take time.
    std::erase_if(tensors_, [](const auto& tensor) {
      return tensor.name == "model/large";
    });
    SaveTensors(kOld);
    SaveTensors(kNew);
  }

  Status Export(int64_t step, const ExportOptions& options) {
    return ExportSafetensors(comm_, run(), step, File("hf"), options).status();
  }

  std::set<std::string> FilesOfExport() {
    MPI_Barrier(MPI_COMM_WORLD);  // rank 0 may still clean up
    std::set<std::string> names = NamesIn(File("hf"));
    MPI_Barrier(MPI_COMM_WORLD);
    return names;
  }

  // The bytes of all files there.
  std::map<std::string, std::string> ContentOfExport() {
    std::map<std::string, std::string> content;
    for (const std::string& name : FilesOfExport()) {
      content[name] = FileBytes(File("hf/" + name));
    }
    return content;
  }

  // Lets `operation` fail at each point that a run of it passes, and calls
  // `check` with what came of it. Only what comes after the names are given may
  // fail without harm, on all ranks the two exchanges in which counters are
  // combined, and on rank 0 what was replaced is looked for and `removed`.
  template <typename Operation, typename Check>
  void Sweep(int64_t stride, int64_t removed, Operation operation,
             Check check) {
    fault::Arm(0);
    EXPECT_EQ(operation(), absl::OkStatus());
    const std::vector<int64_t> counts = CountOfEachRank(fault::Count());
    fault::Disarm();
    check(absl::OkStatus());
    int64_t tried = 0, harmless = 0;
    for (int rank = 0; rank < size_; ++rank) {
      const int64_t last = counts[rank] - 4 - (rank == 0 ? removed : 0);
      for (const int64_t n : PointsToTake(counts[rank], StrideOr(stride))) {
        SCOPED_TRACE(absl::StrCat("point ", n, " of rank ", rank));
        const Status status = WithFault(rank, n, operation);
        ExpectAgreed(status, rank);
        check(status);
        ++tried;
        harmless += status.ok() ? 1 : 0;
        EXPECT_TRUE(!status.ok() || n > last) << "of " << counts[rank];
        if (!OnAllRanks(!HasFailure())) return;
      }
    }
    EXPECT_GT(tried, 10 * size_);
    if (rank_ == 0) {
      printf("points %s; tried %ld, harmless %ld\n",
             absl::StrJoin(counts, " ").c_str(), tried, harmless);
    }
  }
};

TEST_F(SafetensorsFaultTest, AnExportIsWholeOrNotThere) {
  const ExportOptions options = {.max_bytes_in_flight = 4096,
                                 .deadline_seconds = 20};
  if (rank_ == 0) std::filesystem::create_directory(File("hf"));
  MPI_Barrier(MPI_COMM_WORLD);
  Sweep(
      2, 1, [&] { return Export(kNew, options); },
      [&](const Status& status) {
        if (!status.ok()) {
          EXPECT_EQ(FilesOfExport(), std::set<std::string>());
          return;
        }
        EXPECT_EQ(FilesOfExport(), std::set<std::string>{"model.safetensors"});
        ExpectFile(File("hf/model.safetensors"), kNew);
        if (rank_ == 0) std::filesystem::remove(File("hf/model.safetensors"));
        MPI_Barrier(MPI_COMM_WORLD);
      });
}

TEST_F(SafetensorsFaultTest, OneOfManyFilesIsReplacedWholeOrNotAtAll) {
  ExportOptions options = {
      .max_file_bytes = 3000, .overwrite = true, .deadline_seconds = 20};
  const auto export_many = [&] {
    options.max_file_bytes = 3000;
    return Export(kOld, options);
  };
  ASSERT_EQ(export_many(), absl::OkStatus());
  ExpectFile(File("hf/model.safetensors.index.json"), kOld);
  const std::map<std::string, std::string> many = ContentOfExport();
  // One file in the place of many.
  Sweep(
      5, 1 + 2 * std::ssize(many),
      [&] {
        options.max_file_bytes = 0;
        return Export(kNew, options);
      },
      [&](const Status& status) {
        if (!status.ok()) {
          EXPECT_EQ(ContentOfExport(), many);
          return;
        }
        std::set<std::string> names = FilesOfExport();
        // What could not be removed has no name that is read.
        std::erase_if(names, [](const std::string& name) {
          return name.ends_with(".replaced");
        });
        EXPECT_EQ(names, std::set<std::string>{"model.safetensors"});
        ExpectFile(File("hf/model.safetensors"), kNew);
        EXPECT_EQ(export_many(), absl::OkStatus());
        EXPECT_EQ(ContentOfExport(), many);
      });
}

TEST_F(SafetensorsFaultTest, AnImportIsCommittedOrNotThere) {
  WriteFiles(7);
  const ImportOptions options = {
      .save = {.overwrite = true, .deadline_seconds = 20}};
  Sweep(
      7, 4,
      [&] {
        return ImportSafetensors(comm_, {File("indexed")}, run(), kOld, options)
            .status();
      },
      [&](const Status& status) {
        ExpectStep(kNew, kNew);
        ExpectStep(kOld, status.ok() ? 7 : kOld);
        if (!status.ok()) return;
        Values values = PiecesOf(tensors_, rank_, size_);
        values.Fill(kOld);
        Ok(Save(comm_, run(), kOld, values.MakeState(), {.overwrite = true}));
      });
}

}  // namespace
}  // namespace belay::testing
