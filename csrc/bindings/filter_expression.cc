#include "fastload/filter/filter_expression.h"

#include <string_view>
#include <variant>

#include "bindings/arrow_capsules.h"
#include "bindings/bindings.h"
#include "bindings/errors.h"

namespace fastload {

namespace py = pybind11;

namespace {

py::object ValueOf(const FilterValue& value) {
  return std::visit(
      [](const auto& held) -> py::object {
        if constexpr (std::is_same_v<std::decay_t<decltype(held)>, std::monostate>) {
          return py::none();
        } else if constexpr (std::is_same_v<std::decay_t<decltype(held)>, std::string>) {
          return py::bytes(held);
        } else {
          return py::cast(held);
        }
      },
      value);
}

py::tuple TupleOf(const FilterNode& node) {
  py::list list;
  switch (node.kind) {
    case FilterNode::Kind::kColumn:
      return py::make_tuple("column", node.name);
    case FilterNode::Kind::kValues:
      for (const FilterValue& value : node.values) list.append(ValueOf(value));
      return py::make_tuple("values", list);
    case FilterNode::Kind::kCall:
      for (const FilterNode& argument : node.arguments) list.append(TupleOf(argument));
      return py::make_tuple(node.name, list);
    case FilterNode::Kind::kOther:
      break;
  }
  return py::make_tuple("other");
}

py::tuple Bind(const py::bytes& serialized, const py::object& schema) {
  const auto imported = SchemaOf(schema);
  return TupleOf(ValueOrRaise(BindFilter(std::string_view(serialized), *imported)));
}

}  // namespace

void RegisterFilterExpression(py::module_& m) {
  m.def("bind_filter", &Bind, py::arg("serialized"), py::arg("schema"),
        "Binds a pyarrow.compute Expression to an Arrow schema. Returns nested\n"
        "tuples: (\"column\", name), (\"values\", [...]), (function, [arguments...]),\n"
        "and (\"other\",) for any other expression. `serialized` is the pickled form\n"
        "of the expression. Casts that preserve all values are left out. Raises\n"
        "ValueError, TypeError or UnsupportedTypeError if the expression does not\n"
        "fit the schema.");
}

}  // namespace fastload
