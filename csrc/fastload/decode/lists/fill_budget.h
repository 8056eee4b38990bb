// The budget of the elements that stand for null lists.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#include "fastload/base/status.h"

namespace fastload {

// A limit of the bytes of fills for null lists of a fixed size. A file stores such a list
// as one level, and its footer counts the list as one value, so a few bytes of a file may
// ask for any number of elements. Thread-safe.
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

// The fills in some rows. Gives its bytes back to the budget when it dies.
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
    const int64_t most = budget_ == nullptr ? INT64_MAX : budget_->most_bytes();
    if (n > most / item || (budget_ != nullptr && !budget_->Take(n * item))) {
      return MakeError(ErrorKind::kValue,
                       "Expected null lists whose fills take at most " +
                           std::to_string(most) +
                           " bytes at a time, got more: raise memory_budget, or use a "
                           "smaller batch_size or shuffle_window");
    }
    if (budget_ != nullptr) bytes_ += n * item;
    return Status::OK();
  }
  void Clear() {
    if (bytes_ > 0) budget_->Return(std::exchange(bytes_, 0));
  }

 private:
  FillBudget* budget_;
  int64_t bytes_ = 0;
};

}  // namespace fastload
