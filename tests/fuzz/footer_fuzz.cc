// Fuzzer of footers, in files and packed: the walk over a footer's bytes finds what
// libparquet does, a packed footer says the same as the footer itself, and bytes that are
// no footer, or no facts, are refused.
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

bool Equal(const LeafTotals& a, const LeafTotals& b) {
  return a.values == b.values && a.value_bytes == b.value_bytes &&
         a.null_row_group == b.null_row_group;
}

// The walk over the bytes finds what libparquet does.
void CheckWalk(const Footer& footer, int32_t leaf) {
  const auto walked = footer.Chunks(leaf);
  // What libparquet refuses may be in another leaf, or in numbers that nobody asks for.
  const auto parsed = footer.ParseChunks(leaf);
  if (parsed.ok()) {
    Expect(walked.ok() && *walked == *parsed, "what libparquet finds");
  }
}

// Bounds are those that libparquet tells of the whole footer.
void CheckBounds(const Footer& footer, int32_t leaf) {
  for (size_t g = 0; g < footer.row_group_rows().size(); ++g) {
    const auto bounds = footer.Bounds(static_cast<int32_t>(g), leaf);
    if (!bounds.ok()) return;
    const auto metadata = footer.Metadata();
    if (!metadata.ok()) return;
    const Status same = CatchParquet([&]() -> Status {
      const auto chunk = (*metadata)->RowGroup(static_cast<int>(g))->ColumnChunk(leaf);
      LeafBounds whole;
      whole.Add(*chunk);
      const ChunkBounds expected = whole.Chunk(0);
      Expect(bounds->known == expected.known && bounds->nulls == expected.nulls &&
                 bounds->bounded == expected.bounded && bounds->least == expected.least &&
                 bounds->most == expected.most,
             "the bounds of the whole footer");
      return Status::OK();
    });
    (void)same;  // what libparquet can't read
  }
}

void CheckPacked(const Footer& footer, const Footer& packed) {
  Expect(footer.SameSchema(packed), "the schema of a packed footer");
  Expect(footer.num_rows() == packed.num_rows(), "the rows of a packed footer");
  const auto totals = packed.Totals();
  Expect(totals.ok(), "the totals of a packed footer");
  const auto leaves = static_cast<int32_t>(footer.leaves().size());
  Expect(totals->size() == footer.leaves().size(), "totals of each leaf");
  for (int32_t leaf = 0; leaf < leaves; ++leaf) {
    CheckWalk(footer, leaf);
    CheckBounds(footer, leaf);
    const auto own = footer.Chunks(leaf);
    const auto other = packed.Chunks(leaf);
    Expect(own.ok() == other.ok(), "what a packed footer refuses");
    if (!own.ok()) continue;
    Expect(*own == *other, "the chunks of a packed footer");
    const LeafTotals& told = (*totals)[static_cast<size_t>(leaf)];
    if (told.known()) Expect(Equal(TotalsOf(*own), told), "the totals of a leaf");
  }
  const auto again = packed.Tail();
  Expect(again.ok() && *again == *footer.Tail(), "a packed footer as a tail");
}

void Unpack(std::string bytes, const Footer& footer) {
  // Whatever the bytes are, the worst outcome is an error.
  const auto packed = Footer::OfPacked(KeptBytes(std::move(bytes)), footer.file_bytes(),
                                       "file", footer.row_group_rows(), footer.schema());
  if (!packed.ok()) return;
  (void)(*packed)->Totals();
  (void)(*packed)->Metadata();
  for (size_t leaf = 0; leaf < footer.leaves().size(); ++leaf) {
    (void)(*packed)->Chunks(static_cast<int32_t>(leaf));
    if (footer.row_group_rows().empty()) continue;
    (void)(*packed)->Bounds(0, static_cast<int32_t>(leaf));
  }
}

// Whatever the bytes of facts are, numbers are read inside them.
void ReadFacts(std::string bytes, size_t row_groups, size_t leaves) {
  const auto owner = std::make_shared<const std::string>(std::move(bytes));
  const LeafFacts facts(*owner, leaves, row_groups, owner);
  for (size_t leaf = 0; leaf < leaves; ++leaf) {
    for (size_t g = 0; g < row_groups; ++g) (void)facts.Chunk(leaf, g);
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
    const auto chunks = (*footer)->Chunks(static_cast<int32_t>(leaf));
    if (chunks.ok()) (void)TotalsOf(*chunks);
  }
  const auto packed = (*footer)->Pack();
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
  std::vector<std::vector<FooterChunk>> chunks;
  for (size_t leaf = 0; leaf < (*footer)->leaves().size(); ++leaf) {
    chunks.push_back((*footer)->Chunks(static_cast<int32_t>(leaf)).ValueOr({}));
  }
  std::string facts = LeafFacts::Pack(chunks);
  const size_t row_groups = (*footer)->row_group_rows().size();
  ReadFacts(facts, row_groups, chunks.size());
  for (size_t i = 0; i + 4 < size && i < 64 && !facts.empty(); i += 4) {
    facts[(data[i] | data[i + 1] << 8) % facts.size()] = static_cast<char>(data[i + 2]);
  }
  ReadFacts(facts, row_groups, chunks.size());
  if (!facts.empty()) facts.pop_back();
  ReadFacts(facts, row_groups, chunks.size());
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
