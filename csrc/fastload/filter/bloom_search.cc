#include "fastload/filter/bloom_search.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "fastload/filter/bloom_filter.h"
#include "fastload/filter/key_hasher.h"
#include "parquet/metadata.h"

namespace fastload {
namespace {

// The most values of one test that are looked up; reading the column takes less time than
// more look-ups.
constexpr uint64_t kMostValues = 4096;

// A value to be looked up.
struct Sought {
  int64_t key = 0;
  uint64_t hash = 0;
};

// The look-ups in the Bloom filter of one column chunk.
struct Lookup {
  size_t column = 0;
  BloomFilter filter;
  std::vector<Sought> values;  // by key, without repetitions
};

bool IsPossible(const KnownValues& known, int64_t key) {
  return std::ranges::any_of(known.keys, [key](const KeyRange& range) {
    return range.first <= key && key <= range.last;
  });
}

// Adds the possible values of a test, unless the test passes more values than are looked
// up.
void AddValues(const ValueTest& test, const KnownValues& known, const KeyHasher& hasher,
               std::vector<Sought>* values) {
  uint64_t count = 0;
  for (const KeyRange& range : test.ranges) {
    const uint64_t more =
        static_cast<uint64_t>(range.last) - static_cast<uint64_t>(range.first);
    if (more >= kMostValues) return;
    count += more + 1;
  }
  if (count > kMostValues) return;
  for (const KeyRange& range : test.ranges) {
    for (int64_t key = range.first;; ++key) {
      const auto hash =
          IsPossible(known, key) ? hasher.Hash(key) : std::optional<uint64_t>();
      if (hash) values->push_back({key, *hash});
      if (key == range.last) break;
    }
  }
}

// Takes the keys, in order and without repetitions, out of ranges.
void Exclude(const std::vector<int64_t>& keys, std::vector<KeyRange>* ranges) {
  std::vector<KeyRange> left;
  for (KeyRange range : *ranges) {
    bool empty = false;
    for (auto key = std::ranges::lower_bound(keys, range.first);
         key != keys.end() && *key <= range.last; ++key) {
      if (range.first < *key) left.push_back({range.first, *key - 1});
      empty = *key == range.last;
      if (empty) break;
      range.first = *key + 1;
    }
    if (!empty) left.push_back(range);
  }
  *ranges = std::move(left);
}

// Returns true if the bounds of a chunk are known, and so are inside the logical type.
bool HasBounds(const KnownValues& known) {
  return known.keys.empty() || known.keys[0] != KeyRange();
}

Result<std::vector<Lookup>> LookupsOf(const FileSpec& file, int32_t file_index,
                                      int32_t row_group,
                                      const std::vector<ColumnSpec>& columns,
                                      const RowFilter& filter,
                                      const std::vector<KnownValues>& known) {
  std::vector<Lookup> lookups;
  for (size_t c = 0; c < columns.size(); ++c) {
    const ColumnSpec& spec = columns[c];
    if (!spec.HasLeaf(file_index)) continue;
    const int32_t leaf = spec.leaves[static_cast<size_t>(file_index)];
    ARROW_ASSIGN_OR_RAISE(const FooterChunk chunk, file.Chunk(row_group, leaf));
    const auto found = BloomFilter::Find(chunk, file.bytes);
    if (!found) continue;
    const auto hasher = KeyHasher::Make(*file.Column(leaf), spec, file_index);
    if (!hasher || (hasher->needs_bounds() && !HasBounds(known[c]))) continue;
    std::vector<Sought> values;
    for (const ValueTest& test : filter.tests) {
      if (test.column == static_cast<int32_t>(c)) {
        AddValues(test, known[c], *hasher, &values);
      }
    }
    std::ranges::sort(values, {}, &Sought::key);
    const auto same = [](const Sought& a, const Sought& b) { return a.key == b.key; };
    values.erase(std::unique(values.begin(), values.end(), same), values.end());
    if (!values.empty()) lookups.push_back({c, *found, std::move(values)});
  }
  return lookups;
}

std::vector<int64_t> KeysOf(const std::vector<Sought>& values) {
  std::vector<int64_t> keys;
  keys.reserve(values.size());
  for (const Sought& value : values) keys.push_back(value.key);
  return keys;
}

// Reads the headers of the look-ups whose blocks are not known from the footer, and drops
// look-ups in filters that can't be used.
Status ReadHeaders(const SmallReads& read, std::vector<Lookup>* lookups) {
  std::vector<ByteRange> ranges;
  for (const Lookup& lookup : *lookups) {
    if (!lookup.filter.sized()) ranges.push_back(lookup.filter.header());
  }
  if (ranges.empty()) return Status::OK();
  std::vector<std::vector<uint8_t>> bytes;
  ARROW_RETURN_NOT_OK(read(ranges, &bytes));
  auto header = bytes.begin();
  std::erase_if(*lookups, [&](Lookup& lookup) {
    return !lookup.filter.sized() && !lookup.filter.ReadHeader(*header++);
  });
  return Status::OK();
}

}  // namespace

Status ExcludeByBloomFilters(const FileSpec& file, int32_t file_index, int32_t row_group,
                             const std::vector<ColumnSpec>& columns,
                             const RowFilter& filter, const SmallReads& read,
                             std::vector<KnownValues>* known) {
  ARROW_ASSIGN_OR_RAISE(auto lookups,
                        LookupsOf(file, file_index, row_group, columns, filter, *known));
  if (lookups.empty()) return Status::OK();
  std::vector<KnownValues> least = *known;
  for (const Lookup& lookup : lookups) {
    Exclude(KeysOf(lookup.values), &least[lookup.column].keys);
  }
  if (filter.Of(least) == Verdict::kSome) return Status::OK();
  ARROW_RETURN_NOT_OK(ReadHeaders(read, &lookups));
  // The headers are read, or read again, with the blocks, in one round.
  std::vector<ByteRange> ranges;
  for (const Lookup& lookup : lookups) {
    ranges.push_back(lookup.filter.header());
    for (const Sought& value : lookup.values) {
      ranges.push_back(lookup.filter.Block(value.hash));
    }
  }
  std::vector<std::vector<uint8_t>> bytes;
  ARROW_RETURN_NOT_OK(read(ranges, &bytes));
  auto next = bytes.begin();
  for (Lookup& lookup : lookups) {
    const bool usable = lookup.filter.ReadHeader(*next++);
    std::vector<int64_t> absent;
    for (const Sought& value : lookup.values) {
      if (!BloomFilter::MayContain(*next++, value.hash)) absent.push_back(value.key);
    }
    if (usable) Exclude(absent, &(*known)[lookup.column].keys);
  }
  return Status::OK();
}

}  // namespace fastload
