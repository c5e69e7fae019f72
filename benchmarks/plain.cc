// The baselines of the bars: only POSIX calls.

#include <fcntl.h>
#include <mpi.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "contenders.h"

namespace belay::bench {
namespace {

Status SystemError(const char* call, const std::string& path) {
  return absl::InternalError(
      absl::StrCat(call, " \"", path, "\": ", std::strerror(errno)));
}

// Calls `move` (pwrite or pread) until all bytes are moved; one call moves at
// most 2 GiB.
template <typename Move>
bool MoveAll(Move move, int fd, char* data, int64_t bytes, int64_t offset) {
  while (bytes > 0) {
    const ssize_t done = move(fd, data, bytes, offset);
    if (done <= 0) return false;
    data += done;
    bytes -= done;
    offset += done;
  }
  return true;
}

Status WriteRegion(const std::string& path, Arrays& arrays, int64_t offset,
                   bool sync) {
  const int fd = open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
  if (fd < 0) return SystemError("open", path);
  const bool written =
      MoveAll(pwrite, fd, arrays.buffer.data(), arrays.plain_bytes, offset) &&
      (!sync || fsync(fd) == 0);
  Status status = written ? absl::OkStatus() : SystemError("write", path);
  if (close(fd) != 0 && status.ok()) status = SystemError("close", path);
  return status;
}

Status ReadRegion(const std::string& path, Arrays& arrays, int64_t offset) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return SystemError("open", path);
  const bool read =
      MoveAll(pread, fd, arrays.buffer.data(), arrays.plain_bytes, offset);
  close(fd);
  return read ? absl::OkStatus() : SystemError("read", path);
}

Status RemoveFile(const Context& context, const std::string& path,
                  bool by_this_rank) {
  MPI_Barrier(context.comm->raw());
  if (by_this_rank && unlink(path.c_str()) != 0) {
    return SystemError("unlink", path);
  }
  return absl::OkStatus();
}

}  // namespace

Contender MemoryCopy(std::shared_ptr<Arrays> arrays) {
  auto copy = std::make_shared<std::vector<char>>(arrays->plain_bytes);
  return {.name = "memcpy", .run = [arrays, copy] {
            std::memcpy(copy->data(), arrays->buffer.data(), copy->size());
            return absl::OkStatus();
          }};
}

Contender PlainWrite(const Context& context, const Medium& medium,
                     std::shared_ptr<Arrays> arrays) {
  const std::string path = medium.dir + "/plain.bin";
  const int64_t offset = arrays->plain_bytes * context.comm->rank();
  return {
      .name = "pwrite",
      .run =
          [=, sync = medium.durable] {
            return WriteRegion(path, *arrays, offset, sync);
          },
      .clean =
          [=] { return RemoveFile(context, path, context.comm->rank() == 0); }};
}

Contender PlainWriteOwnFile(const Context& context, const Medium& medium,
                            std::shared_ptr<Arrays> arrays) {
  const std::string path =
      absl::StrCat(medium.dir, "/plain.", context.comm->rank());
  return {.name = "pwrite to own file",
          .run =
              [=, sync = medium.durable] {
                return WriteRegion(path, *arrays, 0, sync);
              },
          .clean = [=] { return RemoveFile(context, path, true); }};
}

StatusOr<Contender> PlainRead(const Context& context, const Medium& medium,
                              std::shared_ptr<Arrays> arrays) {
  const std::string path = medium.dir + "/plain_to_read.bin";
  const int64_t offset = arrays->plain_bytes * context.comm->rank();
  Status status =
      AllOk(*context.comm, WriteRegion(path, *arrays, offset, medium.durable));
  if (!status.ok()) return status;
  return Contender{.name = "pread",
                   .run = [=] { return ReadRegion(path, *arrays, offset); }};
}

}  // namespace belay::bench
