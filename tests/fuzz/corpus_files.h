// Inputs of the corpus that are files of HDF5, or parts of them.

#ifndef BELAY_TESTS_FUZZ_CORPUS_FILES_H_
#define BELAY_TESTS_FUZZ_CORPUS_FILES_H_

#include <string>
#include <vector>

#include "format/index_columns.h"

namespace belay {

// Returns an index.h5 with these columns and nothing else.
std::string IndexFileOf(const IndexColumns& columns);

// By target.
std::vector<std::string> DataFiles();
std::vector<std::string> ListsOfDatasets();
std::vector<std::string> ObjectHeaders();

}  // namespace belay

#endif  // BELAY_TESTS_FUZZ_CORPUS_FILES_H_
