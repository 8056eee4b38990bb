// Fuzzer of entries of a cache: whatever a file holds, a read returns the bytes that were
// published for exactly that range, or the entry is damaged and removed.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "../cpp/temporary_directory.h"
#include "checked.h"
#include "fastload/fetch/range_entry.h"
#include "fuzzer/FuzzedDataProvider.h"

namespace fastload::testing {
namespace {

constexpr int64_t kMostBytes = 4096;

// Returns a directory in memory, where the system has such a directory.
std::string Directory() {
  if (access("/dev/shm", W_OK) == 0) setenv("TMPDIR", "/dev/shm", 1);
  static const TemporaryDirectory directory;
  return directory.File("ab/abcdef");
}

void Run(FuzzedDataProvider* input) {
  static const std::string directory = Directory();
  RangeEntry entry{.directory = directory, .object = "ab/abcdef"};
  entry.range.offset = input->ConsumeIntegralInRange<int64_t>(0, int64_t{1} << 60);
  entry.range.bytes = input->ConsumeIntegralInRange<int64_t>(1, kMostBytes);
  ByteRange wanted;
  const auto skipped = input->ConsumeIntegralInRange<int64_t>(0, entry.range.bytes - 1);
  wanted.offset = entry.range.offset + skipped;
  wanted.bytes = input->ConsumeIntegralInRange<int64_t>(1, entry.range.bytes - skipped);
  std::vector<uint8_t> content(static_cast<size_t>(entry.range.bytes));
  for (size_t i = 0; i < content.size(); ++i) content[i] = static_cast<uint8_t>(i * 37);

  bool there = false;
  auto claim = RangeClaim::Take(entry, &there);
  Expect(claim.ok() && *claim != nullptr, "a claim of an entry that is not there");
  Expect((*claim)->Publish(content.data()).ok(), "an entry published");
  bool changed = false;
  {
    // Change bytes of the entry, and its end.
    const int fd = open(entry.path().c_str(), O_RDWR | O_CLOEXEC);
    Expect(fd >= 0, "the entry's file");
    struct stat status{};
    Expect(fstat(fd, &status) == 0, "the size of the entry's file");
    while (input->remaining_bytes() > 2) {
      const auto at = input->ConsumeIntegralInRange<int64_t>(0, status.st_size - 1);
      const auto byte = input->ConsumeIntegral<uint8_t>();
      uint8_t before = 0;
      Expect(pread(fd, &before, 1, at) == 1 && pwrite(fd, &byte, 1, at) == 1, "a byte");
      changed = changed || before != byte;
    }
    if (input->remaining_bytes() > 0) {
      const auto size = status.st_size + input->ConsumeIntegral<int8_t>();
      Expect(ftruncate(fd, std::max<int64_t>(0, size)) == 0, "another size");
      changed = changed || size != status.st_size;
    }
    close(fd);
  }
  std::vector<uint8_t> out(static_cast<size_t>(wanted.bytes));
  uint64_t checked = 0;
  const EntryState state = ReadEntry(entry, wanted, &checked, out.data());
  if (state == EntryState::kGood) {
    Expect(std::equal(out.begin(), out.end(),
                      content.begin() + (wanted.offset - entry.range.offset)),
           "bytes that were not published");
  } else {
    Expect(changed, "an entry that nobody has damaged");
    Expect(access(entry.path().c_str(), F_OK) != 0, "a damaged entry that stays");
  }
  unlink(entry.path().c_str());
}

// Checks that only names that RangeName makes are accepted as names of entries.
void CheckName(std::string_view name) {
  const auto range = RangeOfName(name);
  if (!range) return;
  Expect(range->offset >= 0 && range->bytes > 0, "a range of no bytes");
  const auto again = RangeOfName(RangeName(*range));
  Expect(again && again->offset == range->offset && again->bytes == range->bytes,
         "another range of the same name");
}

}  // namespace
}  // namespace fastload::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace fastload::testing;
  CheckName({reinterpret_cast<const char*>(data), size});
  FuzzedDataProvider input(data, size);
  Run(&input);
  return 0;
}
