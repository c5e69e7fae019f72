// Finds and reads datasets of a file without libhdf5.
//
// Supports what belay writes, and what HDF5 writes for it: contiguous and
// chunked datasets that are reached by hard links. Anything else is an error
// that names it.

#ifndef BELAY_FORMAT_FILE_READER_H_
#define BELAY_FORMAT_FILE_READER_H_

#include <optional>
#include <vector>

#include "format/bounded_file.h"
#include "format/chunked_dataset.h"

namespace belay::h5 {

// A message as stored in an object header.
struct StoredMessage {
  uint8_t kind = 0;  // as HeaderMessage::Kind, or any other number
  std::string bytes;
};

// Reads metadata that begins with `signature`. Its checksum is at
// `checksum_at`, where it counts as zero for the computation, or at the end
// (-1). Returns the metadata without a checksum at the end; the file owns it.
// Errors: DataLoss - another signature, or another checksum; those of
//   BoundedFile.
StatusOr<std::string_view> ReadChecked(BoundedFile& file, int64_t offset,
                                       int64_t bytes,
                                       std::string_view signature,
                                       std::string_view what,
                                       int64_t checksum_at = -1);

// Returns all messages of an object, including those of continuation blocks.
// Errors: DataLoss - damaged; Unimplemented - a header or a message that belay
//   does not write, which it names; those of BoundedFile.
StatusOr<std::vector<StoredMessage>> ReadObjectHeader(BoundedFile& file,
                                                      int64_t address);

// A dataset whose bytes are contiguous.
struct ContiguousDataset {
  std::string type;  // as EncodedType
  Shape shape;
  int64_t offset = -1;  // in the file; -1 if it has no bytes
  int64_t bytes = 0;
};

// Borrows the file.
class FileReader {
 public:
  // Errors: DataLoss - not HDF5, damaged or truncated; Unimplemented - a
  //   superblock that belay does not write; those of BoundedFile.
  static StatusOr<FileReader> Open(BoundedFile& file);

  // Returns the dataset at a path such as "group/name", or nothing if a link of
  // the path does not exist. Checks that its bytes are inside the file.
  // Errors: DataLoss - damaged, or no dataset; Unimplemented - it is stored in
  //   a way that is not read here; those of BoundedFile.
  StatusOr<std::optional<ContiguousDataset>> Find(std::string_view path);

  // Finds a chunked dataset. Does not check where its chunks are.
  StatusOr<std::optional<ChunkedDataset>> FindChunked(std::string_view path);

 private:
  using Messages = std::vector<StoredMessage>;

  explicit FileReader(BoundedFile& file) : file_(&file) {}
  StatusOr<const Messages*> FindGroup(std::string_view path);
  StatusOr<std::optional<Messages>> FindObject(std::string_view path);

  BoundedFile* file_;
  // Groups by path with a final "/"; nothing if the group does not exist.
  std::map<std::string, std::optional<Messages>, std::less<>> groups_;
};

}  // namespace belay::h5

#endif  // BELAY_FORMAT_FILE_READER_H_
