// The columns and outputs that the caller wants: the contract between Python and the
// core.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace fastload {

class Vocabulary;

// Element types of tensors, named as torch names them.
enum class DType : uint8_t {
  kBool,
  kUInt8,
  kInt8,
  kUInt16,
  kInt16,
  kUInt32,
  kInt32,
  kUInt64,
  kInt64,
  kFloat16,
  kBFloat16,
  kFloat32,
  kFloat64,
};

// Bytes of one element.
constexpr int ItemSize(DType dtype) {
  switch (dtype) {
    case DType::kBool:
    case DType::kUInt8:
    case DType::kInt8:
      return 1;
    case DType::kUInt16:
    case DType::kInt16:
    case DType::kFloat16:
    case DType::kBFloat16:
      return 2;
    case DType::kUInt32:
    case DType::kInt32:
    case DType::kFloat32:
      return 4;
    case DType::kUInt64:
    case DType::kInt64:
    case DType::kFloat64:
      return 8;
  }
  return 0;
}

// The way in which the core reads one leaf column of the files.
struct ColumnSpec {
  std::string name;  // dotted path, for errors
  // The leaf's index in each file, by file index. -1: the file lacks the column, and all
  // rows of the file get the value in `constants`.
  std::vector<int32_t> leaves;
  // By file index, one value encoded like `fill`; nullopt: null. Empty: null in every
  // file.
  std::vector<std::optional<std::string>> constants;
  // The element type of the output. For byte columns (strings, binary) kUInt8, with
  // `bytes` set.
  DType dtype = DType::kInt64;
  bool bytes = false;  // variable-length bytes; otherwise fixed-width values
  // The bytes written for a null: one element (ItemSize(dtype) bytes in native order), or
  // for byte columns the whole value. nullopt: a null is an ErrorKind::kNullValue.
  std::optional<std::string> fill;
  // True if the caller asked for another type than the stored type: a value that does not
  // fit is an ErrorKind::kValue. If false, stored integers are truncated as Arrow does.
  bool cast = false;
  // True if an integer that must be rounded to become a float counts as a value that does
  // not fit.
  bool exact = false;
  // The factor from the stored integers of each file to the output's integers, by file
  // index: 86'400'000 where days are stored and milliseconds are wanted. A factor -n
  // divides by n, and a value with a remainder does not fit. Empty: 1 in every file.
  std::vector<int64_t> multipliers;
  bool unscaled = false;  // decimals: the unscaled integer instead of a float
  // How many levels of lists the column shares with the leaf of each file, by file index,
  // where the leaf is another one, which stands in for a leaf that the file lacks: its
  // lists are read, and every element in them is null. 0: the leaf is the column's own.
  // Empty: 0 in every file.
  std::vector<int32_t> shared_levels;
  // Levels of lists around an element, those of a fixed size included; 0: `depth`, and
  // one more with a list_size.
  int32_t levels = 0;
  // Levels of variable-length lists around an item; 0: each row is one item.
  int32_t depth = 0;
  // Elements of an item that consists of nested fixed-size lists, over all its lists. 0:
  // an item is one element outside any fixed-size list.
  int64_t list_size = 0;
  // Items of every list that is not null, at a depth of 1; -1: lists have any length. A
  // list of another length is an ErrorKind::kValue.
  int64_t list_items = -1;
  // True if only the lengths of lists are wanted, at a depth of 1: values are not
  // decoded.
  bool lengths_only = false;
  // True if a null list becomes an empty list (or, with a fixed size, a list of fills)
  // instead of an ErrorKind::kNullValue. `fill` is for null elements.
  bool null_lists = false;
  // The number of buckets if strings, binary or integers are hashed to categories
  // (kInt64), else 0. A category is XXH64, modulo this number, of the bytes or of the
  // integer as a little-endian int64.
  int64_t hash_buckets = 0;
  uint64_t hash_seed = 0;
  // The vocabulary if strings, binary or integers become indices (kInt64) into a
  // vocabulary, else null. `unknown` stands for values that the vocabulary lacks.
  std::shared_ptr<const Vocabulary> vocabulary;
  int64_t unknown = -1;

  bool HasLeaf(int32_t file) const { return leaves[static_cast<size_t>(file)] >= 0; }
  const std::optional<std::string>& Constant(int32_t file) const {
    static const std::optional<std::string> none;
    return constants.empty() ? none : constants[static_cast<size_t>(file)];
  }
  int32_t SharedLevels(int32_t file) const {
    return shared_levels.empty() ? 0 : shared_levels[static_cast<size_t>(file)];
  }
  int64_t Multiplier(int32_t file) const {
    return multipliers.empty() ? 1 : multipliers[static_cast<size_t>(file)];
  }
};

// The kind of one tensor (or ragged tensor) of the batch.
enum class OutputKind : uint8_t {
  kColumn,  // (B,) from one fixed-width column
  kStack,   // (B, F) row-major, from F fixed-width columns of one dtype
  // one byte column or column of lists: values, and int64 offsets for each level
  kRagged,
  kList,    // (B, list_size) from one column of fixed-size lists at depth 0
  kPad,     // (B, length) from one column of fixed-width items at depth 1
  kMask,    // (B, length) bool: true where a kPad of such a column holds an item
  kLength,  // (B,) int64: number of items in each row of such a column, at most `length`
  kValid,  // (B,) bool: true where the column's value, or its outermost list, is not null
  kStackValid,  // (B, F) bool: the same for each of F fixed-width columns
  kFile,        // (B,) int32: index of the row's file
  kRow,         // (B,) int64: number of the row in its file
  kRealRow,     // (B,) bool: false for rows that are repeated to fill a batch
  kComputed,    // (B,) or (B, length) of `dtype`: written by a kernel

  // Outputs of a packed pass, whose rows are segments of lists
  // (fastload/plan/read_plan.h) and whose ragged outputs hold R packed rows of T =
  // `length` elements.
  kFirst,      // (B,) int64: the first element of the segment's list
  kDocument,   // (R, T) int32: number of the element's segment in its packed row, or -1
  kPosition,   // (R, T) int32: number of the element in its segment; 0 at padding
  kEdges,      // (B + 1,) int32: where segments begin, counted over all packed rows
  kLongest,    // (1,) int32: elements of the longest segment
  kFirstFile,  // (R,) int32: file of the first segment's list, or -1
  kFirstRow,   // (R,) int64: number of this list in its file, or -1
  kFirstItem,  // (R,) int64: the first element of this list
  kFirstReal,  // (R,) bool: false for packed rows that are repeated to fill a batch
};

// Whether an output is made of the segments of whole batches, after their elements are
// written.
constexpr bool OfPackedRows(OutputKind kind) { return kind >= OutputKind::kDocument; }

struct OutputSpec {
  OutputKind kind = OutputKind::kColumn;
  std::vector<int32_t> columns;  // indices of ColumnSpecs; empty: made of no column
  // kPad, kMask, kLength: the most items of a row; further items are cut off. kRagged and
  // outputs of packed rows: elements of a packed row; 0: rows are not packed. kComputed:
  // elements of a row; 0: one element, without a dimension.
  int64_t length = 0;
  // kPad: the bytes of one element, written where a row has fewer than `length` items.
  // kRagged: written at the padding of packed rows.
  std::string pad;
  DType dtype = DType::kUInt8;  // kComputed
  bool keep_last = false;       // kPad: a longer list keeps its last items, not its first
  bool pad_left = false;  // kPad, kMask: items of a shorter list stand at the row's end
};

// Returns the bytes of one item (an element, or a fixed-size list), or 0 where items vary
// in size.
constexpr int64_t ItemBytes(const ColumnSpec& spec) {
  if (spec.bytes) return 0;
  return ItemSize(spec.dtype) * (spec.list_size > 0 ? spec.list_size : 1);
}

// Returns the levels of lists around an element.
constexpr int32_t ListLevels(const ColumnSpec& spec) {
  return spec.levels > 0 ? spec.levels : spec.depth + (spec.list_size > 0 ? 1 : 0);
}

// Returns how many levels of offsets a ragged output has: one for each level of lists,
// and one for the bytes of elements.
constexpr int32_t RaggedLevels(const ColumnSpec& spec) {
  return spec.depth + (spec.bytes ? 1 : 0);
}

}  // namespace fastload
