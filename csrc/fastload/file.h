// The files of a dataset: local ones are opened when first needed and kept open.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "fastload/status.h"
#include "parquet/metadata.h"

namespace fastload {

struct ByteRange {
  int64_t offset = 0;
  int64_t bytes = 0;
};

// A file as it was when its footer was read.
struct FileSpec {
  std::string path;
  int64_t bytes = 0;
  int64_t mtime_ns = 0;  // of a local file
  bool remote = false;   // its bytes come from a RemoteQueue
  std::shared_ptr<parquet::FileMetaData> metadata;
};

// Thread-safe.
class File {
 public:
  virtual ~File() = default;
  // Reads exactly [offset, offset + bytes).
  virtual Status ReadAt(int64_t offset, int64_t bytes, uint8_t* out) const = 0;
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

 private:
  LocalFile(int fd, const std::string& path) : fd_(fd), path_(path) {}
  int fd_;
  std::string path_;
};

class RemoteQueue;

// The files of a dataset. Thread-safe.
class FileTable {
 public:
  // `remote` is null if all files are local ones.
  explicit FileTable(std::vector<FileSpec> files,
                     std::shared_ptr<RemoteQueue> remote = nullptr)
      : files_(std::move(files)), remote_(std::move(remote)) {}

  const FileSpec& spec(int32_t file) const { return files_[static_cast<size_t>(file)]; }
  int32_t size() const { return static_cast<int32_t>(files_.size()); }

  RemoteQueue* remote() const { return remote_.get(); }

  // Whether the ranges are to be read from disk: of a local file, or from a cache.
  bool OnDisk(int32_t file, const std::vector<ByteRange>& ranges) const;

  Result<std::shared_ptr<File>> Open(int32_t file);
  // Remote reads fail from now on.
  void CloseAll();

 private:
  // More are never needed at once (two windows of small files), and it stays far below
  // the usual limit of 1,024 descriptors.
  static constexpr size_t kMaxOpen = 64;

  const std::vector<FileSpec> files_;
  const std::shared_ptr<RemoteQueue> remote_;
  std::mutex mutex_;
  std::list<std::pair<int32_t, std::shared_ptr<File>>> open_;  // newest first
  std::unordered_map<int32_t, decltype(open_)::iterator> by_index_;
};

}  // namespace fastload
