// A window in work: the rows that are decoded, and perhaps shuffled, together.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "fastload/base/memory.h"
#include "fastload/base/scratch.h"
#include "fastload/base/status.h"
#include "fastload/collate/conditions.h"
#include "fastload/collate/nested_window.h"
#include "fastload/collate/row_order.h"
#include "fastload/collate/row_source.h"
#include "fastload/collate/shuffle.h"
#include "fastload/collate/tile.h"
#include "fastload/decode/lists/nested_reader.h"
#include "fastload/decode/values/value_reader.h"
#include "fastload/fetch/fetch.h"
#include "fastload/fetch/page_selection.h"
#include "fastload/plan/layout.h"
#include "fastload/plan/read_plan.h"

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
  std::shared_ptr<ByteStream> stream;  // that the reader reads; null: none
  int64_t row = 0;                     // next row of the row group, of those that stay
  int64_t fetch_bytes = 0;             // memory that its stream may hold
};

struct Window;
struct DealtColumn;
class DealtRows;

// Pieces of a window that one task decodes: column chunks are decoded side by side.
struct Share {
  size_t first_piece = 0;
  size_t end_piece = 0;
  size_t first_chunk = 0;  // pieces before it that begin a column chunk
  int64_t first_row = 0;   // of the window
};

// The views of a byte column's rows, by slot, and what they show, by share.
struct StagedBytes {
  static Result<std::unique_ptr<StagedBytes>> Make(const Window& window, bool valid);

  std::shared_ptr<Block> memory;
  ByteView* views;
  uint8_t* valid;  // null if not asked for
  std::vector<ByteArena> arenas;
};

// What a stream of a remote file will bring.
struct RemoteRanges {
  size_t stream = 0;  // of its unit
  int32_t file = 0;
  std::vector<ByteRange> ranges;
};

// A request to a store for columns of a window.
struct WindowRead {
  int64_t bytes = 0;
  int32_t units = 0;     // that are not decoded yet and read from it
  bool charged = false;  // its bytes count as fetched
};

// Staged units take three steps, the others only the last.
enum class WindowStep : uint8_t {
  kStage,  // decodes the rows
  kCount,  // finds the sizes of each part's values, once the order is known
  kFill,   // writes the rows to all parts, which have their memory
};

struct WindowUnit {
  // For each column of the unit, for each piece that begins a column chunk; null where
  // the file lacks the column. Empty where none has anything to read.
  std::vector<std::shared_ptr<ByteStream>> streams;
  std::vector<RemoteRanges> remote;  // of streams that are not made yet
  // What each of them leaves out of its column chunk.
  std::vector<ChunkPages> pages;
  // Staged units: of each part, the sizes of a ragged output that Layout::Place takes.
  std::vector<int64_t> sizes;
  std::once_flag staging;
  std::unique_ptr<StagedBytes> bytes;  // kBytes, from staging to filling
  std::unique_ptr<StagedLists> lists;  // kNested, likewise
  int64_t fetch_bytes = 0;    // memory that the streams may hold, beside that of `reads`
  std::vector<size_t> reads;  // of the window, that its streams begin with
  // Of each column, left for the next window where that goes on in the same row group.
  std::vector<Cursor> cursors;
  int64_t carried_bytes = 0;                 // what the streams of `cursors` may hold
  WindowStep next_step = WindowStep::kFill;  // that runs, or is next
  Conditions waits_for;                      // what the tasks of `next_step` wait for
  // Streams that have begun to bring bytes and have none yet; null until they begin.
  std::shared_ptr<std::atomic<size_t>> arriving;
  bool submitted = false;  // a step is
  bool held = false;       // the first of them waits for the cursors of the window before
  bool carried = false;    // `cursors` are there
  int32_t running = 0;     // tasks left of the step it is at
  std::map<int32_t, Status> failures;  // of those tasks; the first in order is told
};

struct Window {
  int64_t index = 0;
  bool opened = false;    // false: only its bytes are asked for
  bool prepared = false;  // what follows is set, but for what its tasks write
  std::span<const Piece> pieces;
  // Of a dataset of blocks: of each piece.
  std::vector<DecodedQueue::Block> blocks;
  std::vector<bool> fresh;  // the piece begins a column chunk rather than going on in one
  bool continued = false;   // the next window's first piece goes on in our last
  std::shared_ptr<Window> before;  // the one whose last piece our first goes on in
  int64_t rows = 0;                // of its pieces
  int64_t output_rows = 0;
  std::span<const Take> takes;
  bool shuffled = false;
  Shuffle shuffle;            // if shuffled
  RowOrder order;             // if shuffled, as far as units need it
  BlockPool* pool = nullptr;  // of what is staged for batches

  // Places that decoded rows are put in before they are collated.
  int64_t slots() const { return shuffled ? shuffle.slot_count() : rows; }
  // Rows are dealt out to those places rather than put in as they come.
  bool dealt() const { return shuffled && !shuffle.slots.empty(); }

  std::vector<Part> parts;
  std::vector<Share> shares;  // of its pieces
  std::vector<WindowUnit> units;
  std::vector<WindowRead> reads;
  bool ordered = false;     // the order is known
  int32_t unstaged = 0;     // units left to stage
  int32_t uncounted = 0;    // staged units left before the parts get their memory
  int32_t unfilled = 0;     // units left before the parts are complete
  int32_t undelivered = 0;  // whole parts left to hand out
};

// Cuts the window's pieces into shares: `wanted` of them, if it has as many column
// chunks.
std::vector<Share> CutShares(const Window& window, int64_t wanted);

// A task of decoding and collating one unit of one window. Tasks run without any lock:
// what they touch is their own, or complete before they begin. Where the window goes on
// in a row group, the first one comes after the last one of the window before.
class WindowTask {
 public:
  using Step = WindowStep;
  // Tasks that a step is divided into, which may run at the same time.
  static int32_t Count(const Window& window, const Unit& unit, Step step);
  // Whether the step is the one that decodes.
  static bool Decodes(const Unit& unit, Step step);

  // Task number `task` of a step.
  WindowTask(RowSource* source, Window* window, int32_t unit, int32_t task,
             Scratch* scratch);

  Status Run(Step step);
  // After all tasks of the step.
  void Finish(Step step);

 private:
  Status Stage();
  Status Fill();

  using Sink = std::function<Status(Cursor& cursor, int64_t first, int64_t rows)>;
  // Hands every run of rows of the share to `sink`, with the cursor at its first row.
  Status ForEachRow(size_t column, const Sink& sink);
  // Hands the rows of the share to `sink`, all columns of the unit together, a tile at a
  // time: window rows [first, first + rows).
  using TileSink = std::function<Status(const Tile& tile, int64_t first, int64_t rows)>;
  Status ForEachTile(const TileSink& sink);

  // The pieces of this task's share.
  struct Pieces {
    size_t begin;
    size_t end;
    size_t stream;  // of a column's streams, the first one of the share
    size_t chunks;  // streams of each column
    int64_t first;  // row of the window
    bool last;      // the window's last piece is one of them
  };
  Pieces PiecesOfShare() const;
  // Brings the cursor of a column to the piece's first row; a fresh piece is read from
  // `stream`.
  Status Seek(size_t column, size_t piece, size_t stream, Cursor* cursor);
  // `status` with the place where reading the column went wrong.
  Status Located(const Status& status, size_t column, const Piece& piece,
                 const Cursor& cursor) const;
  // Keeps a column's cursor for the next window, if that goes on in the same row group.
  void Carry(Cursor cursor, const Pieces& pieces);
  Status OpenCursor(size_t column, size_t piece, size_t stream, Cursor* cursor);
  static Status OpenBlock(const DecodedQueue::Block& block, const ColumnSpec& spec,
                          Cursor* cursor);
  // The parts that this task of a staged unit counts or fills.
  std::span<Part> Parts() const;
  Status FillFixedInOrder();
  // Through slots, in window_slots.cc.
  Status FillFixed();
  Status FillDealtColumn();
  Status FillProvenance();
  Status FillRealRows();
  // Where a column is dealt to: all of it is scratch.
  struct DealMemory {
    uint8_t* block;
    uint8_t* values;
    uint8_t* valid;  // null if not asked for
    uint8_t* codes;
    uint8_t* table;
  };
  Result<DealtColumn> Deal(const DealMemory& memory);
  // Dictionaries that a column of the window has, at most.
  int64_t Chunks() const;
  void CollateColumn(const DealtColumn& column);
  // Stacks, in window_stacks.cc.
  Status FillDealtStack();
  // Deals out neighbouring columns of the unit, from number `first` on, whose cursors are
  // at their first rows.
  Status DealSlice(size_t first, std::span<Cursor> cursors, DealtRows* rows);
  // Copies them from their slots: they begin `offset` bytes into the unit's part of a
  // row.
  Status CollateSlice(const DealtRows& rows, int64_t offset);
  // Columns of bytes, in window_bytes.cc.
  Status StageBytes();
  void CountBytes();
  void FillBytes();
  // Columns of lists, in window_lists.cc.
  // Of the elements of the share.
  int64_t ExpectedBytes(const ColumnSpec& spec) const;
  Status StageNested();
  void CountNested();
  void FillNested();
  Status FillPadded();
  // Rows copied one by one, in window_rows.cc.
  Status FillLists();
  Status FillWideStack();
  void RepeatRows();
  TakenRows Taken(const Part& part) const;
  Place PlaceOf(size_t column, const Piece& piece, int64_t page) const;

  RowSource* source_;
  Window* window_;
  const Unit& unit_;
  WindowUnit& state_;
  WindowUnit* before_;  // of the window before, where ours goes on from it
  const int32_t task_;
  Scratch* scratch_;
};

}  // namespace fastload
