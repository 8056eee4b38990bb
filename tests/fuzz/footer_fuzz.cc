// Fuzzer of footers, in files and packed: a packed footer says the same as the footer
// itself, and bytes that are no footer are refused.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checked.h"
#include "fastload/source/footer.h"
#include "fastload/source/kept_bytes.h"
#include "file_mutation.h"

namespace fastload::testing {
namespace {

bool Equal(const LeafChunks& a, const LeafChunks& b) {
  return a.compressed_bytes == b.compressed_bytes &&
         a.uncompressed_bytes == b.uncompressed_bytes && a.num_values == b.num_values &&
         a.value_bytes == b.value_bytes && a.null_count == b.null_count;
}

bool Equal(const LeafTotals& a, const LeafTotals& b) {
  return a.values == b.values && a.value_bytes == b.value_bytes &&
         a.null_row_group == b.null_row_group;
}

// A row group that is parsed by itself says the same as in the whole footer.
void CheckRowGroups(const Footer& footer, const Footer& packed) {
  const auto parts = packed.Parts();
  Expect(parts.ok(), "the parts of a packed footer");
  const auto whole = footer.Metadata();
  if (*parts == nullptr || !whole.ok()) return;
  for (int g = 0; g < (*whole)->num_row_groups(); ++g) {
    const auto one = packed.OneRowGroup(**parts, g);
    Expect(one.ok(), "a row group by itself");
    if (*one == nullptr) continue;
    const Status same = CatchParquet([&]() -> Status {
      Expect((*one)->RowGroup(0)->Equals(*(*whole)->RowGroup(g)), "an equal row group");
      Expect((*one)->schema()->Equals(*(*whole)->schema()), "an equal schema");
      Expect((*one)->created_by() == (*whole)->created_by(), "the same writer");
      return Status::OK();
    });
    (void)same;  // what one of both can't read
  }
}

void CheckPacked(const Footer& footer, const Footer& packed) {
  CheckRowGroups(footer, packed);
  Expect(footer.SameSchema(packed), "the schema of a packed footer");
  Expect(footer.num_rows() == packed.num_rows(), "the rows of a packed footer");
  const auto totals = packed.PackedTotals();
  Expect(totals.ok(), "the totals of a packed footer");
  const auto leaves = static_cast<int32_t>(footer.leaves().size());
  Expect(totals->size() == footer.leaves().size(), "totals of each leaf");
  for (int32_t leaf = 0; leaf < leaves; ++leaf) {
    const auto own = footer.ReadLeafChunks(leaf);
    const auto other = packed.ReadLeafChunks(leaf);
    Expect(own.ok() == other.ok(), "what a packed footer refuses");
    if (!own.ok()) continue;
    Expect(Equal(*own, *other), "the chunks of a packed footer");
    const LeafTotals& told = (*totals)[static_cast<size_t>(leaf)];
    if (told.known()) Expect(Equal(TotalsOf(*own), told), "the totals of a leaf");
  }
  const auto again = packed.Serialize();
  Expect(again.ok() == footer.Serialize().ok(), "a packed footer as a tail");
}

void Unpack(std::string bytes, const Footer& footer) {
  // Whatever the bytes are, the worst outcome is an error.
  const auto packed = Footer::OfPacked(KeptBytes(std::move(bytes)), footer.file_bytes(),
                                       "file", footer.row_group_rows(), footer.schema());
  if (!packed.ok()) return;
  (void)(*packed)->PackedTotals();
  (void)(*packed)->Metadata();
  const auto parts = (*packed)->Parts();
  for (size_t g = 0; parts.ok() && *parts != nullptr && g < (*parts)->row_groups(); ++g) {
    (void)(*packed)->OneRowGroup(**parts, static_cast<int32_t>(g));
  }
  for (size_t leaf = 0; leaf < footer.leaves().size(); ++leaf) {
    (void)(*packed)->ReadLeafChunks(static_cast<int32_t>(leaf));
  }
}

void Run(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto bytes = static_cast<int64_t>(size);
  const auto tail_bytes = Footer::TailBytes(text, bytes, "file");
  if (!tail_bytes.ok()) return;
  Expect(*tail_bytes >= 0 && *tail_bytes <= bytes, "the bytes of the tail");
  const std::string_view tail = text.substr(size - static_cast<size_t>(*tail_bytes));
  FooterSchemas schemas;
  const auto footer = Footer::Make(tail, bytes, "file", &schemas);
  if (!footer.ok()) return;
  for (size_t leaf = 0; leaf < (*footer)->leaves().size(); ++leaf) {
    const auto chunks = (*footer)->ReadLeafChunks(static_cast<int32_t>(leaf));
    if (chunks.ok()) (void)TotalsOf(*chunks);
  }
  const auto packed = (*footer)->Pack(tail);
  if (!packed.ok()) return;
  const auto unpacked =
      Footer::OfPacked(KeptBytes(*packed), bytes, "file", (*footer)->row_group_rows(),
                       (*footer)->schema());
  Expect(unpacked.ok(), "a packed footer");
  CheckPacked(**footer, **unpacked);
  // The same packed footer, damaged by the file's first bytes at the offset that they
  // name.
  std::string damaged = *packed;
  for (size_t i = 0; i + 4 < size && i < 64; i += 4) {
    damaged[(data[i] | data[i + 1] << 8) % damaged.size()] =
        static_cast<char>(data[i + 2]);
    if (data[i + 3] == 0) Unpack(damaged, **footer);
  }
  Unpack(damaged, **footer);
}

}  // namespace
}  // namespace fastload::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fastload::testing::Run(data, size);
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {
  return fastload::testing::MutateFile(data, size, max_size, seed);
}
