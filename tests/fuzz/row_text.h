// Rows of one column in words that say all of their bytes, of Arrow's arrays and of
// batches.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "arrow/api.h"
#include "arrow/extension_type.h"
#include "fastload/plan/columns.h"
#include "fastload/plan/layout.h"
#include "fastload/scan/scan.h"

namespace fastload::testing {

inline void AddBytes(std::string_view bytes, std::string* text) {
  *text += std::to_string(bytes.size()) + ":";
  text->append(bytes);
}

// Walks the rows of an array of one leaf: its structs have one child. Nulls are what a
// fill of zero bytes makes of them.
class ArrowRows {
 public:
  // Whether all values are what `spec` makes of them: false where a decimal does not fit.
  ArrowRows(const ColumnSpec& spec, const arrow::Array& array) : spec_(spec) {
    texts_.reserve(static_cast<size_t>(array.length()));
    for (int64_t row = 0; row < array.length(); ++row) {
      std::string text;
      root_ = true;
      Add(array, row, /*null=*/false, /*level=*/0, &text);
      texts_.push_back(std::move(text));
    }
  }

  bool fits() const { return fits_; }
  const std::vector<std::string>& texts() const { return texts_; }

 private:
  void MarkRow(bool null, std::string* text) {
    if (root_) *text += null ? "null " : "valid ";
    root_ = false;
  }

  template <typename List>
  void AddList(const List& list, int64_t i, bool null, int32_t level, std::string* text) {
    MarkRow(null, text);
    *text += "(";
    if (!null) {
      const auto start = static_cast<int64_t>(list.value_offset(i));
      for (int64_t j = 0; j < static_cast<int64_t>(list.value_length(i)); ++j) {
        Add(*list.values(), start + j, false, level + 1, text);
      }
    }
    *text += ")";
  }

  static int64_t LeavesOf(const arrow::DataType& type) {
    if (type.id() == arrow::Type::STRUCT) return LeavesOf(*type.field(0)->type());
    if (type.id() != arrow::Type::FIXED_SIZE_LIST) return 1;
    const auto& list = static_cast<const arrow::FixedSizeListType&>(type);
    return list.list_size() * LeavesOf(*list.value_type());
  }

  void Add(const arrow::Array& array, int64_t i, bool null, int32_t level,
           std::string* text) {
    null = null || array.IsNull(i);
    switch (array.type_id()) {
      case arrow::Type::EXTENSION:
        return Add(*static_cast<const arrow::ExtensionArray&>(array).storage(), i, null,
                   level, text);
      case arrow::Type::LIST:
      case arrow::Type::MAP:
        return AddList(static_cast<const arrow::ListArray&>(array), i, null, level, text);
      case arrow::Type::LARGE_LIST:
        return AddList(static_cast<const arrow::LargeListArray&>(array), i, null, level,
                       text);
      case arrow::Type::FIXED_SIZE_LIST: {
        const auto& list = static_cast<const arrow::FixedSizeListArray&>(array);
        if (level < spec_.depth) return AddList(list, i, null, level, text);
        MarkRow(null, text);
        if (null) {
          for (int64_t k = LeavesOf(*array.type()); k > 0; --k) *text += *spec_.fill;
          return;
        }
        for (int64_t j = 0; j < list.value_length(); ++j) {
          Add(*list.values(), list.value_offset(i) + j, false, level, text);
        }
        return;
      }
      case arrow::Type::STRUCT: {
        const auto& structs = static_cast<const arrow::StructArray&>(array);
        return Add(*structs.field(0), i, null, level, text);
      }
      case arrow::Type::DICTIONARY: {
        const auto& codes = static_cast<const arrow::DictionaryArray&>(array);
        const int64_t code = null ? 0 : codes.GetValueIndex(i);
        if (null && codes.dictionary()->length() == 0) {
          MarkRow(true, text);
          return AddNull(text);
        }
        return Add(*codes.dictionary(), code, null, level, text);
      }
      default:
        MarkRow(null, text);
        if (null) return AddNull(text);
        AddElement(array, i, text);
    }
  }

  void AddNull(std::string* text) const {
    if (spec_.bytes) {
      AddBytes("", text);
    } else {
      *text += *spec_.fill;
    }
  }

  template <typename T>
  static void AddNumber(T value, std::string* text) {
    text->append(reinterpret_cast<const char*>(&value), sizeof(value));
  }

  void AddElement(const arrow::Array& array, int64_t i, std::string* text) {
    switch (array.type_id()) {
      case arrow::Type::BOOL:
        return AddNumber<uint8_t>(
            static_cast<const arrow::BooleanArray&>(array).Value(i) ? 1 : 0, text);
      case arrow::Type::STRING:
      case arrow::Type::BINARY:
        return AddBytes(static_cast<const arrow::BinaryArray&>(array).GetView(i), text);
      case arrow::Type::LARGE_STRING:
      case arrow::Type::LARGE_BINARY:
        return AddBytes(static_cast<const arrow::LargeBinaryArray&>(array).GetView(i),
                        text);
      case arrow::Type::STRING_VIEW:
      case arrow::Type::BINARY_VIEW:
        return AddBytes(static_cast<const arrow::BinaryViewArray&>(array).GetView(i),
                        text);
      case arrow::Type::TIME32:
        return AddNumber<int64_t>(static_cast<const arrow::Time32Array&>(array).Value(i),
                                  text);
      default:
        break;
    }
    if (array.type_id() == arrow::Type::FIXED_SIZE_BINARY) {
      return AddBytes(static_cast<const arrow::FixedSizeBinaryArray&>(array).GetView(i),
                      text);
    }
    const auto& type = static_cast<const arrow::FixedWidthType&>(*array.type());
    const int64_t width = type.bit_width() / 8;
    const auto* bytes = reinterpret_cast<const char*>(array.data()->buffers[1]->data()) +
                        (array.offset() + i) * width;
    if (!spec_.unscaled) {
      text->append(bytes, static_cast<size_t>(width));
      return;
    }
    // Little-endian two's complement.
    const bool negative = bytes[width - 1] < 0;
    std::string low(8, negative ? '\xff' : '\0');
    std::memcpy(low.data(), bytes, static_cast<size_t>(std::min<int64_t>(width, 8)));
    for (int64_t k = 8; k < width; ++k) {
      if (bytes[k] != (negative ? '\xff' : '\0')) fits_ = false;
    }
    if (width > 8 && (low[7] < 0) != negative) fits_ = false;
    *text += low;
  }

  const ColumnSpec& spec_;
  std::vector<std::string> texts_;
  bool fits_ = true;
  bool root_ = false;
};

// The rows of a batch of OutputsOf(spec).
class BatchRows {
 public:
  BatchRows(const ColumnSpec& spec, const Layout& layout, const Batch& batch)
      : spec_(spec), layout_(layout), batch_(batch), base_(batch.block->data()) {
    numbers_ = batch.areas.numbers.data() + layout.slot(0).number;
    levels_ = layout.slot(0).levels;
  }

  std::string Text(int64_t row) const {
    const Layout::Slot& valid = layout_.slot(1);
    const uint8_t* address =
        Layout::Address(base_, batch_.areas, valid) + row * valid.stride;
    std::string text = *address != 0 ? "valid " : "null ";
    if (levels_ == 0) {
      const Layout::Slot& slot = layout_.slot(0);
      const uint8_t* value =
          Layout::Address(base_, batch_.areas, slot) + row * slot.stride;
      text.append(reinterpret_cast<const char*>(value),
                  static_cast<size_t>(ItemBytes(spec_)));
    } else {
      Add(0, row, &text);
    }
    return text;
  }

 private:
  void Add(int32_t level, int64_t i, std::string* text) const {
    if (level == levels_) {
      const uint8_t* values = base_ + numbers_[2 * levels_];
      const int64_t bytes = ItemBytes(spec_);
      text->append(reinterpret_cast<const char*>(values) + i * bytes,
                   static_cast<size_t>(bytes));
      return;
    }
    const auto* offsets = reinterpret_cast<const int64_t*>(base_ + numbers_[2 * level]);
    if (spec_.bytes && level == levels_ - 1) {
      const auto* values = reinterpret_cast<const char*>(base_ + numbers_[2 * levels_]);
      AddBytes({values + offsets[i], values + offsets[i + 1]}, text);
      return;
    }
    *text += "(";
    for (int64_t j = offsets[i]; j < offsets[i + 1]; ++j) Add(level + 1, j, text);
    *text += ")";
  }

  const ColumnSpec& spec_;
  const Layout& layout_;
  const Batch& batch_;
  uint8_t* base_;
  const int64_t* numbers_;
  int32_t levels_;
};

}  // namespace fastload::testing
