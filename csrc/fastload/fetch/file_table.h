// The files of a dataset. A local file is opened when it is needed, and stays open while
// the process has descriptors to spare.
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
#include "fastload/base/platform.h"
#include "fastload/base/status.h"
#include "fastload/fetch/remote.h"
#include "fastload/source/file.h"

namespace fastload {

// A table of a dataset's files by index. Thread-safe.
class FileTable {
 public:
  // `remote` is null if all files are local. `most_open` limits the local files that are
  // open in the whole process, besides the files that are being read.
  explicit FileTable(std::vector<FileSpec> files,
                     std::shared_ptr<RemoteQueue> remote = nullptr,
                     size_t most_open = MostOpenFiles())
      : files_(std::move(files)), remote_(std::move(remote)), most_open_(most_open) {}

  const FileSpec& spec(int32_t file) const { return files_[static_cast<size_t>(file)]; }
  int32_t size() const { return static_cast<int32_t>(files_.size()); }

  RemoteQueue* remote() const { return remote_.get(); }

  // Returns true if the ranges are read from disk: from a local file, or from a cache.
  bool OnDisk(int32_t file, const std::vector<ByteRange>& ranges) const;

  // Returns the file, and opens the file if it is not open. A caller that keeps the file
  // for longer than a read keeps a weak_ptr, so that the table can close the file.
  Result<std::shared_ptr<File>> Open(int32_t file);

  // Checks the open local files when a pass begins, and closes replaced files. Files that
  // are not open are checked when they are opened.
  Status CheckOpen();

  // Lets remote reads fail from now on.
  void CloseAll();

 private:
  // A table keeps this many files open even if others have reached the process's limit.
  static constexpr size_t kLeastOpen = 4;
  using OpenFile = std::pair<int32_t, std::shared_ptr<LocalFile>>;

  // Closes the files used longest ago that exceed `most` open files of the process.
  // mutex_ is held.
  void CloseOldest(size_t most);

  const std::vector<FileSpec> files_;
  const std::shared_ptr<RemoteQueue> remote_;
  const size_t most_open_;
  std::mutex mutex_;          // guards the members below
  std::list<OpenFile> open_;  // newest first
  std::unordered_map<int32_t, std::list<OpenFile>::iterator> by_index_;
};

}  // namespace fastload
