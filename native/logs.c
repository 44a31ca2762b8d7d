/*
 * logs.c - the rotated files: their names, what opens them, how many there are. A task may swap links and directories in
 * here as it likes: descriptors and O_NOFOLLOW lead nowhere else.
 */
#define _GNU_SOURCE
#include "pump.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What the agent adds to the name of a file that it has compressed. */
#define COMPRESSED ".gz"

static void file_name(const struct executor *x, const struct stream *s, uint64_t index, char *buf, size_t cap) {
	(void) format_text(buf, cap, "%s.%s.%llu", x->spec.log_name, s->name, (unsigned long long) index);
}

/*
 * The log directory may be taken away and made anew. By then tasks have been running that may write to its
 * parent: a new one counts only when it is a directory, no link, and belongs to whoever the first one
 * belonged to.
 */
static int open_dir_again(struct executor *x) {
	AUTO_FD fd = open(x->spec.log_dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (st.st_uid != x->logs.dir_owner)
		return -EPERM;
	return dup3(fd, x->logs.dir, O_CLOEXEC) < 0 ? -errno : 0;
}

/* Opens one log file for writing at its end. A fifo, a link or a directory in its place is -EEXIST. */
static int open_file(struct executor *x, const struct stream *s, uint64_t index, int *ret_fd, uint64_t *ret_size) {
	char name[256 + 32];
	file_name(x, s, index, name, sizeof name);
	int flags = O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
	int fd = openat(x->logs.dir, name, flags, 0644);
	if (fd < 0 && errno == ENOENT && open_dir_again(x) == 0)
		fd = openat(x->logs.dir, name, flags, 0644);
	if (fd < 0)
		return errno == ELOOP || errno == EISDIR || errno == ENXIO ? -EEXIST : -errno;
	struct stat st;
	int r = fstat(fd, &st) < 0 ? -errno : 0;
	if (r == 0 && (!S_ISREG(st.st_mode) || st.st_nlink != 1))
		r = -EEXIST;
	if (r < 0) {
		(void) close(fd);
		return r;
	}
	/* The little that is read of it is no access worth noting. */
	(void) fcntl(fd, F_SETFL, O_NONBLOCK | O_NOATIME);
	*ret_fd = fd;
	*ret_size = (uint64_t) st.st_size;
	return 0;
}

static int open_index(struct executor *x, struct stream *s, uint64_t index) {
	int fd = -1, r = -EEXIST;
	for (int skipped = 0; r == -EEXIST && skipped < MAX_SKIPPED; skipped++, index++)
		r = open_file(x, s, index, &fd, &s->pos);
	if (r < 0)
		return r;
	close_fd(&s->file);
	s->file = fd;
	s->index = index - 1;
	return 0;
}

/* Removes what is too old, downwards from the newest of them to the first that is not there. */
static void purge(const struct executor *x, const struct stream *s) {
	char name[256 + 32];
	uint64_t keep = (uint64_t) x->spec.log_max_files;
	for (uint64_t n = s->index + 1; n > keep; n--) {
		file_name(x, s, n - keep - 1, name, sizeof name);
		bool removed = unlinkat(x->logs.dir, name, 0) == 0;
		/* The agent compresses files that are complete; for a moment both are there. */
		(void) strncat(name, COMPRESSED, sizeof name - strlen(name) - 1);
		if (unlinkat(x->logs.dir, name, 0) < 0 && !removed)
			return;
	}
}

int rotate(struct executor *x, struct stream *s) {
	int r = open_index(x, s, s->index + 1);
	if (r == 0)
		purge(x, s);
	return r;
}

int ready_file(struct executor *x, struct stream *s) {
	struct stat st;
	if (s->file >= 0 && fstat(s->file, &st) == 0 && st.st_nlink > 0) {
		s->pos = (uint64_t) st.st_size;
		return 0;
	}
	close_fd(&s->file);
	return open_index(x, s, s->index);
}

bool at_line_start(const struct stream *s) {
	char last = '\n';
	return s->pos == 0 || pread(s->file, &last, 1, (off_t) s->pos - 1) != 1 || last == '\n';
}

int mark_gap(struct stream *s) {
	char buf[160];
	struct text t = { .at = buf, .cap = sizeof buf };
	text_add(&t, "%s[holdfast: %llu bytes dropped: %s]\n", at_line_start(s) ? "" : "\n",
		 (unsigned long long) s->gap, s->gap_errno == ETIMEDOUT ? "the disk did not answer" : strerror(s->gap_errno));
	ssize_t n = pwrite(s->file, t.at, t.len, (off_t) s->pos);
	if (n != (ssize_t) t.len) {
		int error = n < 0 ? -errno : -ENOSPC;
		return ftruncate(s->file, (off_t) s->pos) < 0 ? -errno : error;
	}
	s->pos += t.len;
	s->gap = 0;
	return 0;
}

/* Finds the highest N there is, and removes what is already too old. Only at set-up. */
static int scan(struct executor *x) {
	AUTO_FD fd = openat(x->logs.dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	struct names names = { .dir = fd };
	size_t len = strlen(x->spec.log_name);
	for (const char *entry; (entry = next_name(&names));) {
		for (size_t i = 0; i < STREAMS; i++) {
			struct stream *s = &x->logs.streams[i];
			size_t name = strlen(s->name);
			const char *rest = entry + len;
			if (strncmp(entry, x->spec.log_name, len) != 0 || rest[0] != '.' ||
			    strncmp(rest + 1, s->name, name) != 0 || rest[1 + name] != '.')
				continue;
			const char *digits = rest + name + 2, *end;
			int64_t n = read_number(digits, &end);
			bool is_number = *digits >= '0' && *digits <= '9' && n < UINT32_MAX;
			/* One that is compressed is complete: the next is to be written. */
			if (is_number && strcmp(end, COMPRESSED) == 0)
				n++;
			else if (*end != '\0')
				is_number = false;
			if (is_number && (uint64_t) n > s->index)
				s->index = (uint64_t) n;
		}
	}
	return 0;
}

int logs_open(struct executor *x) {
	if (!x->spec.log_dir)
		return 0;
	x->logs.dir = open(x->spec.log_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat st;
	if (x->logs.dir < 0 || fstat(x->logs.dir, &st) < 0)
		return -errno;
	x->logs.dir_owner = st.st_uid;
	int r = scan(x);
	if (r < 0)
		return r;
	/* So that the files are there as soon as the task is. A full disk is no reason not to start it. */
	for (size_t i = 0; i < STREAMS; i++) {
		if (ready_file(x, &x->logs.streams[i]) == 0)
			purge(x, &x->logs.streams[i]);
		close_fd(&x->logs.streams[i].file); /* Many a task never writes to one of them. */
	}
	return 0;
}
