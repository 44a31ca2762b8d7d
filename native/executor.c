/*
 * executor.c - the loop, and the steps from one phase to the next. Events only note what happened; step()
 * decides what follows, after each batch of them. Nothing here allocates, and nothing ends the process but a
 * durable record.
 */
#define _GNU_SOURCE
#include "tty.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

/* How often a record that cannot be written is tried again. */
#define RECORD_PAUSE_NS NS_PER_SEC

int watch(struct executor *x, int fd, uint32_t events, enum source source, uint32_t index) {
	struct epoll_event e = { .events = events, .data.u64 = (uint64_t) source << 32 | index };
	return epoll_ctl(x->epoll, EPOLL_CTL_ADD, fd, &e) < 0 ? -errno : 0;
}

int change_watch(struct executor *x, int fd, uint32_t events, enum source source, uint32_t index) {
	struct epoll_event e = { .events = events, .data.u64 = (uint64_t) source << 32 | index };
	return epoll_ctl(x->epoll, EPOLL_CTL_MOD, fd, &e) < 0 ? -errno : 0;
}

void close_watched(struct executor *x, int *fd) {
	if (*fd >= 0)
		(void) epoll_ctl(x->epoll, EPOLL_CTL_DEL, *fd, NULL);
	close_fd(fd);
}

void tell(struct executor *x, enum told told, const char *why) {
	if (x->told < 0)
		return;
	struct report report = { .told = (int32_t) told };
	if (why)
		(void) format_text(report.why, sizeof report.why, "%s", why);
	(void) write_full(x->told, &report, sizeof report);
	close_fd(&x->told);
}

void start_failed(struct executor *x, enum stage stage, int errnum, const char *detail) {
	x->outcome.result = RESULT_START_FAILED;
	x->outcome.stage = stage;
	x->outcome.errnum = errnum;
	x->outcome.detail = detail;
	x->spawn.again = false;
	close_fd(&x->spawn.gate);
	if (x->spawn.maker != 0 || x->spawn.pid != 0)
		x->leader.ended = true; /* There will be none; what was made for it is ended like a tree. */
	if (x->leader.pid != 0 && !x->leader.ended)
		(void) signal_leader(x, SIGKILL); /* It is on its way out; its end moves us on. */
	else
		x->phase = x->leader.ended ? PHASE_ENDING : PHASE_RECORDING;
}

void go(struct executor *x) {
	if (x->phase != PHASE_READY)
		return;
	x->spawn.held = false;
	/* By a frame, before the launcher has said that the cgroup is there: then it goes on from there. */
	if (x->release >= 0 && !x->cgroup_is_made)
		return;
	if (x->spawn.pid != 0)
		let_through(x);
	else if (x->spawn.maker == 0)
		spawn_leader(x);
}

/* The leader has ended: end what it left, or let it live; then take the rest of the output. */
static void step_ending(struct executor *x, uint64_t now) {
	if (x->spec.leftovers == LEFTOVERS_KILL || x->stop.asked || x->killing.on ||
	    x->outcome.result == RESULT_START_FAILED) {
		if (leftovers_have_time(x, now))
			return;
		kill_begin(x);
		if (!kill_step(x, now))
			return;
	}
	if (x->info_deadline_ns != 0 && now < x->info_deadline_ns)
		return; /* An adopted leader's status may still be had. */
	if (!terminal_finish(x, now))
		return;
	x->phase = PHASE_RECORDING;
}

static void clean_up(struct executor *x) {
	close_watched(x, &x->listener);
	(void) unlinkat(x->dir, "sock", 0);
	for (size_t i = 0; i < STREAMS; i++)
		(void) unlinkat(x->dir, x->logs.streams[i].name, 0);
	(void) unlinkat(x->dir, "pumped", 0);
	(void) unlinkat(x->dir, "status.tmp", 0);
}

/*
 * The record first; only then is anybody told but those who asked for the record itself (END). Afterwards there is no more `status`:
 * whoever finds the record may remove the run directory, and must not find new files in it. Of a run that has started there is none before it either: it would only say that the record comes.
 * A run that was given up behind its gate is left as one that was never started: `ready`, and nobody there.
 */
static void step_recording(struct executor *x, uint64_t now) {
	if (now < x->record_retry_ns)
		return;
	if (!pump_finish(x, now))
		return;
	if (x->outcome.result == RESULT_START_FAILED && !x->given_up)
		(void) status_write(x);
	if (!x->given_up && record_write(x, pump_is_complete(x)) < 0) {
		x->record_retry_ns = mono_ns() + RECORD_PAUSE_NS;
		/* Its start has failed, and whoever was to say GO has left: nobody is there who could ask for the record. */
		x->given_up = x->spawn.held && x->release < 0;
		if (x->epoll >= 0)
			return;
		/* The set-up did not even come this far: there is no loop to try again from. */
		tell(x, TOLD_NO_SETUP, x->outcome.detail);
		_exit(1);
	}
	x->phase = PHASE_DONE;
	if (!x->given_up)
		answer_waits(x);
	clean_up(x);
	const struct outcome *o = &x->outcome;
	if (o->result == RESULT_START_FAILED) {
		char why[400];
		(void) format_text(why, sizeof why, "start failed at %s: %s: %s", stage_name(o->stage), o->detail,
				strerror(o->errnum));
		tell(x, TOLD_START_FAILED, why);
	}
	tell(x, TOLD_OK, NULL);
}

static void step(struct executor *x) {
	uint64_t now = mono_ns();
	if (x->more_to_reap)
		reap(x);
	if (x->listen_retry_ns != 0 && now >= x->listen_retry_ns) {
		x->listen_retry_ns = 0;
		(void) change_watch(x, x->listener, EPOLLIN, SOURCE_LISTENER, 0);
	}
	if (x->writer.start_ns != 0 && now >= x->writer.start_ns)
		pump_start(x);
	if (x->spawn.again && x->leader.pid == 0 && x->spawn.pid == 0 && x->spawn.maker == 0)
		spawn_leader(x);
	if (x->stop.asked && now >= x->stop.deadline_ns && !x->killing.on && x->phase <= PHASE_RUNNING) {
		x->stop.stage = STOP_KILL;
		kill_begin(x);
	}
	if (x->phase <= PHASE_RUNNING && x->leader.ended)
		x->phase = PHASE_ENDING;
	if (x->phase <= PHASE_RUNNING && x->killing.on)
		(void) kill_step(x, now);
	if (x->phase == PHASE_ENDING)
		step_ending(x, now);
	if (x->phase == PHASE_RECORDING)
		step_recording(x, now);
}

static uint64_t earlier(uint64_t a, uint64_t b) {
	return a == 0 || (b != 0 && b < a) ? b : a;
}

/* How long until the next thing that is due, in ms; -1 = nothing is: an idle executor never wakes up. */
static int patience(const struct executor *x) {
	uint64_t at = x->listen_retry_ns, now = mono_ns();
	if (x->killing.on && x->phase <= PHASE_ENDING)
		at = earlier(at, x->killing.next_ns);
	else if (x->stop.asked && x->phase <= PHASE_RUNNING)
		at = earlier(at, x->stop.deadline_ns);
	if (x->phase == PHASE_ENDING)
		at = earlier(earlier(at, x->info_deadline_ns), x->terminal.deadline_ns);
	if (x->phase == PHASE_ENDING && !x->killing.on)
		at = earlier(at, x->leftovers_ns);
	if (x->phase == PHASE_RECORDING)
		at = earlier(earlier(at, x->record_retry_ns), x->writer.deadline_ns);
	else
		at = earlier(at, x->writer.start_ns);
	if (x->more_to_reap)
		return 0;
	if (at == 0)
		return -1;
	/* Rounded up, so that it is due when we are back. */
	uint64_t ms = at > now ? (at - now + NS_PER_MS - 1) / NS_PER_MS : 0;
	return ms < INT_MAX ? (int) ms : INT_MAX;
}

static void on_signals(struct executor *x) {
	struct signalfd_siginfo info;
	/* Several ends may hide behind one signal: waitid() is what counts, this only makes it quiet. */
	while (read(x->signals, &info, sizeof info) == (ssize_t) sizeof info) {
		if (info.ssi_signo == WAKE_SIGNAL)
			listen_again(x);
		else if (info.ssi_signo == LOOK_SIGNAL)
			pump_look(x);
	}
	reap(x);
}

static void dispatch(struct executor *x, const struct epoll_event *e) {
	uint32_t index = (uint32_t) e->data.u64;
	switch ((enum source) (e->data.u64 >> 32)) {
	case SOURCE_SIGNALS:
		on_signals(x);
		return;
	case SOURCE_LEADER:
		adopted_leader_event(x, e->events);
		return;
	case SOURCE_REPORT:
		spawn_report(x);
		return;
	case SOURCE_STREAM:
		pump_late(x, index);
		return;
	case SOURCE_CGROUP:
		cgroup_event(x);
		return;
	case SOURCE_LISTENER:
		accept_clients(x);
		return;
	case SOURCE_CLIENT:
		client_ready(x, index);
		return;
	case SOURCE_TERMINAL:
		terminal_ended(x);
		return;
	case SOURCE_RELEASE:
		spawn_release(x);
		return;
	}
}

_Noreturn void executor_loop(struct executor *x) {
	while (x->phase != PHASE_DONE) {
		struct epoll_event events[16];
		step(x);
		if (x->phase == PHASE_DONE)
			break;
		int n = epoll_wait(x->epoll, events, (int) ARRAY_LEN(events), patience(x));
		for (int i = 0; i < n; i++)
			dispatch(x, &events[i]);
	}
	/* A thread that a dead disk holds keeps the process, and with it what is open: so that is closed by hand. */
	for (size_t i = 0; i < MAX_CLIENTS; i++)
		close_fd(&x->clients[i].fd);
	close_fd(&x->lock);
	_exit(0);
}
