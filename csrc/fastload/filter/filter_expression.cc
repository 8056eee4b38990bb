#include "fastload/filter/filter_expression.h"

#include <optional>
#include <utility>

#include "arrow/array.h"
#include "arrow/buffer.h"
#include "arrow/compute/api_scalar.h"
#include "arrow/compute/cast.h"
#include "arrow/compute/expression.h"
#include "arrow/scalar.h"

namespace fastload {
namespace {

namespace cp = arrow::compute;

template <typename ScalarType, typename Value>
FilterValue ValueOf(const arrow::Scalar& scalar) {
  return static_cast<Value>(static_cast<const ScalarType&>(scalar).value);
}

// Returns the value of a scalar, or nullopt for types whose order differs from the order
// of the numbers they are stored as.
std::optional<FilterValue> ValueOf(const arrow::Scalar& scalar) {
  if (!scalar.is_valid) return std::optional<FilterValue>(std::in_place);
  switch (scalar.type->id()) {
    case arrow::Type::BOOL:
      return ValueOf<arrow::BooleanScalar, bool>(scalar);
    case arrow::Type::INT8:
      return ValueOf<arrow::Int8Scalar, int64_t>(scalar);
    case arrow::Type::INT16:
      return ValueOf<arrow::Int16Scalar, int64_t>(scalar);
    case arrow::Type::INT32:
      return ValueOf<arrow::Int32Scalar, int64_t>(scalar);
    case arrow::Type::INT64:
      return ValueOf<arrow::Int64Scalar, int64_t>(scalar);
    case arrow::Type::UINT8:
      return ValueOf<arrow::UInt8Scalar, uint64_t>(scalar);
    case arrow::Type::UINT16:
      return ValueOf<arrow::UInt16Scalar, uint64_t>(scalar);
    case arrow::Type::UINT32:
      return ValueOf<arrow::UInt32Scalar, uint64_t>(scalar);
    case arrow::Type::UINT64:
      return ValueOf<arrow::UInt64Scalar, uint64_t>(scalar);
    case arrow::Type::FLOAT:
      return ValueOf<arrow::FloatScalar, double>(scalar);
    case arrow::Type::DOUBLE:
      return ValueOf<arrow::DoubleScalar, double>(scalar);
    case arrow::Type::DATE32:
      return ValueOf<arrow::Date32Scalar, int64_t>(scalar);
    case arrow::Type::TIMESTAMP:
      return ValueOf<arrow::TimestampScalar, int64_t>(scalar);
    case arrow::Type::DECIMAL128: {
      const auto& unscaled = static_cast<const arrow::Decimal128Scalar&>(scalar).value;
      int64_t value = 0;
      if (!unscaled.ToInteger(&value).ok()) return std::nullopt;
      return value;
    }
    case arrow::Type::STRING:
    case arrow::Type::LARGE_STRING:
    case arrow::Type::BINARY:
    case arrow::Type::LARGE_BINARY:
    case arrow::Type::FIXED_SIZE_BINARY:
      return static_cast<const arrow::BaseBinaryScalar&>(scalar).value->ToString();
    default:
      return std::nullopt;
  }
}

FilterNode Other() { return {}; }

FilterNode Literal(const arrow::Scalar& scalar) {
  const auto value = ValueOf(scalar);
  if (!value) return Other();
  return {.kind = FilterNode::Kind::kValues, .values = {*value}};
}

// Returns true for timestamps in one time zone, or in none.
bool AreTimestampsAlike(const arrow::DataType& a, const arrow::DataType& b) {
  if (a.id() != arrow::Type::TIMESTAMP || b.id() != arrow::Type::TIMESTAMP) return false;
  return static_cast<const arrow::TimestampType&>(a).timezone() ==
         static_cast<const arrow::TimestampType&>(b).timezone();
}

// Returns the set of an is_in over values of type `type`.
Result<FilterNode> Set(const cp::SetLookupOptions& options, const arrow::DataType& type) {
  using Nulls = cp::SetLookupOptions::NullMatchingBehavior;
  const Nulls nulls = options.GetNullMatchingBehavior();
  const bool known = nulls == Nulls::MATCH || nulls == Nulls::SKIP;
  if (!known || !options.value_set.is_array()) return Other();
  auto array = options.value_set.make_array();
  const bool decimals =
      arrow::is_decimal(array->type_id()) && arrow::is_decimal(type.id());
  const bool fixed = arrow::is_binary_like(array->type_id()) &&
                     type.id() == arrow::Type::FIXED_SIZE_BINARY;
  if (decimals || fixed || AreTimestampsAlike(*array->type(), type)) {
    // Arrow casts the set likewise when it evaluates the expression.
    auto cast = cp::Cast(*array, type.GetSharedPtr());
    if (!cast.ok()) return Other();
    array = *std::move(cast);
  }
  const bool integers =
      arrow::is_integer(array->type_id()) && arrow::is_integer(type.id());
  const bool strings = arrow::is_string(array->type_id()) && arrow::is_string(type.id());
  if (!integers && !strings && !array->type()->Equals(type)) return Other();
  FilterNode set{.kind = FilterNode::Kind::kValues};
  for (int64_t i = 0; i < array->length(); ++i) {
    if (array->IsNull(i) && nulls == Nulls::SKIP) continue;
    ARROW_ASSIGN_OR_RAISE(const auto scalar, array->GetScalar(i));
    const auto value = ValueOf(*scalar);
    if (!value) return Other();
    set.values.push_back(*value);
  }
  return set;
}

// Returns the bits of the whole numbers that the type represents exactly, without the
// sign; 0 if the type is no number.
int WholeBits(const arrow::DataType& type) {
  if (type.id() == arrow::Type::FLOAT) return 24;
  if (type.id() == arrow::Type::DOUBLE) return 53;
  if (!arrow::is_integer(type.id())) return 0;
  const int bits = static_cast<const arrow::FixedWidthType&>(type).bit_width();
  return arrow::is_signed_integer(type.id()) ? bits - 1 : bits;
}

// Returns true if a cast preserves all values, and so their order.
bool Widens(const arrow::DataType& from, const arrow::DataType& to) {
  if (from.id() == arrow::Type::FIXED_SIZE_BINARY) return arrow::is_binary(to.id());
  const int bits = WholeBits(from);
  const bool fraction = arrow::is_floating(from.id()) && !arrow::is_floating(to.id());
  const bool sign =
      !arrow::is_unsigned_integer(from.id()) && arrow::is_unsigned_integer(to.id());
  return bits > 0 && bits <= WholeBits(to) && !fraction && !sign;
}

Result<FilterNode> NodeOf(const cp::Expression& expression) {
  if (const auto* literal = expression.literal()) {
    return literal->is_scalar() ? Literal(*literal->scalar()) : Other();
  }
  if (const auto* parameter = expression.parameter()) {
    const std::string* const name = parameter->ref.name();
    if (name == nullptr) return Other();
    return FilterNode{.kind = FilterNode::Kind::kColumn, .name = *name};
  }
  const auto* call = expression.call();
  if (call->function_name == "cast" &&
      Widens(*call->arguments[0].type(), *expression.type())) {
    return NodeOf(call->arguments[0]);
  }
  FilterNode node{.kind = FilterNode::Kind::kCall, .name = call->function_name};
  for (const cp::Expression& argument : call->arguments) {
    ARROW_ASSIGN_OR_RAISE(node.arguments.emplace_back(), NodeOf(argument));
  }
  if (node.name == "is_in") {
    const auto* options = static_cast<const cp::SetLookupOptions*>(call->options.get());
    ARROW_ASSIGN_OR_RAISE(node.arguments.emplace_back(),
                          Set(*options, *call->arguments[0].type()));
  } else if (node.name == "is_null" && call->options != nullptr) {
    const auto* options = static_cast<const cp::NullOptions*>(call->options.get());
    if (options->nan_is_null) node.name = "is_null_or_nan";
  }
  return node;
}

}  // namespace

Result<FilterNode> BindFilter(std::string_view serialized, const arrow::Schema& schema) {
  const auto buffer = std::make_shared<arrow::Buffer>(serialized);
  ARROW_ASSIGN_OR_RAISE(const cp::Expression unbound, cp::Deserialize(buffer));
  ARROW_ASSIGN_OR_RAISE(const cp::Expression bound, unbound.Bind(schema));
  if (bound.type()->id() != arrow::Type::BOOL) {
    return Status::TypeError("Expected an expression of bool, got ",
                             bound.type()->ToString());
  }
  return NodeOf(bound);
}

}  // namespace fastload
