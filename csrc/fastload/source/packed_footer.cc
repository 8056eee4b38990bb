#include "fastload/source/packed_footer.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "arrow/util/compression.h"

namespace fastload {
namespace {

// Level 1 shrinks a footer to a fifth in a dozen microseconds; higher levels take longer
// and gain little.
constexpr int kLevel = 1;
constexpr int64_t kMostTailBytes = int64_t{1} << 32;  // a footer's length has 32 bits
// A footer that shrinks by a larger factor is stored uncompressed, so that a few damaged
// bytes can never ask for much memory.
constexpr int64_t kMostShrinking = 64;

// The head of a packed footer. Little-endian, like all machines that fastload runs on.
struct Head {
  int64_t leaves = 0;
  int64_t facts_bytes = 0;
  int64_t tail_bytes = 0;
  int64_t packed_bytes = 0;  // equal to tail_bytes: not compressed

  int64_t facts_start() const {
    return static_cast<int64_t>(sizeof(Head)) +
           leaves * static_cast<int64_t>(sizeof(LeafTotals));
  }
};

constexpr auto kHeadBytes = static_cast<int64_t>(sizeof(Head));
constexpr auto kTotalsBytes = static_cast<int64_t>(sizeof(LeafTotals));

Result<Head> ReadHead(const KeptBytes& bytes) {
  ARROW_ASSIGN_OR_RAISE(const std::string text, bytes.Read(0, kHeadBytes));
  Head head;
  std::memcpy(&head, text.data(), sizeof(head));
  const int64_t rest = bytes.size() - kHeadBytes;
  if (head.leaves < 0 || head.leaves > rest / kTotalsBytes || head.facts_bytes < 0 ||
      head.facts_bytes > rest - head.leaves * kTotalsBytes || head.tail_bytes < 0 ||
      head.tail_bytes > kMostTailBytes ||
      head.packed_bytes != rest - head.leaves * kTotalsBytes - head.facts_bytes ||
      head.tail_bytes / kMostShrinking > head.packed_bytes) {
    return MakeError(ErrorKind::kStorage,
                     "Expected a kept footer, got bytes without its head");
  }
  return head;
}

std::unique_ptr<arrow::util::Codec> MakeCodec() {
  auto codec = arrow::util::Codec::Create(arrow::Compression::ZSTD, kLevel);
  return codec.ok() ? *std::move(codec) : nullptr;  // a build of Arrow may lack zstd
}

const uint8_t* BytesOf(std::string_view text) {
  return reinterpret_cast<const uint8_t*>(text.data());
}

std::string Compressed(std::string_view tail) {
  const auto codec = MakeCodec();
  const auto bytes = static_cast<int64_t>(tail.size());
  if (codec == nullptr) return std::string(tail);
  std::string packed(static_cast<size_t>(codec->MaxCompressedLen(bytes, BytesOf(tail))),
                     '\0');
  const auto length =
      codec->Compress(bytes, BytesOf(tail), static_cast<int64_t>(packed.size()),
                      reinterpret_cast<uint8_t*>(packed.data()));
  if (!length.ok() || *length >= bytes || bytes / kMostShrinking > *length) {
    return std::string(tail);
  }
  packed.resize(static_cast<size_t>(*length));
  packed.shrink_to_fit();
  return packed;
}

}  // namespace

LeafTotals TotalsOf(const std::vector<FooterChunk>& chunks) {
  LeafTotals totals{.values = 0};
  for (size_t g = 0; g < chunks.size(); ++g) {
    const FooterChunk& chunk = chunks[g];
    totals.values += chunk.values;
    totals.value_bytes +=
        chunk.value_bytes >= 0 ? chunk.value_bytes : chunk.uncompressed_bytes;
    totals.nulls += std::max<int64_t>(chunk.nulls, 0);
    if (totals.null_row_group < 0 && chunk.nulls > 0) {
      totals.null_row_group = static_cast<int64_t>(g);
    } else if (totals.null_row_group < 0 && chunk.nulls < 0) {
      totals.null_row_group = LeafTotals::kUnknown;
    }
  }
  return totals;
}

Result<std::vector<LeafTotals>> PackedFooter::Totals() const {
  ARROW_ASSIGN_OR_RAISE(const Head head, ReadHead(bytes_));
  ARROW_ASSIGN_OR_RAISE(const std::string text,
                        bytes_.Read(kHeadBytes, head.leaves * kTotalsBytes));
  std::vector<LeafTotals> totals(static_cast<size_t>(head.leaves));
  // Without leaves `data()` may be null, which memcpy may not get.
  std::ranges::copy(text, reinterpret_cast<char*>(totals.data()));
  return totals;
}

Result<BytesView> PackedFooter::Facts() const {
  ARROW_ASSIGN_OR_RAISE(const Head head, ReadHead(bytes_));
  return bytes_.View(head.facts_start(), head.facts_bytes);
}

Result<std::string> PackedFooter::Tail() const {
  ARROW_ASSIGN_OR_RAISE(const Head head, ReadHead(bytes_));
  ARROW_ASSIGN_OR_RAISE(
      std::string packed,
      bytes_.Read(head.facts_start() + head.facts_bytes, head.packed_bytes));
  if (head.packed_bytes == head.tail_bytes) return packed;
  const auto codec = MakeCodec();
  if (codec == nullptr) return Status::NotImplemented("Arrow was built without zstd");
  std::string tail(static_cast<size_t>(head.tail_bytes), '\0');
  ARROW_ASSIGN_OR_RAISE(
      const int64_t length,
      codec->Decompress(head.packed_bytes, BytesOf(packed), head.tail_bytes,
                        reinterpret_cast<uint8_t*>(tail.data())));
  if (length != head.tail_bytes) {
    return MakeError(ErrorKind::kStorage,
                     "Expected a whole kept footer, got the beginning of one");
  }
  return tail;
}

Result<std::string> PackFooter(const std::vector<LeafTotals>& totals,
                               std::string_view facts, std::string_view tail) {
  const std::string packed = Compressed(tail);
  const size_t totals_bytes = totals.size() * sizeof(LeafTotals);
  const Head head{.leaves = static_cast<int64_t>(totals.size()),
                  .facts_bytes = static_cast<int64_t>(facts.size()),
                  .tail_bytes = static_cast<int64_t>(tail.size()),
                  .packed_bytes = static_cast<int64_t>(packed.size())};
  std::string bytes(reinterpret_cast<const char*>(&head), sizeof(head));
  bytes.append(reinterpret_cast<const char*>(totals.data()), totals_bytes);
  bytes.append(facts).append(packed);
  return bytes;
}

}  // namespace fastload
