/*
 * spawn.c - makes the child and lets it through the gate. The child is born behind a pipe of its own: it
 * waits there until the executor has put its pid on record, so that no workload ever runs unknown. A second
 * pipe, close-on-exec, carries back how far the child came. A little over 300 lines because all steps from the child to the open gate,
 * and the names of the stages at which they fail, stand together.
 */
#define _GNU_SOURCE
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *const stage_names[STAGE_COUNT] = {
	[STAGE_NONE] = "none",
	[STAGE_SETUP] = "setup",
	[STAGE_LOG_DIR] = "log_dir",
	[STAGE_STATUS] = "status",
	[STAGE_GATE] = "gate",
	[STAGE_CLONE] = "clone",
	[STAGE_SESSION] = "session",
	[STAGE_CGROUP] = "cgroup",
	[STAGE_JOIN_PROCS] = "join_procs",
	[STAGE_OOM_SCORE_ADJ] = "oom_score_adj",
	[STAGE_STDIO] = "stdio",
	[STAGE_USER] = "user",
	[STAGE_GROUPS] = "groups",
	[STAGE_GID] = "gid",
	[STAGE_UID] = "uid",
	[STAGE_CHDIR] = "chdir",
	[STAGE_EXEC] = "exec",
	[STAGE_USER_NAMESPACE] = "user_namespace",
	[STAGE_NAMESPACES] = "namespaces",
	[STAGE_INIT] = "init",
	[STAGE_ROOT] = "root",
	[STAGE_MOUNT] = "mount",
	[STAGE_NETWORK] = "network",
	[STAGE_RLIMIT] = "rlimit",
	[STAGE_NICE] = "nice",
	[STAGE_CAPABILITIES] = "capabilities",
	[STAGE_SECCOMP] = "seccomp",
	[STAGE_TTY] = "tty",
};

const char *stage_name(enum stage stage) {
	return stage_names[stage];
}

pid_t clone_child(int cgroup, int *ret_pidfd, bool *ret_into_cgroup) {
	int pidfd = -1;
	struct clone_args args = {
		.flags = CLONE_PIDFD, .pidfd = (uint64_t) (uintptr_t) &pidfd, .exit_signal = SIGCHLD
	};
	long pid = -1;
	*ret_into_cgroup = false;
	if (cgroup >= 0) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (unsigned int) cgroup;
		pid = syscall(SYS_clone3, &args, sizeof args);
		*ret_into_cgroup = pid >= 0;
	}
	if (pid < 0) {
		args.flags = CLONE_PIDFD;
		args.cgroup = 0;
		pid = syscall(SYS_clone3, &args, sizeof args);
	}
	if (pid < 0) {
		/* Container runtimes forbid clone3 with ENOSYS. */
		pid = fork();
		if (pid > 0)
			pidfd = pidfd_of((pid_t) pid);
	}
	if (pid < 0)
		return -errno;
	if (pid > 0 && pidfd < 0)
		return -EBADF; /* Behind its gate; it ends when the gate is closed. */
	*ret_pidfd = pidfd;
	return (pid_t) pid;
}

/* Puts the leader on record. Only after this may it run. */
static int record_leader(struct executor *x) {
	struct proc_stat stat;
	int r = proc_stat_read(x->spawn.pid, &stat);
	if (r < 0)
		return r;
	x->leader.pid = x->spawn.pid;
	x->leader.pidfd = x->spawn.pidfd;
	x->spawn.pid = 0;
	x->spawn.pidfd = -1;
	x->leader.start_ticks = stat.start_ticks;
	x->leader.started_at_ns = wall_ns();
	x->leader.started_mono_ns = mono_ns();
	x->phase = PHASE_STARTING;
	return status_write(x);
}

/* Lets `children` of them through. One that is dead already makes this EPIPE; the report pipe and its end tell that story. */
static int open_gate(int gate, size_t children) {
	return write(gate, "\0", children) < 0 && errno != EPIPE ? -errno : 0;
}

void let_through(struct executor *x) {
	if (x->spawn.held || x->spawn.pid == 0)
		return;
	int r = record_leader(x);
	if (r == 0)
		r = open_gate(x->spawn.gate, x->init.pid != 0 ? 2 : 1);
	close_fd(&x->spawn.gate);
	if (r < 0)
		start_failed(x, STAGE_STATUS, -r, stage_name(STAGE_STATUS));
}

/* The maker has made process 1 and the leader of a new pid namespace. Both are children of ours, at the gate. */
static void made(struct executor *x, const struct spawn_report *rep) {
	struct proc_stat stat;
	int r = proc_stat_read(rep->init, &stat), pidfd = r < 0 ? r : pidfd_of(rep->leader);
	if (pidfd < 0) {
		start_failed(x, STAGE_STATUS, -pidfd, stage_name(STAGE_STATUS));
		return;
	}
	x->init = (struct init){ .pid = rep->init, .start_ticks = stat.start_ticks };
	x->spawn.pid = rep->leader;
	x->spawn.pidfd = pidfd;
	let_through(x);
}

void spawn_lost(struct executor *x) {
	/* Process 1 of its namespace, which waits there too, leaves as well; the end of the report pipe says what follows. */
	close_fd(&x->spawn.gate);
	close_fd(&x->spawn.pidfd);
	x->spawn.pid = 0;
}

void spawn_leader(struct executor *x) {
	int gate[2] = { -1, -1 }, report[2] = { -1, -1 }, pidfd = -1;
	AUTO_FD cgroup = -1;
	bool retry = x->spawn.again, held = x->spawn.held;
	x->spawn = (struct spawn){ .report = -1, .gate = -1, .pidfd = -1, .held = held };
	if (!retry)
		open_cgroup(x);
	if (x->spec.cgroup && !retry) {
		cgroup = open(x->spec.cgroup, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (cgroup < 0) {
			start_failed(x, STAGE_CGROUP, errno, x->spec.cgroup);
			return;
		}
	}
	if (pipe2(gate, O_CLOEXEC) < 0 || pipe2(report, O_CLOEXEC) < 0) {
		start_failed(x, STAGE_CLONE, errno, "pipe");
		close_fd(&gate[0]);
		close_fd(&gate[1]);
		return;
	}
	pid_t pid = clone_child(cgroup, &pidfd, &x->spawn.into_cgroup);
	if (pid == 0) {
		(void) close(gate[1]);
		(void) close(report[0]);
		child_main(&(struct child){ .x = x,
					    .gate = gate[0],
					    .report = report[1],
					    .dir = x->dir,
					    .tty = x->terminal.slave,
					    .join_cgroup = x->spec.cgroup && !x->spawn.into_cgroup });
	}
	close_fd(&gate[0]);
	close_fd(&report[1]);
	(void) fcntl(report[0], F_SETFL, O_NONBLOCK);
	int r = pid < 0 ? (int) pid : watch(x, report[0], EPOLLIN, SOURCE_REPORT, 0);
	if (r < 0) {
		enum stage stage = pid < 0 ? STAGE_CLONE : STAGE_STATUS;
		/* A child that is there leaves when its gate is closed. */
		close_fd(&gate[1]);
		close_fd(&report[0]);
		close_fd(&pidfd);
		start_failed(x, stage, -r, stage_name(stage));
		return;
	}
	x->spawn.report = report[0];
	x->spawn.gate = gate[1];
	/* While the child prepares itself. */
	status_reserve(x);
	if (x->spec.isolate & ISOLATE_PID) {
		x->spawn.maker = pid;
		close_fd(&pidfd);
		return;
	}
	x->spawn.pid = pid;
	x->spawn.pidfd = pidfd;
	let_through(x);
}

void spawn_held(struct executor *x) {
	x->spawn.held = true;
	(void) fcntl(x->release, F_SETFL, O_NONBLOCK);
	int r = watch(x, x->release, EPOLLIN, SOURCE_RELEASE, 0);
	if (r < 0) {
		start_failed(x, STAGE_SETUP, -r, "the launcher's word");
		return;
	}
	/* All may have been said. */
	spawn_release(x);
}

void spawn_release(struct executor *x) {
	char words[2];
	ssize_t n = read(x->release, words, x->cgroup_is_made ? 1 : 2);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n == 1 && !x->cgroup_is_made) {
		x->cgroup_is_made = true;
		if (x->phase == PHASE_READY)
			spawn_leader(x);
		return;
	}
	close_watched(x, &x->release);
	if (n > 0) {
		x->cgroup_is_made = true;
		x->spawn.held = false;
		go(x);
	} else if (x->phase == PHASE_READY && (x->spawn.held || !x->cgroup_is_made)) {
		x->given_up = true;
		start_failed(x, STAGE_GATE, ECANCELED, "given up before its start");
	}
}

static const char *detail_of(struct executor *x, const struct spawn_report *rep) {
	if (rep->detail[0] != '\0') {
		(void) format_text(x->spawn.detail, sizeof x->spawn.detail, "%.*s", (int) sizeof rep->detail - 1, rep->detail);
		return x->spawn.detail;
	}
	switch ((enum stage) rep->stage) {
	case STAGE_CGROUP:
		return x->spec.cgroup;
	case STAGE_JOIN_PROCS:
		return x->spec.join_procs[rep->which];
	case STAGE_USER:
	case STAGE_GROUPS:
	case STAGE_GID:
	case STAGE_UID:
		return x->spec.user;
	case STAGE_CHDIR:
		return x->spec.cwd;
	case STAGE_EXEC:
		return x->spec.path;
	case STAGE_NONE:
	case STAGE_SETUP:
	case STAGE_LOG_DIR:
	case STAGE_STATUS:
	case STAGE_GATE:
	case STAGE_CLONE:
	case STAGE_SESSION:
	case STAGE_OOM_SCORE_ADJ:
	case STAGE_STDIO:
	case STAGE_USER_NAMESPACE:
	case STAGE_NAMESPACES:
	case STAGE_INIT:
	case STAGE_ROOT:
	case STAGE_MOUNT:
	case STAGE_NETWORK:
	case STAGE_RLIMIT:
	case STAGE_NICE:
	case STAGE_CAPABILITIES:
	case STAGE_SECCOMP:
	case STAGE_TTY:
	case STAGE_COUNT:
		break;
	}
	return stage_name((enum stage) rep->stage);
}

/* Until exec the child bears our name. Only asked when it says no more: then it is the task, or dead. */
static bool has_been_through_exec(const struct executor *x) {
	struct proc_stat stat;
	if (x->spawn.died_before_exec)
		return false;
	return proc_stat_read(x->leader.pid, &stat) < 0 || !is_before_exec(&stat);
}

/* The pipe has ended without a failure: exec happened, or the child was killed before it. */
static void report_ended(struct executor *x) {
	close_watched(x, &x->spawn.report);
	if (x->outcome.result == RESULT_START_FAILED)
		return;
	if (!x->spawn.alive && x->spawn.into_cgroup) {
		/*
		 * Some kernels kill a child at birth when it is cloned into a cgroup that has seen a
		 * different number of cgroup.kill than ours. Joining the cgroup afterwards works.
		 */
		x->spawn.again = true;
		return;
	}
	if (!x->spawn.alive || x->leader.pid == 0 || !has_been_through_exec(x)) {
		start_failed(x, STAGE_GATE, x->stop.asked ? ECANCELED : ECHILD, "killed before its start");
		return;
	}
	x->phase = PHASE_RUNNING;
	/*
	 * The task is in the session of its terminal, we need not be. It would not survive it: the kernel hangs up
	 * on a stopped task whose parent, and last link to its session, dies.
	 */
	if (x->terminal.pid != 0)
		(void) setsid();
	(void) status_write(x);
	tell(x, TOLD_OK, NULL);
	/* Nobody waits for these now; what the task says meanwhile is in its FIFOs. */
	pump_start(x);
	record_reserve(x);
}

void spawn_note_death(struct executor *x) {
	struct proc_stat stat;
	/* Its maker, which leaves at the same time, may have the pipe open still. */
	if (x->spawn.report >= 0)
		x->spawn.died_before_exec = proc_stat_read(x->leader.pid, &stat) == 0 && is_before_exec(&stat);
}

void spawn_report(struct executor *x) {
	while (x->spawn.report >= 0) {
		struct spawn_report rep;
		ssize_t n = read(x->spawn.report, &rep, sizeof rep);
		if (n < 0)
			return;
		if (n != (ssize_t) sizeof rep) {
			report_ended(x);
			return;
		}
		if (rep.leader > 1 && x->spawn.gate >= 0)
			made(x, &rep);
		else if (rep.stage == STAGE_NONE)
			x->spawn.alive = true;
		else if (rep.stage > 0 && rep.stage < STAGE_COUNT)
			start_failed(x, (enum stage) rep.stage, rep.errnum, detail_of(x, &rep));
	}
}
