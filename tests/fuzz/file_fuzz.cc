// Fuzzer of files: each column that Arrow reads has the same values in fastload, in any
// order and any selection of rows, and both refuse the same files. Shuffles deal rows to
// small buckets, so that the few rows of an input fill several, and pages without
// selected rows are left out whatever their size.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../cpp/passes.h"
#include "arrow/api.h"
#include "arrow/io/memory.h"
#include "checked.h"
#include "fastload/base/hash.h"
#include "fastload/collate/shuffle.h"
#include "fastload/decode/pages/chunk_open.h"
#include "fastload/source/arrow_versions.h"
#include "fastload/source/page_index.h"
#include "file_mutation.h"
#include "leaf_columns.h"
#include "memory_file.h"
#include "parquet/arrow/reader.h"
#include "parquet/column_page.h"
#include "parquet/file_reader.h"
#include "row_text.h"

namespace fastload::testing {
namespace {

// A memory_budget refuses larger files before they are read; see -malloc_limit_mb.
constexpr int64_t kMostRows = 1 << 14;
constexpr int64_t kMostChunkBytes = 1 << 21;
constexpr int64_t kBudgetBytes = 16 << 20;
constexpr size_t kMostLeaves = 32;
constexpr size_t kMostRowGroups = 32;

// Returns true if Arrow refuses bytes that have no influence on the values: the size in
// the header of a dictionary page in Snappy (Snappy's own bytes state the size, too),
// levels behind the last row, a chunk's type beside the schema's type, and a group
// without children beside the column.
bool IsOfNoInfluence(const std::string& why) {
  return why.find("didn't decompress to expected size") != std::string::npos ||
         why.find("Output buffer size (") != std::string::npos ||
         why.find("levels do not match num_values in page header") != std::string::npos ||
         why.find("ColumnMetaData type does not match") != std::string::npos ||
         why.find("non-leaf node has no children") != std::string::npos;
}

// Returns true if a page of the column chunk matches, before the first page that can't be
// read.
template <typename Predicate>
bool HasPage(parquet::ParquetFileReader& file, int row_group, int leaf,
             const Predicate& is_such) {
  try {
    const auto pages = file.RowGroup(row_group)->GetColumnPageReader(leaf);
    while (const auto page = pages->NextPage()) {
      if (is_such(*page)) return true;
    }
  } catch (const std::exception&) {
    // Other readers do not read the pages behind this page either.
  }
  return false;
}

bool IsDictionary(const parquet::Page& page) {
  return page.type() == parquet::PageType::DICTIONARY_PAGE;
}

bool IsEmpty(const parquet::Page& page) {
  return (page.type() == parquet::PageType::DATA_PAGE ||
          page.type() == parquet::PageType::DATA_PAGE_V2) &&
         static_cast<const parquet::DataPage&>(page).num_values() == 0;
}

// Returns true if Arrow may refuse a run for groups of eight values whose bytes the page
// lacks and does not need: fastload reads the last run as far as the bytes go. The
// encodings that the footer lists need not be the pages' encodings.
bool MayBeCutRun(const std::string& why, parquet::ParquetFileReader& file, int row_group,
                 int leaf) {
  if (why.find("Invalid number of indices") == std::string::npos &&
      why.find("Dict decoding failed") == std::string::npos &&
      why.find("Unexpected end of stream") == std::string::npos) {
    return false;
  }
  return file.metadata()->schema()->Column(leaf)->physical_type() ==
             parquet::Type::BOOLEAN ||
         HasPage(file, row_group, leaf, IsDictionary);
}

// What Arrow reads of a column.
struct Oracle {
  bool refused = false;
  bool known = true;  // false: Arrow neither read nor refused the column
  std::string why;    // reason of the refusal
  std::vector<std::string> rows;
};

Oracle ReadByArrow(const std::shared_ptr<arrow::Buffer>& bytes, const Footer& footer,
                   int leaf, const ColumnSpec& spec) {
  Oracle oracle;
  arrow::CappedMemoryPool pool(arrow::default_memory_pool(), kBudgetBytes);
  try {
    // The limits are fastload's: without a limit Arrow allocates 100 MB for a string that
    // the file lacks.
    parquet::ReaderProperties properties(&pool);
    LimitThrift(bytes->size(), &properties);
    parquet::arrow::FileReaderBuilder builder;
    const Status opened =
        builder.Open(std::make_shared<arrow::io::BufferReader>(bytes), properties);
    auto reader = opened.ok()
                      ? builder.memory_pool(&pool)->Build()
                      : Result<std::unique_ptr<parquet::arrow::FileReader>>(opened);
    if (!reader.ok()) {
      oracle.refused = true;
      oracle.why = reader.status().ToString();
      return oracle;
    }
    for (int g = 0; g < (*reader)->num_row_groups(); ++g) {
      auto table = (*reader)->ReadRowGroup(g, {leaf});
      if (!table.ok()) {
        oracle.refused = true;
        oracle.why = table.status().ToString();
        // A type that Arrow can't make of such a column says nothing about the bytes.
        oracle.known =
            !table.status().IsNotImplemented() && !IsOfNoInfluence(oracle.why) &&
            !MayBeCutRun(oracle.why, *(*reader)->parquet_reader(), g, leaf) &&
            !table.status().IsOutOfMemory() && !table.status().IsCapacityError();
        return oracle;
      }
      const int64_t rows = footer.row_group_rows()[static_cast<size_t>(g)];
      if ((*table)->num_rows() != rows) {
        // Arrow accepts fewer values than the chunk should have. In Arrow a page without
        // values ends a chunk; in fastload the page is one page of several.
        oracle.refused = true;
        oracle.known = !HasPage(*(*reader)->parquet_reader(), g, leaf, IsEmpty);
        oracle.why = std::to_string((*table)->num_rows()) + " of " +
                     std::to_string(rows) + " rows";
        return oracle;
      }
      for (const auto& chunk : (*table)->column(0)->chunks()) {
        if (!chunk->ValidateFull().ok()) {
          // Arrow refuses text that is not UTF-8; fastload delivers the bytes unchanged.
          oracle.known = chunk->Validate().ok() && spec.bytes;
          oracle.refused = !oracle.known;
          oracle.why = chunk->ValidateFull().ToString();
          if (oracle.refused) return oracle;
        }
        const ArrowRows texts(spec, *chunk);
        if (!texts.fits()) oracle.known = false;
        oracle.rows.insert(oracle.rows.end(), texts.texts().begin(), texts.texts().end());
      }
    }
  } catch (const std::exception& error) {
    oracle.refused = true;
    oracle.why = error.what();
  }
  return oracle;
}

// What decides how the same rows are read.
struct Ways {
  uint32_t bucket_rows = kBucketRows;
  int64_t cache_bytes = 2 * CoreCacheBytes();
  int64_t page_hole_bytes = kPageHoleBytes;
};

Ways DrawWays(std::mt19937* random) {
  Ways ways;
  if ((*random)() % 4 > 0) ways.bucket_rows = 1 + (*random)() % 32;
  if ((*random)() % 4 > 0) ways.cache_bytes = (*random)() % 512;
  if ((*random)() % 4 > 0) ways.page_hole_bytes = 0;
  return ways;
}

PipelineOptions OptionsOf(const Ways& ways) {
  return {.threads = 0,
          .io_threads = 0,
          .batch_memory_bytes = kBudgetBytes,
          .staging_memory_bytes = kBudgetBytes,
          .fetch_memory_bytes = kBudgetBytes,
          .fill_memory_bytes = kBudgetBytes,
          .page_hole_bytes = ways.page_hole_bytes};
}

ScanOptions ScanOptionsOf(const Ways& ways) {
  return {.fetch_bytes = kBudgetBytes,
          .bucket_rows = ways.bucket_rows,
          .cache_bytes = ways.cache_bytes,
          .segment_bytes = 1 << 12};
}

class Read {
 public:
  Read(FileSpec file, ColumnSpec column, std::vector<FileSelection> selections, Ways ways)
      : spec_(std::move(column)),
        outputs_(OutputsOf(spec_)),
        layout_({spec_}, outputs_),
        pipeline_({std::move(file)}, {spec_}, outputs_, OptionsOf(ways),
                  std::move(selections)),
        ways_(ways) {}

  // Appends each row of the plan until the end of the plan or an error.
  Status Rows(const ReadPlan& plan, std::vector<std::string>* rows) {
    ARROW_ASSIGN_OR_RAISE(auto scan, pipeline_.Start(plan, ScanOptionsOf(ways_)));
    bool done = false;
    while (!done) {
      ARROW_ASSIGN_OR_RAISE(auto batch, scan->Next(std::chrono::milliseconds(50), &done));
      if (!batch) continue;
      const BatchRows texts(spec_, layout_, *batch);
      for (int64_t row = 0; row < batch->areas.rows; ++row) {
        rows->push_back(texts.Text(row));
      }
    }
    return Status::OK();
  }

 private:
  const ColumnSpec spec_;
  const std::vector<OutputSpec> outputs_;
  const Layout layout_;
  Pipeline pipeline_;
  const Ways ways_;
};

// Returns true if Arrow accepts bytes that fastload refuses. Arrow makes a list of
// elements that belong to no list, and lets a V2 page begin inside a row. Arrow ignores
// the number of rows in a page's header, by which fastload skips pages, ignores values
// beyond the footer's number of values, and allocates a page that is larger than its
// column chunk.
bool IsStricter(const Status& status) {
  const std::string& why = status.message();
  return why.find("of a list that has begun") != std::string::npos ||
         why.find("Expected a page that begins with a row") != std::string::npos ||
         why.find(" rows in the page, got ") != std::string::npos ||
         why.find(" bytes after decompression, got ") != std::string::npos ||
         why.find("pages of as many values as the footer says") != std::string::npos;
}

// Returns true if the error says that the bytes are wrong, rather than that fastload does
// not support the bytes.
bool IsRefusal(const Status& status) {
  if (IsStricter(status)) return false;
  const auto kind = KindOf(status);
  return kind != ErrorKind::kUnsupported && kind != ErrorKind::kValue &&
         !status.IsNotImplemented() && !status.IsOutOfMemory();
}

// Returns true if a pass over whole row groups is stricter than Arrow. Passes over parts
// of such a file may deliver other rows, because they skip the bytes that a whole pass
// refuses.
bool IsRefusedWhole(const FileSpec& file, const ColumnSpec& spec) {
  const int64_t total = file.footer->num_rows();
  const ReadPlan plan = CutPlan(AllPieces({file}), total, total, /*shuffled=*/false);
  std::vector<std::string> rows;
  return IsStricter(Read(file, spec, {}, {}).Rows(plan, &rows));
}

void Compare(const FileSpec& file, const ColumnSpec& spec, const Oracle& oracle,
             std::mt19937* random) {
  const std::vector<FileSpec> files = {file};
  const int64_t total = file.footer->num_rows();
  const auto at_most = [&](int64_t n) {
    return 1 + static_cast<int64_t>((*random)() % n);
  };
  const ReadPlan plan = CutPlan(AllPieces(files), at_most(total), at_most(total),
                                /*shuffled=*/(*random)() % 2 == 0);
  const Ways ways = DrawWays(random);
  std::vector<std::string> rows;
  const Status status = Read(file, spec, {}, ways).Rows(plan, &rows);
  const std::string place = "column " + spec.name + ": ";
  if (oracle.known && oracle.refused) {
    Expect(!status.ok(), place + "values of bytes that Arrow refuses: " + oracle.why);
  }
  if (oracle.known && !oracle.refused) {
    Expect(status.ok() || !IsRefusal(status),
           place + "refused, but read by Arrow: " + status.ToString());
  }
  if (!status.ok() || !oracle.known || oracle.refused) return;
  Expect(static_cast<int64_t>(oracle.rows.size()) == total, place + "rows of Arrow's");
  const std::vector<RowId> order = PlannedRows(plan, files, ways.bucket_rows);
  Expect(rows.size() == order.size(), place + "the number of rows");
  for (size_t i = 0; i < order.size(); ++i) {
    const auto& expected = oracle.rows[static_cast<size_t>(order[i].row)];
    if (rows[i] != expected && IsRefusedWhole(file, spec)) return;
    Expect(rows[i] == expected, place + "row " + std::to_string(order[i].row) + " is " +
                                    rows[i] + ", Arrow's " + expected);
  }
}

// Compares a stack of copies of a column, whose rows are dealt together, with the column.
void CompareStack(const FileSpec& file, const ColumnSpec& spec, const Oracle& oracle,
                  std::mt19937* random) {
  if (spec.bytes || spec.depth > 0 || spec.list_size > 0) return;
  constexpr std::array<size_t, 4> kCopies = {2, 3, 9, 13};
  const size_t copies = kCopies[(*random)() % kCopies.size()];
  const std::vector<ColumnSpec> columns(copies, spec);
  OutputSpec stack{.kind = OutputKind::kStack};
  for (size_t c = 0; c < copies; ++c) stack.columns.push_back(static_cast<int32_t>(c));
  const std::vector<FileSpec> files = {file};
  const int64_t total = file.footer->num_rows();
  const auto at_most = [&](int64_t n) {
    return 1 + static_cast<int64_t>((*random)() % static_cast<uint64_t>(n));
  };
  const ReadPlan plan = CutPlan(AllPieces(files), at_most(total), at_most(total),
                                /*shuffled=*/(*random)() % 4 > 0);
  const Ways ways = DrawWays(random);
  const Layout layout(columns, {stack});
  Pipeline pipeline(files, columns, {stack}, OptionsOf(ways));
  std::vector<std::string> rows;
  const auto read = [&]() -> Status {
    ARROW_ASSIGN_OR_RAISE(auto scan, pipeline.Start(plan, ScanOptionsOf(ways)));
    for (bool done = false; !done;) {
      ARROW_ASSIGN_OR_RAISE(auto batch, scan->Next(std::chrono::milliseconds(50), &done));
      if (!batch) continue;
      const Layout::Slot& slot = layout.slot(0);
      const uint8_t* first = Layout::Address(batch->block->data(), batch->areas, slot);
      for (int64_t row = 0; row < batch->areas.rows; ++row) {
        rows.emplace_back(reinterpret_cast<const char*>(first + row * slot.stride),
                          copies * static_cast<size_t>(ItemSize(spec.dtype)));
      }
    }
    return Status::OK();
  };
  const Status status = read();
  const std::string place = "stack of column " + spec.name + ": ";
  if (oracle.known && oracle.refused) {
    Expect(!status.ok(), place + "values of bytes that Arrow refuses: " + oracle.why);
  }
  if (!status.ok() || !oracle.known || oracle.refused) return;
  const std::vector<RowId> order = PlannedRows(plan, files, ways.bucket_rows);
  Expect(rows.size() == order.size(), place + "the number of rows");
  for (size_t i = 0; i < order.size(); ++i) {
    // An oracle's text is a word, a space and the bytes of the value.
    const std::string& text = oracle.rows[static_cast<size_t>(order[i].row)];
    const std::string value = text.substr(text.find(' ') + 1);
    std::string expected;
    for (size_t c = 0; c < copies; ++c) expected += value;
    if (rows[i] != expected && IsRefusedWhole(file, spec)) return;
    Expect(rows[i] == expected, place + "row " + std::to_string(order[i].row));
  }
}

// Returns true if the offset indexes of a leaf describe the pages that the file has.
bool IndexIsRight(const FileSpec& file, const std::shared_ptr<arrow::Buffer>& bytes,
                  int32_t leaf) {
  auto opened = LocalFile::Open(file);
  Expect(opened.ok(), "the file can be opened");
  for (int32_t g = 0; g < file.row_groups(); ++g) {
    const auto extents = ReadPageExtents(file, **opened, g, leaf);
    const auto chunk = ChunkRange(file, g, leaf);
    if (!extents.ok() || !chunk.ok()) return false;
    if (extents->pages.empty()) continue;
    size_t found = 0;
    const Status status = CatchParquet([&]() -> Status {
      const auto stream = std::make_shared<arrow::io::BufferReader>(
          arrow::SliceBuffer(bytes, chunk->offset, chunk->bytes));
      // Bytes that are not decompressed have the same headers.
      const auto pages =
          OpenPages(stream, INT64_MAX, parquet::Compression::UNCOMPRESSED,
                    parquet::ReaderProperties(), *file.Column(leaf), false);
      int64_t row = 0;
      while (true) {
        ARROW_ASSIGN_OR_RAISE(const int64_t start, stream->Tell());
        if (start == chunk->bytes) return Status::OK();
        const auto page = pages->NextPage();
        if (page == nullptr) return Status::OK();
        if (IsDictionary(*page)) continue;
        if (found == extents->pages.size()) return Status::Invalid("too few");
        const PageExtent& extent = extents->pages[found++];
        ARROW_ASSIGN_OR_RAISE(const int64_t end, stream->Tell());
        if (extent.offset != chunk->offset + start || extent.bytes != end - start ||
            extent.row != row) {
          return Status::Invalid("another page");
        }
        row += static_cast<const parquet::DataPage&>(*page).num_values();
      }
    });
    if (!status.ok() || found != extents->pages.size()) return false;
  }
  return true;
}

// Compares a selection of the rows of each row group; bits say which rows are selected.
void CompareSelected(const FileSpec& file, const ColumnSpec& spec, const Oracle& oracle,
                     const std::shared_ptr<arrow::Buffer>& bytes, bool indexed,
                     std::mt19937* random) {
  std::vector<int64_t> stay;  // selected rows of the file
  std::vector<uint8_t> bits;
  FileSelection selection;
  PlanBuilder builder(/*shuffled=*/false);
  std::vector<Piece> pieces;
  std::vector<int64_t> delivered;
  int64_t first = 0;
  const auto density = 1 + (*random)() % 64;
  for (int32_t g = 0; g < file.row_groups(); ++g) {
    selection.offsets.push_back(static_cast<int64_t>(bits.size()));
    bits.resize(bits.size() + static_cast<size_t>(RoundUp(file.RowsOf(g), 64) / 8));
    int64_t kept = 0;
    for (int64_t row = 0; row < file.RowsOf(g); ++row) {
      if ((*random)() % density != 0) continue;
      bits[static_cast<size_t>(selection.offsets.back() + row / 8)] |=
          static_cast<uint8_t>(1 << (row % 8));
      stay.push_back(first + row);
      ++kept;
    }
    if (kept > 0) {
      const auto start = static_cast<int64_t>((*random)() % static_cast<uint64_t>(kept));
      pieces.push_back({0, g, start, kept});
      for (int64_t k = start; k < kept; ++k) {
        delivered.push_back(stay[stay.size() - static_cast<size_t>(kept - k)]);
      }
    }
    first += file.RowsOf(g);
  }
  if (pieces.empty()) return;
  selection.bits = bits.data();
  selection.bytes = static_cast<int64_t>(bits.size());
  std::vector<std::string> rows;
  const Status status =
      Read(file, spec, {selection}, DrawWays(random))
          .Rows(builder.Window(pieces).Build(1 + delivered.size() / 2), &rows);
  if (!status.ok() || !oracle.known || oracle.refused) return;
  // An index that describes other pages than the file has leads to other rows.
  if (indexed && !IndexIsRight(file, bytes, spec.leaves[0])) return;
  Expect(rows.size() == delivered.size(), "the number of selected rows");
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto& expected = oracle.rows[static_cast<size_t>(delivered[i])];
    if (rows[i] != expected && IsRefusedWhole(file, spec)) return;
    Expect(rows[i] == expected, "column " + spec.name + ": selected row " +
                                    std::to_string(delivered[i]) + " is " + rows[i] +
                                    ", Arrow's " + expected);
  }
}

// Returns true if the column has a page index, and reads the index.
bool ReadIndexes(const FileSpec& file, int32_t leaf) {
  auto opened = LocalFile::Open(file);
  Expect(opened.ok(), "the file can be opened");
  bool indexed = false;
  for (int32_t g = 0; g < file.row_groups(); ++g) {
    const auto ranges = IndexRanges(file, g, leaf, /*bounds=*/true);
    indexed = indexed || !ranges.ok() || !ranges->empty();
    (void)ReadPageExtents(file, **opened, g, leaf);
    (void)ReadPageBounds(file, **opened, g, leaf);
  }
  return indexed;
}

bool IsSmall(const Footer& footer) {
  if (footer.num_rows() == 0 || footer.num_rows() > kMostRows) return false;
  if (footer.leaves().size() > kMostLeaves) return false;
  return footer.row_group_rows().size() <= kMostRowGroups;
}

bool IsSmall(const std::vector<FooterChunk>& chunks, const ColumnSpec& spec) {
  for (const FooterChunk& chunk : chunks) {
    if (chunk.uncompressed_bytes > kMostChunkBytes) return false;
    if (chunk.values > kMostRows * 4) return false;
  }
  return ItemBytes(spec) <= 1 << 8;
}

MemoryFile& File() {
  static MemoryFile file;
  return file;
}

void Run(const uint8_t* data, size_t size) {
  File().Write(data, size);
  const auto bytes = std::make_shared<arrow::Buffer>(data, static_cast<int64_t>(size));
  const auto text = std::string_view(reinterpret_cast<const char*>(data), size);
  const std::string path = File().path();
  const auto tail = Footer::TailBytes(text, static_cast<int64_t>(size), path);
  if (!tail.ok()) return;
  const auto footer = Footer::Make(text.substr(size - static_cast<size_t>(*tail)),
                                   static_cast<int64_t>(size), path);
  if (!footer.ok() || !IsSmall(**footer)) return;
  const FileSpec file{.path = path,
                      .bytes = static_cast<int64_t>(size),
                      .mtime_ns = File().modified_ns(),
                      .footer = *footer};
  std::mt19937 random(static_cast<uint32_t>(Hash64(data, size, 0)));
  for (int32_t leaf = 0; leaf < static_cast<int32_t>((*footer)->leaves().size());
       ++leaf) {
    const auto spec = ColumnOf(**footer, leaf);
    if (!spec) continue;
    const auto chunks = (*footer)->Chunks(leaf);
    if (!chunks.ok() || !IsSmall(*chunks, *spec)) continue;
    const bool indexed = ReadIndexes(file, leaf);
    const Oracle oracle = ReadByArrow(bytes, **footer, leaf, *spec);
    Compare(file, *spec, oracle, &random);
    CompareStack(file, *spec, oracle, &random);
    CompareSelected(file, *spec, oracle, bytes, indexed, &random);
  }
}

}  // namespace
}  // namespace fastload::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fastload::testing::Run(data, size);
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {
  return fastload::testing::MutateFile(data, size, max_size, seed);
}
