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

// Returns the slots of the batches, or nullopt if one of the batches can't be sent.
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
  py::class_<PySender>(
      m, "BatchSender",
      "The shared memory of a process that makes batches for another process.")
      .def(py::init([](int64_t size, const std::string& description) {
             auto sender = ValueOrRaise(BatchSender::Make(size));
             RaiseIfError(sender->Describe(description));
             return std::make_unique<PySender>(std::move(sender));
           }),
           py::kw_only(), py::arg("size"), py::arg("description"),
           "size: the most bytes of address space.\n"
           "description: bytes that receivers can read.\n"
           "Raises StorageError if the system refuses shared memory.")
      .def("allocate", &Allocate, py::arg("size"), "Returns a block that can be sent.")
      .def("send", &Send, py::arg("batches"),
           "Keeps batches until their receiver returns them. Returns the slots by\n"
           "which the receiver takes the batches, or None if a batch is not in this\n"
           "memory.")
      .def_property_readonly(
          "held_bytes", [](const PySender& self) { return self->HeldBytes(); },
          "Bytes of batches that the receiver has taken and not returned.")
      .def(
          "report",
          [](const PySender& self, const BatchSender::Held& memory) {
            self->Report(memory);
          },
          py::arg("memory"),
          "Reports to receivers how much memory this process holds, by stage.")
      .def_property_readonly(
          "met", [](const PySender& self) { return self->met(); },
          "True if a receiver has mapped the memory.")
      .def_property_readonly(
          "fd", [](const PySender& self) { return self->fd(); },
          "Descriptor of the memory's file.");

  py::class_<ReceivedBatch>(
      m, "ReceivedBatch", py::buffer_protocol(),
      "A batch in another process's memory: a writable buffer of bytes.")
      .def_buffer([](ReceivedBatch& batch) {
        return py::buffer_info(batch.data(), static_cast<py::ssize_t>(batch.size()));
      })
      .def_property_readonly("rows", &ReceivedBatch::rows, "Rows of the batch.")
      .def_property_readonly("receiver", &ReceivedBatch::receiver,
                             "Receiver whose memory holds the batch.")
      .def_property_readonly(
          "segment",
          [](const ReceivedBatch& batch) {
            const auto segment = batch.segment();
            return std::pair(reinterpret_cast<uintptr_t>(segment.data()), segment.size());
          },
          "Address and bytes of the memory's segment that holds the batch; 0 bytes if\n"
          "the batch is larger than a segment.")
      .def_property_readonly(
          "areas", &Areas,
          "Offsets and sizes of the outputs, which fastload.batch.assembler.Assembler\n"
          "reads.");

  py::class_<BatchReceiver, std::shared_ptr<BatchReceiver>>(
      m, "BatchReceiver", "The memory of a `BatchSender` in the receiving process.")
      .def(py::init([](int fd) { return ValueOrRaise(BatchReceiver::Open(fd)); }),
           py::arg("fd"),
           "fd: descriptor of a sender's memory, which the caller keeps.\n"
           "Raises StorageError or ValueError.")
      .def(
          "take",
          [](BatchReceiver& self, int32_t slot) { return ValueOrRaise(self.Take(slot)); },
          py::arg("slot"),
          "Returns the batch of a slot, once. Raises ValueError for any other slot.")
      .def_property_readonly("memory", &BatchReceiver::memory,
                             "Bytes of memory by stage that the sender reported last.")
      .def_property_readonly(
          "description",
          [](const BatchReceiver& self) { return py::bytes(self.description()); },
          "The description that the sender was made with.");
}

}  // namespace fastload
