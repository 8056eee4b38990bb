// What a filter asks of columns: an Arrow expression, bound to their types, as a tree.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "arrow/type.h"
#include "fastload/base/status.h"

namespace fastload {

// A null, what a value of a type that is stored as a number is stored as, or the bytes of
// a string or binary value.
using FilterValue =
    std::variant<std::monostate, bool, int64_t, uint64_t, double, std::string>;

struct FilterNode {
  enum class Kind : uint8_t {
    kColumn,
    kValues,  // a literal, or the set of an is_in
    kCall,
    kOther,  // what this tree has no words for
  };
  Kind kind = Kind::kOther;
  std::string name;  // of the column, or the function as Arrow names it
  std::vector<FilterNode> arguments;
  std::vector<FilterValue> values;
};

// `serialized` is what pyarrow pickles an expression as. Casts that keep all values what
// they are, are left out: numbers are compared as what they are. An error if the
// expression does not fit the schema, or is not one of bool.
Result<FilterNode> BindFilter(std::string_view serialized, const arrow::Schema& schema);

}  // namespace fastload
