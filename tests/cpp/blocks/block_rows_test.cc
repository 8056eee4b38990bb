#include "fastload/blocks/block_rows.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "arrow/array.h"
#include "block_file.h"
#include "fastload/base/memory.h"
#include "fastload/plan/layout.h"

namespace fastload {
namespace {

constexpr int32_t kHidden = 1;  // an output that no field has

class BlockRowsTest : public ::testing::Test {
 protected:
  const std::vector<ColumnSpec> columns_{testing::NumberSpec(), testing::VectorSpec(),
                                         testing::TextSpec(), testing::ListSpec()};
  const Layout layout_{columns_,
                       {{OutputKind::kRagged, {3}},
                        {OutputKind::kRow, {}},
                        {OutputKind::kColumn, {0}},
                        {OutputKind::kRagged, {2}},
                        {OutputKind::kList, {1}}}};
  const std::vector<int32_t> outputs_{2, 4, 3, 0};  // by field
  BlockPool pool_{MakePrivateMemory(), 0};
};

// Fills a batch with the rows of testing::BlockRows; the bytes between areas are ones.
TEST_F(BlockRowsTest, RowsAreThoseOfTheBatch) {
  for (const int64_t rows : {1, 7, 64, 333}) {
    const auto expected = testing::BlockRows(5, rows);
    const auto& vectors =
        static_cast<const arrow::FixedSizeListArray&>(*expected->column(1));
    const auto& texts = static_cast<const arrow::LargeStringArray&>(*expected->column(2));
    const auto& lists = static_cast<const arrow::LargeListArray&>(*expected->column(3));
    const auto& words = static_cast<const arrow::LargeStringArray&>(*lists.values());
    // The sizes have the order of the layout's ragged outputs.
    const std::vector<int64_t> sizes{words.length(), words.total_values_length(),
                                     texts.total_values_length()};
    const Layout::Areas areas = layout_.Place(rows, sizes);
    const auto block = *pool_.Allocate(areas.bytes);
    std::memset(block->data(), 0xFF, static_cast<size_t>(areas.bytes));
    const auto put = [&](int64_t offset, const arrow::Buffer& from, int64_t bytes) {
      std::memcpy(block->data() + offset, from.data(), static_cast<size_t>(bytes));
    };
    const auto slot = [&](int32_t output) {
      return areas.numbers.data() + layout_.slot(output).number;
    };
    constexpr int64_t kNumber = sizeof(int64_t);
    const int64_t number_at =
        Layout::Address(block->data(), areas, layout_.slot(2)) - block->data();
    put(number_at, *expected->column(0)->data()->buffers[1], rows * kNumber);
    put(*slot(4), *vectors.values()->data()->buffers[1],
        rows * 3 * static_cast<int64_t>(sizeof(float)));
    put(slot(3)[0], *texts.value_offsets(), (rows + 1) * kNumber);
    put(slot(3)[2], *texts.value_data(), texts.total_values_length());
    put(slot(0)[0], *lists.value_offsets(), (rows + 1) * kNumber);
    put(slot(0)[2], *words.value_offsets(), (words.length() + 1) * kNumber);
    put(slot(0)[4], *words.value_data(), words.total_values_length());

    const BlockRows block_rows(testing::BlockSchema(), layout_, outputs_);
    const auto got = *block_rows.Of(block, areas);
    ASSERT_TRUE(got->ValidateFull().ok());
    EXPECT_TRUE(got->Equals(*expected));
    for (const auto& column : got->column_data()) {
      for (const auto& buffer : column->buffers) {
        if (buffer == nullptr) continue;
        EXPECT_EQ(buffer->size() % kAlignment, 0);
        EXPECT_GE(buffer->data(), block->data());
        EXPECT_LE(buffer->data() + buffer->size(), block->data() + areas.bytes);
      }
    }
    const arrow::Buffer& numbers = *got->column_data(0)->buffers[1];
    for (int64_t at = rows * kNumber; at < numbers.size(); ++at) {
      EXPECT_EQ(numbers[at], 0);
    }
  }
}

TEST_F(BlockRowsTest, FieldsOfOtherTypesAreRefused) {
  const Layout::Areas areas = layout_.Place(3, std::vector<int64_t>{0, 0, 0});
  const auto block = *pool_.Allocate(areas.bytes);
  const auto refused = [&](std::vector<int32_t> outputs) {
    const BlockRows rows(testing::BlockSchema(), layout_, outputs);
    return !rows.Of(block, areas).ok();
  };
  EXPECT_TRUE(refused({4, 4, 3, 0}));        // vectors as numbers
  EXPECT_TRUE(refused({kHidden, 4, 0, 0}));  // lists of texts as texts
  EXPECT_TRUE(refused({kHidden, 4, 2, 0}));  // numbers as texts
}

}  // namespace
}  // namespace fastload
