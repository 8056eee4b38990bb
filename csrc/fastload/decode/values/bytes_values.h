// The variable-length values of the pages of one column chunk, as views.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "arrow/buffer.h"
#include "fastload/base/byte_arena.h"
#include "fastload/decode/pages/hybrid.h"
#include "fastload/decode/pages/page_cursor.h"
#include "fastload/decode/values/arrow_values.h"
#include "fastload/decode/values/byte_view.h"
#include "fastload/decode/values/plain_bytes.h"

namespace fastload {

// Returns an error unless the column holds bytes, or nulls alone.
Status CheckBytes(const parquet::ColumnDescriptor& descr);

class BytesValues : public PageValues {
 public:
  // `descr` is borrowed.
  explicit BytesValues(const parquet::ColumnDescriptor* descr);

  Status SetDictionary(const parquet::DictionaryPage& page) override;
  std::shared_ptr<const DecodedDictionary> ShareDictionary() override {
    return dictionary_;
  }
  void SetShared(std::shared_ptr<const DecodedDictionary> dictionary) override;
  Status SetPage(parquet::Encoding::type encoding, const uint8_t* data, int64_t size,
                 int64_t max_values) override;
  Status Skip(int64_t values) override;

  // Writes n views; `arena` keeps the viewed bytes alive.
  Status Decode(int64_t n, ByteView* views, ByteArena* arena);

 private:
  enum class Source : uint8_t {
    kPlain,
    kDictionary,
    kArrow,  // decoded by Arrow
  };

  // The views of the entries, and the bytes that they view.
  struct Dictionary final : DecodedDictionary {
    int64_t bytes() const override {
      return page->size() + static_cast<int64_t>(views.size() * sizeof(ByteView));
    }

    std::shared_ptr<arrow::Buffer> page;
    std::vector<ByteView> views;
  };

  static constexpr int64_t kBlockValues = ArrowValues::kBlockValues;

  // Writes views of n values of `plain_`.
  Status DecodePlain(int64_t n, ByteView* views);
  // Copies the bytes [begin, end) to the arena, and moves n views of these bytes to the
  // copy.
  static Status Own(const uint8_t* begin, const uint8_t* end, int64_t n, ByteView* views,
                    ByteArena* arena);
  Status DecodeWithArrow(int64_t n, ByteView* views, ByteArena* arena);
  // Writes views of n values, at most kBlockValues, that are valid until the next call.
  Status ArrowBlock(int64_t n, ByteView* views);

  Source source_ = Source::kPlain;
  PlainBytes plain_;
  HybridDecoder hybrid_;
  ArrowValues arrow_;

  std::shared_ptr<const Dictionary> dictionary_;  // null before the dictionary page
  std::vector<ByteView> scratch_;
};

}  // namespace fastload
