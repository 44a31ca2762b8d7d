/*
 * spawn.c - from the gate to execve. The child is born behind a pipe of its own: it waits there until the executor has
 * put its pid on record, so that no workload ever runs unknown. A second pipe, close-on-exec, carries back how far
 * the child came.
 */
#define _GNU_SOURCE
#include "executor.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/sched.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
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
};

const char *stage_name(enum stage stage) {
	return stage_names[stage];
}

/* What the child says: STAGE_NONE = it is through the gate; else where it failed. `which` counts join_procs. */
struct spawn_report {
	int32_t stage, errnum, which;
};

struct child {
	const struct executor *x;
	int gate, report;
	bool join_cgroup; /* it was not born there */
	int32_t which;
};

/* ---- In the child. It is single-threaded, so that looking up a user, which allocates, is safe here too; the
 * executor stays small, and a user database that hangs cannot hang it. ---- */

static int wait_at_gate(const struct child *c) {
	char byte;
	ssize_t n;
	/* While we wait, the executor may die: its lock must be free then. */
	(void) close(c->x->lock);
	do {
		n = read(c->gate, &byte, 1);
	} while (n < 0 && errno == EINTR);
	if (n != 1)
		_exit(125); /* The executor died: nobody has us on record, nothing may run. */
	struct spawn_report alive = { .stage = STAGE_NONE };
	return write(c->report, &alive, sizeof alive) == (ssize_t) sizeof alive ? 0 : -EPIPE;
}

static int join_groups(struct child *c, enum stage *ret_stage) {
	char path[4096];
	*ret_stage = STAGE_CGROUP;
	if (c->join_cgroup) {
		int n = snprintf(path, sizeof path, "%s/cgroup.procs", c->x->spec.cgroup);
		if (n < 0 || (size_t) n >= sizeof path)
			return -ENAMETOOLONG;
		int r = write_file(path, "0");
		if (r < 0)
			return r;
	}
	*ret_stage = STAGE_JOIN_PROCS;
	for (char **procs = c->x->spec.join_procs; *procs; procs++, c->which++) {
		int r = write_file(*procs, "0");
		if (r < 0)
			return r;
	}
	return 0;
}

/*
 * The executor may be protected from the OOM killer; a workload that inherits that cannot be limited. Raising the
 * score is always allowed; being unable to lower it only leaves it easier to kill than asked for.
 */
static int set_oom_score(int64_t wanted) {
	char buf[32];
	long now = 0;
	if (read_file_at(-1, "/proc/self/oom_score_adj", buf, sizeof buf) > 0)
		now = strtol(buf, NULL, 10);
	if (now == wanted)
		return 0;
	(void) snprintf(buf, sizeof buf, "%lld", (long long) wanted);
	int r = write_file("/proc/self/oom_score_adj", buf);
	return r < 0 && now < wanted ? r : 0;
}

/* Puts fd at number `as`, open across exec. */
static int place(int fd, int as) {
	if (fd < 0)
		return -errno;
	if (fd == as)
		return fcntl(fd, F_SETFD, 0) < 0 ? -errno : 0;
	int r = dup3(fd, as, 0) < 0 ? -errno : 0;
	(void) close(fd);
	return r;
}

/* stdin from /dev/null, output to the FIFOs; then nothing of the executor's is open but the report pipe, at 3. */
static int set_stdio(struct child *c) {
	const struct executor *x = c->x;
	int r = place(open("/dev/null", O_RDONLY | O_CLOEXEC), 0);
	for (size_t i = 0; i < STREAMS && r == 0; i++) {
		/* O_RDWR: with its own read end open, the task never gets SIGPIPE when the executor dies. */
		r = place(x->spec.log_dir ? openat(x->dir, x->logs.streams[i].name, O_RDWR | O_NOCTTY | O_CLOEXEC)
					  : open("/dev/null", O_WRONLY | O_CLOEXEC),
			  (int) i + 1);
	}
	if (r < 0)
		return r;
	if (c->report != 3) {
		if (dup3(c->report, 3, O_CLOEXEC) < 0)
			return -errno;
		c->report = 3;
	}
	if (syscall(SYS_close_range, 4U, ~0U, 0U) == 0)
		return 0;
	for (int fd = 4; fd < 1024; fd++)
		(void) close(fd);
	return 0;
}

static void reset_signals(void) {
	struct sigaction dfl = { .sa_handler = SIG_DFL };
	for (int n = 1; n <= SIGRTMAX; n++)
		(void) sigaction(n, &dfl, NULL);
	sigset_t none;
	(void) sigemptyset(&none);
	(void) sigprocmask(SIG_SETMASK, &none, NULL);
}

struct identity {
	uid_t uid;
	gid_t gid;
	gid_t *groups;
	int count;
};

/* Name or number. A number that the user database does not know gets the group of the same number and no others. */
static int look_up(const char *user, struct identity *ret_id) {
	errno = 0;
	const struct passwd *pw = getpwnam(user);
	if (!pw) {
		char *end;
		errno = 0;
		unsigned long n = strtoul(user, &end, 10);
		if (user[0] < '0' || user[0] > '9' || *end != '\0' || errno != 0 || n >= UINT32_MAX)
			return -ENOENT;
		pw = getpwuid((uid_t) n);
		if (!pw) {
			static gid_t own;
			own = (gid_t) n;
			*ret_id = (struct identity){ .uid = (uid_t) n, .gid = own, .groups = &own, .count = 1 };
			return 0;
		}
	}
	struct identity id = { .uid = pw->pw_uid, .gid = pw->pw_gid, .count = 64 };
	for (int tries = 0; tries < 2; tries++) {
		gid_t *groups = reallocarray(id.groups, (size_t) id.count, sizeof *groups);
		if (!groups)
			return -ENOMEM;
		id.groups = groups;
		if (getgrouplist(pw->pw_name, id.gid, id.groups, &id.count) >= 0) {
			*ret_id = id;
			return 0;
		}
	}
	return -E2BIG;
}

static int check_groups(const struct identity *id) {
	gid_t *now = calloc((size_t) id->count + 1, sizeof *now);
	if (!now)
		return -ENOMEM;
	if (getgroups(id->count, now) != id->count)
		return -EPERM;
	for (int i = 0; i < id->count; i++) {
		bool found = false;
		for (int k = 0; k < id->count; k++)
			found = found || now[k] == id->groups[i];
		if (!found)
			return -EPERM;
	}
	return 0;
}

/* Becomes the user, with exactly the groups of the user database, and looks whether that is so. */
static int become(const struct child *c, enum stage *ret_stage) {
	const struct spec *spec = &c->x->spec;
	struct identity id;
	*ret_stage = STAGE_USER;
	if (!spec->user)
		return 0;
	int r = look_up(spec->user, &id);
	if (r < 0)
		return r;
	if (geteuid() != 0)
		return id.uid == geteuid() ? 0 : -EPERM;
	/* So that the task can open /dev/stdout and /dev/stderr anew. */
	for (int fd = 1; spec->log_dir && fd <= STREAMS; fd++) {
		if (fchown(fd, id.uid, (gid_t) -1) < 0)
			return -errno;
	}
	*ret_stage = STAGE_GROUPS;
	if (setgroups((size_t) id.count, id.groups) < 0)
		return -errno;
	if ((r = check_groups(&id)) < 0)
		return r;
	gid_t gids[3];
	*ret_stage = STAGE_GID;
	if (setresgid(id.gid, id.gid, id.gid) < 0 || getresgid(&gids[0], &gids[1], &gids[2]) < 0)
		return -errno;
	if (gids[0] != id.gid || gids[1] != id.gid || gids[2] != id.gid)
		return -EPERM;
	uid_t uids[3];
	*ret_stage = STAGE_UID;
	if (setresuid(id.uid, id.uid, id.uid) < 0 || getresuid(&uids[0], &uids[1], &uids[2]) < 0)
		return -errno;
	if (uids[0] != id.uid || uids[1] != id.uid || uids[2] != id.uid)
		return -EPERM;
	return 0;
}

static int become_task(struct child *c, enum stage *ret_stage) {
	const struct spec *spec = &c->x->spec;
	int r;
	*ret_stage = STAGE_GATE;
	if ((r = wait_at_gate(c)) < 0)
		return r;
	*ret_stage = STAGE_SESSION;
	if (setsid() < 0)
		return -errno;
	if ((r = join_groups(c, ret_stage)) < 0)
		return r;
	/* An undumpable process does not own its files in /proc; exec makes it dumpable anyway. */
	if (geteuid() != 0)
		(void) prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
	*ret_stage = STAGE_OOM_SCORE_ADJ;
	if ((r = set_oom_score(spec->oom_score_adj)) < 0)
		return r;
	*ret_stage = STAGE_STDIO;
	if ((r = set_stdio(c)) < 0)
		return r;
	(void) umask(022);
	if ((r = become(c, ret_stage)) < 0)
		return r;
	*ret_stage = STAGE_CHDIR;
	if (chdir(spec->cwd) < 0)
		return -errno;
	*ret_stage = STAGE_EXEC;
	reset_signals();
	(void) execve(spec->path, spec->argv, spec->envp);
	return -errno;
}

_Noreturn static void child_main(struct child *c) {
	enum stage stage = STAGE_NONE;
	int r = become_task(c, &stage);
	struct spawn_report rep = { .stage = (int32_t) stage, .errnum = -r, .which = c->which };
	ssize_t n = write(c->report, &rep, sizeof rep);
	_exit(n == (ssize_t) sizeof rep ? 127 : 126);
}

/* ---- In the executor. ---- */

/* Like fork, with a pidfd, and into the cgroup when it can be. Returns the pid (0 in the child) or -errno. */
static pid_t clone_child(int cgroup, int *ret_pidfd, bool *ret_into_cgroup) {
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

/* Puts the child on record. Only after this may it run. */
static int record_child(struct executor *x, pid_t pid, int pidfd) {
	struct proc_stat stat;
	int r = proc_stat_read(x->proc, pid, &stat);
	if (r < 0)
		return r;
	x->leader.pid = pid;
	x->leader.pidfd = pidfd;
	x->leader.start_ticks = stat.start_ticks;
	x->leader.started_at_ns = wall_ns();
	x->leader.started_mono_ns = mono_ns();
	x->phase = PHASE_STARTING;
	return status_write(x);
}

static int release_child(struct executor *x, int gate, int report) {
	/* A child that is dead already makes this EPIPE; the report pipe and its end tell that story. */
	if (write(gate, "", 1) < 0 && errno != EPIPE)
		return -errno;
	x->spawn.report = report;
	return watch(x, report, EPOLLIN, SOURCE_REPORT, 0);
}

void spawn_leader(struct executor *x) {
	int gate[2] = { -1, -1 }, report[2] = { -1, -1 }, pidfd = -1;
	AUTO_FD cgroup = -1;
	bool retry = x->spawn.again;
	x->spawn = (struct spawn){ .report = -1 };
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
					    .join_cgroup = x->spec.cgroup && !x->spawn.into_cgroup });
	}
	close_fd(&gate[0]);
	close_fd(&report[1]);
	enum stage stage = pid < 0 ? STAGE_CLONE : STAGE_STATUS;
	int r = pid < 0 ? (int) pid : record_child(x, pid, pidfd);
	(void) fcntl(report[0], F_SETFL, O_NONBLOCK);
	if (r == 0)
		r = release_child(x, gate[1], report[0]);
	close_fd(&gate[1]);
	if (r < 0) {
		close_fd(&report[0]);
		x->spawn.report = -1;
		start_failed(x, stage, -r, stage_name(stage));
	}
}

static const char *detail_of(const struct executor *x, const struct spawn_report *rep) {
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
	case STAGE_COUNT:
		break;
	}
	return stage_name((enum stage) rep->stage);
}

/* Until exec the child bears our name. Only asked when it says no more: then it is the task, or dead. */
static bool has_been_through_exec(const struct executor *x) {
	struct proc_stat stat;
	return proc_stat_read(x->proc, x->leader.pid, &stat) < 0 || strcmp(stat.comm, EXECUTOR_COMM) != 0;
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
	if (!x->spawn.alive || !has_been_through_exec(x)) {
		start_failed(x, STAGE_GATE, x->stop.asked ? ECANCELED : ECHILD, "killed before its start");
		return;
	}
	x->phase = PHASE_RUNNING;
	(void) fifos_watch(x);
	(void) status_write(x);
	tell(x, TOLD_OK, NULL);
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
		if (rep.stage == STAGE_NONE)
			x->spawn.alive = true;
		else if (rep.stage > 0 && rep.stage < STAGE_COUNT)
			start_failed(x, (enum stage) rep.stage, rep.errnum, detail_of(x, &rep));
	}
}
