/* Makes writes of cached blocks slow; preloaded by test_slow_disk.py.
 *
 * Each pwrite() to a file whose path ends with ".part" takes SLOW_WRITES_MS milliseconds
 * longer.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void Wait(int fd) {
  char link[64];
  char path[1024];
  const char* const milliseconds = getenv("SLOW_WRITES_MS");
  snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  const ssize_t n = readlink(link, path, sizeof(path) - 1);
  if (milliseconds == NULL || n < 5 || memcmp(path + n - 5, ".part", 5) != 0) return;
  const long ms = atol(milliseconds);
  const struct timespec pause = {ms / 1000, ms % 1000 * 1000000};
  nanosleep(&pause, NULL);
}

#define PWRITE(name)                                                          \
  ssize_t name(int fd, const void* from, size_t bytes, off_t at) {            \
    Wait(fd);                                                                 \
    return ((__typeof__(name)*)dlsym(RTLD_NEXT, #name))(fd, from, bytes, at); \
  }
PWRITE(pwrite)
PWRITE(pwrite64)
