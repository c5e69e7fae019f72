// The filters that chunks pass on their way to a file, undone.

#ifndef BELAY_FORMAT_CHUNK_FILTERS_H_
#define BELAY_FORMAT_CHUNK_FILTERS_H_

#include <span>

#include "belay/values/save_args.h"

namespace belay::h5 {

// Returns whether UndoFilters knows them all, whatever their parameters:
// deflate, shuffle and Fletcher32 of HDF5, each once.
bool CanUndo(const std::vector<Filter>& filters);

// Takes the message of a dataset that names its filters apart, in the order in
// which they were applied.
// Errors: DataLoss - damaged, more than 32 filters, or more than one shuffle.
StatusOr<std::vector<Filter>> ParseFilterPipeline(std::string_view message);

// Returns the most bytes that these filters make of `bytes`. Requires CanUndo.
int64_t MostFilteredBytes(std::span<const Filter> filters, int64_t bytes);

// Returns the most bytes that `stored` bytes can unpack to; nothing if that is
// not known of a filter. Bit i of `left_out` says
// that filter i was not applied.
std::optional<int64_t> MostUnfilteredBytes(std::span<const Filter> filters,
                                           uint32_t left_out, int64_t stored);

// Returns the bytes of a chunk, exactly `bytes`. Bit i of `left_out` says that
// filter i was not applied. Requires CanUndo. Never takes much more memory than
// `bytes`, nor than 1040 times the stored bytes: no deflate makes more.
// Errors: DataLoss - damaged, or another number of bytes.
StatusOr<std::string> UndoFilters(std::string stored,
                                  const std::vector<Filter>& filters,
                                  uint32_t left_out, int64_t bytes);

}  // namespace belay::h5

#endif  // BELAY_FORMAT_CHUNK_FILTERS_H_
