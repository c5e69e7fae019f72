// The program that child_process_test.cc starts. Its argument is what it does.

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>

#include "core/child_process.h"
#include "core/fault.h"

namespace belay {
namespace {

std::string Append(std::string_view request) {
  static std::string kept;
  return kept += request;
}

StatusOr<std::string> Fail(std::string_view request) {
  if (request == "throw") throw std::runtime_error("thrown");
  if (request == "memory") return std::string(size_t{1} << 40, 'x');
  return absl::NotFoundError(std::string(request));
}

int Number(std::string_view request) { return std::stoi(std::string(request)); }

std::string Raise(std::string_view request) {
  std::raise(Number(request));
  return {};
}

std::string Kill(std::string_view request) {
  ::kill(::getpid(), Number(request));
  return "still here";
}

std::string Close(std::string_view request) {
  for (const int standard : {0, 1, 2}) ::close(standard);
  auto inner = ChildProcess::Start(
      "do it inside", {std::string(request), "append"}, ChildLimits{});
  if (!inner.ok()) return inner.status().ToString();
  std::string last;
  for (const char* text : {"a", "b"}) {
    const auto answer = inner->Ask(text, 5, 60);
    last = answer.ok() ? *answer : answer.status().ToString();
  }
  return last;
}

std::string Pid(std::string_view request) {
  while (request == "wait") ::pause();
  return std::to_string(::getpid());
}

std::string Compute(std::string_view) {
  std::atomic<int> rounds = 0;
  while (rounds >= 0) rounds = (rounds + 1) % 1000;
  return {};
}

std::string Fill(std::string_view request) {
  const std::string filled(static_cast<size_t>(Number(request)) << 20, 'x');
  return std::to_string(filled.back());
}

std::string Pass(std::string_view) {
  for (int i = 0; i < 3; ++i) {
    const Status status = fault::Point("point");
    if (!status.ok()) return std::string(status.message());
  }
  return {};
}

}  // namespace
}  // namespace belay

int main(int, char** argv) {
  using belay::StatusOr;
  const std::map<std::string,
                 std::function<StatusOr<std::string>(std::string_view)>>
      works = {{"append", belay::Append},   {"fail", belay::Fail},
               {"raise", belay::Raise},     {"kill", belay::Kill},
               {"close", belay::Close},     {"pid", belay::Pid},
               {"compute", belay::Compute}, {"fill", belay::Fill},
               {"pass", belay::Pass}};
  belay::ServeParent([&](std::string_view request,
                         std::span<std::byte> shared) -> StatusOr<std::string> {
    const std::string work = argv[1];
    if (work != "share") return works.at(work)(request);
    std::memset(shared.data(), request[0], shared.size());
    return std::string();
  });
  return 2;
}
