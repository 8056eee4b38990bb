// Columns of variable-length lists in a window: rows are staged, then copied row by row,
// or padded.
#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fastload/collate/nested_window.h"
#include "fastload/collate/packed_rows.h"
#include "fastload/collate/row_addresses.h"
#include "fastload/collate/window.h"

namespace fastload {
namespace {

constexpr int64_t kMostPaddedRows = 1024;
// Bytes of lists decoded at once before they are padded; the lists stay in the L2 cache.
constexpr int64_t kPadBytes = 64 << 10;

// The most decoded bytes for each stored byte of a column chunk for which memory is
// reserved ahead. If the footer promises more, memory grows as bytes come.
constexpr int64_t kMostBytesPerByte = 64;

// Returns the bytes of the elements of `rows` rows of a column chunk, by the footer.
int64_t ElementBytes(const FileSpec& file, int32_t row_group, int32_t leaf, int64_t rows,
                     int64_t element) {
  const auto chunk = file.Chunk(row_group, leaf);
  // A footer that can't be read is reported when the chunk is read.
  if (!chunk.ok()) return 0;
  const double share = static_cast<double>(rows) /
                       static_cast<double>(std::max<int64_t>(1, file.RowsOf(row_group)));
  const auto most = static_cast<double>(chunk->compressed_bytes) *
                    static_cast<double>(kMostBytesPerByte);
  const double said =
      share * static_cast<double>(chunk->values) * static_cast<double>(element);
  return static_cast<int64_t>(std::clamp(said, 0.0, std::max(0.0, most)));
}

// Returns the bytes of an item, or 1 for byte columns, whose items are bytes.
int64_t ItemOf(const Unit& unit) { return std::max<int64_t>(1, unit.width); }

// Writes `count` rows of a block to the addresses of the output rows `outputs`.
void PadRows(const NestedRows& rows, const PaddedRows& padded, const uint32_t* outputs,
             int64_t count, const RowAddresses& addresses) {
  for (int64_t i = 0; i < count; ++i) {
    if (outputs[i] == RowOrder::kNone) continue;
    padded.Write(rows, i, addresses[outputs[i]]);
  }
}

std::vector<PaddedRows> PaddedRowsOf(const Unit& unit) {
  std::vector<PaddedRows> padded;
  padded.reserve(unit.pads.size());
  for (const Unit::Pad& pad : unit.pads) padded.emplace_back(pad, unit.width);
  return padded;
}

}  // namespace

int64_t WindowTask::ExpectedBytes(const ColumnSpec& spec) const {
  int64_t bytes = 0;
  const Share& share = window_->shares[static_cast<size_t>(task_)];
  for (size_t i = share.first_piece; i < share.end_piece; ++i) {
    const Piece& piece = window_->pieces[i];
    const auto file = static_cast<int32_t>(piece.file);
    if (!spec.HasLeaf(file)) continue;
    bytes +=
        ElementBytes(source_->files.spec(file), static_cast<int32_t>(piece.row_group),
                     spec.leaves[static_cast<size_t>(file)], piece.stop - piece.start,
                     ItemSize(spec.dtype));
  }
  return bytes;
}

Status WindowTask::StageNested() {
  const ColumnSpec& spec = source_->columns[static_cast<size_t>(unit_.columns[0])];
  std::call_once(state_.staging, [&] {
    std::vector<int64_t> first_rows;
    first_rows.reserve(window_->shares.size());
    for (const Share& share : window_->shares) first_rows.push_back(share.first_row);
    state_.lists = std::make_unique<StagedLists>(window_->pool, &source_->fills,
                                                 std::move(first_rows));
  });
  const auto task = static_cast<size_t>(task_);
  NestedRows& staged = *state_.lists->share(task);
  staged.in_order = !window_->shuffled && !window_->packed();
  staged.in_pages = staged.in_order && unit_.pads.empty();
  if (!spec.bytes) {
    const int64_t bytes = ExpectedBytes(spec);
    // Row groups differ a little, so a little more is reserved, rather than moving all
    // elements later.
    staged.values.Expect(bytes + bytes / 16);
  }
  const bool valid = !unit_.valid_slots.empty();
  ARROW_RETURN_NOT_OK(ForEachRow(0, [&](Cursor& cursor, int64_t first, int64_t rows) {
    if (window_->wanted.empty()) return cursor.nested->Read(rows, &staged, valid);
    return ReadWanted(cursor.nested.get(), first, rows, &staged);
  }));
  if (spec.bytes) AddByteLevel(&staged);
  return Status::OK();
}

Status WindowTask::ReadWanted(NestedReader* reader, int64_t first, int64_t rows,
                              NestedRows* staged) {
  const auto begin = window_->wanted.begin() + first;
  const auto end = begin + rows;
  int64_t skipped = 0;
  for (auto at = begin; at != end;) {
    const auto run = std::find(at, end, !*at);
    const int64_t n = run - at;
    if (*at) {
      ARROW_RETURN_NOT_OK(reader->Read(n, staged, /*valid=*/false));
    } else {
      ARROW_RETURN_NOT_OK(reader->Skip(n));
      staged->Begin(1);  // packed lists have one level
      std::vector<int64_t>& ends = staged->offsets[0];
      ends.insert(ends.end(), static_cast<size_t>(n), ends.back());
      skipped += n;
    }
    at = run;
  }
  source_->counters.decoded_values -= skipped;
  return Status::OK();
}

Status WindowTask::CountNested() {
  if (window_->packed()) {
    for (const Part& part : Parts()) {
      ARROW_RETURN_NOT_OK(CheckSegments(part));
      const auto number = static_cast<size_t>(&part - window_->parts.data());
      state_.sizes[number] = part.items * unit_.width;
    }
    return Status::OK();
  }
  const ColumnSpec& spec = source_->columns[static_cast<size_t>(unit_.columns[0])];
  const auto levels = static_cast<size_t>(RaggedLevels(spec));
  for (const Part& part : Parts()) {
    const auto number = static_cast<size_t>(&part - window_->parts.data());
    CountSizes(*state_.lists, Taken(part), ItemOf(unit_),
               std::span(state_.sizes).subspan(number * levels, levels));
  }
  return Status::OK();
}

Status WindowTask::CheckSegments(const Part& part) const {
  for (const Segment& segment : window_->SegmentsOf(part)) {
    if (segment.row == Segment::kPadding) continue;
    const auto [rows, row] = state_.lists->Find(segment.row);
    const int64_t length = rows->Length(row, INT64_MAX);
    if (length == segment.length) continue;
    int64_t before = segment.row;
    size_t p = 0;
    for (; before >= window_->pieces[p].stop - window_->pieces[p].start; ++p) {
      before -= window_->pieces[p].stop - window_->pieces[p].start;
    }
    const Piece& piece = window_->pieces[p];
    SelectedRows stored(BitsOf(*source_, *window_, piece));
    stored.Skip(piece.start + before);
    Location location = LocationOf(0, piece, -1);
    location.row =
        stored.row() + source_->FirstRow(static_cast<int32_t>(piece.file),
                                         static_cast<int32_t>(piece.row_group));
    return At(MakeError(ErrorKind::kValue,
                        "Expected a list of " + std::to_string(segment.length) +
                            " elements, as long as the list that is packed, got " +
                            std::to_string(length)),
              location);
  }
  return Status::OK();
}

Status WindowTask::CheckDamage() const {
  for (size_t s = 0; s < window_->shares.size(); ++s) {
    const NestedRows& rows = *state_.lists->share(s);
    const ElementRuns::Damage damage = rows.values.damage();
    if (damage.status.ok()) continue;
    int64_t child = damage.at / unit_.width;
    for (auto offsets = rows.offsets.rbegin(); offsets != rows.offsets.rend();
         ++offsets) {
      child = std::ranges::upper_bound(*offsets, child) - offsets->begin() - 1;
    }
    size_t p = window_->shares[s].first_piece;
    const auto rows_of = [&](size_t piece) {
      return window_->pieces[piece].stop - window_->pieces[piece].start;
    };
    for (; child >= rows_of(p); ++p) child -= rows_of(p);
    return At(damage.status, LocationOf(0, window_->pieces[p], damage.page));
  }
  return Status::OK();
}

Status WindowTask::FillNested() {
  const StagedLists& staged = *state_.lists;
  const std::vector<PaddedRows> padded = PaddedRowsOf(unit_);
  for (const Part& part : Parts()) {
    uint8_t* base = part.block->data();
    if (window_->packed()) {
      for (const Layout::Slot& slot : unit_.slots) {
        WriteSegments(staged, window_->SegmentsOf(part), unit_.padding, part.first_item,
                      base, part.areas.numbers.data() + slot.number);
      }
      continue;
    }
    const TakenRows taken = Taken(part);
    for (const Layout::Slot& slot : unit_.slots) {
      WriteRagged(staged, taken, ItemOf(unit_), base,
                  part.areas.numbers.data() + slot.number);
    }
    for (size_t i = 0; i < padded.size(); ++i) {
      padded[i].WriteAll(staged, taken,
                         Layout::Address(base, part.areas, unit_.pads[i].slot));
    }
    for (const Unit::Length& length : unit_.lengths) {
      uint8_t* out = Layout::Address(base, part.areas, length.slot);
      WriteLengths(staged, taken, length.most, reinterpret_cast<int64_t*>(out));
    }
    for (const Layout::Slot& slot : unit_.valid_slots) {
      WriteValid(staged, taken, Layout::Address(base, part.areas, slot));
    }
  }
  return CheckDamage();
}

Status WindowTask::FillPadded() {
  const ColumnSpec& spec = source_->columns[static_cast<size_t>(unit_.columns[0])];
  const Share& share = window_->shares[static_cast<size_t>(task_)];
  int64_t share_rows = 0;
  for (size_t i = share.first_piece; i < share.end_piece; ++i) {
    share_rows += window_->pieces[i].stop - window_->pieces[i].start;
  }
  const int64_t row_bytes = 1 + ExpectedBytes(spec) / share_rows;
  const int64_t block_rows =
      std::clamp<int64_t>(kPadBytes / row_bytes, 1, kMostPaddedRows);
  const bool with_valid = !unit_.valid_slots.empty();
  const std::vector<PaddedRows> padded = PaddedRowsOf(unit_);
  const UnitAddresses addresses(window_->parts, unit_);
  OutputRows outputs(*window_, block_rows);
  NestedRows block;
  block.as_they_are = true;
  block.fills = Fills(&source_->fills);
  std::vector<int64_t> lengths(static_cast<size_t>(block_rows));
  return ForEachRow(0, [&](Cursor& cursor, int64_t first, int64_t rows) {
    for (const int64_t end = first + rows; first < end; first += block_rows) {
      const int64_t n = std::min(block_rows, end - first);
      block.Clear();
      ARROW_RETURN_NOT_OK(cursor.nested->Read(n, &block, with_valid));
      const uint32_t* to = outputs.Get(first, n);
      for (size_t p = 0; p < padded.size(); ++p) {
        PadRows(block, padded[p], to, n, addresses.pads[p]);
      }
      for (size_t l = 0; l < unit_.lengths.size(); ++l) {
        for (int64_t i = 0; i < n; ++i) {
          lengths[static_cast<size_t>(i)] = block.Length(i, unit_.lengths[l].most);
        }
        CopyRows(reinterpret_cast<const uint8_t*>(lengths.data()), sizeof(int64_t), to, n,
                 addresses.lengths[l]);
      }
      for (const RowAddresses& p : addresses.valid) {
        CopyRows(block.valid.data(), 1, to, n, p);
      }
    }
    return Status::OK();
  });
}

TakenRows WindowTask::Taken(const Part& part) const {
  return {.count = part.rows,
          .first = part.first,
          .rows = window_->shuffled ? window_->order.rows.data() + part.first : nullptr};
}

}  // namespace fastload
