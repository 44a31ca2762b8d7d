/*
 * adopt.c - taking over a run whose executor was killed. The workload goes on meanwhile: it holds its FIFOs
 * itself. It is identified by pid and start time; what else belongs to it, without being below us, by its
 * cgroup, its session, its parents, or the run id in its environment.
 */
#define _GNU_SOURCE
#include "tty.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

/* How long, and how often, the lock of an executor that is dead already is tried. */
#define LOCK_PATIENCE_NS NS_PER_SEC
#define LOCK_PAUSE_NS (2 * NS_PER_MS)

static bool value_is(const char *text, const char *key, const char *value) {
	size_t klen = strlen(key), vlen = strlen(value);
	for (const char *line = text; line; line = strchr(line, '\n')) {
		if (*line == '\n')
			line++;
		if (strncmp(line, key, klen) == 0 && line[klen] == '=' &&
		    strncmp(line + klen + 1, value, vlen) == 0 && line[klen + 1 + vlen] == '\n')
			return true;
	}
	return false;
}

/* Opens the leader by what the status file says about it. -ESRCH when it is not there any more. */
static int open_leader(struct executor *x, const char *status) {
	struct leader *l = &x->leader;
	uint64_t pid = 0;
	struct proc_stat stat;
	if (find_number(status, "pid", '=', &pid) < 0 || pid < 2 || pid > INT32_MAX ||
	    find_number(status, "pid_start", '=', &l->start_ticks) < 0)
		return -ENOENT;
	l->pid = (pid_t) pid;
	(void) find_number(status, "started_at_ns", '=', &l->started_at_ns);
	(void) find_number(status, "started_mono_ns", '=', &l->started_mono_ns);
	int fd = pidfd_of(l->pid);
	if (fd < 0)
		return -ESRCH;
	if (proc_stat_read(l->pid, &stat) < 0 || stat.start_ticks != l->start_ticks) {
		(void) close(fd);
		return -ESRCH;
	}
	l->pidfd = fd;
	if (!is_before_exec(&stat))
		x->adopted_before_exec = false; /* By its name it has been through exec since. */
	return 0;
}

/* Is the executor that `status` names there? One that was killed is a zombie until its last thread has gone. */
static bool executor_is_alive(const struct executor *x) {
	char status[STATUS_CAP];
	uint64_t pid, start;
	struct proc_stat stat;
	return read_file_at(x->dir, "status", status, sizeof status) >= 0 &&
	       find_number(status, "executor_pid", '=', &pid) == 0 &&
	       find_number(status, "executor_start", '=', &start) == 0 && pid <= INT32_MAX &&
	       proc_stat_read((pid_t) pid, &stat) == 0 && stat.start_ticks == start && stat.state != 'Z' && stat.state != 'X';
}

/* A thread that is on its way out holds the lock a moment longer than the process seems to live. */
static bool take_lock(const struct executor *x) {
	static const struct timespec pause = { .tv_nsec = (long) LOCK_PAUSE_NS };
	for (uint64_t waited = 0; flock(x->lock, LOCK_EX | LOCK_NB) < 0; waited += LOCK_PAUSE_NS) {
		if (waited >= LOCK_PATIENCE_NS || executor_is_alive(x))
			return false;
		(void) nanosleep(&pause, NULL);
	}
	return true;
}

enum told adopt_find(struct executor *x, struct text *reterr_why) {
	char status[STATUS_CAP];
	if (!take_lock(x)) {
		text_add(reterr_why, "the executor is alive");
		return TOLD_CLAIMED;
	}
	if (is_there(x->dir, "exit")) {
		text_add(reterr_why, "the run has ended");
		return TOLD_NOT_THERE;
	}
	if (read_file_at(x->dir, "status", status, sizeof status) < 0 ||
	    !value_is(status, "run_id", x->spec.run_id) || !value_is(status, "boot_id", x->spec.boot_id)) {
		text_add(reterr_why, "no status of this run and boot");
		return TOLD_NOT_THERE;
	}
	x->adopted = true;
	x->adopted_before_exec =
		value_is(status, "state", "starting") || value_is(status, "exec_unseen", "1");
	uint64_t init = 0;
	if (find_number(status, "init_pid", '=', &init) == 0 && init > 1 && init <= INT32_MAX &&
	    find_number(status, "init_start", '=', &x->init.start_ticks) == 0)
		x->init.pid = (pid_t) init;
	uint64_t tty = 0;
	if (find_number(status, "tty_pid", '=', &tty) == 0 && tty > 1 && tty <= INT32_MAX &&
	    find_number(status, "tty_start", '=', &x->terminal.start_ticks) == 0) {
		x->terminal.pid = (pid_t) tty;
		terminal_adopt(x);
	}
	int r = open_leader(x, status);
	if (r == 0) {
		x->phase = PHASE_RUNNING;
		return TOLD_OK;
	}
	if (r == -ESRCH && !tree_is_empty(x)) {
		/*
		 * The leader ended unseen, but part of its tree lives on: that has to be brought to an end.
		 */
		x->leader.ended = true;
		x->leader.ended_at_ns = wall_ns();
		x->leader.ended_mono_ns = mono_ns();
		x->phase = PHASE_RUNNING;
		return TOLD_OK;
	}
	text_add(reterr_why, "the workload is not there");
	return TOLD_NOT_THERE;
}
