// A window: the rows that are decoded, and perhaps shuffled, together.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
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
#include "fastload/decode/lists/fill_budget.h"
#include "fastload/decode/lists/nested_reader.h"
#include "fastload/decode/pages/chunk_input.h"
#include "fastload/decode/pages/chunk_open.h"
#include "fastload/decode/values/value_reader.h"
#include "fastload/fetch/fetch.h"
#include "fastload/fetch/page_selection.h"
#include "fastload/plan/layout.h"
#include "fastload/plan/read_plan.h"
#include "fastload/plan/row_copies.h"

namespace fastload {

// The rows of one batch that come from one window, or of a run: of successive small
// batches that are whole in the window.
struct Part {
  int64_t batch = 0;    // of a run, the first
  int64_t batches = 1;  // in the run
  int64_t first = 0;    // the first row's number among the window's output rows
  int64_t rows = 0;
  int64_t offset = 0;      // the first row's number in the batch
  int64_t real_rows = 0;   // the remaining rows repeat rows to fill the batch
  int64_t items = 0;       // packed: elements of the part's segments
  int64_t first_item = 0;  // packed: the number of their first one in the batch
  bool whole = false;      // true if the part is the whole batch, or a run
  bool of_lane = false;    // true if the part is all that the batch takes from the lane
  bool in_place = false;   // true if `block` is that of the whole batch
  int32_t unfilled = 0;    // of the units that fill parts, those left to fill this one
  std::shared_ptr<Block> block;
  Layout::Areas areas;
};

// A reader in the middle of a column chunk, for the task that decodes the next rows.
struct Cursor {
  std::unique_ptr<FixedReader> fixed;
  std::unique_ptr<BytesReader> bytes;
  std::unique_ptr<NestedReader> nested;
  std::shared_ptr<ByteStream> stream;   // the reader's stream; null: none
  std::shared_ptr<GroupCopies> copies;  // that the reader borrows; null: none
  // Of the reader's pages, for the next window to begin. Null: none.
  LateRecording* recording = nullptr;
  int64_t row = 0;          // next row, counted among the row group's selected rows
  int64_t fetch_bytes = 0;  // memory that the stream may hold
};

struct Window;
class CodeTable;
struct DecodedColumn;
class StackRows;

// The pieces of a window that one task decodes. Shares are decoded side by side.
struct Share {
  size_t first_piece = 0;
  size_t end_piece = 0;
  size_t first_chunk = 0;  // number of earlier pieces that begin a column chunk
  int64_t first_row = 0;   // first row in the window
};

// The views of a byte column's rows, by row or by slot, and the viewed bytes by share.
struct StagedBytes {
  static Result<std::unique_ptr<StagedBytes>> Make(const Window& window, bool valid,
                                                   bool by_slot);

  std::shared_ptr<Block> memory;
  ByteView* views;
  uint8_t* valid;  // null if not asked for
  bool by_slot = false;
  std::vector<ByteArena> arenas;
};

// A column chunk of a unit, and what its rows are read from: kept rows, kept pages, or
// a stream. All are null where the file lacks the column.
struct WindowChunk {
  std::shared_ptr<const KeptRows> kept_rows;
  std::shared_ptr<const KeptChunk> kept;
  std::shared_ptr<ByteStream> stream;
  // The kept dictionary that the stream lacks; null: the stream has all.
  std::shared_ptr<const DecodedDictionary> dictionary;
  ChunkFacts facts;  // what the footer says of the chunk; set with a stream
  ChunkPages pages;  // of the stream, and those that it leaves out
};

// The ranges that the stream of a remote file will read.
struct RemoteRanges {
  size_t chunk = 0;  // index of the chunk in its unit
  int32_t file = 0;
  std::vector<ByteRange> ranges;
};

// A request to a store for columns of a window.
struct WindowRead {
  int64_t bytes = 0;
  int32_t units = 0;     // units that read from the request and are not decoded yet
  bool charged = false;  // the request's bytes count as fetched
};

// Staged units take three steps, the others only the last.
enum class WindowStep : uint8_t {
  kStage,  // decodes the rows
  kCount,  // finds the sizes of each part's values, once the order is known
  kFill,   // writes the rows to the parts, which have their memory
};

struct WindowUnit {
  // For each column of the unit, one for each piece that begins a column chunk.
  std::vector<WindowChunk> chunks;
  bool reads_bytes = false;          // a chunk has a stream, or will have one
  std::vector<RemoteRanges> remote;  // ranges of streams that are not made yet
  // Staged units: for each part, the sizes of a ragged output that Layout::Place takes.
  std::vector<int64_t> sizes;
  std::once_flag staging;              // of bytes, lists or numbers
  std::unique_ptr<StagedBytes> bytes;  // kBytes, from staging to filling
  std::unique_ptr<StagedLists> lists;  // kNested, likewise
  std::shared_ptr<Block> numbers;      // of the window's rows, in units without columns
  Status numbers_status;
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
  // Tasks left of the step it is at. Set with the scan's mutex held, counted down
  // without.
  std::atomic<int32_t> running = 0;
  std::map<int32_t, Status> failures;  // of those tasks; the first in order is told
  bool failed = false;                 // one of them has; read once all are done
};

struct Window {
  int64_t index = 0;
  bool first = false;     // of its lane
  bool opened = false;    // false: only the window's bytes are requested
  bool prepared = false;  // the members below are set, except those that tasks write
  std::span<const Piece> pieces;
  std::span<const int64_t> numbers;  // of the plan; see Piece::numbers
  // For each piece, the copies of its row group's rows; empty: each row has one copy.
  std::vector<std::shared_ptr<GroupCopies>> copies;
  std::vector<bool> fresh;         // true if the piece begins a column chunk
  std::vector<bool> shared;        // true if several lanes read the piece's row group
  bool continued = false;          // the next window continues the last row group
  std::shared_ptr<Window> before;  // the window whose last row group this one continues
  int64_t rows = 0;                // rows of the window's pieces
  int64_t output_rows = 0;
  std::span<const Take> takes;
  std::span<const Segment> segments;  // packed: the output rows
  // Packed: true for each row of the pieces that a segment is from; empty: all rows are
  // read, whether segments are from them or not.
  std::vector<bool> wanted;
  bool shuffled = false;
  bool by_takes = false;  // if shuffled: see ReadPlan::by_takes
  Shuffle shuffle;        // if shuffled
  std::once_flag two_steps_made;
  std::unique_ptr<const TwoSteps> two_steps;
  // The bytes up to which a column is gathered row by row, as it stays in a cache.
  int64_t cache_bytes = 0;
  RowOrder order;             // if shuffled, the parts that units need
  BlockPool* pool = nullptr;  // memory of staged rows
  Fills copied;               // the parts, where rows have copies and sizes vary

  bool packed() const { return !segments.empty(); }
  // Returns the segments of a part, if rows are packed.
  std::span<const Segment> SegmentsOf(const Part& part) const {
    if (!packed()) return {};
    return segments.subspan(static_cast<size_t>(part.first),
                            static_cast<size_t>(part.rows));
  }

  int64_t buckets() const { return shuffled ? shuffle.buckets() : 1; }
  // Returns the memory of the window's rows, in order or dealt to slots, in rows.
  int64_t slots() const { return shuffled ? TwoSteps::SlotCount(shuffle) : rows; }
  // Returns the shuffle in two steps, which the first caller makes. Thread-safe.
  const TwoSteps& InTwoSteps() {
    std::call_once(two_steps_made,
                   [this] { two_steps = std::make_unique<const TwoSteps>(shuffle); });
    return *two_steps;
  }

  std::vector<Part> parts;
  std::vector<Share> shares;  // of its pieces
  int64_t part_tasks = 0;     // if parts are complete one by one: tasks of a unit
  std::vector<WindowUnit> units;
  std::vector<WindowRead> reads;
  bool ordered = false;        // the order is known
  int32_t unstaged = 0;        // units left to stage
  int32_t uncounted = 0;       // staged units left before the parts get their memory
  int32_t unfilled = 0;        // units left before all parts are complete
  int32_t unfilled_whole = 0;  // of those, units that don't fill part after part
  int32_t undelivered = 0;     // parts left to hand out, but for those that windows share
};

// Returns true if rows of the unit are copied one by one instead of going through slots:
// always, or because a window by takes is short.
bool IsRowByRow(const Window& window, const Unit& unit);

// Returns the selected rows of the piece's row group.
RowBits BitsOf(const RowSource& source, const Window& window, const Piece& piece);

// Returns the copies of the selected rows of piece `piece`'s row group.
RowCopies CopiesOf(const Window& window, size_t piece);
// Returns true if a column chunk of the piece may have kept rows: the rows are those of
// the dataset's selection, and each comes once.
bool MayKeepRows(const RowSource& source, const Window& window, size_t piece);
// Returns the key of a column's kept rows for a unit.
KeptSelections::Key RowsKey(const Unit& unit, int32_t column, const Piece& piece);

// Cuts the window's pieces into shares: `wanted` shares if the window has as many column
// chunks, else fewer.
std::vector<Share> CutShares(const Window& window, int64_t wanted);

// A task that decodes and collates one unit of one window. Tasks run without any lock: a
// task uses objects that belong to the task, or that are complete before the task begins.
// If the window continues a row group, its first task runs after the last task of the
// previous window.
class WindowTask {
 public:
  using Step = WindowStep;
  // Tasks that a step is divided into, which may run at the same time.
  static int32_t Count(const Window& window, const Unit& unit, Step step);
  // Whether the step is the one that decodes.
  static bool Decodes(const Unit& unit, Step step);
  // Whether each task of the step fills some of the parts, so that a part is complete as
  // soon as one task of each such unit has run.
  static bool FillsParts(const Window& window, const Unit& unit, Step step);
  // Returns the parts that task number `task` of a unit counts or fills.
  static std::span<Part> PartsOf(Window* window, const Unit& unit, int32_t task);

  // Makes task number `task` of a step.
  WindowTask(RowSource* source, Window* window, int32_t unit, int32_t task,
             Scratch* scratch);

  Status Run(Step step);
  // Completes the step, after all of its tasks.
  void Finish(Step step);

 private:
  Status Stage();
  Status Fill();

  using Sink = std::function<Status(Cursor& cursor, int64_t first, int64_t rows)>;
  // Passes every run of rows of the share to `sink`, with the cursor at the run's first
  // row.
  Status ForEachRow(size_t column, const Sink& sink);
  // Passes the rows of the share to `sink`, all columns of the unit together, one tile at
  // a time: window rows [first, first + rows).
  using TileSink = std::function<Status(const Tile& tile, int64_t first, int64_t rows)>;
  Status ForEachTile(const TileSink& sink);

  // The pieces of this task's share.
  struct Pieces {
    size_t begin;
    size_t end;
    size_t chunk;   // index of the share's first chunk among a column's chunks
    size_t chunks;  // number of chunks of each column
    int64_t first;  // first row in the window
    bool last;      // the window's last piece is in the share
  };
  Pieces PiecesOfShare() const;
  // Moves the cursor of a column to the piece's first row; a fresh piece is read from the
  // unit's chunk number `chunk`.
  Status Seek(size_t column, size_t piece, size_t chunk, Cursor* cursor);
  // Adds to `status` the location at which reading the column failed.
  Status Located(const Status& status, size_t column, const Piece& piece,
                 const Cursor& cursor) const;
  // Keeps a column's cursor for the next window, if the next window continues the same
  // row group.
  void Carry(Cursor cursor, const Pieces& pieces);
  // Opens a reader of a column chunk, in window_cursors.cc, as do the functions below.
  Status OpenCursor(size_t column, size_t piece, size_t chunk, Cursor* cursor);
  // Returns the selected rows of a column chunk if they take less memory than its pages,
  // of `page_bytes` bytes, so that the rows are kept rather than the pages; else 0.
  int64_t RowsToKeep(size_t column, size_t piece, int64_t page_bytes) const;
  // Opens the pages of a column chunk: kept pages, or pages from the stream.
  Result<ChunkInput> OpenPages(size_t column, size_t piece, WindowChunk* chunk,
                               Cursor* cursor);
  // Has the pages recorded while they are read, if they are worth their memory. Kept
  // pages stay as they are.
  void KeepPages(size_t column, size_t piece, const WindowChunk& chunk, ChunkInput* input,
                 Cursor* cursor);
  // Opens a reader of the selected rows of a column chunk, and of their copies.
  static Status OpenChunkRows(ChunkInput input, const ColumnSpec& spec, RowBits bits,
                              RowCopies copies, ChunkPages pages, Cursor* cursor);
  std::span<Part> Parts() const { return PartsOf(window_, unit_, task_); }
  Status FillFixedInOrder();
  // Fixed-width columns that are decoded before they are collated, in window_columns.cc.
  Status FillFixed();
  Status FillColumn();
  Status FillStackByTiles();
  Status FillProvenance();
  // Writes the file or the row number of each row of the window.
  Status Provenance(uint8_t* numbers) const;
  // Returns what `make` has written for all rows of the window. The first task of the
  // unit calls `make`.
  Result<uint8_t*> NumbersOfRows(const std::function<Status(uint8_t*)>& make);
  void FillFirst();
  Status FillRealRows();
  // Scratch memory for decoding a column, beside the column's own.
  struct ColumnMemory {
    uint8_t* block;
    uint8_t* table;
  };
  Status DecodeColumn(const ColumnMemory& memory, DecodedColumn* column);
  // Converts the first `rows` rows of a column from codes to values.
  void TurnToValues(const CodeTable& table, int64_t rows, DecodedColumn* column);
  // Returns true if a column is held as codes where it can be: the window has many rows.
  bool HasCodes() const;
  // Returns true if a column of `row_bytes` a row does not stay in a cache, so that it is
  // shuffled in two steps.
  bool GoesBySlot(int64_t row_bytes) const;
  // Returns the most dictionaries that a column of the window has.
  int64_t Chunks() const;
  // Copies the rows of a decoded column to all outputs of the unit.
  void CollateColumn(const DecodedColumn& column);
  // Stacks, in window_stacks.cc.
  Status FillStackByRecords();
  // Reads neighbouring columns of the unit, from column number `first` on, whose cursors
  // are at their first rows.
  Status ReadSlice(size_t first, std::span<Cursor> cursors, StackRows* rows);
  // Copies the columns that were read to bytes `offset` and following of the unit's part
  // of a row.
  Status CollateSlice(const StackRows& rows, int64_t offset);
  // Columns of bytes, in window_bytes.cc.
  Status StageBytes();
  void CountBytes();
  void FillBytes();
  // Columns of lists, in window_lists.cc. ExpectedBytes returns the likely bytes of the
  // share's elements.
  int64_t ExpectedBytes(const ColumnSpec& spec) const;
  Status StageNested();
  // Reads the rows of a piece that the window wants; other rows become empty lists.
  Status ReadWanted(NestedReader* reader, int64_t first, int64_t rows,
                    NestedRows* staged);
  Status CountNested();
  Status FillNested();
  // Returns the error of elements that the batches found to be damaged.
  Status CheckDamage() const;
  Status FillPadded();
  // Returns an error if a segment's list has another length than the plan says.
  Status CheckSegments(const Part& part) const;
  // Rows copied one by one, in window_rows.cc.
  Status FillLists();
  Status FillWideStack();
  void RepeatRows();
  TakenRows Taken(const Part& part) const;
  Location LocationOf(size_t column, const Piece& piece, int64_t page) const;

  RowSource* source_;
  Window* window_;
  const Unit& unit_;
  WindowUnit& state_;
  // The previous window's unit, if this window continues its row group.
  WindowUnit* before_;
  const int32_t task_;
  Scratch* scratch_;
};

}  // namespace fastload
