#include "fastload/plan/unit.h"

#include <algorithm>

namespace fastload {
namespace {

Unit::Kind KindOf(const ColumnSpec& spec) {
  if (spec.depth > 0) return Unit::Kind::kNested;
  return spec.bytes ? Unit::Kind::kBytes : Unit::Kind::kFixed;
}

// Returns the unit that decodes `column` alone; makes the unit if there is none yet.
Unit& UnitOf(int32_t column, const std::vector<ColumnSpec>& columns,
             std::vector<Unit>* units) {
  for (Unit& unit : *units) {
    if (unit.columns.size() == 1 && unit.columns[0] == column) return unit;
  }
  const ColumnSpec& spec = columns[static_cast<size_t>(column)];
  const Unit::Kind kind = KindOf(spec);
  units->push_back(Unit{.kind = kind,
                        .columns = {column},
                        .width = ItemBytes(spec),
                        .row_by_row = kind == Unit::Kind::kFixed && spec.list_size > 0});
  return units->back();
}

void AddStack(const OutputSpec& output, const std::vector<ColumnSpec>& columns,
              Layout::Slot slot, std::vector<Unit>* units) {
  const int item = ItemSize(columns[static_cast<size_t>(output.columns[0])].dtype);
  const auto most = static_cast<size_t>(Unit::kMostStackBytes / item);
  for (size_t first = 0; first < output.columns.size(); first += most) {
    const size_t end = std::min(first + most, output.columns.size());
    Unit unit;
    unit.columns.assign(output.columns.begin() + static_cast<int64_t>(first),
                        output.columns.begin() + static_cast<int64_t>(end));
    unit.width = static_cast<int64_t>(unit.columns.size()) * item;
    unit.row_by_row = unit.columns.size() >= Unit::kWideStackColumns;
    slot.row_offset = static_cast<int32_t>(first) * item;
    unit.slots.push_back(slot);
    units->push_back(std::move(unit));
  }
}

}  // namespace

std::vector<Unit> MakeUnits(const std::vector<ColumnSpec>& columns,
                            const std::vector<OutputSpec>& outputs,
                            const Layout& layout) {
  std::vector<Unit> units;
  std::vector<Unit> stacks;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const OutputSpec& output = outputs[i];
    const Layout::Slot& slot = layout.slot(static_cast<int32_t>(i));
    switch (output.kind) {
      case OutputKind::kRagged:
        UnitOf(output.columns[0], columns, &units).padding = output.pad;
        [[fallthrough]];
      case OutputKind::kColumn:
      case OutputKind::kList:
        UnitOf(output.columns[0], columns, &units).slots.push_back(slot);
        break;
      case OutputKind::kValid:
        UnitOf(output.columns[0], columns, &units).valid_slots.push_back(slot);
        break;
      case OutputKind::kStackValid:
        for (size_t c = 0; c < output.columns.size(); ++c) {
          Layout::Slot of_column = slot;
          of_column.row_offset = static_cast<int32_t>(c);
          UnitOf(output.columns[c], columns, &units).valid_slots.push_back(of_column);
        }
        break;
      case OutputKind::kStack:
        AddStack(output, columns, slot, &stacks);
        break;
      case OutputKind::kPad:
        UnitOf(output.columns[0], columns, &units)
            .pads.push_back({.slot = slot,
                             .element = output.pad,
                             .keep_last = output.keep_last,
                             .pad_left = output.pad_left});
        break;
      case OutputKind::kMask:
        UnitOf(output.columns[0], columns, &units)
            .pads.push_back({.slot = slot,
                             .element = std::string(1, '\0'),
                             .mask = true,
                             .pad_left = output.pad_left});
        break;
      case OutputKind::kLength:
        UnitOf(output.columns[0], columns, &units)
            .lengths.push_back({slot, output.length});
        break;
      case OutputKind::kFile:
        units.push_back(Unit{.kind = Unit::Kind::kFile, .width = 4, .slots = {slot}});
        break;
      case OutputKind::kRow:
        units.push_back(Unit{.kind = Unit::Kind::kRow, .width = 8, .slots = {slot}});
        break;
      case OutputKind::kRealRow:
        units.push_back(Unit{.kind = Unit::Kind::kRealRow, .width = 1, .slots = {slot}});
        break;
      case OutputKind::kFirst:
        units.push_back(Unit{.kind = Unit::Kind::kFirst, .width = 8, .slots = {slot}});
        break;
      case OutputKind::kComputed:
      case OutputKind::kDocument:
      case OutputKind::kPosition:
      case OutputKind::kEdges:
      case OutputKind::kLongest:
      case OutputKind::kFirstFile:
      case OutputKind::kFirstRow:
      case OutputKind::kFirstItem:
      case OutputKind::kFirstReal:
        break;
    }
  }
  for (Unit& unit : units) {
    // A unit without a ragged output does not depend on the sizes of batches.
    const bool ragged = !unit.slots.empty();
    if (unit.kind == Unit::Kind::kNested && !ragged) unit.kind = Unit::Kind::kPadded;
  }
  units.insert(units.end(), stacks.begin(), stacks.end());
  std::stable_partition(units.begin(), units.end(),
                        [](const Unit& u) { return u.staged(); });
  return units;
}

}  // namespace fastload
