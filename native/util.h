/*
 * util.h - small helpers used everywhere: descriptors, clocks, bounded text, /proc, system calls libc may
 * lack. Nothing here knows about runs or workloads.
 */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_SEC UINT64_C(1000000000)
#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* Closes when the variable goes out of scope; keeps errno. */
#define AUTO_FD __attribute__((cleanup(close_at_scope_end))) int
void close_at_scope_end(const int *fd);
/* Closes *fd unless it is -1 and makes it -1; keeps errno. */
void close_fd(int *fd);
/* Closes `first` and all above it. */
void close_from(int first);

uint64_t mono_ns(void);
uint64_t wall_ns(void);

/*
 * As snprintf(3), of which they know %s, %d, %u, %x with `ll`, a width with leading zeros, and a precision of strings:
 * the printf of a libc is as big as half of this program. Returns the length that all of it would have.
 */
__attribute__((format(printf, 3, 4))) int format_text(char *buf, size_t cap, const char *format, ...);
__attribute__((format(printf, 3, 0))) size_t format_args(char *buf, size_t cap, const char *format, va_list args);
/* On standard error, in one write. */
__attribute__((format(printf, 1, 2))) void say(const char *format, ...);

/* Text of bounded length; what does not fit is cut, and `cut` says so. Always NUL-terminated. */
struct text {
	char *at;
	size_t cap, len;
	bool cut;
};
__attribute__((format(printf, 2, 3))) void text_add(struct text *t, const char *format, ...);
/* Adds one `key=value` line; control characters of the value become '?', so that it stays one line. */
void text_add_value(struct text *t, const char *key, const char *value);

/* Is there anything by that name? */
bool is_there(int dir, const char *name);
/* Writes everything or returns -errno. */
int write_full(int fd, const void *data, size_t len);
/* Reads a small file from its beginning into `buf` and terminates it. Returns its length or -errno. */
ssize_t read_file_at(int dir, const char *path, char *buf, size_t cap);
/* The names in an open directory, one after another, without an allocator, which readdir(3) needs. Begin with { .dir = fd }. */
struct names {
	int dir;
	long at, len;
	_Alignas(8) char buf[4096];
};
/* NULL at the end, or at a fault. It is overwritten by the next call. */
const char *next_name(struct names *n);
/* Writes `value` into an existing file, in one write. Returns 0 or -errno. */
int write_file(const char *path, const char *value);
/*
 * Reads a decimal number as strtoll(3) does: blanks and a sign may stand before it, and what is beyond an int64_t stays at its
 * end. *ret_end is where it stopped, or `text` when there is no number; it may be NULL. The strtoll of musl is 2 KiB.
 */
int64_t read_number(const char *text, const char **ret_end);
/* Finds the line `key<separator>number` in text. Returns 0, or -ENOENT when it is not there or no number. */
int find_number(const char *text, const char *key, char separator, uint64_t *ret_value);

/* What /proc/<pid>/stat says, as far as it is needed here. */
struct proc_stat {
	char comm[16];
	char state;
	pid_t ppid, pgrp, session;
	uint64_t start_ticks;
	int exit_status; /* of a dead one, as wait() gives it; 0 for those who may not see it */
};
/* Returns 0, -ENOENT or -ESRCH when there is no such process, or another -errno. */
int proc_stat_read(pid_t pid, struct proc_stat *ret_stat);

/*
 * The time slice that the scheduler is asked for. Whoever has a short one may, on Linux 6.12 and later, run as soon as it wakes up, also while
 * another one is in the middle of its own. What is forked inherits it.
 */
enum slice { SLICE_USUAL, SLICE_SHORT };
void set_slice(enum slice slice);

/* 0 or -errno. */
int pidfd_signal(int pidfd, int signal);
/* A new pidfd or -errno. */
int pidfd_of(pid_t pid);
