#include "fastload/decode/values/fixed_values.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "fastload/base/copy_marked.h"
#include "fastload/base/gather.h"
#include "fastload/decode/values/plain_bytes.h"

namespace fastload {

namespace {

using parquet::Encoding;

}  // namespace

FixedValues::FixedValues(const parquet::ColumnDescriptor* descr, Converter converter,
                         arrow::MemoryPool* pool)
    : descr_(descr),
      pool_(pool),
      converter_(std::move(converter)),
      views_(*descr),
      arrow_(descr, converter_.of_views()) {}

Status FixedValues::SetDictionary(const parquet::DictionaryPage& page) {
  if (page.encoding() != Encoding::PLAIN &&
      page.encoding() != Encoding::PLAIN_DICTIONARY) {
    return MakeError(ErrorKind::kCorruptFile,
                     "Expected a dictionary page encoded PLAIN, got " +
                         parquet::EncodingToString(page.encoding()));
  }
  const parquet::Type::type physical = descr_->physical_type();
  if (physical == parquet::Type::BOOLEAN) {
    return MakeError(ErrorKind::kCorruptFile,
                     "Expected no dictionary of booleans, got one");
  }
  const int64_t entries = page.num_values();
  const uint8_t* raw = page.data();
  std::vector<parquet::ByteArray> views;
  if (converter_.of_views()) {
    views_.Reset(page.data(), page.size());
    ARROW_RETURN_NOT_OK(views_.CheckLeft(entries));
    views.resize(static_cast<size_t>(entries));
    ARROW_RETURN_NOT_OK(views_.Next(entries, views.data()));
    raw = reinterpret_cast<const uint8_t*>(views.data());
  } else {
    ARROW_RETURN_NOT_OK(CheckValuesLeft(entries, page.size() / converter_.raw_width()));
  }
  dictionary_size_ = entries;
  const int64_t size = entries * converter_.item_size();
  if (converter_.identity() &&
      dynamic_cast<const KeptPage*>(page.buffer().get()) != nullptr) {
    dictionary_ = arrow::SliceBuffer(page.buffer(), 0, size);
    return Status::OK();
  }
  ARROW_ASSIGN_OR_RAISE(dictionary_, arrow::AllocateBuffer(size, pool_));
  Status converted = converter_.Convert(raw, entries, dictionary_->mutable_data());
  dictionary_is_raw_ = KindOf(converted) == ErrorKind::kValue;
  return dictionary_is_raw_ ? KeepRawDictionary(page) : converted;
}

std::shared_ptr<const DecodedDictionary> FixedValues::ShareDictionary() {
  // Raw entries may be views of `dictionary_page_`.
  if (dictionary_is_raw_) return nullptr;
  auto shared = std::make_shared<Dictionary>();
  shared->elements = dictionary_;
  shared->size = dictionary_size_;
  return shared;
}

void FixedValues::SetShared(std::shared_ptr<const DecodedDictionary> dictionary) {
  const auto& shared = static_cast<const Dictionary&>(*dictionary);
  dictionary_ = shared.elements;
  dictionary_size_ = shared.size;
}

Status FixedValues::KeepRawDictionary(const parquet::DictionaryPage& page) {
  const int64_t size = dictionary_size_ * converter_.raw_width();
  ARROW_ASSIGN_OR_RAISE(dictionary_, arrow::AllocateBuffer(size, pool_));
  uint8_t* const raw = dictionary_->mutable_data();
  if (!converter_.of_views()) {
    std::memcpy(raw, page.data(), static_cast<size_t>(size));
    return Status::OK();
  }
  dictionary_page_.assign(page.data(), page.data() + page.size());
  views_.Reset(dictionary_page_.data(), page.size());
  return views_.Next(dictionary_size_, reinterpret_cast<parquet::ByteArray*>(raw));
}

Status FixedValues::SetPage(Encoding::type encoding, const uint8_t* data, int64_t size,
                            int64_t max_values) {
  pos_ = data;
  end_ = data + size;
  bit_ = 0;
  const parquet::Type::type physical = descr_->physical_type();
  switch (encoding) {
    case Encoding::PLAIN:
      source_ = converter_.of_views()                ? Source::kPlainViews
                : physical == parquet::Type::BOOLEAN ? Source::kPlainBits
                                                     : Source::kPlain;
      views_.Reset(data, size);
      return Status::OK();
    case Encoding::PLAIN_DICTIONARY:
    case Encoding::RLE_DICTIONARY:
      return SetDictionaryIndices(data, size, max_values);
    case Encoding::RLE:
      if (physical == parquet::Type::BOOLEAN) return SetHybridBits(data, size);
      break;
    default:
      break;
  }
  source_ = Source::kArrow;
  arrow_.SetPage(encoding, data, size, max_values);
  return Status::OK();
}

Status FixedValues::SetDictionaryIndices(const uint8_t* data, int64_t size,
                                         int64_t max_values) {
  source_ = Source::kDictionary;
  if (dictionary_size_ < 0) {
    return MakeError(ErrorKind::kCorruptFile,
                     "Expected a dictionary page before dictionary indices, got none");
  }
  ARROW_RETURN_NOT_OK(ResetIndices(data, size, &hybrid_));
  // Three quarters, because nulls and empty lists count as values, too.
  first_code_ = hybrid_.position();
  const int64_t packed_bytes = max_values / 8 * first_code_.bit_width;
  packed_ = size >= packed_bytes / 4 * 3;
  return Status::OK();
}

Status FixedValues::SetHybridBits(const uint8_t* data, int64_t size) {
  source_ = Source::kHybridBits;
  constexpr int64_t kPrefix = 4;
  uint32_t length = 0;
  if (size >= kPrefix) std::memcpy(&length, data, kPrefix);
  // A page of nulls may have no bytes at all.
  if (size != 0 && (size < kPrefix || length > size - kPrefix)) {
    return MakeError(ErrorKind::kCorruptFile,
                     "Expected booleans of at most " + std::to_string(size - kPrefix) +
                         " bytes, got " + std::to_string(length));
  }
  hybrid_.Reset(size == 0 ? data : data + kPrefix, length, /*bit_width=*/1);
  return Status::OK();
}

Status FixedValues::Skip(int64_t values) {
  switch (source_) {
    case Source::kPlain: {
      const int64_t width = converter_.raw_width();
      ARROW_RETURN_NOT_OK(CheckValuesLeft(values, (end_ - pos_) / width));
      pos_ += values * width;
      return Status::OK();
    }
    case Source::kPlainBits:
      ARROW_RETURN_NOT_OK(CheckValuesLeft(values, (end_ - pos_) * 8 - bit_));
      bit_ += values;
      return Status::OK();
    case Source::kPlainViews:
      return views_.Skip(values);
    case Source::kHybridBits:
    case Source::kDictionary:
      return hybrid_.Skip(values);
    case Source::kArrow:
      while (values > 0) {
        const int64_t count = std::min(values, kBlockValues);
        ARROW_RETURN_NOT_OK(arrow_.Decode(count, RawBlock()));
        values -= count;
      }
      return Status::OK();
  }
  return Status::OK();
}

Status FixedValues::Decode(int64_t n, uint8_t* out) {
  if (source_ == Source::kPlain) {
    const int64_t width = converter_.raw_width();
    ARROW_RETURN_NOT_OK(CheckValuesLeft(n, (end_ - pos_) / width));
    ARROW_RETURN_NOT_OK(converter_.Convert(pos_, n, out));
    pos_ += n * width;
    return Status::OK();
  }
  if (source_ == Source::kDictionary && !dictionary_is_raw_) return LookUp(n, out);
  for (int64_t done = 0; done < n; done += kBlockValues) {
    const int64_t count = std::min(n - done, kBlockValues);
    uint8_t* const raw = RawBlock();
    ARROW_RETURN_NOT_OK(DecodeRaw(count, raw));
    const Status status =
        converter_.Convert(raw, count, out + done * converter_.item_size());
    if (!status.ok()) {
      const auto value = ValueOf(status);
      return value.has_value() ? AtValue(status, done + *value) : status;
    }
  }
  return Status::OK();
}

uint8_t* FixedValues::RawBlock() {
  raw_block_.resize(static_cast<size_t>(kBlockValues * converter_.raw_width()));
  return raw_block_.data();
}

bool FixedValues::DecodesMarked(int64_t n) const {
  if (source_ != Source::kPlain) return coded();
  // CopyMarked reads the rows of whole words of marks.
  const int64_t rows = (n + kMarksPerWord - 1) / kMarksPerWord * kMarksPerWord;
  return converter_.identity() && rows <= (end_ - pos_) / converter_.raw_width();
}

Status FixedValues::DecodeMarked(int64_t n, const uint64_t* marks, int64_t marked,
                                 uint8_t* out, int64_t stride) {
  const int64_t width = converter_.item_size();
  if (source_ == Source::kPlain) {
    CopyMarked(pos_, width, marks, marked, out, stride);
    pos_ += n * width;
    return Status::OK();
  }
  return hybrid_.bit_width() <= 16
             ? LookUpMarked<uint16_t>(n, marks, marked, out, stride)
             : LookUpMarked<uint32_t>(n, marks, marked, out, stride);
}

template <typename Code>
Status FixedValues::LookUpMarked(int64_t n, const uint64_t* marks, int64_t marked,
                                 uint8_t* out, int64_t stride) {
  indices_.resize(kBlockValues);
  auto* const codes = reinterpret_cast<Code*>(indices_.data());
  auto* const bytes = reinterpret_cast<uint8_t*>(codes);
  while (n > 0) {
    const int64_t count = std::min(n, kBlockValues);
    const int64_t found = count == n ? marked : CountMarks(marks, count);
    ARROW_RETURN_NOT_OK(hybrid_.Decode(count, codes));
    CopyMarked(bytes, sizeof(Code), marks, found, bytes, sizeof(Code));
    const uint32_t largest = MaxOf(codes, found);
    if (found > 0 && largest >= dictionary_size_) {
      return BadIndex(largest, dictionary_size_);
    }
    Gather(dictionary_->data(), converter_.item_size(), codes, found, out, stride);
    out += found * stride;
    marks += kBlockValues / kMarksPerWord;
    marked -= found;
    n -= count;
  }
  return Status::OK();
}

Status FixedValues::DecodeCodes(int64_t n, uint32_t base, int64_t code_bytes,
                                uint8_t* out) {
  indices_.resize(kBlockValues);
  const uint32_t* codes = indices_.data();
  while (n > 0) {
    const int64_t count = std::min(n, kBlockValues);
    ARROW_RETURN_NOT_OK(hybrid_.Decode(count, indices_.data()));
    const uint32_t largest = MaxOf(codes, count);
    if (largest >= dictionary_size_) return BadIndex(largest, dictionary_size_);
    const auto narrow = [&]<typename T>(T* to) {
      for (int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(base + codes[i]);
    };
    switch (code_bytes) {
      case 1:
        narrow(out);
        break;
      case 2:
        narrow(reinterpret_cast<uint16_t*>(out));
        break;
      default:
        narrow(reinterpret_cast<uint32_t*>(out));
    }
    out += count * code_bytes;
    n -= count;
  }
  return Status::OK();
}

Status FixedValues::LookUp(int64_t n, uint8_t* out) {
  const uint8_t* entries = dictionary_->data();
  const auto look_up = [&]<typename T>(T* elements) {
    return hybrid_.Lookup(reinterpret_cast<const T*>(entries), dictionary_size_, n,
                          elements);
  };
  switch (converter_.item_size()) {
    case 1:
      return look_up(out);
    case 2:
      return look_up(reinterpret_cast<uint16_t*>(out));
    case 4:
      return look_up(reinterpret_cast<uint32_t*>(out));
    default:
      return look_up(reinterpret_cast<uint64_t*>(out));
  }
}

Status FixedValues::DecodeRaw(int64_t n, uint8_t* raw) {
  switch (source_) {
    case Source::kPlain:
      break;
    case Source::kPlainBits:
      return DecodePlainBits(n, raw);
    case Source::kPlainViews:
      return views_.Next(n, reinterpret_cast<parquet::ByteArray*>(raw));
    case Source::kHybridBits:
      return hybrid_.DecodeBits(n, raw);
    case Source::kDictionary: {
      indices_.resize(kBlockValues);
      ARROW_RETURN_NOT_OK(hybrid_.Decode(n, indices_.data()));
      const uint32_t largest = MaxOf(indices_.data(), n);
      if (largest >= dictionary_size_) return BadIndex(largest, dictionary_size_);
      const auto width = static_cast<size_t>(converter_.raw_width());
      for (int64_t i = 0; i < n; ++i) {
        std::memcpy(raw + i * width, dictionary_->data() + indices_[i] * width, width);
      }
      return Status::OK();
    }
    case Source::kArrow:
      return arrow_.Decode(n, raw);
  }
  return Status::UnknownError("Expected a source to decode, got a PLAIN page");
}

Status FixedValues::DecodePlainBits(int64_t n, uint8_t* raw) {
  ARROW_RETURN_NOT_OK(CheckValuesLeft(n, (end_ - pos_) * 8 - bit_));
  while (n > 0) {
    const int64_t offset = bit_ % 8;
    const uint8_t* in = pos_ + bit_ / 8;
    int64_t count = n / 8 * 8;
    if (offset == 0 && count > 0) {
      UnpackBits(in, count / 8, raw);
    } else {
      uint8_t values[8];
      UnpackBits(in, 1, values);
      count = std::min(n, 8 - offset);
      std::copy_n(values + offset, count, raw);
    }
    bit_ += count;
    raw += count;
    n -= count;
  }
  return Status::OK();
}

}  // namespace fastload
