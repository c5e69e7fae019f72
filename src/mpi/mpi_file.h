// One file through collective MPI-IO, and the verdict on the MPI-IO stack.

#ifndef BELAY_MPI_MPI_FILE_H_
#define BELAY_MPI_MPI_FILE_H_

#include <functional>
#include <map>

#include "mpi/collective.h"

namespace belay {

// `bytes` bytes at `data` that belong at byte `offset` of the file.
struct IoSegment {
  const void* data = nullptr;
  int64_t offset = 0;
  int64_t bytes = 0;
};

// The MPI-IO implementation behind a file.
struct MpiIoVerdict {
  bool sound = false;
  std::string name;  // "ROMIO" or "OMPIO"
  std::string note;  // the variable behind the verdict
};

// A file that all ranks of a communicator have open for writing. Close() is
// collective and must be called. Move only; a moved-from file is closed.
class MpiFile {
 public:
  MpiFile() = default;
  MpiFile(MpiFile&& other) noexcept { *this = std::move(other); }
  MpiFile& operator=(MpiFile&& other) noexcept;

  // Opens an existing file. Collective. Same on all ranks: path, hints.
  // Errors: as MpiStatus, agreed.
  static Agreed<MpiFile> OpenForWrite(
      CommContext& context, const std::string& path,
      const std::map<std::string, std::string>& hints);

  // Judges the MPI-IO stack of this file. ROMIO is sound. OMPIO is sound if its
  // control variable fbtl_posix_write_datasieving is 0. OpenForWrite requests
  // that, but Open MPI obeys only before the program's first open. Costs one
  // all-reduce, and 0.2 s at the first call if the environment does not select
  // ROMIO. Collective; agreed.
  // Errors: those in `mine`.
  Agreed<MpiIoVerdict> Judge(CommContext& context,
                             const Status& mine = absl::OkStatus());

  // Writes all segments of all ranks in one call; a rank may pass none.
  // Segments must have ascending, disjoint offsets and at most 1 GiB in all.
  // Collective, without agreement: a rank whose call fails keeps taking part,
  // and returns the error here and from every later call. `meanwhile` runs
  // between the part that waits for all ranks and the write.
  Status WriteAll(std::span<const IoSegment> segments,
                  const std::function<void()>& meanwhile = {});

  // Closes the file and returns its first error on this rank. Collective,
  // without agreement. A second call does nothing.
  Status Close();

 private:
  MPI_File file_ = MPI_FILE_NULL;
  std::string path_;
  std::map<std::string, std::string> hints_;
  Status status_;  // the first failure of this rank
};

// Creates an empty file, which must not exist yet, with hints that take effect
// only at creation, such as striping_factor. MPI ignores unknown hints. Errors:
// as MpiStatus; InvalidArgument - a hint is too long for MPI.
Status CreateFileWithHints(const std::string& path,
                           const std::map<std::string, std::string>& hints);

}  // namespace belay

#endif  // BELAY_MPI_MPI_FILE_H_
