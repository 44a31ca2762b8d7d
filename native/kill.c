/*
 * kill.c - signals, STOP, and the end of the whole tree. No process is signalled by its bare pid: always
 * through a pidfd, looked at again after it was opened.
 */
#define _GNU_SOURCE
#include "executor.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define FIRST_PAUSE_NS (5 * NS_PER_MS)
/* What cannot die (state D) is asked again at this pace, for ever. */
#define LONGEST_PAUSE_NS NS_PER_SEC
/* Ten years: longer ones would overflow in ns. */
#define LONGEST_GRACE_MS (UINT64_C(10) * 365 * 86400 * 1000)

int signal_leader(struct executor *x, int signal) {
	if (x->leader.pidfd < 0 || x->leader.ended)
		return -ESRCH;
	if (signal == SIGKILL)
		x->leader.killed_by_us = true;
	return pidfd_signal(x->leader.pidfd, signal);
}

/* `directory of path` + name; false when it does not fit. */
static bool sibling(char *buf, size_t cap, const char *path, const char *name) {
	const char *slash = strrchr(path, '/');
	if (!slash)
		return false;
	int n = format_text(buf, cap, "%.*s/%s", (int) (slash - path), path, name);
	return n > 0 && (size_t) n < cap;
}

/* A frozen process cannot react to a signal, and on v1 not even die. Best effort. */
static void thaw(const struct executor *x) {
	char path[4096];
	int n = x->spec.cgroup ? format_text(path, sizeof path, "%s/cgroup.freeze", x->spec.cgroup) : -1;
	if (n > 0 && (size_t) n < sizeof path)
		(void) write_file(path, "0");
	for (char **procs = x->spec.join_procs; *procs; procs++) {
		if (sibling(path, sizeof path, *procs, "freezer.state"))
			(void) write_file(path, "THAWED");
	}
}

/* Kills process 1 of the task's pid namespace: the kernel then kills all others in it, and nothing can escape. */
static void kill_init(struct executor *x) {
	struct proc_stat stat;
	AUTO_FD pidfd = x->init.pid == 0 ? -1 : pidfd_of(x->init.pid);
	if (pidfd >= 0 && proc_stat_read(x->init.pid, &stat) == 0 &&
	    stat.start_ticks == x->init.start_ticks)
		(void) pidfd_signal(pidfd, SIGKILL);
}

/* False also when the cgroup is gone, or there is none. */
static bool cgroup_is_populated(const struct executor *x) {
	char buf[256];
	uint64_t populated = 0;
	if (x->cgroup_events < 0)
		return false;
	ssize_t n = pread(x->cgroup_events, buf, sizeof buf - 1, 0);
	if (n < 0)
		return false;
	buf[n] = '\0';
	return find_number(buf, "populated", ' ', &populated) == 0 && populated != 0;
}

bool tree_is_empty(struct executor *x) {
	if (cgroup_is_populated(x))
		return false;
	return x->adopted ? signal_tree(x, 0) == 0 : no_children();
}

static void watch_cgroup(struct executor *x) {
	if (x->cgroup_events < 0 || x->cgroup_watched)
		return;
	x->cgroup_watched = watch(x, x->cgroup_events, EPOLLPRI, SOURCE_CGROUP, 0) == 0;
}

void cgroup_event(struct executor *x) {
	/* Reading is what makes the descriptor quiet again. A cgroup that was removed would stay loud. */
	char buf[256];
	if (pread(x->cgroup_events, buf, sizeof buf, 0) < 0) {
		close_watched(x, &x->cgroup_events);
		x->cgroup_watched = false;
	}
}

void kill_begin(struct executor *x) {
	if (x->killing.on)
		return;
	x->killing.on = true;
	x->killing.next_ns = 0;
	x->killing.pause_ns = FIRST_PAUSE_NS;
	watch_cgroup(x);
}

/* How many processes the cgroup holds; 0 when there is none. */
static uint64_t cgroup_members(const struct executor *x) {
	char buf[4096];
	int n = x->spec.cgroup ? format_text(buf, sizeof buf, "%s/cgroup.procs", x->spec.cgroup) : -1;
	if (n <= 0 || (size_t) n >= sizeof buf)
		return 0;
	AUTO_FD fd = open(buf, O_RDONLY | O_CLOEXEC);
	uint64_t lines = 0;
	ssize_t got;
	while (fd >= 0 && (got = read(fd, buf, sizeof buf)) > 0) {
		for (ssize_t i = 0; i < got; i++)
			lines += buf[i] == '\n';
	}
	return lines > 0 && x->init.pid != 0 ? lines - 1 : lines;
}

static void kill_round(struct executor *x) {
	char path[4096];
	/* Before the kill: a parent within the tree may reap its child in the moment in which both die. */
	if (x->leader.ended && x->killing.seen == 0)
		x->killing.seen = cgroup_members(x);
	if (!x->leader.ended)
		x->leader.killed_by_us = true;
	int n = x->spec.cgroup ? format_text(path, sizeof path, "%s/cgroup.kill", x->spec.cgroup) : -1;
	if (n > 0 && (size_t) n < sizeof path)
		(void) write_file(path, "1");
	kill_init(x);
	/* Also without a cgroup, on kernels without cgroup.kill, and for what has left the cgroup. */
	uint64_t stuck = x->killing.stuck_count;
	x->killing.stuck_count = 0;
	uint64_t found = signal_tree(x, SIGKILL);
	if (x->killing.stuck_count != stuck)
		(void) status_write(x);
	thaw(x);
	if (x->leader.ended && x->killing.seen == 0)
		x->killing.seen = found;
	/* Quick as long as something changes, slow when what is left does not die. */
	struct killing *k = &x->killing;
	k->pause_ns = found != k->last_found ? FIRST_PAUSE_NS : k->pause_ns * 2;
	if (k->pause_ns > LONGEST_PAUSE_NS)
		k->pause_ns = LONGEST_PAUSE_NS;
	k->last_found = found;
	k->next_ns = mono_ns() + k->pause_ns;
}

bool leftovers_have_time(struct executor *x, uint64_t now) {
	uint64_t ms = x->spec.leftovers_ms > 0 ? (uint64_t) x->spec.leftovers_ms : 0;
	uint64_t until = x->leader.ended_mono_ns + (ms < LONGEST_GRACE_MS ? ms : LONGEST_GRACE_MS) * NS_PER_MS;
	if (now >= until || x->stop.asked || x->killing.on || x->outcome.result == RESULT_START_FAILED ||
	    tree_is_empty(x))
		return false;
	if (x->leftovers_ns == 0) {
		watch_cgroup(x);
		(void) status_write(x);
	}
	/* Nobody is told of the end of an adopted tree that has no cgroup. */
	x->leftovers_ns = x->adopted && now + LONGEST_PAUSE_NS < until ? now + LONGEST_PAUSE_NS : until;
	return true;
}

bool kill_step(struct executor *x, uint64_t now) {
	bool due = now >= x->killing.next_ns;
	/* For an adopted tree even the question is a walk through /proc: ask it at the pace of the rounds. */
	if (x->leader.ended && (!x->adopted || due) && tree_is_empty(x)) {
		bool was_stuck = x->killing.stuck_count > 0;
		x->killing.stuck_count = 0;
		if (was_stuck)
			(void) status_write(x);
		return true;
	}
	if (!due)
		return false;
	kill_round(x);
	return false;
}

void stop_request(struct executor *x, int signal, uint64_t grace_ms) {
	if (grace_ms > LONGEST_GRACE_MS)
		grace_ms = LONGEST_GRACE_MS;
	uint64_t deadline = mono_ns() + (signal == 0 ? 0 : grace_ms * NS_PER_MS);
	if (!x->stop.asked || deadline < x->stop.deadline_ns)
		x->stop.deadline_ns = deadline;
	x->stop.asked = true;
	if (signal != 0 || x->stop.signal == 0)
		x->stop.signal = signal;
	if (x->phase == PHASE_READY) {
		start_failed(x, STAGE_GATE, ECANCELED, "stopped before its start");
		return;
	}
	if (signal != 0 && signal_leader(x, signal) == 0) {
		if (x->stop.stage == STOP_NONE)
			x->stop.stage = STOP_SIGNAL;
		thaw(x);
		(void) signal_leader(x, SIGCONT);
	}
	(void) status_write(x);
}
