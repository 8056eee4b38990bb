#include "fastload/base/hash.h"

#include <cstdint>
#include <string>
#include <string_view>

#include "bindings/array.h"
#include "bindings/bindings.h"
#include "bindings/without_gil.h"

namespace fastload {

namespace py = pybind11;

namespace {

// Returns one hash for each of `seeds`: hash(i, seed i).
template <typename Hash>
py::array_t<uint64_t> HashRows(const Array<uint64_t>& seeds, const Hash& hash) {
  py::array_t<uint64_t> out(seeds.size());
  const uint64_t* const from = seeds.data();
  uint64_t* const to = out.mutable_data();
  const py::ssize_t rows = seeds.size();
  // The code below touches no Python object; the caller keeps the arrays alive.
  const WithoutGil without_gil;
  for (py::ssize_t i = 0; i < rows; ++i) to[i] = hash(i, from[i]);
  return out;
}

py::array_t<uint64_t> HashIntegers(const Array<int64_t>& values,
                                   const Array<uint64_t>& seeds) {
  if (values.size() != seeds.size()) {
    throw py::value_error("Expected a seed for each of " + std::to_string(values.size()) +
                          " values, got " + std::to_string(seeds.size()));
  }
  return HashRows(seeds, [data = values.data()](py::ssize_t i, uint64_t seed) {
    return Hash64(data[i], seed);
  });
}

py::array_t<uint64_t> HashBytes(const Array<uint8_t>& values,
                                const Array<int64_t>& offsets,
                                const Array<uint64_t>& seeds) {
  if (offsets.size() != seeds.size() + 1) {
    throw py::value_error("Expected an offset more than the " +
                          std::to_string(seeds.size()) + " seeds, got " +
                          std::to_string(offsets.size()));
  }
  const int64_t* const at = offsets.data();
  for (py::ssize_t i = 0; i < seeds.size(); ++i) {
    if (at[i] < 0 || at[i] > at[i + 1] || at[i + 1] > values.size()) {
      throw py::value_error("Expected offsets inside of the values, got others");
    }
  }
  return HashRows(seeds, [at, data = values.data()](py::ssize_t i, uint64_t seed) {
    return Hash64(data + at[i], static_cast<size_t>(at[i + 1] - at[i]), seed);
  });
}

}  // namespace

void RegisterHash(py::module_& m) {
  m.def(
      "xxhash64",
      [](const py::bytes& data, uint64_t seed) {
        const std::string_view view = data;
        return Hash64(view.data(), view.size(), seed);
      },
      py::arg("data"), py::arg("seed") = 0,
      "Returns the XXH64 of bytes, which columns with hash_buckets take modulo\n"
      "the buckets.");
  m.def("xxhash64_integers", &HashIntegers, py::arg("values"), py::arg("seeds"),
        "Returns the XXH64 of each int64's 8 bytes, little-endian, each with a seed\n"
        "of its own.");
  m.def("xxhash64_bytes", &HashBytes, py::arg("values"), py::arg("offsets"),
        py::arg("seeds"),
        "Returns the XXH64 of each values[offsets[i]:offsets[i + 1]], each with a\n"
        "seed of its own.");
}

}  // namespace fastload
