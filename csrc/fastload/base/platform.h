// Calls that differ between systems. Linux has calls of its own; macOS uses POSIX calls
// or near equivalents. With FASTLOAD_PORTABLE, Linux uses the POSIX calls too, for tests.
#pragma once

#include <pthread.h>
#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace fastload {

// Creates an empty file that has no name and is closed by exec. Returns the descriptor,
// or -1 with errno set if the system refuses. The file can be set to a size once, and
// then mapped; nothing more is promised.
int MakeAnonymousFile();

// Forbids every process to change the size of an anonymous file from now on, where the
// system can.
void KeepSize(int fd);

// Leaves the memory out of core dumps, where the system can.
void LeaveOutOfDumps(void* data, size_t bytes);

// Asks for huge pages for the memory. Without huge pages the memory works all the same.
void AdviseHugePages(void* data, size_t bytes);

// Returns true if the first page of mapped memory is in memory, and also where the system
// can't say.
bool IsTouched(void* data);

// Returns true if the file lies on a file system of this machine, where a page that is
// mapped stays readable. Returns false where the system can't say.
bool IsOfThisMachine(int fd);

// Returns true if the byte of the file can be read without the disk. Returns false where
// the system can't say.
bool IsByteCached(int fd, int64_t offset);

// Asks the system to read the bytes into its page cache, and does not wait for the bytes.
void BringAhead(int fd, int64_t offset, int64_t bytes);

// Returns how many files a process may keep open for reading: a part of the descriptors
// that the system allows, so that most are left for the rest of the program.
size_t MostOpenFiles();

// Returns the bytes of a core's L2 cache, or 1 MiB where the system can't say.
int64_t CoreCacheBytes();

// Returns when the file was modified, in nanoseconds since 1970.
int64_t ModifiedNs(const struct stat& status);

// Returns the calling thread's number, equal to Python's threading.get_native_id().
int64_t ThreadNumber();

// Returns the CPU time that a thread of this process has used, in nanoseconds, or 0 where
// the system can't say. The thread must not have ended.
int64_t ThreadCpuNs(pthread_t thread);

// Names the calling thread. Systems keep at least the first 15 letters.
void NameThread(const std::string& name);

// An event with a descriptor that poll() can wait for. Thread-safe.
class WakeEvent {
 public:
  // Throws std::system_error if the system refuses a descriptor.
  WakeEvent();
  ~WakeEvent();
  WakeEvent(const WakeEvent&) = delete;
  WakeEvent& operator=(const WakeEvent&) = delete;

  // Returns a descriptor that is readable from Set() to Clear().
  int fd() const { return read_fd_; }
  void Set() const;
  void Clear() const;

 private:
  int read_fd_ = -1;
  int write_fd_ = -1;  // equals read_fd_ where one descriptor is enough
};

}  // namespace fastload
