// What the caller wants of the columns: the contract between Python and the core.
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

// How one leaf column of the files is read.
struct ColumnSpec {
  std::string name;  // dotted path, for errors
  // Leaf column index in each file, by file index; -1: the file lacks the column, and all
  // of its rows have the value that `constants` says.
  std::vector<int32_t> leaves;
  // By file index, one value as `fill` has it; nullopt: null. Empty: null in every file.
  std::vector<std::optional<std::string>> constants;
  // Element type written. For byte columns (strings, binary) kUInt8, with `bytes` set.
  DType dtype = DType::kInt64;
  bool bytes = false;  // variable-length bytes; else a fixed-width value
  // The element's bytes (ItemSize(dtype) of them, native order) to write for a null;
  // for byte columns the whole value. nullopt: a null is an ErrorKind::kNullValue.
  std::optional<std::string> fill;
  // The caller asked for another type than the stored one: a value that does not fit
  // is an ErrorKind::kValue. When false, stored integers are truncated as Arrow does.
  bool cast = false;
  // An integer that is rounded to become a float does not fit.
  bool exact = false;
  // From the stored integers of each file to those handed out, by file index:
  // 86'400'000 where stored days are wanted as milliseconds. Empty: 1 in every file.
  std::vector<int64_t> multipliers;
  bool unscaled = false;  // decimals: the unscaled integer instead of the float
  // Levels of lists around an item whose lengths vary from list to list; 0: an item a
  // row.
  int32_t depth = 0;
  // Elements of an item: fixed-size lists, one inside the other, of this many in all. 0:
  // an item is one element, in no fixed-size list.
  int64_t list_size = 0;
  // A null list is empty (or, of fixed size, all fill) instead of an
  // ErrorKind::kNullValue; `fill` is for null elements.
  bool null_lists = false;
  // Strings, binary and integers as categories, kInt64: XXH64 modulo this many buckets,
  // if not 0, of the bytes or of the value as a little-endian int64;
  int64_t hash_buckets = 0;
  uint64_t hash_seed = 0;
  // or, if not null, the index in this vocabulary, and `unknown` for what is not in it.
  std::shared_ptr<const Vocabulary> vocabulary;
  int64_t unknown = -1;

  bool HasLeaf(int32_t file) const { return leaves[static_cast<size_t>(file)] >= 0; }
  const std::optional<std::string>& Constant(int32_t file) const {
    static const std::optional<std::string> none;
    return constants.empty() ? none : constants[static_cast<size_t>(file)];
  }
  int64_t Multiplier(int32_t file) const {
    return multipliers.empty() ? 1 : multipliers[static_cast<size_t>(file)];
  }
};

// One tensor (or ragged tensor) of the batch.
enum class OutputKind : uint8_t {
  kColumn,    // (B,) of one fixed-width column
  kStack,     // (B, F) row-major, of F fixed-width columns of one dtype
  kRagged,    // one byte column, or column of lists: values, and int64 offsets a level
  kList,      // (B, list_size) of one column of fixed-size lists, at depth 0
  kPad,       // (B, length) of one column of fixed-width items at depth 1
  kLength,    // (B,) int64: items of each row of such a column, `length` at most
  kValid,     // (B,) bool: the column's value, or its outermost list, is not null
  kFile,      // (B,) int32: index of the file
  kRow,       // (B,) int64: row in the file
  kRealRow,   // (B,) bool: false for rows repeated to fill a batch
  kComputed,  // (B,), or (B, length), of `dtype`: written by a kernel
};

struct OutputSpec {
  OutputKind kind = OutputKind::kColumn;
  std::vector<int32_t>
      columns;  // indices of ColumnSpecs; empty where the output is made of none
  // kPad, kLength: items of a row, the rest is cut off. kComputed: elements of a row; 0:
  // one, without a dimension for it.
  int64_t length = 0;
  // kPad: the bytes of one element, written where a row has fewer items.
  std::string pad;
  DType dtype = DType::kUInt8;  // kComputed
};

// Bytes of one item: an element, or a fixed-size list. 0 where items vary.
constexpr int64_t ItemBytes(const ColumnSpec& spec) {
  if (spec.bytes) return 0;
  return ItemSize(spec.dtype) * (spec.list_size > 0 ? spec.list_size : 1);
}

// Levels of offsets of a ragged output: of its lists, and of the bytes of its elements.
constexpr int32_t RaggedLevels(const ColumnSpec& spec) {
  return spec.depth + (spec.bytes ? 1 : 0);
}

}  // namespace fastload
