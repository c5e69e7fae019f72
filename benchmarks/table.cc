#include "table.h"

#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"

namespace belay::bench {
namespace {

constexpr int kNameWidth = 28;

std::string RatioText(const std::optional<Ratio>& ratio) {
  if (!ratio.has_value()) return "-";
  return absl::StrFormat("%.2f [%.2f-%.2f]", ratio->median, ratio->min,
                         ratio->max);
}

std::string Columns(const std::string& name, const std::string& memory,
                    const std::string& bar, const std::string& ok,
                    const std::optional<std::string>& disk,
                    const std::string& detail) {
  std::string line = absl::StrFormat("%-*s  %-20s  %-7s  %-6s", kNameWidth,
                                     name, memory, bar, ok);
  if (disk.has_value()) absl::StrAppendFormat(&line, "  %-20s", *disk);
  return absl::StrCat(line, "  ", detail);
}

nlohmann::json ToJson(const std::string& name, const Ratio& ratio,
                      const std::optional<double>& bar, bool ok) {
  nlohmann::json json = {{"name", name},          {"ratio", ratio.median},
                         {"bar", nullptr},        {"ok", ok},
                         {"min", ratio.min},      {"max", ratio.max},
                         {"detail", ratio.detail}};
  if (bar.has_value()) json["bar"] = *bar;
  return json;
}

}  // namespace

namespace {

// Returns the result to which the bar applies.
const std::optional<Ratio>& Judged(const Line& line) {
  return line.on_disk ? line.disk : line.memory;
}

std::string BarText(const Line& line) {
  if (!line.bar) return "-";
  return absl::StrFormat("<= %.2f%s", *line.bar, line.on_disk ? "*" : "");
}

}  // namespace

bool IsOk(const Line& line) {
  const std::optional<Ratio>& judged = Judged(line);
  return !line.bar || !judged || judged->median <= *line.bar;
}

std::string TableHead(const Context& context, bool with_disk) {
  std::string head = absl::StrFormat(
      "Each ratio is a time divided by the time of the named baseline, which\n"
      "moves the same bytes from the same buffers on the same %d ranks in the\n"
      "same run, in turns: no figure depends on how fast this machine is, but\n"
      "those against a limit. plan.bytes counts bytes, not time.\n"
      "Median [min-max] of %d repetitions; below 1 is faster than the\n"
      "baseline. Bars hold in memory, those with a * on disk",
      context.comm->size(), context.reps);
  absl::StrAppend(&head, context.scale == 1 ? ".\n" : " and at --scale 1.\n");
  if (with_disk) {
    absl::StrAppend(&head, "On disk, belay and baseline end with fsync.\n");
  }
  return absl::StrCat(
      head, "\n",
      Columns("name", "ratio in memory", "bar", "",
              with_disk ? std::optional<std::string>("ratio on disk")
                        : std::nullopt,
              "detail (in memory)"),
      "\n");
}

std::string FormatLine(const Line& line, bool with_disk) {
  const bool judged = line.bar.has_value() && Judged(line).has_value();
  const std::optional<Ratio>& shown =
      line.memory.has_value() ? line.memory : line.disk;
  return Columns(line.name, RatioText(line.memory), BarText(line),
                 !judged ? "-" : (IsOk(line) ? "ok" : "MISSED"),
                 with_disk ? std::optional<std::string>(RatioText(line.disk))
                           : std::nullopt,
                 shown.has_value() ? shown->detail : "");
}

Status WriteJson(const std::string& path, const std::vector<Line>& lines) {
  nlohmann::json list = nlohmann::json::array();
  for (const Line& line : lines) {
    if (line.memory.has_value()) {
      list.push_back(
          line.on_disk ? ToJson(line.name, *line.memory, {}, true)
                       : ToJson(line.name, *line.memory, line.bar, IsOk(line)));
    }
    if (line.disk.has_value()) {
      const std::string name = line.name + "@disk";
      list.push_back(line.on_disk
                         ? ToJson(name, *line.disk, line.bar, IsOk(line))
                         : ToJson(name, *line.disk, {}, true));
    }
  }
  std::ofstream file(path);
  file << list.dump(1) << "\n";
  file.close();
  if (!file) {
    return absl::InternalError(
        absl::StrCat("write \"", path, "\": the file cannot be written"));
  }
  return absl::OkStatus();
}

}  // namespace belay::bench
