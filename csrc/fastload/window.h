// A window in work: the rows that are decoded, and perhaps shuffled, together.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "fastload/chunk_reader.h"
#include "fastload/dataset.h"
#include "fastload/executor.h"
#include "fastload/fetch.h"
#include "fastload/layout.h"
#include "fastload/memory.h"
#include "fastload/nested_reader.h"
#include "fastload/nested_window.h"
#include "fastload/page_selection.h"
#include "fastload/read_plan.h"
#include "fastload/row_order.h"
#include "fastload/shuffle.h"
#include "fastload/status.h"
#include "fastload/window_codes.h"

namespace fastload {

// The rows of one batch that come from one window.
struct Part {
  int64_t batch = 0;
  int64_t first = 0;  // its first row among the window's output rows
  int64_t rows = 0;
  int64_t offset = 0;     // of its first row in the batch
  int64_t real_rows = 0;  // the rest repeats rows to fill the batch
  bool whole = false;     // it is all of the batch
  std::shared_ptr<Block> block;
  Layout::Areas areas;
};

// A reader in the middle of a column chunk, for whoever decodes the rows after.
struct Cursor {
  std::unique_ptr<FixedReader> fixed;
  std::unique_ptr<BytesReader> bytes;
  std::unique_ptr<NestedReader> nested;
  int64_t row = 0;          // next row of the row group, of those that stay
  int64_t fetch_bytes = 0;  // memory that its stream may hold
};

// The views of a byte column's rows, by slot, and what keeps them alive.
struct StagedBytes {
  std::vector<ByteView> views;
  std::vector<uint8_t> valid;
  std::vector<std::shared_ptr<arrow::Buffer>> owners;
};

struct WindowUnit {
  // For each column of the unit, for each piece that begins a column chunk; null where
  // the file lacks the column. Empty where none has anything to read.
  std::vector<std::shared_ptr<ChunkStream>> streams;
  // What each of them leaves out of its column chunk.
  std::vector<ChunkPages> pages;
  // Staged units: of each part, the sizes of a ragged output that Layout::Place takes.
  std::vector<int64_t> sizes;
  StagedBytes staged;                  // kBytes
  std::unique_ptr<StagedLists> lists;  // kNested, from staging to filling
  int64_t fetch_bytes = 0;
  // Of each column, left for the next window where that goes on in the same row group.
  std::vector<Cursor> cursors;
  int64_t carried_bytes = 0;  // what the streams of `cursors` may hold
  int32_t blockers = 0;       // what its next task waits for
  bool decoded = false;
};

struct Window {
  int64_t index = 0;
  bool prepared = false;  // what follows is set, but for what its tasks write
  std::span<const Piece> pieces;
  std::vector<bool> fresh;  // the piece begins a column chunk rather than going on in one
  bool continued = false;   // the next window's first piece goes on in our last
  std::shared_ptr<Window> before;  // the one whose last piece our first goes on in
  int64_t rows = 0;                // of its pieces
  int64_t output_rows = 0;
  std::span<const Take> takes;
  bool shuffled = false;
  Shuffle shuffle;            // if shuffled
  RowOrder order;             // if shuffled, as far as units need it
  BlockPool* pool = nullptr;  // of batches, and of what is staged for them

  // Places that decoded rows are put in before they are collated.
  int64_t slots() const { return shuffled ? shuffle.slot_count() : rows; }
  // Rows are dealt out to those places rather than put in as they come.
  bool dealt() const { return shuffled && !shuffle.slots.empty(); }

  std::vector<Part> parts;
  std::vector<WindowUnit> units;
  int32_t unplaced = 0;     // tasks left before the parts get their memory
  int32_t unfilled = 0;     // units left before the parts are complete
  int32_t undelivered = 0;  // whole parts left to hand out
};

// Decoding and collating one unit of one window. Runs without any lock: what it touches
// is its unit's alone, or complete before it begins. Where the window goes on in a row
// group, the unit's task of the window before has ended.
class WindowTask {
 public:
  WindowTask(Dataset* dataset, Window* window, int32_t unit, Scratch* scratch);

  // Staged units: decodes the rows, and finds the sizes of each part's values.
  Status Stage();
  // Writes the unit's rows to all parts, which have their memory.
  Status Fill();

 private:
  using Sink = std::function<Status(Cursor& cursor, int64_t first, int64_t rows)>;
  // Output rows [first, first + rows) of a part take the slots bucket + within[i];
  // without shuffle (`within` null) the slots from `bucket` on.
  struct Run {
    int64_t first;
    int64_t rows;
    int64_t bucket;
    const uint16_t* within;
    int64_t ahead;  // a slot that is taken from later
  };

  // Hands every run of rows of the window to `sink`, with the cursor at its first row.
  Status ForEachRow(size_t column, const Sink& sink);
  template <typename Fn>
  void ForEachRun(const Part& part, const Fn& fn) const;
  Status OpenCursor(size_t column, size_t piece, size_t stream, Cursor* cursor);
  Status FillFixedInOrder();
  Status FillFixed();
  void FillBytes();
  // Columns of lists, in window_lists.cc.
  Status StageNested();
  void FillNested();
  Status FillLists();
  TakenRows Taken(const Part& part) const;
  Status FillProvenance();
  // One column, dealt out in blocks: as dictionary codes if they all are.
  Status FillDealtColumn();
  // Copies every output row from its slot; the values are looked up by `codes`, if any.
  void Collate(const uint8_t* slots, const uint8_t* valid, CodeTable* codes);
  Place PlaceOf(size_t column, const Piece& piece, int64_t page) const;

  Dataset* dataset_;
  Window* window_;
  const Unit& unit_;
  WindowUnit& state_;
  WindowUnit* before_;  // of the window before, where ours goes on from it
  Scratch* scratch_;
};

}  // namespace fastload
