// Copying and summing part by part.

#ifndef BELAY_BYTES_COPY_AND_SUM_H_
#define BELAY_BYTES_COPY_AND_SUM_H_

#include <cstdint>

namespace belay {

// Copies bytes that do not overlap, as StreamCopy does, and returns what
// CrcRegister returns for them. A part is small enough to stay in the cache of
// a core between the two. One loop that does both, in three streams, was
// slower: on some processors ten times, where source and target lie differently
// in their pages. Local.
uint32_t CopyAndSum(uint32_t state, char* target, const char* source,
                    int64_t bytes);

}  // namespace belay

#endif  // BELAY_BYTES_COPY_AND_SUM_H_
