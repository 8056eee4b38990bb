// Categories as int64: the hash bucket of a value, or its index in a vocabulary.
#pragma once

#include <cstdint>
#include <memory>

#include "fastload/base/status.h"
#include "fastload/decode/values/cast.h"
#include "fastload/decode/values/vocabulary.h"
#include "fastload/plan/columns.h"
#include "parquet/schema.h"

namespace fastload {

// Of one column of strings, binary or integers. Thread-safe: never changes.
class KeyEncoder {
 public:
  // Whether the spec asks for one.
  static bool IsFor(const ColumnSpec& spec) {
    return spec.hash_buckets != 0 || spec.vocabulary != nullptr;
  }

  // ErrorKind::kUnsupported for a column of anything else.
  static Result<KeyEncoder> Make(const parquet::ColumnDescriptor& descr,
                                 const ColumnSpec& spec);

  // The raw values are parquet::ByteArrays, whatever the physical type; else integers as
  // PLAIN stores them.
  bool of_bytes() const { return load_ == nullptr; }

  // Writes n int64 to `out`.
  void Encode(const uint8_t* raw, int64_t n, uint8_t* out) const;

 private:
  KeyEncoder() = default;

  uint64_t buckets_ = 0;
  uint64_t seed_ = 0;
  std::shared_ptr<const Vocabulary> vocabulary_;  // null: hashed
  int64_t unknown_ = -1;
  CastFn load_ = nullptr;  // integers to int64, bit for bit where they are uint64
  bool uint64_ = false;
};

}  // namespace fastload
