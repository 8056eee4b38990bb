#include "fastload/filter/column_tests.h"

#include <utility>

namespace fastload {

Status ColumnTests::Run(int64_t rows) {
  values_.resize(kBlockRows);
  valid_.resize(kBlockRows);
  for (int64_t done = 0; done < rows;) {
    ARROW_ASSIGN_OR_RAISE(const int64_t count, RunPage(done, rows - done));
    done += count;
  }
  if (!nullable_) return Status::OK();
  for (const Outcome& outcome : tests_) {
    const uint8_t null = outcome.test->nulls ? 1 : 0;
    for (int64_t i = 0; i < rows; ++i) {
      outcome.passes[i] = valid_[static_cast<size_t>(i)] != 0 ? outcome.passes[i] : null;
    }
  }
  return Status::OK();
}

Result<int64_t> ColumnTests::RunPage(int64_t at, int64_t most) {
  uint8_t* const valid = nullable_ ? valid_.data() + at : nullptr;
  auto* const values = reinterpret_cast<uint8_t*>(values_.data());
  ARROW_ASSIGN_OR_RAISE(const auto dictionary, reader_->Dictionary());
  if (!dictionary.empty()) {
    LookAt(dictionary);
    ARROW_ASSIGN_OR_RAISE(const int64_t count,
                          reader_->ReadCodes(most, {.bytes = 4}, values, valid));
    const auto* const codes = reinterpret_cast<const uint32_t*>(values);
    for (const Outcome& outcome : tests_) {
      for (int64_t i = 0; i < count; ++i) {
        outcome.passes[at + i] = outcome.of_codes[codes[i]];
      }
    }
    if (count > 0) return count;
  }
  ARROW_RETURN_NOT_OK(reader_->Read(most, values, ItemSize(spec_->dtype), valid));
  for (const Outcome& outcome : tests_) {
    outcome.test->Run(spec_->dtype, values, most, outcome.passes + at);
  }
  return most;
}

void ColumnTests::LookAt(std::span<const uint8_t> dictionary) {
  if (std::exchange(dictionary_, dictionary.data()) == dictionary.data()) return;
  const auto entries = static_cast<int64_t>(dictionary.size()) / ItemSize(spec_->dtype);
  for (Outcome& outcome : tests_) {
    outcome.of_codes.resize(static_cast<size_t>(entries));
    outcome.test->Run(spec_->dtype, dictionary.data(), entries, outcome.of_codes.data());
  }
}

}  // namespace fastload
