// The parts of a dataset that stay the same from pass to pass: files, columns and the
// layout of batches.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "fastload/base/counters.h"
#include "fastload/base/spans.h"
#include "fastload/collate/packed_rows.h"
#include "fastload/collate/row_source.h"
#include "fastload/fetch/remote.h"
#include "fastload/plan/columns.h"
#include "fastload/plan/row_selection.h"
#include "fastload/scan/kernels.h"
#include "fastload/source/file.h"

namespace fastload {

struct Dataset : RowSource {
  // `remote` is null if all files are local.
  Dataset(std::vector<FileSpec> files, std::shared_ptr<RemoteQueue> remote,
          std::vector<ColumnSpec> columns, const std::vector<OutputSpec>& outputs,
          const std::vector<KernelSpec>& kernels, std::vector<FileSelection> selections,
          int64_t pool_bytes, bool verify_crc, int64_t fill_bytes = INT64_MAX,
          int64_t kept_bytes = 0, int64_t dictionary_bytes = 0)
      : RowSource(std::move(files), std::move(remote), std::move(columns), outputs,
                  std::move(selections), pool_bytes, verify_crc, fill_bytes, kept_bytes,
                  dictionary_bytes),
        kernels(kernels, layout),
        packed(outputs, layout) {}

  // Whether a batch takes more work once it is complete.
  bool computes() const { return !kernels.empty() || !packed.empty(); }

  const Kernels kernels;       // called on each batch
  const PackedOutputs packed;  // written to each batch
  Counters counters_ahead;     // counts reads for a pass that has not begun
  SpanRecorder spans;
};

}  // namespace fastload
