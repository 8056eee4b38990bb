#include "fastload/blocks/decoded_block.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstring>
#include <span>

#include "arrow/array/data.h"
#include "arrow/extension_type.h"
#include "arrow/io/memory.h"
#include "arrow/ipc/reader.h"
#include "arrow/type.h"
#include "arrow/type_traits.h"
#include "arrow/util/byte_size.h"
#include "fastload/base/hash.h"
#include "fastload/base/platform.h"

namespace fastload {
namespace {

// The magic at the end of an Arrow IPC file, behind the bytes of the footer.
constexpr std::string_view kMagic = "ARROW1";
constexpr size_t kTailBytes = sizeof(int32_t) + kMagic.size();

// True once reads of this process's blocks have taken long. Then a block is better
// requested as a whole than by the system's readahead, which suffices on fast disks.
std::atomic<bool> disk_is_slow = false;

// Hashes bytes that may only be on disk.
void HashMapped(XXH64_state_t* state, std::string_view bytes) {
  // A piece slower than 70 MB/s shows a slow disk: a disk that is busy with this file
  // alone is faster.
  constexpr size_t kPiece = 4 << 20;
  constexpr auto kLong = std::chrono::milliseconds(60);
  for (size_t at = 0; at < bytes.size(); at += kPiece) {
    const std::string_view piece = bytes.substr(at, kPiece);
    const auto begin = std::chrono::steady_clock::now();
    XXH64_update(state, piece.data(), piece.size());
    if (std::chrono::steady_clock::now() - begin > kLong) disk_is_slow = true;
  }
}

// Hashes a file as the writer did: with zeros in place of the checksum's digits.
uint64_t ChecksumOf(std::string_view file, size_t digits, const std::string& name) {
  XXH64_state_t state;
  XXH64_reset(&state, Hash64(name.data(), name.size(), 0));
  HashMapped(&state, file.substr(0, digits));
  XXH64_update(&state, kNoChecksum.data(), kNoChecksum.size());
  HashMapped(&state, file.substr(digits + kNoChecksum.size()));
  return XXH64_digest(&state);
}

// Returns the Arrow type of a dtype. Dtypes without an Arrow type are stored as integers
// of the same size.
arrow::Type::type TypeOf(DType dtype) {
  switch (dtype) {
    case DType::kBool:
    case DType::kInt8:
      return arrow::Type::INT8;
    case DType::kUInt8:
      return arrow::Type::UINT8;
    case DType::kUInt16:
    case DType::kBFloat16:
      return arrow::Type::UINT16;
    case DType::kInt16:
      return arrow::Type::INT16;
    case DType::kUInt32:
      return arrow::Type::UINT32;
    case DType::kInt32:
      return arrow::Type::INT32;
    case DType::kUInt64:
      return arrow::Type::UINT64;
    case DType::kInt64:
      return arrow::Type::INT64;
    case DType::kFloat16:
      return arrow::Type::HALF_FLOAT;
    case DType::kFloat32:
      return arrow::Type::FLOAT;
    case DType::kFloat64:
      return arrow::Type::DOUBLE;
  }
  return arrow::Type::NA;
}

// A walk down the levels of an array.
class Walk {
 public:
  explicit Walk(const arrow::ArrayData& data) : data_(&data) {}

  const arrow::DataType& type() const { return *StorageOf(data_->type.get()); }
  // Returns true if the array has the form that the writer writes.
  bool plain() const { return data_->offset == 0 && !data_->MayHaveNulls(); }
  const uint8_t* buffer(size_t index) const {
    const auto& buffer = data_->buffers[index];
    return buffer == nullptr ? nullptr : buffer->data();
  }
  int64_t buffer_bytes(size_t index) const {
    const auto& buffer = data_->buffers[index];
    return buffer == nullptr ? 0 : buffer->size();
  }
  int64_t length() const { return data_->length; }
  void Down() { data_ = data_->child_data[0].get(); }

 private:
  const arrow::ArrayData* data_;
};

// Returns true if the bytes can be read as the offsets of `lists` lists.
bool HoldsOffsets(const uint8_t* bytes, int64_t buffer_bytes, int64_t lists) {
  constexpr auto kBytes = static_cast<int64_t>(sizeof(int64_t));
  return lists >= 0 && lists < buffer_bytes / kBytes &&
         reinterpret_cast<uintptr_t>(bytes) % alignof(int64_t) == 0;
}

// Returns the offsets of `lists` lists with `length` entries in all, or null if the
// offsets don't fit these numbers. The offsets between the ends were checked with the
// checksum.
const int64_t* Offsets(const uint8_t* bytes, int64_t buffer_bytes, int64_t lists,
                       int64_t length) {
  static constexpr int64_t kNone[1] = {0};
  if (lists == 0) return kNone;
  if (!HoldsOffsets(bytes, buffer_bytes, lists)) return nullptr;
  const auto* offsets = reinterpret_cast<const int64_t*>(bytes);
  if (offsets[0] != 0 || offsets[lists] > length) return nullptr;
  return offsets;
}

// Returns true if no offset (of at least one) is negative or less than the one before.
bool AreOrdered(std::span<const int64_t> offsets) {
  // The sign bit of the difference of two numbers that are not negative tells which is
  // the larger. One such bit for all offsets needs no branch, so the compiler makes
  // vector instructions of the loop.
  auto signs = static_cast<uint64_t>(offsets[0]);
  for (size_t i = 1; i < offsets.size(); ++i) {
    const auto now = static_cast<uint64_t>(offsets[i]);
    signs |= (now - static_cast<uint64_t>(offsets[i - 1])) | now;
  }
  return static_cast<int64_t>(signs) >= 0;
}

// Returns true if all offsets of an array and of the arrays below are ordered, so that no
// list has a negative length, nor the array itself.
bool HasOrderedOffsets(const arrow::ArrayData& data) {
  if (data.length < 0) return false;
  const arrow::Type::type id = StorageOf(data.type.get())->id();
  if ((id == arrow::Type::LARGE_LIST || arrow::is_large_binary_like(id)) &&
      data.length > 0) {
    const auto& bytes = data.buffers[1];
    if (data.offset != 0 || bytes == nullptr ||
        !HoldsOffsets(bytes->data(), bytes->size(), data.length)) {
      return false;
    }
    const auto count = static_cast<size_t>(data.length) + 1;
    if (!AreOrdered({reinterpret_cast<const int64_t*>(bytes->data()), count})) {
      return false;
    }
  }
  return std::ranges::all_of(data.child_data,
                             [](const auto& child) { return HasOrderedOffsets(*child); });
}

bool HaveOrderedOffsets(const std::shared_ptr<arrow::RecordBatch>& batch) {
  return std::ranges::all_of(batch->column_data(), [](const auto& column) {
    return HasOrderedOffsets(*column);
  });
}

// Returns the run of one record batch's column, or nullopt if the column has another
// type.
std::optional<DecodedBlock::Run> RunOf(const arrow::ArrayData& data,
                                       const ColumnSpec& spec) {
  DecodedBlock::Run run{.rows = data.length};
  Walk at(data);
  for (int32_t level = 0; level < spec.depth; ++level) {
    if (at.type().id() != arrow::Type::LARGE_LIST || !at.plain()) return std::nullopt;
    const uint8_t* const bytes = at.buffer(1);
    const int64_t size = at.buffer_bytes(1);
    const int64_t lists = at.length();
    at.Down();
    run.offsets.push_back(Offsets(bytes, size, lists, at.length()));
    if (run.offsets.back() == nullptr) return std::nullopt;
  }
  int64_t items = at.length();
  if (spec.list_size > 0) {
    if (at.type().id() != arrow::Type::FIXED_SIZE_LIST || !at.plain())
      return std::nullopt;
    const auto& list = static_cast<const arrow::FixedSizeListType&>(at.type());
    if (list.list_size() != spec.list_size) return std::nullopt;
    if (__builtin_mul_overflow(items, spec.list_size, &items)) return std::nullopt;
    at.Down();
  }
  if (!at.plain()) return std::nullopt;
  if (spec.bytes) {
    const auto id = at.type().id();
    if (id != arrow::Type::LARGE_STRING && id != arrow::Type::LARGE_BINARY) {
      return std::nullopt;
    }
    run.offsets.push_back(
        Offsets(at.buffer(1), at.buffer_bytes(1), at.length(), at.buffer_bytes(2)));
    if (run.offsets.back() == nullptr) return std::nullopt;
    run.values = at.buffer(2);
    return run;
  }
  if (at.type().id() != TypeOf(spec.dtype)) return std::nullopt;
  if (at.buffer_bytes(1) / ItemSize(spec.dtype) < items) return std::nullopt;
  run.values = at.buffer(1);
  return run;
}

}  // namespace

const arrow::DataType* StorageOf(const arrow::DataType* type) {
  if (type->id() != arrow::Type::EXTENSION) return type;
  return static_cast<const arrow::ExtensionType*>(type)->storage_type().get();
}

std::optional<size_t> FindChecksum(std::string_view file) {
  if (file.size() < 2 * kMagic.size() + sizeof(int32_t)) return std::nullopt;
  if (!file.starts_with(kMagic) || !file.ends_with(kMagic)) return std::nullopt;
  const size_t tail = file.size() - kTailBytes;
  int32_t footer_bytes = 0;
  std::memcpy(&footer_bytes, file.data() + tail, sizeof(footer_bytes));
  if (footer_bytes < 0 || static_cast<size_t>(footer_bytes) > tail) return std::nullopt;
  const size_t first = tail - static_cast<size_t>(footer_bytes);
  const std::string_view footer = file.substr(first, static_cast<size_t>(footer_bytes));
  const size_t mark = footer.rfind(kChecksumMark);
  if (mark == std::string_view::npos) return std::nullopt;
  const size_t digits = mark + kChecksumMark.size();
  if (digits + kNoChecksum.size() > footer.size()) return std::nullopt;
  return first + digits;
}

DecodedBlock::Opened DecodedBlock::Open(const std::string& path, const std::string& name,
                                        uint64_t* checked) {
  // The owner of the descriptor and of the mapping is made first.
  const std::shared_ptr<DecodedBlock> block(new DecodedBlock);
  const int fd = block->fd_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return {};
  // The lock keeps other processes from evicting the block. If the lock is refused, the
  // block is read nevertheless.
  flock(fd, LOCK_SH | LOCK_NB);
  struct stat status{};
  if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0) {
    const auto bytes = static_cast<size_t>(status.st_size);
    if (disk_is_slow) BringAhead(fd, 0, status.st_size);
    void* const mapped = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (mapped != MAP_FAILED) {
      block->data_ = static_cast<const uint8_t*>(mapped);
      block->bytes_ = bytes;
    }
  }
  if (block->data_ != nullptr && block->IsGood(name, checked)) {
    return {BlockState::kGood, block};
  }
  struct stat there{};
  if (lstat(path.c_str(), &there) == 0 && there.st_ino == status.st_ino &&
      there.st_dev == status.st_dev) {
    unlink(path.c_str());
  }
  return {BlockState::kDamaged, nullptr};
}

std::shared_ptr<const DecodedBlock> DecodedBlock::Hold(
    std::vector<std::shared_ptr<arrow::RecordBatch>> batches,
    std::shared_ptr<std::atomic<int64_t>> held_bytes) {
  const std::shared_ptr<DecodedBlock> block(new DecodedBlock);
  for (const auto& batch : batches) {
    block->rows_ += batch->num_rows();
    block->held_ += arrow::util::TotalBufferSize(*batch);
  }
  block->batches_ = std::move(batches);
  block->all_held_ = std::move(held_bytes);
  *block->all_held_ += block->held_;
  return block;
}

DecodedBlock::~DecodedBlock() {
  if (all_held_ != nullptr) {
    batches_.clear();
    *all_held_ -= held_;
  }
  if (fd_ < 0) return;
  batches_.clear();
  if (data_ != nullptr) munmap(const_cast<uint8_t*>(data_), bytes_);
  // close() alone is not enough: a fork's child may hold the descriptor, too.
  flock(fd_, LOCK_UN);
  close(fd_);
}

bool DecodedBlock::IsGood(const std::string& name, uint64_t* checked) {
  const std::string_view file(reinterpret_cast<const char*>(data_), bytes_);
  const auto digits = FindChecksum(file);
  if (!digits) return false;
  uint64_t said = 0;
  const char* const first = file.data() + *digits;
  const char* const last = first + kNoChecksum.size();
  const auto [end, error] = std::from_chars(first, last, said, 16);
  if (error != std::errc() || end != last) return false;
  const bool known = said != 0 && *checked == said;
  if (!known && ChecksumOf(file, *digits, name) != said) return false;
  if (!Parse().ok()) return false;
  if (!known && !std::ranges::all_of(batches_, HaveOrderedOffsets)) return false;
  *checked = said;
  return true;
}

Status DecodedBlock::Parse() {
  const auto mapped =
      std::make_shared<arrow::Buffer>(data_, static_cast<int64_t>(bytes_));
  auto options = arrow::ipc::IpcReadOptions::Defaults();
  options.use_threads = false;
  options.memory_pool = &memory_.emplace(arrow::default_memory_pool(), mapped->size());
  ARROW_ASSIGN_OR_RAISE(const auto reader,
                        arrow::ipc::RecordBatchFileReader::Open(
                            std::make_shared<arrow::io::BufferReader>(mapped), options));
  for (int i = 0; i < reader->num_record_batches(); ++i) {
    ARROW_ASSIGN_OR_RAISE(batches_.emplace_back(), reader->ReadRecordBatch(i));
    if (__builtin_add_overflow(rows_, batches_.back()->num_rows(), &rows_)) {
      return Status::Invalid("Expected fewer rows");
    }
  }
  return Status::OK();
}

Result<std::vector<DecodedBlock::Run>> DecodedBlock::Column(
    const ColumnSpec& spec) const {
  std::vector<Run> runs;
  runs.reserve(batches_.size());
  const int32_t field = spec.leaves[0];
  for (const auto& batch : batches_) {
    std::optional<Run> run;
    if (field < batch->num_columns()) run = RunOf(*batch->column_data(field), spec);
    if (!run) {
      return MakeError(ErrorKind::kStorage,
                       "Expected a block in the cache with the columns that this dataset "
                       "writes, got " +
                           batch->schema()->ToString());
    }
    runs.push_back(*std::move(run));
  }
  return runs;
}

}  // namespace fastload
