#include "fastload/share/shared_mapping.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

namespace fastload {
namespace {

constexpr int64_t kBytes = int64_t{4} << 20;

TEST(SharedMapping, ShowsTheBytesOfTheOtherMapping) {
  const auto mapping = *SharedMapping::Make(kBytes);
  ASSERT_EQ(mapping->size(), kBytes);
  const auto other = *SharedMapping::Open(mapping->fd());
  ASSERT_EQ(other->size(), kBytes);
  ASSERT_NE(other->data(), mapping->data());
  std::strcpy(reinterpret_cast<char*>(mapping->data()) + kBytes - 8, "end");
  EXPECT_STREQ(reinterpret_cast<char*>(other->data()) + kBytes - 8, "end");
}

// Returns the flags of the mapping that begins at `data`; empty: the system tells none.
std::string FlagsOf(const uint8_t* data) {
  std::ifstream maps("/proc/self/smaps");
  std::ostringstream begin;
  begin << std::hex << reinterpret_cast<uintptr_t>(data) << '-';
  bool found = false;
  for (std::string line; std::getline(maps, line);) {
    if (line.starts_with(begin.str())) found = true;
    if (found && line.starts_with("VmFlags:")) return line + ' ';
  }
  return "";
}

TEST(SharedMapping, AsksForHugePages) {
#if defined(FASTLOAD_PORTABLE)
  GTEST_SKIP() << "only Linux has the advice";
#endif
  if (!std::ifstream("/sys/kernel/mm/transparent_hugepage/shmem_enabled")) {
    GTEST_SKIP() << "this system has no huge pages for shared memory";
  }
  const auto mapping = *SharedMapping::Make(kBytes);
  const auto other = *SharedMapping::Open(mapping->fd());
  for (const uint8_t* data : {mapping->data(), other->data()}) {
    const std::string flags = FlagsOf(data);
    EXPECT_NE(flags.find(" hg "), std::string::npos) << flags;
    EXPECT_NE(flags.find(" dd "), std::string::npos) << flags;
  }
}

}  // namespace
}  // namespace fastload
