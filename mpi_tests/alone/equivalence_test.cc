// Serial equivalence: with kShared and kCanonical the files depend on the
// values, not on the ranks, the cut, the transfer or a reused plan.

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "values.h"

namespace belay {
namespace {

using testing::FileBytes;
using testing::Values;

constexpr char kData[] = "data_00000_of_00001.h5";

struct Array {
  std::string key;
  DType dtype;
  Shape shape;
};

const std::vector<Array>& Arrays() {
  static const auto* arrays = new std::vector<Array>{
      {"large", DType::kF32, {700, 1031}}, {"deep/a", DType::kBF16, {7, 5, 12}},
      {"deep/b", DType::kC128, {40, 3}},   {"deep", DType::kBool, {33, 9}},
      {"odd", DType::kF8E4M3, {3, 1001}},  {"line", DType::kU64, {5000, 1}}};
  return *arrays;
}

// How a rank of `comm` holds an array.
using Cut = std::function<void(const Comm& comm, const Array&, Values&)>;

Cut AlongAxis(int axis) {
  return [axis](const Comm& comm, const Array& array, Values& values) {
    values.AddCut(array.key, array.dtype, array.shape, axis, comm.rank(),
                  comm.size());
  };
}

void Whole(const Comm& /*comm*/, const Array& array, Values& values) {
  values.AddWhole(array.key, array.dtype, array.shape);
}

// The last rank holds everything.
void OnLastRank(const Comm& comm, const Array& array, Values& values) {
  if (comm.rank() + 1 < comm.size()) return;
  values.Add(array.key, array.dtype, array.shape, WholeBox(array.shape));
}

void OnMesh(const Comm& comm, const Array& array, Values& values) {
  const int64_t x = comm.size() % 2 == 0 ? 2 : 1;
  const auto mesh = Mesh::Create({{"x", x}, {"y", comm.size() / x}});
  LayoutAxes axes(array.shape.size());
  axes[1] = {"x"};
  const auto layout = Layout::Create(*mesh, axes);
  // The index would keep the layout, which differs.
  values.Add(array.key, array.dtype, array.shape,
             *layout->LocalBox(array.shape, comm.rank()),
             layout->Replica(comm.rank()));
}

class EquivalenceTest : public testing::CheckpointTest {
 protected:
  EquivalenceTest() { setenv("SOURCE_DATE_EPOCH", "1700000000", 1); }

  // Saves on the first `count` ranks.
  void SaveOn(int count, int64_t step, const Cut& cut,
              const SaveOptions& options) {
    Comm comm = *comm_.Split(rank_ < count ? 0 : -1);
    if (comm.size() > 0) {
      Values values;
      for (const Array& array : Arrays()) cut(comm, array, values);
      values.AddText("text", 300000);
      values.AddWhole("scalar", DType::kF64, {});
      values.AddWhole("empty", DType::kI32, {0, 3});
      values.Fill(1);
      const auto saved = Save(comm, run(), step, values.MakeState(), options);
      EXPECT_TRUE(saved.ok()) << saved.status();
    }
    EXPECT_EQ(comm.Close(), absl::OkStatus());
    MPI_Barrier(MPI_COMM_WORLD);
  }

  // Expects that two steps have equal data files.
  void ExpectSameData(int64_t step, int64_t other) {
    if (rank_ != 0) return;
    const std::string need = FileBytes(StepFile(step, kData));
    EXPECT_GT(need.size(), size_t{3000000});
    EXPECT_TRUE(need == FileBytes(StepFile(other, kData)));
  }

  // Expects that two index files differ in nothing but 8 bytes of the step and
  // 4 bytes of its digest.
  void ExpectSameIndex(int64_t step, int64_t other) {
    if (rank_ != 0) return;
    const std::string a = FileBytes(StepFile(step, "index.h5"));
    const std::string b = FileBytes(StepFile(other, "index.h5"));
    ASSERT_EQ(a.size(), b.size());
    int64_t differing = 0;
    for (size_t i = 0; i < a.size(); ++i) differing += a[i] != b[i];
    EXPECT_GE(differing, 1);
    EXPECT_LE(differing, 12);
  }
};

TEST_F(EquivalenceTest, AnyRanksAnyCutAnyTransfer) {
  SaveOptions options{.array_layout = ArrayLayout::kCanonical,
                      .durable = false};
  SaveOn(1, 0, Whole, options);
  int64_t step = 0;
  const std::pair<const char*, Cut> cuts[] = {{"rows", AlongAxis(0)},
                                              {"columns", AlongAxis(1)},
                                              {"replicas", Whole},
                                              {"last rank", OnLastRank},
                                              {"mesh", OnMesh}};
  for (int count : {1, 2, 3, 4, 7}) {
    if (count > size_) continue;
    for (const auto& [name, cut] : cuts) {
      SCOPED_TRACE(absl::StrCat(name, " on ", count, " ranks"));
      options.transfer = Transfer{static_cast<uint8_t>(step % 4)};
      options.max_bytes_in_flight = step % 2 == 0 ? 1 << 28 : 200000;
      SaveOn(count, ++step, cut, options);
      ExpectSameData(0, step);
      ExpectSameIndex(0, step);
    }
  }
}

TEST_F(EquivalenceTest, TheFourTransfersWriteTheSameFiles) {
  int64_t step = 0;
  for (FileLayout file :
       {FileLayout::kShared, FileLayout::kPerNode, FileLayout::kPerTask}) {
    SCOPED_TRACE(absl::StrCat("file layout ", file));
    const int64_t first = step + 1;
    for (Transfer transfer : {Transfer::kCollective, Transfer::kIndependent,
                              Transfer::kHdf5, Transfer::kTwoPhase}) {
      SaveOn(size_, ++step, AlongAxis(1),
             {.file_layout = file, .transfer = transfer, .durable = false});
      if (rank_ != 0 || step == first) continue;
      EXPECT_EQ(testing::Names(StepFile(first, "")),
                testing::Names(StepFile(step, "")));
      for (const auto& entry :
           std::filesystem::directory_iterator(StepFile(first, ""))) {
        const std::string name = entry.path().filename();
        if (name == "index.h5") continue;
        EXPECT_TRUE(FileBytes(entry.path()) == FileBytes(StepFile(step, name)))
            << name << ", transfer " << absl::StrCat(transfer);
      }
      ExpectSameIndex(first, step);
    }
  }
}

TEST_F(EquivalenceTest, AReusedPlanWritesTheSameFiles) {
  int64_t step = 0;
  for (ArrayLayout layout : {ArrayLayout::kAuto, ArrayLayout::kCanonical}) {
    PlanCache cache;
    const SaveOptions options{
        .array_layout = layout, .durable = false, .cache = &cache};
    const int64_t first = step + 1;
    for (int repeat = 0; repeat < 3; ++repeat) {
      Values values;
      for (const Array& array : Arrays()) AlongAxis(1)(comm_, array, values);
      values.AddText("text", 300000);
      values.Fill(1);
      const auto saved =
          Save(comm_, run(), ++step, values.MakeState(), options);
      ASSERT_TRUE(saved.ok()) << saved.status();
      EXPECT_EQ(saved->plan_reused, repeat > 0);
      MPI_Barrier(MPI_COMM_WORLD);
      if (repeat == 0) continue;
      ExpectSameData(first, step);
      ExpectSameIndex(first, step);
    }
  }
}

}  // namespace
}  // namespace belay
