// Files as Python passes them: (path, modification time, inode, footer). The modification
// time of a remote file is -1.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "fastload/source/file.h"
#include "fastload/source/footer.h"

namespace fastload {

using FileTuple = std::tuple<std::string, int64_t, uint64_t, std::shared_ptr<Footer>>;

inline std::vector<FileSpec> FileSpecs(const std::vector<FileTuple>& files) {
  std::vector<FileSpec> specs;
  specs.reserve(files.size());
  for (const auto& [path, mtime_ns, inode, footer] : files) {
    specs.push_back({.path = path,
                     .bytes = footer->file_bytes(),
                     .mtime_ns = mtime_ns,
                     .inode = inode,
                     .remote = mtime_ns < 0,
                     .footer = footer});
  }
  return specs;
}

}  // namespace fastload
