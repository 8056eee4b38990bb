#include "fastload/source/footer_thrift.h"

namespace fastload {
namespace {

// Footers nest a few levels deep.
constexpr int kMostDepth = 32;

void AddVarint(uint64_t value, std::string* to) {
  for (; value >= 0x80; value >>= 7) to->push_back(static_cast<char>(value | 0x80));
  to->push_back(static_cast<char>(value));
}

}  // namespace

// Column chunks are structs within structs, of numbers and short texts: most of a footer.
void ThriftWalk::PassStruct(int depth) {
  for (;;) {
    const uint8_t byte = Byte();
    const uint8_t type = byte & 0x0f;
    if (type == ThriftType::kStop) return;
    if (byte >> 4 == 0) PassVarint();
    switch (type) {
      case ThriftType::kInt32:
      case ThriftType::kInt64:
        PassVarint();
        break;
      case ThriftType::kBinary:
        PassBytes(Varint());
        break;
      default:
        Pass(type, false, depth + 1);
    }
  }
}

void ThriftWalk::Pass(uint8_t type, bool element, int depth) {
  if (depth > kMostDepth) {
    Fail();
    return;
  }
  switch (type) {
    case ThriftType::kTrue:
    case ThriftType::kFalse:
      if (element) Byte();  // the value of a field is its type
      return;
    case ThriftType::kByte:
      Byte();
      return;
    case ThriftType::kInt16:
    case ThriftType::kInt32:
    case ThriftType::kInt64:
      PassVarint();
      return;
    case ThriftType::kDouble:
      PassBytes(sizeof(double));
      return;
    case ThriftType::kBinary:
      PassBytes(Varint());
      return;
    case ThriftType::kList:
    case ThriftType::kSet: {
      uint8_t of = 0;
      uint64_t left = List(&of);
      if (of == ThriftType::kInt32) {
        for (; left > 0 && ok_; --left) PassVarint();
      } else if (of == ThriftType::kBinary) {
        for (; left > 0 && ok_; --left) PassBytes(Varint());
      }
      for (; left > 0 && ok_; --left) Pass(of, true, depth + 1);
      return;
    }
    case ThriftType::kStruct:
      PassStruct(depth);
      return;
    default:  // maps, which footers have none of, and damage
      Fail();
  }
}

void AddThriftField(int32_t number, uint8_t type, int32_t before, std::string* to) {
  const int32_t step = number - before;
  if (step > 0 && step < 16) {
    to->push_back(static_cast<char>(step << 4 | type));
    return;
  }
  to->push_back(static_cast<char>(type));
  AddThriftNumber(number, to);
}

void AddThriftNumber(int64_t number, std::string* to) {
  AddVarint(static_cast<uint64_t>(number) << 1 ^ static_cast<uint64_t>(number >> 63), to);
}

void AddThriftStructs(uint64_t count, std::string* to) {
  if (count < 15) {
    to->push_back(static_cast<char>(count << 4 | ThriftType::kStruct));
    return;
  }
  to->push_back(static_cast<char>(0xf0 | ThriftType::kStruct));
  AddVarint(count, to);
}

}  // namespace fastload
