// The files of a dataset. A local file is opened when it is first needed, and kept open.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fastload/base/byte_range.h"
#include "fastload/base/status.h"
#include "fastload/fetch/remote.h"
#include "fastload/source/file.h"

namespace fastload {

// A table of a dataset's files by index. Thread-safe.
class FileTable {
 public:
  // `remote` is null if all files are local.
  explicit FileTable(std::vector<FileSpec> files,
                     std::shared_ptr<RemoteQueue> remote = nullptr)
      : files_(std::move(files)), remote_(std::move(remote)) {}

  const FileSpec& spec(int32_t file) const { return files_[static_cast<size_t>(file)]; }
  int32_t size() const { return static_cast<int32_t>(files_.size()); }

  RemoteQueue* remote() const { return remote_.get(); }

  // Returns true if the ranges are read from disk: from a local file, or from a cache.
  bool OnDisk(int32_t file, const std::vector<ByteRange>& ranges) const;

  Result<std::shared_ptr<File>> Open(int32_t file);
  // Lets remote reads fail from now on.
  void CloseAll();

 private:
  // More open files are never needed at once (two windows of small files), and the number
  // stays far below the usual limit of 1,024 descriptors.
  static constexpr size_t kMaxOpen = 64;

  const std::vector<FileSpec> files_;
  const std::shared_ptr<RemoteQueue> remote_;
  std::mutex mutex_;                                           // guards the members below
  std::list<std::pair<int32_t, std::shared_ptr<File>>> open_;  // newest first
  std::unordered_map<int32_t, decltype(open_)::iterator> by_index_;
};

}  // namespace fastload
