#include "fastload/source/summary_file.h"

#include <map>
#include <memory>
#include <utility>

#include "fastload/source/arrow_versions.h"
#include "fastload/source/footer.h"
#include "parquet/metadata.h"

namespace fastload {

Result<std::vector<SummaryPart>> SplitSummary(std::string_view tail) {
  std::vector<SummaryPart> parts;
  ARROW_RETURN_NOT_OK(CatchParquet([&]() -> Status {
    const auto bytes = static_cast<int64_t>(tail.size());
    if (bytes < Footer::kTrailerBytes) return Status::Invalid("no trailer");
    const auto summary = ReadFileMetaData(
        tail.substr(0, static_cast<size_t>(bytes - Footer::kTrailerBytes)));
    std::map<std::string, size_t> numbers;
    std::vector<std::vector<int>> row_groups;
    for (int g = 0; g < summary->num_row_groups(); ++g) {
      const auto row_group = summary->RowGroup(g);
      const std::string path =
          row_group->num_columns() > 0 ? row_group->ColumnChunk(0)->file_path() : "";
      if (path.empty()) {
        return MakeError(
            ErrorKind::kCorruptFile,
            "Expected row group " + std::to_string(g) + " to name its file, got none");
      }
      const auto [found, added] = numbers.try_emplace(path, parts.size());
      if (added) {
        parts.push_back({path, ""});
        row_groups.emplace_back();
      }
      row_groups[found->second].push_back(g);
    }
    for (size_t i = 0; i < parts.size(); ++i) {
      const auto own = summary->Subset(row_groups[i]);
      own->set_file_path("");  // as the file itself has it
      ARROW_ASSIGN_OR_RAISE(parts[i].tail, SerializeTail(*own));
    }
    return Status::OK();
  }));
  return parts;
}

}  // namespace fastload
