// Files of some bytes, and reads of the files.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <iterator>
#include <string>

#include "fastload/base/status.h"
#include "fastload/source/file.h"
#include "temporary_directory.h"

namespace fastload::testing {

class FilesTest : public ::testing::Test {
 protected:
  FileSpec Write(const std::string& name, const std::string& bytes) {
    const std::string path = directory_.File(name);
    WriteFile(path, bytes);
    return {.path = path, .bytes = FileBytes(path), .mtime_ns = ModifiedNs(path)};
  }

  TemporaryDirectory directory_;
};

// Returns the number of open descriptors of this process.
inline int64_t OpenDescriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return std::distance(begin(all), end(all));
}

// Returns the bytes at `offset`, or the message of the error.
inline std::string ReadAt(const File& file, int64_t offset, int64_t bytes) {
  std::string text(static_cast<size_t>(bytes), '?');
  const Status status =
      file.ReadAt(offset, bytes, reinterpret_cast<uint8_t*>(text.data()));
  return status.ok() ? text : status.message();
}

}  // namespace fastload::testing
