// Finds and reads datasets of a file without libhdf5.
//
// Understands what belay writes, and what HDF5 writes for it: contiguous and
// chunked datasets behind hard links. Everything else is an error that names
// it.

#ifndef BELAY_FORMAT_FILE_READER_H_
#define BELAY_FORMAT_FILE_READER_H_

#include "format/chunked_dataset.h"
#include "format/read_header.h"

namespace belay::h5 {

// A dataset whose bytes lie in a row.
struct ContiguousDataset {
  std::string type;  // as EncodedType
  Shape shape;
  int64_t offset = -1;  // in the file; -1: there are none
  int64_t bytes = 0;
};

// Borrows the file.
class FileReader {
 public:
  // Errors: those of ReadSuperblock.
  static StatusOr<FileReader> Open(BoundedFile& file);

  // Returns a dataset, such as "group/name", or nothing if the last link, or
  // one before it, is not there. Its bytes lie in the file.
  // Errors: DataLoss - damaged, or no dataset; Unimplemented - it is stored in
  //   a way that is not read here; those of BoundedFile.
  StatusOr<std::optional<ContiguousDataset>> Find(std::string_view path);

  // Finds a dataset whose bytes lie in chunks likewise.
  StatusOr<std::optional<ChunkedDataset>> FindChunked(std::string_view path);

 private:
  using Messages = std::vector<StoredMessage>;

  explicit FileReader(BoundedFile& file) : file_(&file) {}
  StatusOr<const Messages*> FindGroup(std::string_view path);
  StatusOr<std::optional<Messages>> FindObject(std::string_view path);

  BoundedFile* file_;
  // Groups by their path, with an end of "/"; no messages: it is not there.
  std::map<std::string, std::optional<Messages>, std::less<>> groups_;
};

}  // namespace belay::h5

#endif  // BELAY_FORMAT_FILE_READER_H_
