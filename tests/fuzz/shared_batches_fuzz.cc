// Fuzzer of messages of worker processes: whatever a worker's shared memory says, each
// taken batch is inside the memory, and is taken once.
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

#include "checked.h"
#include "fastload/share/shared_batches.h"
#include "fuzzer/FuzzedDataProvider.h"

namespace fastload::testing {
namespace {

constexpr int64_t kRoomBytes = 1 << 20;
constexpr int32_t kBatches = 4;
// The words of the header and of the first slots, some of which were never sent.
constexpr int64_t kWords = 8 * (1 + kBatches + 2);

// Returns the shared memory of a worker that has sent kBatches batches.
std::vector<uint8_t> Shared() {
  const auto sender = *BatchSender::Make(kRoomBytes);
  Expect(sender->Describe("what they are").ok(), "a description");
  BlockPool pool(sender->Memory(), 0);
  constexpr std::array<int64_t, 3> kAreas = {64, 128, 7};
  for (int32_t i = 0; i < kBatches; ++i) {
    const int32_t slot = sender->Send(*pool.Allocate(1000 * (i + 1)), 10 * i, kAreas);
    Expect(slot == i, "a batch that is sent");
  }
  std::vector<uint8_t> bytes(static_cast<size_t>(lseek(sender->fd(), 0, SEEK_END)));
  Expect(pread(sender->fd(), bytes.data(), bytes.size(), 0) ==
             static_cast<ssize_t>(bytes.size()),
         "the bytes of the mapping");
  return bytes;
}

int64_t Sum(const uint8_t* data, int64_t bytes) {
  return std::accumulate(data, data + bytes, int64_t{0});
}

void CheckInside(const SharedMapping& mapping, const void* data, size_t bytes) {
  if (bytes == 0) return;
  const auto* const first = static_cast<const uint8_t*>(data);
  Expect(first >= mapping.data() && first + bytes >= first &&
             first + bytes <= mapping.data() + mapping.size(),
         "bytes that are not in the mapping");
  Expect(Sum(first, static_cast<int64_t>(bytes)) >= 0, "bytes that can be read");
}

void Check(BatchReceiver& receiver, int32_t slot) {
  const auto batch = receiver.Take(slot);
  if (!batch.ok()) return;
  const SharedMapping& mapping = receiver.mapping();
  Expect((*batch)->size() >= 0, "the size of a batch");
  CheckInside(mapping, (*batch)->data(), static_cast<size_t>((*batch)->size()));
  const auto areas = (*batch)->areas();
  CheckInside(mapping, areas.data(), areas.size_bytes());
  (void)std::accumulate(areas.begin(), areas.end(), uint64_t{0});
  const auto segment = (*batch)->segment();
  CheckInside(mapping, segment.data(), segment.size());
  Expect(!receiver.Take(slot).ok(), "a batch that is taken twice");
}

// Returns the file of the mapping, as the worker left the mapping.
int File(const std::vector<uint8_t>& shared) {
  static const int fd = memfd_create("shared", MFD_CLOEXEC);
  static constexpr size_t kWritten = kWords * sizeof(int64_t);
  const bool written =
      ftruncate(fd, static_cast<off_t>(shared.size())) == 0 &&
      pwrite(fd, shared.data(), kWritten, 0) == static_cast<ssize_t>(kWritten);
  Expect(written, "a file in memory");
  return fd;
}

void Run(FuzzedDataProvider* input) {
  static const std::vector<uint8_t> shared = Shared();
  const auto size = static_cast<int64_t>(shared.size());
  const int fd = File(shared);
  if (input->ConsumeIntegralInRange<int>(0, 15) == 0) {
    const auto bytes = input->ConsumeIntegralInRange<int64_t>(0, size);
    Expect(ftruncate(fd, bytes) == 0, "a shorter file");
  }
  while (input->remaining_bytes() > 0) {
    const auto word = input->ConsumeIntegralInRange<int64_t>(0, kWords - 1);
    // The value is inside the mapping, near the mapping's ends, or anything.
    const bool near = input->ConsumeBool();
    const auto value = near ? input->ConsumeIntegralInRange<int64_t>(-9, size + 9)
                            : input->ConsumeIntegral<int64_t>();
    Expect(pwrite(fd, &value, sizeof(value), 8 * word) == sizeof(value), "a word");
  }
  const auto receiver = BatchReceiver::Open(fd);
  if (!receiver.ok()) return;
  const auto description = (*receiver)->description();
  CheckInside((*receiver)->mapping(), description.data(), description.size());
  (void)(*receiver)->memory();
  for (int32_t slot = -1; slot <= kBatches + 1; ++slot) Check(**receiver, slot);
}

}  // namespace
}  // namespace fastload::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzedDataProvider input(data, size);
  fastload::testing::Run(&input);
  return 0;
}
