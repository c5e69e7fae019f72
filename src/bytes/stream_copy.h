// Copying to memory that is not read again soon.

#ifndef BELAY_BYTES_STREAM_COPY_H_
#define BELAY_BYTES_STREAM_COPY_H_

#include <cstdint>

namespace belay {

// Copies bytes that do not overlap. What is long goes past the caches where the
// processor can do that: then the target need not be loaded first, and the
// source stays in the cache for the next who copies it. Local.
void StreamCopy(char* target, const char* source, int64_t bytes);

}  // namespace belay

#endif  // BELAY_BYTES_STREAM_COPY_H_
