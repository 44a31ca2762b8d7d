/*
 * main.c - the executor's own commands, and its foreground process, up to the point where it stands on its own feet. All
 * other commands are the launcher's, which it hands them to as they are: whoever calls knows one program.
 *
 *   run, adopt: foreground process         executor
 *     reads spec, claims lock, forks ----> executor_run() or executor_adopt(): set-up, then the loop
 *     waits for one report <-------------- tell()
 *   start: the launcher                    executor
 *     starts it -------------------------> reads spec, claims lock, executor_run(): set-up, makes the child
 *     says GO, or never will ------------> spawn_release()
 *     reads one report <------------------ tell()
 */
#define _GNU_SOURCE
#include "program.h"
#include "tty.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static struct executor executor;

static int fail(const char *what, int error) {
	say("holdfast-executor: %s: %s\n", what, strerror(-error));
	return TOLD_NO_SETUP;
}

/* In the foreground process: what the executor says is our exit status. */
static int wait_for_report(int from) {
	struct report report;
	ssize_t n;
	do {
		n = read(from, &report, sizeof report);
	} while (n < 0 && errno == EINTR);
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
static pid_t fork_executor(const struct executor *x) {
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
	return fork();
}

static int silence(void) {
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int fd = 0; fd < 3; fd++) {
		if (null < 0 || dup2(null, fd) < 0)
			return -errno;
	}
	if (null > 2)
		(void) close(null);
	return 0;
}

/*
 * Started by the launcher, as the leader of a session, which is no harm: no terminal is ever opened without O_NOCTTY. It says GO on our
 * standard input, and reads our report from our standard error. Returns the exit status after a fault, -1 when all is well.
 */
static int take_pipes(struct executor *x) {
	x->release = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	x->told = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	if (x->release < 0 || x->told < 0)
		return fail("pipes", -errno);
	int r = silence();
	return r < 0 ? fail("/dev/null", r) : -1;
}

/*
 * Forks the executor into a session that is nobody's terminal's, and which it does not lead. The launcher, and the agent, start us as the
 * leader of a session, which is just that; a shell starts us as the leader of a group, who cannot have one: then a child of ours has it.
 * Returns the exit status in the foreground process, -1 in the executor.
 */
static int daemonize(struct executor *x) {
	int pipes[2];
	if (pipe2(pipes, O_CLOEXEC) < 0)
		return fail("pipe", -errno);
	bool leads = getsid(0) == getpid() || setsid() >= 0;
	pid_t child = leads ? fork_executor(x) : fork();
	if (child < 0)
		return fail("fork", -errno);
	if (child > 0) {
		close_fd(&pipes[1]);
		return wait_for_report(pipes[0]);
	}
	close_fd(&pipes[0]);
	x->told = pipes[1];
	if (!leads && setsid() < 0)
		_exit(TOLD_NO_SETUP);
	pid_t grandchild = leads ? 0 : fork_executor(x);
	if (grandchild != 0)
		_exit(grandchild < 0 ? TOLD_NO_SETUP : 0);
	if (silence() < 0)
		_exit(TOLD_NO_SETUP);
	return -1;
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
	if (x->lock >= 0 && is_there(x->dir, "spec"))
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

int main(int argc, char **argv, char **envp) {
	if (argc == 2 && strcmp(argv[1], "version") == 0) {
		char line[128];
		int n = format_text(line, sizeof line, "holdfast-executor %s protocol %d\n", HOLDFAST_VERSION, PROTOCOL_VERSION);
		return write_full(STDOUT_FILENO, line, (size_t) n) == 0 ? 0 : 1;
	}
	bool adopt = argc == 3 && strcmp(argv[1], "adopt") == 0;
	bool start = argc == 3 && strcmp(argv[1], "start") == 0;
	if (!adopt && !start && (argc != 3 || strcmp(argv[1], "run") != 0)) {
		char path[4096];
		return fail(path, exec_launcher(argv, envp, path, sizeof path));
	}
	struct executor *x = &executor;
	program_init(x);
	/* Whoever waits for a start, a stop or the record of an end waits for us, and we do little. */
	set_slice(SLICE_SHORT);
	int r = clean_descriptors();
	if (r < 0)
		return fail("/dev/null", r);
	int status = open_run(x, argv[2]);
	if (status == TOLD_OK)
		status = claim(x, adopt);
	if (status == TOLD_OK)
		status = start ? take_pipes(x) : daemonize(x);
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
