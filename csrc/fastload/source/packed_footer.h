// The footer of a file in few bytes: what is asked of all files, and the rest compressed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fastload/base/status.h"
#include "fastload/source/kept_bytes.h"

namespace fastload {

// What all row groups of a file say of one leaf column, taken together.
struct LeafTotals {
  int64_t values = -1;  // as LeafSummary has them; -1: they can't be told
  int64_t value_bytes = 0;
  int64_t null_row_group = -1;  // the first with a null known of; -1 = none

  bool known() const { return values >= 0; }
};

// A footer as PackFooter made it. Reads what it is asked for. Thread-safe.
class PackedFooter {
 public:
  PackedFooter() = default;
  explicit PackedFooter(KeptBytes bytes) : bytes_(std::move(bytes)) {}

  // By leaf.
  Result<std::vector<LeafTotals>> Totals() const;
  // The end of the file, from its footer on.
  Result<std::string> Tail() const;
  Result<std::string> Bytes() const { return bytes_.Read(0, bytes_.size()); }

 private:
  KeptBytes bytes_;
};

Result<std::string> PackFooter(const std::vector<LeafTotals>& totals,
                               std::string_view tail);

}  // namespace fastload
