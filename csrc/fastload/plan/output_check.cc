#include "fastload/plan/output_check.h"

#include <cstdint>

namespace fastload {
namespace {

bool IsFlat(const ColumnSpec& spec) {
  return spec.depth == 0 && spec.list_size == 0 && !spec.bytes;
}

bool HasShape(const OutputSpec& output, const ColumnSpec& spec) {
  const bool padded = spec.depth == 1 && !spec.bytes && output.length >= 0;
  switch (output.kind) {
    case OutputKind::kColumn:
    case OutputKind::kStack:
    case OutputKind::kStackValid:
      return IsFlat(spec);
    case OutputKind::kRagged:
      if (output.length == 0) return spec.depth > 0 || spec.bytes;
      return padded && output.pad.size() == static_cast<size_t>(ItemBytes(spec));
    case OutputKind::kList:
      return spec.depth == 0 && spec.list_size > 0 && !spec.bytes;
    case OutputKind::kPad:
      return padded && output.pad.size() == static_cast<size_t>(ItemSize(spec.dtype));
    case OutputKind::kMask:
    case OutputKind::kLength:
      return padded;
    case OutputKind::kValid:
      return true;
    case OutputKind::kFile:
    case OutputKind::kRow:
    case OutputKind::kRealRow:
    case OutputKind::kComputed:
    case OutputKind::kFirst:
    case OutputKind::kDocument:
    case OutputKind::kPosition:
    case OutputKind::kEdges:
    case OutputKind::kLongest:
    case OutputKind::kFirstFile:
    case OutputKind::kFirstRow:
    case OutputKind::kFirstItem:
    case OutputKind::kFirstReal:
      return false;
  }
  return false;
}

bool HasCount(const OutputSpec& output) {
  switch (output.kind) {
    case OutputKind::kFile:
    case OutputKind::kRow:
    case OutputKind::kRealRow:
    case OutputKind::kComputed:
    case OutputKind::kFirst:
    case OutputKind::kDocument:
    case OutputKind::kPosition:
    case OutputKind::kEdges:
    case OutputKind::kLongest:
    case OutputKind::kFirstFile:
    case OutputKind::kFirstRow:
    case OutputKind::kFirstItem:
    case OutputKind::kFirstReal:
      return output.columns.empty();
    case OutputKind::kStack:
    case OutputKind::kStackValid:
      return !output.columns.empty();
    default:
      return output.columns.size() == 1;
  }
}

}  // namespace

Status CheckOutputs(const std::vector<ColumnSpec>& columns,
                    const std::vector<OutputSpec>& outputs) {
  for (const ColumnSpec& spec : columns) {
    if (spec.list_items >= 0 && spec.depth != 1) {
      return Status::Invalid("Expected one level of lists of ", spec.list_items,
                             " items, got ", spec.depth, " for column `", spec.name, "`");
    }
    if (spec.depth < 0 || spec.list_size < 0) {
      return Status::Invalid("Expected levels and sizes of lists from 0 on, got depth ",
                             spec.depth, ", list_size ", spec.list_size, " for column `",
                             spec.name, "`");
    }
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const OutputSpec& output = outputs[i];
    if (!HasCount(output)) {
      return Status::Invalid("Expected as many columns as output ", i, " takes, got ",
                             output.columns.size());
    }
    if (output.length < 0) {
      return Status::Invalid("Expected a length from 0 on, got ", output.length,
                             " for output ", i);
    }
    for (const int32_t column : output.columns) {
      if (column < 0 || column >= static_cast<int64_t>(columns.size())) {
        return Status::Invalid("Expected one of ", columns.size(), " columns, got ",
                               column, " for output ", i);
      }
      const ColumnSpec& spec = columns[static_cast<size_t>(column)];
      if (!HasShape(output, spec)) {
        return Status::Invalid("Expected a column of the shape that output ", i,
                               " is made of, got `", spec.name, "`");
      }
      if (output.kind == OutputKind::kStack &&
          spec.dtype != columns[static_cast<size_t>(output.columns[0])].dtype) {
        return Status::Invalid("Expected columns of one dtype, got several in output ",
                               i);
      }
    }
  }
  return Status::OK();
}

}  // namespace fastload
