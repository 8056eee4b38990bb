#include "fastload/fetch/file_table.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "written_files.h"

namespace fastload {
namespace {

using FileTableTest = testing::FilesTest;
using testing::OpenDescriptors;
using testing::ReadAt;

TEST_F(FileTableTest, KeepsTheFilesUsedLast) {
  std::vector<FileSpec> specs;
  for (int i = 0; i < 100; ++i) specs.push_back(Write(std::to_string(i), "x"));
  FileTable table(specs, nullptr, 64);
  EXPECT_EQ(table.size(), 100);
  const int64_t before = OpenDescriptors();
  const auto first = *table.Open(0);
  EXPECT_EQ(*table.Open(0), first);
  for (int32_t i = 1; i < 100; ++i) {
    ASSERT_TRUE(table.Open(i).ok());
    EXPECT_EQ(*table.Open(0), first);  // used again and again, so the file stays open
    EXPECT_LE(OpenDescriptors(), before + 64);
  }
  EXPECT_EQ(OpenDescriptors(), before + 64);
  // A file that was closed meanwhile is opened again.
  EXPECT_EQ(ReadAt(**table.Open(1), 0, 1), "x");
  table.CloseAll();
  EXPECT_EQ(OpenDescriptors(), before + 1);
  EXPECT_EQ(ReadAt(*first, 0, 1), "x");
}

TEST_F(FileTableTest, AChangedFileThatIsOpenIsFoundWhenAPassBegins) {
  const FileSpec spec = Write("a", "0123456789");
  FileTable table({spec});
  ASSERT_TRUE(table.Open(0).ok());
  EXPECT_TRUE(table.CheckOpen().ok());
  testing::SetModifiedNs(spec.path, spec.mtime_ns + 1);
  EXPECT_EQ(KindOf(table.CheckOpen()), ErrorKind::kSourceChanged);
}

TEST_F(FileTableTest, ThreadsShareIt) {
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
