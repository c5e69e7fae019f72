// Where a save writes.

#ifndef BELAY_SAVE_SAVE_TARGET_H_
#define BELAY_SAVE_SAVE_TARGET_H_

#include <cstdint>
#include <ctime>
#include <string>

#include "format/paths.h"
#include "save/planned_save.h"

namespace belay {

struct SaveTarget {
  std::string path;  // of the committed directory
  int64_t step = 0;
  // When the program asked for it, by the clock of this rank.
  int64_t time = std::time(nullptr);
  bool is_managed = false;  // by a manager, which has seen all hosts before

  // Where the files are until the commit. Local.
  std::string Directory() const { return InProgressPath(path); }
  // Local.
  std::string IndexPath() const { return JoinPath(Directory(), IndexName()); }
  // Local.
  std::string DataPath(const PlannedFile& file) const {
    return JoinPath(Directory(), file.name);
  }
};

}  // namespace belay

#endif  // BELAY_SAVE_SAVE_TARGET_H_
