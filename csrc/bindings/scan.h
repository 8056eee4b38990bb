// Scan and the batches that a scan lends, as Python sees them.
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

// A batch lent to Python. The memory goes back to the pool when the last view of the
// batch dies.
struct LentBatch {
  Batch batch;
  std::shared_ptr<TensorMemory> memory;  // owner of the batch's memory; null: the core
};

class PyScan {
 public:
  // `pipeline`, whose threads and files the scan uses, lives as long as this object.
  PyScan(std::shared_ptr<Scan> scan, std::shared_ptr<TensorMemory> memory,
         pybind11::object pipeline)
      : pipeline_(std::move(pipeline)),
        scan_(std::move(scan)),
        memory_(std::move(memory)) {}
  ~PyScan();
  PyScan(const PyScan&) = delete;
  PyScan& operator=(const PyScan&) = delete;

  // Returns the next batch, or nullptr at the end. The caller holds the GIL, which Next
  // releases while it waits. Of a batch that comes together with Ctrl-C, the error of
  // Ctrl-C is raised, and the next call returns the batch.
  std::unique_ptr<LentBatch> Next();
  // The caller holds the GIL, which Close releases.
  void Close();
  // Marks the pass, which was prepared ahead, as begun.
  void Begin();
  bool opened_all() const;
  bool ready() const;
  bool waits() const;
  // As Scan::Describe.
  std::string Describe() const;
  std::optional<Damage> damage() const;
  // Returns the borrowed scan, or null in a process that did not make the scan.
  Scan* get() const { return scan_.mine() ? scan_.operator->() : nullptr; }

 private:
  const pybind11::object pipeline_;
  ForkGuard<Scan> scan_;
  std::shared_ptr<TensorMemory> memory_;
  // Used with the GIL only.
  std::unique_ptr<LentBatch> interrupted_;
  bool closed_ = false;
};

}  // namespace fastload
