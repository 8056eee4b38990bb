#include "bindings/shared_batches.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/bindings.h"
#include "bindings/errors.h"
#include "bindings/scan.h"
#include "pybind11/pybind11.h"
#include "pybind11/stl.h"

namespace fastload {

namespace py = pybind11;

namespace {

// What they are taken by; nullopt if not all of them can be sent.
std::optional<std::vector<int32_t>> Send(const PySender& self,
                                         const std::vector<const LentBatch*>& lent) {
  std::vector<int32_t> slots;
  for (const LentBatch* one : lent) {
    const Layout::Areas& areas = one->batch.areas;
    const int32_t slot = self->Send(one->batch.block, areas.rows, areas.numbers);
    if (slot < 0) {
      for (const int32_t sent : slots) self->Cancel(sent);
      return std::nullopt;
    }
    slots.push_back(slot);
  }
  return slots;
}

std::unique_ptr<LentBatch> Allocate(PySender& self, int64_t bytes) {
  Layout::Areas areas;
  areas.bytes = bytes;
  return std::make_unique<LentBatch>(LentBatch{
      {.block = ValueOrRaise(self.Allocate(bytes)), .areas = std::move(areas)}, nullptr});
}

py::tuple Areas(const ReceivedBatch& batch) {
  py::tuple areas(batch.areas().size());
  for (size_t i = 0; i < batch.areas().size(); ++i) {
    areas[i] = py::int_(batch.areas()[i]);
  }
  return areas;
}

}  // namespace

void RegisterSharedBatches(py::module_& m) {
  py::class_<PySender>(m, "BatchSender",
                       "Shared memory of a process that makes batches for another one.")
      .def(py::init([](int64_t size, const std::string& description) {
             auto sender = ValueOrRaise(BatchSender::Make(size));
             RaiseIfError(sender->Describe(description));
             return std::make_unique<PySender>(std::move(sender));
           }),
           py::kw_only(), py::arg("size"), py::arg("description"),
           "At most `size` bytes of address space; receivers get the description.\n"
           "Raises StorageError if the system refuses shared memory.")
      .def("allocate", &Allocate, py::arg("size"), "A block that can be sent.")
      .def("send", &Send, py::arg("batches"),
           "Keeps batches until their receiver is done with them. Returns what it takes\n"
           "them by; None if one of them does not lie in this memory.")
      .def_property_readonly(
          "held_bytes", [](const PySender& self) { return self->HeldBytes(); },
          "Bytes of batches that the receiver took and has not done with.")
      .def(
          "report",
          [](const PySender& self, const BatchSender::Held& memory) {
            self->Report(memory);
          },
          py::arg("memory"),
          "Has receivers see what memory this process holds, by stage.")
      .def_property_readonly(
          "met", [](const PySender& self) { return self->met(); },
          "Whether a receiver has mapped the memory.")
      .def_property_readonly(
          "fd", [](const PySender& self) { return self->fd(); }, "Of the memory's file.");

  py::class_<ReceivedBatch>(
      m, "ReceivedBatch", py::buffer_protocol(),
      "A batch in another process's memory: a writable buffer of bytes.")
      .def_buffer([](ReceivedBatch& batch) {
        return py::buffer_info(batch.data(), static_cast<py::ssize_t>(batch.size()));
      })
      .def_property_readonly("rows", &ReceivedBatch::rows, "Rows of the batch.")
      .def_property_readonly("receiver", &ReceivedBatch::receiver,
                             "Whose memory it lies in.")
      .def_property_readonly(
          "segment",
          [](const ReceivedBatch& batch) {
            const auto segment = batch.segment();
            return std::pair(reinterpret_cast<uintptr_t>(segment.data()), segment.size());
          },
          "Address and bytes of the stretch of that memory in which it lies with "
          "others;\n"
          "0 bytes if it is larger than these stretches.")
      .def_property_readonly(
          "areas", &Areas,
          "Where the outputs lie: fastload.batch.assembler.Assembler reads it.");

  py::class_<BatchReceiver, std::shared_ptr<BatchReceiver>>(
      m, "BatchReceiver", "The memory of a `BatchSender`, in the process that receives.")
      .def(py::init([](int fd) { return ValueOrRaise(BatchReceiver::Open(fd)); }),
           py::arg("fd"), "The caller keeps `fd`. Raises StorageError, ValueError.")
      .def(
          "take",
          [](BatchReceiver& self, int32_t slot) { return ValueOrRaise(self.Take(slot)); },
          py::arg("slot"), "The batch that was sent so, once. Raises ValueError.")
      .def_property_readonly("memory", &BatchReceiver::memory,
                             "What the sender reported last.")
      .def_property_readonly(
          "description",
          [](const BatchReceiver& self) { return py::bytes(self.description()); },
          "What the sender described.");
}

}  // namespace fastload
