// An index file that is made at once.

#ifndef BELAY_TESTS_CREATE_INDEX_H_
#define BELAY_TESTS_CREATE_INDEX_H_

#include <string>
#include <utility>

#include "belay/status.h"
#include "core/status_macros.h"
#include "plan/plan.h"
#include "storage/index_file.h"

namespace belay {

// Creates the file `path`, and returns its bytes.
inline StatusOr<IndexImage> CreateIndex(const std::string& path,
                                        const SavedCheckpoint& saved) {
  BELAY_ASSIGN_OR_RETURN(IndexImage image, DraftIndex(path, saved));
  CompleteIndex(saved, image);
  BELAY_RETURN_IF_ERROR(WriteWhole(path, image.bytes, false));
  return image;
}

}  // namespace belay

#endif  // BELAY_TESTS_CREATE_INDEX_H_
