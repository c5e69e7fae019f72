// Fed: the metadata file of a step, with the checksum of what it holds.
// Metadata that can be read is written and read back as it was.
#include <string>

#include "fuzz_target.h"
#include "storage/metadata_file.h"

namespace belay::fuzz_metadata {
namespace {

void Run(std::string_view input) {
  const StatusOr<Metadata> metadata = ParseMetadata(input, "read");
  if (!metadata.ok()) return;
  const StatusOr<std::string> text = MetadataText(*metadata);
  Require(text.ok(), "metadata that was read can be written");
  const StatusOr<Metadata> again = ParseMetadata(*text, "read");
  Require(again.ok() && *again == *metadata, "metadata comes back as it was");
}

// The error of a wrong checksum says which one is right.
void Repair(std::string& input) {
  constexpr std::string_view kMember = "\"crc32c\":", kFound = ", found ";
  const std::string message(ParseMetadata(input, "").status().message());
  const size_t found = message.rfind(kFound);
  const size_t member = input.find(kMember);
  if (message.find("damaged: checksum (") == message.npos ||
      found == message.npos || member == input.npos) {
    return;
  }
  const size_t begin = input.find_first_not_of(' ', member + kMember.size());
  const size_t end = input.find_first_of(",}\n", begin);
  if (begin == input.npos || end == input.npos) return;
  const size_t digits = found + kFound.size();
  input.replace(begin, end - begin,
                message.substr(digits, message.size() - 1 - digits));
}

const RegisterFuzzTarget kTarget({"metadata", Run, Repair});

}  // namespace
}  // namespace belay::fuzz_metadata
