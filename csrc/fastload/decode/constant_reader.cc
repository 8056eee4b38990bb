#include "fastload/decode/constant_reader.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "fastload/base/strided.h"

namespace fastload {

namespace {

Status NoValue() {
  return MakeError(ErrorKind::kNullValue,
                   "Expected no null, got one: the file has no value for this column "
                   "(write fill= or valid=True for it, or nulls=\"nan\" (for floats), "
                   "\"zero\" or \"mask\" for all)");
}

// Returns the value of every row of the file: the constant, else the fill, else null.
const std::string* ConstantOf(const ColumnSpec& spec, int32_t file) {
  const auto& constant = spec.Constant(file);
  if (constant.has_value()) return &*constant;
  return spec.fill.has_value() ? &*spec.fill : nullptr;
}

void SetValid(uint8_t* valid, int64_t rows, bool present) {
  if (valid != nullptr) std::memset(valid, present, static_cast<size_t>(rows));
}

void Repeat(const void* item, int64_t item_size, int64_t rows, uint8_t* out,
            int64_t stride) {
  WithItem(static_cast<int>(item_size), [&]<typename T>(T value) {
    std::memcpy(&value, item, sizeof(T));
    Fill(value, rows, {out, stride});
  });
}

class ConstantFixedReader : public FixedReader {
 public:
  ConstantFixedReader(const ColumnSpec& spec, int32_t file)
      : value_(ConstantOf(spec, file)), present_(spec.Constant(file).has_value()) {}

  Status Skip(int64_t) override { return Status::OK(); }

  Status Read(int64_t rows, uint8_t* out, int64_t stride, uint8_t* valid) override {
    if (value_ == nullptr) return NoValue();
    Repeat(value_->data(), static_cast<int64_t>(value_->size()), rows, out, stride);
    SetValid(valid, rows, present_);
    return Status::OK();
  }

  // A dictionary of one entry, so that a window which has codes from other chunks can
  // stay in codes.
  Result<std::span<const uint8_t>> Dictionary() override {
    if (value_ == nullptr) return NoValue();
    return std::span(reinterpret_cast<const uint8_t*>(value_->data()), value_->size());
  }

  Result<int64_t> ReadCodes(int64_t rows, const Codes& codes, uint8_t* out,
                            uint8_t* valid) override {
    if (value_ == nullptr) return NoValue();
    // Codes are little-endian, so the low bytes of a 32-bit code are the shorter code.
    Repeat(present_ ? &codes.base : &codes.null_code, codes.bytes, rows, out,
           codes.bytes);
    SetValid(valid, rows, present_);
    return rows;
  }

  int64_t page() const override { return -1; }

 private:
  const std::string* value_;
  bool present_;
};

class ConstantBytesReader : public BytesReader {
 public:
  ConstantBytesReader(const ColumnSpec& spec, int32_t file)
      : value_(ConstantOf(spec, file)), present_(spec.Constant(file).has_value()) {}

  Status Skip(int64_t) override { return Status::OK(); }

  Status Read(int64_t rows, ByteView* views, uint8_t* valid,
              ByteArena* /*arena*/) override {
    if (value_ == nullptr) return NoValue();
    std::fill_n(views, rows,
                ByteView{reinterpret_cast<const uint8_t*>(value_->data()),
                         static_cast<int64_t>(value_->size())});
    SetValid(valid, rows, present_);
    return Status::OK();
  }

  int64_t page() const override { return -1; }

 private:
  const std::string* value_;
  bool present_;
};

// A reader of null lists of a fixed size: every element is the fill.
class NullListReader : public FixedReader {
 public:
  explicit NullListReader(const ColumnSpec* spec) : spec_(spec) {}

  Status Skip(int64_t) override { return Status::OK(); }

  Status Read(int64_t rows, uint8_t* out, int64_t stride, uint8_t* valid) override {
    if (!spec_->null_lists || !spec_->fill.has_value()) return NoValue();
    const auto item = static_cast<int64_t>(spec_->fill->size());
    for (int64_t row = 0; row < rows; ++row) {
      Repeat(spec_->fill->data(), item, spec_->list_size, out + row * stride, item);
    }
    SetValid(valid, rows, false);
    return Status::OK();
  }

  int64_t page() const override { return -1; }

 private:
  const ColumnSpec* spec_;
};

class NullNestedReader : public NestedReader {
 public:
  explicit NullNestedReader(const ColumnSpec* spec) : spec_(spec) {}

  Status Skip(int64_t) override { return Status::OK(); }

  Status Read(int64_t rows, NestedRows* out, bool valid) override {
    if (!spec_->null_lists) return NoValue();
    out->Begin(static_cast<size_t>(spec_->depth));
    const auto size = static_cast<size_t>(rows);
    std::vector<int64_t>& lists = out->offsets[0];
    lists.resize(lists.size() + size, lists.back());
    if (valid) out->valid.resize(out->valid.size() + size, 0);
    return Status::OK();
  }

  int64_t page() const override { return -1; }

 private:
  const ColumnSpec* spec_;
};

}  // namespace

std::unique_ptr<FixedReader> MakeConstantFixedReader(const ColumnSpec* spec,
                                                     int32_t file) {
  if (spec->list_size > 0) return std::make_unique<NullListReader>(spec);
  return std::make_unique<ConstantFixedReader>(*spec, file);
}

std::unique_ptr<BytesReader> MakeConstantBytesReader(const ColumnSpec* spec,
                                                     int32_t file) {
  return std::make_unique<ConstantBytesReader>(*spec, file);
}

std::unique_ptr<NestedReader> MakeNullNestedReader(const ColumnSpec* spec) {
  return std::make_unique<NullNestedReader>(spec);
}

}  // namespace fastload
