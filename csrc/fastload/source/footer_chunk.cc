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
constexpr int32_t kFilePath = 1;
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

// No struct of a chunk that has all numbers is shorter.
constexpr size_t kLeastChunkBytes = 20;

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

// Returns false if a number is missing.
bool ReadMetadata(ThriftWalk* walk, FooterChunk* to) {
  bool known = true;
  int64_t data_page = 0;
  int64_t dictionary_page = 0;
  Fields field(walk);
  while (field.Next()) {
    switch (field.number) {
      case metadata::kCodec: {
        const int64_t codec = field.Number(ThriftType::kInt32);
        known = codec >= 0 && codec < std::ssize(kCodecs);
        if (known) to->codec = kCodecs[codec];
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
  to->offset = data_page;
  // Some writers leave an offset of 0 where a chunk has no dictionary page.
  if (dictionary_page > 0) to->offset = std::min(data_page, dictionary_page);
  using namespace metadata;  // NOLINT(google-build-using-namespace)
  return known && field.Has(Bits({kType, kEncodings, kPath, kCodec, kValues,
                                  kUncompressedBytes, kCompressedBytes, kDataPage}));
}

// Returns false if the chunk is odd.
bool ReadChunk(ThriftWalk* walk, FooterChunk* to) {
  Fields field(walk);
  bool plain = true;
  while (field.Next()) {
    switch (field.number) {
      case chunk::kFileOffset:
        field.Number(ThriftType::kInt64);
        break;
      case chunk::kMetadata:
        if (field.Is(ThriftType::kStruct)) plain = ReadMetadata(walk, to) && plain;
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
      case chunk::kFilePath:
        plain = field.Is(ThriftType::kBinary) && walk->Bytes().empty() && plain;
        break;
      default:  // encryption
        walk->Value(field.type);
        plain = false;
    }
  }
  const auto both = [&](uint32_t bits, ByteRange* range) {
    if (!field.Has(bits)) *range = {};
  };
  both(Bits({chunk::kOffsetIndexOffset, chunk::kOffsetIndexBytes}), &to->offset_index);
  both(Bits({chunk::kColumnIndexOffset, chunk::kColumnIndexBytes}), &to->column_index);
  return plain && field.Has(Bits({chunk::kFileOffset, chunk::kMetadata}));
}

// Reads a row group; `columns` reads the list of its chunks. Returns its rows, or -1 if a
// field is missing.
template <typename Fn>
int64_t ReadRowGroup(ThriftWalk* walk, Fn&& columns) {
  int64_t rows = 0;
  Fields field(walk);
  while (field.Next()) {
    if (field.number == row_group::kRows) {
      rows = field.Number(ThriftType::kInt64);
    } else if (field.number == row_group::kColumns) {
      columns(Structs(walk, &field));
    } else {
      walk->Value(field.type);
    }
  }
  using namespace row_group;  // NOLINT(google-build-using-namespace)
  const bool whole = field.Has(Bits({kColumns, kBytes, kRows}));
  if (!whole) walk->Fail();
  return rows;
}

// A column chunk: the bytes of its struct, and the rows of its row group.
struct ChunkBytes {
  std::string_view bytes;
  int64_t rows = 0;
};

// The parts of a footer that footers of single columns are made of.
struct FooterParts {
  std::string schema;                           // as in FooterRead
  std::vector<std::vector<ChunkBytes>> chunks;  // by wanted leaf and row group
};

std::optional<FooterParts> CutFooter(std::string_view thrift,
                                     const std::vector<int32_t>& leaves) {
  FooterParts parts{.chunks = std::vector<std::vector<ChunkBytes>>(leaves.size())};
  ThriftWalk walk(thrift);
  int32_t written = 0;
  Fields field(&walk);
  while (field.Next()) {
    AddThriftField(field.number, field.type, written, &parts.schema);
    written = field.number;
    if (field.number != file::kRowGroups) {
      const size_t start = walk.at();
      walk.Value(field.type);
      parts.schema.append(walk.Since(start));
      continue;
    }
    AddThriftStructs(0, &parts.schema);
    const uint64_t count = Structs(&walk, &field);
    for (uint64_t g = 0; g < count && walk.ok(); ++g) {
      size_t next = 0;
      const int64_t rows = ReadRowGroup(&walk, [&](uint64_t columns) {
        for (uint64_t c = 0; c < columns && walk.ok(); ++c) {
          const size_t start = walk.at();
          walk.Struct();
          if (next == leaves.size() || c != static_cast<uint64_t>(leaves[next])) continue;
          parts.chunks[next++].push_back({walk.Since(start), 0});
        }
      });
      if (next != leaves.size()) return std::nullopt;
      for (auto& of_leaf : parts.chunks) of_leaf.back().rows = rows;
    }
  }
  if (!walk.ok()) return std::nullopt;
  parts.schema.push_back(ThriftType::kStop);
  return parts;
}

std::optional<std::string> FooterOfColumn(std::string_view schema, size_t columns,
                                          int32_t leaf,
                                          const std::vector<ChunkBytes>& chunks) {
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
      for (const ChunkBytes& one : chunks) {
        using namespace row_group;  // NOLINT(google-build-using-namespace)
        AddThriftField(kColumns, ThriftType::kList, 0, &footer);
        AddThriftStructs(1, &footer);
        footer.append(one.bytes);
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

}  // namespace

std::optional<FooterRead> ReadFooter(std::string_view thrift) {
  FooterRead read;
  std::vector<bool> odd;
  ThriftWalk walk(thrift);
  int32_t written = 0;  // the number of the last field that was written
  Fields field(&walk);
  while (field.Next()) {
    AddThriftField(field.number, field.type, written, &read.schema);
    written = field.number;
    if (field.number == file::kRows) {
      field.Number(ThriftType::kInt64);
      AddThriftNumber(0, &read.schema);
      continue;
    }
    if (field.number != file::kRowGroups) {
      const size_t start = walk.at();
      if (field.number == file::kWriter && field.Is(ThriftType::kBinary)) {
        read.writer = walk.Bytes();
      } else {
        walk.Value(field.type);
      }
      read.schema.append(walk.Since(start));
      continue;
    }
    AddThriftStructs(0, &read.schema);
    const uint64_t count = Structs(&walk, &field);
    for (uint64_t g = 0; g < count && walk.ok(); ++g) {
      read.rows.push_back(ReadRowGroup(&walk, [&](uint64_t columns) {
        if (g == 0 && columns <= thrift.size() / kLeastChunkBytes) {
          read.chunks.resize(static_cast<size_t>(columns));
          odd.resize(read.chunks.size());
          const size_t most =
              thrift.size() / kLeastChunkBytes / (read.chunks.size() + 1) + 1;
          for (auto& of_leaf : read.chunks) {
            of_leaf.reserve(std::min(static_cast<size_t>(count), most));
          }
        }
        if (columns != read.chunks.size()) walk.Fail();
        for (size_t c = 0; c < read.chunks.size() && walk.ok(); ++c) {
          FooterChunk& chunk = read.chunks[c].emplace_back();
          if (!ReadChunk(&walk, &chunk)) odd[c] = true;
        }
      }));
    }
  }
  if (!walk.ok() || !field.Has(Bits({file::kSchema, file::kRowGroups}))) {
    return std::nullopt;
  }
  for (size_t c = 0; c < odd.size(); ++c) {
    if (odd[c]) read.chunks[c].clear();
  }
  read.schema.push_back(ThriftType::kStop);
  return read;
}

std::optional<std::vector<std::string>> FootersOfColumns(
    std::string_view thrift, size_t columns, const std::vector<int32_t>& leaves) {
  const auto parts = CutFooter(thrift, leaves);
  if (!parts.has_value()) return std::nullopt;
  std::vector<std::string> footers;
  for (size_t i = 0; i < leaves.size(); ++i) {
    auto footer = FooterOfColumn(parts->schema, columns, leaves[i], parts->chunks[i]);
    if (!footer.has_value()) return std::nullopt;
    footers.push_back(*std::move(footer));
  }
  return footers;
}

}  // namespace fastload
