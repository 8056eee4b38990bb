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

// An encoder of one column of strings, binary, integers or decimals of scale 0.
// Immutable, so thread-safe.
class KeyEncoder {
 public:
  // Returns true if the spec asks for categories.
  static bool IsFor(const ColumnSpec& spec) {
    return spec.hash_buckets != 0 || spec.vocabulary != nullptr;
  }

  // Returns ErrorKind::kUnsupported for a column of any other type.
  static Result<KeyEncoder> Make(const parquet::ColumnDescriptor& descr,
                                 const ColumnSpec& spec);

  // Returns true if raw values are parquet::ByteArrays, whatever the physical type.
  // Otherwise raw values are integers as PLAIN stores integers, or int64 for decimals.
  bool of_bytes() const { return load_ == nullptr; }

  // Writes n int64 categories to `out`.
  void Encode(const uint8_t* raw, int64_t n, uint8_t* out) const;

 private:
  KeyEncoder() = default;

  uint64_t buckets_ = 0;
  uint64_t seed_ = 0;
  std::shared_ptr<const Vocabulary> vocabulary_;  // null: values are hashed
  int64_t unknown_ = -1;
  CastFn load_ = nullptr;  // integers to int64; keeps the bits of a uint64
  bool uint64_ = false;
};

}  // namespace fastload
