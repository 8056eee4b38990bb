// Variable-length values of the pages of one column chunk, as views.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "arrow/buffer.h"
#include "fastload/chunk_reader.h"
#include "fastload/hybrid.h"
#include "fastload/page_cursor.h"
#include "parquet/encoding.h"

namespace fastload {

class BytesValues : public PageValues {
 public:
  using Owners = std::vector<std::shared_ptr<arrow::Buffer>>;

  // `descr` is borrowed.
  explicit BytesValues(const parquet::ColumnDescriptor* descr);

  Status SetDictionary(const parquet::DictionaryPage& page) override;
  Status SetPage(parquet::Encoding::type encoding, const uint8_t* data, int64_t size,
                 int64_t max_values) override;
  Status Skip(int64_t values) override;

  // Writes n views, and appends to `owners` what they point to; a buffer appended
  // since the last call of Rewind is not appended again.
  Status Decode(int64_t n, ByteView* views, Owners* owners);

  // The next Decode has other owners.
  void Rewind();

 private:
  enum class Source : uint8_t {
    kPlain,       // BYTE_ARRAY: length, bytes, length, bytes, ...
    kPlainFixed,  // FIXED_LEN_BYTE_ARRAY
    kDictionary,
    kArrow,  // a decoder of Arrow
  };

  static constexpr int64_t kBlockValues = 1024;

  // The page in memory of our own, copied when the first value of it is wanted.
  Status OwnPage(Owners* owners);
  Status DecodePlain(int64_t n, ByteView* views);
  Status DecodeFixed(int64_t n, ByteView* views);
  Status DecodeWithArrow(int64_t n, ByteView* views, Owners* owners);
  // Views of n values, at most kBlockValues, good until the next call.
  Status ArrowBlock(int64_t n, ByteView* views);
  Status CheckLeft(int64_t n, int64_t left) const;

  const parquet::ColumnDescriptor* descr_;
  int64_t fixed_size_;  // bytes of a FIXED_LEN_BYTE_ARRAY, else -1
  Source source_ = Source::kPlain;

  const uint8_t* pos_ = nullptr;
  const uint8_t* end_ = nullptr;
  std::shared_ptr<arrow::Buffer> page_;  // null until copied
  bool page_appended_ = false;
  HybridDecoder hybrid_;
  std::unique_ptr<parquet::Decoder> arrow_;
  parquet::Encoding::type arrow_encoding_ = parquet::Encoding::UNKNOWN;

  std::shared_ptr<arrow::Buffer> dictionary_page_;
  bool dictionary_appended_ = false;
  std::vector<ByteView> dictionary_;
  std::vector<ByteView> scratch_;
};

}  // namespace fastload
