#include "bindings/remote_queue.h"

#include <memory>
#include <new>
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
  // `buffer` holds one buffer.
  LentBuffer(ReturnedBuffers::Buffers buffer, std::shared_ptr<RemoteQueue> queue,
             std::shared_ptr<ReturnedBuffers> returned)
      : arrow::Buffer(static_cast<const uint8_t*>(buffer.front().buf),
                      buffer.front().len),
        buffer_(std::move(buffer)),
        queue_(std::move(queue)),
        returned_(std::move(returned)) {
    queue_->AddHeldBytes(size());
  }
  // Runs on any thread, so the thread that serves the queue releases the object.
  ~LentBuffer() override {
    queue_->AddHeldBytes(-size());
    returned_->Add(buffer_);
    // The client's next call also releases the object.
    if (!queue_->brings()) queue_->Wake();
  }
  LentBuffer(const LentBuffer&) = delete;
  LentBuffer& operator=(const LentBuffer&) = delete;

 private:
  ReturnedBuffers::Buffers buffer_;
  const std::shared_ptr<RemoteQueue> queue_;
  const std::shared_ptr<ReturnedBuffers> returned_;
};

// Returns the bytes of a Python object as a buffer. Leaves the object alone if there is
// no memory.
std::shared_ptr<arrow::Buffer> Lend(const py::buffer& bytes,
                                    const std::shared_ptr<RemoteQueue>& queue,
                                    const std::shared_ptr<ReturnedBuffers>& returned) {
  ReturnedBuffers::Buffers view(1);
  if (PyObject_GetBuffer(bytes.ptr(), &view.front(), PyBUF_SIMPLE) != 0) {
    throw py::error_already_set();
  }
  Py_buffer held = view.front();
  try {
    return std::make_shared<LentBuffer>(std::move(view), queue, returned);
  } catch (...) {
    PyBuffer_Release(&held);
    throw;
  }
}

}  // namespace

void ReturnedBuffers::Add(Buffers& buffers) noexcept {
  std::lock_guard lock(mutex_);
  buffers_.splice(buffers_.end(), buffers);
}

void ReturnedBuffers::Release() noexcept {
  Buffers buffers;
  {
    std::lock_guard lock(mutex_);
    buffers.swap(buffers_);
  }
  for (Py_buffer& buffer : buffers) PyBuffer_Release(&buffer);
}

py::list PyRemoteQueue::Tuples(const std::vector<RemoteQueue::Request>& requests) const {
  py::list list;
  size_t made = 0;
  try {
    for (; made < requests.size(); ++made) {
      const RemoteQueue::Request& request = requests[made];
      list.append(py::make_tuple(request.id, request.file, request.range.offset,
                                 request.range.bytes));
    }
  } catch (...) {
    // Python gets none of the requests.
    for (const RemoteQueue::Request& request : requests) {
      queue()->Finish(request.id, OutOfMemory());
    }
    throw;
  }
  return list;
}

std::vector<RemoteQueue::Request> PyRemoteQueue::TakeUpTo(int64_t most) {
  std::vector<RemoteQueue::Request> requests;
  try {
    while (static_cast<int64_t>(requests.size()) < most) {
      // Room first: a request that was taken must not get lost.
      if (requests.size() == requests.capacity()) {
        requests.reserve(2 * requests.size() + 1);
      }
      const auto request = queue_->Take();
      if (!request) break;
      requests.push_back(*request);
    }
  } catch (const std::bad_alloc&) {
    queue_->Wake();  // the client comes back for the rest
    if (requests.empty()) throw;
  }
  return requests;
}

py::list PyRemoteQueue::Take(int64_t most) {
  if (!queue_.mine()) return py::list();
  queue_->ClearWake();
  returned_->Release();
  std::vector<RemoteQueue::Request> requests;
  {
    const WithoutGil without_gil;
    requests = TakeUpTo(most);
  }
  return Tuples(requests);
}

py::object PyRemoteQueue::Finish(int64_t id, const py::buffer& bytes, bool take) {
  if (!queue_.mine()) return py::none();
  std::shared_ptr<arrow::Buffer> lent;
  try {
    lent = Lend(bytes, queue(), returned_);
  } catch (...) {
    queue_->Finish(id, FromException());
    throw;
  }
  std::vector<RemoteQueue::Request> next;
  {
    const WithoutGil without_gil;
    queue_->Finish(id, std::move(lent));
    if (take) next = TakeUpTo(1);
  }
  returned_->Release();
  if (next.empty()) return py::none();
  return Tuples(next)[0];
}

void PyRemoteQueue::Fail(int64_t id, bool changed, const std::string& message) {
  if (!queue_.mine()) return;
  const auto kind = changed ? ErrorKind::kSourceChanged : ErrorKind::kStorage;
  {
    const WithoutGil without_gil;
    queue_->Finish(id, CatchParquet([&] { return MakeError(kind, message); }));
  }
  returned_->Release();
}

void PyRemoteQueue::Close() {
  if (!queue_.mine()) return;
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
