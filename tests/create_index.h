// An index file that is made at once.

#ifndef BELAY_TESTS_CREATE_INDEX_H_
#define BELAY_TESTS_CREATE_INDEX_H_

#include <string>
#include <utility>

#include "base/status_macros.h"
#include "belay/status.h"
#include "io/index/index_file.h"
#include "io/index/index_image.h"
#include "plan/plan.h"

namespace belay {

// Creates the file `path`, and returns its bytes.
inline StatusOr<IndexImage> CreateIndex(const std::string& path,
                                        const SavedCheckpoint& saved) {
  BELAY_ASSIGN_OR_RETURN(IndexDraft draft, DraftIndex(path, saved));
  IndexImage image = CompleteIndex(std::move(draft), saved);
  BELAY_RETURN_IF_ERROR(WriteNewIndex(path, image));
  return image;
}

}  // namespace belay

#endif  // BELAY_TESTS_CREATE_INDEX_H_
