// The numbers that say where the outputs of a batch lie.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace fastload {

// A vector that keeps few numbers in itself: each part of a batch has its own numbers,
// and memory that one thread allocates and another frees is slow.
class AreaNumbers {
 public:
  void reserve(size_t count) {
    if (count > kFew) many_.reserve(count);
  }
  void push_back(int64_t number) {
    if (size_ < kFew) {
      few_[size_] = number;
    } else {
      if (size_ == kFew) many_.assign(few_.begin(), few_.end());
      many_.push_back(number);
    }
    ++size_;
  }

  size_t size() const { return size_; }
  int64_t* data() { return size_ > kFew ? many_.data() : few_.data(); }
  const int64_t* data() const { return size_ > kFew ? many_.data() : few_.data(); }
  int64_t operator[](size_t i) const { return data()[i]; }
  const int64_t* begin() const { return data(); }
  const int64_t* end() const { return data() + size_; }
  bool operator==(const AreaNumbers& other) const {
    return std::equal(begin(), end(), other.begin(), other.end());
  }

 private:
  static constexpr size_t kFew = 6;

  size_t size_ = 0;
  std::array<int64_t, kFew> few_ = {};
  std::vector<int64_t> many_;  // all numbers, if there are more than kFew
};

}  // namespace fastload
