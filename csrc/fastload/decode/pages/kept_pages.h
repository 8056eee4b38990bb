// Decompressed pages of column chunks that stay in memory from one pass to the next.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "arrow/buffer.h"
#include "fastload/base/status.h"
#include "fastload/decode/pages/kept_memory.h"
#include "fastload/decode/pages/kept_table.h"
#include "parquet/column_page.h"
#include "parquet/column_reader.h"

namespace fastload {

// All pages of one column chunk, decompressed and still encoded. Immutable once kept.
class KeptChunk {
 public:
  // `bytes`: of all pages by the footer, headers included. The memory of the pages and of
  // their objects is counted by `kept`.
  KeptChunk(std::shared_ptr<KeptMemory> kept, int64_t bytes, int64_t levels);
  ~KeptChunk();
  KeptChunk(const KeptChunk&) = delete;
  KeptChunk& operator=(const KeptChunk&) = delete;

  // Reserves the memory of all pages, before the first is added. Returns false if there
  // is no room.
  bool Reserve();

  // Appends a copy of a page. Returns false if the page does not fit or is of an unknown
  // type, or if there is no memory.
  bool Add(const parquet::Page& page);

  // Returns true if the pages have all values of the chunk.
  bool complete() const { return levels_left_ <= 0; }
  // Returns the values of the chunk by the footer; nulls and empty lists count.
  int64_t levels() const { return levels_; }
  const std::vector<std::shared_ptr<parquet::Page>>& pages() const { return pages_; }
  // Returns the bytes of all pages, padded to 8 bytes each.
  int64_t bytes() const { return used_; }

 private:
  // Returns memory for the next page, or null if there is none.
  std::shared_ptr<arrow::Buffer> MemoryOf(int64_t bytes);
  // Allocates out of what is reserved, and reserves what is missing.
  std::shared_ptr<arrow::MutableBuffer> Allocate(int64_t bytes);

  const std::shared_ptr<KeptMemory> kept_;
  const int64_t levels_;
  int64_t levels_left_;
  const int64_t bytes_;
  int64_t used_ = 0;      // bytes of pages, padded
  int64_t reserved_ = 0;  // bytes of `kept_` that are reserved, and not allocated yet
  int64_t charged_ = 0;   // bytes counted for objects
  std::shared_ptr<arrow::MutableBuffer> rest_;  // memory of the pages behind the first
  int64_t rest_begin_ = 0;                      // used_ at the beginning of `rest_`
  std::vector<std::shared_ptr<parquet::Page>> pages_;
};

// A recording that begins after the first pages have been read. For one reader.
class LateRecording {
 public:
  virtual ~LateRecording() = default;
  // Records the pages that have been read so far, which are read once more, and has the
  // next pages recorded while they are read. Ends the recording if reading fails.
  virtual void Begin() noexcept = 0;
};

// The column chunks of a dataset whose pages are kept. Thread-safe.
class KeptPages {
 public:
  // (file, row group, leaf).
  using Key = std::tuple<int32_t, int32_t, int32_t>;

  struct Stats {
    int64_t bytes = 0;   // memory of the chunks that are kept, or being recorded
    int64_t limit = 0;   // the most such bytes
    int64_t served = 0;  // how often a kept chunk was read
  };

  // With a limit of 0, nothing is kept.
  explicit KeptPages(int64_t limit_bytes);

  // Returns the chunk, or null if the chunk is not kept.
  std::shared_ptr<const KeptChunk> Find(const Key& key) const {
    return chunks_.Find(key);
  }

  // Returns the pages of a chunk that is kept, and counts the chunk as served.
  std::unique_ptr<parquet::PageReader> Read(std::shared_ptr<const KeptChunk> chunk);

  // Returns `pages`, which are recorded while they are read. The chunk is kept once its
  // `levels` values have been read without leaving out a page. Returns `pages` unchanged
  // if the chunk's pages, of `bytes` bytes by the footer, have no room. This object must
  // outlive the pages.
  std::unique_ptr<parquet::PageReader> Record(const Key& key, int64_t levels,
                                              int64_t bytes,
                                              std::unique_ptr<parquet::PageReader> pages);

  // Returns a new reader of a chunk's pages.
  using OpenPages = std::function<Result<std::unique_ptr<parquet::PageReader>>()>;

  // Does the same as Record, but records nothing before the LateRecording begins, which
  // is a part of the returned reader: nobody has to wait for the copies of the first
  // pages. The LateRecording is null if `pages` are returned unchanged.
  std::pair<std::unique_ptr<parquet::PageReader>, LateRecording*> RecordLater(
      const Key& key, int64_t levels, int64_t bytes,
      std::unique_ptr<parquet::PageReader> pages, OpenPages open);

  // Does the same as Record, but reads all pages at once, those that the reader passes
  // over too: other readers will want the rest of the chunk. What reading a page throws
  // is thrown when the reader comes to the page.
  std::unique_ptr<parquet::PageReader> RecordWhole(
      const Key& key, int64_t levels, int64_t bytes,
      std::unique_ptr<parquet::PageReader> pages);

  // Sets the limit, and lets go of the chunks that came last until the rest fits. Below a
  // higher limit, chunks that had no room may be recorded.
  void SetLimit(int64_t limit_bytes);

  // Lets go of all chunks.
  void Clear() noexcept { chunks_.Clear(); }

  Stats stats() const;

  // Returns the memory of the pages, in which others may keep something beside pages.
  const std::shared_ptr<KeptMemory>& memory() const { return memory_; }

 private:
  class Recorder;

  // Keeps a chunk, unless the limit was lowered while the chunk was recorded.
  void Enter(const Key& key, std::shared_ptr<const KeptChunk> chunk);
  // Returns a chunk to record, or null if the chunk has no room, is kept, or is being
  // recorded.
  std::shared_ptr<KeptChunk> Begin(const Key& key, int64_t levels, int64_t bytes);

  const std::shared_ptr<KeptMemory> memory_;
  std::atomic<int64_t> served_ = 0;
  KeptTable<Key, KeptChunk> chunks_;
};

}  // namespace fastload
