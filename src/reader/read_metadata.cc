#include "base/printable.h"
#include "base/status_macros.h"
#include "belay/checkpoint_reader.h"
#include "belay/manager/metadata.h"
#include "io/steps/metadata_file.h"

namespace belay {

StatusOr<Metadata> ReadMetadata(const std::string& path) {
  BELAY_ASSIGN_OR_RETURN(const std::string step, ResolveStep(path));
  StatusOr<Metadata> metadata = ReadMetadataFile(step);
  if (!metadata.ok()) return PrintableStatus(metadata.status());
  return metadata;
}

}  // namespace belay
