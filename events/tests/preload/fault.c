/* Makes calls on the files of a log fail, or ends the process at one of them: loaded into a process with LD_PRELOAD.
 *
 * The file named by CHRONOVA_FAULT says which: "fsync 5" lets every fsync and fdatasync fail with errno 5, "write 28" every
 * write, "write 28 3" the third write of the process and all later ones, "change 5" what cuts, removes or renames a file;
 * "kill 7" is SIGKILL instead of the seventh call that would change a file or make it durable; when it is empty or
 * missing, nothing happens. Only files whose path has "log.db" in it are concerned, or what CHRONOVA_FAULT_PATH says. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static int calls;

static int fails_at(const char *path, const char *call) {
    const char *control = getenv("CHRONOVA_FAULT"), *concerned = getenv("CHRONOVA_FAULT_PATH");
    char wanted[32];
    int code = 0, first = 1, matches = 0;
    FILE *file;

    if (control == NULL || strstr(path, concerned == NULL ? "log.db" : concerned) == NULL) return 0;
    file = fopen(control, "r");
    if (file == NULL) return 0;
    matches = fscanf(file, "%31s %d %d", wanted, &code, &first) >= 2;
    fclose(file);
    if (!matches) return 0;
    if (strcmp(wanted, "kill") == 0) {
        if (__sync_add_and_fetch(&calls, 1) == code) raise(SIGKILL);
        return 0;
    }
    if (strcmp(wanted, call) != 0 || __sync_add_and_fetch(&calls, 1) < first) return 0;
    errno = code;
    return 1;
}

static int fails(int fd, const char *call) {
    char link[64], path[512];
    ssize_t length;

    if (getenv("CHRONOVA_FAULT") == NULL) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return fails_at(path, call);
}

int fsync(int fd) { return fails(fd, "fsync") ? -1 : (int)syscall(SYS_fsync, fd); }
int fdatasync(int fd) { return fails(fd, "fsync") ? -1 : (int)syscall(SYS_fdatasync, fd); }

ssize_t write(int fd, const void *from, size_t count) {
    return fails(fd, "write") ? -1 : syscall(SYS_write, fd, from, count);
}
ssize_t pwrite64(int fd, const void *from, size_t count, off64_t at) {
    return fails(fd, "write") ? -1 : syscall(SYS_pwrite64, fd, from, count, at);
}
ssize_t pwrite(int fd, const void *from, size_t count, off_t at) { return pwrite64(fd, from, count, at); }

int ftruncate64(int fd, off64_t length) { return fails(fd, "change") ? -1 : (int)syscall(SYS_ftruncate, fd, length); }
int ftruncate(int fd, off_t length) { return ftruncate64(fd, length); }
int unlink(const char *path) { return fails_at(path, "change") ? -1 : (int)syscall(SYS_unlink, path); }
int rename(const char *from, const char *to) {
    return fails_at(to, "change") ? -1 : (int)syscall(SYS_rename, from, to);
}
