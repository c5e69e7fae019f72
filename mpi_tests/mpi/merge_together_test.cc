// Counts the bytes that ranks send to merge their object graphs.
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "objects/tracked_objects.h"
#include "sent_bytes.h"
#include "values.h"

namespace belay::merge_together_test {
namespace {

using testing::SentAtMost;

constexpr int kLayers = 10;
constexpr int kValues = 1000;
constexpr int64_t kAgreement = 16;  // whether anything has changed
constexpr int64_t kAnnouncement = 32;
constexpr int64_t kFew = 250;

// Layers of values.
struct Program {
  Program() {
    for (int i = 0; i < kValues; ++i) {
      layers[i % kLayers][absl::StrCat("kernel", 1000 + i)] = 0;
    }
  }

  void Track(Tracker& tracker) {
    for (int i = 0; i < kLayers; ++i) {
      tracker.Child(absl::StrCat("layer", i), layers[i]);
    }
    if (more) tracker.Value("more", *more);
  }

  std::map<std::string, float> layers[kLayers];
  std::optional<int64_t> more;
};

class MergeTogetherTest : public testing::CheckpointTest {
 protected:
  // Merges; returns what this rank has sent of its graph. Collective.
  int64_t Merge(Program& program) {
    CommContext context{comm_, Deadline(comm_, 60, "merge")};
    EXPECT_EQ(MergeTogether(context, TrackObjects(program, rank_), merge_),
              absl::OkStatus());
    if (context.agreement_bytes == kAgreement) return 0;
    return context.agreement_bytes - kAgreement - kAnnouncement -
           (rank_ == 0 ? 2 * size_ : 0);
  }

  size_t NumNodes() const { return merge_.graph.nodes.size(); }

  MergeResult merge_;
};

TEST_F(MergeTogetherTest, EqualGraphsTravelOnce) {
  Program program;
  const int64_t sent = Merge(program);
  EXPECT_GE(sent, rank_ == 0 ? kValues * 20 : 0);
  EXPECT_THAT(sent, SentAtMost(rank_ == 0 ? kValues * 150 : 0));
  const size_t nodes = NumNodes();
  EXPECT_EQ(nodes, rank_ == 0 ? 1u + kLayers + kValues : 0u);
  EXPECT_EQ(Merge(program), 0);
  EXPECT_EQ(NumNodes(), nodes);
}

TEST_F(MergeTogetherTest, OfOneMoreValueOnOneRankOnlyItTravels) {
  const int last = size_ - 1;
  Program program;
  Merge(program);
  const size_t nodes = NumNodes();
  for (const int changing : {0, last}) {
    Program other;
    if (rank_ == changing) other.layers[4]["kernel1500b"] = 0;
    EXPECT_THAT(Merge(other), SentAtMost(rank_ == changing ? kFew : 0));
    EXPECT_EQ(NumNodes(), nodes + (rank_ == 0 ? 1 : 0));
    EXPECT_THAT(Merge(program), SentAtMost(size_ == 1 ? kFew : 0));
    EXPECT_EQ(NumNodes(), nodes);
  }
  Program other;
  other.more = 1;
  EXPECT_THAT(Merge(other), SentAtMost(rank_ == 0 ? kFew : 0))
      << "on all ranks";
}

// Nothing was told before: others compare with the graph of rank 0.
TEST_F(MergeTogetherTest, AnOddRankSendsWhatIsOdd) {
  if (size_ == 1) GTEST_SKIP() << "needs two ranks";
  Program program;
  if (rank_ == size_ - 1) {
    program.layers[7].erase("kernel1507");
    program.layers[2]["bias"] = 0;
  }
  const int64_t sent = Merge(program);
  if (rank_ == 0) {
    EXPECT_LE(sent, kValues * 200) << "its own, and what others compare with";
    EXPECT_EQ(NumNodes(), 2u + kLayers + kValues);
  } else {
    EXPECT_THAT(sent, SentAtMost(rank_ == size_ - 1 ? 2 * kFew : 0));
  }
}

}  // namespace
}  // namespace belay::merge_together_test
