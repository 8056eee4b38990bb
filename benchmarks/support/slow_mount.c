// A directory, read-only, whose every read takes a while: what a network disk, NFS or a
// bucket that is mounted feels like, for benchmarks/bench_cold.py.
//
//   gcc -O2 slow_mount.c -o slow_mount $(pkg-config --cflags --libs fuse3)
//   ./slow_mount DIRECTORY MICROSECONDS MOUNTPOINT -o ro [options of libfuse]
//   fusermount3 -u MOUNTPOINT
//
// Linux reads 128 KiB at a time of it, as of most of these, and any number at once.
#define FUSE_USE_VERSION 35
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse3/fuse.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { kMostAtOnce = 128, kMemorySeconds = 60 };

static const char* directory;
static long microseconds;

static const char* Below(const char* path, char* whole) {
  snprintf(whole, PATH_MAX, "%s%s", directory, path);
  return whole;
}

static void* Init(struct fuse_conn_info* connection, struct fuse_config* config) {
  config->kernel_cache = 1;
  config->entry_timeout = kMemorySeconds;
  config->attr_timeout = kMemorySeconds;
  connection->max_background = kMostAtOnce;
  connection->congestion_threshold = kMostAtOnce;
  return NULL;
}

static int GetAttributes(const char* path, struct stat* status,
                         struct fuse_file_info* file) {
  (void)file;
  char whole[PATH_MAX];
  return stat(Below(path, whole), status) == 0 ? 0 : -errno;
}

static int ReadDirectory(const char* path, void* buffer, fuse_fill_dir_t fill,
                         off_t offset, struct fuse_file_info* file,
                         enum fuse_readdir_flags flags) {
  (void)offset;
  (void)file;
  (void)flags;
  char whole[PATH_MAX];
  DIR* const open_directory = opendir(Below(path, whole));
  if (open_directory == NULL) return -errno;
  const struct dirent* entry;
  while ((entry = readdir(open_directory)) != NULL) {
    fill(buffer, entry->d_name, NULL, 0, 0);
  }
  closedir(open_directory);
  return 0;
}

static int Open(const char* path, struct fuse_file_info* file) {
  char whole[PATH_MAX];
  const int fd = open(Below(path, whole), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -errno;
  file->fh = (uint64_t)fd;
  file->keep_cache = 1;
  return 0;
}

static int Release(const char* path, struct fuse_file_info* file) {
  (void)path;
  close((int)file->fh);
  return 0;
}

static int Read(const char* path, char* buffer, size_t bytes, off_t offset,
                struct fuse_file_info* file) {
  (void)path;
  const struct timespec pause = {microseconds / 1000000, microseconds % 1000000 * 1000};
  nanosleep(&pause, NULL);
  const ssize_t n = pread((int)file->fh, buffer, bytes, offset);
  return n < 0 ? -errno : (int)n;
}

static const struct fuse_operations operations = {.init = Init,
                                                  .getattr = GetAttributes,
                                                  .readdir = ReadDirectory,
                                                  .open = Open,
                                                  .release = Release,
                                                  .read = Read};

int main(int argc, char** argv) {
  if (argc < 4) {
    fprintf(stderr, "Expected DIRECTORY MICROSECONDS MOUNTPOINT\n");
    return 2;
  }
  directory = argv[1];
  microseconds = atol(argv[2]);
  argv[2] = argv[0];
  return fuse_main(argc - 2, argv + 2, &operations, NULL);
}
