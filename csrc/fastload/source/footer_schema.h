// What the footers of files that are alike have in common.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "arrow/type_fwd.h"
#include "fastload/base/status.h"
#include "fastload/source/leaf.h"
#include "parquet/metadata.h"

namespace fastload {

// Immutable once made, so it may be read from any thread.
class FooterSchema {
 public:
  // Keeps `metadata`. An Arrow status where Arrow can't make sense of the schema.
  static Result<std::shared_ptr<const FooterSchema>> Make(
      std::shared_ptr<parquet::FileMetaData> metadata);

  const std::vector<Leaf>& leaves() const { return leaves_; }

  // One field for each leaf, as Leaves::schema.
  const std::shared_ptr<arrow::Schema>& arrow() const { return arrow_; }

  const parquet::SchemaDescriptor& parquet() const { return *metadata_->schema(); }

  // Whether the leaves and their Arrow types are the same.
  bool SameLeaves(const FooterSchema& other) const;

  // In words; two that say the same are the same.
  std::string Text() const;

  // The same without the row groups that it was made with.
  Result<std::shared_ptr<const FooterSchema>> Slim() const;

  // A footer without row groups, as the end of a file.
  Result<std::string> Serialize() const;

 private:
  FooterSchema() = default;

  std::shared_ptr<parquet::FileMetaData> metadata_;
  std::vector<Leaf> leaves_;
  std::shared_ptr<arrow::Schema> arrow_;
};

// Those of many files, each once. Thread-safe.
class FooterSchemas {
 public:
  // The one that is known and the same, else itself, without row groups.
  Result<std::shared_ptr<const FooterSchema>> Share(
      const std::shared_ptr<const FooterSchema>& schema);

 private:
  std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<const FooterSchema>> by_text_;
};

// A footer as the end of a file.
Result<std::string> SerializeTail(const parquet::FileMetaData& metadata);

}  // namespace fastload
