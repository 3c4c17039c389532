/*
 * Loaded before libc (LD_PRELOAD), this writes down in which order a process changes the files of one folder, and what it
 * synchronises. From that, `disk.ts` makes a disk as a power failure may leave it.
 *
 *   POWER_FOLDER  the folder; changes elsewhere are not recorded
 *   POWER_LOG     where the record goes
 *   POWER_CUT     the change or sync before which the process kills itself; 0 or absent: never
 *
 * A sync is written down and not carried out: what counts as durable is decided by the record alone.
 * The layout of an entry is known to `recording.ts` too.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind { CREATE = 1, WRITE, TRUNCATE, SYNC, SYNC_FOLDER, UNLINK, RENAME, MAKE_FOLDER, REMOVE_FOLDER, LINK };

struct head {
  uint32_t kind;
  uint32_t first;  /* bytes of a path, or of what was written */
  uint32_t second; /* bytes of another path */
  uint32_t unused;
  uint64_t file;
  int64_t place; /* offset, or size */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char folder[PATH_MAX];
static size_t folder_length;
static int record = -1;
static long cut, seen;

/* Files of the folder by inode: descriptors are closed and used again, also for sockets. */
#define MOST 4096
static ino_t known[MOST];
static size_t known_count;
static dev_t device;

#define REAL(name, ...) REAL_OF(name, __typeof__(__VA_ARGS__))
#define REAL_OF(name, type) \
  static type real; \
  if (!real) real = (type)dlsym(RTLD_NEXT, name)

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("POWER_FOLDER"), *log = getenv("POWER_LOG"), *at = getenv("POWER_CUT");
  if (!path || !log || strlen(path) >= sizeof folder) return;
  strcpy(folder, path);
  folder_length = strlen(folder);
  cut = at ? atol(at) : 0;
  record = (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

static int is_inside(const char *path) {
  return !strncmp(path, folder, folder_length) && (path[folder_length] == '/' || !path[folder_length]);
}

/* The path as an absolute one; whether it is one of the folder, or the folder. */
static int absolute(int at, const char *path, char *out) {
  if (record < 0 || !path) return 0;
  if (path[0] == '/') {
    if (strlen(path) >= PATH_MAX) return 0;
    strcpy(out, path);
    return is_inside(out);
  }
  char name[64], base[PATH_MAX];
  if (at == AT_FDCWD) strcpy(name, "/proc/self/cwd");
  else snprintf(name, sizeof name, "/proc/self/fd/%d", at);
  ssize_t length = readlink(name, base, sizeof base - 1);
  if (length < 0) return 0;
  base[length] = 0;
  if ((size_t)snprintf(out, PATH_MAX, "%s/%s", base, path) >= PATH_MAX) return 0;
  return is_inside(out);
}

/* Called with the lock. What comes after the cut never happens. */
static void note(enum kind kind, uint64_t file, int64_t place, const void *first, size_t first_length,
                 const void *second, size_t second_length) {
  if (cut && ++seen >= cut) {
    syscall(SYS_kill, getpid(), SIGKILL);
    for (;;) pause();
  }
  struct head head = {kind, (uint32_t)first_length, (uint32_t)second_length, 0, file, place};
  struct iovec parts[] = {{&head, sizeof head}, {(void *)first, first_length}, {(void *)second, second_length}};
  if (syscall(SYS_writev, record, parts, 3) != (long)(sizeof head + first_length + second_length)) abort();
}

static void note_path(enum kind kind, uint64_t file, const char *path) {
  note(kind, file, 0, path, strlen(path), "", 0);
}

static int is_known(int fd, struct stat *found) {
  if (record < 0 || !known_count || fstat(fd, found) || !S_ISREG(found->st_mode) || found->st_dev != device) return 0;
  for (size_t index = 0; index < known_count; index++)
    if (known[index] == found->st_ino) return 1;
  return 0;
}

static void know(const struct stat *found) {
  device = found->st_dev;
  for (size_t index = 0; index < known_count; index++)
    if (known[index] == found->st_ino) return;
  if (known_count == MOST) abort();
  known[known_count++] = found->st_ino;
}

/* Files */

typedef int (*openat_fn)(int, const char *, int, ...);

static int opened(int at, const char *path, int flags, mode_t mode) {
  REAL("openat64", openat_fn);
  char whole[PATH_MAX];
  if ((flags & O_TMPFILE) == O_TMPFILE || !absolute(at, path, whole)) return real(at, path, flags, mode);
  pthread_mutex_lock(&lock);
  struct stat before, after;
  int was_there = !lstat(whole, &before);
  int fd = real(at, path, flags, mode);
  int error = errno;
  if (fd >= 0 && !fstat(fd, &after) && S_ISREG(after.st_mode)) {
    know(&after);
    if (!was_there) note_path(CREATE, after.st_ino, whole);
    else if (flags & O_TRUNC) note(TRUNCATE, after.st_ino, 0, "", 0, "", 0);
  }
  pthread_mutex_unlock(&lock);
  errno = error;
  return fd;
}

static mode_t mode_of(int flags, va_list list) {
  return flags & (O_CREAT | O_TMPFILE) ? va_arg(list, mode_t) : 0;
}

#define OPEN(name) \
  int name(const char *path, int flags, ...) { \
    va_list list; \
    va_start(list, flags); \
    mode_t mode = mode_of(flags, list); \
    va_end(list); \
    return opened(AT_FDCWD, path, flags, mode); \
  }
#define OPENAT(name) \
  int name(int at, const char *path, int flags, ...) { \
    va_list list; \
    va_start(list, flags); \
    mode_t mode = mode_of(flags, list); \
    va_end(list); \
    return opened(at, path, flags, mode); \
  }
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)

/* What is written to a file opened with O_DSYNC is durable when the call returns. */
static void note_write(int fd, const struct stat *found, const void *bytes, size_t length, off_t place) {
  note(WRITE, found->st_ino, place, bytes, length, "", 0);
  if (fcntl(fd, F_GETFL) & O_DSYNC) note(SYNC, found->st_ino, 0, "", 0, "", 0);
}

typedef ssize_t (*pwrite_fn)(int, const void *, size_t, off_t);

static ssize_t written(int fd, const void *bytes, size_t length, off_t place) {
  REAL("pwrite64", pwrite_fn);
  struct stat found;
  if (!is_known(fd, &found)) return real(fd, bytes, length, place);
  pthread_mutex_lock(&lock);
  ssize_t done = real(fd, bytes, length, place);
  int error = errno;
  if (done > 0) note_write(fd, &found, bytes, (size_t)done, place);
  pthread_mutex_unlock(&lock);
  errno = error;
  return done;
}

ssize_t pwrite(int fd, const void *bytes, size_t length, off_t place) { return written(fd, bytes, length, place); }
ssize_t pwrite64(int fd, const void *bytes, size_t length, off_t place) { return written(fd, bytes, length, place); }

static off_t place_of(int fd, const struct stat *found) {
  return fcntl(fd, F_GETFL) & O_APPEND ? found->st_size : lseek(fd, 0, SEEK_CUR);
}

ssize_t write(int fd, const void *bytes, size_t length) {
  REAL("write", ssize_t (*)(int, const void *, size_t));
  struct stat found;
  if (!is_known(fd, &found)) return real(fd, bytes, length);
  pthread_mutex_lock(&lock);
  fstat(fd, &found);
  off_t place = place_of(fd, &found);
  ssize_t done = real(fd, bytes, length);
  int error = errno;
  if (done > 0) note_write(fd, &found, bytes, (size_t)done, place);
  pthread_mutex_unlock(&lock);
  errno = error;
  return done;
}

/* In one piece: short writes are allowed, so only the first part is written, and the caller goes on. */
ssize_t writev(int fd, const struct iovec *parts, int count) {
  REAL("writev", ssize_t (*)(int, const struct iovec *, int));
  struct stat found;
  if (count < 1 || !is_known(fd, &found)) return real(fd, parts, count);
  return write(fd, parts[0].iov_base, parts[0].iov_len);
}

typedef ssize_t (*pwritev_fn)(int, const struct iovec *, int, off_t);

static ssize_t written_parts(int fd, const struct iovec *parts, int count, off_t place) {
  REAL("pwritev64", pwritev_fn);
  struct stat found;
  if (count < 1 || !is_known(fd, &found)) return real(fd, parts, count, place);
  return written(fd, parts[0].iov_base, parts[0].iov_len, place);
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t place) {
  return written_parts(fd, parts, count, place);
}
ssize_t pwritev64(int fd, const struct iovec *parts, int count, off_t place) {
  return written_parts(fd, parts, count, place);
}

/* Copies within the kernel would pass unseen: without them the caller reads and writes. */
ssize_t sendfile64(int out, int in, off_t *place, size_t length) {
  REAL("sendfile64", ssize_t (*)(int, int, off_t *, size_t));
  struct stat found;
  if (!is_known(out, &found)) return real(out, in, place, length);
  errno = EINVAL;
  return -1;
}
ssize_t sendfile(int out, int in, off_t *place, size_t length) { return sendfile64(out, in, place, length); }

ssize_t copy_file_range(int in, off_t *from, int out, off_t *to, size_t length, unsigned flags) {
  REAL("copy_file_range", ssize_t (*)(int, off_t *, int, off_t *, size_t, unsigned));
  struct stat found;
  if (!is_known(out, &found)) return real(in, from, out, to, length, flags);
  errno = ENOSYS;
  return -1;
}

long syscall(long number, ...) {
  REAL("syscall", long (*)(long, ...));
  va_list list;
  va_start(list, number);
  long a[6];
  for (int index = 0; index < 6; index++) a[index] = va_arg(list, long);
  va_end(list);
  struct stat found;
  if (number == SYS_copy_file_range && is_known((int)a[2], &found)) {
    errno = ENOSYS;
    return -1;
  }
  return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

static int truncated(int fd, off_t size) {
  REAL("ftruncate64", int (*)(int, off_t));
  struct stat found;
  if (!is_known(fd, &found)) return real(fd, size);
  pthread_mutex_lock(&lock);
  int result = real(fd, size);
  int error = errno;
  if (!result) note(TRUNCATE, found.st_ino, size, "", 0, "", 0);
  pthread_mutex_unlock(&lock);
  errno = error;
  return result;
}

int ftruncate(int fd, off_t size) { return truncated(fd, size); }
int ftruncate64(int fd, off_t size) { return truncated(fd, size); }

static int synced(int fd, int (*real)(int)) {
  struct stat found;
  if (record < 0 || fstat(fd, &found)) return real(fd);
  char name[64], path[PATH_MAX];
  snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(name, path, sizeof path - 1);
  path[length < 0 ? 0 : length] = 0;
  /* Its parent too: there the name of the folder itself is made durable. */
  int is_parent = !strncmp(path, folder, strlen(path)) && folder[strlen(path)] == '/';
  int is_folder = S_ISDIR(found.st_mode) && (is_inside(path) || is_parent);
  if (!is_folder && !is_known(fd, &found)) return real(fd);
  pthread_mutex_lock(&lock);
  if (is_folder) note_path(SYNC_FOLDER, 0, path);
  else note(SYNC, found.st_ino, 0, "", 0, "", 0);
  pthread_mutex_unlock(&lock);
  return 0;
}

int fsync(int fd) {
  REAL("fsync", int (*)(int));
  return synced(fd, real);
}
int fdatasync(int fd) {
  REAL("fdatasync", int (*)(int));
  return synced(fd, real);
}

/* Names */

/* What was carried out is written down; what failed is not. */
static int named(int result, enum kind kind, const char *path) {
  int error = errno;
  if (!result) note_path(kind, 0, path);
  pthread_mutex_unlock(&lock);
  errno = error;
  return result;
}

int unlinkat(int at, const char *path, int flags) {
  REAL("unlinkat", int (*)(int, const char *, int));
  char whole[PATH_MAX];
  if (!absolute(at, path, whole)) return real(at, path, flags);
  pthread_mutex_lock(&lock);
  return named(real(at, path, flags), flags & AT_REMOVEDIR ? REMOVE_FOLDER : UNLINK, whole);
}
int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }
int remove(const char *path) {
  struct stat found;
  if (lstat(path, &found)) return -1;
  return S_ISDIR(found.st_mode) ? rmdir(path) : unlink(path);
}

int mkdir(const char *path, mode_t mode) {
  REAL("mkdir", int (*)(const char *, mode_t));
  char whole[PATH_MAX];
  if (!absolute(AT_FDCWD, path, whole)) return real(path, mode);
  pthread_mutex_lock(&lock);
  return named(real(path, mode), MAKE_FOLDER, whole);
}

static int joined(enum kind kind, int (*real)(const char *, const char *), const char *from, const char *to) {
  char whole_from[PATH_MAX], whole_to[PATH_MAX];
  int is_from = absolute(AT_FDCWD, from, whole_from), is_to = absolute(AT_FDCWD, to, whole_to);
  if (!is_from || !is_to) return real(from, to);
  pthread_mutex_lock(&lock);
  int result = real(from, to);
  int error = errno;
  if (!result) note(kind, 0, 0, whole_from, strlen(whole_from), whole_to, strlen(whole_to));
  pthread_mutex_unlock(&lock);
  errno = error;
  return result;
}

int rename(const char *from, const char *to) {
  REAL("rename", int (*)(const char *, const char *));
  return joined(RENAME, real, from, to);
}
int link(const char *from, const char *to) {
  REAL("link", int (*)(const char *, const char *));
  return joined(LINK, real, from, to);
}
