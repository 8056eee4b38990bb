// Tests that a reader which rests frees its page, and goes on where it was.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "arrow/io/memory.h"
#include "column_file.h"
#include "fastload/decode/chunk_reader.h"
#include "fastload/decode/pages/chunk_open.h"
#include "row_files.h"

namespace fastload {
namespace {

using testing::ColumnData;
using testing::ColumnLayout;

constexpr int64_t kRestingRows = 20'000;
constexpr float kRestingFill = -7;

enum class NullRuns { kNone, kSome, kLong };

// A column of floats in a file, and the values that a reader returns.
class RestingReader : public ::testing::Test {
 protected:
  void Write(const ColumnLayout& layout, NullRuns nulls,
             parquet::Repetition::type repeats) {
    std::mt19937 random(5);
    ColumnData<parquet::FloatType> data;
    values_.clear();
    bool present = true;
    for (int64_t row = 0; row < kRestingRows; ++row) {
      if (nulls == NullRuns::kSome) present = random() % 5 != 0;
      if (nulls == NullRuns::kLong && random() % 500 == 0) present = !present;
      const float value = static_cast<float>(random());
      data.valid.push_back(present);
      if (present) data.values.push_back(value);
      values_.push_back(present ? value : kRestingFill);
    }
    bytes_ = testing::WriteColumn<parquet::FloatType>(
        testing::LeafNode(parquet::Type::FLOAT, parquet::LogicalType::None(), -1,
                          repeats),
        data, layout);
    path_ = directory_.File("column.parquet");
    std::ofstream(path_, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes_->data()), bytes_->size());
    spec_.name = "column";
    spec_.dtype = DType::kFloat32;
    spec_.fill = testing::BytesOf(kRestingFill);
  }

  std::unique_ptr<FixedReader> Open(arrow::MemoryPool* pool) {
    const FileSpec file = testing::SpecOf(path_);
    const ByteRange range = *ChunkRange(file, 0, 0);
    auto stream = std::make_shared<arrow::io::BufferReader>(
        arrow::SliceBuffer(bytes_, range.offset, range.bytes));
    descr_file_ = file;  // the reader borrows the column's description
    ChunkInput input = OpenChunk(file, 0, 0, stream, pool).ValueOrDie();
    return MakeFixedReader(std::move(input), &spec_).ValueOrDie();
  }

  testing::TemporaryDirectory directory_;
  std::string path_;
  std::shared_ptr<arrow::Buffer> bytes_;
  FileSpec descr_file_;
  ColumnSpec spec_;
  std::vector<float> values_;
};

TEST_F(RestingReader, GoesOnWhereItWas) {
  std::mt19937 random(6);
  for (const auto codec :
       {parquet::Compression::UNCOMPRESSED, parquet::Compression::SNAPPY}) {
    for (const bool v2 : {false, true}) {
      for (const bool dictionary : {false, true}) {
        for (const NullRuns nulls : {NullRuns::kNone, NullRuns::kSome, NullRuns::kLong}) {
          ColumnLayout layout;
          layout.codec = codec;
          layout.v2_pages = v2;
          layout.dictionary = dictionary;
          layout.dictionary_bytes = 6000;
          layout.page_bytes = 9000;
          SCOPED_TRACE(testing::Describe(layout) + " nulls " +
                       std::to_string(static_cast<int>(nulls)));
          const bool required = nulls == NullRuns::kNone && v2;
          Write(layout, nulls,
                required ? parquet::Repetition::REQUIRED : parquet::Repetition::OPTIONAL);
          const auto reader = Open(arrow::default_memory_pool());
          for (int64_t row = 0; row < kRestingRows;) {
            const auto piece = std::min<int64_t>(1 + random() % 1500, kRestingRows - row);
            if (random() % 4 == 0) {
              ASSERT_TRUE(reader->Skip(piece).ok());
            } else {
              std::vector<float> out(static_cast<size_t>(piece));
              ASSERT_TRUE(reader
                              ->Read(piece, reinterpret_cast<uint8_t*>(out.data()),
                                     sizeof(float), nullptr)
                              .ok());
              ASSERT_EQ(std::memcmp(out.data(), values_.data() + row,
                                    static_cast<size_t>(piece) * sizeof(float)),
                        0)
                  << "rows from " << row << " on";
            }
            row += piece;
            for (auto rests = random() % 3; rests > 0; --rests) reader->Rest();
          }
        }
      }
    }
  }
}

TEST_F(RestingReader, HoldsWhatIsLeftOfThePage) {
  ColumnLayout layout;
  layout.codec = parquet::Compression::SNAPPY;
  Write(layout, NullRuns::kNone, parquet::Repetition::OPTIONAL);  // one page
  const auto pool = arrow::MemoryPool::CreateDefault();
  const auto reader = Open(pool.get());
  std::vector<float> out(kRestingRows);
  auto* const to = reinterpret_cast<uint8_t*>(out.data());
  ASSERT_TRUE(reader->Read(kRestingRows - 100, to, sizeof(float), nullptr).ok());
  const int64_t before = pool->bytes_allocated();
  EXPECT_GE(before, kRestingRows * 4);
  reader->Rest();
  EXPECT_LE(pool->bytes_allocated(), before - kRestingRows * 4 + 2000);
  ASSERT_TRUE(reader->Read(100, to, sizeof(float), nullptr).ok());
  EXPECT_EQ(std::memcmp(to, values_.data() + kRestingRows - 100, 100 * sizeof(float)), 0);
  reader->Rest();
  EXPECT_LE(pool->bytes_allocated(), before - kRestingRows * 4 + 2000);
}

TEST_F(RestingReader, NamesTheRowOfANull) {
  ColumnLayout layout;
  layout.codec = parquet::Compression::SNAPPY;
  Write(layout, NullRuns::kLong, parquet::Repetition::OPTIONAL);
  spec_.fill.reset();
  int64_t first_null = 0;
  while (values_[static_cast<size_t>(first_null)] != kRestingFill) ++first_null;
  ASSERT_GT(first_null, 1);
  const auto reader = Open(arrow::default_memory_pool());
  std::vector<float> out(kRestingRows);
  auto* const to = reinterpret_cast<uint8_t*>(out.data());
  ASSERT_TRUE(reader->Read(first_null - 1, to, sizeof(float), nullptr).ok());
  reader->Rest();
  const Status status = reader->Read(2, to, sizeof(float), nullptr);
  EXPECT_EQ(KindOf(status), ErrorKind::kNullValue);
  EXPECT_EQ(RowOf(status), first_null);
}

}  // namespace
}  // namespace fastload
