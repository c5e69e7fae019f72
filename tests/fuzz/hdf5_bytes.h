// Files of HDF5 in memory, and their checksums.

#ifndef BELAY_TESTS_FUZZ_HDF5_BYTES_H_
#define BELAY_TESTS_FUZZ_HDF5_BYTES_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "format/bounded_file.h"
#include "format/file_reader.h"

namespace belay {

// What a reader of these files may charge.
inline constexpr int64_t kFuzzBudget = int64_t{16} << 20;

// Borrows the bytes.
h5::BoundedFile FileInMemory(std::string_view bytes);

// Puts right the length of the file and, while `look` looks for datasets, the
// checksums that stand in its way.
void RepairHdf5(
    std::string& bytes,
    absl::FunctionRef<void(h5::BoundedFile&, h5::FileReader&)> look);

// Returns a file of these objects, which begin at kFuzzObjectsAt; the root's
// header is at `root`.
inline constexpr int64_t kFuzzObjectsAt = 48;
std::string FileOfObjects(std::string_view objects, int64_t root);

}  // namespace belay

#endif  // BELAY_TESTS_FUZZ_HDF5_BYTES_H_
