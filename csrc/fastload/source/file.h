// A file of a dataset: its footer and its bytes.
#pragma once

#include <sys/stat.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "fastload/base/byte_range.h"
#include "fastload/base/status.h"
#include "fastload/source/footer.h"
#include "parquet/metadata.h"

namespace fastload {

// A file as it was when its footer was read.
struct FileSpec {
  std::string path;
  int64_t bytes = 0;
  int64_t mtime_ns = 0;  // modification time of a local file
  uint64_t inode = 0;    // inode of a local file; 0: unknown
  bool remote = false;   // a RemoteQueue brings the file's bytes
  std::shared_ptr<const Footer> footer;
  // Returns what the footer says of a column chunk. Errors name the file.
  Result<FooterChunk> Chunk(int32_t row_group, int32_t leaf) const {
    return footer->Chunk(row_group, leaf);
  }
  const parquet::ColumnDescriptor* Column(int32_t leaf) const {
    return footer->schema()->parquet().Column(leaf);
  }
  int32_t row_groups() const {
    return static_cast<int32_t>(footer->row_group_rows().size());
  }
  int64_t RowsOf(int32_t row_group) const {
    return footer->row_group_rows()[static_cast<size_t>(row_group)];
  }
};

// A file that can be read at any offset. Thread-safe.
class File {
 public:
  virtual ~File() = default;
  // Reads exactly [offset, offset + bytes).
  virtual Status ReadAt(int64_t offset, int64_t bytes, uint8_t* out) const = 0;
  // Returns true if the system's page cache probably holds the range; checks only a few
  // bytes. `*seen` is the last offset that was found in the page cache, or nullopt;
  // offsets near `*seen` are assumed to be cached. IsCached updates `*seen`.
  virtual bool IsCached(const ByteRange& /*range*/,
                        std::optional<int64_t>* /*seen*/) const {
    return false;
  }
  // Returns true if parts of the range are read at little cost, one after another.
  virtual bool AtHand(const ByteRange& /*range*/) const { return true; }
  // Asks the system to read the range into its page cache, and does not wait.
  virtual void BringAhead(const ByteRange& /*range*/) const {}
};

// A local file that is open. The file must stay as it was when its footer was read: a
// file with another size or modification time is an ErrorKind::kSourceChanged, and so is
// a file that no longer exists. A file with another inode was replaced; its footer is
// read again and compared, because some file systems change the inodes of files.
class LocalFile final : public File {
 public:
  // Opens the file, and checks that the file is unchanged.
  static Result<std::shared_ptr<LocalFile>> Open(const FileSpec& spec);
  ~LocalFile() override;
  LocalFile(const LocalFile&) = delete;
  LocalFile& operator=(const LocalFile&) = delete;

  // Also checks, after the read, that the file is unchanged.
  Status ReadAt(int64_t offset, int64_t bytes, uint8_t* out) const override;
  bool IsCached(const ByteRange& range, std::optional<int64_t>* seen) const override;
  void BringAhead(const ByteRange& range) const override;

  // Checks that the path still leads to a file like the planned one. Sets `*same` to
  // false if the path leads to another inode than this file.
  Status CheckPath(bool* same) const;

  // Returns the number of local files that are open in this process.
  static size_t open_files() { return live_files; }

 private:
  // Makes a file that Open has still to open.
  explicit LocalFile(const FileSpec& spec)
      : path_(spec.path), bytes_(spec.bytes), mtime_ns_(spec.mtime_ns) {
    ++live_files;
  }
  Status ReadBytes(int64_t offset, int64_t bytes, uint8_t* out) const;
  Status CheckUnchanged(const struct stat& now) const;
  Status CheckFooter(const FileSpec& spec) const;

  // A forked child inherits the open descriptors, and so their number.
  static inline std::atomic<size_t> live_files = 0;

  int fd_ = -1;
  const std::string path_;
  const int64_t bytes_;     // planned
  const int64_t mtime_ns_;  // planned
  uint64_t inode_ = 0;
};

}  // namespace fastload
