/*
 * launch.c - starts foreground processes for the agent: forking this small process is cheap, forking the agent is
 * not. Knows nothing of runs: whoever is killed here or there, what became of a run is found out by its directory.
 *
 *   in   "ID run DIR\0", "ID adopt DIR\0"; "ID kill\0" ends the foreground process that ID stands for
 *   out  "\0" once, when it can be used; then for each ID "ID exited CODE SAID\0" or "ID killed SIGNAL SAID\0"
 *
 * SAID is what the process wrote on its standard error. Ends with the end of its input; what it started lives on.
 */
#define _GNU_SOURCE
#include "launch.h"
#include "util.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

/* Foreground processes at once; more wait in the pipe. */
#define SLOTS 64U
/* Longest request: a path and a few words. */
#define REQUEST_CAP 8192U
#define SAID_CAP 1024U

struct slot {
	pid_t pid; /* 0 = free */
	int said;  /* read end of its standard error */
	char id[24];
};

struct launcher {
	char *program;
	struct slot slots[SLOTS];
	size_t used;
	char buf[REQUEST_CAP];
	size_t len;
	bool input_ended;
};

static struct launcher launcher;

/* A reader that is gone is the agent's end, which the input tells as well. */
static void answer(const char *id, const char *how, int value, const char *said) {
	char buf[SAID_CAP + 128];
	struct text t = { .at = buf, .cap = sizeof buf };
	text_add(&t, "%s %s %d %s", id, how, value, said);
	(void) write_full(STDOUT_FILENO, t.at, t.len + 1);
}

static int spawn_child(struct launcher *l, struct slot *s, char *command, char *dir) {
	int pipes[2], r;
	char *argv[] = { l->program, command, dir, NULL }, *envp[] = { NULL };
	if (pipe2(pipes, O_CLOEXEC) < 0)
		return -errno;
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t none, all;
	(void) sigemptyset(&none);
	(void) sigfillset(&all);
	(void) posix_spawn_file_actions_init(&actions);
	(void) posix_spawnattr_init(&attributes);
	/* A session of its own: what is sent to the agent's terminal or group is not for it. */
	(void) posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	(void) posix_spawnattr_setsigmask(&attributes, &none);
	(void) posix_spawnattr_setsigdefault(&attributes, &all);
	r = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDWR, 0);
	r = r ? r : posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_RDWR, 0);
	r = r ? r : posix_spawn_file_actions_adddup2(&actions, pipes[1], STDERR_FILENO);
	r = r ? r : posix_spawn(&s->pid, l->program, &actions, &attributes, argv, envp);
	(void) posix_spawn_file_actions_destroy(&actions);
	(void) posix_spawnattr_destroy(&attributes);
	(void) close(pipes[1]);
	if (r != 0) {
		(void) close(pipes[0]);
		s->pid = 0;
		return -r;
	}
	s->said = pipes[0];
	return 0;
}

static struct slot *slot_of(struct launcher *l, const char *id) {
	for (size_t i = 0; i < SLOTS; i++) {
		if (l->slots[i].pid != 0 && strcmp(l->slots[i].id, id) == 0)
			return &l->slots[i];
	}
	return NULL;
}

static void take_request(struct launcher *l, char *request) {
	char *rest = request, *id = strsep(&rest, " "), *command = strsep(&rest, " ");
	if (!command || strlen(id) >= sizeof l->slots[0].id)
		return;
	struct slot *s = slot_of(l, id);
	if (strcmp(command, "kill") == 0) {
		/* Not reaped yet, or it would not be in its slot: the number is still its own. */
		if (s)
			(void) kill(s->pid, SIGKILL);
		return;
	}
	if (s || !rest)
		return;
	for (s = l->slots; s->pid != 0; s++)
		;
	int r = spawn_child(l, s, command, rest);
	if (r < 0) {
		answer(id, "failed", -r, strerror(-r));
		return;
	}
	(void) memcpy(s->id, id, strlen(id) + 1);
	l->used++;
}

/* Requests are taken as long as there is a slot: one may always come that ends something. */
static void take_requests(struct launcher *l) {
	size_t done = 0;
	for (char *end; l->used < SLOTS && (end = memchr(l->buf + done, '\0', l->len - done));
	     done = (size_t) (end - l->buf) + 1)
		take_request(l, l->buf + done);
	l->len -= done;
	memmove(l->buf, l->buf + done, l->len);
}

static void read_requests(struct launcher *l) {
	ssize_t n = read(STDIN_FILENO, l->buf + l->len, sizeof l->buf - l->len);
	if (n < 0 && errno == EINTR)
		return;
	if (n <= 0) {
		l->input_ended = true;
		return;
	}
	l->len += (size_t) n;
}

static void reap_children(struct launcher *l) {
	for (;;) {
		siginfo_t info = { 0 };
		if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG) < 0 || info.si_pid == 0)
			return;
		struct slot *s = l->slots;
		while (s < l->slots + SLOTS && s->pid != info.si_pid)
			s++;
		if (s == l->slots + SLOTS)
			continue;
		char said[SAID_CAP];
		/* What it has said is in the pipe by now. Others may hold the other end: its end is not waited for. */
		(void) fcntl(s->said, F_SETFL, O_NONBLOCK);
		ssize_t n = read(s->said, said, sizeof said - 1);
		said[n > 0 ? n : 0] = '\0';
		close_fd(&s->said);
		answer(s->id, info.si_code == CLD_EXITED ? "exited" : "killed", info.si_status, said);
		s->pid = 0;
		l->used--;
	}
}

int launch(char *program) {
	struct launcher *l = &launcher;
	l->program = program;
	sigset_t children, ignored;
	(void) sigemptyset(&children);
	(void) sigaddset(&children, SIGCHLD);
	/* The terminal's and the manager's signals are for the agent; its end is our end of file. */
	(void) sigemptyset(&ignored);
	static const int others[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE, SIGTSTP, SIGTTIN, SIGTTOU };
	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		(void) signal(others[i], SIG_IGN);
	(void) sigprocmask(SIG_BLOCK, &children, NULL);
	int ended = signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);
	if (ended < 0 || write_full(STDOUT_FILENO, "", 1) < 0)
		return 1;
	while (!l->input_ended) {
		take_requests(l);
		bool has_room = l->len < sizeof l->buf;
		if (!has_room && l->used < SLOTS)
			return 1; /* A request that is longer than any can be. */
		struct pollfd wait[] = {
			{ .fd = ended, .events = POLLIN },
			{ .fd = has_room ? STDIN_FILENO : -1, .events = POLLIN },
		};
		if (poll(wait, ARRAY_LEN(wait), -1) < 0)
			continue;
		if (wait[0].revents) {
			struct signalfd_siginfo info;
			while (read(ended, &info, sizeof info) > 0)
				;
			reap_children(l);
		}
		if (wait[1].revents)
			read_requests(l);
	}
	return 0;
}
