// Which file system holds a file.

#ifndef BELAY_IO_FILES_FILE_SYSTEM_H_
#define BELAY_IO_FILES_FILE_SYSTEM_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace belay {

// Those for which belay does something of its own.
enum class FileSystem : uint8_t {
  kOther,
  kNfs,
  kMemory,  // a tmpfs
  kLustre,
  kGpfs,
  kBeeGfs,
  kCeph,
  kGlusterFs,
};

// Returns the file system of `path`, or of what is nearest above it; kOther if
// that cannot be found out. Local.
FileSystem FileSystemOf(const std::string& path);

// Returns the name that users know it by; "" for kOther. Local.
std::string_view FileSystemName(FileSystem file_system);

// Whether `path`, or what is nearest above it, lies on NFS; false if that
// cannot be found out. Local.
bool IsOnNfs(const std::string& path);

// Whether it lies on a tmpfs, likewise. Local.
bool IsInMemory(const std::string& path);

// Returns the type of the file system that is mounted as `device`, such as
// "fuse.glusterfs", by the text of /proc/self/mountinfo; "" if it does not say.
// Local.
std::string_view MountedType(std::string_view mountinfo, dev_t device);

}  // namespace belay

#endif  // BELAY_IO_FILES_FILE_SYSTEM_H_
