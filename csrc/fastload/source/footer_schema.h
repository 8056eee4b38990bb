// The schema that the footers of similar files share.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "arrow/type_fwd.h"
#include "fastload/base/status.h"
#include "fastload/source/leaf.h"
#include "parquet/metadata.h"

namespace fastload {

// The four bytes that a Parquet file without encryption begins and ends with.
constexpr std::string_view kParquetMagic = "PAR1";

// A schema of a Parquet file. Immutable once made, so any thread may read the schema.
class FooterSchema {
 public:
  // Makes the schema of `metadata`, and keeps `metadata`. Returns an Arrow status where
  // Arrow does not understand the schema.
  static Result<std::shared_ptr<const FooterSchema>> Make(
      std::shared_ptr<parquet::FileMetaData> metadata);

  const std::vector<Leaf>& leaves() const { return leaves_; }

  // Returns one field for each leaf, like Leaves::schema.
  const std::shared_ptr<arrow::Schema>& arrow() const { return arrow_; }

  const parquet::SchemaDescriptor& parquet() const { return *metadata_->schema(); }

  // Returns true if both schemas have the same leaves and Arrow types.
  bool SameLeaves(const FooterSchema& other) const;

  // Returns the schema as text; schemas with equal texts are equal.
  std::string Text() const;

  // Returns the same schema without the row groups of its metadata.
  Result<std::shared_ptr<const FooterSchema>> Slim() const;

  // Returns a footer with this schema and without row groups, as the end of a file.
  Result<std::string> Serialize() const;

 private:
  FooterSchema() = default;

  std::shared_ptr<parquet::FileMetaData> metadata_;
  std::vector<Leaf> leaves_;
  std::shared_ptr<arrow::Schema> arrow_;
};

// A set of the different schemas of many files. Thread-safe.
class FooterSchemas {
 public:
  // Returns the equal schema of the set; if the set has none, adds `schema` without row
  // groups and returns the added schema. `bytes`, if any, are those that the schema was
  // parsed from.
  Result<std::shared_ptr<const FooterSchema>> Share(
      const std::shared_ptr<const FooterSchema>& schema, std::string_view bytes = {});

  // Returns the schema that was parsed from equal bytes; null if none was of late.
  std::shared_ptr<const FooterSchema> Find(std::string_view bytes);

 private:
  static constexpr size_t kMostBytes = 64;  // entries of by_bytes_

  std::mutex mutex_;  // guards the members below
  std::unordered_map<std::string, std::shared_ptr<const FooterSchema>> by_text_;
  std::unordered_map<std::string, std::shared_ptr<const FooterSchema>> by_bytes_;
};

// Returns a footer as the end of a file.
Result<std::string> SerializeTail(const parquet::FileMetaData& metadata);

}  // namespace fastload
