/*
 * turns.c - who reads the pipes. The writer does, as long as the disk takes what it is given. Before it touches a file it says so;
 * when it has not come back for a second, the main thread reads in its place. What it reads is dropped and counted; what the writer has in
 * its hands may still be written. So the task never waits for a disk for longer than that. When the disk answers
 * the writer takes the pipes back by itself. A word of memory says whose turn it is, and is only changed by compare and swap where both may:
 *
 *        WAITS  <-->  READS  <-->  AT_DISK  ---->  LATE  <-->  LATE_BUSY       LATE, AT_DISK  ---->  GIVEN_UP
 *          ^            ^----------------------------'                         READS          ---->  DONE
 *          '-->  FINISHING  ---->  DONE
 *
 * An idle executor has no timer. One that works has one a second at most: who touches a file sets it unless it is set already.
 */
#define _GNU_SOURCE
#include "pump.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* How long the disk may take for one step, which is at most one chunk, before the task no longer waits for it. */
#define PATIENCE_SEC 1
/* A pipe that holds less may be left as it is. One of 64 KiB may be full with half of that: each write of more than half a page takes a page. */
#define SOON_FULL 16384U
/* Likewise, once the task is over: what it said last is worth a wait, unless the disk had its chance already. */
#define LAST_PATIENCE_NS (10 * NS_PER_SEC)
#define LATE_PATIENCE_NS (2 * NS_PER_SEC)
/* How long to wait for a thread that cannot be had. */
#define START_PAUSE_NS NS_PER_SEC

static bool swap(struct executor *x, int from, int to) {
	return atomic_compare_exchange_strong(&x->writer.state, &from, to);
}

static void set_timer(struct writer *w) {
	static const struct itimerval soon = { .it_value.tv_sec = PATIENCE_SEC };
	atomic_store(&w->timed_at, atomic_load(&w->steps));
	(void) setitimer(ITIMER_REAL, &soon, NULL);
}

void count_step(struct executor *x) {
	atomic_fetch_add(&x->writer.steps, 1);
}

void begin_disk(struct executor *x, struct stream *of, size_t held) {
	struct writer *w = &x->writer;
	if (atomic_load(&w->state) == WRITER_NONE)
		return;
	w->of = of;
	w->held = held;
	/* What a chunk is written with follows upon what it is made ready with. */
	if (!of)
		count_step(x);
	atomic_store(&w->state, WRITER_AT_DISK);
	if (!atomic_load(&w->timed)) {
		atomic_store(&w->timed, true);
		set_timer(w);
	}
}

/* Given up, or with nothing left to do, it must never touch anything again: the record has been written. Else the main thread is at it right now. */
static void await_turn(const struct writer *w) {
	static const struct timespec moment = { .tv_nsec = (long) NS_PER_MS };
	int state = atomic_load(&w->state);
	if (state == WRITER_GIVEN_UP || state == WRITER_DONE)
		(void) pause();
	(void) nanosleep(&moment, NULL);
}

bool end_disk(struct executor *x) {
	struct writer *w = &x->writer;
	if (atomic_load(&w->state) == WRITER_NONE || swap(x, WRITER_AT_DISK, WRITER_READS))
		return true;
	while (!swap(x, WRITER_LATE, WRITER_READS))
		await_turn(w);
	for (size_t i = 0; i < STREAMS; i++) {
		struct stream *s = &x->logs.streams[i];
		(void) epoll_ctl(x->epoll, EPOLL_CTL_DEL, s->fifo, NULL);
		if (s->late > 0)
			s->gap_errno = ETIMEDOUT;
		s->gap += s->late;
		s->late = 0;
	}
	return false;
}

void writer_waits(struct executor *x) {
	atomic_store(&x->writer.state, WRITER_WAITS);
}

void writer_wakes(struct executor *x) {
	while (!swap(x, WRITER_WAITS, WRITER_READS))
		await_turn(&x->writer);
}

void writer_done(struct executor *x) {
	if (atomic_load(&x->writer.state) == WRITER_NONE)
		return;
	atomic_store(&x->writer.state, WRITER_DONE);
	(void) kill(x->pid, LOOK_SIGNAL);
}

static void take_over(struct executor *x) {
	if (!swap(x, WRITER_AT_DISK, WRITER_LATE_BUSY))
		return;
	for (uint32_t i = 0; i < STREAMS; i++) {
		const struct stream *s = &x->logs.streams[i];
		if (s->fifo >= 0 && !s->ended)
			(void) watch(x, s->fifo, EPOLLIN, SOURCE_STREAM, i);
	}
	atomic_store(&x->writer.state, WRITER_LATE);
}

/* Drops up to `most` bytes. */
static void drop_late(struct executor *x, struct stream *s, size_t most) {
	while (most > 0) {
		ssize_t n = discard(s->fifo, most);
		if (n == 0) {
			s->ended = true;
			(void) epoll_ctl(x->epoll, EPOLL_CTL_DEL, s->fifo, NULL);
		}
		if (n <= 0)
			return;
		most -= (size_t) n;
		s->bytes += (uint64_t) n;
		s->dropped += (uint64_t) n;
		s->late += (uint64_t) n;
	}
}

void pump_late(struct executor *x, uint32_t index) {
	/* The writer may just have come back. */
	if (!swap(x, WRITER_LATE, WRITER_LATE_BUSY))
		return;
	drop_late(x, &x->logs.streams[index], TURN_BYTES);
	atomic_store(&x->writer.state, WRITER_LATE);
}

/* Only then has the task to wait soon. */
static bool is_nearly_full(const struct executor *x) {
	for (size_t i = 0; i < STREAMS; i++) {
		if (at_hand(&x->logs.streams[i]) >= SOON_FULL)
			return true;
	}
	return false;
}

void pump_look(struct executor *x) {
	struct writer *w = &x->writer;
	/* Read first: once it is not timed any more, the writer may set the timer, and this. */
	uint32_t timed_at = atomic_load(&w->timed_at);
	atomic_store(&w->timed, false);
	/* At the end there is nobody any more whom a full pipe could hold up. */
	if (atomic_load(&w->state) != WRITER_AT_DISK || atomic_load(&w->finish))
		return;
	if (atomic_load(&w->steps) == timed_at && is_nearly_full(x)) {
		take_over(x);
		return;
	}
	atomic_store(&w->timed, true);
	set_timer(w);
}

/* The disk does not answer, and the record cannot wait: what has not come to a file by now never does, as far as anybody knows. */
static bool give_up(struct executor *x) {
	struct writer *w = &x->writer;
	if (!swap(x, WRITER_AT_DISK, WRITER_GIVEN_UP) && !swap(x, WRITER_LATE, WRITER_GIVEN_UP))
		return false;
	if (w->of)
		w->of->dropped += w->held;
	for (size_t i = 0; i < STREAMS; i++) {
		struct stream *s = &x->logs.streams[i];
		if (s->fifo >= 0)
			drop_late(x, s, at_hand(s));
		close_watched(x, &s->fifo);
		s->lost = true;
	}
	return true;
}

/*
 * Nothing is left to be read or said, and the writer sleeps: then it need not be woken, which takes long where all CPUs are busy. The ends of
 * pipes that nobody has open any more stay as they are.
 */
static bool is_finished(struct executor *x) {
	struct pollfd fds[STREAMS];
	bool has_gap = false;
	for (size_t i = 0; i < STREAMS; i++)
		fds[i] = (struct pollfd){ .fd = x->logs.streams[i].fifo, .events = POLLIN };
	(void) poll(fds, STREAMS, 0);
	for (size_t i = 0; i < STREAMS; i++) {
		if (fds[i].fd >= 0 && fds[i].revents != POLLHUP)
			return false;
	}
	if (!swap(x, WRITER_WAITS, WRITER_FINISHING))
		return false;
	for (size_t i = 0; i < STREAMS; i++)
		has_gap = has_gap || x->logs.streams[i].gap > 0;
	for (size_t i = 0; i < STREAMS && !has_gap; i++)
		x->logs.streams[i].ended = true;
	atomic_store(&x->writer.state, has_gap ? WRITER_WAITS : WRITER_DONE);
	return !has_gap;
}

bool pump_finish(struct executor *x, uint64_t now) {
	struct writer *w = &x->writer;
	uint32_t steps = atomic_load(&w->steps);
	switch (atomic_load(&w->state)) {
	case WRITER_NONE:
		finish_streams(x);
		return true;
	case WRITER_DONE:
	case WRITER_GIVEN_UP:
		w->deadline_ns = 0;
		return true;
	default:
		break;
	}
	if (w->deadline_ns == 0) {
		if (is_finished(x))
			return true;
		atomic_store(&w->finish, true);
		(void) pthread_kill(w->thread, FINISH_SIGNAL);
	} else if (now < w->deadline_ns) {
		return false;
	} else if (steps == w->seen_steps && give_up(x)) {
		w->deadline_ns = 0;
		return true;
	}
	w->seen_steps = steps;
	w->deadline_ns = now + (atomic_load(&w->state) == WRITER_AT_DISK ? LAST_PATIENCE_NS : LATE_PATIENCE_NS);
	return false;
}

bool pump_is_complete(const struct executor *x) {
	for (size_t i = 0; x->spec.log_dir && i < STREAMS; i++) {
		if (!x->logs.streams[i].ended || x->logs.streams[i].lost)
			return false;
	}
	return true;
}

static void on_finish(int signal) {
	(void) signal; /* Its coming is what counts. */
}

void pump_start(struct executor *x) {
	struct sigaction handle = { .sa_handler = on_finish };
	struct writer *w = &x->writer;
	w->start_ns = 0;
	if (!x->spec.log_dir)
		return;
	(void) sigaction(FINISH_SIGNAL, &handle, NULL);
	/* It has nothing in its hands until it comes, unless the one before us has left it something. */
	atomic_store(&w->state, x->adopted ? WRITER_READS : WRITER_WAITS);
	if (scratch_open(x) == 0 && pthread_create(&w->thread, NULL, writer_main, x) == 0)
		return;
	atomic_store(&w->state, WRITER_NONE);
	w->start_ns = mono_ns() + START_PAUSE_NS;
}
