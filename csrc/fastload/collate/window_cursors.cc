// How a task opens a reader of a column chunk: of kept rows, kept pages, or pages from a
// stream.
#include <utility>

#include "fastload/collate/window.h"
#include "fastload/decode/chunk_reader.h"
#include "fastload/decode/constant_reader.h"
#include "fastload/decode/lists/kept_lists.h"
#include "fastload/decode/pages/chunk_open.h"
#include "fastload/decode/repeated_reader.h"
#include "fastload/decode/selected_reader.h"
#include "fastload/fetch/cached_stream.h"

namespace fastload {

Status WindowTask::OpenCursor(size_t column, size_t piece, size_t chunk_number,
                              Cursor* cursor) {
  const Piece& p = window_->pieces[piece];
  const auto file = static_cast<int32_t>(p.file);
  const ColumnSpec& spec = source_->columns[static_cast<size_t>(unit_.columns[column])];
  if (!spec.HasLeaf(file)) {
    *cursor = Cursor{};
    if (spec.depth > 0) {
      cursor->nested = MakeNullNestedReader(&spec);
    } else if (spec.bytes) {
      cursor->bytes = MakeConstantBytesReader(&spec, file);
    } else {
      cursor->fixed = MakeConstantFixedReader(&spec, file);
    }
    return Status::OK();
  }
  WindowChunk& chunk = state_.chunks[chunk_number];
  if (chunk.kept_rows != nullptr) {
    *cursor = Cursor{};
    if (spec.depth > 0) {
      cursor->nested =
          ReadKeptLists(&source_->kept_rows, spec, std::move(chunk.kept_rows));
    } else if (spec.bytes) {
      cursor->bytes = source_->kept_rows.ReadBytes(std::move(chunk.kept_rows));
    } else {
      cursor->fixed = source_->kept_rows.Read(std::move(chunk.kept_rows));
    }
    return Status::OK();
  }
  ARROW_ASSIGN_OR_RAISE(ChunkInput input, OpenPages(column, piece, &chunk, cursor));
  if (!window_->copies.empty()) cursor->copies = window_->copies[piece];
  const int64_t page_bytes = input.page_bytes;
  const int64_t kept_rows = RowsToKeep(column, piece, page_bytes);
  if (kept_rows == 0) KeepPages(column, piece, chunk, &input, cursor);
  ARROW_RETURN_NOT_OK(OpenChunkRows(std::move(input), spec, BitsOf(*source_, *window_, p),
                                    CopiesOf(*window_, piece), std::move(chunk.pages),
                                    cursor));
  if (kept_rows == 0) return Status::OK();
  const KeptSelections::Key key = RowsKey(unit_, unit_.columns[column], p);
  if (spec.depth > 0) {
    cursor->nested = RecordLists(&source_->kept_rows, key, kept_rows, page_bytes, spec,
                                 std::move(cursor->nested));
  } else if (spec.bytes) {
    cursor->bytes = source_->kept_rows.RecordBytes(key, kept_rows, page_bytes,
                                                   std::move(cursor->bytes));
  } else {
    cursor->fixed = source_->kept_rows.Record(key, kept_rows, ItemBytes(spec),
                                              std::move(cursor->fixed));
  }
  return Status::OK();
}

int64_t WindowTask::RowsToKeep(size_t column, size_t piece, int64_t page_bytes) const {
  const Piece& p = window_->pieces[piece];
  const ColumnSpec& spec = source_->columns[static_cast<size_t>(unit_.columns[column])];
  if (!MayKeepRows(*source_, *window_, piece)) return 0;
  if (spec.depth > 0 && !CanKeepLists(spec)) return 0;
  const RowBits bits = BitsOf(*source_, *window_, p);
  const int64_t rows = CountSelected(bits);
  if (spec.depth == 0 && !spec.bytes) {
    return rows * ItemBytes(spec) <= page_bytes ? rows : 0;
  }
  // The bytes of pages are those of views or lists at most, and may be those of a
  // dictionary.
  const double share = static_cast<double>(rows) / static_cast<double>(bits.rows);
  const int64_t of_row = spec.depth > 0 ? sizeof(int64_t) : sizeof(ByteView);
  const auto all = static_cast<double>(page_bytes);
  if (static_cast<double>(rows * of_row) + share * all > all) return 0;
  return source_->kept_rows.Refuses(RowsKey(unit_, unit_.columns[column], p)) ? 0 : rows;
}

Status WindowTask::OpenChunkRows(ChunkInput input, const ColumnSpec& spec, RowBits bits,
                                 RowCopies copies, ChunkPages pages, Cursor* cursor) {
  const RepeatedRows rows{.copies = copies,
                          .bits = bits,
                          .decodes_gaps = NeverFails(spec, input),
                          .nullable = input.descr->max_definition_level() > 0};
  // Opens a reader of the selected rows: `whole` if all rows are selected.
  const auto open = [&](const ColumnSpec* base, auto* whole, auto* selected) {
    return bits.all() ? whole(std::move(input), base)
                      : selected(std::move(input), base, bits, std::move(pages));
  };
  if (spec.depth > 0) {
    const auto make = [&](const ColumnSpec* base) {
      return open(base, NestedReader::Make, MakeSelectedNestedReader);
    };
    return MakeRepeatedNestedReader(rows, &spec, make).Value(&cursor->nested);
  }
  if (spec.bytes) {
    const auto make = [&](const ColumnSpec* base) {
      return open(base, MakeBytesReader, MakeSelectedBytesReader);
    };
    return MakeRepeatedBytesReader(rows, &spec, make).Value(&cursor->bytes);
  }
  const auto make = [&](const ColumnSpec* base) {
    return open(base, MakeFixedReader, MakeSelectedFixedReader);
  };
  return MakeRepeatedFixedReader(rows, &spec, make).Value(&cursor->fixed);
}

Result<ChunkInput> WindowTask::OpenPages(size_t column, size_t piece, WindowChunk* chunk,
                                         Cursor* cursor) {
  const Piece& p = window_->pieces[piece];
  const auto file = static_cast<int32_t>(p.file);
  const auto row_group = static_cast<int32_t>(p.row_group);
  const FileSpec& file_spec = source_->files.spec(file);
  const int32_t leaf = source_->columns[static_cast<size_t>(unit_.columns[column])]
                           .leaves[static_cast<size_t>(file)];
  const KeptPages::Key key(file, row_group, leaf);
  KeptPages& kept = source_->kept;
  if (chunk->kept == nullptr && window_->shared[piece]) {
    // Another lane may have read the chunk since the window was prepared.
    chunk->kept = kept.Find(key);
    if (chunk->kept != nullptr) chunk->stream.reset();
  }
  if (chunk->kept != nullptr) {
    *cursor = Cursor{};
    ChunkInput input{.file = file,
                     .descr = file_spec.Column(leaf),
                     .rows = file_spec.RowsOf(row_group),
                     .levels = chunk->kept->levels(),
                     .pool = &source_->pool};
    input.pages = kept.Read(std::move(chunk->kept));
    return input;
  }
  auto& bytes = chunk->stream;
  *cursor = Cursor{.stream = bytes, .fetch_bytes = bytes->MemoryBytes()};
  ARROW_ASSIGN_OR_RAISE(ChunkInput input,
                        OpenChunk(file_spec, chunk->facts, leaf, std::move(bytes),
                                  &source_->pool, {.verify_crc = source_->verify_crc}));
  input.file = file;
  input.decoded_pages = &source_->counters.decoded_pages;
  input.dictionary.kept = std::move(chunk->dictionary);
  if (p.numbers >= 0 && source_->dictionaries.on() && chunk->pages.told_apart) {
    input.dictionary.keep =
        [dictionaries = &source_->dictionaries,
         key = KeptDictionaries::Key{file, row_group, unit_.columns[column]}](
            std::shared_ptr<const DecodedDictionary> dictionary) {
          dictionaries->Keep(key, std::move(dictionary));
        };
  }
  return input;
}

void WindowTask::KeepPages(size_t column, size_t piece, const WindowChunk& chunk,
                           ChunkInput* input, Cursor* cursor) {
  const Piece& p = window_->pieces[piece];
  const ChunkPages& pages = chunk.pages;
  const auto file = static_cast<int32_t>(p.file);
  // The page cache keeps what is not compressed as well.
  const bool worth_keeping = input->compressed || source_->files.spec(file).remote;
  if (!worth_keeping || !pages.omitted.empty() || pages.lacks_dictionary) return;
  const ColumnSpec& spec = source_->columns[static_cast<size_t>(unit_.columns[column])];
  const KeptPages::Key key(file, static_cast<int32_t>(p.row_group),
                           spec.leaves[static_cast<size_t>(file)]);
  KeptPages& kept = source_->kept;
  // The first batch does not wait for copies of pages that the next window needs as well.
  const bool last = piece + 1 == window_->pieces.size();
  if (window_->first && window_->continued && last && !window_->shared[piece] &&
      !source_->files.spec(file).remote) {
    auto open = [source = source_, file, leaf = std::get<2>(key),
                 facts = chunk.facts]() -> Result<std::unique_ptr<parquet::PageReader>> {
      const FetchContext fetch{.pool = &source->page_blocks,
                               .files = &source->files,
                               .counters = &source->counters};
      auto stream = std::make_shared<CachedStream>(
          fetch, file, std::weak_ptr<File>(), std::vector{facts.range}, facts.range.bytes,
          std::make_shared<const std::atomic<bool>>(false));
      ARROW_ASSIGN_OR_RAISE(
          ChunkInput again,
          OpenChunk(source->files.spec(file), facts, leaf, std::move(stream),
                    &source->pool, {.verify_crc = source->verify_crc}));
      return std::move(again.pages);
    };
    std::tie(input->pages, cursor->recording) = kept.RecordLater(
        key, input->levels, input->page_bytes, std::move(input->pages), std::move(open));
    return;
  }
  // Each lane passes over the pages of other lanes.
  input->pages =
      window_->shared[piece] && BitsOf(*source_, *window_, p).all()
          ? kept.RecordWhole(key, input->levels, input->page_bytes,
                             std::move(input->pages))
          : kept.Record(key, input->levels, input->page_bytes, std::move(input->pages));
}

}  // namespace fastload
