#include "fastload/fetch/file_table.h"

namespace fastload {

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
