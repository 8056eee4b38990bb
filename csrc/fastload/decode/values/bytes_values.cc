#include "fastload/decode/values/bytes_values.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "fastload/base/short_copy.h"

namespace fastload {

namespace {

using parquet::Encoding;

Result<std::shared_ptr<arrow::Buffer>> CopyOf(const uint8_t* data, int64_t size) {
  ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> copy, arrow::AllocateBuffer(size));
  if (size > 0) {
    std::memcpy(copy->mutable_data(), data, static_cast<size_t>(size));
  }
  return copy;
}

}  // namespace

Status CheckBytes(const parquet::ColumnDescriptor& descr) {
  const parquet::Type::type physical = descr.physical_type();
  if (physical == parquet::Type::BYTE_ARRAY ||
      physical == parquet::Type::FIXED_LEN_BYTE_ARRAY ||
      descr.logical_type()->is_null()) {
    return Status::OK();
  }
  return MakeError(ErrorKind::kUnsupported,
                   "Expected a column of bytes, got " + parquet::TypeToString(physical));
}

BytesValues::BytesValues(const parquet::ColumnDescriptor* descr)
    : plain_(*descr), arrow_(descr, /*views=*/true) {}

Status BytesValues::SetDictionary(const parquet::DictionaryPage& page) {
  if (page.encoding() != Encoding::PLAIN &&
      page.encoding() != Encoding::PLAIN_DICTIONARY) {
    return MakeError(ErrorKind::kCorruptFile,
                     "Expected a dictionary page encoded PLAIN, got " +
                         parquet::EncodingToString(page.encoding()));
  }
  const int64_t entries = page.num_values();
  plain_.Reset(page.data(), page.size());
  ARROW_RETURN_NOT_OK(plain_.CheckLeft(entries));
  auto dictionary = std::make_shared<Dictionary>();
  ARROW_ASSIGN_OR_RAISE(dictionary->page, CopyOf(page.data(), page.size()));
  dictionary->views.resize(static_cast<size_t>(entries));
  plain_.Reset(dictionary->page->data(), page.size());
  ARROW_RETURN_NOT_OK(DecodePlain(entries, dictionary->views.data()));
  dictionary_ = std::move(dictionary);
  return Status::OK();
}

void BytesValues::SetShared(std::shared_ptr<const DecodedDictionary> dictionary) {
  dictionary_ = std::static_pointer_cast<const Dictionary>(std::move(dictionary));
}

Status BytesValues::SetPage(Encoding::type encoding, const uint8_t* data, int64_t size,
                            int64_t max_values) {
  switch (encoding) {
    case Encoding::PLAIN:
      source_ = Source::kPlain;
      plain_.Reset(data, size);
      return Status::OK();
    case Encoding::PLAIN_DICTIONARY:
    case Encoding::RLE_DICTIONARY:
      source_ = Source::kDictionary;
      if (dictionary_ == nullptr) {
        return MakeError(ErrorKind::kCorruptFile,
                         "Expected a dictionary page before dictionary indices, got "
                         "none");
      }
      return ResetIndices(data, size, &hybrid_);
    default:
      source_ = Source::kArrow;
      arrow_.SetPage(encoding, data, size, max_values);
      return Status::OK();
  }
}

Status BytesValues::Skip(int64_t values) {
  switch (source_) {
    case Source::kPlain:
      return plain_.Skip(values);
    case Source::kDictionary:
      return hybrid_.Skip(values);
    case Source::kArrow:
      scratch_.resize(kBlockValues);
      while (values > 0) {
        const int64_t count = std::min(values, kBlockValues);
        ARROW_RETURN_NOT_OK(ArrowBlock(count, scratch_.data()));
        values -= count;
      }
      return Status::OK();
  }
  return Status::OK();
}

Status BytesValues::Decode(int64_t n, ByteView* views, ByteArena* arena) {
  const uint8_t* const begin = plain_.position();
  switch (source_) {
    case Source::kPlain:
      ARROW_RETURN_NOT_OK(DecodePlain(n, views));
      return Own(begin, plain_.position(), n, views, arena);
    case Source::kDictionary:
      arena->Keep(dictionary_->page);
      return hybrid_.Lookup(dictionary_->views.data(),
                            static_cast<int64_t>(dictionary_->views.size()), n, views);
    case Source::kArrow:
      return DecodeWithArrow(n, views, arena);
  }
  return Status::OK();
}

Status BytesValues::Own(const uint8_t* begin, const uint8_t* end, int64_t n,
                        ByteView* views, ByteArena* arena) {
  ARROW_ASSIGN_OR_RAISE(uint8_t* const copy, arena->Allocate(end - begin));
  if (end > begin) std::memcpy(copy, begin, static_cast<size_t>(end - begin));
  for (int64_t i = 0; i < n; ++i) views[i].data = copy + (views[i].data - begin);
  return Status::OK();
}

Status BytesValues::DecodePlain(int64_t n, ByteView* views) {
  return plain_.Walk(n, [views](int64_t i, const uint8_t* data, uint32_t length) {
    views[i] = ByteView{data, length};
  });
}

Status BytesValues::DecodeWithArrow(int64_t n, ByteView* views, ByteArena* arena) {
  // The decoders reuse their memory, so each block is copied to the arena.
  while (n > 0) {
    const int64_t count = std::min(n, kBlockValues);
    ARROW_RETURN_NOT_OK(ArrowBlock(count, views));
    int64_t size = 0;
    for (int64_t i = 0; i < count; ++i) size += views[i].size;
    ARROW_ASSIGN_OR_RAISE(uint8_t* to, arena->Allocate(size));
    for (int64_t i = 0; i < count; ++i) {
      ShortCopy(to, views[i].data, views[i].size);
      views[i].data = to;
      to += views[i].size;
    }
    views += count;
    n -= count;
  }
  return Status::OK();
}

Status BytesValues::ArrowBlock(int64_t n, ByteView* views) {
  std::array<parquet::ByteArray, kBlockValues> block;
  ARROW_RETURN_NOT_OK(arrow_.Decode(n, reinterpret_cast<uint8_t*>(block.data())));
  for (int64_t i = 0; i < n; ++i) views[i] = ByteView{block[i].ptr, block[i].len};
  return Status::OK();
}

}  // namespace fastload
