// The bytes of a footer, of which one row group is parsed at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace fastload {

// A footer, cut where its row groups begin. To parse one row group takes as long as the
// row group and the schema are, where libparquet parses whole footers only. Immutable.
class FooterParts {
 public:
  // Cuts `thrift`, a footer in Thrift's compact protocol. Returns null if the bytes are
  // not such a footer. The bytes of row groups are not checked beyond their lengths.
  static std::shared_ptr<const FooterParts> Of(std::string_view thrift);

  size_t row_groups() const { return starts_.size() - 1; }
  // Returns a footer that has this row group alone, and no key-value metadata.
  std::string Only(size_t row_group) const;
  // Returns about how much memory the parts take.
  int64_t bytes() const;

 private:
  FooterParts() = default;

  std::string before_;      // the fields before the row groups, and the list's field
  std::string row_groups_;  // one after the other
  std::vector<uint32_t> starts_;  // of each row group in row_groups_, and the end
  std::string after_;             // the fields after the row groups
};

}  // namespace fastload
