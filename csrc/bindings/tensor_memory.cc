#include "bindings/tensor_memory.h"

#include <algorithm>
#include <exception>
#include <list>
#include <utility>

#include "fastload/base/forks.h"

namespace fastload {

namespace py = pybind11;

struct TensorMemory::State {
  struct Tensor {
    uint8_t* data;
    int64_t bytes;
    PyObject* object;  // owned; used with the GIL only
  };
  // Lists, because moving a tensor between lists takes no memory. Few tensors are alive.
  using Tensors = std::list<Tensor>;

  explicit State(py::object allocate) : allocate(std::move(allocate)) {}

  ~State() {
    // A child of fork() leaves the tensors to its parent, because a device may use them.
    if (!made_here.mine() || Py_IsInitialized() == 0) {
      allocate.release();
      return;
    }
    const py::gil_scoped_acquire gil;
    for (const Tensor& tensor : used) Py_DECREF(tensor.object);
    for (const Tensor& tensor : spare) Py_DECREF(tensor.object);
    allocate = py::object();
  }

  // Returns a list of a new tensor, or an empty list if the allocation failed. Ctrl-C
  // during the allocation is kept for later. The caller holds the GIL.
  Tensors Make(int64_t bytes) const {
    Tensors made(1);
    bool interrupted = false;
    while (true) {
      try {
        py::object tensor = allocate(bytes);
        const auto start = tensor.attr("data_ptr")().cast<uintptr_t>();
        made.front() = {reinterpret_cast<uint8_t*>(start), bytes, tensor.release().ptr()};
        break;
      } catch (const py::error_already_set& error) {
        if (!interrupted && error.matches(PyExc_KeyboardInterrupt)) {
          interrupted = true;
          continue;
        }
        made.clear();
        break;
      } catch (const std::exception&) {
        made.clear();
        break;
      }
    }
    // Python looks at the signal again once the caller is back in Python.
    if (interrupted) PyErr_SetInterrupt();
    return made;
  }

  static auto FindData(Tensors& tensors, const uint8_t* data) {
    return std::ranges::find(tensors, data, &Tensor::data);
  }

  const MadeHere made_here;
  py::object allocate;
  std::mutex mutex;  // guards the members below; never held while waiting for the GIL
  Tensors used;
  Tensors spare;
};

namespace {

class TensorSource final : public MemorySource {
 public:
  explicit TensorSource(std::shared_ptr<TensorMemory::State> state)
      : state_(std::move(state)) {}

  uint8_t* Map(int64_t bytes) override {
    {
      std::lock_guard lock(state_->mutex);
      const auto found =
          std::ranges::find(state_->spare, bytes, &TensorMemory::State::Tensor::bytes);
      if (found != state_->spare.end()) {
        state_->used.splice(state_->used.begin(), state_->spare, found);
        return found->data;
      }
    }
    const py::gil_scoped_acquire gil;
    auto made = state_->Make(bytes);
    if (made.empty()) return nullptr;
    std::lock_guard lock(state_->mutex);
    state_->used.splice(state_->used.begin(), made);
    return state_->used.front().data;
  }

  void Unmap(uint8_t* data, int64_t) noexcept override {
    std::lock_guard lock(state_->mutex);
    const auto found = TensorMemory::State::FindData(state_->used, data);
    state_->spare.splice(state_->spare.begin(), state_->used, found);
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

py::object TensorMemory::Take(Block& block) {
  if (block.surrendered()) return py::none();
  State::Tensors taken;
  {
    std::lock_guard lock(state_->mutex);
    const auto found = State::FindData(state_->used, block.data());
    taken.splice(taken.begin(), state_->used, found);
  }
  // Threads of the core may hold the block a little longer than the consumer holds the
  // tensor. By then another tensor may lie at the same address.
  block.Surrender();
  auto tensor = py::reinterpret_steal<py::object>(taken.front().object);
  auto made = state_->Make(taken.front().bytes);
  std::lock_guard lock(state_->mutex);
  state_->spare.splice(state_->spare.begin(), made);
  return tensor;
}

}  // namespace fastload
