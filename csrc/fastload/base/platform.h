// What systems do differently: Linux has calls of its own, and macOS what POSIX says or
// something near it. With FASTLOAD_PORTABLE Linux does without its own, for tests.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace fastload {

// A new empty file that has no name, closed by exec; -1 and errno where it is refused.
// It can be cut to a size once, and mapped: no more is promised.
int MakeAnonymousFile();

// No process can change the size of such a file from now on, where the system has that.
void KeepSize(int fd);

// The memory is left out of core dumps, where the system has that.
void LeaveOutOfDumps(void* data, size_t bytes);

// Asks for huge pages, where the system has them: without, the memory is as good.
void AdviseHugePages(void* data, size_t bytes);

// Whether the byte of the file can be read without the disk; false where the system does
// not tell.
bool IsByteCached(int fd, int64_t offset);

// Has the system read bytes into its page cache, without waiting for them, where it has
// that.
void BringAhead(int fd, int64_t offset, int64_t bytes);

// Has a file system find blocks for bytes that are about to be written, and makes the
// file as long, where it has that: writing them is quicker then.
void FindBlocks(int fd, int64_t offset, int64_t bytes);

// When the file was modified, in nanoseconds since 1970.
int64_t ModifiedNs(const struct stat& status);

// The calling thread's number, as Python's threading.get_native_id() has it.
int64_t ThreadNumber();

// Names the calling thread; systems keep the first 15 letters at least.
void NameThread(const std::string& name);

// A descriptor that poll() waits for. Thread-safe.
class WakeEvent {
 public:
  // Throws std::system_error.
  WakeEvent();
  ~WakeEvent();
  WakeEvent(const WakeEvent&) = delete;
  WakeEvent& operator=(const WakeEvent&) = delete;

  // Readable from Set() to Clear().
  int fd() const { return read_fd_; }
  void Set() const;
  void Clear() const;

 private:
  int read_fd_ = -1;
  int write_fd_ = -1;  // the same one, where one is enough
};

}  // namespace fastload
