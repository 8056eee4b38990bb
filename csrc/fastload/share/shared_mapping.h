// Memory that several processes map.
#pragma once

#include <cstdint>
#include <memory>

#include "fastload/base/status.h"

namespace fastload {

// An anonymous file, mapped as a whole. The file has no name and belongs to no mounted
// file system, so that a crash leaves nothing behind and no mount limits its size. Only
// touched pages take memory. A child of fork() inherits the mapping.
class SharedMapping {
 public:
  // Makes a file of `bytes` bytes, or of fewer if the process may not map as many.
  static Result<std::shared_ptr<SharedMapping>> Make(int64_t bytes);
  // Maps the file of another process; `fd` remains the caller's.
  static Result<std::shared_ptr<SharedMapping>> Open(int fd);

  ~SharedMapping();
  SharedMapping(const SharedMapping&) = delete;
  SharedMapping& operator=(const SharedMapping&) = delete;

  uint8_t* data() const { return data_; }
  int64_t size() const { return size_; }
  // Returns the file's descriptor, or -1 for a mapping that Open made.
  int fd() const { return fd_; }

 private:
  SharedMapping(uint8_t* data, int64_t size, int fd)
      : data_(data), size_(size), fd_(fd) {}

  uint8_t* const data_;
  const int64_t size_;
  const int fd_;
};

}  // namespace fastload
