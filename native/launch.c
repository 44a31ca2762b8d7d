/*
 * launch.c - starts executors for the agent: forking this small process is cheap, forking the agent is not. Knows nothing of
 * runs: whoever is killed here or there, what became of a run is found out by its directory.
 *
 *   in   "ID COMMAND DIR\0"   starts `<program> COMMAND DIR`
 *        "ID made\0"          of a `start`: its cgroup is there
 *        "ID go\0"            of a `start`: the task may run
 *        "ID drop\0"          of a `start`: it never may; without GO, our own end says the same
 *        "ID kill\0"          it takes too long: a foreground process is killed, an executor is let alone and forgotten
 *   out  "\0" once, when it can be used; then for each ID "ID exited CODE SAID\0" or "ID killed SIGNAL SAID\0"
 *
 * `start` is an executor that stays our child: it reports on its standard error, and reads both words, a byte each, on its standard input. All others are
 * foreground processes: SAID is what they wrote on their standard error. Ends with the end of its input; what it started lives on.
 */
#define _GNU_SOURCE
#include "executor.h"
#include "launch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * So many at once; more wait in the pipe. At most half of them may wait for GO, or GO would wait behind them: the agent sees
 * to that (src/executor/launcher.ts).
 */
#define SLOTS 64U
/* Longest request: a path and a few words. */
#define REQUEST_CAP 8192U
#define SAID_CAP 1024U

struct slot {
	pid_t pid; /* 0 = free */
	int said;  /* read end of its standard error */
	int gate;  /* of a `start`: write end of its standard input, until GO; else -1 */
	bool starts, reaped, silent; /* silent: of a `start`, its standard error has ended */
	int code, value;             /* as waitid says, once it is reaped */
	size_t len;
	char text[SAID_CAP];
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
	int pipes[2], gate[2] = { -1, -1 }, r;
	char *argv[] = { l->program, command, dir, NULL }, *envp[] = { NULL };
	*s = (struct slot){ .said = -1, .gate = -1, .starts = strcmp(command, "start") == 0 };
	if (pipe2(pipes, O_CLOEXEC) < 0)
		return -errno;
	if (s->starts && pipe2(gate, O_CLOEXEC) < 0) {
		r = -errno;
		(void) close(pipes[0]);
		(void) close(pipes[1]);
		return r;
	}
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
	r = s->starts ? posix_spawn_file_actions_adddup2(&actions, gate[0], STDIN_FILENO)
		      : posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDWR, 0);
	r = r ? r : posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_RDWR, 0);
	r = r ? r : posix_spawn_file_actions_adddup2(&actions, pipes[1], STDERR_FILENO);
	r = r ? r : posix_spawn(&s->pid, l->program, &actions, &attributes, argv, envp);
	(void) posix_spawn_file_actions_destroy(&actions);
	(void) posix_spawnattr_destroy(&attributes);
	(void) close(pipes[1]);
	close_fd(&gate[0]);
	if (r != 0) {
		(void) close(pipes[0]);
		close_fd(&gate[1]);
		s->pid = 0;
		return -r;
	}
	(void) fcntl(pipes[0], F_SETFL, O_NONBLOCK);
	s->said = pipes[0];
	s->gate = gate[1];
	return 0;
}

/* Says what came of it. An executor that was started lives on as a child that is reaped and not asked for. */
static void end_slot(struct launcher *l, struct slot *s, const char *how, int value, const char *said) {
	answer(s->id, how, value, said);
	close_fd(&s->said);
	close_fd(&s->gate);
	s->pid = 0;
	l->used--;
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
	bool is_kill = strcmp(command, "kill") == 0, is_made = strcmp(command, "made") == 0;
	bool is_go = strcmp(command, "go") == 0;
	if (is_kill || is_made || is_go || strcmp(command, "drop") == 0) {
		if (s && (is_made || is_go) && s->gate >= 0)
			(void) !write(s->gate, command, 1);
		/* The end without GO says that it will never come. */
		if (s && !is_made)
			close_fd(&s->gate);
		if (s && is_kill && s->starts)
			end_slot(l, s, "killed", SIGKILL, "");
		else if (s && is_kill)
			/* Not reaped yet, or it would not be in its slot: the number is still its own. */
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

/* That of a task with a terminal is its holder, which leaves in peace when its executor is killed: no report, no start that is known of. */
static void end_reaped(struct launcher *l, struct slot *s) {
	if (s->starts && s->code == CLD_EXITED && s->value == TOLD_OK)
		end_slot(l, s, "killed", SIGKILL, s->text);
	else
		end_slot(l, s, s->code == CLD_EXITED ? "exited" : "killed", s->value, s->text);
}

/* A report, which begins with a number below 256, or words for people, which have no NUL. */
static void hear(struct launcher *l, struct slot *s) {
	struct report report;
	ssize_t n = read(s->said, s->text + s->len, sizeof s->text - 1 - s->len);
	if (n < 0)
		return;
	if (s->starts && n == (ssize_t) sizeof report && s->text[1] == '\0') {
		memcpy(&report, s->text, sizeof report);
		report.why[sizeof report.why - 1] = '\0';
		end_slot(l, s, "exited", report.told, report.why);
		return;
	}
	s->len += (size_t) n;
	s->text[s->len] = '\0';
	s->silent = n == 0;
	if (s->silent && s->reaped)
		end_reaped(l, s);
}

static void reap_children(struct launcher *l) {
	for (;;) {
		siginfo_t info = { 0 };
		if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG) < 0 || info.si_pid == 0)
			return;
		struct slot *s = l->slots;
		while (s < l->slots + SLOTS && (s->pid != info.si_pid || s->reaped))
			s++;
		if (s == l->slots + SLOTS)
			continue;
		s->reaped = true;
		s->code = info.si_code;
		s->value = info.si_status;
		/* What it has said is in the pipe by now. */
		hear(l, s);
		/* Of a foreground process others may hold the other end: that is not waited for. The holder of a terminal is not the executor. */
		if (s->pid != 0 && !s->starts)
			end_reaped(l, s);
	}
}

int launch(char *program) {
	struct launcher *l = &launcher;
	l->program = program;
	/* Little is done here, and the start of a task waits for it. */
	set_slice(SLICE_SHORT);
	/* Also when we are stopped, and would not see the end of our input: who waits for GO must not wait for ever. */
	(void) prctl(PR_SET_PDEATHSIG, SIGKILL);
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
		struct pollfd wait[2 + SLOTS] = {
			{ .fd = ended, .events = POLLIN },
			{ .fd = has_room ? STDIN_FILENO : -1, .events = POLLIN },
		};
		for (size_t i = 0; i < SLOTS; i++) {
			const struct slot *s = &l->slots[i];
			wait[2 + i] = (struct pollfd){ .fd = s->pid != 0 && s->starts && !s->silent ? s->said : -1, .events = POLLIN };
		}
		if (poll(wait, ARRAY_LEN(wait), -1) < 0)
			continue;
		for (size_t i = 0; i < SLOTS; i++) {
			if (wait[2 + i].revents)
				hear(l, &l->slots[i]);
		}
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
