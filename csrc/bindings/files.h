// Files as Python passes them: (path, modification time, inode, footer). The modification
// time of a remote file is -1.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "fastload/plan/columns.h"
#include "fastload/source/file.h"
#include "fastload/source/footer.h"

namespace fastload {

using FileTuple = std::tuple<std::string, int64_t, uint64_t, std::shared_ptr<Footer>>;

// `columns` are all that is read of the files; none: any.
inline std::vector<FileSpec> FileSpecs(const std::vector<FileTuple>& files,
                                       const std::vector<ColumnSpec>& columns = {}) {
  std::vector<FileSpec> specs;
  specs.reserve(files.size());
  std::shared_ptr<const std::vector<int32_t>> leaves;  // of the file before
  for (const auto& [path, mtime_ns, inode, footer] : files) {
    specs.push_back({.path = path,
                     .bytes = footer->file_bytes(),
                     .mtime_ns = mtime_ns,
                     .inode = inode,
                     .remote = mtime_ns < 0,
                     .footer = footer});
    std::vector<int32_t> own;
    for (const ColumnSpec& column : columns) {
      const auto file = static_cast<int32_t>(specs.size()) - 1;
      if (column.HasLeaf(file)) own.push_back(column.leaves[static_cast<size_t>(file)]);
    }
    std::ranges::sort(own);
    // The files of a dataset mostly have the same leaves.
    if (leaves == nullptr || *leaves != own) {
      leaves = std::make_shared<const std::vector<int32_t>>(std::move(own));
    }
    specs.back().leaves = leaves;
  }
  return specs;
}

}  // namespace fastload
