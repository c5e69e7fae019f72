#include "manager/rules/lease_text.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/printable.h"
#include "base/text.h"
#include "nlohmann/json.hpp"

namespace belay {
namespace {

using nlohmann::json;

std::string Text(const json& document, const char* name) {
  const auto found = document.find(name);
  if (found == document.end() || !found->is_string()) return "";
  return found->get<std::string>();
}

int64_t Number(const json& document, const char* name, int64_t otherwise = 0) {
  const auto found = document.find(name);
  if (found == document.end() || !found->is_number_integer()) return otherwise;
  return found->get<int64_t>();
}

}  // namespace

std::string LeaseText(const LeaseOwner& owner) {
  const nlohmann::ordered_json document = {
      {"belay_lease", 1},           {"host", owner.host},
      {"pid", owner.pid},           {"start_time", owner.start_time},
      {"job", owner.job},           {"cluster", owner.cluster},
      {"restarts", owner.restarts}, {"user", owner.user},
      {"since", owner.since}};
  // Names of hosts and users may be any bytes.
  return document.dump(-1, ' ', true, json::error_handler_t::replace) + "\n";
}

StatusOr<std::optional<LeaseOwner>> ParseLease(std::string_view text,
                                               std::string_view operation) {
  if (!kLeaseBeginning.starts_with(text.substr(0, kLeaseBeginning.size()))) {
    return absl::FailedPreconditionError(
        Cat(operation,
            ": not written by belay; move the file away if the directory is to "
            "hold checkpoints"));
  }
  const json document = json::parse(text, nullptr, false);
  if (!document.is_object()) return std::nullopt;
  return LeaseOwner{.host = Text(document, "host"),
                    .pid = Number(document, "pid"),
                    .start_time = Number(document, "start_time"),
                    .job = Text(document, "job"),
                    .cluster = Text(document, "cluster"),
                    .restarts = Number(document, "restarts", -1),
                    .user = Text(document, "user"),
                    .since = Text(document, "since")};
}

std::string OwnerText(const LeaseOwner& owner) {
  std::vector<std::string> more;
  if (!owner.job.empty()) more.push_back(absl::StrCat("Slurm job ", owner.job));
  if (!owner.user.empty()) {
    more.push_back(absl::StrCat("user \"", owner.user, "\""));
  }
  return PrintableText(absl::StrCat(
      "process ", owner.pid, " on host \"", owner.host, "\"",
      more.empty() ? "" : absl::StrCat(" (", absl::StrJoin(more, ", "), ")"),
      ", since ", owner.since));
}

}  // namespace belay
