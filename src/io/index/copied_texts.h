// Texts of an index that stand there once, and in memory many times.

#ifndef BELAY_IO_INDEX_COPIED_TEXTS_H_
#define BELAY_IO_INDEX_COPIED_TEXTS_H_

#include <cstdint>
#include <iterator>

#include "base/status_macros.h"
#include "belay/status.h"
#include "hdf5_format/read/bounded_file.h"
#include "plan/plan.h"

namespace belay {

// Charges the copies that readers make: of a key and a file name for each
// dataset, and of a key for each value of the graph. A file could say one long
// key, and that many datasets have it. belay writes such a key into the index
// for each of them. Local.
// Errors: ResourceExhausted, as BoundedFile::Charge.
inline Status ChargeCopiedTexts(const SavedCheckpoint& saved,
                                h5::BoundedFile& index) {
  for (const StoredDataset& dataset : saved.datasets) {
    // With filters its path has the key once more.
    const int64_t keys = dataset.filters.empty() ? 1 : 2;
    BELAY_RETURN_IF_ERROR(
        index.Charge(std::ssize(saved.arrays[dataset.array].key),
                     "the key of each dataset", keys));
    BELAY_RETURN_IF_ERROR(
        index.Charge(std::ssize(saved.files[dataset.file].name),
                     "the file name of each dataset"));
  }
  for (const uint32_t array : saved.graph.attribute_array) {
    // The graph is checked later.
    if (array >= saved.arrays.size()) continue;
    BELAY_RETURN_IF_ERROR(index.Charge(std::ssize(saved.arrays[array].key),
                                       "the key of each value of the graph"));
  }
  return absl::OkStatus();
}

}  // namespace belay

#endif  // BELAY_IO_INDEX_COPIED_TEXTS_H_
