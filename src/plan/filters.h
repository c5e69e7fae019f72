// Filters of chunks: checked, and as text for the index.

#ifndef BELAY_PLAN_FILTERS_H_
#define BELAY_PLAN_FILTERS_H_

#include <string>
#include <string_view>
#include <vector>

#include "belay/status.h"
#include "belay/values/save_args.h"

namespace belay {

// Checks filters that chunks are to pass in a save.
// Errors: InvalidArgument - a number that HDF5 gives to no filter, a filter of
//   HDF5's own that a number and parameters do not describe (szip, nbit,
//   scaleoffset), one of the others more than once, or too many filters or
//   parameters.
Status CheckFilters(const std::vector<Filter>& filters);

// Whether any bytes come back from these filters as they were: so from those of
// HDF5's own that pass CheckFilters. What plugins do is not known.
bool AreLossless(const std::vector<Filter>& filters);

// "2(4),1(6)": the numbers of the filters in turn, each with its parameters.
std::string FiltersText(const std::vector<Filter>& filters);

// "shuffle, deflate(6)": the same for people.
std::string DescribeFilters(const std::vector<Filter>& filters);

// Also those that are no longer for saves.
// Errors: DataLoss - no such text, or of filters that cannot be.
StatusOr<std::vector<Filter>> ParseFilters(std::string_view text);

}  // namespace belay

#endif  // BELAY_PLAN_FILTERS_H_
