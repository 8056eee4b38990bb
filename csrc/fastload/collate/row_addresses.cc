#include "fastload/collate/row_addresses.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "fastload/base/stream_copy.h"
#include "fastload/collate/row_order.h"

namespace fastload {
namespace {

std::vector<RowAddresses> AddressesOf(const std::vector<Part>& parts,
                                      const std::vector<Layout::Slot>& slots,
                                      const PartFinder* finder) {
  std::vector<RowAddresses> addresses;
  addresses.reserve(slots.size());
  for (const Layout::Slot& slot : slots) addresses.emplace_back(parts, slot, finder);
  return addresses;
}

}  // namespace

PartFinder::PartFinder(const std::vector<Part>& parts) {
  first_.reserve(parts.size() + 1);
  for (const Part& part : parts) first_.push_back(static_cast<uint32_t>(part.first));
  const auto rows = static_cast<uint32_t>(parts.back().first + parts.back().rows);
  first_.push_back(rows);
  const auto mean = std::max<uint32_t>(1, rows / static_cast<uint32_t>(parts.size()));
  shift_ = static_cast<int>(std::bit_width(mean)) - 1;
  near_.reserve((rows >> shift_) + 1);
  uint32_t part = 0;
  for (uint64_t row = 0; row < rows; row += uint64_t{1} << shift_) {
    while (row >= first_[part + 1]) ++part;
    near_.push_back(part);
  }
}

RowAddresses::RowAddresses(const std::vector<Part>& parts, const Layout::Slot& slot,
                           const PartFinder* finder)
    : stride_(slot.stride), finder_(finder) {
  parts_.reserve(parts.size());
  for (const Part& part : parts) {
    parts_.push_back(Layout::Address(part.block->data(), part.areas, slot));
  }
}

UnitAddresses::UnitAddresses(const std::vector<Part>& parts, const Unit& unit)
    : finder(parts),
      rows(AddressesOf(parts, unit.slots, &finder)),
      valid(AddressesOf(parts, unit.valid_slots, &finder)) {
  for (const Unit::Pad& pad : unit.pads) pads.emplace_back(parts, pad.slot, &finder);
  for (const Unit::Length& length : unit.lengths) {
    lengths.emplace_back(parts, length.slot, &finder);
  }
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
