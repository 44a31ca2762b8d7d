/* setup.c - what an executor does before its loop. Here it may fail, and may allocate. */
#define _GNU_SOURCE
#include "tty.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/*
 * Only SIGKILL ends an executor. Signals that report a fault of our own stay; all others are ignored. All are
 * blocked, too, so that the child inherits a state in which nothing can reach it before it is the task.
 */
static int set_signals(struct executor *x) {
	static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGSYS, SIGTRAP };
	static const int wanted[] = { SIGCHLD, WAKE_SIGNAL, LOOK_SIGNAL };
	struct sigaction ignore = { .sa_handler = SIG_IGN }, dfl = { .sa_handler = SIG_DFL };
	for (int n = 1; n <= SIGRTMAX; n++)
		(void) sigaction(n, &ignore, NULL);
	/* What is ignored does not even reach a signalfd. */
	sigset_t blocked, told;
	(void) sigemptyset(&told);
	for (size_t i = 0; i < ARRAY_LEN(wanted); i++) {
		(void) sigaction(wanted[i], &dfl, NULL);
		(void) sigaddset(&told, wanted[i]);
	}
	(void) sigfillset(&blocked);
	for (size_t i = 0; i < ARRAY_LEN(faults); i++) {
		(void) sigaction(faults[i], &dfl, NULL);
		(void) sigdelset(&blocked, faults[i]);
	}
	if (sigprocmask(SIG_SETMASK, &blocked, NULL) < 0)
		return -errno;
	x->signals = signalfd(-1, &told, SFD_CLOEXEC | SFD_NONBLOCK);
	return x->signals < 0 ? -errno : watch(x, x->signals, EPOLLIN, SOURCE_SIGNALS, 0);
}

int open_birth_group(const struct executor *x) {
	for (char **procs = x->spec.self_procs; *procs; procs++) {
		char dir[4096];
		struct statfs fs;
		const char *end = strrchr(*procs, '/');
		if (!end || format_text(dir, sizeof dir, "%.*s", (int) (end - *procs), *procs) >= (int) sizeof dir)
			continue;
		int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (fd >= 0 && fstatfs(fd, &fs) == 0 && fs.f_type == CGROUP2_SUPER_MAGIC)
			return fd;
		close_fd(&fd);
	}
	return -1;
}

/* Is `procs`, unless it is of v1, of the group that we are in on the v2 tree? `groups` is /proc/self/cgroup, whose paths begin at the mount. */
static bool is_in(const char *groups, const char *procs) {
	const char *mine = strstr(groups, "0::/"), *end = strrchr(procs, '/');
	if (!mine || !end || (mine != groups && mine[-1] != '\n'))
		return false;
	mine += strlen("0::");
	size_t len = strcspn(mine, "\n");
	return len > 1 && len <= (size_t) (end - procs) && strncmp(end - len, mine, len) == 0 &&
	       strcmp(end, "/tasks") != 0;
}

int join_self_procs(const struct executor *x) {
	char groups[4096];
	int result = 0;
	if (read_file_at(-1, "/proc/self/cgroup", groups, sizeof groups) < 0)
		groups[0] = '\0';
	for (char **procs = x->spec.self_procs; *procs; procs++) {
		int r = is_in(groups, *procs) ? 0 : write_file(*procs, "0");
		if (r < 0)
			result = r;
	}
	return result;
}

/* What makes this process a good executor whatever it inherited. Best effort where it is only better so. */
static int become_executor(struct executor *x) {
	struct proc_stat self;
	x->pid = getpid();
	int r = proc_stat_read(x->pid, &self);
	if (r < 0)
		return r;
	x->start_ticks = self.start_ticks;
	x->self_procs_error = -join_self_procs(x);
	if (chdir("/") < 0)
		return -errno;
	(void) umask(022);
	(void) write_file("/proc/self/oom_score_adj", "-1000");
	(void) prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
		return -errno;
	x->epoll = epoll_create1(EPOLL_CLOEXEC);
	return x->epoll < 0 ? -errno : set_signals(x);
}

void open_cgroup(struct executor *x) {
	char path[4096];
	int n = x->spec.cgroup ? format_text(path, sizeof path, "%s/cgroup.events", x->spec.cgroup) : -1;
	if (n > 0 && (size_t) n < sizeof path)
		x->cgroup_events = open(path, O_RDONLY | O_CLOEXEC);
	if (!x->adopted)
		x->oom_kills_before = read_oom_kills(x);
}

/* Fails by start_failed(), so that the reason is on record. */
_Noreturn void executor_run(struct executor *x) {
	enum stage stage = STAGE_SETUP;
	const char *detail = "executor";
	int r = flock(x->lock, LOCK_EX) < 0 ? -errno : become_executor(x);
	if (r == 0) {
		stage = STAGE_LOG_DIR;
		detail = x->spec.log_dir;
		r = logs_open(x);
	}
	if (r == 0) {
		stage = STAGE_SETUP;
		detail = "fifos";
		r = fifos_make(x);
	}
	if (r == 0) {
		stage = STAGE_TTY;
		detail = "a terminal";
		r = terminal_ready(x);
	}
	if (r == 0) {
		stage = STAGE_SETUP;
		detail = "sock";
		r = listen_at_sock(x);
	}
	if (r == 0) {
		stage = STAGE_STATUS;
		detail = "status";
		r = status_write(x);
	}
	if (r < 0) {
		start_failed(x, stage, -r, detail);
	} else if (x->release >= 0) {
		spawn_held(x);
	} else if (x->spec.gate) {
		tell(x, TOLD_OK, NULL);
	} else {
		go(x);
	}
	executor_loop(x);
}

_Noreturn void executor_adopt(struct executor *x) {
	char buf[256];
	struct text why = { .at = buf, .cap = sizeof buf };
	x->pid = getpid();
	enum told told = adopt_find(x, &why);
	if (told != TOLD_OK) {
		tell(x, told, why.at);
		_exit(0);
	}
	int r = become_executor(x);
	if (r == 0) {
		record_reserve(x);
		open_cgroup(x);
		(void) fifos_open(x);
		fifos_note_loss(x);
		pump_start(x);
		r = listen_at_sock(x);
	}
	if (r == 0 && x->leader.pidfd >= 0)
		r = watch(x, x->leader.pidfd, EPOLLIN, SOURCE_LEADER, 0);
	if (r == 0 && x->terminal.pidfd >= 0)
		r = watch(x, x->terminal.pidfd, EPOLLIN, SOURCE_TERMINAL, 0);
	if (r < 0) {
		tell(x, TOLD_NO_SETUP, strerror(-r));
		_exit(1);
	}
	/* Its own death signal is lost with some programs, and does not reach what the workload has started. */
	if (x->spec.on_death == ON_DEATH_KILL)
		stop_request(x, 0, 0);
	(void) status_write(x);
	tell(x, TOLD_OK, NULL);
	executor_loop(x);
}
