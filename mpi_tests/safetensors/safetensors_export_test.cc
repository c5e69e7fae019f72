// Exports to safetensors on any number of ranks, of states that were saved on
// any cut, against a reader that knows nothing of belay.

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "safetensors_testing.h"

namespace belay::safetensors_export_test {
namespace {

using testing::FileBytes;
using ::testing::HasSubstr;
using testing::Names;
using testing::Ok;
using testing::SafetensorsTest;

class ExportTest : public SafetensorsTest {
 protected:
  void ExpectRefused(const std::string& out, const ExportOptions& options,
                     absl::StatusCode code, const std::string& message,
                     std::optional<int64_t> step = kLatestStep) {
    const Status status =
        ExportSafetensors(comm_, run(), step, out, options).status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
    EXPECT_TRUE(testing::IsSameEverywhere(status.ToString()));
  }
};

TEST_F(ExportTest, OneFileHasEveryBit) {
  SaveTensors(3);
  const ExportResult result = Ok(ExportSafetensors(
      comm_, run(), 3, File("x.safetensors"),
      {.metadata = {{"format", "pt"}}, .max_bytes_in_flight = 4096}));
  ExpectFile(File("x.safetensors"), 3, "format=pt");
  EXPECT_EQ(result.path, run() + "/step_00000003");
  EXPECT_EQ(result.step, 3);
  EXPECT_EQ(result.num_tensors, std::ssize(tensors_));
  ASSERT_EQ(result.files.size(), 1);
  EXPECT_EQ(result.files[0].path, File("x.safetensors"));
  EXPECT_EQ(result.files[0].num_tensors, std::ssize(tensors_));
  EXPECT_EQ(result.files[0].bytes,
            std::filesystem::file_size(File("x.safetensors")));
  EXPECT_EQ(result.index, "");
  EXPECT_TRUE(result.left_out.empty());
  EXPECT_EQ(result.blocks_partial, 0);
  EXPECT_GE(result.blocks_verified, 17);
  EXPECT_EQ(result.counters.bytes, result.bytes);
}

// Whoever saved, and however: the same file.
TEST_F(ExportTest, TheFileDoesNotDependOnHowTheStateWasSaved) {
  const std::vector<SaveOptions> ways = {
      {.overwrite = true},
      {.array_layout = ArrayLayout::kCanonical, .overwrite = true},
      {.file_layout = FileLayout::kPerTask, .overwrite = true},
      {.sharding_policy = MaxShardSize(100'000), .overwrite = true},
      {.args = {{"model/large",
                 {.chunk_byte_size = 1 << 18, .filters = Deflate()}},
                {"model/.*", {.chunk_byte_size = 256, .filters = Deflate()}},
                {"(bytes|c64)", {.chunk_byte_size = 8}}},
       .overwrite = true},
      {.overwrite = true, .checksums = false}};
  std::string first;
  for (size_t i = 0; i < ways.size(); ++i) {
    SCOPED_TRACE(i);
    SaveTensors(5, ways[i]);
    Ok(ExportSafetensors(comm_, run(), kLatestStep, File("x.safetensors"),
                         {.overwrite = true}));
    ExpectFile(File("x.safetensors"), 5);
    const std::string bytes = FileBytes(File("x.safetensors"));
    if (i == 0) first = bytes;
    EXPECT_TRUE(bytes == first);
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

// Windows of whole rows go through the middle of chunks that pass a filter.
TEST_F(ExportTest, ChunksAreReadOnceWhereThereIsMemory) {
  if (size_ > 2) GTEST_SKIP() << "each rank has one window";
  constexpr int64_t kMiB = int64_t{1} << 20;
  constexpr int64_t kChunks = 4 * 8;
  tensors_ = {{"w", DType::kF32, {5040, 2048}}};
  SaveArgs args = {.filters = Deflate()};
  args.write_chunk_shape = Shape{1260, 256};
  SaveTensors(1, {.args = {{"w", args}}, .durable = false});
  const auto calls = [&](const char* name, int64_t max_bytes_in_flight) {
    const ExportOptions options = {.durable = false,
                                   .max_bytes_in_flight = max_bytes_in_flight};
    return Ok(ExportSafetensors(comm_, run(), 1, File(name), options))
        .counters.io_calls;
  };
  const int64_t few = calls("x.safetensors", 64 * kMiB);
  const int64_t writes = 3 + size_;
  const int64_t between_ranks = 8 * (size_ - 1);
  EXPECT_LE(few, kChunks + between_ranks + writes);
  if (size_ == 1) {
    EXPECT_GT(calls("y.safetensors", 16 * kMiB), kChunks + writes)
        << "where there is not";
    EXPECT_TRUE(FileBytes(File("x.safetensors")) ==
                FileBytes(File("y.safetensors")));
  }
  ExpectFile(File("x.safetensors"), 1);
}

TEST_F(ExportTest, SeveralFilesHaveAnIndex) {
  SaveTensors(4);
  const ExportResult result =
      Ok(ExportSafetensors(comm_, run(), 4, File("hf"),
                           {.metadata = {{"format", "pt"}},
                            .max_file_bytes = 3000,
                            .max_bytes_in_flight = 4096}));
  ASSERT_GE(result.files.size(), 3);
  EXPECT_EQ(result.index, File("hf/model.safetensors.index.json"));
  ExpectFile(result.index, 4, "format=pt");
  for (const SafetensorsInfo& file : result.files) {
    EXPECT_TRUE(file.bytes <= 3000 || file.num_tensors == 1) << file.path;
    EXPECT_EQ(file.bytes, std::filesystem::file_size(file.path));
  }
  EXPECT_THAT(Names(File("hf")), HasSubstr("model-00001-of-0000"));
  EXPECT_THAT(Names(File("hf")), ::testing::Not(HasSubstr("inprogress")));
}

TEST_F(ExportTest, KeysChoose) {
  SaveTensors(1);
  Ok(ExportSafetensors(comm_, run(), 1, File("x.safetensors"),
                       {.keys = {"model/(rows|cube)", "i8"}}));
  std::erase_if(tensors_, [](const auto& tensor) {
    return tensor.name != "model/rows" && tensor.name != "model/cube" &&
           tensor.name != "i8";
  });
  ExpectFile(File("x.safetensors"), 1);
  ExpectRefused(File("y.safetensors"), {.keys = {"i8", "modle/rows"}},
                absl::StatusCode::kInvalidArgument,
                "keys \"modle/rows\": matches no key (need one of "
                "19); close to it: \"model/rows\"");
  ExpectRefused(File("y.safetensors"), {.keys = {"("}},
                absl::StatusCode::kInvalidArgument, "keys \"(\"");
  EXPECT_FALSE(std::filesystem::exists(File("y.safetensors")));
}

// A state without arrays, and one without anything in them.
TEST_F(ExportTest, NothingIsAFileToo) {
  tensors_ = {};
  SaveTensors(1);
  Ok(ExportSafetensors(comm_, run(), 1, File("x.safetensors")));
  ExpectFile(File("x.safetensors"), 1);
  tensors_ = {{"none", DType::kI16, {2, 0}}};
  SaveTensors(2);
  Ok(ExportSafetensors(comm_, run(), 2, File("y.safetensors"),
                       {.max_file_bytes = 200}));
  ExpectFile(File("y.safetensors"), 2);
}

TEST_F(ExportTest, WhatHasNoFormIsNamedOrLeftOut) {
  testing::Values values = testing::PiecesOf(tensors_, rank_, size_);
  values.AddText("notes", 5);
  values.AddWhole("phase", DType::kC128, {3});
  values.Fill(6);
  std::string format = "pt", empty;
  State state = values.MakeState();
  state.Add("__metadata__/format", format);
  state.Add("__metadata__/", empty);
  Ok(Save(comm_, run(), 6, state));
  ExpectRefused(File("x.safetensors"), {},
                absl::StatusCode::kFailedPrecondition,
                "key \"notes\": safetensors has no form for string; choose "
                "others with keys, or leave such values out with "
                "leave_out_others (2 of them)");
  const ExportResult result = Ok(ExportSafetensors(
      comm_, run(), 6, File("x.safetensors"),
      {.metadata = {{"by", "me"}}, .leave_out_others = true}));
  EXPECT_THAT(result.left_out,
              ::testing::ElementsAre(
                  LeftOut{"notes", "safetensors has no form for string"},
                  LeftOut{"phase", "safetensors has no form for c128"}));
  ExpectFile(File("x.safetensors"), 6, "= by=me format=pt");
}

TEST_F(ExportTest, AnExportIsReplacedOnlyWhereItIsSaid) {
  SaveTensors(1);
  SaveTensors(2);
  Ok(ExportSafetensors(comm_, run(), 1, File("hf"), {.max_file_bytes = 3000}));
  const std::string before = Names(File("hf"));
  for (const int64_t most : {0, 3000, 100000}) {
    ExpectRefused(File("hf"), {.max_file_bytes = most},
                  absl::StatusCode::kAlreadyExists,
                  "the file is there already; choose another name or set "
                  "ExportOptions.overwrite");
  }
  EXPECT_EQ(Names(File("hf")), before);
  ExpectFile(File("hf/model.safetensors.index.json"), 1);
  Ok(ExportSafetensors(comm_, run(), 2, File("hf"),
                       {.max_file_bytes = 3000, .overwrite = true}));
  EXPECT_EQ(Names(File("hf")), before);
  ExpectFile(File("hf/model.safetensors.index.json"), 2);
  // One file in the place of many, and others in that of one.
  Ok(ExportSafetensors(comm_, run(), 1, File("hf"), {.overwrite = true}));
  EXPECT_EQ(Names(File("hf")), "model.safetensors");
  ExpectFile(File("hf/model.safetensors"), 1);
  Ok(ExportSafetensors(comm_, run(), 2, File("hf"),
                       {.max_file_bytes = 3000, .overwrite = true}));
  EXPECT_EQ(Names(File("hf")), before);
  // Another name beside it is none of its business.
  Ok(ExportSafetensors(comm_, run(), 2, File("hf/other.safetensors")));
  ExpectFile(File("hf/model.safetensors.index.json"), 2);
}

// What a killed export has left is not in the way of the next one.
TEST_F(ExportTest, DebrisIsRemoved) {
  SaveTensors(1);
  if (rank_ == 0) {
    std::filesystem::create_directory(File("hf"));
    testing::PutFile(File("hf/model.safetensors.inprogress"), "half");
    testing::PutFile(File("hf/model-00001-of-00007.safetensors.inprogress"),
                     "half");
    testing::PutFile(File("hf/others.safetensors.inprogress"), "half");
  }
  MPI_Barrier(MPI_COMM_WORLD);
  Ok(ExportSafetensors(comm_, run(), 1, File("hf/")));
  EXPECT_EQ(Names(File("hf")),
            "model.safetensors others.safetensors.inprogress");
}

// Which files are whole, and of which export, only a person can tell.
TEST_F(ExportTest, WhatAKilledExportHasSetAsideIsNotTouched) {
  SaveTensors(1);
  if (rank_ == 0) {
    std::filesystem::create_directory(File("hf"));
    for (const char* name : {"model.safetensors", "model.safetensors.replaced",
                             "model-00002-of-00002.safetensors.inprogress"}) {
      testing::PutFile(File(absl::StrCat("hf/", name)), name);
    }
  }
  MPI_Barrier(MPI_COMM_WORLD);
  const std::string before = Names(File("hf"));
  ExpectRefused(File("hf/"), {.overwrite = true},
                absl::StatusCode::kFailedPrecondition,
                "an earlier export was killed while it replaced this one");
  EXPECT_EQ(Names(File("hf")), before);
}

TEST_F(ExportTest, BadArguments) {
  SaveTensors(1);
  const auto bad = absl::StatusCode::kInvalidArgument;
  ExpectRefused(File("x.safetensors"), {.max_file_bytes = -1}, bad,
                "max_file_bytes is out of range (need at least 0, found -1)");
  ExpectRefused(File("x.safetensors"), {.max_file_bytes = 99}, bad,
                "step_00000001\": max_file_bytes is too small for a header "
                "with tensor \"");
  ExpectRefused(File("x.safetensors"), {.max_bytes_in_flight = 1}, bad,
                "max_bytes_in_flight is out of range");
  ExpectRefused(File("x.safetensors"), {.metadata = {{"a", "\xff"}}}, bad,
                "is not UTF-8");
  ExpectRefused("", {}, bad, "there is no name");
  ExpectRefused(File(".safetensors"), {}, bad, "there is no name");
  ExpectRefused(File("x.safetensors"), {}, bad, "step is out of range", -2);
  ExpectRefused(File("x.safetensors"), {}, absl::StatusCode::kNotFound,
                "step_00000009\": no such step", 9);
  ExpectRefused(File("no/x.safetensors"), {}, absl::StatusCode::kNotFound,
                File("no") + "\": no such directory; make it first");
  ExpectRefused(File("no/such"), {}, absl::StatusCode::kNotFound,
                "no such file or directory; make \"" + File("no") + "\" first");
  ExpectRefused(File("run/x.safetensors"), {}, bad,
                "it is a directory of steps; choose another directory");
  ExpectRefused(File("run/step_00000001"), {}, bad,
                "it is a step; choose another directory");
  if (rank_ == 0) std::filesystem::create_directory(File("d.safetensors"));
  MPI_Barrier(MPI_COMM_WORLD);
  ExpectRefused(File("d.safetensors"), {.overwrite = true},
                absl::StatusCode::kFailedPrecondition,
                "there is a directory of that name");
}

TEST_F(ExportTest, RanksMustPassTheSame) {
  if (size_ == 1) GTEST_SKIP() << "needs two ranks";
  SaveTensors(1);
  const bool mine = rank_ == size_ - 1;
  const auto bad = absl::StatusCode::kInvalidArgument;
  ExpectRefused(File(mine ? "x.safetensors" : "y.safetensors"), {}, bad,
                "export: the destination differs between ranks");
  ExpectRefused(File("x.safetensors"), {.overwrite = mine}, bad,
                "export: the option overwrite differs");
  ExpectRefused(File("x.safetensors"), {.keys = {mine ? "i8" : "i16"}}, bad,
                "export: the option keys differs");
  EXPECT_EQ(Names(dir_.path()), "run");
}

TEST_F(ExportTest, DamageIsFoundAndNothingIsLeft) {
  SaveTensors(1);
  const std::string data = run() + "/step_00000001/data_00000_of_00001.h5";
  if (rank_ == 0) {
    std::string bytes = FileBytes(data);
    bytes[bytes.size() - 100'000] ^= 1;
    testing::PutFile(data, bytes);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  ExpectRefused(File("x.safetensors"), {}, absl::StatusCode::kDataLoss,
                "checksum of key \"model/large\"");
  EXPECT_EQ(Names(dir_.path()), "run");
  Ok(ExportSafetensors(comm_, run(), 1, File("x.safetensors"),
                       {.checksums = false}));
}

TEST_F(ExportTest, ProgressIsReported) {
  SaveTensors(1);
  int64_t last = 0, all = -1;
  Ok(ExportSafetensors(comm_, run(), 1, File("x.safetensors"),
                       {.max_bytes_in_flight = 65536,
                        .progress = [&](int64_t done, int64_t total) {
                          EXPECT_GT(done, last);
                          last = done;
                          all = total;
                        }}));
  EXPECT_EQ(last, all);
  const Status status =
      ExportSafetensors(comm_, run(), 1, File("y.safetensors"),
                        {.progress =
                             [&](int64_t, int64_t) {
                               if (rank_ == size_ - 1) {
                                 throw std::runtime_error("no more");
                               }
                             }})
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("no more"));
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_FALSE(std::filesystem::exists(File("y.safetensors")));
}

}  // namespace
}  // namespace belay::safetensors_export_test
