// Summary files (`_metadata`): one footer of the row groups of many files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "fastload/base/status.h"

namespace fastload {

struct SummaryPart {
  std::string path;  // of the file, relative to the summary's directory
  std::string tail;  // its footer as far as the summary knows, for Footer::Make
};

// By file, in order of first appearance. `tail` is the end of the summary file, from its
// footer on. An error where a row group names no file.
Result<std::vector<SummaryPart>> SplitSummary(std::string_view tail);

}  // namespace fastload
