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

// A buffer over the bytes of a Python object.
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
  // Runs on any thread, so the thread that serves the queue releases the object.
  ~LentBuffer() override {
    queue_->AddHeldBytes(-size());
    returned_->Add(std::move(buffer_));
    // The client's next call also releases the object.
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
  // The core has outlived the client, so no thread with the GIL is left to release these.
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
      m, "RemoteQueue",
      "The queue of reads that the core requests from a dataset's remote files.")
      .def(py::init<std::shared_ptr<RangeCache>, std::vector<std::string>>(),
           py::arg("cache") = nullptr, py::arg("objects") = std::vector<std::string>(),
           "cache: cache that is searched before bytes are requested.\n"
           "objects: name of each file in the cache; \"\" = the file's bytes are not\n"
           "cached.")
      .def_property_readonly(
          "wake_fd", &PyRemoteQueue::wake_fd,
          "A descriptor that is readable when there may be a request to take.")
      .def_property_readonly("closed", &PyRemoteQueue::closed,
                             "True if no pass waits for reads any more.")
      .def("take", &PyRemoteQueue::Take, py::arg("most"),
           "Returns the next requests to serve, as (id, file, offset, bytes). Releases\n"
           "buffers that the core no longer uses.")
      .def("finish", &PyRemoteQueue::Finish, py::arg("id"), py::arg("bytes"),
           py::kw_only(), py::arg("take") = false,
           "Passes the bytes of a request to the core, without a copy. Releases\n"
           "buffers like `take`. With `take`, returns the next request, or None if\n"
           "there is none.")
      .def("fail", &PyRemoteQueue::Fail, py::arg("id"), py::kw_only(), py::arg("changed"),
           py::arg("message"),
           "Fails a request: with SourceChangedError if the file has changed, else with\n"
           "StorageError.")
      .def("close", &PyRemoteQueue::Close,
           "Fails all requests, now and later. Idempotent.");
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
      "Returns the fewest requests, as (offset, bytes), that cover ranges of a\n"
      "file. No request is larger than `request_bytes` or has a hole of more than\n"
      "`hole_bytes`.");
}

}  // namespace fastload
