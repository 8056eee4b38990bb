#include "fastload/roof.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>

#include "arrow/buffer.h"
#include "arrow/io/memory.h"
#include "fastload/chunk_open.h"
#include "fastload/recycling_pool.h"

namespace fastload {
namespace {

struct Chunk {
  int32_t file;
  int32_t row_group;
  int32_t leaf;
};

// Runs `work(thread)` on `threads` threads; the seconds until all are done.
template <typename Work>
double TimeThreads(int32_t threads, const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  {
    std::vector<std::jthread> pool;
    pool.reserve(static_cast<size_t>(threads));
    for (int32_t i = 0; i < threads; ++i) pool.emplace_back([&work, i] { work(i); });
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Status ReadPages(const FileSpec& file, const LocalFile& handle, const Chunk& chunk,
                 std::vector<uint8_t>* memory, arrow::MemoryPool* pool,
                 std::atomic<int64_t>* pages, std::atomic<int64_t>* bytes) {
  ARROW_ASSIGN_OR_RAISE(ByteRange range, ChunkRange(file, chunk.row_group, chunk.leaf));
  if (static_cast<int64_t>(memory->size()) < range.bytes) {
    memory->resize(static_cast<size_t>(range.bytes));
  }
  ARROW_RETURN_NOT_OK(handle.ReadAt(range.offset, range.bytes, memory->data()));
  *bytes += range.bytes;
  auto stream = std::make_shared<arrow::io::BufferReader>(
      std::make_shared<arrow::Buffer>(memory->data(), range.bytes));
  ARROW_ASSIGN_OR_RAISE(ChunkInput input,
                        OpenChunk(file, chunk.row_group, chunk.leaf, std::move(stream),
                                  pool, {.arrow_decompresses = true}));
  return CatchParquet([&] {
    while (input.pages->NextPage() != nullptr) ++*pages;
    return Status::OK();
  });
}

}  // namespace

Result<RoofTimes> MeasureRoof(const std::vector<FileSpec>& files,
                              const std::vector<std::vector<int32_t>>& leaves,
                              int64_t output_bytes, int32_t threads) {
  std::vector<Chunk> chunks;
  std::vector<std::shared_ptr<LocalFile>> handles;
  for (size_t f = 0; f < files.size(); ++f) {
    ARROW_ASSIGN_OR_RAISE(auto handle, LocalFile::Open(files[f]));
    handles.push_back(std::move(handle));
    for (int32_t g = 0; g < files[f].metadata->num_row_groups(); ++g) {
      for (int32_t leaf : leaves[f]) chunks.push_back({static_cast<int32_t>(f), g, leaf});
    }
  }
  std::atomic<size_t> next{0};
  std::atomic<int64_t> pages{0};
  std::atomic<int64_t> bytes{0};
  // As the pipeline's own: the roof does not pay for memory that a loader can spare.
  RecyclingPool pool(arrow::default_memory_pool(), int64_t{1} << 30);
  std::mutex mutex;
  Status failure;
  RoofTimes times;
  times.pages_s = TimeThreads(threads, [&](int32_t) {
    std::vector<uint8_t> memory;
    for (size_t i = next++; i < chunks.size(); i = next++) {
      const auto file = static_cast<size_t>(chunks[i].file);
      const Status status = ReadPages(files[file], *handles[file], chunks[i], &memory,
                                      &pool, &pages, &bytes);
      if (status.ok()) continue;
      std::lock_guard lock(mutex);
      if (failure.ok()) failure = At(status, {files[file].path, chunks[i].row_group});
      return;
    }
  });
  ARROW_RETURN_NOT_OK(failure);
  times.pages = pages;
  times.read_bytes = bytes;

  // Larger than the caches that a thread has to itself, as batches are.
  constexpr int64_t kBuffer = int64_t{32} << 20;
  std::vector<std::vector<uint8_t>> from(static_cast<size_t>(threads));
  std::vector<std::vector<uint8_t>> to(static_cast<size_t>(threads));
  for (int32_t i = 0; i < threads; ++i) {
    from[static_cast<size_t>(i)].assign(kBuffer, 1);
    to[static_cast<size_t>(i)].assign(kBuffer, 2);
  }
  times.memcpy_s = TimeThreads(threads, [&](int32_t i) {
    int64_t left = output_bytes / threads;
    while (left > 0) {
      const int64_t n = std::min(left, kBuffer);
      std::memcpy(to[static_cast<size_t>(i)].data(), from[static_cast<size_t>(i)].data(),
                  static_cast<size_t>(n));
      left -= n;
    }
  });
  return times;
}

}  // namespace fastload
