#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "arrow/util/byte_size.h"
#include "bindings/arrow_capsules.h"
#include "bindings/bindings.h"
#include "bindings/decoded_queue.h"
#include "bindings/errors.h"
#include "bindings/fork_guard.h"
#include "bindings/scan.h"
#include "bindings/without_gil.h"
#include "fastload/blocks/block_rows.h"
#include "fastload/blocks/decoded_block.h"
#include "fastload/blocks/decoded_writer.h"
#include "fastload/blocks/write_behind.h"
#include "pybind11/stl.h"

namespace fastload {

namespace py = pybind11;

namespace {

std::unique_ptr<DecodedWriter> MakeWriter(int fd, const std::string& name,
                                          const py::object& schema) {
  return ValueOrRaise(DecodedWriter::Make(fd, name, SchemaOf(schema)));
}

// Rows of a block, as one record batch.
struct BlockBatch {
  std::shared_ptr<arrow::RecordBatch> rows;
};

// The thread is not in a child of fork().
using PyWriteBehind = ForkGuard<WriteBehind>;

// A block in memory.
struct HeldBlock {
  std::shared_ptr<const DecodedBlock> block;
};

// Copies rows to memory of the core, which may be freed without the GIL.
BlockBatch Copied(const py::object& batch) {
  auto rows = RecordBatchOf(batch);
  return {ValueOrRaise(
      CallWithoutGil([&] { return rows->CopyTo(arrow::default_cpu_memory_manager()); }))};
}

WriteBehind::Batches RowsOf(const std::vector<BlockBatch>& batches) {
  WriteBehind::Batches rows;
  rows.reserve(batches.size());
  for (const BlockBatch& batch : batches) rows.push_back(batch.rows);
  return rows;
}

BlockBatch RowsOfLent(const BlockRows& rows, const LentBatch& lent) {
  return {ValueOrRaise(
      CallWithoutGil([&] { return rows.Of(lent.batch.block, lent.batch.areas); }))};
}

void AddRows(DecodedWriter& writer, const BlockBatch& batch) {
  RaiseIfError(CallWithoutGil([&] { return writer.Add(*batch.rows); }));
}

void Add(DecodedWriter& writer, const py::object& batch) {
  AddRows(writer, {RecordBatchOf(batch)});
}

uint64_t Finish(DecodedWriter& writer) {
  return ValueOrRaise(CallWithoutGil([&] { return writer.Finish(); }));
}

std::optional<bool> CheckBlock(const std::string& path, const std::string& name) {
  const WithoutGil without_gil;
  uint64_t checked = 0;
  switch (DecodedBlock::Open(path, name, &checked).state) {
    case BlockState::kGood:
      return true;
    case BlockState::kDamaged:
      return false;
    case BlockState::kMissing:
      return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

void RegisterDecoded(py::module_& m) {
  py::class_<BlockBatch>(m, "BlockBatch", "Rows of a block, in the memory of a batch.")
      .def_property_readonly(
          "nbytes",
          [](const BlockBatch& batch) {
            return arrow::util::TotalBufferSize(*batch.rows);
          },
          "Bytes of all columns.")
      .def_static("copied", &Copied, py::arg("batch"),
                  "Copies a record batch that has `__arrow_c_array__` and no nulls.");
  py::class_<HeldBlock>(m, "HeldBlock", "A block in memory.")
      .def(py::init(
               [](const PyDecodedQueue& queue, const std::vector<BlockBatch>& batches) {
                 return HeldBlock{
                     DecodedBlock::Hold(RowsOf(batches), queue.Here().held_bytes())};
               }),
           py::arg("queue"), py::arg("batches"),
           "queue: the queue that counts the block's bytes.")
      .def_property_readonly(
          "nbytes", [](const HeldBlock& held) { return held.block->held_bytes(); },
          "Bytes of the block.")
      .def_property_readonly(
          "in_use", [](const HeldBlock& held) { return held.block.use_count() > 1; },
          "True while a pass reads rows of the block.");
  py::class_<PyWriteBehind>(
      m, "WriteBehind",
      "A thread that writes blocks, one after another. In a child of fork() there is no\n"
      "thread, and nothing happens.")
      .def(py::init([](const PyDecodedQueue& queue) {
             return std::make_unique<PyWriteBehind>(std::make_shared<WriteBehind>(
                 [wakes = queue.queue()] { wakes->Wake(); }));
           }),
           py::arg("queue"), "queue: the queue to wake after each block.")
      .def(
          "add",
          [](const PyWriteBehind& behind, int64_t number, int fd, const std::string& name,
             const std::vector<BlockBatch>& batches) {
            if (!behind.mine()) return;
            RaiseIfError(behind.object()->Add(number, fd, name, RowsOf(batches)));
          },
          py::arg("number"), py::arg("fd"), py::arg("name"), py::arg("batches"),
          "Queues a block, which `fd` becomes the file of. The descriptor is duplicated.")
      .def(
          "drop",
          [](const PyWriteBehind& behind, int64_t number) {
            return behind.mine() && behind.object()->Drop(number);
          },
          py::call_guard<WithoutGil>(), py::arg("number"),
          "Takes a block out of the queue. Returns False if the block is being written,\n"
          "or was written.")
      .def(
          "take_written",
          [](const PyWriteBehind& behind) {
            std::vector<std::tuple<int64_t, uint64_t, std::string>> found;
            if (!behind.mine()) return found;
            for (const auto& one : behind.object()->TakeWritten()) {
              const std::string why = one.status.ok() ? "" : one.status.message();
              found.emplace_back(one.number, one.checksum, why);
            }
            return found;
          },
          "Returns the number and checksum of each block that was written since the "
          "last\n"
          "call; for a block that can't be written, 0 and why.")
      .def(
          "close",
          [](const PyWriteBehind& behind, double timeout_s) {
            if (!behind.mine()) return;
            const std::chrono::duration<double> timeout(timeout_s);
            behind.object()->Close(
                std::chrono::duration_cast<std::chrono::milliseconds>(timeout));
          },
          py::call_guard<WithoutGil>(), py::arg("timeout_s"),
          "Waits until the queued blocks are written, for at most `timeout_s`, and "
          "gives\n"
          "up the other blocks. Idempotent.");
  py::class_<BlockRows, std::shared_ptr<BlockRows>>(
      m, "BlockRows",
      "A conversion of batches to rows of a block; `Pipeline.block_rows` makes\n"
      "it.")
      .def("of", &RowsOfLent, py::arg("lent"),
           "Returns the rows of a batch that nobody else uses.");
  py::class_<DecodedWriter>(m, "DecodedWriter", "A writer of a block of decoded rows.")
      .def(py::init(&MakeWriter), py::arg("fd"), py::arg("name"), py::arg("schema"),
           "fd: an empty file, borrowed.\n"
           "name: name of the cache's entry; the checksum covers the name, too.\n"
           "schema: schema of all record batches, with `__arrow_c_schema__`.")
      .def("add", &AddRows, py::arg("batch"),
           "Writes rows. Raises StorageError where the system refuses.")
      .def("add", &Add, py::arg("batch"),
           "Writes a record batch that has `__arrow_c_array__` and no nulls.")
      .def("finish", &Finish,
           "Completes the file, and returns the checksum. May be called once.");
  m.def("check_block", &CheckBlock, py::arg("path"), py::arg("name"),
        "Returns True if a block is as it was written, and False, after removing\n"
        "the block, if not. Returns None if the block does not exist or can't be\n"
        "opened.");
  py::class_<PyDecodedQueue, std::shared_ptr<PyDecodedQueue>>(
      m, "DecodedQueue",
      "The queue of blocks that the passes of a dataset request. In a child of fork()\n"
      "the queue is closed, and requests and waits raise RuntimeError.")
      .def(py::init<int32_t>(), py::arg("at_once"),
           "at_once: number of blocks that are made at a time.")
      .def_property_readonly("closed", &PyDecodedQueue::closed,
                             "True if no pass waits for blocks any more.")
      .def(
          "take", [](const PyDecodedQueue& queue) { return queue.Here().Take(); },
          py::call_guard<WithoutGil>(),
          "Returns the next file and row group whose block is requested, or None.")
      .def(
          "ask",
          [](const PyDecodedQueue& queue, int32_t file, int32_t row_group) {
            queue.Here().Ask({file, row_group}, [](const auto&) {});
          },
          py::call_guard<WithoutGil>(), py::arg("file"), py::arg("row_group"),
          "Requests a block without waiting for the block.")
      .def(
          "wait",
          [](const PyDecodedQueue& queue, int64_t seen, double timeout_s) {
            const std::chrono::duration<double> timeout(timeout_s);
            return queue.Here().Wait(
                seen, std::chrono::duration_cast<std::chrono::milliseconds>(timeout));
          },
          py::call_guard<WithoutGil>(), py::arg("seen"), py::arg("timeout_s"),
          "Returns how often a block was requested, the queue was closed or `wake`\n"
          "was called. Waits for at most `timeout_s` until the number differs from\n"
          "`seen`, which the caller got before looking for work.")
      .def("wake", &PyDecodedQueue::Wake, py::call_guard<WithoutGil>(),
           "Ends the waits that have begun, and later waits with a number from before.")
      .def(
          "open",
          [](const PyDecodedQueue& queue, int32_t file, int32_t row_group,
             const std::string& path, const std::string& name, int64_t rows,
             uint64_t written) -> std::optional<bool> {
            const auto state =
                queue.Here().Open({file, row_group}, path, name, rows, written);
            if (state == BlockState::kMissing) return std::nullopt;
            return state == BlockState::kGood;
          },
          py::call_guard<WithoutGil>(), py::arg("file"), py::arg("row_group"),
          py::arg("path"), py::arg("name"), py::arg("rows"), py::kw_only(),
          py::arg("written") = 0,
          "Opens the block of a row group, which must have `rows` rows, and passes\n"
          "the block to the waiting passes. Returns False if the block is damaged,\n"
          "and None if the block does not exist; the block then stays requested.\n"
          "written: checksum of a block that this process has just written and that\n"
          "is not read again; 0 = not written by this process.")
      .def(
          "hand_over",
          [](const PyDecodedQueue& queue, int32_t file, int32_t row_group,
             const HeldBlock& held) {
            queue.Here().HandOver({file, row_group}, held.block);
          },
          py::call_guard<WithoutGil>(), py::arg("file"), py::arg("row_group"),
          py::arg("held"),
          "Passes a block in memory to the waiting passes, and to passes that request\n"
          "the block while the block is in memory.")
      .def(
          "note_written",
          [](const PyDecodedQueue& queue, int32_t file, int32_t row_group,
             uint64_t checksum) {
            queue.Here().NoteWritten({file, row_group}, checksum);
          },
          py::call_guard<WithoutGil>(), py::arg("file"), py::arg("row_group"),
          py::arg("checksum"),
          "Notes the checksum of a block that this process has written, so that the\n"
          "block is not read again to check it.")
      .def_property_readonly(
          "held_bytes",
          [](const PyDecodedQueue& queue) { return queue.Here().held_bytes()->load(); },
          "Bytes of all blocks in memory.")
      .def(
          "fail",
          [](const PyDecodedQueue& queue, int32_t file, int32_t row_group, bool corrupt,
             const std::string& message) {
            if (!queue.mine()) return;
            const auto kind = corrupt ? ErrorKind::kCorruptFile : ErrorKind::kStorage;
            queue.queue()->Fail({file, row_group}, kind, message);
          },
          py::call_guard<WithoutGil>(), py::arg("file"), py::arg("row_group"),
          py::kw_only(), py::arg("corrupt"), py::arg("message"),
          "Fails the request with a CorruptFileError, or a StorageError, of that\n"
          "message.")
      .def("close", &PyDecodedQueue::Close, py::call_guard<WithoutGil>(),
           "Fails all requests, now and later. Idempotent.");
}

}  // namespace fastload
