#include "fastload/decode/pages/data_pages.h"

#include <cstring>
#include <string>
#include <utility>

namespace fastload {

std::shared_ptr<parquet::Page> WithBytes(const parquet::Page& page,
                                         const std::shared_ptr<arrow::Buffer>& bytes) {
  switch (page.type()) {
    case parquet::PageType::DICTIONARY_PAGE: {
      const auto& dictionary = static_cast<const parquet::DictionaryPage&>(page);
      return std::make_shared<parquet::DictionaryPage>(
          bytes, dictionary.num_values(), dictionary.encoding(), dictionary.is_sorted());
    }
    case parquet::PageType::DATA_PAGE: {
      const auto& data = static_cast<const parquet::DataPageV1&>(page);
      return std::make_shared<parquet::DataPageV1>(
          bytes, data.num_values(), data.encoding(), data.definition_level_encoding(),
          data.repetition_level_encoding(), data.uncompressed_size());
    }
    case parquet::PageType::DATA_PAGE_V2: {
      const auto& data = static_cast<const parquet::DataPageV2&>(page);
      return std::make_shared<parquet::DataPageV2>(
          bytes, data.num_values(), data.num_nulls(), data.num_rows(), data.encoding(),
          data.definition_levels_byte_length(), data.repetition_levels_byte_length(),
          data.uncompressed_size());
    }
    default:
      return nullptr;
  }
}

DataPages::DataPages(std::unique_ptr<parquet::PageReader> pages, PageValues* values,
                     PassOver pass_over, std::atomic<int64_t>* counter,
                     arrow::MemoryPool* pool, DictionaryPlace dictionary)
    : pages_(std::move(pages)),
      values_(values),
      counter_(counter),
      pool_(pool),
      frees_(dynamic_cast<FreesPages*>(pages_.get())),
      dictionary_(std::move(dictionary)) {
  if (dictionary_.kept != nullptr) {
    values_->SetShared(dictionary_.kept);
    has_dictionary_ = true;
  }
  pages_->set_data_page_filter(
      [this, pass_over = std::move(pass_over)](const parquet::DataPageStats& stats) {
        ++page_;
        return pass_over(stats);
      });
}

Result<const parquet::DataPage*> DataPages::Next() {
  while (true) {
    left_.reset();
    current_ = pages_->NextPage();
    if (current_ == nullptr) return nullptr;
    switch (current_->type()) {
      case parquet::PageType::DATA_PAGE:
      case parquet::PageType::DATA_PAGE_V2:
        if (counter_ != nullptr) *counter_ += 1;
        return static_cast<const parquet::DataPage*>(current_.get());
      case parquet::PageType::DICTIONARY_PAGE:
        if (has_dictionary_) {
          return MakeError(ErrorKind::kCorruptFile,
                           "Expected one dictionary page, got another");
        }
        has_dictionary_ = true;
        ARROW_RETURN_NOT_OK(values_->SetDictionary(
            static_cast<const parquet::DictionaryPage&>(*current_)));
        if (dictionary_.keep != nullptr) {
          if (auto shared = values_->ShareDictionary()) {
            dictionary_.keep(std::move(shared));
          }
        }
        break;
      default:
        break;
    }
  }
}

const uint8_t* DataPages::KeepLeft(int64_t levels, const uint8_t** from) {
  if (frees_ == nullptr || current_ == nullptr || !frees_->CanFreePage()) return nullptr;
  const auto values = values_->Left();
  if (!values.has_value()) return nullptr;
  const auto bytes = static_cast<int64_t>(values->size());
  auto left = arrow::AllocateBuffer(levels + bytes, pool_);
  if (!left.ok()) return nullptr;
  left_ = *std::move(left);
  const auto& page = static_cast<const parquet::DataPage&>(*current_);
  *from = page.data();
  uint8_t* const to = left_->mutable_data();
  if (levels > 0) std::memcpy(to, page.data(), static_cast<size_t>(levels));
  if (bytes > 0) std::memcpy(to + levels, values->data(), values->size());
  values_->MoveTo(to + levels);
  Free();
  return to;
}

void DataPages::Free() {
  current_.reset();
  if (frees_ != nullptr) frees_->FreePage();
}

Status DataPages::SetValues(int64_t offset) {
  const auto& page = static_cast<const parquet::DataPage&>(*current_);
  if (offset > page.size()) {
    return MakeError(ErrorKind::kCorruptFile,
                     "Expected levels of at most " + std::to_string(page.size()) +
                         " bytes, got " + std::to_string(offset));
  }
  const bool kept = dynamic_cast<const KeptPage*>(page.buffer().get()) != nullptr;
  values_->KeepPage(kept ? page.buffer() : nullptr, page_);
  return values_->SetPage(page.encoding(), page.data() + offset, page.size() - offset,
                          page.num_values());
}

}  // namespace fastload
