#include "fastload/source/page_walk.h"

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "arrow/buffer.h"
#include "arrow/io/interfaces.h"
#include "fastload/source/arrow_versions.h"
#include "parquet/column_reader.h"
#include "parquet/metadata.h"
#include "parquet/properties.h"

namespace fastload {
namespace {

// A stream of a range that reads what is looked at, and passes over the rest.
class WalkedBytes final : public arrow::io::InputStream {
 public:
  WalkedBytes(const File* file, ByteRange range) : file_(file), range_(range) {}

  // Returns where libparquet last looked for a header.
  int64_t looked_at() const { return range_.offset + looked_at_; }
  int64_t read_bytes() const { return read_bytes_; }

  arrow::Status Close() override { return arrow::Status::OK(); }
  bool closed() const override { return false; }
  arrow::Result<int64_t> Tell() const override { return position_; }

  arrow::Result<std::string_view> Peek(int64_t bytes) override {
    looked_at_ = position_;
    return Look(bytes);
  }

  // The next read is of a page that is passed over: its bytes are not looked at.
  void PassOver() { passes_over_ = true; }

  arrow::Result<int64_t> Read(int64_t bytes, void* out) override {
    ARROW_ASSIGN_OR_RAISE(const std::string_view read, Look(bytes));
    std::copy(read.begin(), read.end(), static_cast<char*>(out));
    position_ += static_cast<int64_t>(read.size());
    return static_cast<int64_t>(read.size());
  }

  arrow::Result<std::shared_ptr<arrow::Buffer>> Read(int64_t bytes) override {
    if (std::exchange(passes_over_, false)) {
      position_ += std::clamp<int64_t>(bytes, 0, range_.bytes - position_);
      return std::make_shared<arrow::Buffer>(nullptr, 0);
    }
    ARROW_ASSIGN_OR_RAISE(const std::string_view read, Look(bytes));
    position_ += static_cast<int64_t>(read.size());
    return arrow::Buffer::FromString(std::string(read));
  }

 private:
  arrow::Result<std::string_view> Look(int64_t bytes) {
    // As much as is read at once: neighbouring small pages cost one call.
    constexpr int64_t kAhead = 64 << 10;
    bytes = std::clamp<int64_t>(bytes, 0, range_.bytes - position_);
    if (position_ < start_ || position_ + bytes > start_ + std::ssize(bytes_)) {
      const int64_t wanted = std::max(bytes, std::min(kAhead, range_.bytes - position_));
      bytes_.resize(static_cast<size_t>(wanted));
      start_ = position_;
      ARROW_RETURN_NOT_OK(file_->ReadAt(range_.offset + start_, wanted,
                                        reinterpret_cast<uint8_t*>(bytes_.data())));
      read_bytes_ += wanted;
    }
    return std::string_view(bytes_.data() + (position_ - start_),
                            static_cast<size_t>(bytes));
  }

  const File* const file_;
  const ByteRange range_;
  int64_t position_ = 0;
  int64_t looked_at_ = 0;
  bool passes_over_ = false;
  std::vector<char> bytes_;  // from start_ on
  int64_t start_ = 0;
  int64_t read_bytes_ = 0;
};

}  // namespace

Result<PageExtents> WalkPages(const FileSpec& spec, const File& file, int32_t row_group,
                              int32_t leaf, ByteRange chunk) {
  PageExtents extents;
  const bool flat = spec.Column(leaf)->max_repetition_level() == 0;
  const auto bytes = std::make_shared<WalkedBytes>(&file, chunk);
  bool known = true;
  int64_t rows = 0;
  ARROW_RETURN_NOT_OK(CatchParquet([&]() -> Status {
    ARROW_ASSIGN_OR_RAISE(const ParsedRowGroup parsed, spec.RowGroup(row_group));
    const auto metadata = parsed.group->ColumnChunk(leaf);
    parquet::ReaderProperties properties;
    LimitThrift(chunk.bytes, &properties);
    // Pages are passed over, and a dictionary stays compressed.
    auto pages =
        OpenPages(bytes, metadata->num_values(), parquet::Compression::UNCOMPRESSED,
                  properties, *spec.Column(leaf), /*always_compressed=*/false);
    const auto close = [&](int64_t end) {
      if (extents.pages.empty()) return;
      PageExtent& page = extents.pages.back();
      page.bytes = end - page.offset;
    };
    pages->set_data_page_filter([&](const parquet::DataPageStats& stats) {
      close(bytes->looked_at());
      extents.pages.push_back({.offset = bytes->looked_at(), .row = rows});
      if (flat) {
        rows += stats.num_values;
      } else if (stats.num_rows.has_value() && *stats.num_rows > 0 &&
                 *stats.num_rows < stats.num_values) {
        // Arrow before version 13 wrote the number of values instead of rows.
        rows += *stats.num_rows;
      } else {
        known = false;
      }
      bytes->PassOver();
      return true;
    });
    while (pages->NextPage() != nullptr) {
    }
    close(chunk.offset + chunk.bytes);
    return Status::OK();
  }));
  extents.read_bytes = bytes->read_bytes();
  if (!known || rows != spec.RowsOf(row_group)) extents.pages.clear();
  return extents;
}

}  // namespace fastload
