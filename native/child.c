/*
 * child.c - the child of an executor, as the launcher, until execve: prepares itself, waits at the gate, then becomes the task
 * or says how far it came. It is single-threaded, so that looking up a user, which allocates, is safe here too; that way the
 * executor stays small, and a user database that hangs cannot hang it.
 */
#define _GNU_SOURCE
#include "attributes.h"
#include "isolate.h"
#include "program.h"
#include "rootfs.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

static int wait_at_gate(const struct child *c) {
	char byte;
	ssize_t n;
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
		int n = format_text(path, sizeof path, "%s/cgroup.procs", c->x->spec.cgroup);
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
 * The executor may be protected from the OOM killer; a workload that inherits that cannot be limited. Raising
 * the score is always allowed; being unable to lower it only leaves it easier to kill than asked for.
 */
int set_oom_score(int64_t wanted) {
	char buf[32];
	int64_t now = 0;
	if (read_file_at(-1, "/proc/self/oom_score_adj", buf, sizeof buf) > 0)
		now = read_number(buf, NULL);
	if (now == wanted)
		return 0;
	(void) format_text(buf, sizeof buf, "%lld", (long long) wanted);
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

/* stdin from /dev/null, output to the FIFOs, or all three on a terminal. */
static int set_stdio(struct child *c) {
	const struct executor *x = c->x;
	if (c->tty >= 0) {
		for (int fd = 0; fd < 3; fd++) {
			if (dup2(c->tty, fd) < 0)
				return -errno;
		}
		close_fd(&c->tty);
		return 0;
	}
	int r = place(open("/dev/null", O_RDONLY | O_CLOEXEC), 0);
	for (size_t i = 0; i < STREAMS && r == 0; i++) {
		/* O_RDWR: with its own read end open, the task never gets SIGPIPE when the executor dies. */
		r = place(x->spec.log_dir ? openat(x->dir, x->logs.streams[i].name, O_RDWR | O_NOCTTY | O_CLOEXEC)
					  : open("/dev/null", O_WRONLY | O_CLOEXEC),
			  (int) i + 1);
	}
	return r;
}

static void default_signals(void) {
	struct sigaction dfl = { .sa_handler = SIG_DFL };
	for (int n = 1; n <= SIGRTMAX; n++)
		(void) sigaction(n, &dfl, NULL);
}

static void unblock_signals(void) {
	sigset_t none;
	(void) sigemptyset(&none);
	(void) sigprocmask(SIG_SETMASK, &none, NULL);
}

void reset_signals(void) {
	default_signals();
	unblock_signals();
}

/*
 * The program of a task with a root of its own may be a bare name: it is looked for there, as it lies now. The
 * last of the places is tried by exec itself, whose error is then the one that is told.
 */
static const char *find_program(const struct spec *spec) {
	static char path[4096];
	if (spec->path[0] == '/')
		return spec->path;
	for (char **dir = spec->search; *dir; dir++) {
		struct stat st;
		int n = format_text(path, sizeof path, "%s/%s", *dir, spec->path);
		if (n > 0 && (size_t) n < sizeof path && access(path, X_OK) == 0 && stat(path, &st) == 0 &&
		    S_ISREG(st.st_mode))
			return path;
	}
	return spec->path;
}

/*
 * After the last change of credentials, which would undo it. The executor alone holds the other end of the report
 * pipe: when that is closed it has died before this was in force.
 */
static int die_with_executor(const struct child *c) {
	struct pollfd report = { .fd = c->report };
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		return -errno;
	return poll(&report, 1, 0) > 0 && report.revents & POLLERR ? -EPIPE : 0;
}

/*
 * Becomes who is in the foreground of its terminal. All signals are blocked still: the one for a change from the background
 * as well.
 */
static int take_terminal(void) {
	return setpgid(0, 0) < 0 || tcsetpgrp(0, getpgrp()) < 0 ? -errno : 0;
}

static int take_attributes(struct child *c, enum stage *ret_stage) {
	*ret_stage = STAGE_OOM_SCORE_ADJ;
	int r = set_oom_score(c->x->spec.oom_score_adj);
	return r < 0 ? r : attributes_set(c, ret_stage);
}

/*
 * The steps of the process that becomes the task, in its namespaces, that give nobody a hold on it while it waits at the gate:
 * there it is nobody's to look into, has all its privileges and blocks all signals.
 */
static int ripen(struct child *c, enum stage *ret_stage) {
	default_signals();
	return geteuid() == 0 ? take_attributes(c, ret_stage) : 0;
}

/* The last steps. Returns only with a fault. */
static int finish(struct child *c, const struct identity *id, enum stage *ret_stage) {
	const struct spec *spec = &c->x->spec;
	*ret_stage = STAGE_SESSION;
	int r = spec->tty_columns > 0 ? take_terminal() : setsid() < 0 ? -errno : 0;
	if (r < 0)
		return r;
	if (geteuid() != 0) {
		/* An undumpable process does not own its files in /proc; exec makes it dumpable anyway. */
		(void) prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
		r = take_attributes(c, ret_stage);
	}
	/* That of its executor, which it had until now, is not for a task. */
	set_slice(SLICE_USUAL);
	if (r == 0)
		r = privileges_take(c, id, ret_stage);
	if (r < 0)
		return r;
	*ret_stage = STAGE_SESSION;
	if (spec->on_death == ON_DEATH_KILL && (r = die_with_executor(c)) < 0)
		return r;
	*ret_stage = STAGE_CHDIR;
	if (chdir(spec->cwd) < 0)
		return -errno;
	*ret_stage = STAGE_EXEC;
	unblock_signals();
	(void) execve(find_program(spec), spec->argv, spec->envp);
	return -errno;
}

/* As the process that becomes the task. */
static int pass_gate(struct child *c, const struct identity *id, enum stage *ret_stage) {
	int r = ripen(c, ret_stage);
	if (r < 0)
		return r;
	*ret_stage = STAGE_GATE;
	r = wait_at_gate(c);
	return r < 0 ? r : finish(c, id, ret_stage);
}

/* All that is done before the task's pid is known: it changes only the processes that are being made. */
static int prepare(struct child *c, struct identity *ret_id, enum stage *ret_stage) {
	int r = join_groups(c, ret_stage);
	if (r == 0)
		r = identity_find(&c->x->spec, ret_id, ret_stage);
	if (r < 0)
		return r;
	*ret_stage = STAGE_STDIO;
	if ((r = set_stdio(c)) < 0)
		return r;
	return namespaces_enter(c, ret_id, ret_stage);
}

/* Waits until process 1 has made the root. It has told why, when it could not. */
static void wait_for_root(int built) {
	char byte;
	ssize_t n;
	do {
		n = read(built, &byte, 1);
	} while (n < 0 && errno == EINTR);
	if (n != 1)
		_exit(127);
	(void) close(built);
}

/* Makes process 1 of the new pid namespace, then the task, and leaves. Returns only with a fault, and as the task. */
static int make_leader(struct child *c, enum stage *ret_stage) {
	struct identity id;
	int built[2];
	struct spawn_report rep = { .stage = STAGE_NONE };
	if (write(c->report, &rep, sizeof rep) != (ssize_t) sizeof rep)
		return -EPIPE;
	int r = prepare(c, &id, ret_stage);
	if (r < 0)
		return r;
	*ret_stage = STAGE_INIT;
	if (pipe2(built, O_CLOEXEC) < 0)
		return -errno;
	rep.init = fork_sibling();
	if (rep.init == 0)
		init_main(c, &id, built[1]);
	if (rep.init < 0)
		return rep.init;
	(void) close(built[1]);
	wait_for_root(built[0]);
	rep.leader = fork_sibling();
	if (rep.leader == 0)
		return pass_gate(c, &id, ret_stage);
	if (rep.leader < 0)
		return rep.leader;
	_exit(write(c->report, &rep, sizeof rep) == (ssize_t) sizeof rep ? 0 : 126);
}

static int become_task(struct child *c, enum stage *ret_stage) {
	struct identity id;
	*ret_stage = STAGE_GATE;
	if (c->x->spec.isolate & ISOLATE_PID)
		return make_leader(c, ret_stage);
	int r = prepare(c, &id, ret_stage);
	if (r == 0 && c->x->spec.isolate & ISOLATE_MOUNTS)
		r = rootfs_enter(c, &id, ret_stage);
	return r < 0 ? r : pass_gate(c, &id, ret_stage);
}

_Noreturn void become(struct executor *x, int argc, char **argv) {
	struct child child = { .x = x,
			       .report = REPORT_FD,
			       .gate = GATE_FD,
			       .dir = DIR_FD,
			       .tty = -1,
			       .join_cgroup = strcmp(argv[2], BECOME_JOIN) == 0 };
	enum stage stage = STAGE_SETUP;
	struct text why = { .at = child.detail, .cap = sizeof child.detail };
	/* As the executor that it was: no task yet, and nobody's to look into. */
	(void) prctl(PR_SET_NAME, EXECUTOR_COMM, 0, 0, 0);
	(void) prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	for (int fd = REPORT_FD; fd < FIRST_FREE_FD; fd++)
		(void) fcntl(fd, F_SETFD, FD_CLOEXEC);
	x->title = argv[0];
	x->title_cap = (size_t) (argv[argc - 1] + strlen(argv[argc - 1]) + 1 - argv[0]);
	x->dir = DIR_FD;
	int r = spec_load(x->dir, &x->spec, &why);
	if (r == 0) {
		child.tty = x->spec.tty_columns > 0 ? TTY_FD : -1;
		r = become_task(&child, &stage);
	}
	child_failed(&child, stage, r);
}
