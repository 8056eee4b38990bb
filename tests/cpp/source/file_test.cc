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

#include "temporary_directory.h"

namespace fastload {
namespace {

class FileTest : public ::testing::Test {
 protected:
  FileSpec Write(const std::string& name, const std::string& bytes) {
    const std::string path = directory_.File(name);
    testing::WriteFile(path, bytes);
    return {.path = path,
            .bytes = testing::FileBytes(path),
            .mtime_ns = testing::ModifiedNs(path)};
  }

  testing::TemporaryDirectory directory_;
};

int64_t OpenDescriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return std::distance(begin(all), end(all));
}

std::string ReadAt(const File& file, int64_t offset, int64_t bytes) {
  std::string text(static_cast<size_t>(bytes), '?');
  const Status status =
      file.ReadAt(offset, bytes, reinterpret_cast<uint8_t*>(text.data()));
  return status.ok() ? text : status.message();
}

TEST_F(FileTest, ReadsAnywhere) {
  const auto file = *LocalFile::Open(Write("a", "0123456789"));
  EXPECT_EQ(ReadAt(*file, 0, 10), "0123456789");
  EXPECT_EQ(ReadAt(*file, 4, 3), "456");
  EXPECT_EQ(ReadAt(*file, 4, 0), "");
}

// Pages of a file that are in memory. A look by reading would bring them.
int64_t PagesInMemory(int fd, int64_t pages) {
  const auto bytes = static_cast<size_t>(pages * sysconf(_SC_PAGESIZE));
  void* const mapped = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
  std::vector<unsigned char> found(static_cast<size_t>(pages));
  EXPECT_EQ(mincore(mapped, bytes, found.data()), 0);
  munmap(mapped, bytes);
  return std::ranges::count_if(found, [](unsigned char page) { return (page & 1) != 0; });
}

// Where the file system lets a file leave the page cache.
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

TEST_F(FileTest, AMissingFileIsAStorageError) {
  const FileSpec spec = Write("a", "0123456789");
  std::filesystem::remove(spec.path);
  const Status status = LocalFile::Open(spec).status();
  EXPECT_EQ(KindOf(status), ErrorKind::kStorage);
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

TEST_F(FileTest, FailedOpensKeepNoDescriptor) {
  FileSpec spec = Write("a", "0123456789");
  const int64_t before = OpenDescriptors();
  spec.bytes = 9;
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(LocalFile::Open(spec).ok());
  EXPECT_EQ(OpenDescriptors(), before);
}

TEST_F(FileTest, ATableKeepsTheFilesUsedLast) {
  std::vector<FileSpec> specs;
  for (int i = 0; i < 100; ++i) specs.push_back(Write(std::to_string(i), "x"));
  FileTable table(specs);
  EXPECT_EQ(table.size(), 100);
  const int64_t before = OpenDescriptors();
  const auto first = *table.Open(0);
  EXPECT_EQ(*table.Open(0), first);
  for (int32_t i = 1; i < 100; ++i) {
    ASSERT_TRUE(table.Open(i).ok());
    EXPECT_EQ(*table.Open(0), first);  // used again and again: it stays
    EXPECT_LE(OpenDescriptors(), before + 64);
  }
  EXPECT_EQ(OpenDescriptors(), before + 64);
  // One that was closed meanwhile is opened anew.
  EXPECT_EQ(ReadAt(**table.Open(1), 0, 1), "x");
  table.CloseAll();
  EXPECT_EQ(OpenDescriptors(), before + 1);
  EXPECT_EQ(ReadAt(*first, 0, 1), "x");
}

TEST_F(FileTest, ThreadsShareATable) {
  std::vector<FileSpec> specs;
  for (int i = 0; i < 80; ++i) specs.push_back(Write(std::to_string(i), "x"));
  FileTable table(specs);
  std::vector<std::jthread> threads;
  for (int32_t t = 0; t < 4; ++t) {
    threads.emplace_back([&table, t] {
      for (int32_t i = 0; i < 400; ++i) {
        EXPECT_EQ(ReadAt(**table.Open((i * (t + 1)) % 80), 0, 1), "x");
      }
    });
  }
}

}  // namespace
}  // namespace fastload
