// Scan and the batches it lends, as Python sees them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "bindings/fork_guard.h"
#include "bindings/tensor_memory.h"
#include "fastload/scan/scan.h"
#include "pybind11/pybind11.h"

namespace fastload {

// A batch lent to Python; its memory goes back when the last view of it dies.
struct LentBatch {
  Batch batch;
  std::shared_ptr<TensorMemory> memory;  // that it lies in; null if the core made it
};

class PyScan {
 public:
  PyScan(std::shared_ptr<Scan> scan, std::shared_ptr<TensorMemory> memory)
      : scan_(std::move(scan)), memory_(std::move(memory)) {}
  ~PyScan();
  PyScan(const PyScan&) = delete;
  PyScan& operator=(const PyScan&) = delete;

  // The next batch, or nullptr at the end. Called with the GIL, which it releases while
  // it waits.
  std::unique_ptr<LentBatch> Next();
  void Close();
  // The pass that was expected has begun.
  void Begin();
  bool opened_all() const;
  bool ready() const;
  bool waits() const;
  // As Scan::Describe.
  std::string Describe() const;
  std::optional<Damage> damage() const;
  // Borrowed; null in a process that did not make it.
  Scan* get() const { return scan_.mine() ? scan_.operator->() : nullptr; }

 private:
  ForkGuard<Scan> scan_;
  std::shared_ptr<TensorMemory> memory_;
};

}  // namespace fastload
