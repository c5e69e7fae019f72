#include "manager/time_limit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "directory_fixture.h"

namespace belay::time_limit_test {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(ParseTimeLeftTest, Times) {
  EXPECT_EQ(ParseTimeLeft("05:06").value(), 306);
  EXPECT_EQ(ParseTimeLeft("5:06").value(), 306);
  EXPECT_EQ(ParseTimeLeft("0:00").value(), 0);
  EXPECT_EQ(ParseTimeLeft("4:05:06").value(), 4 * 3600 + 306);
  EXPECT_EQ(ParseTimeLeft("1-00:00:00").value(), 86400);
  EXPECT_EQ(ParseTimeLeft("3-04:05:06").value(), 3 * 86400 + 4 * 3600 + 306);
  EXPECT_EQ(ParseTimeLeft("UNLIMITED").value(),
            std::numeric_limits<double>::infinity());
}

TEST(ParseTimeLeftTest, NoTimes) {
  for (const char* text :
       {"", "INVALID", "NOT_SET", "N/A", "5", "1-02:03", "25:00:00", "00:60",
        "-1:00", "1:2:3:4", "1:", ":1", "1-", "x-00:00:00", "5:06\n5:07",
        "99999999-00:00:00", "1.5:00"}) {
    const Status status = ParseTimeLeft(text).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  }
}

TEST(ParseTimeLeftTest, TheLeastOfAHeterogeneousJob) {
  EXPECT_EQ(LeastTimeLeft("5:06\n").value(), 306);
  EXPECT_EQ(LeastTimeLeft("UNLIMITED\n1:00:00\n5:06\n6:00\n").value(), 306);
  EXPECT_EQ(LeastTimeLeft("UNLIMITED").value(),
            std::numeric_limits<double>::infinity());
  for (const char* text : {"", "5:06\nINVALID\n", "5:06\n\n5:07"}) {
    EXPECT_FALSE(LeastTimeLeft(text).ok()) << text;
  }
}

TEST(TimeLeftCommandTest, NamesTheJob) {
  EXPECT_THAT(TimeLeftCommand({.job_id = "42"}),
              ElementsAre("squeue", "-h", "-j", "42", "-o", "%L"));
  EXPECT_THAT(TimeLeftCommand(
                  {.job_id = "40", .array_job_id = "40", .array_task_id = "7"}),
              ElementsAre("squeue", "-h", "-j", "40_7", "-o", "%L"));
  // A job that a task of an array has submitted, with all its variables.
  EXPECT_THAT(TimeLeftCommand(
                  {.job_id = "42", .array_job_id = "40", .array_task_id = "7"}),
              ElementsAre("squeue", "-h", "-j", "42", "-o", "%L"));
}

// A squeue of the test's own, found through PATH.
class TimeLimitTest : public DirectoryTest {
 protected:
  TimeLimitTest() : path_(getenv("PATH")) {
    setenv("PATH", (dir_ + ":" + path_).c_str(), 1);
  }
  ~TimeLimitTest() override { setenv("PATH", path_.c_str(), 1); }

  void Squeue(const std::string& script) const {
    Put("squeue.new", "#!/bin/sh\n" + script + "\n");
    fs::permissions(Path("squeue.new"), fs::perms::owner_all);
    fs::rename(Path("squeue.new"), Path("squeue"));
  }

  static TimeLimitOptions Options(double every_seconds = 1000) {
    return {.command = TimeLeftCommand({.job_id = "42"}),
            .every_seconds = every_seconds};
  }

  // Waits for an answer that is at most `seconds`.
  static double LeftUnder(const TimeLimit& limit, double seconds) {
    for (;;) {
      const auto left = limit.SecondsLeft();
      if (left && *left <= seconds) return *left;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  static std::vector<std::string> Notes(TimeLimit& limit) {
    for (;;) {
      auto notes = limit.TakeNotes();
      if (!notes.empty()) return notes;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  std::string path_;
};

TEST_F(TimeLimitTest, AsksForTheJob) {
  Squeue("test \"$*\" = '-h -j 42 -o %L' && echo 1-00:00:10");
  TimeLimit limit(Options());
  EXPECT_GT(LeftUnder(limit, 86410), 86300);
  EXPECT_THAT(limit.TakeNotes(), IsEmpty());
}

TEST_F(TimeLimitTest, AsksAgain) {
  Squeue("echo 10:00");
  TimeLimit limit(Options(0.01));
  EXPECT_GT(LeftUnder(limit, 600), 500);
  Squeue("echo 5:00");  // scontrol update TimeLimit
  EXPECT_GT(LeftUnder(limit, 300), 200);
  // What is no answer changes nothing.
  Squeue("echo INVALID");
  EXPECT_THAT(Notes(limit),
              ElementsAre("ask squeue for the time left: not a time (need "
                          "D-HH:MM:SS, HH:MM:SS or MM:SS, found \"INVALID\")"));
  EXPECT_GT(LeftUnder(limit, 300), 200);
}

TEST_F(TimeLimitTest, NoLimit) {
  Squeue("echo UNLIMITED");
  TimeLimit limit(Options());
  EXPECT_EQ(LeftUnder(limit, std::numeric_limits<double>::infinity()),
            std::numeric_limits<double>::infinity());
}

TEST_F(TimeLimitTest, VariablesOfSqueueHideNothing) {
  setenv("SQUEUE_STATES", "PENDING", 1);
  Squeue("test -z \"$SQUEUE_STATES\" && echo 1:00");
  TimeLimit limit(Options());
  EXPECT_LE(LeftUnder(limit, 60), 60);
  unsetenv("SQUEUE_STATES");
}

TEST_F(TimeLimitTest, FailuresAreSaidOnce) {
  Squeue("echo 'Invalid job id specified' >&2; exit 1");
  TimeLimitOptions options = Options(0.01);
  options.seconds_left = 500;
  TimeLimit limit(options);
  EXPECT_THAT(Notes(limit),
              ElementsAre("ask squeue for the time left: run \"squeue\": exit "
                          "code 1: Invalid job id specified"));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_THAT(limit.TakeNotes(), IsEmpty());
  EXPECT_LE(*limit.SecondsLeft(), 500);
}

TEST_F(TimeLimitTest, NoSuchCommand) {
  TimeLimitOptions options = Options();
  options.command[0] = "squeue-that-is-not-there";
  TimeLimit limit(options);
  EXPECT_THAT(Notes(limit), ElementsAre(HasSubstr("no such file")));
  EXPECT_EQ(limit.SecondsLeft(), std::nullopt);
}

// Nobody looks any more, and the time goes on all the same.
TEST_F(TimeLimitTest, TheTimeGoesOnWithoutSuchACommand) {
  TimeLimitOptions options = Options();
  options.command = {"squeue-that-is-not-there"};
  options.seconds_left = 500;
  options.command_seconds = 0.01;
  TimeLimit limit(options);
  Notes(limit);
  EXPECT_LT(LeftUnder(limit, 499.8), 499.8 + 1e-9);
}

// The end does not wait for an answer that never comes.
TEST_F(TimeLimitTest, EndsWhileItAsks) {
  Squeue("echo > " + dir_ + "/asked; sleep 1000");
  {
    TimeLimitOptions options = Options();
    options.command_seconds = 900;
    TimeLimit limit(options);
    while (!fs::exists(dir_ + "/asked")) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_EQ(limit.SecondsLeft(), std::nullopt);
  }
}

// What is left before and after a job was suspended for two seconds, and for
// how long it takes itself to have been.
struct Suspended {
  double before = 0;
  double after = 0;
  double seconds = 0;
};

Suspended SuspendedFor2Seconds(TimeLimitOptions options) {
  const pid_t job = getpid();
  const pid_t slurm = fork();
  if (slurm == 0) {
    usleep(300000);
    kill(job, SIGSTOP);
    usleep(2000000);
    kill(job, SIGCONT);
    _exit(0);
  }
  TimeLimit limit(std::move(options));
  Suspended result = {.before = *limit.SecondsLeft()};
  const auto start = std::chrono::steady_clock::now();
  const auto Now = std::chrono::steady_clock::now;
  // What is said in the very moment after counts as well.
  double least = result.before;
  while (Now() - start < std::chrono::milliseconds(2600)) {
    least = std::min(least, *limit.SecondsLeft());
  }
  waitpid(slurm, nullptr, 0);
  result.after = least;
  result.seconds = limit.SecondsSuspended();
  return result;
}

TEST_F(TimeLimitTest, ALimitDoesNotComeNearerWhileTheJobIsSuspended) {
  Squeue("exit 1");
  TimeLimitOptions options = Options();
  options.seconds_left = 500;
  options.command_seconds = 0.25;
  const Suspended result = SuspendedFor2Seconds(options);
  EXPECT_GT(result.after, result.before - 1.2);
  EXPECT_GT(result.seconds, 1.5);
  EXPECT_LT(result.seconds, 2.6);
}

// As where the file system with squeue does not answer: nothing can end it.
TEST_F(TimeLimitTest, ACommandThatHangsIsNoSuspendedJob) {
  TimeLimitOptions options = Options();
  options.seconds_left = 500;
  options.command_seconds = 0.1;
  options.run = [](const Command&) -> StatusOr<std::string> {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    return absl::InternalError("late");
  };
  TimeLimit limit(options);
  const double before = *limit.SecondsLeft();
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  EXPECT_LT(*limit.SecondsLeft(), before - 0.4);
  EXPECT_EQ(limit.SecondsSuspended(), 0);
  Notes(limit);
  EXPECT_LT(*limit.SecondsLeft(), before - 0.9);
}

TEST_F(TimeLimitTest, NoAnswer) {
  Squeue("sleep 1000");
  TimeLimitOptions options = Options();
  options.command_seconds = 0.1;
  TimeLimit limit(options);
  EXPECT_THAT(Notes(limit),
              ElementsAre("ask squeue for the time left: run \"squeue\": no "
                          "answer within 0.1 s"));
}

}  // namespace
}  // namespace belay::time_limit_test
