// Fuzzer of the search for rows: the rows that a filter finds are the rows whose values
// pass, as long as footers, page indexes and Bloom filters are true.
#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checked.h"
#include "fastload/base/block_memory.h"
#include "fastload/base/hash.h"
#include "fastload/collate/shuffle.h"
#include "fastload/decode/chunk_reader.h"
#include "fastload/decode/pages/chunk_open.h"
#include "fastload/fetch/local_stream.h"
#include "fastload/filter/bloom_search.h"
#include "fastload/filter/known_values.h"
#include "fastload/filter/row_filter.h"
#include "fastload/filter/row_group_search.h"
#include "fastload/source/page_index.h"
#include "file_mutation.h"
#include "leaf_columns.h"
#include "memory_file.h"

namespace fastload::testing {
namespace {

constexpr int64_t kMostRows = 1 << 14;
constexpr int64_t kMostChunkBytes = 1 << 21;
constexpr size_t kMostColumns = 3;
constexpr size_t kMostRowGroups = 8;

MemoryFile& File() {
  static MemoryFile file;
  return file;
}

// The values of one column of a row group.
struct Values {
  std::vector<int64_t> keys;
  std::vector<uint8_t> valid;
};

// Reads a column without a search. Returns nullopt if the column can't be read.
std::optional<Values> Plain(const FileSpec& file, int32_t row_group,
                            const ColumnSpec& spec) {
  FileTable files({file});
  BlockPool fetches(MakePrivateMemory(), 1 << 20);
  BlockPool page_blocks(MakePrivateMemory(), 0);
  BlockMemory pool(&page_blocks);
  Counters counters;
  const auto io = MakeInlineExecutor();
  const FetchContext fetch{io.get(), &fetches, &files, &counters};
  const int64_t rows = file.RowsOf(row_group);
  const auto item = static_cast<int64_t>(ItemSize(spec.dtype));
  Values values;
  const Status status = CatchParquet([&]() -> Status {
    ARROW_ASSIGN_OR_RAISE(const auto range, ChunkRange(file, row_group, spec.leaves[0]));
    std::optional<int64_t> seen;
    auto stream =
        MakeLocalStream(fetch, 0, {range},
                        {.segment_bytes = 1 << 20,
                         .cancelled = std::make_shared<std::atomic<bool>>(false)},
                        &seen);
    ARROW_ASSIGN_OR_RAISE(ChunkInput input, OpenChunk(file, row_group, spec.leaves[0],
                                                      std::move(stream), &pool));
    ARROW_ASSIGN_OR_RAISE(auto reader, MakeFixedReader(std::move(input), &spec));
    std::vector<uint8_t> bytes(static_cast<size_t>(rows * item));
    values.valid.resize(static_cast<size_t>(rows));
    ARROW_RETURN_NOT_OK(reader->Read(rows, bytes.data(), item, values.valid.data()));
    for (int64_t i = 0; i < rows; ++i) {
      std::array<uint8_t, 8> element{};
      std::copy_n(bytes.data() + i * item, item, element.data());
      values.keys.push_back(*KeyOf(spec.dtype, element.data()));
    }
    return Status::OK();
  });
  if (!status.ok()) return std::nullopt;
  return values;
}

// Returns true if the values [first, last) are possible by what is known of them.
bool IsTrue(const KnownValues& known, const Values& values, int64_t first, int64_t last) {
  for (auto i = static_cast<size_t>(first); i < static_cast<size_t>(last); ++i) {
    if (values.valid[i] == 0) {
      if (!known.nulls) return false;
      continue;
    }
    const bool in = std::ranges::any_of(known.keys, [&](const KeyRange& range) {
      return range.first <= values.keys[i] && values.keys[i] <= range.last;
    });
    if (!in) return false;
  }
  return true;
}

// Returns true if the file's bounds of the column are true in a row group. A file whose
// offset index describes other pages than the file has leads to other rows, so `indexed`
// is set where there is an offset index.
bool BoundsAreTrue(const FileSpec& file, int32_t row_group, const ColumnSpec& spec,
                   const Values& values, bool* indexed) {
  const int64_t rows = file.RowsOf(row_group);
  auto opened = LocalFile::Open(file);
  Expect(opened.ok(), "the file can be opened");
  bool holds = false;
  const Status status = CatchParquet([&]() -> Status {
    ARROW_ASSIGN_OR_RAISE(const auto known, KnownOfChunk(file, 0, row_group, spec));
    if (!IsTrue(known, values, 0, rows)) return Status::OK();
    ARROW_ASSIGN_OR_RAISE(const auto extents,
                          ReadPageExtents(file, **opened, row_group, spec.leaves[0]));
    *indexed = *indexed || !extents.pages.empty();
    ARROW_ASSIGN_OR_RAISE(const auto bounds,
                          ReadPageBounds(file, **opened, row_group, spec.leaves[0]));
    const auto pages = KnownOfPages(file, 0, spec, bounds);
    for (size_t page = 0; page < pages.size(); ++page) {
      const int64_t end = page + 1 < pages.size() ? bounds.first_rows[page + 1] : rows;
      if (!IsTrue(pages[page], values, bounds.first_rows[page], end)) return Status::OK();
    }
    holds = true;
    return Status::OK();
  });
  return status.ok() && holds;
}

// Returns true if the Bloom filters of the columns exclude no value that is there, as far
// as the filter of rows asks for values.
bool BloomFiltersAreTrue(const FileSpec& file, int32_t row_group,
                         const std::vector<ColumnSpec>& specs, const RowFilter& filter,
                         const std::vector<std::optional<Values>>& values) {
  auto opened = LocalFile::Open(file);
  Expect(opened.ok(), "the file can be opened");
  const auto read = [&](const std::vector<ByteRange>& ranges,
                        std::vector<std::vector<uint8_t>>* bytes) -> Status {
    for (const ByteRange& range : ranges) {
      auto& last = bytes->emplace_back(static_cast<size_t>(range.bytes));
      ARROW_RETURN_NOT_OK((*opened)->ReadAt(range.offset, range.bytes, last.data()));
    }
    return Status::OK();
  };
  std::vector<KnownValues> known;
  const Status status = CatchParquet([&]() -> Status {
    for (const ColumnSpec& spec : specs) {
      ARROW_ASSIGN_OR_RAISE(auto of, KnownOfChunk(file, 0, row_group, spec));
      known.push_back(std::move(of));
    }
    return ExcludeByBloomFilters(file, 0, row_group, specs, filter, read, &known);
  });
  Expect(status.ok(), "Bloom filters can be read where columns can be read");
  for (size_t c = 0; c < specs.size(); ++c) {
    if (!IsTrue(known[c], *values[c], 0, file.RowsOf(row_group))) return false;
  }
  return true;
}

// Draws ranges of keys around values that occur.
std::vector<KeyRange> DrawRanges(const Values* values, std::mt19937_64* random) {
  const auto draw = [&]() -> int64_t {
    if (values != nullptr && !values->keys.empty() && (*random)() % 8 > 0) {
      const int64_t key = values->keys[(*random)() % values->keys.size()];
      const auto step = static_cast<int64_t>((*random)() % 3) - 1;
      int64_t near = 0;
      return __builtin_add_overflow(key, step, &near) ? key : near;
    }
    return static_cast<int64_t>((*random)());
  };
  std::vector<int64_t> edges;
  for (auto n = 2 * ((*random)() % 8); n > 0; --n) edges.push_back(draw());
  std::ranges::sort(edges);
  const bool points = (*random)() % 2 == 0;  // values, for which Bloom filters are asked
  std::vector<KeyRange> ranges;
  for (size_t i = 0; i + 1 < edges.size(); i += 2) {
    if (ranges.empty() || edges[i] > ranges.back().last) {
      ranges.push_back({edges[i], points ? edges[i] : edges[i + 1]});
    }
  }
  return ranges;
}

// Returns 1 if the row passes the test.
uint8_t Passes(const ValueTest& test, const Values& values, size_t row) {
  if (values.valid[row] == 0) return test.nulls ? 1 : 0;
  return std::ranges::any_of(test.ranges, [&](const KeyRange& range) {
    return range.first <= values.keys[row] && values.keys[row] <= range.last;
  });
}

void Search(const FileSpec& file, int32_t row_group, const std::vector<ColumnSpec>& specs,
            std::mt19937_64* random) {
  std::vector<std::optional<Values>> values;
  for (const ColumnSpec& spec : specs) values.push_back(Plain(file, row_group, spec));
  RowFilter filter;
  const auto tests = 1 + (*random)() % 4;
  for (size_t i = 0; i < tests; ++i) {
    const auto column = static_cast<int32_t>((*random)() % specs.size());
    const auto& of = values[static_cast<size_t>(column)];
    filter.tests.push_back({.column = column,
                            .ranges = DrawRanges(of ? &*of : nullptr, random),
                            .nulls = (*random)() % 2 == 0});
    filter.program.push_back(static_cast<int32_t>(i));
    if (i > 0) {
      filter.program.push_back((*random)() % 2 == 0 ? RowFilter::kAnd : RowFilter::kOr);
    }
  }
  Expect(filter.Check(specs.size()).ok(), "a filter as fastload.rows makes it");
  FileTable files({file});
  BlockPool fetches(MakePrivateMemory(), 1 << 20);
  BlockPool page_blocks(MakePrivateMemory(), 0);
  BlockMemory pool(&page_blocks);
  Counters counters;
  const bool leaves_out = (*random)() % 2 == 0;
  const auto found = SearchRowGroup({.files = &files,
                                     .columns = &specs,
                                     .filter = &filter,
                                     .fetches = &fetches,
                                     .pool = &pool,
                                     .counters = &counters,
                                     .page_hole_bytes = leaves_out ? 0 : kPageHoleBytes},
                                    {0, row_group});
  if (!found.ok()) return;
  const int64_t rows = file.RowsOf(row_group);
  Expect(found->count >= 0 && found->count <= rows, "the number of rows found");
  Expect(found->bits.empty()
             ? found->count == 0 || found->count == rows
             : found->bits.size() == static_cast<size_t>((rows + 63) / 64),
         "the bits of the rows found");
  bool indexed = false;
  for (size_t c = 0; c < specs.size(); ++c) {
    if (!values[c]) return;
    if (!BoundsAreTrue(file, row_group, specs[c], *values[c], &indexed)) return;
  }
  if (indexed && leaves_out) return;
  if (!BloomFiltersAreTrue(file, row_group, specs, filter, values)) return;
  int64_t count = 0;
  for (size_t row = 0; row < static_cast<size_t>(rows); ++row) {
    std::vector<uint8_t> stack;
    for (const int32_t step : filter.program) {
      if (step >= 0) {
        const ValueTest& test = filter.tests[static_cast<size_t>(step)];
        stack.push_back(Passes(test, *values[static_cast<size_t>(test.column)], row));
        continue;
      }
      const uint8_t second = stack.back();
      stack.pop_back();
      stack.back() =
          step == RowFilter::kAnd ? stack.back() & second : stack.back() | second;
    }
    const bool expected = stack.back() != 0;
    const bool told = found->bits.empty()
                          ? found->count > 0
                          : (found->bits[row / 64] >> (row % 64) & 1) != 0;
    Expect(told == expected, "row " + std::to_string(row) + " of row group " +
                                 std::to_string(row_group) +
                                 (told ? " is found" : " is not found"));
    count += expected ? 1 : 0;
  }
  Expect(count == found->count, "the number of rows found");
}

void Run(const uint8_t* data, size_t size) {
  File().Write(data, size);
  const auto text = std::string_view(reinterpret_cast<const char*>(data), size);
  const std::string path = File().path();
  const auto tail = Footer::TailBytes(text, static_cast<int64_t>(size), path);
  if (!tail.ok()) return;
  const auto footer = Footer::Make(text.substr(size - static_cast<size_t>(*tail)),
                                   static_cast<int64_t>(size), path);
  if (!footer.ok() || (*footer)->num_rows() > kMostRows ||
      (*footer)->row_group_rows().size() > kMostRowGroups) {
    return;
  }
  const FileSpec file{.path = path,
                      .bytes = static_cast<int64_t>(size),
                      .mtime_ns = File().modified_ns(),
                      .footer = *footer};
  std::vector<ColumnSpec> specs;
  for (int32_t leaf = 0; leaf < static_cast<int32_t>((*footer)->leaves().size());
       ++leaf) {
    const auto spec = ColumnOf(**footer, leaf);
    constexpr std::array<uint8_t, 8> kZero{};
    const bool has_keys = spec && !spec->bytes && spec->depth == 0 &&
                          spec->list_size == 0 && KeyOf(spec->dtype, kZero.data());
    if (!has_keys || specs.size() == kMostColumns) continue;
    const auto chunks = (*footer)->Chunks(leaf);
    const bool small =
        chunks.ok() && std::ranges::all_of(*chunks, [](const FooterChunk& chunk) {
          return chunk.uncompressed_bytes <= kMostChunkBytes;
        });
    if (small) specs.push_back(*spec);
  }
  if (specs.empty()) return;
  std::mt19937_64 random(Hash64(data, size, 0));
  for (int32_t g = 0; g < file.row_groups(); ++g) Search(file, g, specs, &random);
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
