/* Has system calls on some files fail as they are told; preloaded by disk_faults.py.
 *
 * A fault strikes calls of one name on files whose path holds some text: the first `after`
 * of them pass, the next `times` fail (-1: all). `error` is an errno; 0 stands for half of
 * the bytes that were asked for.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static char call_[16];
static char part_[256];
static int error_;
static long after_;
static long times_;
static long struck_;

void set_fault(const char* call, const char* part, int error, long after, long times) {
  __atomic_store_n(&times_, 0, __ATOMIC_SEQ_CST);
  snprintf(call_, sizeof(call_), "%s", call);
  snprintf(part_, sizeof(part_), "%s", part);
  error_ = error;
  after_ = after;
  struck_ = 0;
  __atomic_store_n(&times_, times, __ATOMIC_SEQ_CST);
}

long struck(void) { return __atomic_load_n(&struck_, __ATOMIC_SEQ_CST); }

static int Strikes(const char* call, const char* path) {
  if (__atomic_load_n(&times_, __ATOMIC_SEQ_CST) == 0) return 0;
  if (strcmp(call, call_) != 0 || strstr(path, part_) == NULL) return 0;
  if (__atomic_fetch_sub(&after_, 1, __ATOMIC_SEQ_CST) > 0) return 0;
  long left = __atomic_load_n(&times_, __ATOMIC_SEQ_CST);
  if (left == 0) return 0;
  if (left > 0) __atomic_fetch_sub(&times_, 1, __ATOMIC_SEQ_CST);
  __atomic_fetch_add(&struck_, 1, __ATOMIC_SEQ_CST);
  return 1;
}

static int StrikesFd(const char* call, int fd) {
  if (__atomic_load_n(&times_, __ATOMIC_SEQ_CST) == 0) return 0;
  char link[64];
  char path[1024];
  snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  const ssize_t n = readlink(link, path, sizeof(path) - 1);
  if (n < 0) return 0;
  path[n] = 0;
  return Strikes(call, path);
}

#define NEXT(name) ((__typeof__(name)*)dlsym(RTLD_NEXT, #name))

#define OPEN(name)                                            \
  int name(const char* path, int flags, ...) {                \
    va_list list;                                             \
    va_start(list, flags);                                    \
    const mode_t mode = va_arg(list, mode_t);                 \
    va_end(list);                                             \
    if (Strikes("open", path)) return errno = error_, -1;     \
    return NEXT(name)(path, flags, mode);                     \
  }
OPEN(open)
OPEN(open64)

#define PREAD(name)                                           \
  ssize_t name(int fd, void* out, size_t bytes, off_t at) {   \
    if (StrikesFd("read", fd)) {                              \
      if (error_ != 0) return errno = error_, -1;             \
      bytes = bytes > 1 ? bytes / 2 : bytes;                  \
    }                                                         \
    return NEXT(name)(fd, out, bytes, at);                    \
  }
PREAD(pread)
PREAD(pread64)

ssize_t read(int fd, void* out, size_t bytes) {
  if (StrikesFd("read", fd)) {
    if (error_ != 0) return errno = error_, -1;
    bytes = bytes > 1 ? bytes / 2 : bytes;
  }
  return NEXT(read)(fd, out, bytes);
}

ssize_t write(int fd, const void* data, size_t bytes) {
  if (StrikesFd("write", fd)) {
    if (error_ != 0) return errno = error_, -1;
    bytes = bytes > 1 ? bytes / 2 : bytes;
  }
  return NEXT(write)(fd, data, bytes);
}

#define PWRITEV(name)                                                     \
  ssize_t name(int fd, const struct iovec* parts, int count, off_t at) {  \
    if (StrikesFd("write", fd)) {                                         \
      if (error_ != 0) return errno = error_, -1;                         \
      count = 1;                                                          \
    }                                                                     \
    return NEXT(name)(fd, parts, count, at);                              \
  }
PWRITEV(pwritev)
PWRITEV(pwritev64)
