/*
 * pump.c - the writer: the thread that brings the task's output from its FIFOs into the log files. A write into a file may hang for as long
 * as the disk likes, so it never holds the lock of the task's pipe: a chunk is read into memory that outlives us (chunk.c), and written from
 * there. Errors of the disk never stop the reading: what cannot be written is dropped and counted. Over 300 lines: all rules for one chunk
 * stand together.
 */
#define _GNU_SOURCE
#include "pump.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* What a read that wants nothing but to take reads into, again and again: it stays in the nearest cache. */
#define SINK 2048U
/* When nothing comes for so long, memory is given back. */
#define QUIET_SEC 1
/* The main thread has emptied the pipe meanwhile. */
#define TAKEN (-ECANCELED)

ssize_t discard(int fifo, size_t len) {
	uint8_t sink[SINK];
	struct iovec to[CHUNK / SINK];
	int count = 0;
	for (size_t left = len < CHUNK ? len : CHUNK; left > 0; left -= to[count++].iov_len)
		to[count] = (struct iovec){ .iov_base = sink, .iov_len = left < SINK ? left : SINK };
	ssize_t n = readv(fifo, to, count);
	return n < 0 ? -errno : n;
}

/*
 * Our own pipe, to look at what is in the task's without taking it. It takes the places of standard input and output, which nobody uses
 * after the last fork: an executor is to hold few descriptors.
 */
int scratch_open(struct executor *x) {
	int ends[2];
	if (x->logs.scratch[0] >= 0)
		return 0;
	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
		return -errno;
	for (int i = 0; i < 2; i++) {
		x->logs.scratch[i] = dup3(ends[i], i, O_CLOEXEC);
		close_fd(&ends[i]);
	}
	return 0;
}

/* Copies the first `len` bytes in the task's pipe, and takes nothing. Returns how many there were, 0 at its end, or -errno. */
static ssize_t peek(const struct executor *x, const struct stream *s, size_t len, uint8_t *ret_bytes) {
	ssize_t n = tee(s->fifo, x->logs.scratch[1], len, SPLICE_F_NONBLOCK);
	if (n <= 0)
		return n < 0 ? -errno : 0;
	return read(x->logs.scratch[0], ret_bytes, (size_t) n) == n ? n : -EIO;
}

size_t at_hand(const struct stream *s) {
	int n = 0;
	return s->fifo < 0 || ioctl(s->fifo, FIONREAD, &n) < 0 || n < 0 ? 0 : (size_t) n;
}

/* How near the end of a file no line is begun that does not end there. */
static uint64_t last_stretch(const struct executor *x) {
	uint64_t half = (uint64_t) x->spec.log_max_bytes / 2;
	return half < LAST_STRETCH ? half : LAST_STRETCH;
}

/*
 * Decides how many of the bytes at hand go into the present file. 0 = it has to be rotated first. In the last stretch of a file only whole
 * lines are taken, so that no line has to be continued in the next file; a line longer than that is split.
 */
static size_t choose(const struct executor *x, const struct stream *s, const uint8_t *bytes, size_t want) {
	uint64_t max = (uint64_t) x->spec.log_max_bytes;
	if (s->pos >= max)
		return 0;
	size_t fits = max - s->pos < want ? (size_t) (max - s->pos) : want;
	if (max - s->pos - fits >= last_stretch(x))
		return fits;
	const uint8_t *nl = memrchr(bytes, '\n', fits);
	if (nl)
		return (size_t) (nl + 1 - bytes);
	return s->pos == 0 || !at_line_start(s) ? fits : 0;
}

/*
 * In the last stretch of a file not more than whole lines are read, when there are some: with the begin of a line in our hands, which ends in
 * the pipe, the file would have to be rotated though there is room.
 */
static size_t whole_lines(struct executor *x, const struct stream *s, size_t want) {
	uint64_t max = (uint64_t) x->spec.log_max_bytes;
	if (s->pos + want + last_stretch(x) <= max)
		return want;
	uint8_t *bytes = chunk_room(x, want);
	ssize_t n = peek(x, s, want, bytes);
	const uint8_t *nl = n > 0 ? memrchr(bytes, '\n', (size_t) n) : NULL;
	return nl ? (size_t) (nl + 1 - bytes) : want;
}

static void lose(struct stream *s, size_t len, int errnum) {
	if (len == 0)
		return;
	s->dropped += len;
	s->gap += len;
	s->gap_errno = errnum;
}

/* Writes some of the chunk. */
static int write_some(struct executor *x, struct stream *s) {
	size_t want, take = 0;
	const uint8_t *bytes = chunk_rest(&want);
	int r = ready_file(x, s);
	for (int tries = 0; r == 0 && (take = choose(x, s, bytes, want)) == 0; tries++)
		r = tries < MAX_SKIPPED ? rotate(x, s) : -EFBIG;
	if (r < 0)
		return r;
	chunk_write(s, take);
	ssize_t n = pwrite(s->file, bytes, take, (off_t) s->pos);
	if (n <= 0)
		return n < 0 ? -errno : -ENOSPC;
	s->pos += (uint64_t) n;
	chunk_written((size_t) n);
	return 0;
}

/*
 * Brings the chunk to its end: into the file, or, when that cannot be (or is a -errno already), to nothing. After begin_disk(), ends as
 * end_disk().
 */
static bool write_out(struct executor *x, struct stream *s, int r) {
	bool is_ours = true;
	size_t left;
	for (;;) {
		if (r == 0)
			r = write_some(x, s);
		(void) chunk_rest(&left);
		if (r < 0 || left == 0)
			break;
		is_ours = end_disk(x) && is_ours;
		count_step(x);
		begin_disk(x, s, left);
	}
	chunk_none();
	is_ours = end_disk(x) && is_ours;
	lose(s, left, -r);
	return is_ours;
}

/* Moves some of the `want` bytes at hand. Returns how many left the pipe, 0 at its end, or -errno. */
static ssize_t move(struct executor *x, struct stream *s, size_t want) {
	uint8_t seen[CHUNK_MARK];
	want = want < CHUNK ? want : CHUNK;
	begin_disk(x, NULL, 0);
	int r = s->gap > 0 ? ready_file(x, s) : 0;
	if (r == 0 && s->gap > 0)
		r = mark_gap(s);
	want = whole_lines(x, s, want);
	ssize_t few = want <= CHUNK_MARK ? peek(x, s, want, seen) : 0;
	if (few > 0)
		want = (size_t) few;
	void *to = chunk_expect(x, s, want, few > 0 ? seen : NULL);
	if (!end_disk(x))
		return TAKEN;
	ssize_t n = read(s->fifo, to, want);
	if (n <= 0)
		return n < 0 ? -errno : 0;
	s->bytes += (uint64_t) n;
	begin_disk(x, s, (size_t) n);
	chunk_hold((size_t) n);
	return write_out(x, s, r) ? n : TAKEN;
}

static void close_gap(struct executor *x, struct stream *s) {
	begin_disk(x, NULL, 0);
	if (s->gap > 0 && ready_file(x, s) == 0)
		(void) mark_gap(s);
	(void) end_disk(x);
}

/* The disk answers again. Who reads the log now is not to wait for more output to hear of what was dropped. */
static void close_gaps(struct executor *x) {
	for (size_t i = 0; i < STREAMS; i++)
		close_gap(x, &x->logs.streams[i]);
}

static void pump(struct executor *x, struct stream *s, int events) {
	size_t want;
	ssize_t n = 0;
	if (!(events & POLLIN)) {
		s->ended = true;
		return;
	}
	for (uint64_t moved = 0; moved < TURN_BYTES && (want = at_hand(s)) > 0;) {
		n = move(x, s, want);
		if (n <= 0)
			break;
		moved += (uint64_t) n;
	}
	if (n == TAKEN)
		close_gaps(x);
}

/* True when the pipe is empty and nobody has it open for writing. Takes nothing. */
static bool is_at_end(const struct executor *x, const struct stream *s) {
	uint8_t first;
	return peek(x, s, 1, &first) == 0;
}

static void finish_stream(struct executor *x, struct stream *s) {
	/*
	 * What the tree wrote before it ended is in the pipe now; what a stranger adds to it does not count.
	 */
	for (size_t left = at_hand(s); left > 0;) {
		ssize_t n = move(x, s, left);
		/* EFAULT: a page of the chunk was lost this very moment. The next time it is another. */
		if (n <= 0 && n != TAKEN && n != -EFAULT)
			break;
		size_t still = at_hand(s);
		left -= n > 0 && (size_t) n < left ? (size_t) n : n > 0 ? left : 0;
		left = left < still ? left : still;
	}
	if (s->fifo >= 0 && is_at_end(x, s))
		s->ended = true;
	close_gap(x, s);
	begin_disk(x, NULL, 0);
	close_fd(&s->file);
	(void) end_disk(x);
}

static void begin_adopted(struct executor *x) {
	begin_disk(x, NULL, 0);
	chunk_open(x);
	/* A full disk or a missing directory must not keep a workload from being taken care of. */
	(void) logs_open(x);
	size_t left = 0;
	struct stream *s = chunk_left(x);
	if (s)
		(void) chunk_rest(&left);
	bool is_ours = end_disk(x);
	if (s) {
		s->bytes += left; /* It was counted by the one before us, and so by nobody. */
		begin_disk(x, s, left);
		is_ours = write_out(x, s, 0) && is_ours;
	}
	if (!is_ours)
		close_gaps(x);
}

void finish_streams(struct executor *x) {
	(void) scratch_open(x);
	/* There was never a thread to do it. */
	if (x->adopted && x->spec.log_dir && x->logs.dir < 0)
		begin_adopted(x);
	for (size_t i = 0; i < STREAMS; i++)
		finish_stream(x, &x->logs.streams[i]);
	for (size_t i = 0; i < STREAMS; i++)
		close_fd(&x->logs.streams[i].fifo);
}

void *writer_main(void *executor) {
	static const struct timespec quiet = { .tv_sec = QUIET_SEC };
	struct executor *x = executor;
	sigset_t waiting;
	/* There is as much to do here as the task makes. */
	set_slice(SLICE_USUAL);
	if (!x->adopted)
		writer_wakes(x);
	/* The main thread makes its socket under a mask that is not for our files. */
	(void) unshare(CLONE_FS);
	(void) sigfillset(&waiting);
	(void) sigdelset(&waiting, FINISH_SIGNAL);
	if (x->adopted)
		begin_adopted(x);
	while (!atomic_load(&x->writer.finish)) {
		struct pollfd fds[STREAMS];
		for (size_t i = 0; i < STREAMS; i++)
			fds[i] = (struct pollfd){ .fd = x->logs.streams[i].ended ? -1 : x->logs.streams[i].fifo, .events = POLLIN };
		writer_waits(x);
		int n = ppoll(fds, STREAMS, chunk_is_large() ? &quiet : NULL, &waiting);
		writer_wakes(x);
		if (n == 0)
			chunk_shrink();
		if (n <= 0)
			continue;
		for (size_t i = 0; i < STREAMS; i++) {
			if (fds[i].revents)
				pump(x, &x->logs.streams[i], fds[i].revents);
		}
	}
	finish_streams(x);
	writer_done(x);
	return NULL;
}

int fifos_open(struct executor *x) {
	for (size_t i = 0; x->spec.log_dir && i < STREAMS; i++) {
		struct stream *s = &x->logs.streams[i];
		/* That it is read changes nothing of it: no time of access is written to a disk that may hang. */
		int flags = O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW;
		s->fifo = openat(x->dir, s->name, flags | O_NOATIME);
		if (s->fifo < 0 && errno == EPERM)
			s->fifo = openat(x->dir, s->name, flags);
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
	(void) scratch_open(x);
	for (size_t i = 0; x->spec.log_dir && i < STREAMS; i++) {
		struct stream *s = &x->logs.streams[i];
		s->lost = s->fifo < 0 || is_at_end(x, s);
	}
}

int fifos_make(struct executor *x) {
	for (size_t i = 0; x->spec.log_dir && i < STREAMS; i++) {
		if (mkfifoat(x->dir, x->logs.streams[i].name, 0600) < 0)
			return -errno;
	}
	return fifos_open(x);
}
