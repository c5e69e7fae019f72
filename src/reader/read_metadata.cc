#include "base/printable.h"
#include "base/status_macros.h"
#include "belay/checkpoint_reader.h"
#include "belay/manager/metadata.h"
#include "io/files/directory_id.h"
#include "io/steps/metadata_file.h"

namespace belay {

StatusOr<Metadata> ReadMetadata(const std::string& path) {
  StatusOr<Metadata> metadata = OpenResolved(
      [&] { return ResolveStep(path); },
      [](const std::string& step) { return ReadMetadataFile(step); });
  if (!metadata.ok()) return PrintableStatus(metadata.status());
  return metadata;
}

}  // namespace belay
