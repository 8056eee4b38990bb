#include "fastload/decode/values/arrow_values.h"

#include <array>
#include <cstring>
#include <string>

#include "fastload/decode/values/plain_bytes.h"

namespace fastload {

namespace {

template <typename Type>
int DecodeTyped(parquet::Decoder* decoder, int64_t n, uint8_t* raw) {
  auto* const typed = dynamic_cast<parquet::TypedDecoder<Type>*>(decoder);
  return typed->Decode(reinterpret_cast<typename Type::c_type*>(raw),
                       static_cast<int>(n));
}

}  // namespace

void ArrowValues::SetPage(parquet::Encoding::type encoding, const uint8_t* data,
                          int64_t size, int64_t max_values) {
  if (decoder_ == nullptr || encoding_ != encoding) {
    decoder_ = parquet::MakeDecoder(descr_->physical_type(), encoding, descr_);
    encoding_ = encoding;
  }
  decoder_->SetData(static_cast<int>(max_values), data, static_cast<int>(size));
}

Status ArrowValues::Decode(int64_t n, uint8_t* raw) {
  int got = 0;
  switch (descr_->physical_type()) {
    case parquet::Type::INT32:
      got = DecodeTyped<parquet::Int32Type>(decoder_.get(), n, raw);
      break;
    case parquet::Type::INT64:
      got = DecodeTyped<parquet::Int64Type>(decoder_.get(), n, raw);
      break;
    case parquet::Type::FLOAT:
      got = DecodeTyped<parquet::FloatType>(decoder_.get(), n, raw);
      break;
    case parquet::Type::DOUBLE:
      got = DecodeTyped<parquet::DoubleType>(decoder_.get(), n, raw);
      break;
    case parquet::Type::BYTE_ARRAY:
      got = DecodeTyped<parquet::ByteArrayType>(decoder_.get(), n, raw);
      break;
    case parquet::Type::FIXED_LEN_BYTE_ARRAY:
      got = DecodeFixedBytes(n, raw);
      break;
    default:
      return MakeError(ErrorKind::kCorruptFile,
                       "Expected an encoding of " +
                           parquet::TypeToString(descr_->physical_type()) + ", got " +
                           parquet::EncodingToString(encoding_));
  }
  return CheckValuesLeft(n, got);
}

int ArrowValues::DecodeFixedBytes(int64_t n, uint8_t* raw) {
  std::array<parquet::FixedLenByteArray, kBlockValues> values;
  const int got = DecodeTyped<parquet::FLBAType>(
      decoder_.get(), n, reinterpret_cast<uint8_t*>(values.data()));
  const auto length = static_cast<uint32_t>(descr_->type_length());
  for (int i = 0; i < got; ++i) {
    if (views_) {
      const parquet::ByteArray view(length, values[i].ptr);
      std::memcpy(raw + i * sizeof(view), &view, sizeof(view));
    } else {
      std::memcpy(raw + i * size_t{length}, values[i].ptr, length);
    }
  }
  return got;
}

}  // namespace fastload
