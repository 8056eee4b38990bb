#include "fastload/blocks/block_rows.h"

#include <cstring>
#include <string>
#include <utility>

#include "arrow/array/data.h"
#include "fastload/blocks/decoded_block.h"

namespace fastload {
namespace {

// Arrays over the memory of one batch.
class Arrays {
 public:
  explicit Arrays(const std::shared_ptr<Block>& block) : block_(block) {}

  // Returns an array of lists or texts. `numbers` are the output's numbers in
  // Layout::Areas, from the outermost level on.
  Result<std::shared_ptr<arrow::ArrayData>> Ragged(
      const std::shared_ptr<arrow::DataType>& type, int32_t levels,
      const int64_t* numbers) const {
    if (levels == 0) return Dense(type, numbers[0], numbers[1]);
    const arrow::DataType& storage = *StorageOf(type.get());
    const int64_t lists = numbers[1];
    auto offsets = Bytes(numbers[0], (lists + 1) * static_cast<int64_t>(sizeof(int64_t)));
    const arrow::Type::type id = storage.id();
    if (levels == 1 &&
        (id == arrow::Type::LARGE_STRING || id == arrow::Type::LARGE_BINARY)) {
      return arrow::ArrayData::Make(
          type, lists, {nullptr, std::move(offsets), Bytes(numbers[2], numbers[3])}, 0);
    }
    if (id != arrow::Type::LARGE_LIST) return Unexpected(*type);
    ARROW_ASSIGN_OR_RAISE(auto items,
                          Ragged(storage.field(0)->type(), levels - 1, numbers + 2));
    return arrow::ArrayData::Make(type, lists, {nullptr, std::move(offsets)},
                                  {std::move(items)}, 0);
  }

  // Returns an array of numbers, or of fixed-size lists of numbers, that are packed.
  Result<std::shared_ptr<arrow::ArrayData>> Dense(
      const std::shared_ptr<arrow::DataType>& type, int64_t offset, int64_t bytes) const {
    const arrow::DataType& storage = *StorageOf(type.get());
    if (storage.id() == arrow::Type::FIXED_SIZE_LIST) {
      const auto& list = static_cast<const arrow::FixedSizeListType&>(storage);
      ARROW_ASSIGN_OR_RAISE(auto items, Dense(list.value_type(), offset, bytes));
      const int64_t lists = items->length / list.list_size();
      return arrow::ArrayData::Make(type, lists, {nullptr}, {std::move(items)}, 0);
    }
    const int32_t width = storage.byte_width();
    if (width <= 0) return Unexpected(*type);
    return arrow::ArrayData::Make(type, bytes / width, {nullptr, Bytes(offset, bytes)},
                                  0);
  }

 private:
  static Status Unexpected(const arrow::DataType& type) {
    return Status::Invalid("Expected a field of the type of its output, got " +
                           type.ToString());
  }

  // Returns bytes up to the start of the next area, because the writer of blocks wants
  // padded buffers.
  std::shared_ptr<arrow::Buffer> Bytes(int64_t offset, int64_t bytes) const {
    const int64_t whole = RoundUp(bytes, kAlignment);
    std::memset(block_->data() + offset + bytes, 0, static_cast<size_t>(whole - bytes));
    return BlockSlice(block_, offset, whole);
  }

  const std::shared_ptr<Block>& block_;
};

}  // namespace

BlockRows::BlockRows(std::shared_ptr<arrow::Schema> schema, const Layout& layout,
                     std::span<const int32_t> outputs)
    : schema_(std::move(schema)) {
  slots_.reserve(outputs.size());
  for (const int32_t output : outputs) slots_.push_back(layout.slot(output));
}

Result<std::shared_ptr<arrow::RecordBatch>> BlockRows::Of(
    const std::shared_ptr<Block>& block, const Layout::Areas& areas) const {
  const Arrays arrays(block);
  std::vector<std::shared_ptr<arrow::ArrayData>> columns;
  columns.reserve(slots_.size());
  for (size_t i = 0; i < slots_.size(); ++i) {
    const Layout::Slot& slot = slots_[i];
    const auto& type = schema_->field(static_cast<int>(i))->type();
    if (slot.levels > 0) {
      ARROW_ASSIGN_OR_RAISE(
          columns.emplace_back(),
          arrays.Ragged(type, slot.levels, areas.numbers.data() + slot.number));
    } else {
      const int64_t offset = Layout::Address(block->data(), areas, slot) - block->data();
      ARROW_ASSIGN_OR_RAISE(columns.emplace_back(),
                            arrays.Dense(type, offset, areas.rows * slot.stride));
    }
    if (columns.back()->length != areas.rows) {
      return Status::Invalid("Expected " + std::to_string(areas.rows) +
                             " rows of field `" +
                             schema_->field(static_cast<int>(i))->name() + "`, got " +
                             std::to_string(columns.back()->length));
    }
  }
  return arrow::RecordBatch::Make(schema_, areas.rows, std::move(columns));
}

}  // namespace fastload
