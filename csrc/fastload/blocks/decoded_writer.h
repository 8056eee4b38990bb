// Writes blocks: see decoded_block.h.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "arrow/ipc/writer.h"
#include "arrow/record_batch.h"
#include "fastload/base/status.h"

namespace fastload {

class HashedFile;

// Writes the record batches of a block to a file that is empty. Not thread-safe. An
// ErrorKind::kStorage where the system refuses.
class DecodedWriter {
 public:
  // `fd` is borrowed; the file may be longer, without bytes, than it will be. `name` is
  // the entry's: a block in the place of another is damage.
  static Result<std::unique_ptr<DecodedWriter>> Make(
      int fd, const std::string& name, const std::shared_ptr<arrow::Schema>& schema);
  ~DecodedWriter();

  Status Add(const arrow::RecordBatch& batch);
  // Once. Returns the checksum, as DecodedBlock::Open knows it.
  Result<uint64_t> Finish();

 private:
  explicit DecodedWriter(std::shared_ptr<HashedFile> file) : file_(std::move(file)) {}

  const std::shared_ptr<HashedFile> file_;
  std::shared_ptr<arrow::ipc::RecordBatchWriter> writer_;
};

}  // namespace fastload
