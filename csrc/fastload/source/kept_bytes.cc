#include "fastload/source/kept_bytes.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <system_error>
#include <utility>
#include <vector>

#include "fastload/base/hash.h"
#include "fastload/base/platform.h"

namespace fastload {
namespace {

int Open(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) throw std::system_error(errno, std::generic_category(), path);
  return fd;
}

// Maps a file that no longer changes.
std::string_view Map(int fd) {
  struct stat file{};
  if (!IsOfThisMachine(fd) || fstat(fd, &file) != 0 || file.st_size == 0) return {};
  const auto size = static_cast<size_t>(file.st_size);
  void* const bytes = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  if (bytes == MAP_FAILED) return {};
  return {static_cast<const char*>(bytes), size};
}

}  // namespace

KeptFile::KeptFile(const std::string& path) : fd_(Open(path)), mapped_(Map(fd_)) {}

KeptFile::~KeptFile() {
  if (!mapped_.empty()) munmap(const_cast<char*>(mapped_.data()), mapped_.size());
  close(fd_);
}

Result<std::string> KeptFile::Read(int64_t offset, int64_t bytes) const {
  std::string read(static_cast<size_t>(bytes), '\0');
  for (int64_t done = 0; done < bytes;) {
    const ssize_t n =
        pread(fd_, read.data() + done, static_cast<size_t>(bytes - done), offset + done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      const std::string cause =
          n == 0 ? "the file's end" : std::generic_category().message(errno);
      return MakeError(ErrorKind::kStorage, "Expected " + std::to_string(bytes) +
                                                " bytes of a kept footer, got " + cause);
    }
    done += n;
  }
  return read;
}

Result<KeptFile::Name> KeptFile::GetName() const {
  Name name{.open_as =
                "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(fd_)};
  std::array<char, PATH_MAX> path{};
  struct stat file{};
  const ssize_t length = readlink(name.open_as.c_str(), path.data(), path.size());
  if (length <= 0 || fstat(fd_, &file) != 0) {
    return MakeError(ErrorKind::kStorage, "Expected the path of an open file, got none");
  }
  name.path.assign(path.data(), static_cast<size_t>(length));
  name.device = file.st_dev;
  name.inode = file.st_ino;
  return name;
}

std::shared_ptr<KeptFile> KeptFile::Of(const Name& name) {
  struct stat file{};
  const bool there = stat(name.path.c_str(), &file) == 0 && file.st_dev == name.device &&
                     file.st_ino == name.inode;
  // A file that was removed is still open in the process that told its name.
  return std::make_shared<KeptFile>(there ? name.path : name.open_as);
}

Result<uint64_t> KeptFile::Hash(int64_t offset) const {
  Hash64Stream hash;
  std::vector<char> block(1 << 20);
  for (;;) {
    const ssize_t n = pread(fd_, block.data(), block.size(), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      return MakeError(ErrorKind::kStorage, "Expected the bytes of a kept file, got " +
                                                std::generic_category().message(errno));
    }
    if (n == 0) return hash.Digest();
    hash.Update(block.data(), static_cast<size_t>(n));
    offset += n;
  }
}

Status KeptBytes::Check(int64_t offset, int64_t bytes) const {
  if (offset >= 0 && bytes >= 0 && offset <= size_ && bytes <= size_ - offset) {
    return Status::OK();
  }
  return Status::Invalid("Expected a range of the ", size_, " kept bytes, got ", bytes,
                         " bytes from offset ", offset);
}

Result<std::string> KeptBytes::Read(int64_t offset, int64_t bytes) const {
  ARROW_RETURN_NOT_OK(Check(offset, bytes));
  if (file_ != nullptr) return file_->Read(offset_ + offset, bytes);
  if (bytes_ == nullptr) return std::string();
  return bytes_->substr(static_cast<size_t>(offset), static_cast<size_t>(bytes));
}

Result<BytesView> KeptBytes::View(int64_t offset, int64_t bytes) const {
  ARROW_RETURN_NOT_OK(Check(offset, bytes));
  const auto size = static_cast<size_t>(bytes);
  if (file_ == nullptr && bytes_ != nullptr) {
    return BytesView{std::string_view(*bytes_).substr(static_cast<size_t>(offset), size),
                     bytes_};
  }
  if (file_ != nullptr) {
    const std::string_view mapped = file_->Mapped();
    const auto start = static_cast<size_t>(offset_ + offset);
    if (start <= mapped.size() && size <= mapped.size() - start && size > 0) {
      return BytesView{mapped.substr(start, size), file_};
    }
  }
  ARROW_ASSIGN_OR_RAISE(std::string read, Read(offset, bytes));
  const auto owner = std::make_shared<const std::string>(std::move(read));
  return BytesView{*owner, owner};
}

}  // namespace fastload
