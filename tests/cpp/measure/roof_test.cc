#include "fastload/measure/roof.h"

#include <gtest/gtest.h>

#include <limits>

#include "fastload/decode/pages/chunk_open.h"
#include "row_files.h"

namespace fastload {
namespace {

TEST(Roof, ReadsThePagesOfTheColumns) {
  const testing::TemporaryDirectory directory;
  const std::string path = directory.File("part.parquet");
  testing::WriteRows(path, 0, {300, 200});
  const FileSpec spec = testing::SpecOf(path);
  const int64_t bytes = ChunkRange(spec, 0, 0)->bytes + ChunkRange(spec, 1, 0)->bytes +
                        ChunkRange(spec, 0, 2)->bytes + ChunkRange(spec, 1, 2)->bytes;
  for (const int32_t threads : {1, 3}) {
    const RoofTimes times = *MeasureRoof({spec}, {{0, 2}}, 100'000, threads);
    EXPECT_EQ(times.read_bytes, bytes);
    EXPECT_GT(times.pages, 4);
    EXPECT_GT(times.read_s, 0);
    EXPECT_GT(times.pages_s, times.read_s);
    EXPECT_GT(times.memcpy_s, 0);
  }
}

TEST(Roof, ReadsThePagesOfTheFirstRows) {
  const testing::TemporaryDirectory directory;
  const std::string path = directory.File("part.parquet");
  testing::WriteRows(path, 0, {300, 200});
  const FileSpec spec = testing::SpecOf(path);
  const auto measure = [&](int32_t leaf, int64_t rows) {
    return *MeasureRoof({spec}, {{leaf}}, 0, 2, rows);
  };
  const int64_t bytes = ChunkRange(spec, 0, 0)->bytes;
  EXPECT_EQ(measure(0, 1).pages, 1);
  EXPECT_LT(measure(0, 1).read_bytes, bytes);
  EXPECT_EQ(measure(0, 299).read_bytes, bytes);
  EXPECT_EQ(measure(0, 300).read_bytes, bytes);
  EXPECT_EQ(measure(0, 301).pages, measure(0, 300).pages + 1);
  EXPECT_EQ(measure(0, 500).read_bytes, bytes + ChunkRange(spec, 1, 0)->bytes);
  // The dictionary is a page, too.
  EXPECT_EQ(measure(2, 1).pages, 2);
}

TEST(Roof, ReadsNoPagesThatAreKept) {
  const testing::TemporaryDirectory directory;
  const std::string path = directory.File("part.parquet");
  testing::WriteRows(path, 0, {300, 200});
  const FileSpec spec = testing::SpecOf(path);
  const auto measure = [&](int64_t limit,
                           int64_t rows = std::numeric_limits<int64_t>::max()) {
    return *MeasureRoof({spec}, {{0, 2}}, 100'000, 2, rows, limit);
  };
  const RoofTimes whole = measure(0);
  EXPECT_EQ(whole.kept_bytes, 0);
  EXPECT_EQ(whole.kept_s, 0);
  const RoofTimes kept = measure(1 << 20);
  EXPECT_EQ(kept.pages, 0);
  EXPECT_EQ(kept.read_bytes, 0);
  EXPECT_GT(kept.kept_bytes, 500 * 4);
  EXPECT_GT(kept.kept_s, 0);
  EXPECT_LE(kept.kept_s, kept.pages_s);
  EXPECT_GT(kept.memcpy_s, 0);
  // A chunk of which only the first pages are read is not kept, nor is one without room.
  const RoofTimes first = measure(1 << 20, 350);
  EXPECT_GT(first.read_bytes, 0);
  EXPECT_LT(first.read_bytes, whole.read_bytes);
  EXPECT_EQ(measure(1).read_bytes, whole.read_bytes);
}

TEST(Roof, NamesTheRowGroupThatFails) {
  const testing::TemporaryDirectory directory;
  const std::string path = directory.File("part.parquet");
  testing::WriteRows(path, 0, {300, 200});
  testing::Overwrite(path, ChunkRange(testing::SpecOf(path), 1, 0)->offset,
                     std::string(16, '\xFF'));
  const Status status = MeasureRoof({testing::SpecOf(path)}, {{0}}, 0, 2).status();
  EXPECT_EQ(KindOf(status), ErrorKind::kCorruptFile);
  EXPECT_NE(status.message().find(" - at " + path + ", row group 1"), std::string::npos);
}

}  // namespace
}  // namespace fastload
