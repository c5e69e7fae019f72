#include <CLI/CLI.hpp>
#include <cstdio>

#include "absl/strings/str_format.h"
#include "belay/version.h"
#include "commands.h"

namespace belay::tools {

int Fail(const Status& status) {
  absl::FPrintF(stderr, "belay: %s\n", status.ToString());
  return 2;
}

std::string BytesText(int64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? absl::StrFormat("%d B", bytes)
                   : absl::StrFormat("%.1f %s", value, kUnits[unit]);
}

}  // namespace belay::tools

int main(int argc, char** argv) {
  CLI::App app("Look into belay checkpoints.", "belay");
  app.set_version_flag("--version", BELAY_VERSION);
  app.require_subcommand(1);
  std::string path;
  bool quiet = false;
  bool shards = false;
  CLI::App* list = app.add_subcommand("ls", "List the arrays of a checkpoint");
  CLI::App* verify = app.add_subcommand(
      "verify", "Read every byte and compare it with its checksum");
  for (CLI::App* command : {list, verify}) {
    command
        ->add_option("DIR", path,
                     "A step directory, or a directory of steps (the newest)")
        ->required();
  }
  list->add_flag("--shards", shards,
                 "Show which file holds which piece, and who wrote it");
  verify->add_flag("-q,--quiet", quiet, "Print damage only");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {  // --help and --version too
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (list->parsed()) return belay::tools::List(path, shards);
  return belay::tools::Verify(path, quiet);
}
