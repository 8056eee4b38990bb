#include "fastload/base/forks.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <memory>

#include "bindings/fork_guard.h"
#include "fastload/base/byte_arena.h"
#include "fastload/base/memory.h"

namespace {

// While true, forks find the number of the first process, as a fork of a fork does to
// which the system gives the number of a process that has ended.
bool number_is_reused = false;

}  // namespace

// The program's own getpid.
extern "C" pid_t getpid() noexcept {
  static const auto first = static_cast<pid_t>(syscall(SYS_getpid));
  return number_is_reused ? first : static_cast<pid_t>(syscall(SYS_getpid));
}

namespace fastload {
namespace {

constexpr int64_t kArenaBytes = int64_t{64} << 20;

// Returns true if `holds` does in a child of fork().
bool HoldsInFork(const std::function<bool()>& holds) {
  const pid_t child = fork();
  if (child == 0) _exit(holds() ? 0 : 1);
  int status = -1;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) &&
         WEXITSTATUS(status) == 0;
}

class ForkTest : public ::testing::TestWithParam<bool> {
 protected:
  ForkTest() {
    getpid();
    number_is_reused = GetParam();
  }
  ~ForkTest() override { number_is_reused = false; }
};

INSTANTIATE_TEST_SUITE_P(NumberIsReused, ForkTest, ::testing::Bool());

TEST_P(ForkTest, NothingWasMadeInTheForkOrInItsFork) {
  const MadeHere made;
  EXPECT_TRUE(made.mine());
  EXPECT_TRUE(HoldsInFork([&] { return !made.mine(); }));
  EXPECT_TRUE(HoldsInFork([&] {
    const MadeHere in_child;
    return in_child.mine() &&
           HoldsInFork([&] { return !in_child.mine() && !made.mine(); });
  }));
  EXPECT_TRUE(made.mine());
}

TEST_P(ForkTest, LeavesAGuardedObjectAlone) {
  auto object = std::make_shared<int>(7);
  const std::weak_ptr<int> alive = object;
  ForkGuard<int> guard(std::move(object));
  EXPECT_TRUE(guard.mine());
  EXPECT_TRUE(HoldsInFork([&] {
    const bool mine = guard.mine();
    guard.Drop();
    return !mine && !alive.expired();
  }));
  guard.Drop();
  EXPECT_TRUE(alive.expired());
}

TEST_P(ForkTest, LeavesBlocksAlone) {
  BlockPool pool(MakePrivateMemory(), kArenaBytes);
  auto block = *pool.Allocate(5000);
  EXPECT_TRUE(HoldsInFork([&] {
    block.reset();
    return pool.stats().cached_bytes == 0;
  }));
  block.reset();
  EXPECT_GT(pool.stats().cached_bytes, 0);
}

// An arena without a pool that is used in a parent and then, another one, in its fork.
TEST_P(ForkTest, GivesTheMemoryOfArenasBack) {
  const auto pages = [] {
    long size = 0;
    if (FILE* const file = fopen("/proc/self/statm", "r")) {
      if (fscanf(file, "%ld", &size) != 1) size = 0;
      fclose(file);
    }
    return size;
  };
  ByteArena in_parent;
  ASSERT_TRUE(in_parent.Allocate(100).ok());
  EXPECT_TRUE(HoldsInFork([&] {
    const long before = pages();
    {
      ByteArena arena;
      if (!arena.Allocate(kArenaBytes).ok()) return false;
    }
    return before > 0 && pages() - before < kArenaBytes / 2 / sysconf(_SC_PAGESIZE);
  }));
}

}  // namespace
}  // namespace fastload
