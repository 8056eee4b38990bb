// Bytes that lie in memory, or in a file that is not changed any more.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "fastload/base/status.h"

namespace fastload {

// A file that is open for as long as somebody may read it. Thread-safe, also after a
// fork.
class KeptFile {
 public:
  // Throws std::system_error if it can't be opened.
  explicit KeptFile(const std::string& path);
  ~KeptFile();
  KeptFile(const KeptFile&) = delete;
  KeptFile& operator=(const KeptFile&) = delete;

  // Fails where the file ends before that.
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
  std::shared_ptr<const KeptFile> file_;  // null: bytes_ has them
  int64_t offset_ = 0;
  int64_t size_ = 0;
  std::string bytes_;
};

}  // namespace fastload
