// Values in the encodings that Arrow's decoders read.
#pragma once

#include <cstdint>
#include <memory>

#include "fastload/base/status.h"
#include "parquet/encoding.h"
#include "parquet/schema.h"

namespace fastload {

class ArrowValues {
 public:
  // The most values decoded at once.
  static constexpr int64_t kBlockValues = 1024;

  // With `views`, FIXED_LEN_BYTE_ARRAY values also become parquet::ByteArrays. `descr` is
  // borrowed.
  ArrowValues(const parquet::ColumnDescriptor* descr, bool views)
      : descr_(descr), views_(views) {}

  // Sets the values of a data page: `size` borrowed bytes that hold at most `max_values`
  // values.
  void SetPage(parquet::Encoding::type encoding, const uint8_t* data, int64_t size,
               int64_t max_values);

  // Writes n raw values, at most kBlockValues, in a Converter's input format. The bytes
  // behind views are valid until the next call.
  Status Decode(int64_t n, uint8_t* raw);

 private:
  int DecodeFixedBytes(int64_t n, uint8_t* raw);

  const parquet::ColumnDescriptor* descr_;
  bool views_;
  std::unique_ptr<parquet::Decoder> decoder_;
  parquet::Encoding::type encoding_ = parquet::Encoding::UNKNOWN;
};

}  // namespace fastload
