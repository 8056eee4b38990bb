// A writer of blocks (see decoded_block.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "arrow/ipc/writer.h"
#include "arrow/record_batch.h"
#include "fastload/base/status.h"

namespace fastload {

class HashedFile;

// A writer of a block's record batches to an empty file. Not thread-safe. Returns an
// ErrorKind::kStorage where the system refuses.
class DecodedWriter {
 public:
  // `fd` is borrowed. The file may already have a larger size than the block will need,
  // without bytes. `name` is the name of the cache's entry: a block under another entry's
  // name is damage.
  static Result<std::unique_ptr<DecodedWriter>> Make(
      int fd, const std::string& name, const std::shared_ptr<arrow::Schema>& schema);
  ~DecodedWriter();

  Status Add(const arrow::RecordBatch& batch);
  // Completes the file. May be called once. Returns the checksum, as DecodedBlock::Open
  // compares it.
  Result<uint64_t> Finish();

 private:
  explicit DecodedWriter(std::shared_ptr<HashedFile> file) : file_(std::move(file)) {}

  const std::shared_ptr<HashedFile> file_;
  std::shared_ptr<arrow::ipc::RecordBatchWriter> writer_;
};

}  // namespace fastload
