// The conditions that the next step of a unit of columns waits for, by name.
#pragma once

#include <cstdint>

namespace fastload {

enum class Condition : uint8_t {
  kWindowOpened,      // the window is one of those whose memory may be open
  kFetchBudget,       // the bytes of the unit have room in the budget of bytes
  kStreamsArrived,    // the first bytes of each column chunk are there
  kOrderKnown,        // the order of the window's rows is computed
  kUnitsStaged,       // all staged units of the window have staged their rows
  kBatchesAllocated,  // the parts of the window's batches have their memory
};
constexpr int kConditions = 6;

// The name of a condition in a description of a pass: "fetch budget".
constexpr const char* NameOf(Condition condition) {
  switch (condition) {
    case Condition::kWindowOpened:
      return "window opened";
    case Condition::kFetchBudget:
      return "fetch budget";
    case Condition::kStreamsArrived:
      return "streams arrived";
    case Condition::kOrderKnown:
      return "order known";
    case Condition::kUnitsStaged:
      return "units staged";
    case Condition::kBatchesAllocated:
      break;
  }
  return "batches allocated";
}

// A set of conditions.
class Conditions {
 public:
  void Add(Condition condition) { bits_ |= Bit(condition); }
  // Removes a condition; false if the set lacks the condition.
  bool Remove(Condition condition) {
    const bool found = Has(condition);
    bits_ &= ~Bit(condition);
    return found;
  }
  bool Has(Condition condition) const { return (bits_ & Bit(condition)) != 0; }
  bool empty() const { return bits_ == 0; }

 private:
  static uint32_t Bit(Condition condition) {
    return uint32_t{1} << static_cast<int>(condition);
  }

  uint32_t bits_ = 0;
};

}  // namespace fastload
