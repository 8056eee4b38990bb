// Memory that several processes map.
#pragma once

#include <cstdint>
#include <memory>

#include "fastload/base/status.h"

namespace fastload {

// An anonymous file, mapped whole: it has no name and counts in no file system, so that
// nothing is left behind by a crash and no mount limits it. Only pages that are touched
// take memory. A child of fork() has the mapping too.
class SharedMapping {
 public:
  // A new file of `bytes` bytes, or of fewer where the process may not map as many.
  static Result<std::shared_ptr<SharedMapping>> Make(int64_t bytes);
  // The file of another process; `fd` stays the caller's.
  static Result<std::shared_ptr<SharedMapping>> Open(int fd);

  ~SharedMapping();
  SharedMapping(const SharedMapping&) = delete;
  SharedMapping& operator=(const SharedMapping&) = delete;

  uint8_t* data() const { return data_; }
  int64_t size() const { return size_; }
  // -1 if it was opened.
  int fd() const { return fd_; }

 private:
  SharedMapping(uint8_t* data, int64_t size, int fd)
      : data_(data), size_(size), fd_(fd) {}

  uint8_t* const data_;
  const int64_t size_;
  const int fd_;
};

}  // namespace fastload
