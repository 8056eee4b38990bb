// A filter as a tree: an Arrow expression bound to the types of columns.
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

// A value in a filter: a null, the stored number of a value whose type is stored as a
// number, or the bytes of a string or binary value.
using FilterValue =
    std::variant<std::monostate, bool, int64_t, uint64_t, double, std::string>;

struct FilterNode {
  enum class Kind : uint8_t {
    kColumn,
    kValues,  // a literal, or the set of an is_in
    kCall,
    kOther,  // an expression that the tree can't represent
  };
  Kind kind = Kind::kOther;
  std::string name;  // name of the column, or Arrow's name of the function
  std::vector<FilterNode> arguments;
  std::vector<FilterValue> values;
};

// Binds an expression to a schema; `serialized` is what pyarrow's pickling of the
// expression contains. Casts that preserve all values are left out, because numbers are
// compared by value. Returns an error if the expression does not fit the schema, or is
// not of type bool.
Result<FilterNode> BindFilter(std::string_view serialized, const arrow::Schema& schema);

}  // namespace fastload
