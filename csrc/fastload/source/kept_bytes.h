// Bytes in memory, or in a file that no longer changes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

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

  // Returns the hash of the bytes from `offset` on, to the file's end. The bytes are
  // read, not mapped, so that they do not count as memory of the process.
  Result<uint64_t> Hash(int64_t offset) const;

  // Returns the file's bytes where they are mapped, shared by all processes that map
  // them; empty where a page that the system can't read would end the process: in a file
  // of a network.
  std::string_view Mapped() const { return mapped_; }

  // Names the file for another process of this machine while this process runs: its path,
  // how this process has it open, and what tells the file from others.
  struct Name {
    std::string path;
    std::string open_as;
    uint64_t device = 0;
    uint64_t inode = 0;
  };
  Result<Name> GetName() const;
  // Opens the file of which another process told the name. Throws std::system_error.
  static std::shared_ptr<KeptFile> Of(const Name& name);

 private:
  const int fd_;
  const std::string_view mapped_;
};

// Bytes, and what keeps them in memory.
struct BytesView {
  std::string_view bytes;
  std::shared_ptr<const void> owner;
};

class KeptBytes {
 public:
  KeptBytes() = default;
  explicit KeptBytes(std::string bytes)
      : size_(static_cast<int64_t>(bytes.size())),
        bytes_(std::make_shared<const std::string>(std::move(bytes))) {}
  KeptBytes(std::shared_ptr<const KeptFile> file, int64_t offset, int64_t bytes)
      : file_(std::move(file)), offset_(offset), size_(bytes) {}

  int64_t size() const { return size_; }
  // Null: the bytes are in memory.
  const std::shared_ptr<const KeptFile>& file() const { return file_; }
  int64_t offset() const { return offset_; }  // in the file
  Result<std::string> Read(int64_t offset, int64_t bytes) const;
  // Returns the same bytes without a copy, where they are in memory or mapped.
  Result<BytesView> View(int64_t offset, int64_t bytes) const;

 private:
  Status Check(int64_t offset, int64_t bytes) const;

  std::shared_ptr<const KeptFile> file_;  // null: bytes_ holds the bytes
  int64_t offset_ = 0;
  int64_t size_ = 0;
  std::shared_ptr<const std::string> bytes_;
};

}  // namespace fastload
