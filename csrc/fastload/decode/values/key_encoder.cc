#include "fastload/decode/values/key_encoder.h"

#include <cstring>
#include <string>

#include "fastload/base/hash.h"
#include "fastload/decode/values/stored.h"
#include "parquet/types.h"

namespace fastload {

namespace {

enum class Keys : uint8_t { kNone, kBytes, kIntegers, kDecimals };

Keys KeysOf(const parquet::ColumnDescriptor& descr) {
  const parquet::LogicalType& logical = *descr.logical_type();
  if (logical.is_decimal()) {
    const auto& decimal = static_cast<const parquet::DecimalLogicalType&>(logical);
    return decimal.scale() == 0 ? Keys::kDecimals : Keys::kNone;
  }
  switch (descr.physical_type()) {
    case parquet::Type::BYTE_ARRAY:
    case parquet::Type::FIXED_LEN_BYTE_ARRAY:
      return logical.is_float16() ? Keys::kNone : Keys::kBytes;
    case parquet::Type::INT32:
    case parquet::Type::INT64:
      return logical.is_none() || logical.is_int() || logical.is_null() ? Keys::kIntegers
                                                                        : Keys::kNone;
    default:
      return logical.is_null() ? Keys::kIntegers : Keys::kNone;
  }
}

}  // namespace

Result<KeyEncoder> KeyEncoder::Make(const parquet::ColumnDescriptor& descr,
                                    const ColumnSpec& spec) {
  const Keys keys = KeysOf(descr);
  const Vocabulary* const vocabulary = spec.vocabulary.get();
  if (keys == Keys::kNone) {
    return MakeError(
        ErrorKind::kUnsupported,
        std::string("Expected strings, binary, integers or decimals of scale 0 to ") +
            (vocabulary != nullptr ? "look up" : "hash") + ", got " + Describe(descr));
  }
  // An empty vocabulary has no values, so it fits every type. A column of type null has
  // none either.
  if (vocabulary != nullptr && vocabulary->size() > 0 &&
      !descr.logical_type()->is_null() &&
      vocabulary->of_bytes() != (keys == Keys::kBytes)) {
    return MakeError(ErrorKind::kUnsupported,
                     std::string("Expected a vocabulary of ") +
                         (keys == Keys::kBytes ? "strings" : "integers") + " for " +
                         Describe(descr) + ", got one of " +
                         (vocabulary->of_bytes() ? "strings" : "integers"));
  }
  KeyEncoder encoder;
  encoder.buckets_ = static_cast<uint64_t>(spec.hash_buckets);
  encoder.seed_ = spec.hash_seed;
  encoder.vocabulary_ = spec.vocabulary;
  encoder.unknown_ = spec.unknown;
  if (keys == Keys::kDecimals) {
    encoder.load_ = FindCast(Stored::kInt64, DType::kInt64);
  } else if (keys == Keys::kIntegers) {
    ARROW_ASSIGN_OR_RAISE(const Stored stored, StoredOf(descr));
    encoder.uint64_ = stored == Stored::kUInt64;
    encoder.load_ = FindCast(encoder.uint64_ ? Stored::kInt64 : stored, DType::kInt64);
  }
  return encoder;
}

void KeyEncoder::Encode(const uint8_t* raw, int64_t n, uint8_t* out) const {
  const auto store = [out](int64_t i, int64_t code) {
    std::memcpy(out + i * 8, &code, sizeof(code));
  };
  const auto bucket = [this](uint64_t hash) {
    return static_cast<int64_t>(hash % buckets_);
  };
  if (of_bytes()) {
    for (int64_t i = 0; i < n; ++i) {
      parquet::ByteArray key;
      std::memcpy(&key, raw + i * static_cast<int64_t>(sizeof(key)), sizeof(key));
      store(i, vocabulary_ == nullptr ? bucket(Hash64(key.ptr, key.len, seed_))
                                      : vocabulary_->Find(key.ptr, key.len, unknown_));
    }
    return;
  }
  Offender none;
  load_(raw, n, out, &none);  // every integer fits
  for (int64_t i = 0; i < n; ++i) {
    int64_t key;
    std::memcpy(&key, out + i * 8, sizeof(key));
    store(i, vocabulary_ == nullptr
                 ? bucket(Hash64(key, seed_))
                 : vocabulary_->Find({static_cast<uint64_t>(key), uint64_ && key < 0},
                                     unknown_));
  }
}

}  // namespace fastload
