// The elements of the lists of one column chunk, in stored order.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "fastload/base/status.h"
#include "fastload/decode/lists/nested_rows.h"
#include "fastload/decode/values/bytes_values.h"
#include "fastload/decode/values/fixed_values.h"
#include "fastload/plan/columns.h"

namespace fastload {

// Returns the error of a null that has no fill.
Status NullElement();

// A sink that takes the values of a page and writes elements, nulls included.
class ListItems {
 public:
  virtual ~ListItems() = default;

  // Appends n values. A value that does not fit is an ErrorKind::kValue, with the number
  // of the first such value (AtValue).
  virtual Status Append(int64_t n) = 0;

  // Appends n elements: values where `valid` is 1 (`non_null` times), else nulls. Errors
  // are the same as in Append; their value numbers do not count nulls.
  virtual Status AppendMixed(const uint8_t* valid, int64_t n, int64_t non_null) = 0;

  // Inserts n nulls before element `at`, which stand for null lists. Nulls that exceed a
  // budget are an ErrorKind::kValue.
  virtual Status InsertNulls(int64_t at, int64_t n) = 0;

  // Returns the number of elements so far.
  virtual int64_t size() const = 0;
};

// Fixed-width elements without gaps.
class FixedItems : public ListItems {
 public:
  // `values` and `spec` are borrowed. `values` may be null if all elements are null.
  FixedItems(FixedValues* values, const ColumnSpec* spec)
      : values_(values), spec_(spec), item_size_(ItemSize(spec->dtype)) {}

  Status Append(int64_t n) override;
  Status AppendMixed(const uint8_t* valid, int64_t n, int64_t non_null) override;
  Status InsertNulls(int64_t at, int64_t n) override;

 protected:
  // Appends n elements, and returns the memory to write the elements to.
  virtual Result<uint8_t*> Extend(int64_t n) = 0;

  int item_size() const { return item_size_; }

  FixedValues* values() const { return values_; }

 private:
  static constexpr int64_t kBlock = 1024;

  FixedValues* values_;
  const ColumnSpec* spec_;
  const int item_size_;
  // Values on their way to elements among nulls; one value is read past the last.
  std::array<uint64_t, kBlock + 1> block_;
};

// Fixed-width elements in memory of known size.
class MemoryItems : public FixedItems {
 public:
  using FixedItems::FixedItems;

  // Sets the output; `out` has room for `capacity` elements.
  void SetOutput(uint8_t* out, int64_t capacity);

  int64_t size() const override { return size_; }

 protected:
  Result<uint8_t*> Extend(int64_t n) override;

 private:
  uint8_t* out_ = nullptr;
  int64_t size_ = 0;
  int64_t capacity_ = 0;
};

// Elements that are collected in NestedRows.
class NestedItems {
 public:
  virtual ~NestedItems() = default;

  // Sets the output; `expected` elements are likely to come.
  virtual Status SetOutput(NestedRows* out, int64_t expected) = 0;
  virtual ListItems* items() = 0;
};

// Elements that are counted and dropped: nulls and values that do not fit are no errors.
class CountedItems : public ListItems, public NestedItems {
 public:
  Status SetOutput(NestedRows* out, int64_t /*expected*/) override {
    size_ = out->offsets.back().back();
    return Status::OK();
  }
  ListItems* items() override { return this; }
  Status Append(int64_t n) override {
    size_ += n;
    return Status::OK();
  }
  Status AppendMixed(const uint8_t* /*valid*/, int64_t n, int64_t /*non_null*/) override {
    return Append(n);
  }
  Status InsertNulls(int64_t /*at*/, int64_t n) override { return Append(n); }
  int64_t size() const override { return size_; }

 private:
  int64_t size_ = 0;
};

class FixedNestedItems : public FixedItems, public NestedItems {
 public:
  FixedNestedItems(FixedValues* values, const ColumnSpec* spec);

  Status SetOutput(NestedRows* out, int64_t expected) override;
  ListItems* items() override { return this; }
  Status Append(int64_t n) override;
  Status AppendMixed(const uint8_t* valid, int64_t n, int64_t non_null) override;
  Status InsertNulls(int64_t at, int64_t n) override;
  int64_t size() const override { return out_->values.size() / item_size(); }

 protected:
  Result<uint8_t*> Extend(int64_t n) override;

 private:
  using Code = ElementRuns::Code;

  // Returns true if the next n values shall wait in their page.
  bool WaitInPage(int64_t n) const;
  // Fills narrow_. Returns false if the dictionary has elements that a code can't hold.
  bool Narrow();

  bool codes_;  // values of pages with dictionaries wait as codes, where that is quicker
  std::vector<Code> narrow_;                  // the narrowed entries of narrow_of_
  std::shared_ptr<arrow::Buffer> narrow_of_;  // the dictionary of narrow_, or null
  NestedRows* out_ = nullptr;
};

class ByteNestedItems : public ListItems, public NestedItems {
 public:
  // As of FixedItems.
  ByteNestedItems(BytesValues* values, const ColumnSpec* spec)
      : values_(values), spec_(spec) {}

  Status SetOutput(NestedRows* out, int64_t expected) override;
  ListItems* items() override { return this; }

  Status Append(int64_t n) override;
  Status AppendMixed(const uint8_t* valid, int64_t n, int64_t non_null) override;
  Status InsertNulls(int64_t at, int64_t n) override;
  int64_t size() const override { return static_cast<int64_t>(out_->views.size()); }

 private:
  Result<ByteView> Fill() const;
  ByteView* Extend(int64_t n);

  BytesValues* values_;
  const ColumnSpec* spec_;
  NestedRows* out_ = nullptr;
};

}  // namespace fastload
