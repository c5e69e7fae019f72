#include "storage/file_system.h"

#include <gtest/gtest.h>
#include <sys/sysmacros.h>

namespace belay::file_system_test {
namespace {

TEST(FileSystemTest, WhatIsNotThereLiesWhereItsParentDoes) {
  EXPECT_EQ(FindFileSystem("/proc/no/such/file"), FindFileSystem("/proc"));
  EXPECT_EQ(FindFileSystem("/proc"), FileSystem::kOther);
  EXPECT_EQ(FileSystemName(FileSystem::kGlusterFs), "GlusterFS");
  EXPECT_FALSE(IsInMemory("/proc"));
  if (IsInMemory("/dev/shm")) {
    EXPECT_EQ(FindFileSystem("/dev/shm/x/y"), FileSystem::kMemory);
  }
}

TEST(FileSystemTest, MountsTellTheTypeInUserSpace) {
  const char* text =
      "22 1 8:2 / / rw,relatime shared:1 - ext4 /dev/sda2 rw\n"
      "40 22 0:57 / /mnt/my\\040vol rw - fuse.glusterfs host:/v rw,user_id=0\n"
      "41 22 0:58 / /mnt/b rw master:1 shared:2 - fuse.sshfs host: rw\n"
      "42 22 0:59 nonsense\n";
  EXPECT_EQ(MountedType(text, makedev(8, 2)), "ext4");
  EXPECT_EQ(MountedType(text, makedev(0, 57)), "fuse.glusterfs");
  EXPECT_EQ(MountedType(text, makedev(0, 58)), "fuse.sshfs");
  EXPECT_EQ(MountedType(text, makedev(0, 59)), "");
  EXPECT_EQ(MountedType(text, makedev(0, 5)), "");
  EXPECT_EQ(MountedType("", makedev(8, 2)), "");
}

}  // namespace
}  // namespace belay::file_system_test
