#include "fastload/blocks/decoded_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>
#include <utility>
#include <vector>

#include "arrow/array/data.h"
#include "arrow/buffer.h"
#include "arrow/io/interfaces.h"
#include "arrow/util/byte_size.h"
#include "arrow/util/key_value_metadata.h"
#include "fastload/base/hash.h"
#include "fastload/base/platform.h"
#include "fastload/blocks/decoded_block.h"

namespace fastload {
namespace {

// The bytes written at a time, so that hashed bytes are still in a CPU cache when they
// are written.
constexpr int64_t kChunkBytes = 256 << 10;
// Smaller writes are gathered first.
constexpr int64_t kSmallBytes = 64 << 10;
constexpr int32_t kBufferAlignment = 64;
constexpr std::array<uint8_t, kBufferAlignment> kZeros{};

Status WriteError(int error) {
  return MakeError(ErrorKind::kStorage, std::generic_category().message(error));
}

// Returns the array with buffers padded to multiples of kBufferAlignment bytes, which
// Arrow writes one after another (but Arrow cuts offsets to multiples of 8). Most record
// batches have such buffers already.
Result<std::shared_ptr<arrow::ArrayData>> Padded(const arrow::ArrayData& data) {
  // Not a copy of `data`: Arrow's copy constructor ends the process without memory.
  auto padded =
      arrow::ArrayData::Make(data.type, data.length, data.buffers, data.child_data,
                             data.dictionary, data.null_count.load(), data.offset);
  for (auto& buffer : padded->buffers) {
    if (buffer == nullptr || buffer->size() % kBufferAlignment == 0) continue;
    const int64_t bytes = buffer->size();
    const int64_t whole =
        (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
    ARROW_ASSIGN_OR_RAISE(auto copy, arrow::AllocateBuffer(whole));
    std::memcpy(copy->mutable_data(), buffer->data(), static_cast<size_t>(bytes));
    std::memset(copy->mutable_data() + bytes, 0, static_cast<size_t>(whole - bytes));
    buffer = std::move(copy);
  }
  for (auto& child : padded->child_data) {
    ARROW_ASSIGN_OR_RAISE(child, Padded(*child));
  }
  return padded;
}

}  // namespace

// A stream that writes a file from its start on, and hashes the bytes.
class HashedFile final : public arrow::io::OutputStream {
 public:
  HashedFile(int fd, const std::string& name) : fd_(fd) {
    XXH64_reset(&state_, Hash64(name.data(), name.size(), 0));
    set_mode(arrow::io::FileMode::WRITE);
  }

  Status Close() override {
    closed_ = true;
    return Status::OK();
  }
  bool closed() const override { return closed_; }
  Result<int64_t> Tell() const override { return position_; }
  Status Flush() override { return Status::OK(); }

  // Announces that `bytes` bytes come next.
  void Reserve(int64_t bytes) const {
    if (bytes > 0) FindBlocks(fd_, position_, bytes);
  }

  using arrow::io::OutputStream::Write;
  Status Write(const void* data, int64_t bytes) override {
    if (position_ == kSchemaBytesAt && bytes == sizeof(int32_t)) {
      return WriteSchemaBytes(data);
    }
    ARROW_RETURN_NOT_OK(Append(static_cast<const uint8_t*>(data), bytes));
    if (padding_ > 0 && position_ == schema_end_) {
      const int64_t padding = std::exchange(padding_, 0);
      return Append(kZeros.data(), padding);
    }
    return Status::OK();
  }

  // Writes the gathered bytes and the checksum's digits, and ends the file. Returns the
  // checksum.
  Result<uint64_t> Seal() {
    ARROW_RETURN_NOT_OK(WriteGathered());
    // The end of the file: the footer's number of bytes, and the magic.
    constexpr int64_t kTailBytes = 10;
    int32_t footer_bytes = 0;
    ARROW_RETURN_NOT_OK(
        ReadAt(&footer_bytes, sizeof(footer_bytes), position_ - kTailBytes));
    std::string footer(static_cast<size_t>(footer_bytes), '\0');
    const int64_t from = position_ - kTailBytes - footer_bytes;
    ARROW_RETURN_NOT_OK(ReadAt(footer.data(), footer.size(), from));
    const size_t mark = footer.rfind(kChecksumMark);
    if (mark == std::string::npos)
      return Status::Invalid("Expected digits of a checksum in the footer, got none");
    std::array<char, 17> digits{};
    const uint64_t checksum = XXH64_digest(&state_);
    std::snprintf(digits.data(), digits.size(), "%016llx",
                  static_cast<unsigned long long>(checksum));
    const auto at = from + static_cast<int64_t>(mark + kChecksumMark.size());
    ARROW_RETURN_NOT_OK(
        WriteAt(reinterpret_cast<const uint8_t*>(digits.data()), kNoChecksum.size(), at));
    struct stat status{};
    if (fstat(fd_, &status) != 0 ||
        (status.st_size > position_ && ftruncate(fd_, position_) != 0)) {
      return WriteError(errno);
    }
    return checksum;
  }

 private:
  // The position of the number of bytes of the schema's metadata, behind the format's
  // magic and padding and a mark. The metadata follows.
  static constexpr int64_t kSchemaBytesAt = 12;

  // Arrow aligns record batches to 64 bytes from the end of the schema on. A few more
  // zeros in the schema's metadata align record batches from the start of the file on.
  Status WriteSchemaBytes(const void* data) {
    int32_t bytes = 0;
    std::memcpy(&bytes, data, sizeof(bytes));
    schema_end_ = kSchemaBytesAt + static_cast<int64_t>(sizeof(bytes)) + bytes;
    padding_ = -schema_end_ & (kBufferAlignment - 1);
    bytes += static_cast<int32_t>(padding_);
    return Append(reinterpret_cast<const uint8_t*>(&bytes), sizeof(bytes));
  }

  Status Append(const uint8_t* data, int64_t bytes) {
    position_ += bytes;
    const auto gathered = static_cast<int64_t>(gathered_.size());
    if (bytes >= kSmallBytes || gathered + bytes > kChunkBytes) {
      ARROW_RETURN_NOT_OK(WriteGathered());
    }
    if (bytes < kSmallBytes) {
      gathered_.insert(gathered_.end(), data, data + bytes);
      return Status::OK();
    }
    for (int64_t at = 0; at < bytes; at += kChunkBytes) {
      ARROW_RETURN_NOT_OK(WriteHashed(data + at, std::min(kChunkBytes, bytes - at)));
    }
    return Status::OK();
  }

  Status WriteGathered() {
    const Status status =
        WriteHashed(gathered_.data(), static_cast<int64_t>(gathered_.size()));
    gathered_.clear();
    return status;
  }

  Status WriteHashed(const uint8_t* data, int64_t bytes) {
    if (bytes == 0) return Status::OK();
    XXH64_update(&state_, data, static_cast<size_t>(bytes));
    ARROW_RETURN_NOT_OK(WriteAt(data, static_cast<size_t>(bytes), written_));
    written_ += bytes;
    return Status::OK();
  }

  Status ReadAt(void* to, size_t bytes, int64_t at) const {
    const ssize_t n = pread(fd_, to, bytes, at);
    if (n == static_cast<ssize_t>(bytes)) return Status::OK();
    return WriteError(n < 0 ? errno : EIO);
  }

  Status WriteAt(const uint8_t* data, size_t bytes, int64_t at) const {
    while (bytes > 0) {
      const ssize_t n = pwrite(fd_, data, bytes, at);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return WriteError(errno);
      data += n;
      at += n;
      bytes -= static_cast<size_t>(n);
    }
    return Status::OK();
  }

  const int fd_;
  XXH64_state_t state_;
  std::vector<uint8_t> gathered_;
  int64_t position_ = 0;  // counts gathered bytes
  int64_t written_ = 0;
  int64_t schema_end_ = -1;
  int64_t padding_ = 0;
  bool closed_ = false;
};

Result<std::unique_ptr<DecodedWriter>> DecodedWriter::Make(
    int fd, const std::string& name, const std::shared_ptr<arrow::Schema>& schema) {
  std::unique_ptr<DecodedWriter> writer(
      new DecodedWriter(std::make_shared<HashedFile>(fd, name)));
  auto options = arrow::ipc::IpcWriteOptions::Defaults();
  options.alignment = kBufferAlignment;
  options.use_threads = false;
  const auto metadata = arrow::key_value_metadata(
      {kChecksumKey}, {std::string(kChecksumMark) + std::string(kNoChecksum)});
  ARROW_ASSIGN_OR_RAISE(writer->writer_, arrow::ipc::MakeFileWriter(writer->file_, schema,
                                                                    options, metadata));
  return writer;
}

DecodedWriter::~DecodedWriter() = default;

Status DecodedWriter::Add(const arrow::RecordBatch& batch) {
  file_->Reserve(arrow::util::TotalBufferSize(batch));
  std::vector<std::shared_ptr<arrow::ArrayData>> columns;
  for (const auto& column : batch.column_data()) {
    ARROW_ASSIGN_OR_RAISE(columns.emplace_back(), Padded(*column));
  }
  return writer_->WriteRecordBatch(
      *arrow::RecordBatch::Make(batch.schema(), batch.num_rows(), std::move(columns)));
}

Result<uint64_t> DecodedWriter::Finish() {
  ARROW_RETURN_NOT_OK(writer_->Close());
  return file_->Seal();
}

}  // namespace fastload
