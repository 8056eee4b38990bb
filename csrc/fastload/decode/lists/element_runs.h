// Elements of lists that wait for their batches.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "arrow/buffer.h"
#include "arrow/buffer_builder.h"
#include "fastload/base/prefetch.h"
#include "fastload/base/status.h"

namespace fastload {

// Elements of fixed width, one after the other, in runs of several kinds: elements as
// they are, in memory of its own or of others; codes of two bytes, which become elements
// when they are copied: those of a dictionary, or unsigned integers of the elements'
// width. Places are counted in bytes of elements.
class ElementRuns {
 public:
  using Code = uint16_t;
  // Entries of a dictionary that codes reach.
  static constexpr int64_t kMostEntries = int64_t{1} << (8 * sizeof(Code));

  explicit ElementRuns(arrow::MemoryPool* pool = arrow::default_memory_pool())
      : memory_(pool) {}

  // Bytes of all elements.
  int64_t size() const { return size_; }

  // `bytes` bytes of elements are likely to come.
  void Expect(int64_t bytes) { expected_ = std::max(expected_, size_ + bytes); }

  // Memory for `bytes` more bytes of elements, which count from now on. Right before it
  // lies what the calls before gave since the last one of another kind.
  Result<uint8_t*> Extend(int64_t bytes);

  // The same for the codes of n elements of `item` (4 or 8) bytes. The dictionary has
  // elements without gaps; without one, codes are elements.
  Result<Code*> ExtendCodes(int64_t n, int64_t item,
                            const std::shared_ptr<arrow::Buffer>& dictionary);

  // Appends elements that stay where they are, and outlive this.
  void Borrow(const uint8_t* data, int64_t bytes);

  // Forgets the elements; memory stays.
  void Clear();

  // Copies the bytes [begin, begin + bytes), whole elements, to `out`.
  void Copy(int64_t begin, int64_t bytes, uint8_t* out) const {
    if (bytes <= 0) return;
    if (runs_.size() > 1) return CopyRuns(begin, bytes, out);
    CopyFrom(runs_[0], begin, bytes, out);
  }

  // The same, of elements as they are past the caches: StreamFence comes before another
  // thread reads it.
  void StreamTo(int64_t begin, int64_t bytes, uint8_t* out) const;

  // Brings what Copy would read into the cache, or the beginning of it.
  void Prefetch(int64_t begin, int64_t bytes) const {
    if (bytes <= 0) return;
    const Run& run = runs_.size() > 1 ? *Find(begin) : runs_[0];
    // Of codes, about as many bytes as they have.
    const int shift = run.item == 0 ? 0 : run.item == 4 ? 1 : 2;
    PrefetchFirst(Data(run) + ((begin - run.begin) >> shift), bytes >> shift);
  }

 private:
  struct Run {
    int64_t begin = 0;                          // in bytes of elements
    int64_t offset = 0;                         // in memory_
    const uint8_t* borrowed = nullptr;          // or there
    int64_t item = 0;                           // of codes: bytes of an element; else 0
    std::shared_ptr<arrow::Buffer> dictionary;  // of codes, if they have one
  };

  const uint8_t* Data(const Run& run) const {
    return run.borrowed != nullptr ? run.borrowed : memory_.data() + run.offset;
  }
  // The run that has the byte at `begin`.
  const Run* Find(int64_t begin) const;
  // `bytes` more bytes of memory_, in a run of that kind.
  Result<uint8_t*> Take(int64_t bytes, int64_t item,
                        const std::shared_ptr<arrow::Buffer>& dictionary);
  void CopyRuns(int64_t begin, int64_t bytes, uint8_t* out) const;
  // Copy of a part of one run. Most lists are short: without a call, but of codes that
  // have a dictionary.
  void CopyFrom(const Run& run, int64_t offset, int64_t bytes, uint8_t* out) const {
    const uint8_t* const data = Data(run);
    const auto size = static_cast<uint64_t>(bytes);
    if (run.item == 0) {
      std::memcpy(out, data + offset, size);
    } else if (run.dictionary != nullptr) {
      LookUp(run, offset, bytes, out);
    } else if (run.item == 4) {
      Widen(data + offset / 2, size / 4, reinterpret_cast<uint32_t*>(out));
    } else {
      Widen(data + offset / 4, size / 8, reinterpret_cast<uint64_t*>(out));
    }
  }
  // Of few codes, fewer steps than a loop that is made for many.
  template <typename T>
  static void Widen(const uint8_t* data, uint64_t n, T* out) {
    const auto* codes = reinterpret_cast<const Code*>(data);
    for (; n >= 8; n -= 8, codes += 8, out += 8) std::copy_n(codes, 8, out);
    if ((n & 4) != 0) {
      std::copy_n(codes, 4, out);
      codes += 4;
      out += 4;
    }
    if ((n & 2) != 0) {
      std::copy_n(codes, 2, out);
      codes += 2;
      out += 2;
    }
    if ((n & 1) != 0) *out = *codes;
  }
  void LookUp(const Run& run, int64_t offset, int64_t bytes, uint8_t* out) const;
  // Calls fn(run, offset, bytes) for the runs of [begin, begin + bytes), each with the
  // offset and number of its bytes that are meant.
  template <typename Fn>
  void ForEachRun(int64_t begin, int64_t bytes, const Fn& fn) const;

  arrow::BufferBuilder memory_;
  std::vector<Run> runs_;
  int64_t size_ = 0;
  int64_t expected_ = 0;  // size_, when all has come
};

}  // namespace fastload
