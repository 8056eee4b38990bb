// The repetition levels or definition levels of one data page.
#pragma once

#include <cstdint>
#include <vector>

#include "fastload/base/status.h"
#include "fastload/decode/pages/hybrid.h"
#include "parquet/column_page.h"
#include "parquet/column_reader.h"
#include "parquet/types.h"

namespace fastload {

// Returns the definition level of the column's values. A column of type null has none:
// its rows are null, whatever its pages hold.
inline int PresentLevel(const parquet::ColumnDescriptor& descr) {
  return descr.max_definition_level() + (descr.logical_type()->is_null() ? 1 : 0);
}

class LevelStream {
 public:
  // The levels decoded at once where they go through scratch memory.
  static constexpr int64_t kBlockLevels = 1024;

  explicit LevelStream(int16_t max_level);

  // Takes the levels at the front of the `size` borrowed bytes of a V1 page. Returns how
  // many of the bytes are levels.
  Result<int64_t> SetV1(parquet::Encoding::type encoding, int64_t levels,
                        const uint8_t* data, int64_t size);

  // Takes the levels of a V2 page: all of the bytes, which are borrowed.
  Status SetV2(const uint8_t* data, int64_t size);

  // The borrowed bytes have moved from `from` to `to`. Only if movable().
  void Move(const uint8_t* from, const uint8_t* to) { runs_.Move(from, to); }
  bool movable() const { return !legacy_; }

  // Returns the next run, or a run of length 0 for levels that are not stored as runs.
  Result<HybridDecoder::Run> Peek();

  // Skips n levels of the run that Peek returned.
  Status Skip(int64_t n) { return runs_.Skip(n); }

  // Decodes n levels whose maximum is at least 1. A level above the maximum is an
  // ErrorKind::kCorruptFile.
  Status Decode(int64_t n, uint8_t* levels);

  // Returns true if FindZeros and SkipEqualRows may be called: the maximum is 1, and
  // levels are stored as runs.
  bool is_bits() const { return max_level_ == 1 && !legacy_; }

  // Both functions consume levels; see HybridDecoder.
  Result<int64_t> FindZeros(int64_t n, uint16_t* at) { return runs_.FindZeros(n, at); }
  Result<int64_t> SkipEqualRows(int64_t n, int64_t max_rows) {
    return runs_.SkipEqualRows(n, max_rows);
  }

 private:
  Status CheckMaximum() const;
  Status DecodeLegacy(int64_t n, uint8_t* levels);

  int16_t max_level_;
  int bit_width_;
  bool legacy_ = false;  // BIT_PACKED, deprecated since format 1.0
  HybridDecoder runs_;
  parquet::LevelDecoder legacy_levels_;
  std::vector<uint32_t> block_;
  std::vector<int16_t> legacy_block_;
};

// Takes the levels of a page whose bytes are borrowed. `repetition` is null for a column
// without lists. Returns how many bytes of the page precede the values.
Result<int64_t> SetPageLevels(const parquet::DataPage& page, LevelStream* repetition,
                              LevelStream* definition);

}  // namespace fastload
