// Tests that each type takes the encodings that Parquet defines for the type, and refuses
// pages in any other encoding.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "column_file.h"
#include "fastload/decode/chunk_reader.h"
#include "fastload/decode/values/cast.h"
#include "level_pages.h"

namespace fastload {
namespace {

using parquet::Encoding;
using parquet::Type;

constexpr int32_t kEncodedRows = 8;

// One page of zeros, without levels.
class PageOfZeros final : public parquet::PageReader {
 public:
  explicit PageOfZeros(Encoding::type encoding) : encoding_(encoding) {}

  std::shared_ptr<parquet::Page> NextPage() override {
    if (done_) return nullptr;
    done_ = true;
    const auto bytes = arrow::Buffer::FromString(std::string(96, '\0'));
    if (data_page_filter_(parquet::DataPageStats(nullptr, kEncodedRows, std::nullopt))) {
      return nullptr;
    }
    return std::make_shared<parquet::DataPageV1>(
        bytes, kEncodedRows, encoding_, Encoding::RLE, Encoding::RLE, bytes->size());
  }
  void set_max_page_header_size(uint32_t /*size*/) override {}

 private:
  const Encoding::type encoding_;
  bool done_ = false;
};

struct EncodedType {
  Type::type physical;
  DType dtype;                            // of the tensor; kUInt8: the bytes themselves
  std::vector<Encoding::type> encodings;  // beside PLAIN and those of dictionaries
  std::shared_ptr<const parquet::LogicalType> logical = parquet::LogicalType::None();
  int length = -1;
  int64_t buckets = 0;  // more than 0: hashes
};

std::vector<EncodedType> EncodedTypes() {
  const std::vector<Encoding::type> integers = {Encoding::DELTA_BINARY_PACKED,
                                                Encoding::BYTE_STREAM_SPLIT};
  const std::vector<Encoding::type> texts = {Encoding::DELTA_LENGTH_BYTE_ARRAY,
                                             Encoding::DELTA_BYTE_ARRAY};
  const std::vector<Encoding::type> fixed = {Encoding::DELTA_BYTE_ARRAY,
                                             Encoding::BYTE_STREAM_SPLIT};
  const auto none = parquet::LogicalType::None();
  return {
      {Type::BOOLEAN, DType::kBool, {Encoding::RLE}},
      {Type::INT32, DType::kInt32, integers},
      {Type::INT64, DType::kInt64, integers},
      {Type::INT96, DType::kInt64, {}},
      {Type::FLOAT, DType::kFloat32, {Encoding::BYTE_STREAM_SPLIT}},
      {Type::DOUBLE, DType::kFloat64, {Encoding::BYTE_STREAM_SPLIT}},
      {Type::BYTE_ARRAY, DType::kUInt8, texts},
      {Type::BYTE_ARRAY, DType::kInt64, texts, none, -1, 100},
      {Type::FIXED_LEN_BYTE_ARRAY, DType::kUInt8, fixed, none, 2},
      {Type::FIXED_LEN_BYTE_ARRAY, DType::kInt64, fixed, none, 2, 100},
      {Type::FIXED_LEN_BYTE_ARRAY, DType::kFloat16, fixed,
       parquet::LogicalType::Float16(), 2},
  };
}

Status ReadZeros(const EncodedType& type, Encoding::type encoding) {
  const auto schema = testing::Schema(testing::LeafNode(
      type.physical, type.logical, type.length, parquet::Repetition::REQUIRED));
  ColumnSpec spec;
  spec.dtype = type.dtype;
  spec.bytes = type.dtype == DType::kUInt8;
  spec.hash_buckets = type.buckets;
  ChunkInput input;
  input.pages = std::make_unique<PageOfZeros>(encoding);
  input.descr = schema->Column(0);
  input.rows = kEncodedRows;
  if (spec.bytes) {
    std::vector<ByteView> views(kEncodedRows);
    ByteArena arena;
    ARROW_ASSIGN_OR_RAISE(auto reader, MakeBytesReader(std::move(input), &spec));
    return reader->Read(kEncodedRows, views.data(), nullptr, &arena);
  }
  std::vector<uint64_t> out(kEncodedRows);
  ARROW_ASSIGN_OR_RAISE(auto reader, MakeFixedReader(std::move(input), &spec));
  return reader->Read(kEncodedRows, reinterpret_cast<uint8_t*>(out.data()), 8, nullptr);
}

TEST(Encodings, OtherEncodingsThanTheTypesAreDamage) {
  for (const EncodedType& type : EncodedTypes()) {
    SCOPED_TRACE(parquet::TypeToString(type.physical) + " as " +
                 std::string(NameOf(type.dtype)));
    EXPECT_EQ(ReadZeros(type, Encoding::PLAIN).ToString(), "OK");
    for (int number = 0; number < static_cast<int>(Encoding::UNDEFINED); ++number) {
      const auto encoding = static_cast<Encoding::type>(number);
      const bool own = std::find(type.encodings.begin(), type.encodings.end(),
                                 encoding) != type.encodings.end();
      if (encoding == Encoding::PLAIN || own) continue;
      const Status status = ReadZeros(type, encoding);
      EXPECT_EQ(KindOf(status), ErrorKind::kCorruptFile)
          << parquet::EncodingToString(encoding) << ": " << status.ToString();
    }
  }
}

}  // namespace
}  // namespace fastload
