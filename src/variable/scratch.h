// Memory that updates of rows leave behind.

#ifndef BELAY_VARIABLE_SCRATCH_H_
#define BELAY_VARIABLE_SCRATCH_H_

#include <memory>

#include "belay/sharded_variable.h"
#include "bytes/huge_pages.h"

namespace belay {

// The memory of the rows that travel, from one update of a variable to its
// next: filling fresh memory costs about as much as the exchange.
struct Scratch {
  // That of the variable; null if there is none. Local.
  static std::unique_ptr<Scratch>& Of(ShardedVariable& variable) {
    return variable.scratch_;
  }

  ReusableBytes sent;
  ReusableBytes received;
};

}  // namespace belay

#endif  // BELAY_VARIABLE_SCRATCH_H_
