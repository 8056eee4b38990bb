#include "bindings/remote_queue.h"

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "bindings/bindings.h"
#include "bindings/without_gil.h"
#include "fastload/fetch/coalesce.h"
#include "pybind11/stl.h"

namespace fastload {

namespace py = pybind11;

namespace {

// Bytes that a Python object lends.
class LentBuffer final : public arrow::Buffer {
 public:
  LentBuffer(std::unique_ptr<Py_buffer> buffer, std::shared_ptr<RemoteQueue> queue,
             std::shared_ptr<ReturnedBuffers> returned)
      : arrow::Buffer(static_cast<const uint8_t*>(buffer->buf), buffer->len),
        buffer_(std::move(buffer)),
        queue_(std::move(queue)),
        returned_(std::move(returned)) {
    queue_->AddHeldBytes(size());
  }
  // On any thread: the one that serves the queue lets go of the object.
  ~LentBuffer() override {
    queue_->AddHeldBytes(-size());
    returned_->Add(std::move(buffer_));
    // Whoever brings bytes next lets go of it, too.
    if (!queue_->brings()) queue_->Wake();
  }
  LentBuffer(const LentBuffer&) = delete;
  LentBuffer& operator=(const LentBuffer&) = delete;

 private:
  std::unique_ptr<Py_buffer> buffer_;
  const std::shared_ptr<RemoteQueue> queue_;
  const std::shared_ptr<ReturnedBuffers> returned_;
};

py::object AsTuple(const std::optional<RemoteQueue::Request>& request) {
  if (!request) return py::none();
  return py::make_tuple(request->id, request->file, request->range.offset,
                        request->range.bytes);
}

}  // namespace

ReturnedBuffers::~ReturnedBuffers() {
  // Of a core that outlived the client: nobody with the GIL is left to take them.
  for (auto& buffer : buffers_) static_cast<void>(buffer.release());
}

void ReturnedBuffers::Add(std::unique_ptr<Py_buffer> buffer) {
  std::lock_guard lock(mutex_);
  buffers_.push_back(std::move(buffer));
}

void ReturnedBuffers::Release() {
  std::vector<std::unique_ptr<Py_buffer>> buffers;
  {
    std::lock_guard lock(mutex_);
    buffers.swap(buffers_);
  }
  for (const auto& buffer : buffers) PyBuffer_Release(buffer.get());
}

py::list PyRemoteQueue::Take(int64_t most) {
  queue_->ClearWake();
  returned_->Release();
  std::vector<RemoteQueue::Request> requests;
  {
    const WithoutGil without_gil;
    while (static_cast<int64_t>(requests.size()) < most) {
      const auto request = queue_->Take();
      if (!request) break;
      requests.push_back(*request);
    }
  }
  py::list list;
  for (const auto& request : requests) list.append(AsTuple(request));
  return list;
}

py::object PyRemoteQueue::Finish(int64_t id, const py::buffer& bytes, bool take) {
  auto view = std::make_unique<Py_buffer>();
  if (PyObject_GetBuffer(bytes.ptr(), view.get(), PyBUF_SIMPLE) != 0) {
    throw py::error_already_set();
  }
  std::shared_ptr<arrow::Buffer> lent =
      std::make_shared<LentBuffer>(std::move(view), queue(), returned_);
  std::optional<RemoteQueue::Request> request;
  {
    const WithoutGil without_gil;
    queue_->Finish(id, std::move(lent));
    if (take) request = queue_->Take();
  }
  returned_->Release();
  return AsTuple(request);
}

void PyRemoteQueue::Fail(int64_t id, bool changed, const std::string& message) {
  const auto kind = changed ? ErrorKind::kSourceChanged : ErrorKind::kStorage;
  {
    const WithoutGil without_gil;
    queue_->Finish(id, MakeError(kind, message));
  }
  returned_->Release();
}

void PyRemoteQueue::Close() {
  {
    const WithoutGil without_gil;
    queue_->Close();
  }
  returned_->Release();
}

void RegisterRemoteQueue(py::module_& m) {
  py::class_<PyRemoteQueue, std::shared_ptr<PyRemoteQueue>>(
      m, "RemoteQueue", "What the core asks for of a dataset's remote files.")
      .def(
          py::init<std::shared_ptr<RangeCache>, std::vector<std::string>>(),
          py::arg("cache") = nullptr, py::arg("objects") = std::vector<std::string>(),
          "cache: where bytes are looked for before they are asked for, by the names in\n"
          "it of all files; \"\" = that of one whose bytes are not kept.")
      .def_property_readonly("wake_fd", &PyRemoteQueue::wake_fd,
                             "A descriptor that is readable when there may be something "
                             "to take.")
      .def_property_readonly("closed", &PyRemoteQueue::closed,
                             "Whether nobody waits for it any more.")
      .def(
          "take", &PyRemoteQueue::Take, py::arg("most"),
          "The next requests to serve, as (id, file, offset, bytes); lets go of buffers\n"
          "that the core has done with.")
      .def("finish", &PyRemoteQueue::Finish, py::arg("id"), py::arg("bytes"),
           py::kw_only(), py::arg("take") = false,
           "Hands over the bytes of a request, without a copy; lets go of others as "
           "`take`\n"
           "does. Returns the next request if it is to be taken and there is one, else "
           "None.")
      .def("fail", &PyRemoteQueue::Fail, py::arg("id"), py::kw_only(), py::arg("changed"),
           py::arg("message"),
           "Fails a request: with SourceChangedError if the file has changed, else with\n"
           "StorageError.")
      .def("close", &PyRemoteQueue::Close,
           "Fails all that is asked for and all that will be. Idempotent.");
  m.def(
      "coalesce",
      [](const std::vector<std::pair<int64_t, int64_t>>& ranges, int64_t hole_bytes,
         int64_t request_bytes) {
        std::vector<ByteRange> wanted;
        for (const auto& [offset, bytes] : ranges) wanted.push_back({offset, bytes});
        std::vector<std::pair<int64_t, int64_t>> requests;
        for (const ByteRange& request :
             Coalesce(std::move(wanted), hole_bytes, request_bytes)) {
          requests.emplace_back(request.offset, request.bytes);
        }
        return requests;
      },
      py::arg("ranges"), py::kw_only(), py::arg("hole_bytes"), py::arg("request_bytes"),
      "The fewest requests, as (offset, bytes), that bring ranges of a file: none "
      "larger\n"
      "than `request_bytes`, none with a larger hole than `hole_bytes`.");
}

}  // namespace fastload
