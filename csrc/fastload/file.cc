#include "fastload/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "fastload/remote.h"

namespace fastload {
namespace {

std::string ErrnoText() { return std::generic_category().message(errno); }

}  // namespace

Result<std::shared_ptr<LocalFile>> LocalFile::Open(const FileSpec& spec) {
  const int fd = open(spec.path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return At(
        MakeError(ErrorKind::kStorage, "Expected to open the file, got: " + ErrnoText()),
        Place{.file = spec.path});
  }
  std::shared_ptr<LocalFile> file(new LocalFile(fd, spec.path));
  struct stat now{};
  if (fstat(fd, &now) != 0) {
    return At(
        MakeError(ErrorKind::kStorage, "Expected the file's size, got: " + ErrnoText()),
        Place{.file = spec.path});
  }
  const int64_t mtime_ns =
      static_cast<int64_t>(now.st_mtim.tv_sec) * 1'000'000'000 + now.st_mtim.tv_nsec;
  if (now.st_size != spec.bytes || mtime_ns != spec.mtime_ns) {
    return At(MakeError(ErrorKind::kSourceChanged,
                        "Expected the file as its footer was read (" +
                            std::to_string(spec.bytes) + " bytes), got one of " +
                            std::to_string(now.st_size) + " bytes, modified since"),
              Place{.file = spec.path});
  }
  return file;
}

LocalFile::~LocalFile() { close(fd_); }

Status LocalFile::ReadAt(int64_t offset, int64_t bytes, uint8_t* out) const {
  while (bytes > 0) {
    const ssize_t n = pread(fd_, out, static_cast<size_t>(bytes), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      return At(MakeError(ErrorKind::kStorage,
                          "Expected " + std::to_string(bytes) + " bytes at offset " +
                              std::to_string(offset) + ", got: " + ErrnoText()),
                Place{.file = path_});
    }
    if (n == 0) {
      return At(MakeError(ErrorKind::kSourceChanged,
                          "Expected " + std::to_string(bytes) + " more bytes at offset " +
                              std::to_string(offset) + ", got the end of the file"),
                Place{.file = path_});
    }
    offset += n;
    out += n;
    bytes -= n;
  }
  return Status::OK();
}

bool FileTable::OnDisk(int32_t file, const std::vector<ByteRange>& ranges) const {
  return !spec(file).remote || remote_->Keeps(file, ranges);
}

Result<std::shared_ptr<File>> FileTable::Open(int32_t file) {
  if (spec(file).remote) return std::make_shared<RemoteFile>(remote_.get(), file);
  {
    std::lock_guard lock(mutex_);
    auto found = by_index_.find(file);
    if (found != by_index_.end()) {
      open_.splice(open_.begin(), open_, found->second);
      return open_.front().second;
    }
  }
  ARROW_ASSIGN_OR_RAISE(std::shared_ptr<File> opened, LocalFile::Open(spec(file)));
  std::lock_guard lock(mutex_);
  auto found = by_index_.find(file);
  if (found != by_index_.end()) return found->second->second;
  open_.emplace_front(file, opened);
  by_index_[file] = open_.begin();
  if (open_.size() > kMaxOpen) {
    by_index_.erase(open_.back().first);
    open_.pop_back();
  }
  return opened;
}

void FileTable::CloseAll() {
  if (remote_ != nullptr) remote_->Close();
  std::lock_guard lock(mutex_);
  by_index_.clear();
  open_.clear();
}

}  // namespace fastload
