#include "fastload/filter/row_group_search.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <iterator>
#include <limits>
#include <set>
#include <utility>

#include "fastload/base/executor.h"
#include "fastload/decode/chunk_reader.h"
#include "fastload/decode/constant_reader.h"
#include "fastload/decode/pages/chunk_open.h"
#include "fastload/decode/selected_reader.h"
#include "fastload/fetch/coalesce.h"
#include "fastload/fetch/fetch.h"
#include "fastload/fetch/local_stream.h"
#include "fastload/fetch/page_selection.h"
#include "fastload/filter/bloom_search.h"
#include "fastload/filter/known_values.h"
#include "fastload/plan/row_selection.h"
#include "fastload/source/page_index.h"

namespace fastload {
namespace {

// The rows of a block; the outcomes of a block stay in the L1 and L2 cache.
constexpr int64_t kBlockRows = 4096;
// The bytes of one read. Most column chunks take one read.
constexpr int64_t kSegmentBytes = 4 << 20;
// The largest hole that one read from a store includes: less than a link transfers during
// the latency of a request.
constexpr int64_t kHoleBytes = 64 << 10;
// The largest hole that one small read of a local file includes: a page of the system's
// page cache.
constexpr int64_t kLocalHoleBytes = 4 << 10;

// The most rows of a row group: windows have fewer, and the bits of so many rows take
// 256 MiB.
constexpr int64_t kMostRows = std::numeric_limits<int32_t>::max();

// Rows that are in one page of each column.
struct Stretch {
  int64_t start = 0;
  int64_t rows = 0;
  Verdict verdict = Verdict::kSome;
};

// Sets the bits from bit `at` on to `n` bytes, each 0 or 1. The bits must be 0 before.
void SetBits(const uint8_t* bytes, int64_t n, int64_t at, uint64_t* words) {
  for (int64_t done = 0; done < n; done += 8) {
    uint64_t group = 0;
    std::memcpy(&group, bytes + done,
                static_cast<size_t>(std::min<int64_t>(n - done, 8)));
    // Bit 0 of byte i goes to bit 56 + i, without carries.
    const uint64_t bits = (group * 0x0102040810204080) >> 56;
    const int64_t bit = at + done;
    words[bit / 64] |= bits << bit % 64;
    if (bit % 64 > 56 && bits >> (64 - bit % 64) != 0) {
      words[bit / 64 + 1] |= bits >> (64 - bit % 64);
    }
  }
}

void SetAll(int64_t start, int64_t rows, uint64_t* words) {
  for (int64_t at = start, stop = start + rows; at < stop; at = (at / 64 + 1) * 64) {
    uint64_t word = ~uint64_t{0} << at % 64;
    if (stop < (at / 64 + 1) * 64) word &= (uint64_t{1} << stop % 64) - 1;
    words[at / 64] |= word;
  }
}

// The tests of one column, front to back. Each value of a dictionary is tested once.
class ColumnTests {
 public:
  // `spec` is borrowed.
  ColumnTests(const ColumnSpec* spec, bool nullable) : spec_(spec), nullable_(nullable) {}

  // Adds a test. `passes` receives one byte for each row of a block. Both are borrowed.
  void Add(const ValueTest* test, uint8_t* passes) {
    tests_.push_back({.test = test, .passes = passes, .of_codes = {}});
  }
  void Open(std::unique_ptr<FixedReader> reader) { reader_ = std::move(reader); }

  // Tests the next `rows` rows, at most kBlockRows.
  Status Run(int64_t rows);

  const std::string& name() const { return spec_->name; }
  int64_t page() const { return reader_ ? reader_->page() : -1; }

 private:
  struct Outcome {
    const ValueTest* test;
    uint8_t* passes;
    std::vector<uint8_t> of_codes;  // outcomes by entry of the dictionary
  };

  // Tests at most `most` rows from row `at` of the block on. Returns how many rows were
  // tested.
  Result<int64_t> RunPage(int64_t at, int64_t most);

  // Runs the tests on each entry of a dictionary.
  void LookAt(std::span<const uint8_t> dictionary);

  const ColumnSpec* const spec_;
  const bool nullable_;
  std::vector<Outcome> tests_;
  std::unique_ptr<FixedReader> reader_;
  const uint8_t* dictionary_ = nullptr;
  std::vector<uint64_t> values_;  // values or codes of a block
  std::vector<uint8_t> valid_;
};

Status ColumnTests::Run(int64_t rows) {
  values_.resize(kBlockRows);
  valid_.resize(kBlockRows);
  for (int64_t done = 0; done < rows;) {
    ARROW_ASSIGN_OR_RAISE(const int64_t count, RunPage(done, rows - done));
    done += count;
  }
  if (!nullable_) return Status::OK();
  for (const Outcome& outcome : tests_) {
    const uint8_t null = outcome.test->nulls ? 1 : 0;
    for (int64_t i = 0; i < rows; ++i) {
      outcome.passes[i] = valid_[static_cast<size_t>(i)] != 0 ? outcome.passes[i] : null;
    }
  }
  return Status::OK();
}

Result<int64_t> ColumnTests::RunPage(int64_t at, int64_t most) {
  uint8_t* const valid = nullable_ ? valid_.data() + at : nullptr;
  auto* const values = reinterpret_cast<uint8_t*>(values_.data());
  ARROW_ASSIGN_OR_RAISE(const auto dictionary, reader_->Dictionary());
  if (!dictionary.empty()) {
    LookAt(dictionary);
    ARROW_ASSIGN_OR_RAISE(const int64_t count,
                          reader_->ReadCodes(most, {.bytes = 4}, values, valid));
    const auto* const codes = reinterpret_cast<const uint32_t*>(values);
    for (const Outcome& outcome : tests_) {
      for (int64_t i = 0; i < count; ++i) {
        outcome.passes[at + i] = outcome.of_codes[codes[i]];
      }
    }
    if (count > 0) return count;
  }
  ARROW_RETURN_NOT_OK(reader_->Read(most, values, ItemSize(spec_->dtype), valid));
  for (const Outcome& outcome : tests_) {
    outcome.test->Run(spec_->dtype, values, most, outcome.passes + at);
  }
  return most;
}

void ColumnTests::LookAt(std::span<const uint8_t> dictionary) {
  if (std::exchange(dictionary_, dictionary.data()) == dictionary.data()) return;
  const auto entries = static_cast<int64_t>(dictionary.size()) / ItemSize(spec_->dtype);
  for (Outcome& outcome : tests_) {
    outcome.of_codes.resize(static_cast<size_t>(entries));
    outcome.test->Run(spec_->dtype, dictionary.data(), entries, outcome.of_codes.data());
  }
}

class RowGroupSearch {
 public:
  RowGroupSearch(const SearchContext& context, RowGroupId id)
      : context_(context),
        id_(id),
        file_(context.files->spec(id.file)),
        rows_(file_.RowsOf(id.row_group)),
        io_(MakeInlineExecutor()),
        fetch_{.io = io_.get(),
               .pool = context.fetches,
               .files = context.files,
               .counters = context.counters,
               .page_hole_bytes = context.page_hole_bytes} {}

  Result<FoundRows> Run() {
    FoundRows found;
    const Status status = CatchParquet([&]() -> Status {
      ARROW_RETURN_NOT_OK(CheckRows());
      ARROW_RETURN_NOT_OK(ReadStatistics());
      for (const ColumnSpec& spec : *context_.columns) {
        ARROW_ASSIGN_OR_RAISE(auto known,
                              KnownOfChunk(file_, id_.file, id_.row_group, spec));
        known_.push_back(std::move(known));
      }
      Verdict verdict = context_.filter->Of(known_);
      if (verdict == Verdict::kSome && rows_ > 0) {
        ARROW_RETURN_NOT_OK(AskBloomFilters());
        verdict = context_.filter->Of(known_);
      }
      if (verdict == Verdict::kSome && rows_ > 0 && context_.decodes) {
        ARROW_ASSIGN_OR_RAISE(found, OfPages());
      } else if (verdict != Verdict::kNone) {
        found.count = rows_;
      }
      return Status::OK();
    });
    if (!status.ok()) return At(status, {.file = file_.path, .row_group = id_.row_group});
    return found;
  }

 private:
  // Checks the row count of the footer before memory is allocated for so many rows.
  Status CheckRows() const {
    if (rows_ > kMostRows) {
      return MakeError(ErrorKind::kUnsupported,
                       "Expected at most " + std::to_string(kMostRows) +
                           " rows in a row group, got " + std::to_string(rows_));
    }
    for (const ColumnSpec& spec : *context_.columns) {
      if (!spec.HasLeaf(id_.file)) continue;
      ARROW_ASSIGN_OR_RAISE(const FooterChunk chunk,
                            file_.Chunk(id_.row_group, LeafOf(spec)));
      const int64_t values = chunk.values;
      if (values == rows_) continue;
      return At(MakeError(ErrorKind::kCorruptFile, "Expected " + std::to_string(rows_) +
                                                       " values, got " +
                                                       std::to_string(values)),
                {.file = file_.path, .row_group = id_.row_group, .column = spec.name});
    }
    return Status::OK();
  }

  // Reads the footer's bounds of all columns at once; they are kept with the footer.
  Status ReadStatistics() const {
    std::vector<int32_t> leaves;
    for (const ColumnSpec& spec : *context_.columns) {
      if (spec.HasLeaf(id_.file)) leaves.push_back(LeafOf(spec));
    }
    if (leaves.empty()) return Status::OK();
    return file_.footer->Bounds(id_.row_group, leaves[0], leaves).status();
  }

  Status AskBloomFilters() {
    const auto read = [&](const std::vector<ByteRange>& ranges,
                          std::vector<std::vector<uint8_t>>* bytes) {
      return ReadSmall(ranges, bytes);
    };
    return ExcludeByBloomFilters(file_, id_.file, id_.row_group, *context_.columns,
                                 *context_.filter, read, &known_);
  }

  // Reads small ranges, each into an element of `bytes`. Ranges that lie close together
  // are one read; a store gets all requests at the same time.
  Status ReadSmall(const std::vector<ByteRange>& ranges,
                   std::vector<std::vector<uint8_t>>* bytes) {
    const auto reads =
        Coalesce(ranges, file_.remote ? kHoleBytes : kLocalHoleBytes, kSegmentBytes);
    std::shared_ptr<File> file;
    if (file_.remote) {
      file = std::make_shared<RangesOfFile>(context_.files->remote(), id_.file, reads);
    } else {
      ARROW_ASSIGN_OR_RAISE(file, context_.files->Open(id_.file));
    }
    bytes->resize(ranges.size());
    std::vector<uint8_t> buffer;
    for (const ByteRange& read : reads) {
      buffer.resize(static_cast<size_t>(read.bytes));
      ARROW_RETURN_NOT_OK(file->ReadAt(read.offset, read.bytes, buffer.data()));
      context_.counters->read_requests += 1;
      context_.counters->read_bytes += read.bytes;
      // A range that two reads share gets its bytes from both.
      for (size_t i = 0; i < ranges.size(); ++i) {
        const int64_t first = std::max(ranges[i].offset, read.offset);
        const int64_t last =
            std::min(ranges[i].offset + ranges[i].bytes, read.offset + read.bytes);
        if (first >= last) continue;
        (*bytes)[i].resize(static_cast<size_t>(ranges[i].bytes));
        std::memcpy((*bytes)[i].data() + (first - ranges[i].offset),
                    buffer.data() + (first - read.offset),
                    static_cast<size_t>(last - first));
      }
    }
    return Status::OK();
  }

  Result<FoundRows> OfPages() {
    ARROW_ASSIGN_OR_RAISE(const auto stretches, Stretches());
    std::vector<uint64_t> bits(static_cast<size_t>((rows_ + 63) / 64));
    std::vector<uint64_t> open;  // rows to be decoded; empty: all
    int64_t open_rows = rows_;
    if (!std::ranges::all_of(stretches, IsOpen)) {
      open.resize(bits.size());
      open_rows = 0;
      for (const Stretch& stretch : stretches) {
        if (IsOpen(stretch)) {
          open_rows += stretch.rows;
          SetAll(stretch.start, stretch.rows, open.data());
        } else if (stretch.verdict == Verdict::kAll) {
          SetAll(stretch.start, stretch.rows, bits.data());
        }
      }
    }
    const RowBits rows{open.empty() ? nullptr : reinterpret_cast<uint8_t*>(open.data()),
                       rows_};
    if (open_rows > 0) ARROW_RETURN_NOT_OK(Decode(rows, open_rows, bits.data()));
    FoundRows found;
    for (const uint64_t word : bits) found.count += std::popcount(word);
    if (found.count > 0 && found.count < rows_) found.bits = std::move(bits);
    return found;
  }

  static bool IsOpen(const Stretch& stretch) { return stretch.verdict == Verdict::kSome; }

  bool IsNullable(size_t c) const {
    const ColumnSpec& spec = (*context_.columns)[c];
    if (!spec.HasLeaf(id_.file)) return known_[c].nulls;
    return file_.Column(LeafOf(spec))->max_definition_level() > 0;
  }

  // Reads the page indexes. Where the index of a chunk and its statistics contradict each
  // other, neither is believed.
  Status ReadBounds() {
    ARROW_ASSIGN_OR_RAISE(indexes_, Indexes());
    bounds_.resize(context_.columns->size());
    for (size_t c = 0; c < bounds_.size(); ++c) {
      const ColumnSpec& spec = (*context_.columns)[c];
      if (!spec.HasLeaf(id_.file)) continue;
      ARROW_ASSIGN_OR_RAISE(
          bounds_[c], ReadPageBounds(file_, *indexes_, id_.row_group, LeafOf(spec)));
      if (!Contradict(known_[c], bounds_[c], rows_)) continue;
      bounds_[c] = {};
      known_[c] = {.nulls = IsNullable(c)};
    }
    return Status::OK();
  }

  // Cuts the row group wherever a page of one of the columns begins.
  Result<std::vector<Stretch>> Stretches() {
    ARROW_RETURN_NOT_OK(ReadBounds());
    std::vector<std::vector<KnownValues>> pages(bounds_.size());
    std::set<int64_t> edges{0, rows_};
    for (size_t c = 0; c < bounds_.size(); ++c) {
      if (bounds_[c].first_rows.empty()) continue;
      pages[c] = KnownOfPages(file_, id_.file, (*context_.columns)[c], bounds_[c]);
      edges.insert(bounds_[c].first_rows.begin(), bounds_[c].first_rows.end());
    }
    std::vector<Stretch> stretches;
    std::vector<KnownValues> known = known_;
    for (auto edge = edges.begin(); std::next(edge) != edges.end(); ++edge) {
      for (size_t c = 0; c < bounds_.size(); ++c) {
        const auto& firsts = bounds_[c].first_rows;
        const auto behind = std::ranges::upper_bound(firsts, *edge);
        if (!firsts.empty()) {
          known[c] = pages[c][static_cast<size_t>(behind - firsts.begin() - 1)];
        }
      }
      stretches.push_back({*edge, *std::next(edge) - *edge, context_.filter->Of(known)});
    }
    return stretches;
  }

  // Returns the file from which page indexes are read. From a store, all indexes that the
  // search needs are requested together.
  Result<std::shared_ptr<File>> Indexes() {
    if (!file_.remote) return context_.files->Open(id_.file);
    std::vector<ByteRange> ranges;
    for (const ColumnSpec& spec : *context_.columns) {
      if (!spec.HasLeaf(id_.file)) continue;
      ARROW_ASSIGN_OR_RAISE(
          const auto indexes,
          IndexRanges(file_, id_.row_group, LeafOf(spec), /*bounds=*/true));
      ranges.insert(ranges.end(), indexes.begin(), indexes.end());
    }
    return std::make_shared<RangesOfFile>(context_.files->remote(), id_.file,
                                          Coalesce(ranges, kHoleBytes, kSegmentBytes));
  }

  // Tests the rows of `rows`, `count` in all, and sets the bits of the rows that pass.
  Status Decode(RowBits rows, int64_t count, uint64_t* bits) {
    const auto& tests = context_.filter->tests;
    std::vector<uint8_t> memory(tests.size() * kBlockRows);
    std::vector<uint8_t*> passes(tests.size());
    for (size_t i = 0; i < tests.size(); ++i) passes[i] = memory.data() + i * kBlockRows;
    std::vector<ColumnTests> columns;
    std::vector<AskedChunk> chunks;
    for (size_t c = 0; c < context_.columns->size(); ++c) {
      ColumnTests& column = columns.emplace_back(&(*context_.columns)[c], IsNullable(c));
      for (size_t i = 0; i < tests.size(); ++i) {
        if (tests[i].column == static_cast<int32_t>(c)) column.Add(&tests[i], passes[i]);
      }
      auto chunk = Ask((*context_.columns)[c], rows);
      if (!chunk.ok()) return AtColumn(column, chunk.status());
      chunks.push_back(*std::move(chunk));
    }
    for (size_t c = 0; c < columns.size(); ++c) {
      auto reader = Open((*context_.columns)[c], rows, std::move(chunks[c]));
      if (!reader.ok()) return AtColumn(columns[c], reader.status());
      columns[c].Open(*std::move(reader));
    }
    SelectedRows open(rows);
    for (int64_t done = 0; done < count; done += kBlockRows) {
      const int64_t n = std::min(count - done, kBlockRows);
      for (ColumnTests& column : columns) {
        const Status status = column.Run(n);
        if (!status.ok()) return AtColumn(column, status);
      }
      const uint8_t* outcome = context_.filter->Join(passes, n);
      for (int64_t left = n; left > 0;) {
        const auto run = open.Next(left, /*blocks=*/false);
        SetBits(outcome, run.rows, run.start, bits);
        outcome += run.rows;
        left -= run.rows;
      }
    }
    return Status::OK();
  }

  // The requested parts of a column chunk; empty if the file lacks the column.
  struct AskedChunk {
    ChunkPages pages;
    std::shared_ptr<ByteStream> stream;
  };

  // Requests the given rows of a column; a store brings the bytes meanwhile.
  Result<AskedChunk> Ask(const ColumnSpec& spec, RowBits rows) {
    AskedChunk asked;
    if (!spec.HasLeaf(id_.file)) return asked;
    ARROW_ASSIGN_OR_RAISE(const auto range,
                          ChunkRange(file_, id_.row_group, LeafOf(spec)));
    ARROW_ASSIGN_OR_RAISE(
        asked.pages, SelectPages(fetch_, id_.file, id_.row_group, LeafOf(spec), range,
                                 rows, indexes_.get()));
    asked.stream = Stream(std::move(asked.pages.ranges));
    if (file_.remote) asked.stream->Start([] {});
    return asked;
  }

  // Opens a reader of the requested rows.
  Result<std::unique_ptr<FixedReader>> Open(const ColumnSpec& spec, RowBits rows,
                                            AskedChunk asked) {
    if (!spec.HasLeaf(id_.file)) return MakeConstantFixedReader(&spec, id_.file);
    ARROW_ASSIGN_OR_RAISE(ChunkInput input,
                          OpenChunk(file_, id_.row_group, LeafOf(spec),
                                    std::move(asked.stream), context_.pool));
    input.file = id_.file;
    if (rows.bits == nullptr) return MakeFixedReader(std::move(input), &spec);
    return MakeSelectedFixedReader(std::move(input), &spec, rows, std::move(asked.pages));
  }

  std::shared_ptr<ByteStream> Stream(std::vector<ByteRange> ranges) {
    if (context_.files->OnDisk(id_.file, ranges)) {
      return MakeLocalStream(fetch_, id_.file, std::move(ranges),
                             {.segment_bytes = kSegmentBytes, .cancelled = cancelled_},
                             &seen_cached_);
    }
    RemoteReads reads;
    for (const ByteRange& range : Coalesce(ranges, kHoleBytes, kSegmentBytes)) {
      reads.reads.push_back(std::make_shared<RemoteRead>(id_.file, range));
    }
    return std::make_shared<ChunkStream>(fetch_, id_.file, ranges, reads, 0, cancelled_);
  }

  int32_t LeafOf(const ColumnSpec& spec) const {
    return spec.leaves[static_cast<size_t>(id_.file)];
  }

  Status AtColumn(const ColumnTests& column, const Status& status) const {
    Location location{.file = file_.path,
                      .row_group = id_.row_group,
                      .column = column.name(),
                      .page = column.page()};
    if (const auto row = RowOf(status)) {
      location.row = *row + RowGroupStarts(file_)[static_cast<size_t>(id_.row_group)];
    }
    return At(status, location);
  }

  const SearchContext context_;
  const RowGroupId id_;
  const FileSpec& file_;
  const int64_t rows_;
  const std::unique_ptr<Executor> io_;  // runs reads on the calling thread
  const FetchContext fetch_;
  const std::shared_ptr<const std::atomic<bool>> cancelled_ =
      std::make_shared<std::atomic<bool>>(false);
  std::vector<KnownValues> known_;      // by column
  std::optional<int64_t> seen_cached_;  // the `seen` of File::IsCached
  std::shared_ptr<File> indexes_;       // the file from which page indexes are read
  std::vector<PageBounds> bounds_;      // by column, once the page indexes are read
};

}  // namespace

Result<FoundRows> SearchRowGroup(const SearchContext& context, RowGroupId row_group) {
  return RowGroupSearch(context, row_group).Run();
}

}  // namespace fastload
