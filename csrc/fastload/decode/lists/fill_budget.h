// The budget of the elements that stand for null lists, and of copies of rows.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#include "fastload/base/status.h"

namespace fastload {

// A limit of the bytes that a few bytes of a file may become: fills for null lists of a
// fixed size, each of which a file stores as one level and its footer counts as one
// value, and copies of rows, of which a plan may want any number. Thread-safe.
class FillBudget {
 public:
  explicit FillBudget(int64_t most_bytes) : most_bytes_(most_bytes) {}

  // Returns false, and takes nothing, if fewer than `bytes` bytes are left.
  bool Take(int64_t bytes) {
    int64_t used = used_bytes_.load(std::memory_order_relaxed);
    do {
      if (bytes > most_bytes_ - used) return false;
    } while (!used_bytes_.compare_exchange_weak(used, used + bytes,
                                                std::memory_order_relaxed));
    return true;
  }
  void Return(int64_t bytes) { used_bytes_.fetch_sub(bytes, std::memory_order_relaxed); }

  int64_t most_bytes() const { return most_bytes_; }

 private:
  const int64_t most_bytes_;
  std::atomic<int64_t> used_bytes_ = 0;
};

// The fills and the copies in some rows. Gives its bytes back to the budget when it dies.
class Fills {
 public:
  // `budget` is borrowed; null: no limit.
  explicit Fills(FillBudget* budget = nullptr) : budget_(budget) {}
  Fills(Fills&& other) noexcept
      : budget_(other.budget_), bytes_(std::exchange(other.bytes_, 0)) {}
  Fills& operator=(Fills&& other) noexcept {
    std::swap(budget_, other.budget_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Fills() { Clear(); }

  // Takes the memory of n elements of `item` bytes.
  Status Take(int64_t n, int64_t item) {
    if (Takes(n, item)) return Status::OK();
    return MakeError(ErrorKind::kValue,
                     "Expected null lists whose fills take at most " +
                         std::to_string(budget_->most_bytes()) +
                         " bytes at a time, got more: raise memory_budget, or use a "
                         "smaller batch_size or shuffle_window");
  }
  // Takes the memory of n copies of a row, or of several, of `item` bytes.
  Status TakeCopies(int64_t n, int64_t item) {
    if (Takes(n, item)) return Status::OK();
    return MakeError(
        ErrorKind::kValue,
        "Expected copies of rows, as `weights` wants them, that take at most " +
            std::to_string(budget_->most_bytes()) +
            " bytes at a time, got more: give long rows a smaller weight or "
            "leave them out, raise memory_budget, or use a smaller "
            "shuffle_window");
  }
  void Clear() {
    if (bytes_ > 0) budget_->Return(std::exchange(bytes_, 0));
  }

 private:
  bool Takes(int64_t n, int64_t item) {
    if (budget_ == nullptr || n <= 0 || item <= 0) return true;
    if (n > budget_->most_bytes() / item || !budget_->Take(n * item)) return false;
    bytes_ += n * item;
    return true;
  }

  FillBudget* budget_;
  int64_t bytes_ = 0;
};

}  // namespace fastload
