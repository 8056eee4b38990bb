#include "fastload/source/footer_chunk.h"

#include <algorithm>

#include "fastload/source/footer_thrift.h"

namespace fastload {
namespace {

// Numbers of fields in parquet.thrift.
namespace file {
constexpr int32_t kSchema = 2;
constexpr int32_t kRows = 3;
constexpr int32_t kRowGroups = 4;
constexpr int32_t kKeyValueMetadata = 5;
constexpr int32_t kWriter = 6;
constexpr int32_t kColumnOrders = 7;
}  // namespace file
namespace row_group {
constexpr int32_t kColumns = 1;
constexpr int32_t kBytes = 2;
constexpr int32_t kRows = 3;
}  // namespace row_group
namespace chunk {
constexpr int32_t kFileOffset = 2;
constexpr int32_t kMetadata = 3;
constexpr int32_t kOffsetIndexOffset = 4;
constexpr int32_t kOffsetIndexBytes = 5;
constexpr int32_t kColumnIndexOffset = 6;
constexpr int32_t kColumnIndexBytes = 7;
}  // namespace chunk
namespace metadata {
constexpr int32_t kType = 1;
constexpr int32_t kEncodings = 2;
constexpr int32_t kPath = 3;
constexpr int32_t kCodec = 4;
constexpr int32_t kValues = 5;
constexpr int32_t kUncompressedBytes = 6;
constexpr int32_t kCompressedBytes = 7;
constexpr int32_t kDataPage = 9;
constexpr int32_t kDictionaryPage = 11;
constexpr int32_t kStatistics = 12;
constexpr int32_t kBloomOffset = 14;
constexpr int32_t kBloomBytes = 15;
constexpr int32_t kSizes = 16;
}  // namespace metadata
namespace statistics {
constexpr int32_t kNulls = 3;
}  // namespace statistics
namespace sizes {
constexpr int32_t kValueBytes = 1;
}  // namespace sizes
namespace element {
constexpr int32_t kName = 4;
constexpr int32_t kChildren = 5;
}  // namespace element

// The codecs in the format's order.
constexpr parquet::Compression::type kCodecs[] = {
    parquet::Compression::UNCOMPRESSED, parquet::Compression::SNAPPY,
    parquet::Compression::GZIP,         parquet::Compression::LZO,
    parquet::Compression::BROTLI,       parquet::Compression::LZ4_HADOOP,
    parquet::Compression::ZSTD,         parquet::Compression::LZ4,
};

// Fields that must be there, as bits of their numbers.
constexpr uint32_t Bits(std::initializer_list<int32_t> numbers) {
  uint32_t bits = 0;
  for (const int32_t number : numbers) bits |= 1U << number;
  return bits;
}

// The fields of a struct. Ends at the first field that comes twice.
class Fields {
 public:
  explicit Fields(ThriftWalk* walk) : walk_(*walk) {}

  // Moves to the next field; false: there is none.
  bool Next() {
    type = walk_.Field(&number);
    if (type == ThriftType::kStop) return false;
    if (number < 0 || number > 31) return true;
    if ((seen_ & 1U << number) != 0) walk_.Fail();
    seen_ |= 1U << number;
    return walk_.ok();
  }

  bool Has(uint32_t bits) const { return (seen_ & bits) == bits; }

  // Reads a number, which the field has to be.
  int64_t Number(uint8_t of) {
    if (type != of) walk_.Fail();
    return walk_.Number();
  }
  bool Is(uint8_t of) {
    if (type != of) walk_.Fail();
    return walk_.ok();
  }

  int32_t number = 0;
  uint8_t type = 0;

 private:
  ThriftWalk& walk_;
  uint32_t seen_ = 0;
};

// Reads the list that the field has to be, of structs. Returns their number.
uint64_t Structs(ThriftWalk* walk, Fields* field) {
  uint8_t of = 0;
  if (!field->Is(ThriftType::kList)) return 0;
  const uint64_t count = walk->List(&of);
  if (count > 0 && of != ThriftType::kStruct) walk->Fail();
  return walk->ok() ? count : 0;
}

int64_t ReadOne(ThriftWalk* walk, int32_t number) {
  int64_t found = -1;
  Fields field(walk);
  while (field.Next()) {
    if (field.number == number) {
      found = field.Number(ThriftType::kInt64);
    } else {
      walk->Value(field.type);
    }
  }
  return found;
}

void ReadMetadata(ThriftWalk* walk, FooterChunk* to) {
  int64_t data_page = 0;
  int64_t dictionary_page = 0;
  Fields field(walk);
  while (field.Next()) {
    switch (field.number) {
      case metadata::kCodec: {
        const int64_t codec = field.Number(ThriftType::kInt32);
        if (codec < 0 || codec >= std::ssize(kCodecs)) {
          walk->Fail();
        } else {
          to->codec = kCodecs[codec];
        }
        break;
      }
      case metadata::kValues:
        to->values = field.Number(ThriftType::kInt64);
        break;
      case metadata::kUncompressedBytes:
        to->uncompressed_bytes = field.Number(ThriftType::kInt64);
        break;
      case metadata::kCompressedBytes:
        to->compressed_bytes = field.Number(ThriftType::kInt64);
        break;
      case metadata::kDataPage:
        data_page = field.Number(ThriftType::kInt64);
        break;
      case metadata::kDictionaryPage:
        dictionary_page = field.Number(ThriftType::kInt64);
        break;
      case metadata::kStatistics:
        if (field.Is(ThriftType::kStruct)) to->nulls = ReadOne(walk, statistics::kNulls);
        break;
      case metadata::kBloomOffset:
        to->bloom_filter.offset = field.Number(ThriftType::kInt64);
        break;
      case metadata::kBloomBytes:
        to->bloom_filter.bytes = field.Number(ThriftType::kInt32);
        break;
      case metadata::kSizes:
        if (field.Is(ThriftType::kStruct)) {
          to->value_bytes = ReadOne(walk, sizes::kValueBytes);
        }
        break;
      default:
        walk->Value(field.type);
    }
  }
  using namespace metadata;
  if (!field.Has(Bits({kType, kEncodings, kPath, kCodec, kValues, kUncompressedBytes,
                       kCompressedBytes, kDataPage}))) {
    walk->Fail();
  }
  to->offset = data_page;
  // Some writers leave an offset of 0 where a chunk has no dictionary page.
  if (dictionary_page > 0) to->offset = std::min(data_page, dictionary_page);
}

void ReadChunk(ThriftWalk* walk, FooterChunk* to) {
  Fields field(walk);
  while (field.Next()) {
    switch (field.number) {
      case chunk::kFileOffset:
        field.Number(ThriftType::kInt64);
        break;
      case chunk::kMetadata:
        if (field.Is(ThriftType::kStruct)) ReadMetadata(walk, to);
        break;
      case chunk::kOffsetIndexOffset:
        to->offset_index.offset = field.Number(ThriftType::kInt64);
        break;
      case chunk::kOffsetIndexBytes:
        to->offset_index.bytes = field.Number(ThriftType::kInt32);
        break;
      case chunk::kColumnIndexOffset:
        to->column_index.offset = field.Number(ThriftType::kInt64);
        break;
      case chunk::kColumnIndexBytes:
        to->column_index.bytes = field.Number(ThriftType::kInt32);
        break;
      default:  // another file, or encryption
        walk->Fail();
    }
  }
  using namespace chunk;
  if (!field.Has(Bits({kFileOffset, kMetadata}))) walk->Fail();
  const auto both = [&](uint32_t bits, ByteRange* range) {
    if (!field.Has(bits)) *range = {};
  };
  both(Bits({kOffsetIndexOffset, kOffsetIndexBytes}), &to->offset_index);
  both(Bits({kColumnIndexOffset, kColumnIndexBytes}), &to->column_index);
}

}  // namespace

std::optional<FooterCut> CutFooter(std::string_view thrift) {
  FooterCut cut;
  ThriftWalk walk(thrift);
  int32_t written = 0;  // the number of the last field that was written
  Fields field(&walk);
  while (field.Next()) {
    AddThriftField(field.number, field.type, written, &cut.schema);
    written = field.number;
    if (field.number == file::kRows) {
      field.Number(ThriftType::kInt64);
      AddThriftNumber(0, &cut.schema);
      continue;
    }
    if (field.number != file::kRowGroups) {
      const size_t start = walk.at();
      walk.Value(field.type);
      cut.schema.append(walk.Since(start));
      continue;
    }
    const uint64_t count = Structs(&walk, &field);
    if (count > thrift.size()) return std::nullopt;
    cut.rows.reserve(static_cast<size_t>(count));
    AddThriftStructs(0, &cut.schema);
    for (uint64_t g = 0; g < count && walk.ok(); ++g) {
      Fields of_group(&walk);
      while (of_group.Next()) {
        if (of_group.number == row_group::kRows) {
          cut.rows.push_back(of_group.Number(ThriftType::kInt64));
        } else {
          walk.Value(of_group.type);
        }
      }
      using namespace row_group;
      if (!of_group.Has(Bits({kColumns, kBytes, kRows}))) return std::nullopt;
    }
  }
  if (!walk.ok() || !field.Has(Bits({file::kSchema, file::kRowGroups}))) {
    return std::nullopt;
  }
  cut.schema.push_back(ThriftType::kStop);
  return cut;
}

std::string_view WriterOf(std::string_view thrift) {
  std::string_view name;
  ThriftWalk walk(thrift);
  Fields field(&walk);
  while (field.Next()) {
    if (field.number == file::kWriter && field.Is(ThriftType::kBinary)) {
      name = walk.Bytes();
    } else {
      walk.Value(field.type);
    }
  }
  return walk.ok() ? name : std::string_view();
}

bool VisitChunks(std::string_view thrift, size_t columns,
                 const std::vector<int32_t>& leaves, const VisitChunk& visit) {
  ThriftWalk walk(thrift);
  Fields field(&walk);
  std::vector<FooterChunk> chunks(leaves.size());
  std::vector<std::string_view> bytes(leaves.size());
  while (field.Next()) {
    if (field.number != file::kRowGroups) {
      walk.Value(field.type);
      continue;
    }
    const uint64_t count = Structs(&walk, &field);
    for (uint64_t g = 0; g < count && walk.ok(); ++g) {
      Fields of_group(&walk);
      int64_t rows = 0;
      while (of_group.Next()) {
        if (of_group.number == row_group::kRows) {
          rows = of_group.Number(ThriftType::kInt64);
        } else if (of_group.number == row_group::kColumns) {
          if (Structs(&walk, &of_group) != columns) return false;
          size_t next = 0;
          for (size_t c = 0; c < columns && walk.ok(); ++c) {
            if (next == leaves.size() || leaves[next] != static_cast<int32_t>(c)) {
              walk.Struct();
              continue;
            }
            const size_t start = walk.at();
            chunks[next] = {};
            ReadChunk(&walk, &chunks[next]);
            bytes[next++] = walk.Since(start);
          }
          if (next != leaves.size()) return false;
        } else {
          walk.Value(of_group.type);
        }
      }
      if (!walk.ok() || !of_group.Has(Bits({row_group::kColumns, row_group::kRows}))) {
        return false;
      }
      for (size_t i = 0; i < leaves.size(); ++i) {
        if (!visit(static_cast<size_t>(g), rows, leaves[i], chunks[i], bytes[i])) {
          return false;
        }
      }
    }
  }
  return walk.ok();
}

std::optional<std::string> FooterOfColumn(const std::string& schema, size_t columns,
                                          int32_t leaf,
                                          const std::vector<OneColumn>& chunks) {
  std::string footer;
  int32_t written = 0;
  const auto begin = [&](int32_t number, uint8_t type) {
    AddThriftField(number, type, written, &footer);
    written = number;
  };
  ThriftWalk walk(schema);
  Fields field(&walk);
  while (field.Next()) {
    const bool orders = field.number == file::kColumnOrders;
    if (field.number == file::kSchema || orders) {
      const uint64_t count = Structs(&walk, &field);
      std::string_view found;
      size_t leaves = 0;
      for (uint64_t i = 0; i < count && walk.ok(); ++i) {
        const size_t start = walk.at();
        Fields of_element(&walk);
        int64_t children = 0;
        while (of_element.Next()) {
          if (!orders && of_element.number == element::kChildren) {
            children = of_element.Number(ThriftType::kInt32);
          } else {
            walk.Value(of_element.type);
          }
        }
        if (children > 0 || (!orders && i == 0)) continue;
        if (leaves++ == static_cast<size_t>(leaf)) found = walk.Since(start);
      }
      if (!walk.ok() || leaves != columns) return std::nullopt;
      begin(field.number, ThriftType::kList);
      AddThriftStructs(orders ? 1 : 2, &footer);
      if (!orders) {  // the root
        AddThriftField(element::kName, ThriftType::kBinary, 0, &footer);
        footer.push_back(0);
        AddThriftField(element::kChildren, ThriftType::kInt32, element::kName, &footer);
        AddThriftNumber(1, &footer);
        footer.push_back(ThriftType::kStop);
      }
      footer.append(found);
    } else if (field.number == file::kRowGroups) {
      walk.Value(field.type);
      begin(field.number, ThriftType::kList);
      AddThriftStructs(chunks.size(), &footer);
      for (const OneColumn& one : chunks) {
        using namespace row_group;
        AddThriftField(kColumns, ThriftType::kList, 0, &footer);
        AddThriftStructs(1, &footer);
        footer.append(one.chunk);
        AddThriftField(kBytes, ThriftType::kInt64, kColumns, &footer);
        AddThriftNumber(0, &footer);
        AddThriftField(kRows, ThriftType::kInt64, kBytes, &footer);
        AddThriftNumber(one.rows, &footer);
        footer.push_back(ThriftType::kStop);
      }
    } else {
      const size_t start = walk.at();
      walk.Value(field.type);
      if (field.number == file::kKeyValueMetadata) continue;
      begin(field.number, field.type);
      footer.append(walk.Since(start));
    }
  }
  if (!walk.ok()) return std::nullopt;
  footer.push_back(ThriftType::kStop);
  return footer;
}

}  // namespace fastload
