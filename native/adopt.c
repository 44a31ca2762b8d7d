/*
 * adopt.c - taking over a run whose executor was killed. The workload goes on meanwhile: it holds its FIFOs
 * itself. It is identified by pid and start time; what else belongs to it, without being below us, by its
 * cgroup, its session, its parents, or the run id in its environment.
 */
#define _GNU_SOURCE
#include "tty.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define RUN_ID_NAME "HOLDFAST_RUN_ID="
#define MAX_DEPTH 64
/* A longer environment is not searched further; the agent puts the run id first. */
#define ENVIRON_CAP 65536U

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

/* Does its environment name this run? */
static bool has_run_id(const struct executor *x, pid_t pid) {
	static char buf[ENVIRON_CAP];
	char path[32];
	(void) format_text(path, sizeof path, "/proc/%d/environ", pid);
	ssize_t n = read_file_at(-1, path, buf, sizeof buf);
	size_t name = strlen(RUN_ID_NAME);
	for (ssize_t at = 0; at < n; at += (ssize_t) strlen(buf + at) + 1) {
		if (strncmp(buf + at, RUN_ID_NAME, name) == 0 && strcmp(buf + at + name, x->spec.run_id) == 0)
			return true;
	}
	return false;
}

static bool is_leader(const struct executor *x, pid_t pid, const struct proc_stat *stat) {
	return pid == x->leader.pid && stat->start_ticks == x->leader.start_ticks;
}

/*
 * A session keeps its number for as long as it has members, so that it cannot be somebody else's meanwhile.
 */
static bool in_session(const struct executor *x, const struct proc_stat *stat) {
	struct proc_stat first;
	/* Of a task with a terminal the holder of that leads the session. */
	bool tty = x->terminal.pid != 0;
	pid_t session = tty ? x->terminal.pid : x->leader.pid;
	uint64_t start_ticks = tty ? x->terminal.start_ticks : x->leader.start_ticks;
	if (stat->session != session || stat->start_ticks < start_ticks)
		return false;
	return proc_stat_read(session, &first) < 0 || first.start_ticks == start_ticks;
}

static bool is_init(const struct executor *x, pid_t pid, const struct proc_stat *stat) {
	return pid == x->init.pid && stat->start_ticks == x->init.start_ticks;
}

bool belongs_to_adopted(const struct executor *x, pid_t pid, const struct proc_stat *stat) {
	if (pid == x->terminal.pid && stat->start_ticks == x->terminal.start_ticks)
		return false; /* Ours, not the task's. */
	if (is_leader(x, pid, stat) || is_init(x, pid, stat) || in_session(x, stat) || has_run_id(x, pid))
		return true;
	struct proc_stat at = *stat;
	for (int depth = 0; depth < MAX_DEPTH && at.ppid > 1; depth++) {
		pid_t parent = at.ppid;
		if (parent == x->pid || proc_stat_read(parent, &at) < 0)
			return false;
		if (is_leader(x, parent, &at) || is_init(x, parent, &at) || in_session(x, &at))
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
	if (strcmp(stat.comm, EXECUTOR_COMM) != 0)
		x->adopted_before_exec = false; /* By its name it has been through exec since. */
	return 0;
}

enum told adopt_find(struct executor *x, struct text *reterr_why) {
	char status[STATUS_CAP];
	if (flock(x->lock, LOCK_EX | LOCK_NB) < 0) {
		text_add(reterr_why, "the executor is alive");
		return TOLD_CLAIMED;
	}
	if (faccessat(x->dir, "exit", F_OK, 0) == 0) {
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
