// The fixed-width values of the pages of one column chunk, converted to elements.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "fastload/decode/pages/hybrid.h"
#include "fastload/decode/pages/page_cursor.h"
#include "fastload/decode/values/arrow_values.h"
#include "fastload/decode/values/convert.h"
#include "fastload/decode/values/plain_bytes.h"

namespace fastload {

class FixedValues : public PageValues {
 public:
  // `descr` and `pool` are borrowed.
  FixedValues(const parquet::ColumnDescriptor* descr, Converter converter,
              arrow::MemoryPool* pool);

  Status SetDictionary(const parquet::DictionaryPage& page) override;
  std::shared_ptr<const DecodedDictionary> ShareDictionary() override;
  void SetShared(std::shared_ptr<const DecodedDictionary> dictionary) override;
  void KeepPage(std::shared_ptr<arrow::Buffer> page, int64_t number) override {
    kept_page_ = std::move(page);
    page_number_ = number;
  }
  Status SetPage(parquet::Encoding::type encoding, const uint8_t* data, int64_t size,
                 int64_t max_values) override;
  Status Skip(int64_t values) override;
  std::optional<std::span<const uint8_t>> Left() const override {
    if (source_ != Source::kPlain) return std::nullopt;
    return std::span(pos_, end_);
  }
  void MoveTo(const uint8_t* data) override {
    end_ = data + (end_ - pos_);
    pos_ = data;
  }

  // Writes n elements to `out` without gaps. A value that does not fit is an
  // ErrorKind::kValue, with the number of the first such value (AtValue).
  Status Decode(int64_t n, uint8_t* out);

  // Returns true if DecodeMarked can decode n values.
  bool DecodesMarked(int64_t n) const;
  // Decodes n values, and writes the elements of the `marked` marked values (CopyMarked)
  // to out, out + stride, ...
  Status DecodeMarked(int64_t n, const uint64_t* marks, int64_t marked, uint8_t* out,
                      int64_t stride);

  // Returns true if the page's values are codes into dictionary().
  bool coded() const { return source_ == Source::kDictionary && !dictionary_is_raw_; }
  // Returns the dictionary's elements, which have no gaps.
  std::span<const uint8_t> dictionary() const {
    return {dictionary_->data(), static_cast<size_t>(dictionary_->size())};
  }
  const std::shared_ptr<arrow::Buffer>& shared_dictionary() const { return dictionary_; }
  int64_t page_number() const { return page_number_; }
  // Returns the memory of a page that is kept, or null.
  const std::shared_ptr<arrow::Buffer>& kept_page() const { return kept_page_; }
  // Returns true if most codes of a coded page are bit-packed. Short runs of equal codes
  // take fewer bytes, and more time for each code.
  bool packed() const { return packed_; }
  // Returns true if no code of a coded page has been read.
  bool at_first_code() const { return position() == first_code_; }
  // Returns the place of the next code of a coded page.
  HybridDecoder::Position position() const { return hybrid_.position(); }
  // Writes table[code] for n values of a coded page. The table is as long as
  // dictionary().
  Status LookUpIn(const uint16_t* table, int64_t n, uint16_t* out) {
    return hybrid_.Lookup(table, dictionary_size_, n, out);
  }
  // Writes base + code for n values of a coded page, with `code_bytes` (1, 2 or 4) bytes
  // each.
  Status DecodeCodes(int64_t n, uint32_t base, int64_t code_bytes, uint8_t* out);

  int item_size() const { return converter_.item_size(); }

 private:
  enum class Source : uint8_t {
    kPlain,       // raw values
    kPlainBits,   // BOOLEAN
    kPlainViews,  // raw values that are views of the page
    kHybridBits,  // BOOLEAN, encoded RLE
    kDictionary,
    kArrow,
  };

  // The values decoded at once where they go through scratch memory.
  static constexpr int64_t kBlockValues = ArrowValues::kBlockValues;

  // The elements of a dictionary.
  struct Dictionary final : DecodedDictionary {
    int64_t bytes() const override { return elements->size(); }

    std::shared_ptr<arrow::Buffer> elements;
    int64_t size = 0;  // number of entries
  };

  Status SetDictionaryIndices(const uint8_t* data, int64_t size, int64_t max_values);
  Status SetHybridBits(const uint8_t* data, int64_t size);
  Status LookUp(int64_t n, uint8_t* out);
  // Does the same as DecodeMarked for a coded page whose codes fit Code.
  template <typename Code>
  Status LookUpMarked(int64_t n, const uint64_t* marks, int64_t marked, uint8_t* out,
                      int64_t stride);
  Status KeepRawDictionary(const parquet::DictionaryPage& page);
  // Returns memory for kBlockValues raw values, which few readers need.
  uint8_t* RawBlock();
  // Decodes n raw values, at most kBlockValues, of a source other than kPlain.
  Status DecodeRaw(int64_t n, uint8_t* raw);
  Status DecodePlainBits(int64_t n, uint8_t* raw);

  const parquet::ColumnDescriptor* descr_;
  arrow::MemoryPool* pool_;
  Converter converter_;
  Source source_ = Source::kPlain;

  const uint8_t* pos_ = nullptr;  // kPlain, kPlainBits
  const uint8_t* end_ = nullptr;
  int64_t bit_ = 0;  // kPlainBits: bits already consumed since pos_
  PlainBytes views_;
  HybridDecoder hybrid_;
  HybridDecoder::Position first_code_;  // kDictionary
  bool packed_ = false;                 // kDictionary
  std::shared_ptr<arrow::Buffer> kept_page_;
  int64_t page_number_ = -1;
  ArrowValues arrow_;

  // The dictionary's elements. If an entry does not fit the dtype, raw values instead, so
  // that only rows that use the entry fail.
  std::shared_ptr<arrow::Buffer> dictionary_;
  std::vector<uint8_t> dictionary_page_;  // the bytes behind raw entries that are views
  int64_t dictionary_size_ = -1;  // number of entries; -1 before the dictionary page
  bool dictionary_is_raw_ = false;

  std::vector<uint8_t> raw_block_;  // see RawBlock()
  std::vector<uint32_t> indices_;
};

}  // namespace fastload
