#include "fastload/measure/roof.h"

#include <limits>
#include <vector>

#include "bindings/bindings.h"
#include "bindings/errors.h"
#include "bindings/files.h"
#include "bindings/without_gil.h"
#include "pybind11/stl.h"

namespace fastload {

namespace py = pybind11;

void RegisterRoof(py::module_& m) {
  py::class_<RoofTimes>(m, "RoofTimes",
                        "The cost of reading, decompressing and one copy.")
      .def_readonly("pages_s", &RoofTimes::pages_s,
                    "Seconds to read and decompress the pages.")
      .def_readonly("read_s", &RoofTimes::read_s, "Seconds of pages_s spent on reading.")
      .def_readonly("kept_s", &RoofTimes::kept_s,
                    "Seconds of pages_s spent on reading kept pages.")
      .def_readonly("memcpy_s", &RoofTimes::memcpy_s, "Seconds to copy the output once.")
      .def_readonly("pages", &RoofTimes::pages,
                    "Data and dictionary pages read from the files.")
      .def_readonly("read_bytes", &RoofTimes::read_bytes, "Bytes read from the files.")
      .def_readonly("kept_bytes", &RoofTimes::kept_bytes, "Bytes of the kept pages.");
  m.def(
      "measure_roof",
      [](const std::vector<FileTuple>& files,
         const std::vector<std::vector<int32_t>>& leaves, int64_t output_bytes,
         int32_t threads, int64_t first_rows, int64_t kept_limit_bytes) {
        const auto specs = FileSpecs(files);
        return ValueOrRaise(CallWithoutGil([&] {
          return MeasureRoof(specs, leaves, output_bytes, threads, first_rows,
                             kept_limit_bytes);
        }));
      },
      py::kw_only(), py::arg("files"), py::arg("leaves"), py::arg("output_bytes"),
      py::arg("threads"), py::arg("first_rows") = std::numeric_limits<int64_t>::max(),
      py::arg("kept_limit_bytes") = 0,
      "Measures libparquet's PageReader over the pages of the columns\n"
      "`leaves[file]` that contain the first `first_rows` rows, and one copy of\n"
      "`output_bytes` bytes, on `threads` threads. The pages of compressed chunks that\n"
      "fit into `kept_limit_bytes` lie decompressed in memory before.");
}

}  // namespace fastload
