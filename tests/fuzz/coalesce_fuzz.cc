// Fuzzer of requests for ranges: requests cover all wanted bytes, in order, no request is
// too large, no hole is too wide, each request begins and ends with a wanted byte, and
// the number is the least.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "checked.h"
#include "fastload/fetch/coalesce.h"
#include "fuzzer/FuzzedDataProvider.h"

namespace fastload::testing {
namespace {

constexpr int64_t kMostOffset = int64_t{1} << 62;

bool Holds(const std::vector<ByteRange>& ranges, int64_t byte) {
  return std::ranges::any_of(ranges, [&](const ByteRange& range) {
    return byte >= range.offset && byte - range.offset < range.bytes;
  });
}

// Returns the wanted bytes as ranges that do not touch.
std::vector<ByteRange> Union(std::vector<ByteRange> ranges) {
  std::erase_if(ranges, [](const ByteRange& range) { return range.bytes == 0; });
  std::ranges::sort(ranges, {}, &ByteRange::offset);
  std::vector<ByteRange> joined;
  for (const ByteRange& range : ranges) {
    const int64_t end = range.offset + range.bytes;
    if (joined.empty() || range.offset > joined.back().offset + joined.back().bytes) {
      joined.push_back(range);
    } else {
      ByteRange& last = joined.back();
      last.bytes = std::max(last.offset + last.bytes, end) - last.offset;
    }
  }
  return joined;
}

// Returns the least number of requests: each request begins with the first byte not yet
// requested, and extends as far as allowed.
int64_t Least(const std::vector<ByteRange>& wanted, int64_t hole, int64_t most) {
  int64_t requests = 0;
  for (size_t i = 0; i < wanted.size();) {
    int64_t start = wanted[i].offset;
    int64_t left = wanted[i].bytes;
    requests += (left - 1) / most;
    start += (left - 1) / most * most;
    left -= (left - 1) / most * most;
    ++requests;
    int64_t end = start + left;
    for (++i; i < wanted.size(); ++i) {
      const ByteRange& next = wanted[i];
      if (next.offset - end > hole || next.offset - start >= most) break;
      const int64_t taken = std::min(next.bytes, start + most - next.offset);
      end = next.offset + taken;
      if (taken == next.bytes) continue;
      // The rest of the range begins new requests.
      const int64_t rest = next.bytes - taken;
      requests += (rest - 1) / most + 1;
      start = end + (rest - 1) / most * most;
      end = next.offset + next.bytes;
    }
  }
  return requests;
}

void Check(const std::vector<ByteRange>& ranges, int64_t hole, int64_t most) {
  const std::vector<ByteRange> requests = Coalesce(ranges, hole, most);
  const std::vector<ByteRange> wanted = Union(ranges);
  int64_t end = -1;
  for (const ByteRange& request : requests) {
    Expect(request.bytes > 0 && request.bytes <= most, "the size of a request");
    Expect(request.offset >= end, "requests in order");
    end = request.offset + request.bytes;
    Expect(Holds(wanted, request.offset) && Holds(wanted, end - 1),
           "a request that begins or ends with what nobody wants");
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    const int64_t last = wanted[i].offset + wanted[i].bytes - 1;
    Expect(Holds(requests, wanted[i].offset) && Holds(requests, last), "what is wanted");
    if (i == 0) continue;
    const int64_t before = wanted[i - 1].offset + wanted[i - 1].bytes;
    if (wanted[i].offset - before > hole) {
      Expect(!Holds(requests, before), "a hole read along that is too wide");
    }
  }
  Expect(static_cast<int64_t>(requests.size()) == Least(wanted, hole, most),
         "the number of requests");
}

}  // namespace
}  // namespace fastload::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace fastload::testing;
  FuzzedDataProvider input(data, size);
  const bool wide = input.ConsumeIntegralInRange<int>(0, 3) == 0;
  const auto most = input.ConsumeIntegralInRange<int64_t>(1, wide ? kMostOffset : 5000);
  const auto hole = input.ConsumeIntegralInRange<int64_t>(0, wide ? kMostOffset : 5000);
  const int64_t room = wide ? kMostOffset / 2 : 20'000;
  std::vector<fastload::ByteRange> ranges;
  double requests = 0;
  while (input.remaining_bytes() > 0) {
    const auto offset = input.ConsumeIntegralInRange<int64_t>(0, room);
    const auto bytes = input.ConsumeIntegralInRange<int64_t>(0, wide ? room : 3000);
    ranges.push_back({offset, bytes});
    requests += static_cast<double>(bytes) / static_cast<double>(most);
  }
  // Inputs that allow more requests are not worth their memory.
  if (requests > 10'000) return 0;
  Check(ranges, hole, most);
  return 0;
}
