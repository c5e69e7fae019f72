#include <gtest/gtest.h>

#include "storage/lease.h"

namespace belay::lease_text_test {
namespace {

TEST(LeaseOwnerTest, ReadsWhatItWrote) {
  const LeaseOwner owner{.host = "n\"1",
                         .pid = 7,
                         .start_time = 8,
                         .job = "42_3",
                         .cluster = "c",
                         .restarts = 9,
                         .user = "me\n",
                         .since = "today"};
  EXPECT_EQ(ParseLease(LeaseText(owner), "read").value(), owner);
  EXPECT_EQ(
      OwnerText(owner),
      "process 7 on host \"n\"1\" (Slurm job 42_3, user \"me\\n\"), since "
      "today");
  EXPECT_EQ(ParseLease("{\"belay_lease\":1}", "read").value()->restarts, -1);
  EXPECT_EQ(OwnerText({.host = "h", .pid = 1, .since = "now"}),
            "process 1 on host \"h\", since now");
  // Whoever wrote the file may not control a terminal.
  EXPECT_EQ(OwnerText({.host = "\x1b[2J", .pid = 1, .since = "\xe2\x80\xae"}),
            "process 1 on host \"\\x1b[2J\", since \\xe2\\x80\\xae");
  EXPECT_EQ(ParseLease(LeaseText({.host = "\xff"}), "read").status(),
            absl::OkStatus());
}

}  // namespace
}  // namespace belay::lease_text_test
