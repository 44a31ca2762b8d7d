/*
 * main.c - the commands, and the foreground process, up to the point where the executor stands on its own feet.
 *
 *   foreground process          first child            executor
 *   reads spec, claims lock --> setsid, forks -------> executor_run() or executor_adopt(): set-up, then the loop
 *   waits for one report <------------------------------- tell()
 */
#define _GNU_SOURCE
#include "executor.h"
#include "launch.h"
#include "isolate.h"
#include "notify.h"
#include "session.h"
#include "tty.h"
#include "wake.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* What ps shows of an executor begins with it. */
#define EXECUTOR_NAME "holdfast-executor"

#ifdef __SANITIZE_ADDRESS__
/* Looking for leaks at the end stops the world, which a process of a pid namespace of its own waits for in vain. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) {
	return "detect_leaks=0";
}
#endif

static struct executor executor;

/* Shows `<what>: <title>` in ps, as far as the space of the old arguments and environment goes. */
static void set_title(struct executor *x, int argc, char **argv, char **envp, const char *what, const char *title) {
	char *end = argv[0] + strlen(argv[0]) + 1;
	for (int i = 1; i < argc && argv[i] == end; i++)
		end += strlen(argv[i]) + 1;
	for (char **e = envp; *e && *e == end; e++)
		end += strlen(*e) + 1;
	(void) clearenv();
	size_t cap = (size_t) (end - argv[0]);
	memset(argv[0], 0, cap);
	x->title = argv[0];
	x->title_cap = cap;
	(void) format_text(argv[0], cap, "%s: %s", what, title);
	(void) prctl(PR_SET_NAME, EXECUTOR_COMM, 0, 0, 0);
}

static int fail(const char *what, int error) {
	say("holdfast-executor: %s: %s\n", what, strerror(-error));
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
		say("holdfast-executor: %s\n", report.why);
	return report.told;
}

/*
 * Forks the executor, where it can be into its cgroup. One that was killed at its birth has said nothing and done nothing, and is made
 * again the old way. Returns the pid (0 in the executor) or less.
 */
static pid_t fork_executor(struct executor *x) {
	int alive[2], pidfd = -1;
	bool is_born_there = false;
	AUTO_FD group = open_birth_group(x);
	if (group >= 0 && pipe2(alive, O_CLOEXEC) == 0) {
		char byte = 0;
		pid_t pid = clone_child(group, &pidfd, &is_born_there);
		if (pid == 0) {
			close_fd(&alive[0]);
			(void) write_full(alive[1], &byte, 1);
			close_fd(&alive[1]);
			if (!is_born_there)
				x->born_in = NULL;
			return 0;
		}
		close_fd(&pidfd);
		close_fd(&alive[1]);
		ssize_t n;
		do {
			n = read(alive[0], &byte, 1);
		} while (n < 0 && errno == EINTR);
		close_fd(&alive[0]);
		/* Only at the end of the pipe is it certain that nobody is there. */
		if (pid > 0 && n != 0)
			return pid;
	}
	x->born_in = NULL;
	return fork();
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
	pid_t grandchild = fork_executor(x);
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
	x->dir = x->lock = x->epoll = x->signals = x->listener = x->told = -1;
	x->terminal.pidfd = x->terminal.master = x->terminal.slave = x->terminal.ready = -1;
	x->leader.pidfd = x->spawn.report = x->spawn.gate = x->cgroup_events = -1;
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
	int r = spec_load(x->dir, &x->spec, &why);
	return r < 0 ? fail(why.at, r) : TOLD_OK;
}

static int claim(struct executor *x, bool adopt) {
	int how = adopt ? 0 : O_CREAT | O_EXCL;
	x->lock = openat(x->dir, "lock", O_RDWR | O_CLOEXEC | O_NOFOLLOW | how, 0600);
	if (x->lock >= 0 && faccessat(x->dir, "spec", F_OK, 0) == 0)
		return TOLD_OK;
	if (x->lock >= 0) {
		/* The agent has fenced this run, and is removing it: the spec first, then its lock. */
		say("holdfast-executor: the run was given up\n");
		return TOLD_CLAIMED;
	}
	if (adopt && errno == ENOENT) {
		say("holdfast-executor: the run was never claimed\n");
		return TOLD_NOT_THERE;
	}
	if (!adopt && errno == EEXIST) {
		say("holdfast-executor: the run is claimed already\n");
		return TOLD_CLAIMED;
	}
	return fail("lock", -errno);
}

/* The arguments go elsewhere, for as long as the process lives, since the title takes their place. */
static int enter_command(int argc, char **argv, char **envp) {
	static char **own, *text;
	size_t len = 0;
	for (int i = 0; i < argc; i++)
		len += strlen(argv[i]) + 1;
	own = calloc((size_t) argc + 1, sizeof *own);
	text = malloc(len);
	if (!own || !text)
		return fail("enter", -ENOMEM);
	char *at = text;
	for (int i = 0; i < argc; i++) {
		own[i] = at;
		at = stpcpy(at, argv[i]) + 1;
	}
	int r = clean_descriptors();
	if (r < 0)
		return fail("/dev/null", r);
	init(&executor);
	set_title(&executor, argc, argv, envp, EXECUTOR_NAME, "session");
	return enter(&executor, argc - 2, own + 2);
}

int main(int argc, char **argv, char **envp) {
	if (argc == 2 && strcmp(argv[1], "version") == 0) {
		char line[128];
		int n = format_text(line, sizeof line, "holdfast-executor %s protocol %d\n", HOLDFAST_VERSION, PROTOCOL_VERSION);
		return write_full(STDOUT_FILENO, line, (size_t) n) == 0 ? 0 : 1;
	}
	if (argc == 3 && strcmp(argv[1], "probe") == 0)
		return probe(strcmp(argv[2], "user") == 0);
	if (argc == 2 && strcmp(argv[1], "notify") == 0)
		return notify(getenv("NOTIFY_SOCKET"));
	if (argc == 3 && strcmp(argv[1], "launch") == 0)
		return launch(argv[2]);
	if (argc == 3 && strcmp(argv[1], "wake") == 0)
		return wake(argv[2]);
	if (argc == 3 && strcmp(argv[1], "unseat") == 0)
		return unseat(argv[2]);
	if (argc >= 2 && strcmp(argv[1], "enter") == 0)
		return enter_command(argc, argv, envp);
	bool adopt = argc == 3 && strcmp(argv[1], "adopt") == 0;
	if (!adopt && (argc != 3 || strcmp(argv[1], "run") != 0)) {
		say(
			       "usage: holdfast-executor run RUN_DIR | adopt RUN_DIR | wake RUN_DIR | unseat RUN_DIR | "
			       "launch PROGRAM | enter ... | notify | probe user|root | version\n");
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
	if (!adopt && terminal_make(x)) {
		/* By its title it must not be taken for an executor of this run. */
		set_title(x, argc, argv, envp, "holdfast-tty", x->spec.log_name ? x->spec.log_name : "task");
		terminal_hold(x);
	}
	set_title(x, argc, argv, envp, EXECUTOR_NAME, x->spec.title ? x->spec.title : x->spec.run_id);
	if (adopt)
		executor_adopt(x);
	executor_run(x);
}
