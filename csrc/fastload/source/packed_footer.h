// A file's footer in few bytes: the totals that every file is asked for, the facts of all
// chunks, then the compressed footer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fastload/base/status.h"
#include "fastload/source/footer_chunk.h"
#include "fastload/source/kept_bytes.h"

namespace fastload {

// The totals of one leaf column over all row groups of a file, by the footer.
struct LeafTotals {
  int64_t values = -1;  // as in LeafSummary; -1: unknown
  int64_t value_bytes = 0;
  // The first row group that is known to contain a null; -1: no row group contains one;
  // kUnknown: none is known, but some row groups don't say.
  int64_t null_row_group = -1;
  int64_t nulls = 0;  // as in LeafSummary
  static constexpr int64_t kUnknown = -2;

  bool known() const { return values >= 0; }
};

LeafTotals TotalsOf(const std::vector<FooterChunk>& chunks);

// A footer that PackFooter packed. Reads only the part that is asked for. Thread-safe.
class PackedFooter {
 public:
  PackedFooter() = default;
  explicit PackedFooter(KeptBytes bytes) : bytes_(std::move(bytes)) {}

  // Returns the totals by leaf.
  Result<std::vector<LeafTotals>> Totals() const;
  // Returns the bytes of LeafFacts, without a copy where that is possible.
  Result<BytesView> Facts() const;
  // Returns the end of the file, from its footer on.
  Result<std::string> Tail() const;
  const KeptBytes& kept() const { return bytes_; }
  Result<std::string> Bytes() const { return bytes_.Read(0, bytes_.size()); }

 private:
  KeptBytes bytes_;
};

Result<std::string> PackFooter(const std::vector<LeafTotals>& totals,
                               std::string_view facts, std::string_view tail);

}  // namespace fastload
