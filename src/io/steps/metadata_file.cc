#include "io/steps/metadata_file.h"

#include "base/status_macros.h"
#include "base/text.h"
#include "format/paths.h"
#include "io/files/posix_file.h"
#include "io/files/whole_file.h"
#include "manager/rules/metadata_text.h"

namespace belay {

Status WriteMetadataFile(const std::string& directory, std::string_view text,
                         bool durable) {
  return WriteWhole(JoinPath(directory, MetadataName()), text, durable);
}

StatusOr<Metadata> ReadMetadataFile(const std::string& directory) {
  const std::string path = JoinPath(directory, MetadataName());
  BELAY_ASSIGN_OR_RETURN(const bool exists, Exists(path));
  if (!exists) return Metadata();
  BELAY_ASSIGN_OR_RETURN(const std::string text,
                         ReadWhole(path, kMostMetadataBytes));
  return ParseMetadata(text, Cat("read \"", path, "\""));
}

}  // namespace belay
