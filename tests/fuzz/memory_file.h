// A file in memory that has a path, as long as this lives.
#pragma once

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "checked.h"

namespace fastload::testing {

class MemoryFile {
 public:
  MemoryFile() : fd_(memfd_create("fuzz", MFD_CLOEXEC)) {
    Expect(fd_ >= 0, "a file in memory");
  }
  ~MemoryFile() { close(fd_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  void Write(const uint8_t* data, size_t size) {
    const bool written = ftruncate(fd_, 0) == 0 &&
                         pwrite(fd_, data, size, 0) == static_cast<ssize_t>(size);
    Expect(written, "a file that can be written");
  }
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }
  int64_t modified_ns() const {
    struct stat now{};
    Expect(fstat(fd_, &now) == 0, "a file's time");
    return static_cast<int64_t>(now.st_mtim.tv_sec) * 1'000'000'000 + now.st_mtim.tv_nsec;
  }

 private:
  const int fd_;
};

}  // namespace fastload::testing
