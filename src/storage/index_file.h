// Reading and writing index.h5.

#ifndef BELAY_STORAGE_INDEX_FILE_H_
#define BELAY_STORAGE_INDEX_FILE_H_

#include "core/status_macros.h"
#include "format/bounded_file.h"
#include "format/stored_columns.h"
#include "storage/posix_file.h"

namespace belay {

// The bytes of an HDF5 file of a step, for reading without libhdf5.

// The environment variable that limits the memory for the metadata of one file,
// in bytes.
inline constexpr char kMaxMetadataBytes[] = "BELAY_MAX_METADATA_BYTES";

// Returns the default limit: 40 times the stored bytes of the file plus 16 MiB.
int64_t MetadataBudget(int64_t stored_bytes);

// Returns the value of that variable; nothing if it is not set.
// Errors: InvalidArgument - it is not a number of bytes.
StatusOr<std::optional<int64_t>> MaxMetadataBytes();

// An open file and its bytes, with a memory budget. The budget follows from the
// space that the file takes unless the environment sets it. For one thread at a
// time.
class Hdf5Bytes {
 public:
  // Errors: those of PosixFile and of MaxMetadataBytes.
  static StatusOr<std::unique_ptr<Hdf5Bytes>> Open(const std::string& path);

  h5::BoundedFile& bytes() { return bytes_; }

  // Closes the file.
  Status Close() { return file_.Close(); }

 private:
  Hdf5Bytes(PosixFile file, const FileStat& stat, int64_t budget);

  PosixFile file_;
  h5::BoundedFile bytes_;
};

// index.h5: the array table, the checksums, and every array by its key.
//
// Rank 0 writes it once, while other ranks write the data files, and finishes
// it when all data is in place. Rank 0 reads it before anything else. Neither
// needs libhdf5.

// The bytes of index.h5, assembled in memory in two steps. The draft lacks what
// is known only once the data files exist. The completed image lacks only what
// is known once they are full: step, time, checksums and their digest. The
// image depends only on the plan, so it can be reused for the next index of the
// same plan.
struct IndexImage {
  std::string bytes;
  // Offsets in the file of the columns that are filled in late; -1: no rows.
  int64_t step_offset = -1;
  int64_t time_offset = -1;
  int64_t checksum_offset = -1;
  int64_t digest_offset = -1;
  int64_t dataset_offset = -1;
  int64_t file_bytes_offset = -1;
  // For CompleteIndex: the checksum of all columns except these, and the row
  // order of the datasets.
  ColumnCrc structure = {};
  std::vector<int32_t> order = {};
};

// Puts every array of `saved` under its key, and everything else in `saved`
// except the offsets of the datasets and the sizes of the files.
// `saved.datasets` may be in any order. Leaves room for one checksum per block
// if `saved` has checksums. `path` is for messages.
// Errors: InvalidArgument - a name is too long for HDF5, or a text contains a
//   NUL; ResourceExhausted - one group has more names than HDF5 can store.
StatusOr<IndexImage> DraftIndex(const std::string& path,
                                const SavedCheckpoint& saved);

// Adds the offsets of datasets and the sizes of files to a draft. Everything
// else in `saved` must be the same as for the draft.
void CompleteIndex(const SavedCheckpoint& saved, IndexImage& draft);

// Adds the values that are known last, once the file has the bytes of an image.
// Syncs the file if `durable`. `checksums` has one entry per block, or none if
// there is no room for them. Calls `once_open`, unless empty, before writing
// anything.
// Errors: those of PosixFile and of `once_open`.
Status FinishIndex(const std::string& path, const IndexImage& image,
                   int64_t step, int64_t time,
                   const std::vector<uint32_t>& checksums, bool durable,
                   const std::function<Status()>& once_open = nullptr);

// Reads and checks the index in the step directory `directory`. With `keys`, it
// may skip whatever does not concern these arrays; then errors there go
// undetected if the digest is right.
// Errors: NotFound - no index; DataLoss - truncated, wrong magic, damaged;
//   Unimplemented - a newer major version; ResourceExhausted - it takes more
//   memory than a file of its size may.
StatusOr<SavedCheckpoint> ReadIndex(const std::string& directory,
                                    const std::vector<std::string>& keys = {});

// Charges the copies that readers make: a key and a file name for each dataset,
// and a key for each value of the graph. A small file could contain one long
// key and many datasets that use it. An index written by belay contains the key
// once for each of them.
// Errors: ResourceExhausted, as BoundedFile::Charge.
Status ChargeCopiedTexts(const SavedCheckpoint& saved, h5::BoundedFile& index);

// Distinguishes a file from another one with the same path. Not 0.
// Errors: those of PosixFile.
StatusOr<uint64_t> FileIdentity(const std::string& path);

// Distinguishes the index in `directory` from that of another save of the step.
// Errors: those of PosixFile.
StatusOr<uint64_t> IndexIdentity(const std::string& directory);

// Checks that the file is still the one that had this identity before it was
// read, so that everything read by its path in between came from it.
// `operation` and `path` begin the error.
// Errors: FailedPrecondition - it was replaced or deleted; those of PosixFile.
Status CheckSameFile(std::string_view operation, const std::string& path,
                     uint64_t identity);

// Like CheckSameFile, for the step in `directory`, by its index.
Status CheckSameStep(std::string_view operation, const std::string& directory,
                     uint64_t identity);

// Checks that the data files exist and have the right size.
// Errors: DataLoss - a file is missing, has another size or is no regular file,
//   has holes where its chunks would be, or is the same as another file that
//   has values.
Status CheckDataFiles(const std::string& directory,
                      const SavedCheckpoint& saved);

// Checks that the data files are large enough for the chunks that `saved`
// claims, if there are more than a quarter of a million: a plan lists each
// chunk, and sparse files may claim billions. `operation` begins the error.
// Errors: ResourceExhausted - they are not; those of PosixFile, except for
//   missing files.
Status CheckChunksFit(std::string_view operation, const std::string& directory,
                      const SavedCheckpoint& saved);

}  // namespace belay

#endif  // BELAY_STORAGE_INDEX_FILE_H_
