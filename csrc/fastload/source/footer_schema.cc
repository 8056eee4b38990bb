#include "fastload/source/footer_schema.h"

#include <algorithm>
#include <utility>

#include "arrow/type.h"
#include "arrow/util/utf8.h"

namespace fastload {
namespace {

bool IsUtf8(const std::string& text) {
  arrow::util::InitializeUTF8();
  return arrow::util::ValidateUTF8(reinterpret_cast<const uint8_t*>(text.data()),
                                   static_cast<int64_t>(text.size()));
}

// Checks that names are text, as the format says. Types may contain names, too: names of
// time zones, and of the fields of a dictionary's values.
Status CheckNames(const Leaves& leaves) {
  for (const Leaf& leaf : leaves.leaves) {
    if (std::ranges::all_of(leaf.path, IsUtf8) && std::ranges::all_of(leaf.names, IsUtf8))
      continue;
    return MakeError(
        ErrorKind::kCorruptFile,
        "Expected the name of a column in UTF-8, got `" + leaf.DottedName() + "`");
  }
  for (const auto& field : leaves.schema->fields()) {
    if (IsUtf8(field->type()->ToString())) continue;
    return MakeError(ErrorKind::kCorruptFile,
                     "Expected names in UTF-8 in the type of the column `" +
                         field->name() + "`, got " + field->type()->ToString());
  }
  return Status::OK();
}

}  // namespace

Result<std::shared_ptr<const FooterSchema>> FooterSchema::Make(
    std::shared_ptr<parquet::FileMetaData> metadata) {
  std::shared_ptr<FooterSchema> schema(new FooterSchema());
  ARROW_ASSIGN_OR_RAISE(Leaves leaves, ReadLeaves(*metadata));
  ARROW_RETURN_NOT_OK(CheckNames(leaves));
  schema->metadata_ = std::move(metadata);
  schema->leaves_ = std::move(leaves.leaves);
  schema->arrow_ = std::move(leaves.schema);
  return schema;
}

bool FooterSchema::SameLeaves(const FooterSchema& other) const {
  return this == &other || (leaves_ == other.leaves_ &&
                            arrow_->Equals(*other.arrow_, /*check_metadata=*/false));
}

std::string FooterSchema::Text() const {
  std::string text = parquet().ToString() + arrow_->ToString(/*show_metadata=*/false);
  const auto add = [&text](char separator, int64_t number) {
    text += separator;
    text += std::to_string(number);
  };
  for (const Leaf& leaf : leaves_) {
    text += '\n';
    for (const std::string& name : leaf.names) {
      add('"', static_cast<int64_t>(name.size()));
      text += ':' + name;
    }
    for (const int64_t size : leaf.list_sizes) add(',', size);
    const auto& shape = leaf.tensor_shape;
    if (!shape) continue;
    text += "; tensor";
    for (const int64_t size : *shape) add(',', size);
    text += ';';
    for (const int64_t at : leaf.tensor_permutation) add(',', at);
  }
  return text;
}

Result<std::shared_ptr<const FooterSchema>> FooterSchema::Slim() const {
  std::shared_ptr<FooterSchema> slim(new FooterSchema(*this));
  ARROW_RETURN_NOT_OK(CatchParquet([&] {
    slim->metadata_ = metadata_->Subset({});
    return Status::OK();
  }));
  return slim;
}

Result<std::string> FooterSchema::Serialize() const {
  ARROW_ASSIGN_OR_RAISE(const auto slim, Slim());
  return SerializeTail(*slim->metadata_);
}

Result<std::shared_ptr<const FooterSchema>> FooterSchemas::Share(
    const std::shared_ptr<const FooterSchema>& schema, std::string_view bytes) {
  const std::string text = schema->Text();
  std::lock_guard lock(mutex_);
  auto& known = by_text_[text];
  if (known == nullptr) {
    ARROW_ASSIGN_OR_RAISE(known, schema->Slim());
  }
  if (!bytes.empty()) {
    // Where each file has other metadata, nothing is found, and little is kept.
    if (by_bytes_.size() == kMostBytes) by_bytes_.clear();
    by_bytes_.emplace(bytes, known);
  }
  return known;
}

std::shared_ptr<const FooterSchema> FooterSchemas::Find(std::string_view bytes) {
  std::lock_guard lock(mutex_);
  const auto found = by_bytes_.find(std::string(bytes));
  return found == by_bytes_.end() ? nullptr : found->second;
}

Result<std::string> SerializeTail(const parquet::FileMetaData& metadata) {
  std::string tail;
  ARROW_RETURN_NOT_OK(CatchParquet([&] {
    // A signed footer is serialized as plain text, because signing again would take its
    // key.
    tail = metadata.is_encryption_algorithm_set()
               ? metadata.SerializeUnencrypted(/*scrub=*/false, /*debug=*/false)
               : metadata.SerializeToString();
    return Status::OK();
  }));
  const auto length = static_cast<uint32_t>(tail.size());
  for (int shift = 0; shift < 32; shift += 8) {
    tail.push_back(static_cast<char>((length >> shift) & 0xFFU));
  }
  tail.append(kParquetMagic);
  return tail;
}

}  // namespace fastload
