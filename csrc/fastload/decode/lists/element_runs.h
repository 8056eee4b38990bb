// Elements of lists that wait for their batches.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "arrow/buffer.h"
#include "arrow/buffer_builder.h"
#include "fastload/base/prefetch.h"
#include "fastload/base/status.h"
#include "fastload/decode/pages/hybrid.h"

namespace fastload {

// A sequence of fixed-width elements, in runs of several kinds. A run holds plain
// elements, or codes of two bytes, which become elements when they are copied. Codes are
// indices into a dictionary, or, without a dictionary, unsigned integers of the elements'
// width. A run may also stay in its page, encoded, until it is copied. Positions are
// counted in bytes of elements.
class ElementRuns {
 public:
  using Code = uint16_t;
  // The most entries of a dictionary that codes can reach.
  static constexpr int64_t kMostEntries = int64_t{1} << (8 * sizeof(Code));

  explicit ElementRuns(arrow::MemoryPool* pool = arrow::default_memory_pool())
      : memory_(pool) {}

  // Returns the bytes of all elements.
  int64_t size() const { return size_; }

  // Announces that `bytes` more bytes of elements are likely to come.
  void Expect(int64_t bytes) { expected_ = std::max(expected_, size_ + bytes); }

  // Appends `bytes` bytes of elements, and returns the memory to write them to. The
  // memory directly continues the memory of earlier calls since the last call for another
  // kind of run.
  Result<uint8_t*> Extend(int64_t bytes);

  // Appends codes of n elements of `item` (4 or 8) bytes, and returns the memory to write
  // the codes to. The dictionary has elements without gaps; without a dictionary, codes
  // are elements.
  Result<Code*> ExtendCodes(int64_t n, int64_t item,
                            const std::shared_ptr<arrow::Buffer>& dictionary);

  // Codes into a dictionary as a page has them.
  struct Encoded {
    std::shared_ptr<arrow::Buffer> page;
    int64_t number = 0;  // index of the page
    HybridDecoder::Position begin;
    HybridDecoder::Position end;
    std::shared_ptr<arrow::Buffer> dictionary;  // elements without gaps
  };
  // Appends n elements of `item` (4 or 8) bytes whose codes stay in the page until they
  // are copied. The caller has checked that the page has n codes between `begin` and
  // `end`, but not that the dictionary has them.
  void AppendEncoded(int64_t n, int64_t item, Encoded encoded);
  // Returns true if the sequence ends with elements that stay in their page, and the
  // place behind their codes is `place`.
  bool EndsAt(const HybridDecoder::Position& place) const;

  // The error of a code beyond its dictionary, in the first run of those that copies have
  // found damaged so far; OK if there is none.
  struct Damage {
    Status status;
    int64_t at = 0;    // position of the run
    int64_t page = 0;  // index of the run's page
  };
  Damage damage() const;

  // Removes all elements, and keeps the memory.
  void Clear();

  // Copies the bytes [begin, begin + bytes), which are whole elements, to `out`.
  void Copy(int64_t begin, int64_t bytes, uint8_t* out) const {
    if (bytes <= 0) return;
    if (runs_.size() > 1) return CopyRuns(begin, bytes, out);
    CopyFrom(runs_[0], begin, bytes, out);
  }

  // Does the same as Copy, but copies plain elements past the caches: call StreamFence
  // before another thread reads `out`.
  void StreamTo(int64_t begin, int64_t bytes, uint8_t* out) const;

  // Prefetches the memory that Copy would read, or its beginning.
  void Prefetch(int64_t begin, int64_t bytes) const {
    if (bytes <= 0) return;
    const Run& run = runs_.size() > 1 ? *Find(begin) : runs_[0];
    // Codes take fewer bytes than their elements.
    const int shift = run.item == 0 ? 0 : run.item == 4 ? 1 : 2;
    PrefetchFirst(Data(run) + ((begin - run.begin) >> shift), bytes >> shift);
  }

 private:
  struct Run {
    int64_t begin = 0;                          // position in bytes of elements
    int64_t offset = 0;                         // offset in memory_
    const uint8_t* page = nullptr;              // bytes of the page of `encoded`
    int64_t item = 0;                           // codes: bytes of an element; else 0
    std::shared_ptr<arrow::Buffer> dictionary;  // codes: dictionary, or null
    std::unique_ptr<Encoded> encoded;           // codes that stay in their page, or null
  };
  // Copying decodes from the beginning of an encoded run, so such runs are short.
  static constexpr int64_t kMostEncoded = 1 << 14;

  const uint8_t* Data(const Run& run) const {
    return run.page != nullptr ? run.page : memory_.data() + run.offset;
  }
  // Returns the run that holds the byte at `begin`.
  const Run* Find(int64_t begin) const;
  // Appends `bytes` bytes of memory_ to a run of the given kind.
  Result<uint8_t*> Take(int64_t bytes, int64_t item,
                        const std::shared_ptr<arrow::Buffer>& dictionary);
  void CopyRuns(int64_t begin, int64_t bytes, uint8_t* out) const;
  // Copies a part of one run. Most lists are short, so only codes with a dictionary need
  // a function call.
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
  // Widens codes to integers. For few codes, this takes fewer steps than a loop optimised
  // for many.
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
  void Decode(const Run& run, int64_t offset, int64_t bytes, uint8_t* out) const;
  void LookUp(const Run& run, int64_t offset, int64_t bytes, uint8_t* out) const;
  // Calls fn(run, offset, bytes) for each run of [begin, begin + bytes), with the offset
  // and number of the bytes in the run.
  template <typename Fn>
  void ForEachRun(int64_t begin, int64_t bytes, const Fn& fn) const;

  arrow::BufferBuilder memory_;
  std::vector<Run> runs_;
  int64_t size_ = 0;
  int64_t expected_ = 0;  // the size_ that is expected in the end
  // What copies found, which several threads may make at once.
  struct Found {
    std::mutex mutex;  // guards damage
    Damage damage;
  };
  std::unique_ptr<Found> found_ = std::make_unique<Found>();
};

}  // namespace fastload
