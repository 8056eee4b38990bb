#include "fastload/source/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "written_files.h"

namespace fastload {
namespace {

using FileTest = testing::FilesTest;
using testing::OpenDescriptors;
using testing::ReadAt;

TEST_F(FileTest, ReadsAnywhere) {
  const auto file = *LocalFile::Open(Write("a", "0123456789"));
  EXPECT_EQ(ReadAt(*file, 0, 10), "0123456789");
  EXPECT_EQ(ReadAt(*file, 4, 3), "456");
  EXPECT_EQ(ReadAt(*file, 4, 0), "");
}

// Returns how many of the file's pages are in memory. Reading bytes would bring more
// pages into memory, so mincore is used.
int64_t PagesInMemory(int fd, int64_t pages) {
  const auto bytes = static_cast<size_t>(pages * sysconf(_SC_PAGESIZE));
  void* const mapped = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
  std::vector<unsigned char> found(static_cast<size_t>(pages));
  EXPECT_EQ(mincore(mapped, bytes, found.data()), 0);
  munmap(mapped, bytes);
  return std::ranges::count_if(found, [](unsigned char page) { return (page & 1) != 0; });
}

// Runs only where the file system lets a file leave the page cache.
TEST_F(FileTest, BytesComeAheadWithoutARead) {
  constexpr int64_t kPages = 600;
  const int64_t page = sysconf(_SC_PAGESIZE);
  const auto whole = static_cast<size_t>(kPages * page);
  const auto file = *LocalFile::Open(Write("a", std::string(whole, 'a')));
  const int fd = open(directory_.File("a").c_str(), O_RDONLY);
  ASSERT_EQ(fsync(fd), 0);
  posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  if (PagesInMemory(fd, kPages) > 0) {
    close(fd);
    GTEST_SKIP() << "it stays in memory";
  }
  file->BringAhead({200 * page, 400 * page});
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (PagesInMemory(fd, kPages) < 400 && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(PagesInMemory(fd, kPages), 400);
  close(fd);
}

TEST_F(FileTest, AReadPastTheEndIsAChange) {
  const FileSpec spec = Write("a", "0123456789");
  const auto file = *LocalFile::Open(spec);
  uint8_t out[8];
  const Status status = file->ReadAt(7, 8, out);
  EXPECT_EQ(KindOf(status), ErrorKind::kSourceChanged);
  EXPECT_EQ(
      status.message(),
      "Expected 5 more bytes at offset 10, got the end of the file - at " + spec.path);
}

TEST_F(FileTest, AMissingFileIsAChange) {
  const FileSpec spec = Write("a", "0123456789");
  std::filesystem::remove(spec.path);
  const Status status = LocalFile::Open(spec).status();
  EXPECT_EQ(KindOf(status), ErrorKind::kSourceChanged);
  EXPECT_EQ(
      status.message(),
      "Expected to open the file, got: No such file or directory - at " + spec.path);
}

TEST_F(FileTest, AnotherSizeOrTimeIsAChange) {
  const FileSpec spec = Write("a", "0123456789");
  testing::SetModifiedNs(spec.path, spec.mtime_ns + 1);
  EXPECT_EQ(KindOf(LocalFile::Open(spec).status()), ErrorKind::kSourceChanged);
  testing::SetModifiedNs(spec.path, spec.mtime_ns);
  EXPECT_TRUE(LocalFile::Open(spec).ok());
  testing::WriteFile(spec.path, "01234567890");
  testing::SetModifiedNs(spec.path, spec.mtime_ns);
  const Status status = LocalFile::Open(spec).status();
  EXPECT_EQ(KindOf(status), ErrorKind::kSourceChanged);
  EXPECT_EQ(status.message(),
            "Expected the file as its footer was read (10 bytes), got one of 11 bytes, "
            "modified since - at " +
                spec.path);
}

TEST_F(FileTest, AChangeAfterTheOpenFailsReads) {
  const FileSpec spec = Write("a", "0123456789");
  const auto file = *LocalFile::Open(spec);
  testing::Overwrite(spec.path, 3, "x");
  testing::SetModifiedNs(spec.path, spec.mtime_ns + 1);
  uint8_t out[2];
  EXPECT_EQ(KindOf(file->ReadAt(0, 2, out)), ErrorKind::kSourceChanged);
}

TEST_F(FileTest, FailedOpensKeepNoDescriptor) {
  FileSpec spec = Write("a", "0123456789");
  const int64_t before = OpenDescriptors();
  spec.bytes = 9;
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(LocalFile::Open(spec).ok());
  EXPECT_EQ(OpenDescriptors(), before);
}

}  // namespace
}  // namespace fastload
