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
  std::list<Job> job(1);
  job.front().name = name;
  job.front().batches = std::move(batches);
  job.front().written.number = number;
  const std::lock_guard ending(ending_);
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->closed) return DatasetClosed();
  }
  if (!thread_.joinable()) ARROW_RETURN_NOT_OK(Start());
  job.front().fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (job.front().fd < 0) {
    return MakeError(ErrorKind::kStorage,
                     "Expected a descriptor for a cached block, got: " +
                         std::generic_category().message(errno));
  }
  const std::lock_guard lock(state_->mutex);
  state_->jobs.splice(state_->jobs.end(), job);
  state_->changed.notify_all();
  return Status::OK();
}

Status WriteBehind::Start() {
  try {
    thread_ = std::thread([state = state_] { Run(state); });
  } catch (const std::system_error& refused) {
    return MakeError(
        ErrorKind::kStorage,
        "Expected a thread that writes cached blocks, got: " + refused.code().message());
  }
  return Status::OK();
}

bool WriteBehind::Drop(int64_t number) {
  std::list<Job> dropped;
  {
    const std::lock_guard lock(state_->mutex);
    const auto found = std::ranges::find(
        state_->jobs, number, [](const Job& job) { return job.written.number; });
    if (found == state_->jobs.end()) return false;
    dropped.splice(dropped.end(), state_->jobs, found);
  }
  close(dropped.front().fd);
  return true;
}

std::vector<WriteBehind::Written> WriteBehind::TakeWritten() {
  std::vector<Written> written;
  std::list<Job> jobs;
  const std::lock_guard lock(state_->mutex);
  written.reserve(state_->written.size());
  jobs.swap(state_->written);
  for (Job& job : jobs) written.push_back(std::move(job.written));
  return written;
}

void WriteBehind::Close(std::chrono::milliseconds timeout) {
  const std::lock_guard ending(ending_);
  // What a thread needs to end that is not in a call of the system which hangs.
  constexpr auto kEnd = std::chrono::milliseconds(200);
  bool ended = true;
  std::list<Job> left;
  {
    std::unique_lock lock(state_->mutex);
    state_->closed = true;
    state_->changed.notify_all();
    if (thread_.joinable()) {
      state_->changed.wait_for(lock, timeout, [&] { return state_->ended; });
      state_->given_up = true;
      left.swap(state_->jobs);
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
    std::list<Job> one;
    one.splice(one.end(), state->jobs, state->jobs.begin());
    lock.unlock();
    Job& job = one.front();
    job.written.status = CatchParquet(
        [&] { return Write(job, state->given_up).Value(&job.written.checksum); });
    close(job.fd);
    job.batches.clear();
    lock.lock();
    state->written.splice(state->written.end(), one);
    if (state->given_up) break;
    lock.unlock();
    state->wake();
    lock.lock();
  }
  state->ended = true;
  state->changed.notify_all();
}

Result<uint64_t> WriteBehind::Write(const Job& job, const std::atomic<bool>& given_up) {
  ARROW_ASSIGN_OR_RAISE(
      const auto writer,
      DecodedWriter::Make(job.fd, job.name, job.batches.front()->schema()));
  for (const auto& batch : job.batches) {
    if (given_up) return DatasetClosed();
    ARROW_RETURN_NOT_OK(writer->Add(*batch));
  }
  return writer->Finish();
}

}  // namespace fastload
