/*
 * tree.c - who belongs to the tree of a workload, and a signal to all of it. Below its own executor that is who descends from
 * it; of one that was taken over the cgroup does not tell all: also its session, its parents, or the run id in its
 * environment. No process is signalled by its bare pid: always through a pidfd, looked at again after it was opened.
 */
#define _GNU_SOURCE
#include "executor.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Rounds this far apart mean that several have changed nothing: what is left is named. */
#define STUCK_PAUSE_NS (300 * NS_PER_MS)
/* Deeper chains of parents than this are caught in a later round, once the upper ones are dead. */
#define MAX_DEPTH 256
#define MAX_ADOPTED_DEPTH 64
#define RUN_ID_NAME "HOLDFAST_RUN_ID="
/* A longer environment is not searched further; the agent puts the run id first. */
#define ENVIRON_CAP 65536U

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

static bool belongs_to_adopted(const struct executor *x, pid_t pid, const struct proc_stat *stat) {
	if (pid == x->terminal.pid && stat->start_ticks == x->terminal.start_ticks)
		return false; /* Ours, not the task's. */
	if (is_leader(x, pid, stat) || is_init(x, pid, stat) || in_session(x, stat) || has_run_id(x, pid))
		return true;
	struct proc_stat at = *stat;
	for (int depth = 0; depth < MAX_ADOPTED_DEPTH && at.ppid > 1; depth++) {
		pid_t parent = at.ppid;
		if (parent == x->pid || proc_stat_read(parent, &at) < 0)
			return false;
		if (is_leader(x, parent, &at) || is_init(x, parent, &at) || in_session(x, &at))
			return true;
	}
	return false;
}

/* Is it below this executor? Follows the parents upwards. */
static bool is_descendant(const struct executor *x, const struct proc_stat *of) {
	struct proc_stat at = *of;
	for (int depth = 0; depth < MAX_DEPTH; depth++) {
		if (at.ppid == x->pid)
			return true;
		if (at.ppid <= 1 || proc_stat_read(at.ppid, &at) < 0)
			return false;
	}
	return false;
}

static bool belongs(const struct executor *x, pid_t pid, struct proc_stat *ret_stat) {
	if (pid == x->pid || proc_stat_read(pid, ret_stat) < 0)
		return false;
	if (ret_stat->state == 'Z' || ret_stat->state == 'X')
		return false;
	return x->adopted ? belongs_to_adopted(x, pid, ret_stat) : is_descendant(x, ret_stat);
}

/* Notes who does not die, and where in the kernel it waits; `?` = it runs, or that is not for us to see. */
static void note_stuck(struct killing *k, pid_t pid, const struct proc_stat *stat) {
	if (k->stuck_count++ >= MAX_STUCK)
		return;
	struct stuck *s = &k->stuck[k->stuck_count - 1];
	char path[32];
	s->pid = pid;
	memcpy(s->comm, stat->comm, sizeof s->comm);
	(void) format_text(path, sizeof path, "/proc/%d/wchan", pid);
	if (read_file_at(-1, path, s->where, sizeof s->where) <= 0 || strcmp(s->where, "0") == 0)
		(void) strcpy(s->where, "?");
}

/* Signals pid when it is of the tree. True when it was. Signal 0 only counts. */
static bool signal_member(struct executor *x, pid_t pid, int signal) {
	struct proc_stat seen, again;
	if (!belongs(x, pid, &seen))
		return false;
	AUTO_FD pidfd = pidfd_of(pid);
	if (pidfd < 0)
		return false;
	if (proc_stat_read(pid, &again) < 0 || again.start_ticks != seen.start_ticks)
		return false;
	if (signal == SIGKILL && pid == x->leader.pid && !x->leader.ended)
		x->leader.killed_by_us = true;
	bool there = signal == 0 || pidfd_signal(pidfd, signal) != -ESRCH;
	if (there && signal == SIGKILL && x->killing.pause_ns >= STUCK_PAUSE_NS)
		note_stuck(&x->killing, pid, &seen);
	/* Process 1 of a pid namespace is ours, not the task's. It leaves by itself when the others are gone. */
	return there && pid != x->init.pid;
}

uint64_t signal_tree(struct executor *x, int signal) {
	uint64_t found = 0;
	AUTO_FD proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (proc < 0)
		return 1; /* Nobody could look: whoever asks must not take the tree for empty. */
	/* /proc lists by rising pid: what is forked while we look is mostly seen in the same pass. */
	struct names names = { .dir = proc };
	for (const char *name; (name = next_name(&names));) {
		int64_t pid = read_number(name, NULL);
		if (pid > 1 && signal_member(x, (pid_t) pid, signal))
			found++;
	}
	return found;
}

bool no_children(void) {
	siginfo_t info;
	memset(&info, 0, sizeof info);
	return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 && errno == ECHILD;
}
