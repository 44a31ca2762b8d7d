/*
 * enter.c - a command in a running workload: makes a process for the command that has joined the workload's world (world.c)
 * and has its user, privileges and environment, and hands over to session.c.
 *
 *   enter, child of the agent     stays outside, sees the end, kills what is left of the session
 *     the command                 a session of its own (and a terminal, with `tty`), in the workload's world
 *
 * The run directory is the working directory: a run id among the arguments would make this look like an executor.
 */
#define _GNU_SOURCE
#include "privileges.h"
#include "session.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#define DEFAULT_TERM "TERM=xterm"

static bool is_word(const char *text) {
	size_t len = strlen(text);
	return len > 0 && len <= 64 && strspn(text, "0123456789abcdefghijklmnopqrstuvwxyz-") == len;
}

/* The ends of the pipes that the command gets as 0, 1, 2; or the terminal that is there already. */
static int take_stdio(const struct session *s, const int ends[RELAYS], int report) {
	for (int fd = 0; fd < RELAYS && !s->tty; fd++) {
		if (dup2(ends[fd], fd) < 0)
			return -errno;
	}
	for (int fd = 0; fd < RELAYS; fd++) {
		int flags = fcntl(fd, F_GETFL);
		if (flags < 0 || fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) < 0)
			return -errno;
	}
	/* What is still needed stays open until exec. */
	int keep[] = { report, s->leader.pidfd, s->root };
	for (size_t i = 0; i < ARRAY_LEN(keep); i++) {
		if (keep[i] >= 0 && fcntl(keep[i], F_SETFD, FD_CLOEXEC) < 0)
			return -errno;
	}
	return 0;
}

static const char *variable(char **envp, const char *name) {
	size_t len = strlen(name);
	for (; *envp; envp++) {
		if (strncmp(*envp, name, len) == 0 && (*envp)[len] == '=')
			return *envp + len + 1;
	}
	return NULL;
}

/* As a shell finds it, by the task's PATH. Only comes back when it cannot be run. */
static int run_command(char **argv, char **envp) {
	char path[4096];
	if (strchr(argv[0], '/')) {
		(void) execve(argv[0], argv, envp);
		return -errno;
	}
	const char *dirs = variable(envp, "PATH");
	int error = -ENOENT;
	for (const char *at = dirs && *dirs ? dirs : DEFAULT_PATH; *at; at += *at == ':') {
		size_t len = strcspn(at, ":");
		int n = format_text(path, sizeof path, "%.*s/%s", (int) len, len > 0 ? at : ".", argv[0]);
		at += len;
		if (n <= 0 || (size_t) n >= sizeof path)
			continue;
		(void) execve(path, argv, envp);
		if (errno != ENOENT && errno != ENOTDIR)
			error = -errno;
	}
	return error;
}

static int become_command(struct session *s, const int ends[RELAYS], int report, enum enter_stage *ret_stage) {
	struct child child = { .x = s->x, .gate = -1, .report = report };
	enum stage stage = STAGE_NONE;
	struct identity id;
	/* Looked up in the database of the host, as for the task: its own root may have another. */
	*ret_stage = ENTER_USER;
	int r = identity_find(&s->x->spec, &id, &stage);
	if (r < 0)
		return r;
	*ret_stage = ENTER_CGROUP;
	if ((r = join_cgroups(s)) < 0)
		return r;
	if (geteuid() != 0)
		(void) prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
	*ret_stage = ENTER_OOM_SCORE_ADJ;
	if ((r = set_oom_score(s->x->spec.oom_score_adj)) < 0)
		return r;
	*ret_stage = ENTER_SESSION;
	if (setsid() < 0)
		return -errno;
	*ret_stage = ENTER_TTY;
	if (s->tty && ioctl(0, TIOCSCTTY, 0) < 0)
		return -errno;
	*ret_stage = ENTER_STDIO;
	if ((r = take_stdio(s, ends, report)) < 0)
		return r;
	*ret_stage = ENTER_LIMITS;
	if ((r = take_limits(s)) < 0)
		return r;
	if ((r = join_world(s, ret_stage)) < 0)
		return r;
	(void) umask((mode_t) s->x->spec.umask & 0777);
	/* As the task: its user, its capabilities, its filter of system calls. */
	r = privileges_take(&child, &id, &stage);
	*ret_stage = stage == STAGE_CAPABILITIES || stage == STAGE_SECCOMP ? ENTER_ISOLATION : ENTER_USER;
	if (r < 0)
		return r;
	*ret_stage = ENTER_CHDIR;
	if (chdir(s->x->spec.cwd) < 0)
		return -errno;
	/* After the last change of who we are, which would undo it. */
	(void) prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	*ret_stage = ENTER_EXEC;
	reset_signals();
	return run_command(s->argv, s->x->spec.envp);
}

_Noreturn static void command_main(struct session *s, const int ends[RELAYS], int report) {
	enum enter_stage stage = ENTER_NONE;
	struct enter_report rep = { .stage = ENTER_NONE };
	ssize_t n = 0;
	/* It was not killed at its birth. */
	if (s->inside)
		n = write(report, &rep, sizeof rep);
	int r = become_command(s, ends, report, &stage);
	rep = (struct enter_report){ .stage = (int32_t) stage, .errnum = -r };
	n = write(report, &rep, sizeof rep);
	_exit(n == (ssize_t) sizeof rep ? 127 : 126);
}

/* A pipe between us and the command; both may open it anew by /dev/stdin and the like. */
static int make_relay(struct session *s, int fd, int *ret_end) {
	int pipes[2];
	if (pipe2(pipes, O_CLOEXEC) < 0)
		return -errno;
	int own = fd == 0 ? pipes[1] : pipes[0];
	*ret_end = fd == 0 ? pipes[0] : pipes[1];
	s->relays[fd].from = fd == 0 ? fd : own;
	s->relays[fd].to = fd == 0 ? own : fd;
	(void) fchmod(own, 0666);
	for (int i = 0; i < 2; i++) {
		int at = i == 0 ? fd : own, flags = fcntl(at, F_GETFL);
		if (flags < 0 || fcntl(at, F_SETFL, flags | O_NONBLOCK) < 0)
			return -errno;
	}
	return 0;
}

/* Makes the command's process; once more, to join its group by itself, when the kernel has killed it at its birth there. */
static int make_command(struct session *s, const int ends[RELAYS], int group) {
	struct enter_report alive;
	int report[2];
	if (pipe2(report, O_CLOEXEC) < 0)
		return -errno;
	s->child = fork_inside(s, group);
	if (s->child == 0)
		command_main(s, ends, report[1]);
	int r = s->child < 0 ? -errno : 0;
	(void) close(report[1]);
	s->report = report[0];
	if (r == 0 && s->inside && read(s->report, &alive, sizeof alive) != (ssize_t) sizeof alive) {
		(void) waitpid(s->child, NULL, 0);
		(void) close(s->report);
		return make_command(s, ends, -1);
	}
	return r;
}

static int start_command(struct session *s) {
	int ends[RELAYS] = { -1, -1, -1 }, r;
	AUTO_FD group = open_group(s);
	for (int fd = 0; fd < RELAYS && !s->tty; fd++) {
		if ((r = make_relay(s, fd, &ends[fd])) < 0)
			return r;
	}
	if (join_outside(s) < 0) {
		session_tell(s, ENTER_NAMESPACES, errno);
		_exit(126);
	}
	r = make_command(s, ends, group);
	if (r < 0)
		return r;
	for (int fd = 0; fd < RELAYS; fd++)
		close_fd(&ends[fd]);
	(void) fcntl(s->report, F_SETFL, O_NONBLOCK);
	return 0;
}

/*
 * Nothing may stop this one but its agent, whose end ends it. The terminal becomes the command's: giving it up sends a
 * hangup to whoever is in its foreground, which is us.
 */
static int become_session(struct session *s, pid_t parent) {
	if (prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0) < 0)
		return -errno;
	if (getppid() != parent)
		return -ECHILD;
	struct sigaction ignore = { .sa_handler = SIG_IGN };
	static const int ignored[] = { SIGHUP, SIGPIPE, SIGTSTP, SIGTTIN, SIGTTOU, SIGQUIT, SIGINT };
	for (size_t i = 0; i < ARRAY_LEN(ignored); i++)
		(void) sigaction(ignored[i], &ignore, NULL);
	if (s->tty)
		(void) ioctl(0, TIOCNOTTY);
	sigset_t told;
	(void) sigemptyset(&told);
	(void) sigaddset(&told, SIGCHLD);
	(void) sigaddset(&told, SIGTERM);
	(void) sigaddset(&told, SIGUSR1);
	if (sigprocmask(SIG_BLOCK, &told, NULL) < 0)
		return -errno;
	s->signals = signalfd(-1, &told, SFD_CLOEXEC | SFD_NONBLOCK);
	if (s->signals < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
		return -errno;
	return 0;
}

/* A program on a terminal needs to know what kind it is. */
static int add_term(struct spec *spec) {
	size_t count = 0;
	if (variable(spec->envp, "TERM"))
		return 0;
	while (spec->envp[count])
		count++;
	char **envp = calloc(count + 2, sizeof *envp);
	if (!envp)
		return -ENOMEM;
	memcpy(envp, spec->envp, count * sizeof *envp);
	envp[count] = (char *) (uintptr_t) DEFAULT_TERM;
	spec->envp = envp;
	return 0;
}

int enter(struct executor *x, int argc, char **argv) {
	/* Set here, not by an initialiser: that would put all its buffers into the program file. */
	static struct session s;
	s.root = s.report = s.signals = s.result = -1;
	if (argc < 4 || !is_word(argv[0])) {
		say("usage, in the run directory: holdfast-executor enter SESSION tty|pipes "
				       "PARENT_PID COMMAND [ARG...]\n");
		return TOLD_NO_SETUP;
	}
	s.x = x;
	s.id = argv[0];
	s.tty = strcmp(argv[1], "tty") == 0;
	s.argv = argv + 3;
	for (size_t i = 0; i < RELAYS; i++)
		s.relays[i].from = s.relays[i].to = -1;
	x->pid = getpid();
	x->dir = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char name[80], buf[256];
	struct text why = { .at = buf, .cap = sizeof buf };
	(void) format_text(name, sizeof name, "session-%s", s.id);
	s.result = openat(x->dir, name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
	int r = x->dir < 0 ? -errno : spec_load(x->dir, &x->spec, &why);
	if (r == 0)
		r = become_session(&s, (pid_t) read_number(argv[2], NULL));
	if (r == 0 && s.tty)
		r = add_term(&x->spec);
	enum enter_stage stage = ENTER_SETUP;
	/* So that the command can open its output anew, also where the task's own output goes nowhere. */
	if (!x->spec.log_dir)
		x->spec.log_dir = "/";
	if (r == 0) {
		stage = ENTER_IDENTITY;
		r = find_leader(&s);
	}
	if (r == 0) {
		stage = ENTER_NAMESPACES;
		r = find_world(&s);
	}
	if (r == 0) {
		make_cgroup(&s);
		stage = ENTER_SETUP;
		r = start_command(&s);
	}
	if (r < 0) {
		session_tell(&s, stage, -r);
		return 126;
	}
	return session_run(&s);
}
