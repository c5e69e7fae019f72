// Reading and writing index.h5.

#ifndef BELAY_STORAGE_INDEX_FILE_H_
#define BELAY_STORAGE_INDEX_FILE_H_

#include "core/status_macros.h"
#include "format/bounded_file.h"
#include "format/stored_columns.h"
#include "storage/posix_file.h"

namespace belay {

// The bytes of an HDF5 file of a step, to be read without libhdf5.

// The variable of the environment that says how many bytes of memory the
// metadata of one file may take.
inline constexpr char kMaxMetadataBytes[] = "BELAY_MAX_METADATA_BYTES";

// Returns the default limit: 40 times the stored bytes of the file, and 16 MiB.
int64_t MetadataBudget(int64_t stored_bytes);

// Returns its value; nothing if it is not set.
// Errors: InvalidArgument - it is not a number of bytes.
StatusOr<std::optional<int64_t>> MaxMetadataBytes();

// An open file, and its bytes with a budget for memory, which follows from the
// space it takes unless the environment says it. For one thread at a time.
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
// Written once by rank 0 while others write the data files, finished when all
// data is in place; read by rank 0 before anything else. Neither needs
// libhdf5.

// The bytes of index.h5, put together in memory: first without what is known
// only when the data files exist, then but for what is known when they are
// full, which is step, time, checksums and their digest. These bytes depend on
// the plan alone, so the next index of the same plan has the same.
struct IndexImage {
  std::string bytes;
  // Offsets in the file of the columns that are known late; -1: no rows.
  int64_t step_offset = -1;
  int64_t time_offset = -1;
  int64_t checksum_offset = -1;
  int64_t digest_offset = -1;
  int64_t dataset_offset = -1;
  int64_t file_bytes_offset = -1;
  // For CompleteIndex: the sum of all columns but these, and the datasets in
  // the order of their rows.
  ColumnCrc structure = {};
  std::vector<int32_t> order = {};
};

// Puts every array of `saved` under its key, and all that `saved` says but
// where the datasets lie and how long the files are. `saved.datasets` may be in
// any order. There is room for one checksum per block if `saved` says that it
// has some. `path` is for messages. Errors: InvalidArgument - a name is too
// long for HDF5, or a text has a NUL in
//   it; ResourceExhausted - more names in one group than HDF5 has a place for.
StatusOr<IndexImage> DraftIndex(const std::string& path,
                                const SavedCheckpoint& saved);

// Adds the places of datasets and the lengths of files to a draft. Same as for
// the draft: all else that `saved` says.
void CompleteIndex(const SavedCheckpoint& saved, IndexImage& draft);

// Puts in what is known last once the file has the bytes of an image, and syncs
// it if `durable`.
// `checksums` has one entry per block, or none if there is no room for them.
// `once_open` is called before anything is written, unless it is empty.
// Errors: those of PosixFile and of `once_open`.
Status FinishIndex(const std::string& path, const IndexImage& image,
                   int64_t step, int64_t time,
                   const std::vector<uint32_t>& checksums, bool durable,
                   const std::function<Status()>& once_open = nullptr);

// Reads and checks the index in the step directory `directory`. With
// `keys` it may leave out what is not about these arrays, and then does not
// find what is wrong with it, as long as the digest is right.
// Errors: NotFound - no index; DataLoss - truncated, wrong magic, damaged;
//   Unimplemented - a newer major version; ResourceExhausted - it takes more
//   memory than a file of its size may.
StatusOr<SavedCheckpoint> ReadIndex(const std::string& directory,
                                    const std::vector<std::string>& keys = {});

// Charges the copies that readers make: of a key and a file name for each
// dataset, and of a key for each value of the graph. A file could say one long
// key, and that many datasets have it. belay writes such a key into the index
// for each of them.
// Errors: ResourceExhausted, as BoundedFile::Charge.
Status ChargeCopiedTexts(const SavedCheckpoint& saved, h5::BoundedFile& index);

// Tells a file from another one of the same path. Not 0.
// Errors: those of PosixFile.
StatusOr<uint64_t> FileIdentity(const std::string& path);

// Tells the index in `directory` from that of another save of the step.
// Errors: those of PosixFile.
StatusOr<uint64_t> IndexIdentity(const std::string& directory);

// Checks that the file is still the one that had this identity before it was
// read: whatever was read by its path in between is of it. `operation` names
// `path` in the error.
// Errors: FailedPrecondition - it was replaced or deleted; those of PosixFile.
Status CheckSameFile(std::string_view operation, const std::string& path,
                     uint64_t identity);

// Checks the step in `directory` likewise, by its index.
Status CheckSameStep(std::string_view operation, const std::string& directory,
                     uint64_t identity);

// Checks that the data files exist and have their size.
// Errors: DataLoss - one is missing, or shorter or longer, or no regular file,
//   or two with values are one file of two names.
Status CheckDataFiles(const std::string& directory,
                      const SavedCheckpoint& saved);

// Checks that the data files hold enough for the chunks that `saved` claims, if
// these are more than a quarter of a million: a plan lists each chunk, and
// files full of holes may claim billions. `operation` begins the error. Errors:
// ResourceExhausted - they do not; those of PosixFile, except for
//   missing files.
Status CheckChunksFit(std::string_view operation, const std::string& directory,
                      const SavedCheckpoint& saved);

}  // namespace belay

#endif  // BELAY_STORAGE_INDEX_FILE_H_
