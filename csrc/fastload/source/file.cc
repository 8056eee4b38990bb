#include "fastload/source/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "fastload/base/platform.h"

namespace fastload {
namespace {

std::string ErrnoText() { return std::generic_category().message(errno); }

// Makes the error of a path that the system could not find or open.
Status SystemError(const std::string& expected, const std::string& path) {
  const bool gone = errno == ENOENT || errno == ENOTDIR || errno == ESTALE;
  const auto kind = gone ? ErrorKind::kSourceChanged : ErrorKind::kStorage;
  return At(MakeError(kind, expected + ", got: " + ErrnoText()), Location{.file = path});
}

Status OpenError(const std::string& path) {
  return SystemError("Expected to open the file", path);
}

Status StatError(const std::string& path) {
  return SystemError("Expected the file's size and time", path);
}

}  // namespace

Result<std::shared_ptr<LocalFile>> LocalFile::Open(const FileSpec& spec) {
  std::shared_ptr<LocalFile> file(new LocalFile(spec));
  // A pipe in the place of the file is no file, and is not waited for.
  file->fd_ = open(spec.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file->fd_ < 0) return OpenError(spec.path);
  struct stat now{};
  if (fstat(file->fd_, &now) != 0) return StatError(spec.path);
  ARROW_RETURN_NOT_OK(file->CheckUnchanged(now));
  file->inode_ = now.st_ino;
  if (spec.inode != 0 && spec.inode != now.st_ino) {
    ARROW_RETURN_NOT_OK(file->CheckFooter(spec));
  }
  return file;
}

LocalFile::~LocalFile() {
  if (fd_ >= 0) close(fd_);
  --live_files;
}

Status LocalFile::CheckUnchanged(const struct stat& now) const {
  if (now.st_size == bytes_ && ModifiedNs(now) == mtime_ns_) return Status::OK();
  return At(MakeError(ErrorKind::kSourceChanged,
                      "Expected the file as its footer was read (" +
                          std::to_string(bytes_) + " bytes), got one of " +
                          std::to_string(now.st_size) + " bytes, modified since"),
            Location{.file = path_});
}

Status LocalFile::CheckFooter(const FileSpec& spec) const {
  const auto changed = [&] {
    return At(MakeError(ErrorKind::kSourceChanged,
                        "Expected the file as its footer was read, got another file of "
                        "the same size and time"),
              Location{.file = path_});
  };
  constexpr int64_t kTrailerBytes = 8;
  if (spec.footer == nullptr || bytes_ < kTrailerBytes) return changed();
  std::string tail(kTrailerBytes, '\0');
  const auto read = [&] {
    const auto bytes = static_cast<int64_t>(tail.size());
    return ReadAt(bytes_ - bytes, bytes, reinterpret_cast<uint8_t*>(tail.data()));
  };
  ARROW_RETURN_NOT_OK(read());
  const auto needed = Footer::TailBytes(tail, bytes_, path_);
  if (!needed.ok()) return changed();
  tail.resize(static_cast<size_t>(*needed));
  ARROW_RETURN_NOT_OK(read());
  const auto found = Footer::Make(tail, bytes_, path_);
  if (!found.ok()) return changed();
  ARROW_ASSIGN_OR_RAISE(const std::string planned, spec.footer->Tail());
  ARROW_ASSIGN_OR_RAISE(const std::string now, (*found)->Tail());
  return planned == now ? Status::OK() : changed();
}

Status LocalFile::CheckPath(bool* same) const {
  struct stat now{};
  if (stat(path_.c_str(), &now) != 0) return StatError(path_);
  *same = now.st_ino == inode_;
  return CheckUnchanged(now);
}

Status LocalFile::ReadAt(int64_t offset, int64_t bytes, uint8_t* out) const {
  ARROW_RETURN_NOT_OK(ReadBytes(offset, bytes, out));
  // Systems set the modification time before they change the bytes, so bytes that were
  // read before this check are the planned ones.
  struct stat now{};
  if (fstat(fd_, &now) != 0) return StatError(path_);
  return CheckUnchanged(now);
}

Status LocalFile::ReadBytes(int64_t offset, int64_t bytes, uint8_t* out) const {
  while (bytes > 0) {
    const ssize_t n = pread(fd_, out, static_cast<size_t>(bytes), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      return At(MakeError(ErrorKind::kStorage,
                          "Expected " + std::to_string(bytes) + " bytes at offset " +
                              std::to_string(offset) + ", got: " + ErrnoText()),
                Location{.file = path_});
    }
    if (n == 0) {
      return At(MakeError(ErrorKind::kSourceChanged,
                          "Expected " + std::to_string(bytes) + " more bytes at offset " +
                              std::to_string(offset) + ", got the end of the file"),
                Location{.file = path_});
    }
    offset += n;
    out += n;
    bytes -= n;
  }
  return Status::OK();
}

bool LocalFile::IsCached(const ByteRange& range, std::optional<int64_t>* seen) const {
  // The system reads ahead and evicts in larger pieces, so a look every 1 MiB suffices.
  constexpr int64_t kStep = 1 << 20;
  // The distance that Linux reads ahead by default.
  constexpr int64_t kNear = 128 << 10;
  const auto cached = [&](int64_t offset) {
    if (seen->has_value() && std::abs(offset - **seen) < kNear) return true;
    if (!IsByteCached(fd_, offset)) return false;
    *seen = offset;
    return true;
  };
  const int64_t last = range.offset + range.bytes - 1;
  for (int64_t offset = range.offset; offset < last; offset += kStep) {
    if (!cached(offset)) return false;
  }
  return range.bytes == 0 || cached(last);
}

void LocalFile::BringAhead(const ByteRange& range) const {
  fastload::BringAhead(fd_, range.offset, range.bytes);
}

}  // namespace fastload
