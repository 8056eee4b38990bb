#include "fastload/fetch/range_entry.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <system_error>
#include <utility>
#include <vector>

#include "fastload/base/hash.h"

namespace fastload {
namespace {

constexpr std::array<char, 8> kMagic = {'F', 'L', 'R', 'A', 'N', 'G', 'E', '1'};
// The buffer size when a whole entry is checked but only a part is wanted: a size that
// stays in the CPU's cache.
constexpr int64_t kScratchBytes = 256 << 10;
// The number of attempts. A directory that disappears between two steps was removed by
// another process that evicts entries.
constexpr int kTries = 8;

struct Head {
  std::array<char, 8> magic;
  int64_t offset;
  int64_t bytes;
  uint64_t object;  // XXH64 of the object's name
  std::array<uint8_t, 24> reserved;
  uint64_t checksum;  // XXH64 of the bytes, seeded with the XXH64 of the head up to here
};
static_assert(sizeof(Head) == 64);

Head HeadOf(const RangeEntry& entry) {
  Head head{};
  head.magic = kMagic;
  head.offset = entry.range.offset;
  head.bytes = entry.range.bytes;
  head.object = Hash64(entry.object.data(), entry.object.size(), 0);
  return head;
}

uint64_t SeedOf(const Head& head) { return Hash64(&head, offsetof(Head, checksum), 0); }

// A file descriptor that the destructor closes.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

bool ReadAll(int fd, int64_t offset, int64_t bytes, void* out) {
  auto* to = static_cast<uint8_t*>(out);
  while (bytes > 0) {
    const ssize_t n = pread(fd, to, static_cast<size_t>(bytes), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    to += n;
    offset += n;
    bytes -= n;
  }
  return true;
}

// Writes the head, and the bytes behind the head, to the start of the file.
bool WriteAll(int fd, const Head& head, const uint8_t* bytes) {
  constexpr auto kHead = static_cast<int64_t>(sizeof(Head));
  const int64_t size = kHead + head.bytes;
  for (int64_t at = 0; at < size;) {
    const int64_t in_head = std::min(at, kHead);
    const int64_t behind = at - in_head;
    // The const_casts are safe, because pwritev does not modify the buffers.
    std::array<iovec, 2> parts{{
        {const_cast<char*>(reinterpret_cast<const char*>(&head)) + in_head,
         static_cast<size_t>(kHead - in_head)},
        {const_cast<uint8_t*>(bytes) + behind, static_cast<size_t>(head.bytes - behind)},
    }};
    const ssize_t n = pwritev(fd, parts.data(), static_cast<int>(parts.size()), at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    at += n;
  }
  return true;
}

// Returns the checksum of the file's bytes behind the head, or nullopt if the bytes can't
// be read.
std::optional<uint64_t> ChecksumOf(int fd, const Head& head) {
  XXH64_state_t state;
  XXH64_reset(&state, SeedOf(head));
  std::vector<uint8_t> scratch(static_cast<size_t>(std::min(kScratchBytes, head.bytes)));
  for (int64_t at = 0; at < head.bytes; at += kScratchBytes) {
    const int64_t n = std::min(kScratchBytes, head.bytes - at);
    if (!ReadAll(fd, static_cast<int64_t>(sizeof(Head)) + at, n, scratch.data())) {
      return std::nullopt;
    }
    XXH64_update(&state, scratch.data(), static_cast<size_t>(n));
  }
  return XXH64_digest(&state);
}

// Copies the wanted bytes to `out`. Returns true if they are the bytes that were written.
bool ReadChecked(int fd, const RangeEntry& entry, const ByteRange& wanted,
                 uint64_t* checked, uint8_t* out) {
  struct stat status{};
  if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) return false;
  constexpr auto kHead = static_cast<int64_t>(sizeof(Head));
  if (status.st_size != kHead + entry.range.bytes) return false;
  Head head{};
  if (!ReadAll(fd, 0, kHead, &head)) return false;
  const Head expected = HeadOf(entry);
  if (std::memcmp(&head, &expected, offsetof(Head, checksum)) != 0) return false;
  const bool known = *checked == head.checksum && head.checksum != 0;
  const bool whole = wanted.bytes == entry.range.bytes;
  if (!known && !whole && ChecksumOf(fd, head) != head.checksum) return false;
  const int64_t from = kHead + wanted.offset - entry.range.offset;
  if (!ReadAll(fd, from, wanted.bytes, out)) return false;
  if (!known && whole &&
      Hash64(out, static_cast<size_t>(wanted.bytes), SeedOf(head)) != head.checksum) {
    return false;
  }
  *checked = head.checksum;
  return true;
}

bool IsAt(int fd, const std::string& path) {
  struct stat own{};
  struct stat there{};
  return fstat(fd, &own) == 0 && lstat(path.c_str(), &there) == 0 &&
         own.st_ino == there.st_ino && own.st_dev == there.st_dev;
}

// Makes the directory and the two directories above.
void MakeDirectories(const std::string& directory) {
  const size_t last = directory.rfind('/');
  const size_t before = last == std::string::npos ? last : directory.rfind('/', last - 1);
  if (before != std::string::npos) mkdir(directory.substr(0, before).c_str(), 0700);
  if (last != std::string::npos) mkdir(directory.substr(0, last).c_str(), 0700);
  mkdir(directory.c_str(), 0700);
}

Status WriteError(const RangeEntry& entry, int error) {
  return At(MakeError(ErrorKind::kStorage, std::generic_category().message(error)),
            Location{.file = entry.directory});
}

}  // namespace

std::string RangeName(const ByteRange& range) {
  return std::to_string(range.offset) + "-" + std::to_string(range.offset + range.bytes);
}

std::optional<ByteRange> RangeOfName(std::string_view name) {
  int64_t first = 0;
  int64_t end = 0;
  const char* const last = name.end();
  const auto dash = std::from_chars(name.begin(), last, first);
  if (dash.ec != std::errc() || dash.ptr == last || *dash.ptr != '-') return std::nullopt;
  const auto rest = std::from_chars(dash.ptr + 1, last, end);
  if (rest.ec != std::errc() || rest.ptr != last || first < 0 || end <= first) {
    return std::nullopt;
  }
  return ByteRange{first, end - first};
}

EntryState ReadEntry(const RangeEntry& entry, const ByteRange& wanted, uint64_t* checked,
                     uint8_t* out) {
  const std::string path = entry.path();
  const Descriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (fd.get() < 0) return EntryState::kMissing;
  // The lock keeps other processes from evicting the entry. If the lock is refused, the
  // entry is read nevertheless.
  flock(fd.get(), LOCK_SH | LOCK_NB);
  const bool good = ReadChecked(fd.get(), entry, wanted, checked, out);
  if (!good && IsAt(fd.get(), path)) unlink(path.c_str());
  // close() alone is not enough: a fork's child may hold the descriptor, too.
  flock(fd.get(), LOCK_UN);
  return good ? EntryState::kGood : EntryState::kDamaged;
}

Result<std::unique_ptr<RangeClaim>> RangeClaim::Take(RangeEntry entry, bool* there) {
  const std::string path = entry.path();
  const std::string part = entry.part_path();
  *there = false;
  for (int i = 0; i < kTries; ++i) {
    Descriptor fd(open(part.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (fd.get() < 0) {
      if (errno != ENOENT) return WriteError(entry, errno);
      MakeDirectories(entry.directory);
      continue;
    }
    if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK) return nullptr;
      return WriteError(entry, errno);
    }
    // The previous holder has renamed or removed the file meanwhile.
    if (!IsAt(fd.get(), part)) continue;
    std::unique_ptr<RangeClaim> claim(new RangeClaim(std::move(entry), fd.release()));
    if (access(path.c_str(), F_OK) == 0) {
      *there = true;
      return nullptr;
    }
    // Remove the bytes that a dead process has left.
    struct stat left{};
    if (fstat(claim->fd_, &left) != 0 ||
        (left.st_size > 0 && ftruncate(claim->fd_, 0) != 0)) {
      return WriteError(claim->entry_, errno);
    }
    return claim;
  }
  return WriteError(entry, ENOENT);
}

RangeClaim::~RangeClaim() { Release(); }

Result<int64_t> RangeClaim::Publish(const uint8_t* bytes) {
  if (!held())
    return MakeError(ErrorKind::kStorage, "Expected a held claim, got a released one");
  Head head = HeadOf(entry_);
  head.checksum = Hash64(bytes, static_cast<size_t>(head.bytes), SeedOf(head));
  struct stat status{};
  if (!WriteAll(fd_, head, bytes) || fstat(fd_, &status) != 0 ||
      rename(entry_.part_path().c_str(), entry_.path().c_str()) != 0) {
    const int error = errno;
    Release();
    return WriteError(entry_, error);
  }
  Unlock();
  return static_cast<int64_t>(status.st_blocks) * 512;
}

void RangeClaim::Release() {
  if (!held()) return;
  unlink(entry_.part_path().c_str());
  Unlock();
}

void RangeClaim::Unlock() {
  // close() alone is not enough: a fork's child may hold the descriptor, too.
  flock(fd_, LOCK_UN);
  close(std::exchange(fd_, -1));
}

}  // namespace fastload
