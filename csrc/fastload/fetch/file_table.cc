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
  auto made = LocalFile::Open(spec(file));
  if (KindOf(made.status()) == ErrorKind::kStorage) {
    // The rest of the program may have used up the descriptors.
    {
      std::lock_guard lock(mutex_);
      CloseOldest(0);
    }
    made = LocalFile::Open(spec(file));
  }
  ARROW_ASSIGN_OR_RAISE(std::shared_ptr<LocalFile> opened, std::move(made));
  std::lock_guard lock(mutex_);
  auto found = by_index_.find(file);
  if (found != by_index_.end()) return found->second->second;
  std::list<OpenFile> node;
  node.emplace_front(file, opened);
  by_index_.emplace(file, node.begin());
  open_.splice(open_.begin(), node);
  CloseOldest(most_open_);
  return opened;
}

void FileTable::CloseOldest(size_t most) {
  while (open_.size() > kLeastOpen && LocalFile::open_files() > most) {
    by_index_.erase(open_.back().first);
    open_.pop_back();
  }
}

Status FileTable::CheckOpen() {
  std::vector<OpenFile> open;
  {
    std::lock_guard lock(mutex_);
    open.assign(open_.begin(), open_.end());
  }
  for (const auto& [index, file] : open) {
    bool same = true;
    ARROW_RETURN_NOT_OK(file->CheckPath(&same));
    if (same) continue;
    std::lock_guard lock(mutex_);
    const auto found = by_index_.find(index);
    if (found == by_index_.end() || found->second->second != file) continue;
    open_.erase(found->second);
    by_index_.erase(found);
  }
  return Status::OK();
}

void FileTable::CloseAll() {
  if (remote_ != nullptr) remote_->Close();
  std::lock_guard lock(mutex_);
  by_index_.clear();
  open_.clear();
}

}  // namespace fastload
