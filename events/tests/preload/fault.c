/* Makes calls on the files of a log fail: loaded into a test's child with LD_PRELOAD.
 *
 * The file named by CHRONOVA_FAULT says which: "fsync 5" lets every fsync and fdatasync fail with errno 5, "write 28" every
 * write; when it is empty or missing, nothing fails. Only files whose name has "log.db" in it are concerned. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static int fails(int fd, const char *call) {
    const char *control = getenv("CHRONOVA_FAULT");
    char link[64], path[512], wanted[32];
    int code = 0, matches = 0;
    ssize_t length;
    FILE *file;

    if (control == NULL) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    if (strstr(path, "log.db") == NULL) return 0;
    file = fopen(control, "r");
    if (file == NULL) return 0;
    matches = fscanf(file, "%31s %d", wanted, &code) == 2 && strcmp(wanted, call) == 0;
    fclose(file);
    if (matches) errno = code;
    return matches;
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
