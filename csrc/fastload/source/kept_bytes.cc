#include "fastload/source/kept_bytes.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace fastload {
namespace {

int Open(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw std::system_error(errno, std::generic_category(), path);
  return fd;
}

}  // namespace

KeptFile::KeptFile(const std::string& path) : fd_(Open(path)) {}

KeptFile::~KeptFile() { close(fd_); }

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

Result<std::string> KeptBytes::Read(int64_t offset, int64_t bytes) const {
  if (offset < 0 || bytes < 0 || offset > size_ || bytes > size_ - offset) {
    return Status::Invalid("Expected a range of the ", size_, " kept bytes, got ", bytes,
                           " bytes from offset ", offset);
  }
  if (file_ != nullptr) return file_->Read(offset_ + offset, bytes);
  return bytes_.substr(static_cast<size_t>(offset), static_cast<size_t>(bytes));
}

}  // namespace fastload
