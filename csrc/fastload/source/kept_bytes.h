// Bytes in memory, or in a file that no longer changes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "fastload/base/status.h"

namespace fastload {

// A file that stays open as long as a reader may need the file. Thread-safe, also after a
// fork.
class KeptFile {
 public:
  // Throws std::system_error if the file can't be opened.
  explicit KeptFile(const std::string& path);
  ~KeptFile();
  KeptFile(const KeptFile&) = delete;
  KeptFile& operator=(const KeptFile&) = delete;

  // Returns `bytes` bytes from `offset` on. Fails if the file ends earlier.
  Result<std::string> Read(int64_t offset, int64_t bytes) const;

 private:
  const int fd_;
};

class KeptBytes {
 public:
  KeptBytes() = default;
  explicit KeptBytes(std::string bytes)
      : size_(static_cast<int64_t>(bytes.size())), bytes_(std::move(bytes)) {}
  KeptBytes(std::shared_ptr<const KeptFile> file, int64_t offset, int64_t bytes)
      : file_(std::move(file)), offset_(offset), size_(bytes) {}

  int64_t size() const { return size_; }
  Result<std::string> Read(int64_t offset, int64_t bytes) const;

 private:
  std::shared_ptr<const KeptFile> file_;  // null: bytes_ holds the bytes
  int64_t offset_ = 0;
  int64_t size_ = 0;
  std::string bytes_;
};

}  // namespace fastload
