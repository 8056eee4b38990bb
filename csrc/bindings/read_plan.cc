#include "fastload/plan/read_plan.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/array.h"
#include "bindings/bindings.h"
#include "fastload/collate/packing.h"
#include "fastload/collate/shuffle.h"
#include "fastload/collate/token_batches.h"
#include "fastload/plan/row_copies.h"
#include "pybind11/stl.h"

namespace fastload {

namespace py = pybind11;

namespace {

template <typename T>
void ExpectColumns(const Array<T>& array, py::ssize_t columns, const char* name) {
  if (array.ndim() != 2 || array.shape(1) != columns) {
    throw py::value_error("Expected `" + std::string(name) + "` of " +
                          std::to_string(columns) + " columns");
  }
}

// Memory of the core that arrays and plans share. A plan that held the array instead
// would need the GIL to let go of the array.
using SharedMemory = std::shared_ptr<const void>;

// The name of the capsules that own a SharedMemory.
constexpr const char* kSharedMemory = "fastload shared memory";

// Returns the memory that an array is a view of, or null.
SharedMemory OwnerOf(const py::array& array) {
  py::object base = array.base();
  while (base && py::isinstance<py::array>(base)) {
    base = py::reinterpret_borrow<py::array>(base).base();
  }
  if (!base || PyCapsule_IsValid(base.ptr(), kSharedMemory) == 0) return nullptr;
  return *static_cast<SharedMemory*>(PyCapsule_GetPointer(base.ptr(), kSharedMemory));
}

// Returns an array of `shape` that shares `memory`, in which its numbers lie. The array
// is read-only.
template <typename T>
py::array_t<T> SharedArray(SharedMemory memory, const T* numbers,
                           py::array::ShapeContainer shape) {
  auto shared = std::make_unique<SharedMemory>(std::move(memory));
  const py::capsule owner(shared.get(), kSharedMemory,
                          [](void* all) { delete static_cast<SharedMemory*>(all); });
  shared.release();  // the capsule owns the pointer now
  py::array_t<T> array(std::move(shape), numbers, owner);
  array.attr("flags").attr("writeable") = false;
  return array;
}

// Lets a plan have the numbers of an array: shares the memory of the core in which they
// lie, and copies them from other memory.
template <typename T>
void Share(const py::array& array, std::span<const T> numbers, std::span<const T>* shared,
           SharedMemory* owner) {
  *owner = OwnerOf(array);
  *shared = numbers;
  if (*owner != nullptr || numbers.empty()) return;
  const py::gil_scoped_release release;
  auto copy = std::make_shared<std::vector<T>>(numbers.begin(), numbers.end());
  *shared = *copy;
  *owner = std::move(copy);
}

// Adds the copies of the rows of row groups. `first` holds, for each piece, the index
// in `counts` of the first row of the piece's row group.
void AddCopies(const Array<uint16_t>& counts, const Array<int64_t>& first,
               ReadPlan* plan) {
  std::vector<int64_t> begins(first.data(), first.data() + first.size());
  std::sort(begins.begin(), begins.end());
  begins.erase(std::unique(begins.begin(), begins.end()), begins.end());
  if (!begins.empty() && (begins.front() < 0 || begins.back() > counts.size())) {
    throw py::value_error("Expected `piece_copies` as indices of copies");
  }
  begins.push_back(counts.size());
  const std::span all(counts.data(), static_cast<size_t>(counts.size()));
  Share(counts, all, &plan->copies, &plan->copies_owner);
  std::vector<int64_t> sums;
  {
    py::gil_scoped_release release;
    for (size_t group = 0; group + 1 < begins.size(); ++group) {
      sums.push_back(std::accumulate(all.begin() + begins[group],
                                     all.begin() + begins[group + 1], int64_t{0}));
    }
  }
  for (py::ssize_t i = 0; i < first.size(); ++i) {
    const auto found = std::lower_bound(begins.begin(), begins.end(), first.data()[i]);
    const auto group = static_cast<size_t>(found - begins.begin());
    Piece& piece = plan->pieces[static_cast<size_t>(i)];
    piece.copies = begins[group];
    piece.copy_rows = begins[group + 1] - begins[group];
    piece.copy_count = sums[group];
  }
}

// Adds the rows of an array of four columns as segments.
void AddSegments(const Array<uint32_t>& rows, ReadPlan* plan) {
  static_assert(sizeof(Segment) == 4 * sizeof(uint32_t));
  ExpectColumns(rows, 4, "segments");
  const std::span<const Segment> segments{reinterpret_cast<const Segment*>(rows.data()),
                                          static_cast<size_t>(rows.shape(0))};
  Share(rows, segments, &plan->segments, &plan->segments_owner);
}

std::unique_ptr<ReadPlan> MakeReadPlan(
    int64_t batch_rows, int64_t rows, int64_t padding, bool shuffled,
    const Array<int64_t>& pieces, const Array<int64_t>& takes,
    const Array<int64_t>& windows, const Array<uint64_t>& keys,
    const Array<int64_t>& substitutes, const Array<int64_t>& batch_edges,
    const Array<uint32_t>& orders, const Array<uint32_t>& segments,
    std::vector<int32_t> lane_of, std::vector<int64_t> lane_padding,
    const Array<uint16_t>& copies, const Array<int64_t>& piece_copies) {
  ExpectColumns(pieces, 4, "pieces");
  ExpectColumns(takes, 2, "takes");
  ExpectColumns(windows, 2, "windows");
  auto plan = std::make_unique<ReadPlan>();
  plan->batch_rows = batch_rows;
  plan->rows = rows;
  plan->padding = padding;
  plan->shuffled = shuffled;
  const auto piece = pieces.unchecked<2>();
  plan->pieces.reserve(static_cast<size_t>(piece.shape(0)));
  for (py::ssize_t i = 0; i < piece.shape(0); ++i) {
    plan->pieces.push_back({piece(i, 0), piece(i, 1), piece(i, 2), piece(i, 3)});
  }
  for (py::ssize_t i = 0; i < substitutes.size(); ++i) {
    const int64_t index = substitutes.data()[i];
    if (index < 0 || index >= piece.shape(0)) {
      throw py::value_error("Expected `substitutes` as indices of pieces, got " +
                            std::to_string(index));
    }
    plan->pieces[static_cast<size_t>(index)].substitute = true;
  }
  if (piece_copies.size() > 0 && piece_copies.size() != piece.shape(0)) {
    throw py::value_error("Expected `piece_copies` of all pieces, got " +
                          std::to_string(piece_copies.size()));
  }
  AddCopies(copies, piece_copies, plan.get());
  const auto take = takes.unchecked<2>();
  for (py::ssize_t i = 0; i < take.shape(0); ++i) {
    plan->takes.push_back({take(i, 0), take(i, 1)});
  }
  const auto window = windows.unchecked<2>();
  for (py::ssize_t i = 0; i < window.shape(0); ++i) {
    plan->first_piece.push_back(window(i, 0));
    plan->first_take.push_back(window(i, 1));
  }
  plan->keys.assign(keys.data(), keys.data() + keys.size());
  plan->batch_edges.assign(batch_edges.data(), batch_edges.data() + batch_edges.size());
  plan->lane_of = std::move(lane_of);
  plan->lane_padding = std::move(lane_padding);
  plan->orders.assign(orders.data(), orders.data() + orders.size());
  if (segments.size() > 0) AddSegments(segments, plan.get());
  return plan;
}

py::array_t<uint32_t> PermutationArray(uint32_t rows, uint64_t key) {
  Shuffle shuffle;
  MakeShuffle(key, rows, &shuffle);
  return py::array_t<uint32_t>(static_cast<py::ssize_t>(shuffle.rows.size()),
                               shuffle.rows.data());
}

// Returns the copies of each row, and the rows of each row group.
template <typename Weight>
py::tuple DrawnCopies(const Array<Weight>& weights, const Array<int64_t>& edges,
                      double scale, uint64_t key) {
  const auto size = static_cast<size_t>(weights.size());
  const auto counts = std::make_shared_for_overwrite<uint16_t[]>(size);
  py::array_t<int64_t> rows(edges.size() - 1);
  const std::span in(weights.data(), size);
  const std::span cells(edges.data(), static_cast<size_t>(edges.size()));
  int64_t* const sums = rows.mutable_data();
  {
    py::gil_scoped_release release;
    DrawCopies(in, cells, scale, key, counts.get(), sums);
  }
  return py::make_tuple(SharedArray<uint16_t>(counts, counts.get(), {weights.size()}),
                        std::move(rows));
}

py::tuple DrawCopiesArrays(const py::array& weights, const Array<int64_t>& edges,
                           double scale, uint64_t key) {
  if (edges.ndim() != 1 || edges.size() < 1 || edges.data()[0] != 0 ||
      edges.data()[edges.size() - 1] != weights.size() ||
      !std::is_sorted(edges.data(), edges.data() + edges.size())) {
    throw py::value_error("Expected ascending `edges` of all weights");
  }
  if (weights.dtype().is(py::dtype::of<float>())) {
    return DrawnCopies(Array<float>(weights), edges, scale, key);
  }
  return DrawnCopies(Array<double>(weights), edges, scale, key);
}

template <typename T>
std::span<const T> SpanOf(const Array<T>& numbers) {
  return {numbers.data(), static_cast<size_t>(numbers.size())};
}

// Returns the segments as an array that shares the packed windows with the plans that are
// made of it.
py::array_t<uint32_t> SegmentsArray(const std::shared_ptr<const PackedWindows>& packed) {
  const auto& segments = packed->rows.segments;
  const auto count = static_cast<py::ssize_t>(segments.size());
  const auto* const numbers = reinterpret_cast<const uint32_t*>(segments.data());
  return SharedArray(packed, numbers, {count, py::ssize_t{4}});
}

py::array_t<uint32_t> SplitWindowArray(const Array<uint32_t>& rows,
                                       const Array<uint32_t>& kept,
                                       const Array<uint32_t>& lengths, uint32_t length,
                                       int64_t first, int64_t start, int64_t stop) {
  if (length == 0) throw py::value_error("Expected a length of at least 1, got 0");
  const Documents documents{
      .rows = SpanOf(rows), .kept = SpanOf(kept), .lengths = SpanOf(lengths)};
  const size_t count = documents.lengths.size();
  if (documents.kept.size() != count ||
      std::ranges::any_of(documents.rows, [&](uint32_t row) { return row >= count; })) {
    throw py::value_error("Expected rows that have lengths, got others");
  }
  if (first < 0 || start < 0) {
    throw py::value_error("Expected numbers of tokens from 0 on, got a negative one");
  }
  auto packed = std::make_shared<PackedWindows>();
  {
    py::gil_scoped_release release;
    packed->rows.segments = SplitWindow(documents, length, first, start, stop);
  }
  return SegmentsArray(packed);
}

// fastload.plan.units.windows.WindowRows: lengths, edges, first, stop, keys, unit keys.
using WindowRows =
    std::tuple<Array<uint32_t>, Array<int64_t>, int64_t, int64_t,
               std::optional<Array<uint64_t>>, std::optional<Array<uint64_t>>>;

// Returns the documents of windows; throws if they don't belong together.
DocumentWindows WindowsOf(const WindowRows& rows, const Array<uint32_t>& kept) {
  const auto& [lengths, edges, first, stop, keys, unit_keys] = rows;
  const std::span<const int64_t> windows = SpanOf(edges);
  if (windows.empty() || windows.front() != 0 || windows.back() != lengths.size() ||
      kept.size() != lengths.size() || lengths.size() > UINT32_MAX ||
      !std::ranges::is_sorted(windows)) {
    throw py::value_error("Expected edges of windows that hold all lengths, got others");
  }
  for (const auto* const some : {&keys, &unit_keys}) {
    if (*some && (*some)->size() != edges.size() - 1) {
      throw py::value_error("Expected a key for each window, got " +
                            std::to_string((*some)->size()));
    }
  }
  return {.kept = SpanOf(kept),
          .lengths = SpanOf(lengths),
          .edges = windows,
          .first = first,
          .stop = stop,
          .keys = keys ? SpanOf(*keys) : std::span<const uint64_t>(),
          .unit_keys = unit_keys ? SpanOf(*unit_keys) : std::span<const uint64_t>()};
}

template <typename Numbers>
auto ArrayOf(const Numbers& numbers) {
  return py::array_t<typename Numbers::value_type>(
      static_cast<py::ssize_t>(numbers.size()), numbers.data());
}

py::tuple BatchWindowsArrays(const WindowRows& rows, int64_t tokens, bool padded,
                             std::optional<int64_t> max_rows) {
  const TokenLimits limits{tokens, padded, max_rows.value_or(INT64_MAX)};
  if (limits.tokens < 1 || limits.max_rows < 1) {
    throw py::value_error("Expected limits of at least 1, got " +
                          std::to_string(std::min(limits.tokens, limits.max_rows)));
  }
  const DocumentWindows documents = WindowsOf(rows, std::get<0>(rows));
  TokenBatches batches;
  {
    py::gil_scoped_release release;
    batches = BatchWindows(documents, limits);
  }
  return py::make_tuple(ArrayOf(batches.orders), ArrayOf(batches.sizes));
}

py::tuple PackWindowsArrays(const WindowRows& rows, const Array<uint32_t>& kept,
                            uint32_t length) {
  if (length == 0) throw py::value_error("Expected a length of at least 1, got 0");
  const DocumentWindows documents = WindowsOf(rows, kept);
  std::shared_ptr<const PackedWindows> packed;
  {
    py::gil_scoped_release release;
    packed = std::make_shared<PackedWindows>(PackWindows(documents, length));
  }
  return py::make_tuple(SegmentsArray(packed), ArrayOf(packed->rows.edges),
                        ArrayOf(packed->window_rows));
}

}  // namespace

void RegisterReadPlan(py::module_& m) {
  py::class_<ReadPlan>(
      m, "ReadPlan",
      "The rows that one pass reads, from fastload.plan.read_plan.ReadPlan.")
      .def(py::init(&MakeReadPlan), py::kw_only(), py::arg("batch_rows"), py::arg("rows"),
           py::arg("padding"), py::arg("shuffled"), py::arg("pieces"), py::arg("takes"),
           py::arg("windows"), py::arg("keys"),
           py::arg("substitutes") = Array<int64_t>(0),
           py::arg("batch_edges") = Array<int64_t>(0),
           py::arg("orders") = Array<uint32_t>(0),
           py::arg("segments") = Array<uint32_t>(0), py::arg("lane_of") = py::list(),
           py::arg("lane_padding") = py::list(), py::arg("copies") = Array<uint16_t>(0),
           py::arg("piece_copies") = Array<int64_t>(0))
      .def_readonly("rows", &ReadPlan::rows, "Rows delivered, repeats included.");
  m.def("permutation", &PermutationArray, py::arg("rows"), py::arg("key"),
        "Returns the permutation of 0 .. rows-1 that `key` names, uint32, equal to\n"
        "fastload.plan.permutation.permutation.");
  m.def("draw_copies", &DrawCopiesArrays, py::arg("weights"), py::arg("edges"),
        py::arg("scale"), py::arg("key"),
        "Returns the copies of each row, uint16, and the sum of each row group, int64,\n"
        "equal to fastload.plan.units.weighted.draw_copies.");
  m.def("pack_windows", &PackWindowsArrays, py::arg("rows"), py::arg("kept"),
        py::arg("length"),
        "Returns the segments of the packed rows of windows, the edges of the rows, and\n"
        "the edges of the windows among the rows: see PackWindows in\n"
        "fastload.plan.units.packing.");
  m.def(
      "batch_windows", &BatchWindowsArrays, py::arg("rows"), py::arg("tokens"),
      py::arg("padded"), py::arg("max_rows"),
      "Returns the rows of windows in the order of padded batches, and the rows of each\n"
      "batch: see BatchWindows in fastload.plan.units.by_tokens.");
  m.def("split_window", &SplitWindowArray, py::arg("rows"), py::arg("kept"),
        py::arg("lengths"), py::arg("length"), py::arg("first"), py::arg("start"),
        py::arg("stop"),
        "Returns the segments of a range of the stream that a window's documents make: "
        "see\n"
        "SplitWindow in fastload.plan.units.packing.");
}

}  // namespace fastload
