#include "fastload/source/footer_parts.h"

#include <algorithm>
#include <utility>

namespace fastload {
namespace {

// Types of Thrift's compact protocol. Each stands in the low four bits of a byte.
enum Type : uint8_t {
  kStop = 0,
  kTrue = 1,
  kFalse = 2,
  kByte = 3,
  kInt16 = 4,
  kInt32 = 5,
  kInt64 = 6,
  kDouble = 7,
  kBinary = 8,
  kList = 9,
  kSet = 10,
  kMap = 11,
  kStruct = 12,
};

// Fields of FileMetaData in parquet.thrift.
constexpr int32_t kRowGroups = 4;
constexpr int32_t kKeyValueMetadata = 5;
// Footers nest a few levels deep.
constexpr int kMostDepth = 32;
// The header of a list of one struct.
constexpr char kOneStruct = static_cast<char>(1 << 4 | kStruct);

// Walks over values without keeping them. After the first byte that does not fit, ok() is
// false, and the walk stands still at the end.
class Walk {
 public:
  explicit Walk(std::string_view bytes) : bytes_(bytes) {}

  bool ok() const { return ok_; }
  size_t at() const { return at_; }
  std::string_view Since(size_t start) const { return bytes_.substr(start, at_ - start); }

  uint8_t Byte() {
    if (at_ >= bytes_.size()) return Fail();
    return static_cast<uint8_t>(bytes_[at_++]);
  }

  uint64_t Varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const uint8_t byte = Byte();
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    return Fail();
  }

  // Returns the type of the next field, and sets its number; kStop: there is none.
  uint8_t Field(int32_t* number) {
    const uint8_t byte = Byte();
    const uint8_t type = byte & 0x0f;
    if (type == kStop) return kStop;
    if (byte >> 4 != 0) {
      *number += byte >> 4;
    } else {
      const auto zigzag = static_cast<uint32_t>(Varint());
      *number = static_cast<int32_t>((zigzag >> 1) ^ (0 - (zigzag & 1)));
    }
    return type;
  }

  // Returns the number of elements of a list, and sets their type.
  uint64_t List(uint8_t* type) {
    const uint8_t byte = Byte();
    *type = byte & 0x0f;
    return byte >> 4 == 15 ? Varint() : byte >> 4;
  }

  // Passes over the value of a field or, with `element`, of a list.
  void Value(uint8_t type, bool element, int depth = 0) {
    if (depth > kMostDepth) {
      Fail();
      return;
    }
    switch (type) {
      case kTrue:
      case kFalse:
        if (element) Byte();  // the value of a field is its type
        return;
      case kByte:
        Byte();
        return;
      case kInt16:
      case kInt32:
      case kInt64:
        Varint();
        return;
      case kDouble:
        Bytes(sizeof(double));
        return;
      case kBinary:
        Bytes(Varint());
        return;
      case kList:
      case kSet: {
        uint8_t of = 0;
        for (uint64_t left = List(&of); left > 0 && ok_; --left) {
          Value(of, true, depth + 1);
        }
        return;
      }
      case kStruct: {
        int32_t number = 0;
        while (const uint8_t of = Field(&number)) Value(of, false, depth + 1);
        return;
      }
      default:  // maps, which footers have none of, and damage
        Fail();
    }
  }

 private:
  uint8_t Fail() {
    ok_ = false;
    at_ = bytes_.size();
    return 0;
  }

  void Bytes(uint64_t count) {
    if (count > bytes_.size() - at_) {
      Fail();
    } else {
      at_ += count;
    }
  }

  const std::string_view bytes_;
  size_t at_ = 0;
  bool ok_ = true;
};

void AddField(int32_t number, uint8_t type, int32_t before, std::string* to) {
  const int32_t step = number - before;
  if (step > 0 && step < 16) {
    to->push_back(static_cast<char>(step << 4 | type));
    return;
  }
  to->push_back(static_cast<char>(type));
  auto zigzag = static_cast<uint32_t>(number) << 1 ^ static_cast<uint32_t>(number >> 31);
  for (; zigzag >= 0x80; zigzag >>= 7) to->push_back(static_cast<char>(zigzag | 0x80));
  to->push_back(static_cast<char>(zigzag));
}

}  // namespace

std::shared_ptr<const FooterParts> FooterParts::Of(std::string_view thrift) {
  std::shared_ptr<FooterParts> parts(new FooterParts());
  Walk walk(thrift);
  std::string* to = &parts->before_;
  int32_t number = 0;
  int32_t written = 0;  // the number of the last field that was written
  while (const uint8_t type = walk.Field(&number)) {
    if (number == kRowGroups && type == kList) {
      if (!parts->starts_.empty()) return nullptr;  // row groups twice
      uint8_t of = 0;
      const uint64_t count = walk.List(&of);
      if (of != kStruct || count > thrift.size()) return nullptr;
      const size_t first = walk.at();
      parts->starts_.reserve(static_cast<size_t>(count) + 1);
      for (uint64_t g = 0; g < count; ++g) {
        parts->starts_.push_back(static_cast<uint32_t>(walk.at() - first));
        walk.Value(kStruct, true);
      }
      parts->starts_.push_back(static_cast<uint32_t>(walk.at() - first));
      parts->row_groups_ = walk.Since(first);
      AddField(number, type, written, to);
      to = &parts->after_;
      written = number;
      continue;
    }
    const size_t start = walk.at();
    walk.Value(type, false);
    if (number == kKeyValueMetadata) continue;
    AddField(number, type, written, to);
    to->append(walk.Since(start));
    written = number;
  }
  if (!walk.ok() || parts->starts_.empty()) return nullptr;
  parts->after_.push_back(kStop);
  return parts;
}

std::string FooterParts::Only(size_t row_group) const {
  const size_t start = starts_[row_group];
  const size_t size = starts_[row_group + 1] - start;
  std::string only;
  only.reserve(before_.size() + 1 + size + after_.size());
  only.append(before_).push_back(kOneStruct);
  only.append(row_groups_, start, size).append(after_);
  return only;
}

int64_t FooterParts::bytes() const {
  return static_cast<int64_t>(sizeof(*this) + before_.size() + row_groups_.size() +
                              starts_.size() * sizeof(uint32_t) + after_.size());
}

}  // namespace fastload
