/*
 * executor.c - the commands, the set-up, the loop, and the steps from one phase to the next.
 *
 *   foreground process          first child            executor
 *   reads spec, claims lock --> setsid, forks -------> set-up, then the loop until the record is durable
 *   waits for one report <------------------------------- tell()
 */
#define _GNU_SOURCE
#include "executor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

/* How often a record that cannot be written is tried again. */
#define RECORD_PAUSE_NS NS_PER_SEC

/* What the foreground process is told; smaller than PIPE_BUF, so that it comes in one piece. */
struct report {
	int32_t told;
	char why[508];
};

static struct executor executor;

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
		(void) snprintf(report.why, sizeof report.why, "%s", why);
	(void) write_full(x->told, &report, sizeof report);
	close_fd(&x->told);
}

int join_self_procs(struct executor *x) {
	int result = 0;
	for (char **procs = x->spec.self_procs; *procs; procs++) {
		int r = write_file(*procs, "0");
		if (r < 0)
			result = r;
	}
	return result;
}

void start_failed(struct executor *x, enum stage stage, int errnum, const char *detail) {
	x->outcome.result = RESULT_START_FAILED;
	x->outcome.stage = stage;
	x->outcome.errnum = errnum;
	x->outcome.detail = detail;
	if (x->leader.pid != 0 && !x->leader.ended)
		(void) signal_leader(x, SIGKILL); /* It is on its way out; its end moves us on. */
	else
		x->phase = PHASE_RECORDING;
}

void go(struct executor *x) {
	if (x->phase == PHASE_READY)
		spawn_leader(x);
}

/* ---- The loop. ---- */

/* The leader has ended: end what it left, or let it live; then take the rest of the output. */
static void step_ending(struct executor *x, uint64_t now) {
	if (x->spec.leftovers == LEFTOVERS_KILL || x->stop.asked || x->killing.on) {
		kill_begin(x);
		if (!kill_step(x, now))
			return;
	}
	if (x->info_deadline_ns != 0 && now < x->info_deadline_ns)
		return; /* An adopted leader's status may still be had. */
	x->phase = PHASE_RECORDING;
}

static void clean_up(struct executor *x) {
	close_watched(x, &x->listener);
	(void) unlinkat(x->dir, "sock", 0);
	for (size_t i = 0; i < STREAMS; i++)
		(void) unlinkat(x->dir, x->logs.streams[i].name, 0);
}

/*
 * The record first; only then is anybody told. `status` names no result and goes before it: whoever finds the record
 * may remove the run directory, and must not find new files in it.
 */
static void step_recording(struct executor *x, uint64_t now) {
	if (now < x->record_retry_ns)
		return;
	bool complete = pump_finish(x);
	(void) status_write(x);
	if (record_write(x, complete) < 0) {
		x->record_retry_ns = mono_ns() + RECORD_PAUSE_NS;
		if (x->timer >= 0 && x->epoll >= 0)
			return;
		/* The set-up did not even come this far: there is no loop to try again from. */
		tell(x, TOLD_NO_SETUP, x->outcome.detail);
		_exit(1);
	}
	x->phase = PHASE_DONE;
	clean_up(x);
	answer_waits(x);
	const struct outcome *o = &x->outcome;
	if (o->result == RESULT_START_FAILED) {
		char why[400];
		(void) snprintf(why, sizeof why, "start failed at %s: %s: %s", stage_name(o->stage), o->detail,
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
	if (x->spawn.again && x->leader.pid == 0)
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

/* Sets the timer to the next thing that is due, or switches it off: an idle executor never wakes up. */
static void arm_timer(struct executor *x) {
	uint64_t at = x->listen_retry_ns;
	if (x->killing.on && x->phase <= PHASE_ENDING)
		at = earlier(at, x->killing.next_ns);
	else if (x->stop.asked && x->phase <= PHASE_RUNNING)
		at = earlier(at, x->stop.deadline_ns);
	if (x->phase == PHASE_ENDING)
		at = earlier(at, x->info_deadline_ns);
	if (x->phase == PHASE_RECORDING)
		at = earlier(at, x->record_retry_ns);
	if (x->more_to_reap)
		at = 1; /* long past: at once */
	if (at == x->armed_ns)
		return;
	struct itimerspec when = { .it_value = { .tv_sec = (time_t) (at / NS_PER_SEC),
						 .tv_nsec = (long) (at % NS_PER_SEC) } };
	if (timerfd_settime(x->timer, TFD_TIMER_ABSTIME, &when, NULL) == 0)
		x->armed_ns = at;
}

static void on_timer(struct executor *x) {
	uint64_t times;
	if (read(x->timer, &times, sizeof times) == (ssize_t) sizeof times)
		x->armed_ns = 0;
}

static void on_child_signal(struct executor *x) {
	struct signalfd_siginfo info;
	/* Several ends may hide behind one signal: waitid() is what counts, this only makes it quiet. */
	while (read(x->signals, &info, sizeof info) == (ssize_t) sizeof info)
		continue;
	reap(x);
}

static void dispatch(struct executor *x, const struct epoll_event *e) {
	uint32_t index = (uint32_t) e->data.u64;
	switch ((enum source) (e->data.u64 >> 32)) {
	case SOURCE_SIGNALS:
		on_child_signal(x);
		return;
	case SOURCE_TIMER:
		on_timer(x);
		return;
	case SOURCE_LEADER:
		adopted_leader_event(x, e->events);
		return;
	case SOURCE_REPORT:
		spawn_report(x);
		return;
	case SOURCE_STREAM:
		pump(x, index, e->events);
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
	}
}

_Noreturn static void loop(struct executor *x) {
	while (x->phase != PHASE_DONE) {
		struct epoll_event events[16];
		step(x);
		if (x->phase == PHASE_DONE)
			break;
		arm_timer(x);
		int n = epoll_wait(x->epoll, events, (int) ARRAY_LEN(events), -1);
		for (int i = 0; i < n; i++)
			dispatch(x, &events[i]);
	}
	_exit(0);
}

/* ---- Set-up. ---- */

/*
 * Only SIGKILL ends an executor. Signals that report a fault of our own stay; all others are ignored. All are blocked,
 * too, so that the child inherits a state in which nothing can reach it before it is the task.
 */
static int set_signals(struct executor *x) {
	static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGSYS, SIGTRAP };
	struct sigaction ignore = { .sa_handler = SIG_IGN }, dfl = { .sa_handler = SIG_DFL };
	for (int n = 1; n <= SIGRTMAX; n++)
		(void) sigaction(n, &ignore, NULL);
	(void) sigaction(SIGCHLD, &dfl, NULL);
	sigset_t blocked, child;
	(void) sigfillset(&blocked);
	for (size_t i = 0; i < ARRAY_LEN(faults); i++) {
		(void) sigaction(faults[i], &dfl, NULL);
		(void) sigdelset(&blocked, faults[i]);
	}
	if (sigprocmask(SIG_SETMASK, &blocked, NULL) < 0)
		return -errno;
	(void) sigemptyset(&child);
	(void) sigaddset(&child, SIGCHLD);
	x->signals = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
	return x->signals < 0 ? -errno : watch(x, x->signals, EPOLLIN, SOURCE_SIGNALS, 0);
}

/* What makes this process a good executor whatever it inherited. Best effort where it is only better so. */
static int become_executor(struct executor *x) {
	struct proc_stat self;
	x->pid = getpid();
	int r = proc_stat_read(x->proc, x->pid, &self);
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
	x->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (x->epoll < 0 || x->timer < 0)
		return -errno;
	r = watch(x, x->timer, EPOLLIN, SOURCE_TIMER, 0);
	return r < 0 ? r : set_signals(x);
}

static void open_cgroup(struct executor *x) {
	char path[4096];
	int n = x->spec.cgroup ? snprintf(path, sizeof path, "%s/cgroup.events", x->spec.cgroup) : -1;
	if (n > 0 && (size_t) n < sizeof path)
		x->cgroup_events = open(path, O_RDONLY | O_CLOEXEC);
}

/* Fails by start_failed(), so that the reason is on record. */
_Noreturn static void executor_run(struct executor *x) {
	enum stage stage = STAGE_SETUP;
	const char *detail = "executor";
	int r = flock(x->lock, LOCK_EX) < 0 ? -errno : become_executor(x);
	if (r == 0) {
		record_reserve(x);
		open_cgroup(x);
		x->oom_kills_before = read_oom_kills(x);
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
	} else if (x->spec.gate) {
		tell(x, TOLD_OK, NULL);
	} else {
		go(x);
	}
	loop(x);
}

_Noreturn static void executor_adopt(struct executor *x) {
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
		/* A full disk or a missing directory must not keep a workload from being taken care of. */
		(void) logs_open(x);
		(void) fifos_open(x);
		fifos_note_loss(x);
		(void) fifos_watch(x);
		r = listen_at_sock(x);
	}
	if (r == 0 && x->leader.pidfd >= 0)
		r = watch(x, x->leader.pidfd, EPOLLIN, SOURCE_LEADER, 0);
	if (r < 0) {
		tell(x, TOLD_NO_SETUP, strerror(-r));
		_exit(1);
	}
	(void) status_write(x);
	tell(x, TOLD_OK, NULL);
	loop(x);
}

/* Shows `holdfast-executor: <title>` in ps, as far as the space of the old arguments and environment goes. */
static void set_title(int argc, char **argv, char **envp, const char *title) {
	char *end = argv[0] + strlen(argv[0]) + 1;
	for (int i = 1; i < argc && argv[i] == end; i++)
		end += strlen(argv[i]) + 1;
	for (char **e = envp; *e && *e == end; e++)
		end += strlen(*e) + 1;
	(void) clearenv();
	size_t cap = (size_t) (end - argv[0]);
	memset(argv[0], 0, cap);
	(void) snprintf(argv[0], cap, "holdfast-executor: %s", title);
	(void) prctl(PR_SET_NAME, EXECUTOR_COMM, 0, 0, 0);
}

static int fail(const char *what, int error) {
	(void) fprintf(stderr, "holdfast-executor: %s: %s\n", what, strerror(-error));
	return TOLD_NO_SETUP;
}

/* In the foreground process: what the executor says is our exit status. */
static int wait_for_report(int from, pid_t child) {
	struct report report;
	ssize_t n;
	do {
		n = read(from, &report, sizeof report);
	} while (n < 0 && errno == EINTR);
	(void) waitpid(child, NULL, 0);
	if (n != (ssize_t) sizeof report)
		return fail("the executor died during its set-up", -ECHILD);
	report.why[sizeof report.why - 1] = '\0';
	if (report.told != TOLD_OK)
		(void) fprintf(stderr, "holdfast-executor: %s\n", report.why);
	return report.told;
}

/* Forks twice. Returns the exit status in the foreground process, -1 in the executor. */
static int daemonize(struct executor *x) {
	int pipes[2];
	if (pipe2(pipes, O_CLOEXEC) < 0)
		return fail("pipe", -errno);
	pid_t child = fork();
	if (child < 0)
		return fail("fork", -errno);
	if (child > 0) {
		close_fd(&pipes[1]);
		return wait_for_report(pipes[0], child);
	}
	close_fd(&pipes[0]);
	x->told = pipes[1];
	if (setsid() < 0)
		_exit(TOLD_NO_SETUP);
	pid_t grandchild = fork();
	if (grandchild != 0)
		_exit(grandchild < 0 ? TOLD_NO_SETUP : 0);
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int fd = 0; fd < 3; fd++) {
		if (null < 0 || dup2(null, fd) < 0)
			_exit(TOLD_NO_SETUP);
	}
	if (null > 2)
		(void) close(null);
	return -1;
}

static void init(struct executor *x) {
	x->dir = x->lock = x->proc = x->epoll = x->signals = x->timer = x->listener = x->exit_file = x->told = -1;
	x->leader.pidfd = x->spawn.report = x->cgroup_events = -1;
	x->logs.dir = x->logs.scratch[0] = x->logs.scratch[1] = -1;
	static const char *const names[STREAMS] = { "stdout", "stderr" };
	for (size_t i = 0; i < STREAMS; i++)
		x->logs.streams[i] = (struct stream){ .name = names[i], .fifo = -1, .file = -1 };
	for (size_t i = 0; i < MAX_CLIENTS; i++)
		x->clients[i].fd = -1;
}

/* Descriptors 0 to 2 must be something, and nothing else may have been inherited. */
static int clean_descriptors(void) {
	int fd;
	do {
		fd = open("/dev/null", O_RDWR);
	} while (fd >= 0 && fd < 3);
	if (fd < 0)
		return -errno;
	if (syscall(SYS_close_range, 3U, ~0U, 0U) < 0) {
		for (fd = 3; fd < 1024; fd++)
			(void) close(fd);
	}
	return 0;
}

static int open_run(struct executor *x, const char *dir) {
	char buf[256];
	struct text why = { .at = buf, .cap = sizeof buf };
	x->dir = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (x->dir < 0)
		return fail(dir, -errno);
	x->proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (x->proc < 0)
		return fail("/proc", -errno);
	int r = spec_load(x->dir, &x->spec, &why);
	return r < 0 ? fail(why.at, r) : TOLD_OK;
}

static int claim(struct executor *x, bool adopt) {
	x->lock = openat(x->dir, "lock", O_RDWR | O_CLOEXEC | O_NOFOLLOW | (adopt ? 0 : O_CREAT | O_EXCL), 0600);
	if (x->lock >= 0)
		return TOLD_OK;
	if (adopt && errno == ENOENT) {
		(void) fprintf(stderr, "holdfast-executor: the run was never claimed\n");
		return TOLD_NOT_THERE;
	}
	if (!adopt && errno == EEXIST) {
		(void) fprintf(stderr, "holdfast-executor: the run is claimed already\n");
		return TOLD_CLAIMED;
	}
	return fail("lock", -errno);
}

int main(int argc, char **argv, char **envp) {
	if (argc == 2 && strcmp(argv[1], "version") == 0) {
		(void) printf("holdfast-executor %s protocol %d\n", HOLDFAST_VERSION, PROTOCOL_VERSION);
		return fflush(stdout) == 0 ? 0 : 1;
	}
	bool adopt = argc == 3 && strcmp(argv[1], "adopt") == 0;
	if (!adopt && (argc != 3 || strcmp(argv[1], "run") != 0)) {
		(void) fprintf(stderr, "usage: holdfast-executor run RUN_DIR | adopt RUN_DIR | version\n");
		return TOLD_NO_SETUP;
	}
	struct executor *x = &executor;
	init(x);
	int r = clean_descriptors();
	if (r < 0)
		return fail("/dev/null", r);
	int status = open_run(x, argv[2]);
	if (status == TOLD_OK)
		status = claim(x, adopt);
	if (status == TOLD_OK)
		status = daemonize(x);
	if (status >= 0)
		return status;
	set_title(argc, argv, envp, x->spec.title ? x->spec.title : x->spec.run_id);
	if (adopt)
		executor_adopt(x);
	executor_run(x);
}
