// A file of a dataset: what its footer says, and its bytes.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "fastload/base/byte_range.h"
#include "fastload/base/status.h"
#include "fastload/source/footer.h"
#include "parquet/metadata.h"

namespace fastload {

// A row group of parsed metadata.
struct ParsedRowGroup {
  std::shared_ptr<parquet::FileMetaData> file;  // perhaps of this row group alone
  std::unique_ptr<parquet::RowGroupMetaData> group;
};

// Of packed footers the row groups that were asked for last, so that each is parsed once
// for all columns, and the file that was parsed last, for its neighbours. Thread-safe; a
// process from after a fork needs its own.
class ParsedFooters {
 public:
  // Throws what libparquet throws.
  Result<ParsedRowGroup> Get(const Footer& footer, int32_t row_group);

 private:
  using Key = std::pair<const Footer*, int32_t>;
  using Metadata = std::shared_ptr<parquet::FileMetaData>;
  // More than the row groups of two windows take: windows are of a few hundred MB, and
  // column chunks of at least a few KB.
  static constexpr int64_t kMostBytes = int64_t{64} << 20;
  static constexpr size_t kMostFiles = 8;

  Result<Metadata> File(const Footer& footer);

  std::mutex mutex_;
  std::list<std::pair<Key, Metadata>> row_groups_;  // the newest first
  std::map<Key, std::list<std::pair<Key, Metadata>>::iterator> by_key_;
  std::list<std::pair<const Footer*, Metadata>> files_;  // the newest first
  int64_t bytes_ = 0;
};

// A file as it was when its footer was read.
struct FileSpec {
  std::string path;
  int64_t bytes = 0;
  int64_t mtime_ns = 0;  // of a local file
  bool remote = false;   // its bytes come from a RemoteQueue
  std::shared_ptr<const Footer> footer;
  std::shared_ptr<ParsedFooters> parsed;  // null: nothing is kept

  // Throws what libparquet throws. Other errors name the file.
  Result<ParsedRowGroup> RowGroup(int32_t row_group) const;
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

// Thread-safe.
class File {
 public:
  virtual ~File() = default;
  // Reads exactly [offset, offset + bytes).
  virtual Status ReadAt(int64_t offset, int64_t bytes, uint8_t* out) const = 0;
  // Whether the system holds the bytes in its page cache, by a look at a few of them.
  // `seen`: where one was last found there, or none; those near it need no look.
  virtual bool IsCached(const ByteRange& /*range*/,
                        std::optional<int64_t>* /*seen*/) const {
    return false;
  }
  // Has the system bring bytes that are read soon, without waiting for them.
  virtual void BringAhead(const ByteRange& /*range*/) const {}
};

class LocalFile final : public File {
 public:
  // A file whose size or modification time is not the planned one is an
  // ErrorKind::kSourceChanged.
  static Result<std::shared_ptr<LocalFile>> Open(const FileSpec& spec);
  ~LocalFile() override;
  LocalFile(const LocalFile&) = delete;
  LocalFile& operator=(const LocalFile&) = delete;

  Status ReadAt(int64_t offset, int64_t bytes, uint8_t* out) const override;
  bool IsCached(const ByteRange& range, std::optional<int64_t>* seen) const override;
  void BringAhead(const ByteRange& range) const override;

 private:
  LocalFile(int fd, const std::string& path) : fd_(fd), path_(path) {}
  int fd_;
  std::string path_;
};

}  // namespace fastload
