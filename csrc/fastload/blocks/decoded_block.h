// A cached row group: decoded rows of a row group on disk, in an Arrow IPC file whose
// footer has a checksum.
//
// Record batches are uncompressed and without nulls, so that a column's buffers are runs
// of plain values. The file appears under its name by a rename, complete, and never
// changes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "arrow/memory_pool.h"
#include "arrow/record_batch.h"
#include "fastload/base/status.h"
#include "fastload/plan/columns.h"

namespace fastload {

// The key and format of the checksum in the metadata of the file's footer: kChecksumMark,
// then 16 hexadecimal digits. The checksum is the XXH64 of the file with zeros in place
// of the digits, seeded with the XXH64 of the entry's name.
inline constexpr char kChecksumKey[] = "fastload.checksum";
inline constexpr std::string_view kChecksumMark = "fastload-xxh64:";
inline constexpr std::string_view kNoChecksum = "0000000000000000";

// Returns the type in which a block stores values: the storage type of an extension type,
// else the type itself.
const arrow::DataType* StorageOf(const arrow::DataType* type);

// Returns the position of the checksum's digits in a file of these bytes, or nullopt if
// the file is no block.
std::optional<size_t> FindChecksum(std::string_view file);

enum class BlockState : uint8_t { kGood, kMissing, kDamaged };

// A block that is mapped, and locked against eviction by other processes, or a block in
// memory. Immutable.
class DecodedBlock {
 public:
  // `block` is null unless `state` is kGood.
  struct Opened {
    BlockState state = BlockState::kMissing;
    std::shared_ptr<const DecodedBlock> block;
  };
  // Opens a block; `name` is the name that the writer was given. Compares the whole file
  // with its checksum, and checks that offsets never fall, unless the checksum equals
  // `*checked`; sets `*checked`. Removes a damaged file.
  static Opened Open(const std::string& path, const std::string& name, uint64_t* checked);
  // Makes a block of record batches in memory, which a file of the cache may hold later.
  // `held_bytes` grows by the bytes of the record batches until the block is destroyed.
  static std::shared_ptr<const DecodedBlock> Hold(
      std::vector<std::shared_ptr<arrow::RecordBatch>> batches,
      std::shared_ptr<std::atomic<int64_t>> held_bytes);
  ~DecodedBlock();
  DecodedBlock(const DecodedBlock&) = delete;
  DecodedBlock& operator=(const DecodedBlock&) = delete;

  int64_t rows() const { return rows_; }
  // Bytes of record batches in memory; 0 for a mapped file.
  int64_t held_bytes() const { return held_; }

  // A column's rows in one record batch.
  struct Run {
    int64_t rows = 0;
    // The offsets of each level of lists, the outermost first, then the offsets of the
    // bytes of elements.
    std::vector<const int64_t*> offsets;
    const uint8_t* values = nullptr;
  };
  // Returns the rows of the field `spec.leaves[0]`, one run for each record batch.
  // Returns an error if the field's type differs from the spec's type.
  Result<std::vector<Run>> Column(const ColumnSpec& spec) const;

 private:
  DecodedBlock() = default;
  // Checks the mapped file as Open says, and parses the file.
  bool IsGood(const std::string& name, uint64_t* checked);
  Status Parse();

  int fd_ = -1;
  const uint8_t* data_ = nullptr;  // null: the system refused the mapping
  size_t bytes_ = 0;
  // Buffers are in the mapped file. Compressed buffers, which only a file of someone else
  // has, get no more memory than the file has bytes.
  std::optional<arrow::CappedMemoryPool> memory_;
  int64_t rows_ = 0;
  int64_t held_ = 0;
  std::shared_ptr<std::atomic<int64_t>> all_held_;  // null for a mapped file
  std::vector<std::shared_ptr<arrow::RecordBatch>> batches_;
};

}  // namespace fastload
