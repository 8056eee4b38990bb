#include "fastload/measure/roof.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <future>
#include <limits>
#include <memory>
#include <mutex>
#include <span>
#include <utility>

#include "arrow/buffer.h"
#include "arrow/io/memory.h"
#include "fastload/base/block_memory.h"
#include "fastload/base/counters.h"
#include "fastload/decode/pages/chunk_open.h"
#include "fastload/decode/pages/kept_pages.h"
#include "parquet/column_page.h"

namespace fastload {
namespace {

struct Chunk {
  int32_t file;
  int32_t row_group;
  int32_t leaf;
  ByteRange range;  // range of the bytes to read
  int64_t pages;    // the most pages to read
  // The decompressed pages; null if they are not kept.
  std::shared_ptr<const KeptChunk> kept = nullptr;

  KeptPages::Key key() const { return {file, row_group, leaf}; }
};

struct Input {
  FileSpec spec;
  std::shared_ptr<LocalFile> handle;
};

// Runs `work(thread)` on `threads` threads. Returns the seconds until all threads are
// done.
template <typename Work>
double TimeThreads(int32_t threads, const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  {
    std::vector<std::future<void>> running;  // the destructor waits for all threads
    running.reserve(static_cast<size_t>(threads));
    for (int32_t i = 0; i < threads; ++i) {
      running.push_back(std::async(std::launch::async, [&work, i] { work(i); }));
    }
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Reads the chunk into `memory`, and calls `visit(page)` on its pages until a call
// returns false. Returns the bytes of the chunk up to the end of the last visited page.
// `kept`, if any, records the pages of a compressed chunk.
template <typename Visit>
Result<int64_t> VisitPages(const Input& input, const Chunk& chunk,
                           std::vector<uint8_t>* memory, arrow::MemoryPool* pool,
                           const Visit& visit, std::atomic<int64_t>* read_ns = nullptr,
                           KeptPages* kept = nullptr) {
  const ByteRange& range = chunk.range;
  if (static_cast<int64_t>(memory->size()) < range.bytes) {
    memory->resize(static_cast<size_t>(range.bytes));
  }
  const int64_t start_ns = NowNs();
  ARROW_RETURN_NOT_OK(input.handle->ReadAt(range.offset, range.bytes, memory->data()));
  if (read_ns != nullptr) *read_ns += NowNs() - start_ns;
  auto stream = std::make_shared<arrow::io::BufferReader>(
      std::make_shared<arrow::Buffer>(memory->data(), range.bytes));
  ARROW_ASSIGN_OR_RAISE(ChunkInput opened,
                        OpenChunk(input.spec, chunk.row_group, chunk.leaf, stream, pool,
                                  {.arrow_decompresses = true}));
  if (kept != nullptr && opened.compressed) {
    opened.pages = kept->Record(chunk.key(), opened.levels, opened.page_bytes,
                                std::move(opened.pages));
  }
  ARROW_RETURN_NOT_OK(CatchParquet([&] {
    while (const auto page = opened.pages->NextPage()) {
      if (!visit(*page)) break;
    }
    return Status::OK();
  }));
  return stream->Tell();
}

// Shortens the chunk to its dictionary and the pages that contain the first `rows` rows
// of its row group. In lists, where pages may not state their rows, values are counted
// instead.
Status KeepFirstRows(const Input& input, int64_t rows, arrow::MemoryPool* pool,
                     Chunk* chunk) {
  ARROW_ASSIGN_OR_RAISE(const FooterChunk stored,
                        input.spec.Chunk(chunk->row_group, chunk->leaf));
  const auto levels = static_cast<double>(stored.values);
  const double wanted = levels * static_cast<double>(rows) /
                        static_cast<double>(input.spec.RowsOf(chunk->row_group));
  std::vector<uint8_t> memory;
  int64_t values = 0;
  int64_t pages = 0;
  ARROW_ASSIGN_OR_RAISE(
      chunk->range.bytes,
      VisitPages(input, *chunk, &memory, pool, [&](const parquet::Page& page) {
        ++pages;
        if (page.type() != parquet::PageType::DICTIONARY_PAGE) {
          values += static_cast<const parquet::DataPage&>(page).num_values();
        }
        return static_cast<double>(values) < wanted;
      }));
  chunk->pages = pages;
  return Status::OK();
}

// Returns the column chunks that contain the first `first_rows` rows, the largest first,
// so that the threads that share the chunks end together.
Result<std::vector<Chunk>> ChunksOf(const std::vector<Input>& inputs,
                                    const std::vector<std::vector<int32_t>>& leaves,
                                    int64_t first_rows, arrow::MemoryPool* pool) {
  std::vector<Chunk> chunks;
  int64_t left = first_rows;
  for (size_t f = 0; f < inputs.size(); ++f) {
    const FileSpec& spec = inputs[f].spec;
    for (int32_t g = 0; g < spec.row_groups() && left > 0; ++g) {
      const int64_t rows = spec.RowsOf(g);
      for (const int32_t leaf : leaves[f]) {
        ARROW_ASSIGN_OR_RAISE(const ByteRange range, ChunkRange(spec, g, leaf));
        chunks.push_back({static_cast<int32_t>(f), g, leaf, range,
                          std::numeric_limits<int64_t>::max()});
        if (left >= rows) continue;
        const Status status = KeepFirstRows(inputs[f], left, pool, &chunks.back());
        if (!status.ok()) return At(status, {spec.path, g});
      }
      left -= rows;
    }
  }
  std::ranges::stable_sort(chunks, std::ranges::greater{},
                           [](const Chunk& chunk) { return chunk.range.bytes; });
  return chunks;
}

// Threads that share column chunks, each with memory for the bytes of a chunk.
class Threads {
 public:
  Threads(int32_t threads, const std::vector<Input>* inputs, std::vector<Chunk>* chunks)
      : inputs_(*inputs),
        chunks_(*chunks),
        memory_(
            static_cast<size_t>(threads),
            std::vector<uint8_t>(
                chunks->empty() ? 0 : static_cast<size_t>(chunks->front().range.bytes))) {
  }

  // Calls `work(input, chunk, memory)` on each chunk. Returns the seconds until all
  // threads are done.
  template <typename Work>
  Result<double> Time(const Work& work) {
    std::atomic<size_t> next{0};
    std::mutex mutex;
    Status failure;
    const double seconds =
        TimeThreads(static_cast<int32_t>(memory_.size()), [&](int32_t thread) {
          for (size_t i = next++; i < chunks_.size(); i = next++) {
            Chunk& chunk = chunks_[i];
            const Input& input = inputs_[static_cast<size_t>(chunk.file)];
            const Status status =
                work(input, &chunk, &memory_[static_cast<size_t>(thread)]);
            if (status.ok()) continue;
            std::lock_guard lock(mutex);
            if (failure.ok()) failure = At(status, {input.spec.path, chunk.row_group});
            return;
          }
        });
    ARROW_RETURN_NOT_OK(failure);
    return seconds;
  }

 private:
  const std::vector<Input>& inputs_;
  std::vector<Chunk>& chunks_;
  std::vector<std::vector<uint8_t>> memory_;
};

// Reads all bytes, as 64-bit words, and returns their sum.
uint64_t SumOf(std::span<const uint8_t> bytes) {
  // Several sums at a time, so that no addition waits for the one before.
  constexpr size_t kSums = 8;
  std::array<uint64_t, kSums> sums = {};
  size_t at = 0;
  for (; at + sizeof(sums) <= bytes.size(); at += sizeof(sums)) {
    std::array<uint64_t, kSums> words;
    std::memcpy(words.data(), bytes.data() + at, sizeof(words));
    for (size_t i = 0; i < kSums; ++i) sums[i] += words[i];
  }
  uint64_t sum = 0;
  for (; at < bytes.size(); ++at) sum += bytes[at];
  for (const uint64_t one : sums) sum += one;
  return sum;
}

// Copies `output_bytes` bytes once, on all threads. Returns the seconds.
double TimeCopies(int64_t output_bytes, int32_t threads) {
  // The buffer is larger than the caches of one core, like batches.
  constexpr int64_t kBuffer = int64_t{32} << 20;
  std::vector<std::vector<uint8_t>> from(static_cast<size_t>(threads));
  std::vector<std::vector<uint8_t>> to(static_cast<size_t>(threads));
  for (int32_t i = 0; i < threads; ++i) {
    from[static_cast<size_t>(i)].assign(kBuffer, 1);
    to[static_cast<size_t>(i)].assign(kBuffer, 2);
  }
  return TimeThreads(threads, [&](int32_t i) {
    int64_t left = output_bytes / threads;
    while (left > 0) {
      const int64_t n = std::min(left, kBuffer);
      std::memcpy(to[static_cast<size_t>(i)].data(), from[static_cast<size_t>(i)].data(),
                  static_cast<size_t>(n));
      left -= n;
    }
  });
}

}  // namespace

Result<RoofTimes> MeasureRoof(const std::vector<FileSpec>& files,
                              const std::vector<std::vector<int32_t>>& leaves,
                              int64_t output_bytes, int32_t threads, int64_t first_rows,
                              int64_t kept_limit_bytes) {
  std::vector<Input> inputs;
  for (const FileSpec& file : files) {
    ARROW_ASSIGN_OR_RAISE(auto handle, LocalFile::Open(file));
    inputs.push_back({file, std::move(handle)});
  }
  // A pool like the pipeline's, so that the roof includes no cost of memory that a loader
  // can avoid.
  BlockPool blocks(MakePrivateMemory(), int64_t{1} << 30);
  BlockMemory pool(&blocks);
  ARROW_ASSIGN_OR_RAISE(auto chunks, ChunksOf(inputs, leaves, first_rows, &pool));
  Threads sharing(threads, &inputs, &chunks);
  RoofTimes times;
  KeptPages kept(kept_limit_bytes);
  if (kept_limit_bytes > 0) {
    const auto keep = [&](const Input& input, Chunk* chunk,
                          std::vector<uint8_t>* memory) {
      int64_t read = 0;
      ARROW_RETURN_NOT_OK(VisitPages(
          input, *chunk, memory, &pool,
          [&](const parquet::Page&) { return ++read < chunk->pages; }, nullptr, &kept));
      chunk->kept = kept.Find(chunk->key());
      return Status::OK();
    };
    ARROW_RETURN_NOT_OK(sharing.Time(keep));
    for (const Chunk& chunk : chunks) {
      if (chunk.kept == nullptr) continue;
      times.kept_bytes += chunk.kept->bytes();
    }
  }
  std::atomic<int64_t> pages{0};
  std::atomic<int64_t> bytes{0};
  std::atomic<int64_t> read_ns{0};  // sum over all threads
  std::atomic<int64_t> kept_ns{0};  // sum over all threads
  std::atomic<int64_t> busy_ns{0};  // sum over all threads
  std::atomic<uint64_t> sum{0};     // keeps the compiler from leaving out the reads
  const auto visit = [&](const Input& input, Chunk* chunk, std::vector<uint8_t>* memory) {
    const Timer timer(&busy_ns);
    if (chunk->kept != nullptr) {
      const Timer kept_timer(&kept_ns);
      for (const auto& page : chunk->kept->pages()) {
        sum += SumOf({page->data(), static_cast<size_t>(page->size())});
      }
      return Status::OK();
    }
    int64_t read = 0;
    ARROW_RETURN_NOT_OK(VisitPages(
        input, *chunk, memory, &pool,
        [&](const parquet::Page&) { return ++read < chunk->pages; }, &read_ns));
    pages += read;
    bytes += chunk->range.bytes;
    return Status::OK();
  };
  ARROW_ASSIGN_OR_RAISE(times.pages_s, sharing.Time(visit));
  times.pages = pages;
  times.read_bytes = bytes;
  if (busy_ns > 0) {
    const double wall = times.pages_s / static_cast<double>(busy_ns.load());
    times.read_s = wall * static_cast<double>(read_ns.load());
    times.kept_s = wall * static_cast<double>(kept_ns.load());
  }
  times.memcpy_s = TimeCopies(output_bytes, threads);
  return times;
}

}  // namespace fastload
