// A walk over the bytes of a footer, which are in Thrift's compact protocol.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace fastload {

// Types of fields and of elements.
struct ThriftType {
  static constexpr uint8_t kStop = 0;
  static constexpr uint8_t kTrue = 1;
  static constexpr uint8_t kFalse = 2;
  static constexpr uint8_t kByte = 3;
  static constexpr uint8_t kInt16 = 4;
  static constexpr uint8_t kInt32 = 5;
  static constexpr uint8_t kInt64 = 6;
  static constexpr uint8_t kDouble = 7;
  static constexpr uint8_t kBinary = 8;
  static constexpr uint8_t kList = 9;
  static constexpr uint8_t kSet = 10;
  static constexpr uint8_t kStruct = 12;
};

// Walks over values without keeping them. After the first byte that does not fit, ok() is
// false, and the walk stands still at the end.
class ThriftWalk {
 public:
  explicit ThriftWalk(std::string_view bytes)
      : begin_(bytes.data()), at_(begin_), end_(begin_ + bytes.size()) {}

  bool ok() const { return ok_; }
  size_t at() const { return static_cast<size_t>(at_ - begin_); }
  std::string_view Since(size_t start) const { return {begin_ + start, at() - start}; }
  void Fail() {
    ok_ = false;
    at_ = end_;
  }

  uint8_t Byte() {
    if (at_ == end_) {
      Fail();
      return 0;
    }
    return static_cast<uint8_t>(*at_++);
  }

  uint64_t Varint() {
    if (end_ - at_ >= kLongest) {  // most are inside, and of one to three bytes
      auto value = static_cast<uint64_t>(static_cast<uint8_t>(*at_++));
      if (value < 0x80) return value;
      value &= 0x7f;
      for (int shift = 7; shift < 64; shift += 7) {
        const auto byte = static_cast<uint8_t>(*at_++);
        value |= static_cast<uint64_t>(byte & 0x7f) << shift;
        if (byte < 0x80) return value;
      }
      Fail();
      return 0;
    }
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const uint8_t byte = Byte();
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    Fail();
    return 0;
  }

  // Returns a number of kInt16, kInt32 or kInt64.
  int64_t Number() {
    const uint64_t zigzag = Varint();
    return static_cast<int64_t>((zigzag >> 1) ^ (0 - (zigzag & 1)));
  }

  // Returns the type of the next field, and sets its number; kStop: there is none.
  uint8_t Field(int32_t* number) {
    const uint8_t byte = Byte();
    const uint8_t type = byte & 0x0f;
    if (type == ThriftType::kStop) return type;
    if (byte >> 4 != 0) {
      *number += byte >> 4;
    } else {
      *number = static_cast<int32_t>(Number());
    }
    return type;
  }

  // Returns the number of elements of a list, and sets their type.
  uint64_t List(uint8_t* type) {
    const uint8_t byte = Byte();
    *type = byte & 0x0f;
    return byte >> 4 == 15 ? Varint() : byte >> 4;
  }

  // Returns the bytes of kBinary.
  std::string_view Bytes() {
    const uint64_t count = Varint();
    const char* const start = at_;
    PassBytes(count);
    return ok_ ? std::string_view(start, static_cast<size_t>(count)) : std::string_view();
  }

  // Passes over the value of a field.
  void Value(uint8_t type) { Pass(type, false, 0); }
  // Passes over a struct, which is an element of a list.
  void Struct() { PassStruct(0); }

 private:
  static constexpr int kLongest = 10;  // bytes of a varint

  void PassStruct(int depth);
  void Pass(uint8_t type, bool element, int depth);
  void PassBytes(uint64_t count) {
    if (count > static_cast<uint64_t>(end_ - at_)) {
      Fail();
    } else {
      at_ += count;
    }
  }
  void PassVarint() {
    if (end_ - at_ >= kLongest) {
      for (int bytes = 0; bytes < kLongest; ++bytes) {
        if (static_cast<uint8_t>(*at_++) < 0x80) return;
      }
    } else {
      for (int bytes = 0; bytes < kLongest; ++bytes) {
        if (Byte() < 0x80) return;
      }
    }
    Fail();
  }

  const char* begin_;
  const char* at_;
  const char* end_;
  bool ok_ = true;
};

// Appends a field's header; `before` is the number of the field before.
void AddThriftField(int32_t number, uint8_t type, int32_t before, std::string* to);
void AddThriftNumber(int64_t number, std::string* to);
// Appends the header of a list of structs.
void AddThriftStructs(uint64_t count, std::string* to);

}  // namespace fastload
