/*
 * pump.c - the task's output, from its FIFOs into rotated files. The bytes are spliced: the kernel moves them
 * in one step that SIGKILL cannot cut in two, so that the executor that takes over neither loses nor repeats
 * any. Only near the end of a file are they looked at first (tee), for the line end to cut at. Errors of the
 * disk never stop the reading: what cannot be written is taken, dropped and counted. One page of rules for one
 * stream, which is why it is longer than others.
 */
#define _GNU_SOURCE
#include "executor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* The capacity of a pipe, and the longest line that is kept in one piece. */
#define CHUNK 65536U
/* How much one stream may move before the others have their turn. */
#define TURN_BYTES (1U << 20)
/* Names that are no plain file are stepped over, so often. */
#define MAX_SKIPPED 16
/* What the agent adds to the name of a file that it has compressed. */
#define COMPRESSED ".gz"

/* What is looked at, dropped or copied. Its memory is given back after use, which is rare. */
static _Alignas(4096) uint8_t chunk[CHUNK];
static bool chunk_is_used;

static void free_chunk(struct executor *x) {
	if (chunk_is_used)
		(void) madvise(chunk, sizeof chunk, MADV_DONTNEED);
	chunk_is_used = false;
	close_fd(&x->logs.scratch[0]);
	close_fd(&x->logs.scratch[1]);
}

/* Copies up to `len` bytes from the front of the pipe into our own one. As tee(2). */
static ssize_t tee_off(struct executor *x, const struct stream *s, size_t len) {
	if (x->logs.scratch[0] < 0 && pipe2(x->logs.scratch, O_CLOEXEC | O_NONBLOCK) < 0)
		return -1;
	chunk_is_used = true;
	return tee(s->fifo, x->logs.scratch[1], len, SPLICE_F_NONBLOCK);
}

static uint64_t max_bytes(const struct executor *x) {
	return (uint64_t) x->spec.log_max_bytes;
}

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

static int rotate(struct executor *x, struct stream *s) {
	int r = open_index(x, s, s->index + 1);
	if (r == 0)
		purge(x, s);
	return r;
}

/* Makes sure that the present file is open and still in its directory, and knows its length. */
static int ready_file(struct executor *x, struct stream *s) {
	struct stat st;
	if (s->file >= 0 && fstat(s->file, &st) == 0 && st.st_nlink > 0) {
		s->pos = (uint64_t) st.st_size;
		return 0;
	}
	close_fd(&s->file);
	return open_index(x, s, s->index);
}

static bool at_line_start(const struct stream *s) {
	char last = '\n';
	return s->pos == 0 || pread(s->file, &last, 1, (off_t) s->pos - 1) != 1 || last == '\n';
}

/* Copies up to `len` bytes from the front of the pipe into `chunk` and leaves them there. */
static size_t look(struct executor *x, const struct stream *s, size_t len) {
	ssize_t n = tee_off(x, s, len < CHUNK ? len : CHUNK);
	size_t got = 0;
	while (n > 0 && got < (size_t) n) {
		ssize_t r = read(x->logs.scratch[0], chunk + got, (size_t) n - got);
		if (r <= 0)
			break;
		got += (size_t) r;
	}
	return got;
}

/*
 * Chooses how many of the `want` bytes at hand fit the present file. False = none: it has to be rotated
 * first.
 */
static bool choose(struct executor *x, const struct stream *s, size_t want, size_t *ret_take) {
	uint64_t max = max_bytes(x), stretch = max / 2 < CHUNK ? max / 2 : CHUNK;
	if (s->pos >= max)
		return false;
	size_t room = max - s->pos < SIZE_MAX ? (size_t) (max - s->pos) : SIZE_MAX;
	*ret_take = want < room ? want : room;
	if (want <= room && room - want >= stretch)
		return true;
	size_t seen = look(x, s, want);
	if (seen == 0)
		return true;
	size_t fits = seen < room ? seen : room;
	const uint8_t *nl = memrchr(chunk, '\n', fits);
	*ret_take = nl ? (size_t) (nl + 1 - chunk) : fits;
	return nl || s->pos == 0 || !at_line_start(s);
}

/*
 * Decides how many of the `want` bytes at hand go into the present file, after a rotation if need be. In the
 * last stretch of a file only whole lines are taken, so that no line has to be continued in the next file; a
 * line longer than the stretch is split.
 */
static int make_room(struct executor *x, struct stream *s, size_t want, size_t *ret_take) {
	for (int tries = 0; tries < MAX_SKIPPED; tries++) {
		if (choose(x, s, want, ret_take))
			return 0;
		int r = rotate(x, s);
		if (r < 0)
			return r;
	}
	return -EFBIG;
}

/* Says in the log itself what is missing from it. */
static int mark_gap(struct stream *s) {
	char buf[160];
	struct text t = { .at = buf, .cap = sizeof buf };
	text_add(&t, "%s[holdfast: %llu bytes dropped: %s]\n", at_line_start(s) ? "" : "\n",
		 (unsigned long long) s->gap, strerror(s->gap_errno));
	ssize_t n = pwrite(s->file, t.at, t.len, (off_t) s->pos);
	if (n != (ssize_t) t.len) {
		int error = n < 0 ? -errno : -ENOSPC;
		return ftruncate(s->file, (off_t) s->pos) < 0 ? -errno : error;
	}
	s->pos += t.len;
	s->gap = 0;
	return 0;
}

static ssize_t drop(struct stream *s, size_t want, int errnum) {
	ssize_t n = read(s->fifo, chunk, want < CHUNK ? want : CHUNK);
	chunk_is_used = true;
	if (n <= 0)
		return n < 0 ? -errno : 0;
	s->bytes += (uint64_t) n;
	s->dropped += (uint64_t) n;
	s->gap += (uint64_t) n;
	s->gap_errno = errnum;
	return n;
}

/* For file systems that cannot splice. */
static ssize_t copy(struct stream *s, size_t take) {
	ssize_t n = read(s->fifo, chunk, take < CHUNK ? take : CHUNK);
	chunk_is_used = true;
	if (n <= 0)
		return n < 0 ? -errno : 0;
	ssize_t done = 0;
	while (done < n) {
		ssize_t w = pwrite(s->file, chunk + done, (size_t) (n - done), (off_t) s->pos);
		if (w <= 0) {
			s->gap_errno = w < 0 ? errno : ENOSPC;
			break;
		}
		done += w;
		s->pos += (uint64_t) w;
	}
	s->bytes += (uint64_t) n;
	s->dropped += (uint64_t) (n - done);
	s->gap += (uint64_t) (n - done);
	return n;
}

/* Moves some of the `want` bytes at hand. Returns how many left the pipe, 0 at its end, or -errno. */
static ssize_t move(struct executor *x, struct stream *s, size_t want) {
	size_t take = want;
	int r = ready_file(x, s);
	if (r == 0 && s->gap > 0)
		r = mark_gap(s);
	if (r == 0)
		r = make_room(x, s, want, &take);
	if (r < 0)
		return drop(s, want, -r);
	if (s->copies)
		return copy(s, take);
	off64_t at = (off64_t) s->pos;
	ssize_t n = splice(s->fifo, NULL, s->file, &at, take, SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
	if (n >= 0) {
		s->bytes += (uint64_t) n;
		s->pos += (uint64_t) n;
		return n;
	}
	if (errno == EAGAIN)
		return -EAGAIN;
	if (errno == EINVAL) {
		s->copies = true;
		return copy(s, take);
	}
	return drop(s, want, errno);
}

static size_t at_hand(const struct stream *s) {
	int n = 0;
	return ioctl(s->fifo, FIONREAD, &n) < 0 || n < 0 ? 0 : (size_t) n;
}

static void end_stream(struct executor *x, struct stream *s) {
	s->ended = true;
	close_watched(x, &s->fifo);
}

void pump(struct executor *x, uint32_t index, uint32_t events) {
	struct stream *s = &x->logs.streams[index];
	if (s->fifo < 0)
		return;
	if (!(events & EPOLLIN)) {
		if (events & (EPOLLHUP | EPOLLERR))
			end_stream(x, s);
		return;
	}
	size_t want;
	for (uint64_t moved = 0; moved < TURN_BYTES && (want = at_hand(s)) > 0;) {
		ssize_t n = move(x, s, want);
		if (n <= 0)
			break;
		moved += (uint64_t) n;
	}
	free_chunk(x);
}

/* True when the pipe is empty and nobody has it open for writing. Takes nothing. */
static bool is_at_end(struct executor *x, const struct stream *s) {
	ssize_t n = tee_off(x, s, 1);
	if (n > 0)
		(void) !read(x->logs.scratch[0], chunk, sizeof chunk);
	return n == 0;
}

static void finish_stream(struct executor *x, struct stream *s) {
	/*
	 * What the tree wrote before it ended is in the pipe now; what a stranger adds to it does not count.
	 */
	size_t left = s->fifo >= 0 ? at_hand(s) : 0;
	while (left > 0) {
		ssize_t n = move(x, s, left);
		if (n <= 0)
			break;
		left -= (size_t) n < left ? (size_t) n : left;
	}
	if (s->fifo >= 0 && is_at_end(x, s))
		s->ended = true;
	close_watched(x, &s->fifo);
	if (s->gap > 0 && ready_file(x, s) == 0)
		(void) mark_gap(s);
	close_fd(&s->file);
}

bool pump_finish(struct executor *x) {
	bool complete = true;
	for (size_t i = 0; i < STREAMS; i++) {
		struct stream *s = &x->logs.streams[i];
		finish_stream(x, s);
		complete = complete && (!x->spec.log_dir || (s->ended && !s->lost));
	}
	return complete;
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
	}
	return 0;
}

int fifos_open(struct executor *x) {
	for (size_t i = 0; x->spec.log_dir && i < STREAMS; i++) {
		struct stream *s = &x->logs.streams[i];
		s->fifo = openat(x->dir, s->name, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
		struct stat st;
		if (s->fifo < 0 || fstat(s->fifo, &st) < 0)
			return -errno;
		if (!S_ISFIFO(st.st_mode))
			return -EINVAL;
	}
	return 0;
}

/*
 * For the one that takes over: a pipe that nobody holds any more has forgotten what was in it when its last
 * holder went. Nobody can tell whether that was nothing.
 */
void fifos_note_loss(struct executor *x) {
	for (size_t i = 0; x->spec.log_dir && i < STREAMS; i++) {
		struct stream *s = &x->logs.streams[i];
		s->lost = s->fifo < 0 || is_at_end(x, s);
	}
	free_chunk(x);
}

int fifos_make(struct executor *x) {
	for (size_t i = 0; x->spec.log_dir && i < STREAMS; i++) {
		if (mkfifoat(x->dir, x->logs.streams[i].name, 0600) < 0)
			return -errno;
	}
	return fifos_open(x);
}

int fifos_watch(struct executor *x) {
	for (uint32_t i = 0; i < STREAMS; i++) {
		struct stream *s = &x->logs.streams[i];
		int r = s->fifo >= 0 ? watch(x, s->fifo, EPOLLIN, SOURCE_STREAM, i) : 0;
		if (r < 0)
			return r;
	}
	return 0;
}
