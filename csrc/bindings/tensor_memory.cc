#include "bindings/tensor_memory.h"

#include <sys/types.h>
#include <unistd.h>

#include <utility>

namespace fastload {

namespace py = pybind11;

struct TensorMemory::State {
  struct Tensor {
    PyObject* object;  // owned; used with the GIL only
    int64_t bytes;
  };

  explicit State(py::object allocate) : allocate(std::move(allocate)) {}

  ~State() {
    // A child of fork() leaves the tensors to its parent, because a device may use them.
    if (getpid() != owner || Py_IsInitialized() == 0) {
      allocate.release();
      return;
    }
    const py::gil_scoped_acquire gil;
    for (const auto& [data, tensor] : used) Py_DECREF(tensor.object);
    for (const auto& [bytes, pointers] : spare) {
      for (const auto& [data, object] : pointers) Py_DECREF(object);
    }
    allocate = py::object();
  }

  // Returns the address of a new tensor and the tensor, or {nullptr, nullptr} if the
  // allocation failed. The caller holds the GIL.
  std::pair<uint8_t*, PyObject*> Make(int64_t bytes) const {
    try {
      py::object tensor = allocate(bytes);
      const auto start = tensor.attr("data_ptr")().cast<uintptr_t>();
      return {reinterpret_cast<uint8_t*>(start), tensor.release().ptr()};
    } catch (const py::error_already_set&) {
      return {nullptr, nullptr};
    }
  }

  const pid_t owner = getpid();
  py::object allocate;
  std::mutex mutex;  // guards the members below; never held while waiting for the GIL
  std::map<const uint8_t*, Tensor> used;
  std::map<int64_t, std::vector<std::pair<uint8_t*, PyObject*>>>
      spare;  // by size in bytes
};

namespace {

class TensorSource final : public MemorySource {
 public:
  explicit TensorSource(std::shared_ptr<TensorMemory::State> state)
      : state_(std::move(state)) {}

  uint8_t* Map(int64_t bytes) override {
    {
      std::lock_guard lock(state_->mutex);
      auto& spare = state_->spare[bytes];
      if (!spare.empty()) {
        const auto [data, object] = spare.back();
        spare.pop_back();
        state_->used[data] = {object, bytes};
        return data;
      }
    }
    const py::gil_scoped_acquire gil;
    const auto [data, object] = state_->Make(bytes);
    if (data == nullptr) return nullptr;
    std::lock_guard lock(state_->mutex);
    state_->used[data] = {object, bytes};
    return data;
  }

  void Unmap(uint8_t* data, int64_t bytes) override {
    std::lock_guard lock(state_->mutex);
    const auto found = state_->used.find(data);
    if (found == state_->used.end()) return;  // a batch has taken the tensor along
    state_->spare[bytes].emplace_back(data, found->second.object);
    state_->used.erase(found);
  }

 private:
  const std::shared_ptr<TensorMemory::State> state_;
};

}  // namespace

TensorMemory::TensorMemory(py::object allocate)
    : state_(std::make_shared<State>(std::move(allocate))) {}

std::unique_ptr<MemorySource> TensorMemory::Source() const {
  return std::make_unique<TensorSource>(state_);
}

py::object TensorMemory::Take(const uint8_t* data) {
  State::Tensor tensor{};
  {
    std::lock_guard lock(state_->mutex);
    const auto found = state_->used.find(data);
    if (found == state_->used.end()) return py::none();
    tensor = found->second;
    state_->used.erase(found);
  }
  const auto [start, object] = state_->Make(tensor.bytes);
  if (start != nullptr) {
    std::lock_guard lock(state_->mutex);
    state_->spare[tensor.bytes].emplace_back(start, object);
  }
  return py::reinterpret_steal<py::object>(tensor.object);
}

}  // namespace fastload
