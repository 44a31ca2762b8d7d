/*
 * pump.c - the writer: the thread that brings the task's output from its FIFOs into the log files. A write into a file may hang for as long
 * as the disk likes, so it never holds the lock of the task's pipe: the bytes are first copied into a pipe of our own (tee, which copies
 * no memory), from there spliced into the file, and only then taken out of the task's pipe. Errors of the disk never stop the reading:
 * what cannot be written is taken, dropped and counted. Over 300 lines: all rules for one chunk stand together.
 */
#define _GNU_SOURCE
#include "pump.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define PAGE 4096U
/* What a read that wants nothing but to take reads into, again and again: it stays in the nearest cache. */
#define SINK 2048U
/* The main thread has emptied the pipe meanwhile. */
#define TAKEN (-ECANCELED)

/* What is looked at or copied. All but its first page is given back after use, which is rare. */
static _Alignas(PAGE) uint8_t chunk[CHUNK];
static bool chunk_is_used;

static void free_chunk(void) {
	if (chunk_is_used)
		(void) madvise(chunk + PAGE, sizeof chunk - PAGE, MADV_DONTNEED);
	chunk_is_used = false;
}

ssize_t discard(int fifo, size_t len, volatile uint8_t *ret_last) {
	uint8_t sink[SINK];
	struct iovec to[CHUNK / SINK + 2];
	int count = 0;
	size_t left = (len < CHUNK ? len : CHUNK) - (ret_last ? 1 : 0);
	sink[0] = sink[SINK - 1] = 0;
	for (; left > 0; left -= to[count++].iov_len)
		to[count] = (struct iovec){ .iov_base = sink, .iov_len = left < SINK ? left : SINK };
	if (ret_last)
		to[count++] = (struct iovec){ .iov_base = (void *) (uintptr_t) ret_last, .iov_len = 1 };
	ssize_t n = readv(fifo, to, count);
	return n < 0 ? -errno : n;
}

/*
 * Our own pipe. It takes the places of standard input and output, which nobody uses after the last fork: an executor is to hold few
 * descriptors.
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

/* Copies up to `len` bytes from the front of the task's pipe into our own. As tee(2). */
static ssize_t tee_off(struct executor *x, const struct stream *s, size_t len) {
	ssize_t n = tee(s->fifo, x->logs.scratch[1], len, SPLICE_F_NONBLOCK);
	return n < 0 ? -errno : n;
}

/* Reads up to `len` bytes out of our own pipe into `chunk`. */
static size_t read_scratch(struct executor *x, size_t len) {
	size_t got = 0;
	chunk_is_used = chunk_is_used || len > PAGE;
	while (got < len) {
		ssize_t n = read(x->logs.scratch[0], chunk + got, len - got);
		if (n <= 0)
			break;
		got += (size_t) n;
	}
	return got;
}

static void empty_scratch(struct executor *x, size_t len) {
	while (len > 0) {
		ssize_t n = discard(x->logs.scratch[0], len, NULL);
		if (n <= 0)
			break;
		len -= (size_t) n;
	}
}

size_t at_hand(const struct stream *s) {
	int n = 0;
	return s->fifo < 0 || ioctl(s->fifo, FIONREAD, &n) < 0 || n < 0 ? 0 : (size_t) n;
}

/*
 * Chooses how many of the `want` bytes at hand fit the present file. False = none: it has to be rotated
 * first.
 */
static bool choose(struct executor *x, const struct stream *s, size_t want, size_t *ret_take) {
	uint64_t max = (uint64_t) x->spec.log_max_bytes, stretch = max / 2 < CHUNK ? max / 2 : CHUNK;
	if (s->pos >= max)
		return false;
	size_t room = max - s->pos < SIZE_MAX ? (size_t) (max - s->pos) : SIZE_MAX;
	*ret_take = want < room ? want : room;
	if (want <= room && room - want >= stretch)
		return true;
	ssize_t copied = tee_off(x, s, want);
	size_t seen = copied > 0 ? read_scratch(x, (size_t) copied) : 0;
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

static void lose(struct stream *s, size_t len, int errnum) {
	if (len == 0)
		return;
	s->dropped += len;
	s->gap += len;
	s->gap_errno = errnum;
}

static ssize_t drop(struct stream *s, size_t want, int errnum) {
	ssize_t n = discard(s->fifo, want, NULL);
	if (n <= 0)
		return n;
	s->bytes += (uint64_t) n;
	lose(s, (size_t) n, errnum);
	return n;
}

/* Writes `len` bytes out of our own pipe at s->pos. Returns how many it were; fewer only with *reterr_errnum. */
static size_t put(struct executor *x, struct stream *s, size_t len, int *reterr_errnum) {
	off64_t at = (off64_t) s->pos;
	size_t done = 0;
	/* A few bytes are copied quicker than moved. Some file systems cannot splice. */
	bool copies = s->copies || len <= PAGE;
	if (copies)
		len = read_scratch(x, len);
	while (done < len) {
		ssize_t n = copies ? pwrite(s->file, chunk + done, len - done, at + (off64_t) done) :
				     splice(x->logs.scratch[0], NULL, s->file, &at, len - done, SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
		if (n < 0 && errno == EINVAL && !copies) {
			s->copies = true;
			return put(x, s, len, reterr_errnum);
		}
		if (n <= 0) {
			*reterr_errnum = n < 0 ? errno : ENOSPC;
			break;
		}
		done += (size_t) n;
	}
	s->pos += done;
	return done;
}

/* Takes out of the task's pipe what is in the file. */
static ssize_t take_out(struct executor *x, struct stream *s, size_t len, volatile uint8_t *witness) {
	size_t done = 0;
	while (done < len) {
		ssize_t n = discard(s->fifo, len - done, witness);
		if (n == -EFAULT && witness) {
			witness = NULL; /* The page was lost this very moment. */
			continue;
		}
		if (n <= 0)
			break;
		done += (size_t) n;
	}
	if (!witness)
		intent_none(x, s);
	s->bytes += done;
	return (ssize_t) done;
}

/* Writes the `len` bytes that are in our own pipe, and still in the task's. Returns how many have left that. */
static ssize_t write_out(struct executor *x, struct stream *s, size_t len) {
	int errnum = EIO;
	volatile uint8_t *witness = NULL;
	begin_disk(x, s, len);
	intent_write(x, s, len);
	size_t done = put(x, s, len, &errnum);
	if (done > 0)
		witness = intent_take(x, s, s->pos, done);
	else
		intent_none(x, s);
	bool is_ours = end_disk(x);
	if (done < len)
		empty_scratch(x, len);
	if (!is_ours) {
		intent_none(x, s);
		lose(s, len - done, errnum);
		return TAKEN;
	}
	return done > 0 ? take_out(x, s, done, witness) : drop(s, len, errnum);
}

/* Moves some of the `want` bytes at hand. Returns how many left the pipe, 0 at its end, or -errno. */
static ssize_t move(struct executor *x, struct stream *s, size_t want) {
	size_t take = want = want < CHUNK ? want : CHUNK;
	begin_disk(x, NULL, 0);
	int r = ready_file(x, s);
	if (r == 0 && s->gap > 0)
		r = mark_gap(s);
	if (r == 0)
		r = make_room(x, s, want, &take);
	if (!end_disk(x))
		return TAKEN;
	if (r < 0)
		return drop(s, want, -r);
	ssize_t n = tee_off(x, s, take);
	return n > 0 ? write_out(x, s, (size_t) n) : n;
}

static void close_gap(struct executor *x, struct stream *s) {
	begin_disk(x, NULL, 0);
	if (s->gap > 0 && ready_file(x, s) == 0)
		(void) mark_gap(s);
	(void) end_disk(x);
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
	/* The disk answers again. Who reads the log now is not to wait for more output to hear of it. */
	for (size_t i = 0; n == TAKEN && i < STREAMS; i++)
		close_gap(x, &x->logs.streams[i]);
	free_chunk();
}

/* True when the pipe is empty and nobody has it open for writing. Takes nothing. */
static bool is_at_end(struct executor *x, const struct stream *s) {
	ssize_t n = tee_off(x, s, 1);
	if (n > 0)
		empty_scratch(x, (size_t) n);
	return n == 0;
}

static void finish_stream(struct executor *x, struct stream *s) {
	/*
	 * What the tree wrote before it ended is in the pipe now; what a stranger adds to it does not count.
	 */
	for (size_t left = at_hand(s); left > 0;) {
		ssize_t n = move(x, s, left);
		if (n <= 0 && n != TAKEN)
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

/* Do the `len` bytes before `end` of the file stand at the front of the pipe? Takes nothing. */
static bool is_in_file(struct executor *x, const struct stream *s, size_t len, uint64_t end) {
	ssize_t n = tee_off(x, s, len);
	if (n < 0 || read_scratch(x, (size_t) n) != len)
		return false;
	uint8_t piece[SINK];
	for (size_t at = 0; at < len;) {
		size_t want = len - at < sizeof piece ? len - at : sizeof piece;
		if (pread(s->file, piece, want, (off_t) (end - len + at)) != (ssize_t) want || memcmp(piece, chunk + at, want) != 0)
			return false;
		at += want;
	}
	return true;
}

/*
 * The executor before us was killed between writing and taking: what it has written is taken out of the pipe now. That it is the same is
 * looked at for the sake of one case only: while the disk hung, its main thread may have emptied the pipe.
 */
static void resume(struct executor *x, struct stream *s) {
	uint64_t end;
	volatile uint8_t *witness = NULL;
	begin_disk(x, NULL, 0);
	size_t len = ready_file(x, s) == 0 ? intent_left(x, s, &end) : 0;
	if (len > 0 && is_in_file(x, s, len, end))
		witness = intent_take(x, s, end, len);
	if (!end_disk(x) || !witness)
		return;
	(void) take_out(x, s, len, witness);
	s->bytes -= len; /* They were counted, or are told of, by the one before us. */
	free_chunk();
}

static void begin_adopted(struct executor *x) {
	begin_disk(x, NULL, 0);
	intents_open(x);
	/* A full disk or a missing directory must not keep a workload from being taken care of. */
	(void) logs_open(x);
	(void) end_disk(x);
	for (size_t i = 0; i < STREAMS; i++)
		resume(x, &x->logs.streams[i]);
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
	struct executor *x = executor;
	sigset_t waiting;
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
		if (ppoll(fds, STREAMS, NULL, &waiting) <= 0)
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
