// Fuzzer of cached row groups: a file with a right checksum is refused, or its rows are
// read without a byte from outside, and equal Arrow's rows where Arrow finds no fault.
// The mutator makes the checksum right, as someone who writes to the cache's directory
// could.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../cpp/block_file.h"
#include "arrow/api.h"
#include "arrow/io/memory.h"
#include "arrow/ipc/reader.h"
#include "arrow/type_traits.h"
#include "checked.h"
#include "fastload/base/hash.h"
#include "fastload/blocks/decoded_reader.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace fastload::testing {
namespace {

constexpr char kName[] = "name";
constexpr int64_t kMostRows = 1 << 12;

// A path in memory; the file is removed when the fuzzer ends.
class Path {
 public:
  Path() : path_("/dev/shm/fastload-fuzz-" + std::to_string(getpid())) {}
  ~Path() { unlink(path_.c_str()); }
  const std::string& text() const { return path_; }

 private:
  const std::string path_;
};

const std::string& BlockPath() {
  static const Path path;
  return path.text();
}

void WriteBytes(const uint8_t* data, size_t size) {
  // A file that is mapped keeps its bytes, so each input gets a new file.
  unlink(BlockPath().c_str());
  const int fd = open(BlockPath().c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  Expect(fd >= 0 && write(fd, data, size) == static_cast<ssize_t>(size),
         "a file that can be written");
  close(fd);
}

std::string ReadBytes() {
  const int fd = open(BlockPath().c_str(), O_RDONLY | O_CLOEXEC);
  struct stat status{};
  Expect(fd >= 0 && fstat(fd, &status) == 0, "a file that can be read");
  std::string bytes(static_cast<size_t>(status.st_size), '\0');
  Expect(read(fd, bytes.data(), bytes.size()) == status.st_size, "all bytes of a file");
  close(fd);
  return bytes;
}

// Makes the checksum of a block right; leaves other bytes as they are.
void SetChecksum(uint8_t* data, size_t size) {
  const std::string_view file(reinterpret_cast<const char*>(data), size);
  const auto digits = FindChecksum(file);
  if (!digits) return;
  XXH64_state_t state;
  XXH64_reset(&state, Hash64(kName, std::strlen(kName), 0));
  XXH64_update(&state, file.data(), *digits);
  XXH64_update(&state, kNoChecksum.data(), kNoChecksum.size());
  const std::string_view rest = file.substr(*digits + kNoChecksum.size());
  XXH64_update(&state, rest.data(), rest.size());
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "%016llx",
                static_cast<unsigned long long>(XXH64_digest(&state)));
  std::memcpy(data + *digits, text.data(), kNoChecksum.size());
}

// Reads every byte of a view, which lies inside the block's file.
uint64_t Sum(const ByteView& view, size_t file_bytes) {
  Expect(view.size >= 0 && static_cast<size_t>(view.size) <= file_bytes,
         "the size of a text in a block");
  return view.size == 0 ? 0 : Hash64(view.data, static_cast<size_t>(view.size), 0);
}

// Calls read(rows) and skip(rows) in turns until the rows end or fail.
template <typename Reader, typename Read>
void Walk(Reader* reader, int64_t rows, std::mt19937* random, const Read& read) {
  while (rows > 0) {
    const auto n = static_cast<int64_t>(1 + (*random)() % static_cast<uint64_t>(rows));
    const Status status = (*random)() % 4 == 0 ? reader->Skip(n) : read(n);
    if (!status.ok()) return;
    rows -= n;
  }
  Expect(!reader->Skip(1).ok(), "the end of a block's rows");
}

void ReadColumn(const std::shared_ptr<const DecodedBlock>& block, const ColumnSpec& spec,
                int64_t rows, size_t file_bytes, std::mt19937* random) {
  uint64_t sum = 0;
  if (spec.depth > 0) {
    const auto reader = MakeDecodedNestedReader(block, &spec);
    if (!reader.ok()) return;
    NestedRows out;
    Walk(reader->get(), rows, random,
         [&](int64_t n) { return (*reader)->Read(n, &out, true); });
    for (const auto& offsets : out.offsets) {
      Expect(std::ranges::is_sorted(offsets), "offsets that ascend");
    }
    for (const ByteView& view : out.views) sum += Sum(view, file_bytes);
    const int64_t bytes = out.values.size();
    Expect(bytes >= 0 && static_cast<size_t>(bytes) <= file_bytes, "the size of lists");
    std::vector<uint8_t> copy(static_cast<size_t>(bytes));
    out.values.Copy(0, bytes, copy.data());
  } else if (spec.bytes) {
    const auto reader = MakeDecodedBytesReader(block, &spec);
    if (!reader.ok()) return;
    ByteArena arena;
    Walk(reader->get(), rows, random, [&](int64_t n) {
      std::vector<ByteView> views(static_cast<size_t>(n));
      ARROW_RETURN_NOT_OK((*reader)->Read(n, views.data(), nullptr, &arena));
      for (const ByteView& view : views) sum += Sum(view, file_bytes);
      return Status::OK();
    });
  } else {
    const auto reader = MakeDecodedFixedReader(block, &spec);
    if (!reader.ok()) return;
    const int64_t stride = ItemBytes(spec) + ((*random)() % 2 == 0 ? 0 : 8);
    Walk(reader->get(), rows, random, [&](int64_t n) {
      std::vector<uint8_t> out(static_cast<size_t>(n * stride));
      return (*reader)->Read(n, out.data(), stride, nullptr);
    });
  }
  volatile uint64_t used = sum;
  (void)used;
}

// Compares the texts of a column with Arrow's, where Arrow finds no fault.
void Compare(const std::shared_ptr<const DecodedBlock>& block, const uint8_t* data,
             size_t size) {
  auto reader =
      arrow::ipc::RecordBatchFileReader::Open(std::make_shared<arrow::io::BufferReader>(
          std::make_shared<arrow::Buffer>(data, static_cast<int64_t>(size))));
  if (!reader.ok()) return;
  const ColumnSpec spec = TextSpec();
  const auto texts = MakeDecodedBytesReader(block, &spec);
  if (!texts.ok()) return;
  ByteArena arena;
  for (int i = 0; i < (*reader)->num_record_batches(); ++i) {
    const auto batch = (*reader)->ReadRecordBatch(i);
    if (!batch.ok() || !(*batch)->ValidateFull().ok()) return;
    const auto array = (*batch)->column(spec.leaves[0]);
    if (!arrow::is_large_binary_like(array->type_id())) return;
    const auto& column = static_cast<const arrow::LargeBinaryArray&>(*array);
    std::vector<ByteView> views(static_cast<size_t>(column.length()));
    Expect((*texts)->Read(column.length(), views.data(), nullptr, &arena).ok(),
           "the rows that Arrow reads");
    for (int64_t row = 0; row < column.length(); ++row) {
      const ByteView& view = views[static_cast<size_t>(row)];
      Expect(column.GetView(row) ==
                 std::string_view(reinterpret_cast<const char*>(view.data),
                                  static_cast<size_t>(view.size)),
             "text " + std::to_string(row));
    }
  }
}

void Run(const uint8_t* data, size_t size) {
  std::vector<uint8_t> bytes(data, data + size);
  SetChecksum(bytes.data(), bytes.size());
  WriteBytes(bytes.data(), bytes.size());
  uint64_t checked = 0;
  const auto opened = DecodedBlock::Open(BlockPath(), kName, &checked);
  if (opened.state != BlockState::kGood) {
    Expect(checked == 0, "no checksum of a block that is damaged");
    return;
  }
  const int64_t rows = std::min(opened.block->rows(), kMostRows);
  std::mt19937 random(static_cast<uint32_t>(Hash64(data, size, 0)));
  ColumnSpec numbers{.name = "numbers",
                     .leaves = {4},
                     .dtype = DType::kInt32,
                     .depth = 2,
                     .list_size = 2};
  for (ColumnSpec spec :
       {NumberSpec(), VectorSpec(), TextSpec(), ListSpec(), std::move(numbers)}) {
    ReadColumn(opened.block, spec, rows, size, &random);
    // The same type in another field.
    spec.leaves[0] = static_cast<int32_t>(random() % 5);
    ReadColumn(opened.block, spec, rows, size, &random);
  }
  Compare(opened.block, bytes.data(), bytes.size());
}

// Returns a block with a list of lists of vectors, beside the columns of block_file.h.
std::string MakeBlock(std::mt19937* random) {
  auto* const pool = arrow::default_memory_pool();
  const auto vector =
      arrow::fixed_size_list(arrow::field("item", arrow::int32(), false), 2);
  const auto inner = arrow::large_list(arrow::field("item", vector, false));
  const auto outer = arrow::large_list(arrow::field("item", inner, false));
  arrow::FieldVector fields = BlockSchema()->fields();
  fields.push_back(arrow::field("numbers", outer, false));
  const auto schema = arrow::schema(fields);
  unlink(BlockPath().c_str());
  const int fd = open(BlockPath().c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  Expect(fd >= 0, "a file that can be written");
  const auto writer = *DecodedWriter::Make(fd, kName, schema);
  int64_t first = 0;
  for (auto batches = (*random)() % 3; batches < 3; ++batches) {
    const auto rows = static_cast<int64_t>((*random)() % 12);
    std::unique_ptr<arrow::ArrayBuilder> made;
    Status status = arrow::MakeBuilder(pool, outer, &made);
    auto& lists = static_cast<arrow::LargeListBuilder&>(*made);
    auto& inners = static_cast<arrow::LargeListBuilder&>(*lists.value_builder());
    auto& vectors = static_cast<arrow::FixedSizeListBuilder&>(*inners.value_builder());
    auto& numbers = static_cast<arrow::Int32Builder&>(*vectors.value_builder());
    for (int64_t row = 0; row < rows; ++row) {
      status &= lists.Append();
      for (auto i = (*random)() % 3; i > 0; --i) {
        status &= inners.Append();
        for (auto j = (*random)() % 3; j > 0; --j) {
          status &= vectors.Append();
          status &= numbers.AppendValues({1, 2});
        }
      }
    }
    auto columns = BlockRows(first, rows)->columns();
    columns.push_back(*lists.Finish());
    status &= writer->Add(*arrow::RecordBatch::Make(schema, rows, columns));
    Expect(status.ok(), "a block that can be written");
    first += rows;
  }
  Expect(writer->Finish().ok(), "a block that can be written");
  close(fd);
  return ReadBytes();
}

// Changes eight aligned bytes, where offsets and lengths are, to a number near another.
void MutateNumber(uint8_t* data, size_t size, std::mt19937* random) {
  const size_t at = (*random)() % (size / 8) * 8;
  int64_t value = 0;
  std::memcpy(&value, data + at, sizeof(value));
  constexpr std::array<int64_t, 8> kNumbers = {-1, 0,         1,         7,
                                               64, INT64_MAX, INT64_MIN, 1 << 20};
  const int64_t other = kNumbers[(*random)() % kNumbers.size()];
  value = (*random)() % 2 == 0 ? other
                               : static_cast<int64_t>(static_cast<uint64_t>(value) +
                                                      static_cast<uint64_t>(other));
  std::memcpy(data + at, &value, sizeof(value));
}

}  // namespace
}  // namespace fastload::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fastload::testing::Run(data, size);
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {
  using namespace fastload::testing;
  std::mt19937 random(seed);
  const std::string_view file(reinterpret_cast<const char*>(data), size);
  if (!fastload::FindChecksum(file) || random() % 64 == 0) {
    const std::string block = MakeBlock(&random);
    if (block.size() > max_size) return 0;
    std::memcpy(data, block.data(), block.size());
    return block.size();
  }
  for (auto times = 1 + random() % 3; times > 0; --times) {
    switch (random() % 4) {
      case 0:
        data[random() % size] ^= static_cast<uint8_t>(1 << random() % 8);
        break;
      case 1: {
        const size_t at = random() % size;
        const size_t length = std::min<size_t>(1 + random() % 16, size - at);
        LLVMFuzzerMutate(data + at, length, length);
        break;
      }
      default:
        MutateNumber(data, size, &random);
    }
  }
  SetChecksum(data, size);
  return size;
}
