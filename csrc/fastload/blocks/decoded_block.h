// Decoded rows of a row group on disk: an Arrow IPC file, whose footer has a checksum.
//
// Record batches are uncompressed and without nulls, so that a column's buffers are runs
// of plain values. A file appears under its name by a rename, whole, and never changes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "arrow/record_batch.h"
#include "fastload/base/status.h"
#include "fastload/plan/columns.h"

namespace fastload {

// In the metadata of the file's footer: behind kChecksumMark 16 hexadecimal digits of the
// XXH64 of the file, with zeros in their place, seeded with that of the entry's name.
inline constexpr char kChecksumKey[] = "fastload.checksum";
inline constexpr std::string_view kChecksumMark = "fastload-xxh64:";
inline constexpr std::string_view kNoChecksum = "0000000000000000";

// The type that values lie as in a block: that of an extension type, or itself.
const arrow::DataType* StorageOf(const arrow::DataType* type);

// Where the digits lie in a file of these bytes; nullopt if it is no such file.
std::optional<size_t> FindChecksum(std::string_view file);

enum class BlockState : uint8_t { kGood, kMissing, kDamaged };

// Mapped, and locked against whoever makes room. Immutable.
class DecodedBlock {
 public:
  // Of `state` kGood, else null.
  struct Opened {
    BlockState state = BlockState::kMissing;
    std::shared_ptr<const DecodedBlock> block;
  };
  // `name` is what the writer was given. The whole file is compared with its checksum,
  // unless that is `*checked`, which is set; what is damaged is removed.
  static Opened Open(const std::string& path, const std::string& name, uint64_t* checked);
  ~DecodedBlock();
  DecodedBlock(const DecodedBlock&) = delete;
  DecodedBlock& operator=(const DecodedBlock&) = delete;

  int64_t rows() const { return rows_; }

  // A column's rows in one record batch.
  struct Run {
    int64_t rows = 0;
    // Of each level of lists, the outermost first, and of the bytes of elements.
    std::vector<const int64_t*> offsets;
    const uint8_t* values = nullptr;
  };
  // The rows of the field `spec.leaves[0]`, one record batch after the other. An error if
  // its type is not that of the spec.
  Result<std::vector<Run>> Column(const ColumnSpec& spec) const;

 private:
  DecodedBlock(int fd, const uint8_t* data, size_t bytes)
      : fd_(fd), data_(data), bytes_(bytes) {}
  bool Check(const std::string& name, uint64_t* checked) const;
  Status Parse();

  const int fd_;
  const uint8_t* const data_;
  const size_t bytes_;
  int64_t rows_ = 0;
  std::vector<std::shared_ptr<arrow::RecordBatch>> batches_;
};

}  // namespace fastload
