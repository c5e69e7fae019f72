// Imports from safetensors on any number of ranks, of files that another
// program has written.

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "belay/checkpoint_reader.h"
#include "core/wire.h"
#include "safetensors_testing.h"

namespace belay::safetensors_import_test {
namespace {

using testing::FileBytes;
using ::testing::HasSubstr;
using testing::Names;
using testing::Ok;
using testing::PutFile;
using testing::SafetensorsTest;

class ImportTest : public SafetensorsTest {
 protected:
  void ExpectRefused(const std::vector<std::string>& in,
                     const ImportOptions& options, absl::StatusCode code,
                     const std::string& message, bool is_begun = false) {
    MPI_Barrier(MPI_COMM_WORLD);
    const Status status =
        ImportSafetensors(comm_, in, File("new"), 0, options).status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
    EXPECT_TRUE(testing::IsSameEverywhere(status.ToString()));
    MPI_Barrier(MPI_COMM_WORLD);
    // The directory is made by the first save, and stays.
    EXPECT_EQ(std::filesystem::exists(File("new")), is_begun);
    if (is_begun) {
      EXPECT_EQ(Names(File("new")), "");
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }

  // Makes a file of a header and so many bytes of data, on rank 0.
  void PutHeader(const std::string& name, const std::string& header,
                 int64_t bytes) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank_ == 0) {
      WireWriter length;
      length.Put<uint64_t>(header.size());
      PutFile(File(name), length.Take() + header + std::string(bytes, 'x'));
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }

  void ExpectText(int64_t step, const std::string& key,
                  const std::string& text) {
    const auto reader = CheckpointReader::Open(StepPath(run(), step));
    ASSERT_TRUE(reader.ok()) << reader.status();
    EXPECT_EQ(Ok(reader->ReadText(key)), text);
  }

  const std::string text_ = "\xe6\x97\xa5\xe6\x9c\xac \"\n";
};

TEST_F(ImportTest, FilesOfAnotherProgramComeInBitForBit) {
  WriteFiles(8);
  int64_t step = 0;
  for (const std::string name :
       {"plain.safetensors", "odd.safetensors", "indexed",
        "indexed/model.safetensors.index.json"}) {
    SCOPED_TRACE(name);
    const ImportResult result =
        Ok(ImportSafetensors(comm_, {File(name)}, run(), ++step));
    EXPECT_EQ(result.num_tensors, std::ssize(tensors_));
    EXPECT_EQ(result.saved.step, step);
    EXPECT_EQ(result.saved.num_arrays, std::ssize(tensors_) + 2);
    EXPECT_EQ(result.num_texts, 2);
    ASSERT_EQ(result.files.size(), name[0] == 'i' ? 3 : 1);
    EXPECT_EQ(result.files[0].bytes,
              std::filesystem::file_size(result.files[0].path));
    ExpectStep(step, 8);
    ExpectText(step, "__metadata__/format", "pt");
    ExpectText(step, "__metadata__/na\xc3\xafve", text_);
    EXPECT_TRUE(VerifyCheckpoint(result.saved.path)->damage.empty());
  }
  const std::string part = File("indexed/part");
  Ok(ImportSafetensors(
      comm_,
      {part + "0.safetensors", part + "1.safetensors", part + "2.safetensors"},
      run(), ++step));
  ExpectStep(step, 8);
}

TEST_F(ImportTest, ExportAndImportTakeEachOtherBack) {
  WriteFiles(9);
  Ok(ImportSafetensors(comm_, {File("plain.safetensors")}, run(), 1));
  // Byte by byte what the reference implementation writes.
  Ok(ExportSafetensors(comm_, run(), 1, File("again.safetensors")));
  EXPECT_TRUE(FileBytes(File("again.safetensors")) ==
              FileBytes(File("plain.safetensors")));
  Ok(ExportSafetensors(comm_, run(), 1, File("hf"), {.max_file_bytes = 5000}));
  Ok(ImportSafetensors(comm_, {File("hf")}, run(), 2));
  ExpectStep(2, 9);
  ExpectText(2, "__metadata__/na\xc3\xafve", text_);
  Ok(ExportSafetensors(comm_, run(), 2, File("third.safetensors")));
  EXPECT_TRUE(FileBytes(File("third.safetensors")) ==
              FileBytes(File("plain.safetensors")));
}

TEST_F(ImportTest, OptionsOfTheSaveHold) {
  WriteFiles(2);
  const ImportResult result = Ok(ImportSafetensors(
      comm_, {File("odd.safetensors")}, run(), 3,
      {.keys = {"model/.*"},
       .metadata = false,
       .save = {.file_layout = FileLayout::kPerTask,
                .args = {{"model/rows", {.dtype = DType::kF64}}},
                .max_bytes_in_flight = 4096}}));
  EXPECT_EQ(result.num_tensors, 4);
  EXPECT_EQ(result.saved.num_arrays, 4);
  const CheckpointReader reader = Ok(CheckpointReader::Open(result.saved.path));
  EXPECT_EQ(reader.info().file_layout, FileLayout::kPerTask);
  EXPECT_EQ(Ok(reader.Find("model/rows")).dtype, DType::kF64);
  tensors_ = {tensors_[1], tensors_[2], tensors_[3]};
  ExpectStep(3, 2);
  ExpectRefused({File("odd.safetensors")}, {.keys = {"modle/.*"}},
                absl::StatusCode::kInvalidArgument,
                "matches no key (need one of 19)");
  ExpectRefused({File("odd.safetensors")}, {.save = {.max_bytes_in_flight = 1}},
                absl::StatusCode::kInvalidArgument,
                "max_bytes_in_flight is out of range");
}

TEST_F(ImportTest, ProgressIsReported) {
  WriteFiles(2);
  int64_t step = 0;
  for (const Transfer transfer : {Transfer::kIndependent, Transfer::kTwoPhase,
                                  Transfer::kCollective, Transfer::kHdf5}) {
    SCOPED_TRACE(static_cast<int>(transfer));
    int64_t last = 0, all = 0;
    Ok(ImportSafetensors(comm_, {File("plain.safetensors")}, run(), ++step,
                         {.save = {.transfer = transfer},
                          .progress = [&](int64_t done, int64_t total) {
                            EXPECT_GE(done, last);
                            last = done;
                            all = total;
                          }}));
    EXPECT_GT(all, 4'000'000 / size_);
    EXPECT_EQ(last, all);
  }
  ExpectRefused({File("plain.safetensors")},
                {.progress =
                     [&](int64_t, int64_t) {
                       if (rank_ == size_ - 1) {
                         throw std::runtime_error("no more");
                       }
                     }},
                absl::StatusCode::kInternal, "no more", true);
}

TEST_F(ImportTest, StepsAreNotReplacedUnlessItIsSaid) {
  WriteFiles(2);
  Ok(ImportSafetensors(comm_, {File("plain.safetensors")}, run(), 1));
  const Status status =
      ImportSafetensors(comm_, {File("odd.safetensors")}, run(), 1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists) << status;
  Ok(ImportSafetensors(comm_, {File("odd.safetensors")}, run(), 1,
                       {.save = {.overwrite = true}}));
  ExpectStep(1, 2);
}

TEST_F(ImportTest, BadFilesAreRefusedAndNothingIsWritten) {
  const auto lost = absl::StatusCode::kDataLoss;
  ExpectRefused({}, {}, absl::StatusCode::kInvalidArgument,
                "there is nothing to import");
  ExpectRefused({File("none.safetensors")}, {}, absl::StatusCode::kNotFound,
                "no such file");
  ExpectRefused({dir_.path()}, {}, absl::StatusCode::kNotFound,
                "has no file that ends with \".safetensors\"");
  if (rank_ == 0) PutFile(File("x.safetensors"), "short");
  ExpectRefused({File("x.safetensors")}, {}, lost,
                "x.safetensors\": the file is too short to be safetensors");
  if (rank_ == 0) PutFile(File("x.safetensors"), std::string(99, '\xff'));
  ExpectRefused({File("x.safetensors")}, {}, lost,
                "need at most 100000000 bytes, found 18446744073709551615");
  PutHeader("x.safetensors", "{\"a\":", 8);
  ExpectRefused({File("x.safetensors")}, {}, lost, "not JSON");
  PutHeader("x.safetensors",
            R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},)"
            R"("b":{"dtype":"U8","shape":[8],"data_offsets":[4,12]}})",
            12);
  ExpectRefused({File("x.safetensors")}, {}, lost,
                "x.safetensors\": tensors overlap");
  PutHeader("x.safetensors",
            R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}})", 7);
  ExpectRefused({dir_.path()}, {}, lost, "the file is cut off");
  PutHeader("x.safetensors",
            R"({"":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}})", 8);
  ExpectRefused({dir_.path()}, {}, absl::StatusCode::kInvalidArgument,
                "plan \"\"");
}

TEST_F(ImportTest, OnlyFilesAreRead) {
  if (rank_ == 0) {
    std::filesystem::create_directories(File("in/x.safetensors"));
    EXPECT_EQ(mkfifo(File("pipe.safetensors").c_str(), 0666), 0);
    EXPECT_EQ(mkfifo(File("pipe.json").c_str(), 0666), 0);
  }
  const auto bad = absl::StatusCode::kInvalidArgument;
  ExpectRefused({File("in")}, {}, bad,
                "in/x.safetensors\": not a file (need a regular file, found a "
                "directory)");
  for (const char* name : {"pipe.safetensors", "pipe.json", ""}) {
    ExpectRefused({File(name)}, {}, bad,
                  "not a file (need a regular file, found a pipe)");
  }
  ExpectRefused({"/dev/null"}, {}, bad,
                "open \"/dev/null\": not a file (need a regular file, found a "
                "device)");
}

TEST_F(ImportTest, DtypesThatBelayLacksAreNamedOrLeftOut) {
  PutHeader("x.safetensors",
            R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
            R"("f":{"dtype":"F4","shape":[8],"data_offsets":[4,8]}})",
            8);
  ExpectRefused({File("x.safetensors")}, {}, absl::StatusCode::kUnimplemented,
                "tensor \"f\": belay has no dtype F4; leave such tensors out "
                "with leave_out_others");
  const ImportResult result = Ok(ImportSafetensors(
      comm_, {File("x.safetensors")}, run(), 0, {.leave_out_others = true}));
  EXPECT_THAT(result.left_out,
              ::testing::ElementsAre(LeftOut{"f", "belay has no dtype F4"}));
  EXPECT_EQ(result.num_tensors, 1);
  EXPECT_EQ(Ok(ListVariables(run())).size(), 1);
}

TEST_F(ImportTest, IndexesAreHeldAgainstTheirFiles) {
  WriteFiles(2);
  const auto lost = absl::StatusCode::kDataLoss;
  const std::string index = File("indexed/model.safetensors.index.json");
  const std::string good = FileBytes(index);
  const auto put = [&](const std::string& text) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank_ == 0) PutFile(index, text);
    MPI_Barrier(MPI_COMM_WORLD);
  };
  put(R"({"weight_map":{"a":"../plain.safetensors"}})");
  ExpectRefused({File("indexed")}, {}, absl::StatusCode::kInvalidArgument,
                "model.safetensors.index.json\": the file of tensor \"a\" is "
                "not in the directory of the index");
  put(R"({"weight_map":{"a":"/etc/passwd"}})");
  ExpectRefused({index}, {}, absl::StatusCode::kInvalidArgument,
                "found \"/etc/passwd\"");
  put(R"({"weight_map":{"a":"lost.safetensors"}})");
  ExpectRefused({index}, {}, lost, "the file \"lost.safetensors\" is missing");
  put(R"({"weight_map":{"a":"part0.safetensors"}})");
  ExpectRefused({index}, {}, lost, "the index does not say that tensor");
  put(good.substr(0, good.size() - 2) + R"(,"more":"part0.safetensors"}})");
  ExpectRefused({index}, {}, lost,
                "tensor \"more\" is not in \"part0.safetensors\", where the "
                "index says it is");
  put(good);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank_ == 0) PutFile(File("indexed/x.safetensors.index.json"), good);
  ExpectRefused({File("indexed")}, {}, absl::StatusCode::kInvalidArgument,
                "several indexes");
  ExpectRefused({File("plain.safetensors"), File("odd.safetensors")}, {},
                absl::StatusCode::kInvalidArgument, "plain.safetensors\", too");
}

// A series without its index is one that was not finished, or not copied.
TEST_F(ImportTest, SeriesAreWhole) {
  SaveTensors(1);
  Ok(ExportSafetensors(comm_, run(), 1, File("hf"), {.max_file_bytes = 5000}));
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank_ == 0) {
    std::filesystem::remove(File("hf/model.safetensors.index.json"));
  }
  MPI_Barrier(MPI_COMM_WORLD);
  Ok(ImportSafetensors(comm_, {File("hf")}, run(), 2));
  ExpectStep(2, 1);
  if (rank_ == 0) {
    for (const auto& entry : std::filesystem::directory_iterator(File("hf"))) {
      if (entry.path().string().find("-00002-of") != std::string::npos) {
        std::filesystem::remove(entry.path());
      }
    }
  }
  ExpectRefused({File("hf")}, {}, absl::StatusCode::kDataLoss,
                "files of \"model\" are missing (need");
}

TEST_F(ImportTest, MetadataOfFilesMustAgree) {
  const std::string tensor =
      R"({"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  PutHeader("a.safetensors",
            R"({"__metadata__":{"x":"1","y":"1"},"a":)" + tensor + "}", 1);
  PutHeader("b.safetensors", R"({"__metadata__":{"x":"2"},"b":)" + tensor + "}",
            1);
  ExpectRefused({dir_.path()}, {}, absl::StatusCode::kInvalidArgument,
                "metadata \"x\" is another in");
  const ImportResult result = Ok(
      ImportSafetensors(comm_, {dir_.path()}, run(), 0, {.metadata = false}));
  EXPECT_EQ(result.saved.num_arrays, 2);
  MPI_Barrier(MPI_COMM_WORLD);
  // A tensor may be called as metadata would be.
  PutHeader("b.safetensors", R"({"__metadata__/x":)" + tensor + "}", 1);
  ExpectRefused({dir_.path()}, {}, absl::StatusCode::kInvalidArgument,
                "plan \"__metadata__/x\"");
}

TEST_F(ImportTest, RanksMustPassTheSame) {
  if (size_ == 1) GTEST_SKIP() << "needs two ranks";
  const bool mine = rank_ == size_ - 1;
  const auto bad = absl::StatusCode::kInvalidArgument;
  ExpectRefused({File(mine ? "x" : "y")}, {}, bad,
                "import: the files differs between ranks");
  ExpectRefused({File("x")}, {.metadata = mine}, bad,
                "import: the options metadata and leave_out_others differs");
}

// The file is larger than what the process may use of its own.
TEST_F(ImportTest, NeedsLittleMemory) {
  constexpr int64_t kMiB = int64_t{1} << 20;
  constexpr int64_t kBytes = 256 * kMiB;
  std::string header =
      absl::StrCat(R"({"a":{"dtype":"U8","shape":[)", kBytes / 4096,
                   R"(,4096],"data_offsets":[0,)", kBytes, "]}}");
  header.resize((header.size() + 7) / 8 * 8, ' ');
  PutHeader("x.safetensors", header, 0);
  if (rank_ == 0) {
    std::filesystem::resize_file(
        File("x.safetensors"),
        std::filesystem::file_size(File("x.safetensors")) + kBytes);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_DATA, &before), 0);
  std::ifstream status("/proc/self/status");
  int64_t data_kib = 0;
  for (std::string word; status >> word;) {
    if (word == "VmData:") status >> data_kib;
  }
  const rlimit limit = {static_cast<rlim_t>(data_kib * 1024 + 48 * kMiB),
                        before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_DATA, &limit), 0);
  EXPECT_EQ(
      mmap(nullptr, 64 * kMiB, PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
      MAP_FAILED);
  const SaveOptions save = {.max_bytes_in_flight = 4 * kMiB, .durable = false};
  const Status imported = ImportSafetensors(comm_, {File("x.safetensors")},
                                            run(), 0, {.save = save})
                              .status();
  const Status exported =
      ExportSafetensors(comm_, run(), 0, File("y.safetensors"),
                        {.durable = false, .max_bytes_in_flight = 4 * kMiB})
          .status();
  ASSERT_EQ(setrlimit(RLIMIT_DATA, &before), 0);
  EXPECT_TRUE(imported.ok()) << imported;
  EXPECT_TRUE(exported.ok()) << exported;
  if (rank_ == 0) {
    EXPECT_TRUE(FileBytes(File("x.safetensors")) ==
                FileBytes(File("y.safetensors")));
  }
}

}  // namespace
}  // namespace belay::safetensors_import_test
