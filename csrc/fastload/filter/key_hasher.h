// The hashes of keys in a Bloom filter.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "fastload/decode/values/stored.h"
#include "fastload/plan/columns.h"
#include "parquet/schema.h"

namespace fastload {

// A conversion of keys to the hashes of the stored values that have these keys. `descr`
// and `spec` are borrowed.
class KeyHasher {
 public:
  // Returns nullopt if several stored values may have one key, or stored values are not
  // known from keys.
  static std::optional<KeyHasher> Make(const parquet::ColumnDescriptor& descr,
                                       const ColumnSpec& spec, int32_t file);

  // Returns the hash of the only stored value that has the key, or nullopt if the key
  // does not tell the stored value: zeros and NaNs, and keys outside the stored type.
  std::optional<uint64_t> Hash(int64_t key) const;

  // Returns true for stored integers of 8 and 16 bits, which are stored as 32 bits: a
  // value outside its type is truncated when it is decoded, so that the hasher needs true
  // bounds.
  bool needs_bounds() const {
    return !words_ && (stored_ == Stored::kInt8 || stored_ == Stored::kUInt8 ||
                       stored_ == Stored::kInt16 || stored_ == Stored::kUInt16);
  }

 private:
  KeyHasher(const parquet::ColumnDescriptor& descr, const ColumnSpec& spec)
      : descr_(descr), spec_(spec) {}

  std::optional<uint64_t> HashInteger(int64_t key) const;
  std::optional<uint64_t> HashDecimal(int64_t unscaled) const;
  template <typename Bits>
  static std::optional<uint64_t> HashFloat(Bits key, Bits infinity);

  const parquet::ColumnDescriptor& descr_;
  const ColumnSpec& spec_;
  bool words_ = false;  // keys are indices into the spec's vocabulary
  Stored stored_{};
};

}  // namespace fastload
