/* One fault in a program's calls of the C library, as a broken disk, a full one or a kill at that moment makes it.

   FAULT_CALL   open, read, write, sync, rename, fork or clock
   FAULT_PATH   part of the path of the file that the call is about; empty: any
   FAULT_AFTER  so many such calls of a process are spared first
   FAULT_DO     error (with FAULT_ERRNO), kill (SIGKILL, to this process), flip (one bit of what passes),
                stale (zeros are read, or written, in place of what passes), back (the clock, by FAULT_SECONDS)
   FAULT_ONCE   it happens a single time, to one of all processes
   FAULT_LOG    a byte is added to this file each time that it happens

   Preloaded by tests/support/faults/shim.py. Calls that pass no library (memory maps) do not come by here. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define REAL(name, type) static type (*real)(); if (!real) real = dlsym(RTLD_NEXT, name)

static const char *get(const char *name) { const char *value = getenv(name); return value ? value : ""; }
static int is(const char *name, const char *value) { return strcmp(get(name), value) == 0; }

static int about(int fd) {
    char link[64], path[PATH_MAX];
    if (!*get("FAULT_PATH")) return 1;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return strstr(path, get("FAULT_PATH")) != NULL;
}

/* Whether the fault happens in this call; of a kill there is no return. */
static int now(const char *call, int matches) {
    static int spared;
    if (!matches || !is("FAULT_CALL", call)) return 0;
    if (__sync_fetch_and_add(&spared, 1) < atoi(get("FAULT_AFTER"))) return 0;
    int once = *get("FAULT_ONCE") ? O_EXCL : 0;
    int log = syscall(SYS_openat, AT_FDCWD, get("FAULT_LOG"), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | once, 0666);
    if (log < 0 && once) return 0;
    if (log >= 0) { syscall(SYS_write, log, "x", 1); syscall(SYS_close, log); }
    if (is("FAULT_DO", "kill")) { syscall(SYS_kill, getpid(), SIGKILL); pause(); }
    errno = atoi(get("FAULT_ERRNO"));
    return 1;
}
static int path_matches(const char *path) { return strstr(path, get("FAULT_PATH")) != NULL; }

#define OPEN(name) int name(const char *path, int flags, ...) { \
    va_list rest; va_start(rest, flags); int mode = va_arg(rest, int); va_end(rest); \
    if (now("open", path_matches(path))) return -1; \
    REAL(#name, int); return real(path, flags, mode); }
OPEN(open) OPEN(open64)
#define OPENAT(name) int name(int at, const char *path, int flags, ...) { \
    va_list rest; va_start(rest, flags); int mode = va_arg(rest, int); va_end(rest); \
    if (now("open", path_matches(path))) return -1; \
    REAL(#name, int); return real(at, path, flags, mode); }
OPENAT(openat) OPENAT(openat64)

static ssize_t after_read(int wrong, void *buffer, ssize_t count) {
    if (wrong && count > 0 && is("FAULT_DO", "stale")) memset(buffer, 0, count);
    if (wrong && count > 0 && is("FAULT_DO", "flip")) ((char *)buffer)[count / 2] ^= 1;
    return count;
}
ssize_t read(int fd, void *buffer, size_t count) {
    REAL("read", ssize_t);
    int wrong = now("read", about(fd));
    if (wrong && is("FAULT_DO", "error")) return -1;
    return after_read(wrong, buffer, real(fd, buffer, count));
}
#define PREAD(name, offset_type) ssize_t name(int fd, void *buffer, size_t count, offset_type offset) { \
    REAL(#name, ssize_t); \
    int wrong = now("read", about(fd)); \
    if (wrong && is("FAULT_DO", "error")) return -1; \
    return after_read(wrong, buffer, real(fd, buffer, count, offset)); }
PREAD(pread, off_t) PREAD(pread64, off64_t)

ssize_t write(int fd, const void *buffer, size_t count) {
    REAL("write", ssize_t);
    if (fd < 3 || !now("write", about(fd))) return real(fd, buffer, count);
    if (is("FAULT_DO", "error")) return -1;
    char *other = malloc(count + 1);
    memcpy(other, buffer, count);
    after_read(1, other, count);
    ssize_t written = real(fd, other, count);
    free(other);
    return written;
}
#define PWRITE(name, offset_type) ssize_t name(int fd, const void *buffer, size_t count, offset_type offset) { \
    REAL(#name, ssize_t); \
    if (now("write", about(fd)) && is("FAULT_DO", "error")) return -1; \
    return real(fd, buffer, count, offset); }
PWRITE(pwrite, off_t) PWRITE(pwrite64, off64_t)
ssize_t writev(int fd, const struct iovec *parts, int count) {
    REAL("writev", ssize_t);
    if (now("write", about(fd)) && is("FAULT_DO", "error")) return -1;
    return real(fd, parts, count);
}

#define SYNC(name) int name(int fd) { \
    REAL(#name, int); \
    if (now("sync", about(fd)) && is("FAULT_DO", "error")) return -1; \
    return real(fd); }
SYNC(fsync) SYNC(fdatasync) SYNC(syncfs)

int rename(const char *old, const char *new) {
    REAL("rename", int);
    if (now("rename", path_matches(new)) && is("FAULT_DO", "error")) return -1;
    return real(old, new);
}
int renameat(int at, const char *old, int to, const char *new) {
    REAL("renameat", int);
    if (now("rename", path_matches(new)) && is("FAULT_DO", "error")) return -1;
    return real(at, old, to, new);
}

pid_t fork(void) {
    REAL("fork", pid_t);
    if (now("fork", 1) && is("FAULT_DO", "error")) return -1;
    return real();
}

/* How far the clock is back: of all processes, once it is of one, as a machine's clock is. */
static long back(clockid_t clock) {
    if (clock != CLOCK_REALTIME || !is("FAULT_CALL", "clock")) return 0;
    return access(get("FAULT_LOG"), F_OK) == 0 || now("clock", 1) ? atol(get("FAULT_SECONDS")) : 0;
}
int clock_gettime(clockid_t clock, struct timespec *time) {
    int status = syscall(SYS_clock_gettime, clock, time);
    if (status == 0) time->tv_sec -= back(clock);
    return status;
}
