/* util.c - see util.h. */
#define _GNU_SOURCE
#include "util.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Longer values, such as a path that was refused for its length, are cut: what follows must fit as well. */
#define VALUE_MAX 4096

void close_at_scope_end(const int *fd) {
	int saved = errno;
	if (*fd >= 0)
		(void) close(*fd);
	errno = saved;
}

void close_fd(int *fd) {
	close_at_scope_end(fd);
	*fd = -1;
}

void close_from(int first) {
	if (syscall(SYS_close_range, (unsigned int) first, ~0U, 0U) == 0)
		return;
	for (int fd = first; fd < 1024; fd++)
		(void) close(fd);
}

static uint64_t clock_ns(clockid_t clock) {
	struct timespec t = { 0 };
	(void) clock_gettime(clock, &t);
	return (uint64_t) t.tv_sec * NS_PER_SEC + (uint64_t) t.tv_nsec;
}

uint64_t mono_ns(void) {
	return clock_ns(CLOCK_MONOTONIC);
}

uint64_t wall_ns(void) {
	return clock_ns(CLOCK_REALTIME);
}

void text_add(struct text *t, const char *format, ...) {
	va_list args;
	va_start(args, format);
	size_t n = format_args(t->at + t->len, t->cap - t->len, format, args);
	va_end(args);
	if (n >= t->cap - t->len) {
		t->cut = true;
		t->len = t->cap - 1;
	} else {
		t->len += n;
	}
}

void text_add_value(struct text *t, const char *key, const char *value) {
	text_add(t, "%s=", key);
	size_t from = t->len;
	text_add(t, "%.*s", VALUE_MAX, value);
	for (char *p = t->at + from; *p; p++) {
		if ((unsigned char) *p < ' ' || *p == 127)
			*p = '?';
	}
	text_add(t, "\n");
}

bool is_there(int dir, const char *name) {
	return syscall(SYS_faccessat, dir, name, F_OK) == 0;
}

int write_full(int fd, const void *data, size_t len) {
	const char *p = data;
	while (len > 0) {
		ssize_t n = write(fd, p, len);
		if (n < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		p += n;
		len -= (size_t) n;
	}
	return 0;
}

ssize_t read_file_at(int dir, const char *path, char *buf, size_t cap) {
	AUTO_FD fd = openat(dir, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return -errno;
	size_t len = 0;
	while (len < cap - 1) {
		ssize_t n = read(fd, buf + len, cap - 1 - len);
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		len += (size_t) n;
	}
	buf[len] = '\0';
	return (ssize_t) len;
}

/* As getdents64(2) gives it. */
struct entry {
	uint64_t inode;
	int64_t offset;
	uint16_t size;
	uint8_t type;
	char name[];
};

const char *next_name(struct names *n) {
	if (n->at >= n->len) {
		n->at = 0;
		n->len = syscall(SYS_getdents64, n->dir, n->buf, sizeof n->buf);
		if (n->len <= 0)
			return NULL;
	}
	const struct entry *e = (const struct entry *) (const void *) (n->buf + n->at);
	n->at += e->size;
	return e->name;
}

int write_file(const char *path, const char *value) {
	AUTO_FD fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	return write(fd, value, strlen(value)) < 0 ? -errno : 0;
}

int64_t read_number(const char *text, const char **ret_end) {
	const char *at = text + strspn(text, " \t");
	bool negative = *at == '-';
	if (*at == '-' || *at == '+')
		at++;
	bool is_number = *at >= '0' && *at <= '9';
	/* Counted downwards: there is one more of the negative ones. */
	int64_t value = 0;
	for (; *at >= '0' && *at <= '9'; at++) {
		int64_t next;
		value = __builtin_mul_overflow(value, 10, &next) || __builtin_sub_overflow(next, *at - '0', &next) ? INT64_MIN :
														      next;
	}
	if (ret_end)
		*ret_end = is_number ? at : text;
	if (negative)
		return value;
	return value == INT64_MIN ? INT64_MAX : -value;
}

int find_number(const char *text, const char *key, char separator, uint64_t *ret_value) {
	size_t len = strlen(key);
	for (const char *line = text; line; line = strchr(line, '\n')) {
		if (*line == '\n')
			line++;
		if (strncmp(line, key, len) != 0 || line[len] != separator)
			continue;
		const char *end;
		int64_t value = read_number(line + len + 1, &end);
		if (value < 0 || end == line + len + 1)
			return -ENOENT;
		*ret_value = (uint64_t) value;
		return 0;
	}
	return -ENOENT;
}

/* The number that follows the `count`th space; 0 when there are not so many. */
static uint64_t number_after(const char *p, int count) {
	for (; *p != '\0'; p++) {
		if (*p == ' ' && --count == 0)
			return (uint64_t) read_number(p + 1, NULL);
	}
	return 0;
}

int proc_stat_read(pid_t pid, struct proc_stat *ret_stat) {
	char path[32], buf[1024];
	(void) format_text(path, sizeof path, "/proc/%d/stat", pid);
	ssize_t n = read_file_at(-1, path, buf, sizeof buf);
	if (n < 0)
		return (int) n;
	/* The command, in parentheses, may itself hold parentheses and spaces: count from the last one. */
	const char *name = strchr(buf, '('), *comm_end = strrchr(buf, ')');
	if (!name || !comm_end || comm_end < name)
		return -EBADMSG;
	const char *p = comm_end;
	if (p[1] != ' ')
		return -EBADMSG;
	p += 2;
	uint64_t start = number_after(p, 19);
	/* Only the kernel itself starts at tick 0. */
	if (start == 0)
		return -EBADMSG;
	/* The last field, since Linux 3.5. */
	const char *last = strrchr(p, ' ');
	*ret_stat = (struct proc_stat){ .state = *p,
					.ppid = (pid_t) number_after(p, 1),
					.pgrp = (pid_t) number_after(p, 2),
					.session = (pid_t) number_after(p, 3),
					.start_ticks = start,
					.exit_status = last ? (int) read_number(last, NULL) : 0 };
	(void) format_text(ret_stat->comm, sizeof ret_stat->comm, "%.*s", (int) (comm_end - name - 1), name + 1);
	return 0;
}

int pidfd_signal(int pidfd, int signal) {
	return syscall(SYS_pidfd_send_signal, pidfd, signal, NULL, 0) < 0 ? -errno : 0;
}

int pidfd_of(pid_t pid) {
	long fd = syscall(SYS_pidfd_open, pid, 0);
	return fd < 0 ? -errno : (int) fd;
}

/* struct sched_attr, up to the fields of Linux 3.14. */
struct sched_attr_v0 {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime_ns, deadline_ns, period_ns;
};
/* About what we have to do for a start or an end; the usual one is 0.7 ms or more, and 0.1 ms the shortest. */
#define SHORT_SLICE_NS 300000U

void set_slice(enum slice slice) {
	struct sched_attr_v0 attr;
	if (syscall(SYS_sched_getattr, 0, &attr, sizeof attr, 0) < 0 || attr.policy != SCHED_OTHER)
		return;
	attr.size = sizeof attr;
	attr.runtime_ns = slice == SLICE_SHORT ? SHORT_SLICE_NS : 0;
	(void) syscall(SYS_sched_setattr, 0, &attr, 0);
}
