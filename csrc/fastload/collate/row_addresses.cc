#include "fastload/collate/row_addresses.h"

#include <numeric>

#include "fastload/base/stream_copy.h"
#include "fastload/collate/row_order.h"

namespace fastload {
namespace {

std::vector<RowAddresses> AddressesOf(const std::vector<Part>& parts,
                                      const std::vector<Layout::Slot>& slots) {
  std::vector<RowAddresses> addresses;
  addresses.reserve(slots.size());
  for (const Layout::Slot& slot : slots) addresses.emplace_back(parts, slot);
  return addresses;
}

}  // namespace

RowAddresses::RowAddresses(const std::vector<Part>& parts, const Layout::Slot& slot)
    : stride_(slot.stride),
      first_rows_(static_cast<uint32_t>(parts[0].rows)),
      // All parts between the first and the last are whole batches.
      part_rows_(static_cast<uint32_t>(parts[parts.size() > 1 ? 1 : 0].rows)) {
  for (const Part& part : parts) {
    parts_.push_back(Layout::Address(part.block->data(), part.areas, slot));
  }
}

UnitAddresses::UnitAddresses(const std::vector<Part>& parts, const Unit& unit)
    : rows(AddressesOf(parts, unit.slots)), valid(AddressesOf(parts, unit.valid_slots)) {
  for (const Unit::Pad& pad : unit.pads) pads.emplace_back(parts, pad.slot);
  for (const Unit::Length& length : unit.lengths)
    lengths.emplace_back(parts, length.slot);
}

OutputRows::OutputRows(const Window& window, int64_t most_rows)
    : order_(window.shuffled ? window.order.outputs.data() : nullptr),
      in_order_(window.shuffled ? 0 : static_cast<size_t>(most_rows)) {}

const uint32_t* OutputRows::Get(int64_t first, int64_t rows) {
  if (order_ != nullptr) return order_ + first;
  std::iota(in_order_.begin(), in_order_.begin() + rows, static_cast<uint32_t>(first));
  return in_order_.data();
}

void CopyRows(const uint8_t* rows, int64_t width, const uint32_t* outputs, int64_t count,
              const RowAddresses& addresses) {
  for (int64_t i = 0; i < count; ++i) {
    if (outputs[i] == RowOrder::kNone) continue;
    StreamCopy(addresses[outputs[i]], rows + i * width, width);
  }
}

}  // namespace fastload
