#include "fastload/row_finder.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <iterator>
#include <set>
#include <span>
#include <utility>

#include "fastload/chunk_open.h"
#include "fastload/chunk_reader.h"
#include "fastload/coalesce.h"
#include "fastload/constant_reader.h"
#include "fastload/fetch.h"
#include "fastload/known_values.h"
#include "fastload/page_index.h"
#include "fastload/page_selection.h"
#include "fastload/row_selection.h"
#include "fastload/selected_reader.h"

namespace fastload {
namespace {

// Rows tested at once: what is known of them stays in the L1 and L2 cache.
constexpr int64_t kBlockRows = 4096;
// Of one read. Most column chunks are one.
constexpr int64_t kSegmentBytes = 4 << 20;
// Of one read from a store: less than what a link carries in a request's latency.
constexpr int64_t kHoleBytes = 64 << 10;
// Memory of past reads and pages is kept up to this.
constexpr int64_t kMemoryBytes = 64 << 20;

// Rows that lie in one page of each column.
struct Stretch {
  int64_t start = 0;
  int64_t rows = 0;
  Verdict verdict = Verdict::kSome;
};

// Bits from bit `at` on: those of `n` bytes, each 0 or 1. They are 0 before.
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

// The tests of one column, run on blocks of its rows, front to back.
class ColumnTests {
 public:
  ColumnTests(const ColumnSpec* spec, bool nullable) : spec_(spec), nullable_(nullable) {}

  // `passes` receives a byte a row, of which the test takes up to kBlockRows at once.
  void Add(const ValueTest* test, uint8_t* passes) {
    tests_.push_back({.test = test, .passes = passes});
  }
  void Open(std::unique_ptr<FixedReader> reader) { reader_ = std::move(reader); }

  Status Run(int64_t rows) {
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
        outcome.passes[i] =
            valid_[static_cast<size_t>(i)] != 0 ? outcome.passes[i] : null;
      }
    }
    return Status::OK();
  }

  const std::string& name() const { return spec_->name; }
  int64_t page() const { return reader_ ? reader_->page() : -1; }

 private:
  struct Outcome {
    const ValueTest* test;
    uint8_t* passes;
    std::vector<uint8_t> of_codes;  // by entry of the dictionary
  };

  // Rows from `at` of the block on, at most `most`; returns how many.
  Result<int64_t> RunPage(int64_t at, int64_t most) {
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

  // Asks the tests of each entry of a dictionary.
  void LookAt(std::span<const uint8_t> dictionary) {
    if (std::exchange(dictionary_, dictionary.data()) == dictionary.data()) return;
    const auto entries = static_cast<int64_t>(dictionary.size()) / ItemSize(spec_->dtype);
    for (Outcome& outcome : tests_) {
      outcome.of_codes.resize(static_cast<size_t>(entries));
      outcome.test->Run(spec_->dtype, dictionary.data(), entries,
                        outcome.of_codes.data());
    }
  }

  const ColumnSpec* const spec_;
  const bool nullable_;
  std::vector<Outcome> tests_;
  std::unique_ptr<FixedReader> reader_;
  const uint8_t* dictionary_ = nullptr;
  std::vector<uint64_t> values_;  // or codes
  std::vector<uint8_t> valid_;
};

}  // namespace

// The search of one row group.
class RowGroupSearch {
 public:
  RowGroupSearch(RowFinder* finder, RowGroupId id)
      : finder_(finder),
        id_(id),
        file_(finder->files_.spec(id.file)),
        rows_(file_.RowsOf(id.row_group)),
        io_(MakeInlineExecutor()),
        fetch_{io_.get(), &finder->fetches_, &finder->files_, &finder->counters_} {}

  Result<FoundRows> Run() {
    FoundRows found;
    const Status status = CatchParquet([&]() -> Status {
      for (const ColumnSpec& spec : finder_->columns_) {
        ARROW_ASSIGN_OR_RAISE(auto known,
                              KnownOfChunk(file_, id_.file, id_.row_group, spec));
        known_.push_back(std::move(known));
      }
      const Verdict verdict = finder_->filter_.Of(known_);
      if (verdict == Verdict::kSome && rows_ > 0) {
        ARROW_ASSIGN_OR_RAISE(found, OfPages());
      } else if (verdict == Verdict::kAll) {
        found.count = rows_;
      }
      return Status::OK();
    });
    if (!status.ok()) return At(status, {.file = file_.path, .row_group = id_.row_group});
    return found;
  }

 private:
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

  // The row group, cut where a page of one of the columns begins.
  Result<std::vector<Stretch>> Stretches() {
    ARROW_ASSIGN_OR_RAISE(indexes_, Indexes());
    std::vector<PageBounds> bounds(finder_->columns_.size());
    std::vector<std::vector<KnownValues>> pages(bounds.size());
    std::set<int64_t> edges{0, rows_};
    for (size_t c = 0; c < bounds.size(); ++c) {
      const ColumnSpec& spec = finder_->columns_[c];
      if (!spec.HasLeaf(id_.file)) continue;
      ARROW_ASSIGN_OR_RAISE(
          bounds[c], ReadPageBounds(file_, *indexes_, id_.row_group, LeafOf(spec)));
      pages[c] = KnownOfPages(file_, id_.file, spec, bounds[c]);
      edges.insert(bounds[c].first_rows.begin(), bounds[c].first_rows.end());
    }
    std::vector<Stretch> stretches;
    std::vector<KnownValues> known = known_;
    for (auto edge = edges.begin(); std::next(edge) != edges.end(); ++edge) {
      for (size_t c = 0; c < bounds.size(); ++c) {
        const auto& firsts = bounds[c].first_rows;
        const auto behind = std::ranges::upper_bound(firsts, *edge);
        if (!firsts.empty()) {
          known[c] = pages[c][static_cast<size_t>(behind - firsts.begin() - 1)];
        }
      }
      stretches.push_back({*edge, *std::next(edge) - *edge, finder_->filter_.Of(known)});
    }
    return stretches;
  }

  // What page indexes are read from: of a store all that the search needs is asked for at
  // once.
  Result<std::shared_ptr<File>> Indexes() {
    if (!file_.remote) return finder_->files_.Open(id_.file);
    std::vector<ByteRange> ranges;
    for (const ColumnSpec& spec : finder_->columns_) {
      if (!spec.HasLeaf(id_.file)) continue;
      ARROW_ASSIGN_OR_RAISE(
          const auto indexes,
          IndexRanges(file_, id_.row_group, LeafOf(spec), /*bounds=*/true));
      ranges.insert(ranges.end(), indexes.begin(), indexes.end());
    }
    return std::make_shared<RangesOfFile>(finder_->files_.remote(), id_.file,
                                          Coalesce(ranges, kHoleBytes, kSegmentBytes));
  }

  // Tests the rows of `rows`, `count` in all, and sets the bits of those that pass.
  Status Decode(RowBits rows, int64_t count, uint64_t* bits) {
    const auto& tests = finder_->filter_.tests;
    std::vector<uint8_t> memory(tests.size() * kBlockRows);
    std::vector<uint8_t*> passes(tests.size());
    for (size_t i = 0; i < tests.size(); ++i) passes[i] = memory.data() + i * kBlockRows;
    std::vector<ColumnTests> columns;
    std::vector<AskedChunk> chunks;
    for (size_t c = 0; c < finder_->columns_.size(); ++c) {
      ColumnTests& column = columns.emplace_back(&finder_->columns_[c], known_[c].nulls);
      for (size_t i = 0; i < tests.size(); ++i) {
        if (tests[i].column == static_cast<int32_t>(c)) column.Add(&tests[i], passes[i]);
      }
      auto chunk = Ask(finder_->columns_[c], rows);
      if (!chunk.ok()) return AtColumn(column, chunk.status());
      chunks.push_back(*std::move(chunk));
    }
    for (size_t c = 0; c < columns.size(); ++c) {
      auto reader = Open(finder_->columns_[c], rows, std::move(chunks[c]));
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
      const uint8_t* outcome = finder_->filter_.Join(passes, n);
      for (int64_t left = n; left > 0;) {
        const auto run = open.Next(left, /*blocks=*/false);
        SetBits(outcome, run.rows, run.start, bits);
        outcome += run.rows;
        left -= run.rows;
      }
    }
    return Status::OK();
  }

  // What is read of a column chunk; nothing where the file lacks the column.
  struct AskedChunk {
    ChunkPages pages;
    std::shared_ptr<ByteStream> stream;
  };

  // Those rows of a column; a store brings them meanwhile.
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

  // A reader of those rows.
  Result<std::unique_ptr<FixedReader>> Open(const ColumnSpec& spec, RowBits rows,
                                            AskedChunk asked) {
    if (!spec.HasLeaf(id_.file)) return MakeConstantFixedReader(&spec, id_.file);
    ARROW_ASSIGN_OR_RAISE(ChunkInput input,
                          OpenChunk(file_, id_.row_group, LeafOf(spec),
                                    std::move(asked.stream), &finder_->pool_));
    input.file = id_.file;
    if (rows.bits == nullptr) return FixedReader::Make(std::move(input), &spec);
    return MakeSelectedFixedReader(std::move(input), &spec, rows, std::move(asked.pages));
  }

  std::shared_ptr<ByteStream> Stream(std::vector<ByteRange> ranges) const {
    if (finder_->files_.OnDisk(id_.file, ranges)) {
      return MakeLocalStream(fetch_, id_.file, std::move(ranges),
                             {.segment_bytes = kSegmentBytes, .cancelled = cancelled_});
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
    Place place{.file = file_.path,
                .row_group = id_.row_group,
                .column = column.name(),
                .page = column.page()};
    if (const auto row = RowOf(status)) {
      place.row = *row + RowGroupStarts(file_)[static_cast<size_t>(id_.row_group)];
    }
    return At(status, place);
  }

  RowFinder* const finder_;
  const RowGroupId id_;
  const FileSpec& file_;
  const int64_t rows_;
  const std::unique_ptr<Executor> io_;  // reads are this thread's own
  const FetchContext fetch_;
  const std::shared_ptr<const std::atomic<bool>> cancelled_ =
      std::make_shared<std::atomic<bool>>(false);
  std::vector<KnownValues> known_;  // by column
  std::shared_ptr<File> indexes_;   // what page indexes are read from
};

Result<std::shared_ptr<RowFinder>> RowFinder::Make(std::vector<FileSpec> files,
                                                   std::shared_ptr<RemoteQueue> remote,
                                                   std::vector<ColumnSpec> columns,
                                                   RowFilter filter, int32_t threads) {
  ARROW_RETURN_NOT_OK(filter.Check(columns.size()));
  for (const ColumnSpec& spec : columns) {
    const std::array<uint8_t, 8> zero{};
    const bool flat = !spec.bytes && spec.depth == 0 && spec.list_size == 0;
    if (!flat || !spec.fill || !KeyOf(spec.dtype, zero.data())) {
      return Status::Invalid("Expected flat columns of numbers that take nulls, got `",
                             spec.name, "`");
    }
  }
  return std::shared_ptr<RowFinder>(new RowFinder(std::move(files), std::move(remote),
                                                  std::move(columns), std::move(filter),
                                                  threads));
}

RowFinder::RowFinder(std::vector<FileSpec> files, std::shared_ptr<RemoteQueue> remote,
                     std::vector<ColumnSpec> columns, RowFilter filter, int32_t threads)
    : files_(std::move(files), std::move(remote)),
      columns_(std::move(columns)),
      filter_(std::move(filter)),
      fetches_(MakePrivateMemory(), kMemoryBytes),
      pool_(arrow::default_memory_pool(), kMemoryBytes),
      threads_(MakeThreadPool("fastload-filter", threads)) {}

RowFinder::~RowFinder() {
  files_.CloseAll();
  threads_->Close();
}

Result<FoundRows> RowFinder::Find(RowGroupId row_group) {
  return RowGroupSearch(this, row_group).Run();
}

RowSearch::RowSearch(RowFinder* finder, std::vector<RowGroupId> row_groups, bool skip)
    : state_(std::make_shared<State>()) {
  state_->left = row_groups.size();
  state_->first_failed = row_groups.size();
  state_->found.assign(row_groups.size(), FoundRows{});
  state_->row_groups = std::move(row_groups);
  for (size_t i = 0; i < state_->row_groups.size(); ++i) {
    finder->threads()->Submit(0, [finder, state = state_, i, skip](Scratch&) {
      if (i <= state->first_failed) {
        state->found[i] = finder->Find(state->row_groups[i]);
        const Status& status = state->found[i].status();
        if (!status.ok() && !(skip && KindOf(status) == ErrorKind::kCorruptFile)) {
          size_t first = state->first_failed;
          while (i < first && !state->first_failed.compare_exchange_weak(first, i)) {
          }
        }
      }
      std::lock_guard lock(state->mutex);
      if (--state->left == 0) state->over.notify_all();
    });
  }
}

RowSearch::~RowSearch() {
  state_->first_failed = 0;
  std::unique_lock lock(state_->mutex);
  state_->over.wait(lock, [this] { return state_->left == 0; });
}

bool RowSearch::Wait(std::chrono::milliseconds timeout) {
  std::unique_lock lock(state_->mutex);
  return state_->over.wait_for(lock, timeout, [this] { return state_->left == 0; });
}

}  // namespace fastload
