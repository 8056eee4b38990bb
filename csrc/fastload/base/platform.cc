#include "fastload/base/platform.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <random>
#include <system_error>

#if defined(__linux__) && !defined(FASTLOAD_PORTABLE)
#define FASTLOAD_LINUX_CALLS
#include <sys/eventfd.h>
#include <sys/statfs.h>
#include <sys/uio.h>
#endif
#if defined(__linux__)
#include <sys/syscall.h>
#elif defined(__APPLE__)
#include <mach/mach.h>
#endif

namespace fastload {

size_t MostOpenFiles() {
  constexpr rlim_t kShare = 4;
  constexpr rlim_t kLeast = 16;
  constexpr rlim_t kMost = 1024;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return kLeast;
  return static_cast<size_t>(std::clamp(limit.rlim_cur / kShare, kLeast, kMost));
}

int64_t CoreCacheBytes() {
  constexpr int64_t kUsual = 1 << 20;
  static const int64_t bytes = [] {
#if defined(_SC_LEVEL2_CACHE_SIZE)
    const int64_t size = sysconf(_SC_LEVEL2_CACHE_SIZE);
    if (size > 0) return size;
#endif
    return kUsual;
  }();
  return bytes;
}

int64_t ModifiedNs(const struct stat& status) {
#if defined(__APPLE__)
  const timespec& at = status.st_mtimespec;
#else
  const timespec& at = status.st_mtim;
#endif
  return static_cast<int64_t>(at.tv_sec) * 1'000'000'000 + at.tv_nsec;
}

int64_t ThreadNumber() {
#if defined(__APPLE__)
  uint64_t number = 0;
  pthread_threadid_np(nullptr, &number);
  return static_cast<int64_t>(number);
#else
  return syscall(SYS_gettid);
#endif
}

int64_t ThreadCpuNs(pthread_t thread) {
#if defined(__APPLE__)
  thread_basic_info used{};
  mach_msg_type_number_t words = THREAD_BASIC_INFO_COUNT;
  if (thread_info(pthread_mach_thread_np(thread), THREAD_BASIC_INFO,
                  reinterpret_cast<thread_info_t>(&used), &words) != KERN_SUCCESS) {
    return 0;
  }
  const auto ns = [](const time_value_t& time) {
    return int64_t{time.seconds} * 1'000'000'000 + int64_t{time.microseconds} * 1000;
  };
  return ns(used.user_time) + ns(used.system_time);
#else
  clockid_t clock{};
  timespec used{};
  if (pthread_getcpuclockid(thread, &clock) != 0 || clock_gettime(clock, &used) != 0) {
    return 0;
  }
  return int64_t{used.tv_sec} * 1'000'000'000 + used.tv_nsec;
#endif
}

void NameThread(const std::string& name) {
  const std::string kept = name.substr(0, 15);
#if defined(__APPLE__)
  pthread_setname_np(kept.c_str());
#else
  pthread_setname_np(pthread_self(), kept.c_str());
#endif
}

#if defined(FASTLOAD_LINUX_CALLS)

int MakeAnonymousFile() {
  return memfd_create("fastload-batches", MFD_CLOEXEC | MFD_ALLOW_SEALING);
}

void KeepSize(int fd) {
  (void)fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
}

void LeaveOutOfDumps(void* data, size_t bytes) { madvise(data, bytes, MADV_DONTDUMP); }

void AdviseHugePages(void* data, size_t bytes) { madvise(data, bytes, MADV_HUGEPAGE); }

bool IsTouched(void* data) {
  unsigned char page = 1;
  return mincore(data, 1, &page) != 0 || (page & 1) != 0;
}

bool IsOfThisMachine(int fd) {
#if defined(FASTLOAD_LINUX_CALLS)
  struct statfs found{};
  if (fstatfs(fd, &found) != 0) return false;
  // ext, XFS, Btrfs, tmpfs, overlay, ZFS, F2FS.
  constexpr uint32_t kLocal[] = {0xef53,     0x58465342, 0x9123683e, 0x01021994,
                                 0x794c7630, 0x2fc12fc1, 0xf2f52010};
  return std::ranges::find(kLocal, static_cast<uint32_t>(found.f_type)) !=
         std::ranges::end(kLocal);
#else
  static_cast<void>(fd);
  return false;
#endif
}

bool IsByteCached(int fd, int64_t offset) {
  uint8_t byte = 0;
  const iovec one{.iov_base = &byte, .iov_len = 1};
  return preadv2(fd, &one, 1, offset, RWF_NOWAIT) == 1;
}

void BringAhead(int fd, int64_t offset, int64_t bytes) {
  // Linux reads no more per call than its readahead size, which is usually 128 KiB.
  constexpr int64_t kStep = 128 << 10;
  for (int64_t at = 0; at < bytes; at += kStep) {
    // A refusal does no harm: the bytes are then read when they are needed.
    [[maybe_unused]] const int refused =
        posix_fadvise(fd, offset + at, std::min(kStep, bytes - at), POSIX_FADV_WILLNEED);
  }
}

WakeEvent::WakeEvent()
    : read_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), write_fd_(read_fd_) {
  if (read_fd_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
}

WakeEvent::~WakeEvent() { close(read_fd_); }

void WakeEvent::Set() const {
  // The write can only fail if the descriptor is readable already.
  [[maybe_unused]] const int written = eventfd_write(write_fd_, 1);
}

void WakeEvent::Clear() const {
  eventfd_t count = 0;
  // An event that is not set is no error.
  [[maybe_unused]] const int read = eventfd_read(read_fd_, &count);
}

#else

int MakeAnonymousFile() {
  constexpr int kTries = 16;
  std::random_device random;
  for (int i = 0; i < kTries; ++i) {
    // macOS accepts names of at most 31 letters; this name has at most 22.
    const std::string name = "/fastload-" + std::to_string(random()) + std::to_string(i);
    const int fd = shm_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
    if (fd < 0 && errno == EEXIST) continue;
    if (fd >= 0) {
      shm_unlink(name.c_str());
      // POSIX leaves open whether shm_open sets FD_CLOEXEC.
      fcntl(fd, F_SETFD, FD_CLOEXEC);
    }
    return fd;
  }
  return -1;
}

void KeepSize(int /*fd*/) {}

void LeaveOutOfDumps(void* /*data*/, size_t /*bytes*/) {}

void AdviseHugePages(void* /*data*/, size_t /*bytes*/) {}

bool IsTouched(void* /*data*/) { return true; }

bool IsByteCached(int /*fd*/, int64_t /*offset*/) { return false; }

void BringAhead(int /*fd*/, int64_t /*offset*/, int64_t /*bytes*/) {}

WakeEvent::WakeEvent() {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) {
    throw std::system_error(errno, std::generic_category(), "pipe");
  }
  for (const int fd : ends) {
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    fcntl(fd, F_SETFL, O_NONBLOCK);
  }
  read_fd_ = ends[0];
  write_fd_ = ends[1];
}

WakeEvent::~WakeEvent() {
  close(read_fd_);
  close(write_fd_);
}

void WakeEvent::Set() const {
  const char byte = 0;
  // The write can only fail if the pipe is full, and a full pipe is readable already.
  [[maybe_unused]] const ssize_t written = write(write_fd_, &byte, 1);
}

void WakeEvent::Clear() const {
  std::array<char, 256> bytes{};
  while (read(read_fd_, bytes.data(), bytes.size()) > 0) continue;
}

#endif

}  // namespace fastload
