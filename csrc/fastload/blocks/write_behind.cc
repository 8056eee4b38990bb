#include "fastload/blocks/write_behind.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "fastload/base/platform.h"
#include "fastload/blocks/decoded_writer.h"

namespace fastload {

WriteBehind::State::~State() {
  for (const Job& job : jobs) close(job.fd);
}

WriteBehind::WriteBehind(std::function<void()> wake)
    : state_(std::make_shared<State>(std::move(wake))) {}

WriteBehind::~WriteBehind() { Close(std::chrono::milliseconds(0)); }

Status WriteBehind::Add(int64_t number, int fd, const std::string& name,
                        Batches batches) {
  Job job{.number = number, .name = name, .batches = std::move(batches)};
  job.fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (job.fd < 0) {
    return MakeError(ErrorKind::kStorage,
                     "Expected a descriptor for a cached block, got: " +
                         std::generic_category().message(errno));
  }
  const std::lock_guard ending(ending_);
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->closed) {
      close(job.fd);
      return DatasetClosed();
    }
    state_->jobs.push_back(std::move(job));
    state_->changed.notify_all();
  }
  if (!thread_.joinable()) thread_ = std::thread([state = state_] { Run(state); });
  return Status::OK();
}

bool WriteBehind::Drop(int64_t number) {
  Job dropped;
  {
    const std::lock_guard lock(state_->mutex);
    const auto found = std::ranges::find(state_->jobs, number, &Job::number);
    if (found == state_->jobs.end()) return false;
    dropped = std::move(*found);
    state_->jobs.erase(found);
  }
  close(dropped.fd);
  return true;
}

std::vector<WriteBehind::Written> WriteBehind::TakeWritten() {
  const std::lock_guard lock(state_->mutex);
  return std::exchange(state_->written, {});
}

void WriteBehind::Close(std::chrono::milliseconds timeout) {
  const std::lock_guard ending(ending_);
  // What a thread needs to end that is not in a call of the system which hangs.
  constexpr auto kEnd = std::chrono::milliseconds(200);
  bool ended = true;
  std::deque<Job> left;
  {
    std::unique_lock lock(state_->mutex);
    state_->closed = true;
    state_->changed.notify_all();
    if (thread_.joinable()) {
      state_->changed.wait_for(lock, timeout, [&] { return state_->ended; });
      state_->given_up = true;
      left = std::exchange(state_->jobs, {});
      ended = state_->changed.wait_for(lock, kEnd, [&] { return state_->ended; });
    }
  }
  for (const Job& job : left) close(job.fd);
  if (!thread_.joinable()) return;
  if (ended) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

void WriteBehind::Run(const std::shared_ptr<State>& state) {
  NameThread("fastload-write");
  LowerPriority();
  std::unique_lock lock(state->mutex);
  while (true) {
    state->changed.wait(lock, [&] { return state->closed || !state->jobs.empty(); });
    if (state->jobs.empty()) break;
    Job job = std::move(state->jobs.front());
    state->jobs.pop_front();
    lock.unlock();
    Result<uint64_t> checksum = Write(job, state->given_up);
    close(job.fd);
    job.batches.clear();
    lock.lock();
    state->written.push_back({job.number, std::move(checksum)});
    if (state->given_up) break;
    lock.unlock();
    state->wake();
    lock.lock();
  }
  state->ended = true;
  state->changed.notify_all();
}

Result<uint64_t> WriteBehind::Write(const Job& job, const std::atomic<bool>& given_up) {
  Result<uint64_t> checksum = Status::Invalid("Expected a checksum");
  const Status status = CatchParquet([&]() -> Status {
    ARROW_ASSIGN_OR_RAISE(
        const auto writer,
        DecodedWriter::Make(job.fd, job.name, job.batches.front()->schema()));
    for (const auto& batch : job.batches) {
      if (given_up) return DatasetClosed();
      ARROW_RETURN_NOT_OK(writer->Add(*batch));
    }
    ARROW_ASSIGN_OR_RAISE(checksum, writer->Finish());
    return Status::OK();
  });
  if (!status.ok()) return status;
  return checksum;
}

}  // namespace fastload
