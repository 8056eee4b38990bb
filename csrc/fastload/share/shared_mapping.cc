#include "fastload/share/shared_mapping.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "fastload/base/platform.h"

namespace fastload {
namespace {

constexpr int64_t kLeastBytes = int64_t{1} << 20;

Status Refused(const char* what, int64_t bytes) {
  return MakeError(ErrorKind::kStorage, "Expected " + std::to_string(bytes) +
                                            " bytes of shared memory, got " +
                                            std::strerror(errno) + " from " + what);
}

uint8_t* MapFile(int fd, int64_t bytes) {
  const auto size = static_cast<size_t>(bytes);
  void* data =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (data == MAP_FAILED) return nullptr;
  LeaveOutOfDumps(data, size);
  // Linux follows the advice where shmem_enabled is "advise".
  AdviseHugePages(data, size);
  return static_cast<uint8_t*>(data);
}

}  // namespace

Result<std::shared_ptr<SharedMapping>> SharedMapping::Make(int64_t bytes) {
  // The system answers a file above this limit with a signal instead of an error.
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    bytes = std::min(bytes, static_cast<int64_t>(limit.rlim_cur));
  }
  for (;; bytes /= 2) {
    const int fd = MakeAnonymousFile();
    if (fd < 0) return Refused("a new anonymous file", bytes);
    uint8_t* const data = ftruncate(fd, bytes) == 0 ? MapFile(fd, bytes) : nullptr;
    if (data != nullptr) {
      // Truncating the file would kill every process that reads the mapping.
      KeepSize(fd);
      return std::shared_ptr<SharedMapping>(new SharedMapping(data, bytes, fd));
    }
    const Status status = Refused("mmap", bytes);
    close(fd);
    if (bytes / 2 < kLeastBytes) return status;
  }
}

Result<std::shared_ptr<SharedMapping>> SharedMapping::Open(int fd) {
  struct stat info{};
  if (fstat(fd, &info) != 0) return Refused("fstat", 0);
  uint8_t* data = MapFile(fd, info.st_size);
  if (data == nullptr) return Refused("mmap", info.st_size);
  return std::shared_ptr<SharedMapping>(new SharedMapping(data, info.st_size, -1));
}

SharedMapping::~SharedMapping() {
  munmap(data_, static_cast<size_t>(size_));
  if (fd_ >= 0) close(fd_);
}

}  // namespace fastload
