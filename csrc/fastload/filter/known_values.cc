#include "fastload/filter/known_values.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "fastload/decode/values/convert.h"
#include "fastload/decode/values/stored.h"
#include "fastload/decode/values/vocabulary.h"
#include "parquet/metadata.h"
#include "parquet/statistics.h"

namespace fastload {
namespace {

constexpr bool IsFloat(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kFloat64;
}

// Returns the key of infinity.
int64_t MostNumber(DType dtype) {
  return dtype == DType::kFloat32 ? int64_t{0x7F800000} : int64_t{0x7FF0000000000000};
}

template <typename T>
bool InRange(int32_t value) {
  return value >= std::numeric_limits<T>::min() && value <= std::numeric_limits<T>::max();
}

// Returns true if a raw value is inside its logical type; other values are truncated when
// they are decoded.
bool IsOfType(Stored stored, const std::string& raw) {
  if (stored != Stored::kInt8 && stored != Stored::kUInt8 && stored != Stored::kInt16 &&
      stored != Stored::kUInt16) {
    return true;
  }
  int32_t value = 0;
  std::memcpy(&value, raw.data(), sizeof(value));
  switch (stored) {
    case Stored::kInt8:
      return InRange<int8_t>(value);
    case Stored::kUInt8:
      return InRange<uint8_t>(value);
    case Stored::kInt16:
      return InRange<int16_t>(value);
    default:
      return InRange<uint16_t>(value);
  }
}

// The most entries with which bounds are compared; comparing more takes longer than it
// saves.
constexpr size_t kMostWords = 256;

// Returns the keys of strings or bytes from `least` to `most`: the keys of the
// vocabulary's entries in this range, and the key of unknown values.
std::vector<KeyRange> KeysOfWords(const ColumnSpec& spec, const std::string& least,
                                  const std::string& most) {
  const std::vector<std::string>& entries = spec.vocabulary->bytes();
  if (entries.size() > kMostWords || least > most) return {{}};
  std::vector<KeyRange> keys{{spec.unknown, spec.unknown}};
  for (size_t i = 0; i < entries.size(); ++i) {
    // std::string compares bytes as unsigned numbers.
    const auto key = static_cast<int64_t>(i);
    if (least <= entries[i] && entries[i] <= most) keys.push_back({key, key});
  }
  return keys;
}

// A conversion of a file's stored bounds to keys.
class Bounds {
 public:
  // Returns nullopt if bounds say nothing about the elements.
  static std::optional<Bounds> Make(const parquet::ColumnDescriptor& descr,
                                    const ColumnSpec& spec, int32_t file) {
    if (spec.vocabulary != nullptr) {
      const bool words = descr.physical_type() == parquet::Type::BYTE_ARRAY &&
                         descr.sort_order() == parquet::SortOrder::UNSIGNED &&
                         spec.vocabulary->of_bytes();
      return words ? std::optional(Bounds(spec)) : std::nullopt;
    }
    const auto stored = StoredOf(descr);
    if (!stored.ok() || *stored == Stored::kInt96 || *stored == Stored::kDecimal ||
        *stored == Stored::kFloat16) {
      return std::nullopt;
    }
    auto converter = Converter::Make(descr, spec, file);
    if (!converter.ok()) return std::nullopt;
    return Bounds(*stored, spec, *std::move(converter));
  }

  // Returns the keys of values from `least` to `most`; all keys if the bounds say
  // nothing.
  std::vector<KeyRange> Keys(const std::string& least, const std::string& most) const {
    if (!converter_) return KeysOfWords(spec_, least, most);
    const auto first = Key(*converter_, least);
    const auto last = Key(*converter_, most);
    if (!first || !last || *first > *last) return {{}};
    if (!IsFloat(spec_.dtype)) return {{*first, *last}};
    const int64_t infinity = MostNumber(spec_.dtype);
    if (*first < -infinity - 1 || *last > infinity) return {{}};
    // Bounds leave out NaNs, and the format lets the writer choose the sign of a zero
    // bound.
    return {{INT64_MIN, -infinity - 2},
            {*first == 0 ? -1 : *first, *last == -1 ? 0 : *last},
            {infinity + 1, INT64_MAX}};
  }

 private:
  explicit Bounds(const ColumnSpec& spec) : spec_(spec) {}
  Bounds(Stored stored, const ColumnSpec& spec, Converter converter)
      : spec_(spec), stored_(stored), converter_(std::move(converter)) {}

  std::optional<int64_t> Key(const Converter& converter, const std::string& raw) const {
    if (static_cast<int>(raw.size()) != converter.raw_width()) return std::nullopt;
    if (!IsOfType(stored_, raw)) return std::nullopt;
    std::array<uint8_t, 8> element{};
    const auto* const bytes = reinterpret_cast<const uint8_t*>(raw.data());
    if (!converter.Convert(bytes, 1, element.data()).ok()) return std::nullopt;
    return KeyOf(spec_.dtype, element.data());
  }

  const ColumnSpec& spec_;
  Stored stored_{};
  std::optional<Converter> converter_;  // nullopt: strings or bytes, which are looked up
};

KnownValues KnownOfConstant(const ColumnSpec& spec, int32_t file) {
  const auto& constant = spec.Constant(file);
  if (!constant) return {.keys = {}, .nulls = true};
  const auto* const element = reinterpret_cast<const uint8_t*>(constant->data());
  const auto key = KeyOf(spec.dtype, element);
  if (!key) return {.nulls = false};
  return {.keys = {{*key, *key}}, .nulls = false};
}

const parquet::ColumnDescriptor& DescrOf(const FileSpec& file, int32_t file_index,
                                         const ColumnSpec& spec) {
  const int32_t leaf = spec.leaves[static_cast<size_t>(file_index)];
  return *file.Column(leaf);
}

}  // namespace

Result<KnownValues> KnownOfChunk(const FileSpec& file, int32_t file_index,
                                 int32_t row_group, const ColumnSpec& spec) {
  if (!spec.HasLeaf(file_index)) return KnownOfConstant(spec, file_index);
  const auto& descr = DescrOf(file, file_index, spec);
  KnownValues known{.nulls = descr.max_definition_level() > 0};
  ARROW_ASSIGN_OR_RAISE(
      const ChunkBounds chunk,
      file.footer->Bounds(row_group, spec.leaves[static_cast<size_t>(file_index)]));
  if (!chunk.known) return known;
  if (chunk.nulls >= 0) {
    const int64_t nulls = chunk.nulls;
    const int64_t rows = file.RowsOf(row_group);
    const bool only_nulls = nulls == rows;
    // Statistics that contradict themselves say nothing.
    if (nulls > (known.nulls ? rows : 0)) return known;
    if (only_nulls && rows > 0 && chunk.bounded) return known;
    if (known.nulls) known.null_count = nulls;
    known.nulls = nulls != 0;
    if (only_nulls) {
      known.keys = {};
      return known;
    }
  }
  if (!chunk.bounded) return known;
  const auto bounds = Bounds::Make(descr, spec, file_index);
  if (bounds)
    known.keys = bounds->Keys(std::string(chunk.least), std::string(chunk.most));
  return known;
}

bool Contradict(const KnownValues& chunk, const PageBounds& bounds, int64_t rows) {
  if (chunk.null_count < 0 || bounds.first_rows.empty()) return false;
  int64_t least = 0;
  int64_t most = 0;
  for (size_t page = 0; page < bounds.first_rows.size(); ++page) {
    const bool last = page + 1 == bounds.first_rows.size();
    const int64_t end = last ? rows : bounds.first_rows[page + 1];
    const int64_t in_page = end - bounds.first_rows[page];
    if (!bounds.null_counts.empty()) {
      least += bounds.null_counts[page];
      most += bounds.null_counts[page];
    } else if (bounds.null_pages[page]) {
      least += in_page;
      most += in_page;
    } else {
      most += std::max<int64_t>(in_page - 1, 0);
    }
  }
  return chunk.null_count < least || chunk.null_count > most;
}

std::vector<KnownValues> KnownOfPages(const FileSpec& file, int32_t file_index,
                                      const ColumnSpec& spec, const PageBounds& bounds) {
  const auto& descr = DescrOf(file, file_index, spec);
  const auto known_bounds = Bounds::Make(descr, spec, file_index);
  const bool nullable = descr.max_definition_level() > 0;
  std::vector<KnownValues> known(bounds.first_rows.size());
  for (size_t page = 0; page < known.size(); ++page) {
    known[page].nulls =
        nullable && (bounds.null_counts.empty() || bounds.null_counts[page] != 0);
    if (bounds.null_pages[page]) {
      known[page] = {.keys = {}, .nulls = true};
    } else if (known_bounds) {
      known[page].keys = known_bounds->Keys(bounds.minima[page], bounds.maxima[page]);
    }
  }
  return known;
}

}  // namespace fastload
