// How many bytes transforms make of those that are stored.

#ifndef BELAY_STATE_MADE_BYTES_H_
#define BELAY_STATE_MADE_BYTES_H_

#include <set>
#include <string>
#include <string_view>

#include "belay/status.h"
#include "belay/values/transform.h"

namespace belay {

// For arrays that get memory by what a checkpoint says: a few transforms may
// name one array again and again.
class MadeBytes {
 public:
  // What is stored counts once, whoever names it.
  void AddStored(const std::string& key, const ArrayForm& form);
  void AddMade(const ArrayForm& form);

  // Errors: InvalidArgument - more than 64 MiB are made, and more than 1024
  //   bytes of each byte that is stored. `who` makes them.
  Status Check(std::string_view who) const;

 private:
  std::set<std::string> keys_;
  double stored_ = 0;
  double made_ = 0;
};

}  // namespace belay

#endif  // BELAY_STATE_MADE_BYTES_H_
