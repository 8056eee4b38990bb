// Columns of lists in a window: those whose lengths vary are staged, then copied row by
// row; those of a fixed size go straight to their places.
#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fastload/nested_window.h"
#include "fastload/window.h"

namespace fastload {
namespace {

// Bytes of lists decoded at once before they are copied to their rows: in the L1 cache.
constexpr int64_t kBlockBytes = 16 << 10;
constexpr int64_t kMostBlockRows = 1024;

// Decoded bytes of a column chunk that are believed before they have been seen, for each
// byte that the file has of it. More has to prove itself: memory then grows as it comes.
constexpr int64_t kMostBytesPerByte = 64;

// Bytes of the elements of `rows` rows of a column chunk, by what its footer says.
int64_t ElementBytes(const parquet::FileMetaData& metadata, int32_t row_group,
                     int32_t leaf, int64_t rows, int64_t element) {
  double bytes = 0;
  const Status status = CatchParquet([&] {
    const auto group = metadata.RowGroup(row_group);
    const auto chunk = group->ColumnChunk(leaf);
    const double share = static_cast<double>(rows) /
                         static_cast<double>(std::max<int64_t>(1, group->num_rows()));
    const auto most = static_cast<double>(chunk->total_compressed_size()) *
                      static_cast<double>(kMostBytesPerByte);
    const double said =
        share * static_cast<double>(chunk->num_values()) * static_cast<double>(element);
    bytes = std::clamp(said, 0.0, std::max(0.0, most));
    return Status::OK();
  });
  // A footer that cannot be read is reported by whoever reads the chunk.
  return status.ok() ? static_cast<int64_t>(bytes) : 0;
}

// Bytes of an item; of byte columns, of a byte of an element.
int64_t ItemOf(const Unit& unit) { return std::max<int64_t>(1, unit.width); }

// Where the output rows of a window lie in the areas of one slot.
class RowPlaces {
 public:
  RowPlaces(const std::vector<Part>& parts, const Layout::Slot& slot)
      : stride_(slot.stride),
        first_rows_(static_cast<uint32_t>(parts[0].rows)),
        // Between the first and the last part all are whole batches.
        part_rows_(static_cast<uint32_t>(parts[parts.size() > 1 ? 1 : 0].rows)) {
    for (const Part& part : parts) {
      parts_.push_back(Layout::Address(part.block->data(), part.areas, slot));
    }
  }

  uint8_t* operator[](uint32_t output) const {
    if (output < first_rows_) return parts_[0] + output * stride_;
    const uint32_t after = output - first_rows_;
    return parts_[1 + after / part_rows_] + after % part_rows_ * stride_;
  }

 private:
  std::vector<uint8_t*> parts_;
  int64_t stride_;
  uint32_t first_rows_;
  uint32_t part_rows_;
};

std::vector<RowPlaces> PlacesOf(const std::vector<Part>& parts,
                                const std::vector<Layout::Slot>& slots) {
  std::vector<RowPlaces> places;
  places.reserve(slots.size());
  for (const Layout::Slot& slot : slots) places.emplace_back(parts, slot);
  return places;
}

// Copies `count` packed rows of `width` bytes to the places of the rows `outputs`, those
// but that none takes.
void CopyRows(const uint8_t* rows, int64_t width, const uint32_t* outputs, int64_t count,
              const RowPlaces& places) {
  // Translations of addresses of several batches take longer than a row's copy.
  constexpr int64_t kAhead = 4;
  for (int64_t i = 0; i < count; ++i) {
    if (i + kAhead < count && outputs[i + kAhead] != RowOrder::kNone) {
      __builtin_prefetch(places[outputs[i + kAhead]], /*rw=*/1);
    }
    if (outputs[i] == RowOrder::kNone) continue;
    std::memcpy(places[outputs[i]], rows + i * width, static_cast<size_t>(width));
  }
}

}  // namespace

Status WindowTask::StageNested() {
  const ColumnSpec& spec = dataset_->columns[static_cast<size_t>(unit_.columns[0])];
  state_.lists = std::make_unique<StagedLists>(window_->pool);
  NestedRows& staged = state_.lists->rows;
  if (!spec.bytes) {
    int64_t bytes = 0;
    for (const Piece& piece : window_->pieces) {
      const auto file = static_cast<int32_t>(piece.file);
      if (!spec.HasLeaf(file)) continue;
      bytes += ElementBytes(*dataset_->files.spec(file).metadata,
                            static_cast<int32_t>(piece.row_group),
                            spec.leaves[static_cast<size_t>(file)],
                            piece.stop - piece.start, ItemSize(spec.dtype));
    }
    // Row groups are not even: a little more, rather than moving it all.
    ARROW_RETURN_NOT_OK(staged.values.Reserve(bytes + bytes / 16));
  }
  const bool valid = !unit_.valid_slots.empty();
  ARROW_RETURN_NOT_OK(ForEachRow(0, [&](Cursor& cursor, int64_t, int64_t rows) {
    return cursor.nested->Read(rows, &staged, valid);
  }));
  if (spec.bytes) AddByteLevel(&staged);
  const auto levels = static_cast<size_t>(RaggedLevels(spec));
  state_.sizes.resize(window_->parts.size() * levels);
  std::span<int64_t> sizes = state_.sizes;
  for (const Part& part : window_->parts) {
    CountSizes(staged, Taken(part), ItemOf(unit_), sizes.first(levels));
    sizes = sizes.subspan(levels);
  }
  return Status::OK();
}

void WindowTask::FillNested() {
  const NestedRows& staged = state_.lists->rows;
  std::vector<std::string> paddings;
  for (const Unit::Pad& pad : unit_.pads) {
    std::string& padding = paddings.emplace_back();
    const auto row_bytes = static_cast<size_t>(pad.slot.stride);
    padding.reserve(row_bytes);
    while (padding.size() < row_bytes) padding += pad.element;
  }
  for (const Part& part : window_->parts) {
    uint8_t* base = part.block->data();
    const TakenRows taken = Taken(part);
    for (const Layout::Slot& slot : unit_.slots) {
      WriteRagged(staged, taken, ItemOf(unit_), base,
                  part.areas.numbers.data() + slot.number);
    }
    for (size_t i = 0; i < paddings.size(); ++i) {
      WritePadded(staged, taken, unit_.width, paddings[i],
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
  state_.lists.reset();
}

Status WindowTask::FillLists() {
  const int64_t width = unit_.width;
  const int64_t block_rows = std::clamp<int64_t>(kBlockBytes / width, 1, kMostBlockRows);
  const bool with_valid = !unit_.valid_slots.empty();
  uint8_t* block = scratch_->Get(Scratch::kBlock, block_rows * (width + 1));
  if (block == nullptr) {
    return Status::OutOfMemory("Expected memory for lists of ", width,
                               " bytes, got none");
  }
  uint8_t* block_valid = with_valid ? block + block_rows * width : nullptr;
  const auto places = PlacesOf(window_->parts, unit_.slots);
  const auto valid_places = PlacesOf(window_->parts, unit_.valid_slots);
  std::vector<uint32_t> in_order(window_->shuffled ? 0 : block_rows);
  const auto outputs = [&](int64_t first, int64_t rows) -> const uint32_t* {
    if (window_->shuffled) return window_->order.outputs.data() + first;
    std::iota(in_order.begin(), in_order.begin() + rows, static_cast<uint32_t>(first));
    return in_order.data();
  };
  ARROW_RETURN_NOT_OK(ForEachRow(0, [&](Cursor& cursor, int64_t first, int64_t rows) {
    for (const int64_t end = first + rows; first < end; first += block_rows) {
      const int64_t n = std::min(block_rows, end - first);
      ARROW_RETURN_NOT_OK(cursor.fixed->Read(n, block, width, block_valid));
      const uint32_t* to = outputs(first, n);
      for (const RowPlaces& p : places) CopyRows(block, width, to, n, p);
      for (const RowPlaces& p : valid_places) CopyRows(block_valid, 1, to, n, p);
    }
    return Status::OK();
  }));
  if (!window_->shuffled) return Status::OK();
  for (const RowOrder::Repeat& repeat : window_->order.repeats) {
    for (const RowPlaces& p : places) {
      std::memcpy(p[repeat.to], p[repeat.from], static_cast<size_t>(width));
    }
    for (const RowPlaces& p : valid_places) *p[repeat.to] = *p[repeat.from];
  }
  return Status::OK();
}

TakenRows WindowTask::Taken(const Part& part) const {
  return {.count = part.rows,
          .first = part.first,
          .rows = window_->shuffled ? window_->order.rows.data() + part.first : nullptr};
}

}  // namespace fastload
