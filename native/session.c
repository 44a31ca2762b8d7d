/*
 * session.c - beside a command in a workload: hands its input and output on, sees its end, and leaves nothing of it
 * behind. A session is over when its command has ended, when the agent asks for it or dies, when its terminal is
 * gone, or when the workload has ended, whichever is first.
 */
#define _GNU_SOURCE
#include "session.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

/* Between a hangup and SIGKILL: editors save their files. */
#define GRACE_NS NS_PER_SEC
/* How often, and for how long, it is looked whether all that was killed is gone. */
#define LOOK_MS 5
#define PATIENCE_NS (10 * NS_PER_SEC)
/* A command that was killed may have been killed with its workload. */
#define END_TOGETHER_MS 100
/* What the command wrote last is worth this wait when its workload has ended; the agent wants to clean up. */
#define DRAIN_NS NS_PER_SEC

static const char *const stage_names[ENTER_STAGE_COUNT] = {
	[ENTER_NONE] = "none",
	[ENTER_SETUP] = "setup",
	[ENTER_IDENTITY] = "identity",
	[ENTER_CGROUP] = "cgroup",
	[ENTER_OOM_SCORE_ADJ] = "oom_score_adj",
	[ENTER_SESSION] = "session",
	[ENTER_TTY] = "tty",
	[ENTER_STDIO] = "stdio",
	[ENTER_LIMITS] = "limits",
	[ENTER_NAMESPACES] = "namespaces",
	[ENTER_ROOT] = "root",
	[ENTER_USER] = "user",
	[ENTER_ISOLATION] = "isolation",
	[ENTER_CHDIR] = "chdir",
	[ENTER_EXEC] = "exec",
};

void session_tell(const struct session *s, enum enter_stage stage, int errnum) {
	char buf[512];
	struct text t = { .at = buf, .cap = sizeof buf };
	text_add(&t, "holdfast_session=1\n");
	if (stage != ENTER_NONE)
		text_add(&t, "result=failed\nstage=%s\nerrno=%d\n", stage_names[stage], errnum);
	else if (WIFSIGNALED(s->status))
		text_add(&t, "result=signaled\nsignal=%d\n", WTERMSIG(s->status));
	else
		text_add(&t, "result=exited\ncode=%d\n", WEXITSTATUS(s->status));
	if (s->end == END_TASK)
		text_add(&t, "ended_by=task\n");
	if (s->result >= 0)
		(void) write_full(s->result, t.at, t.len);
}

/* False also when there is no group. */
static bool group_has_members(const struct session *s) {
	char path[4096 + 32], buf[256];
	uint64_t populated = 0;
	if (!*s->cgroup)
		return false;
	(void) format_text(path, sizeof path, "%s/cgroup.events", s->cgroup);
	return read_file_at(-1, path, buf, sizeof buf) > 0 &&
	       find_number(buf, "populated", ' ', &populated) == 0 && populated != 0;
}

static void kill_all(struct session *s) {
	char path[4096 + 32];
	if (*s->cgroup) {
		(void) format_text(path, sizeof path, "%s/cgroup.kill", s->cgroup);
		(void) write_file(path, "1");
	}
	/* Also where there is no group, and for what has left it: whoever descends from us. */
	(void) signal_tree(s->x, SIGKILL);
}

static void reap_all(struct session *s) {
	int status;
	pid_t pid;
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid != s->child)
			continue;
		s->ended = true;
		s->status = status;
	}
}

/* Ends what the command has left, in rounds: what is killed may have forked just before. */
static void end_rest(struct session *s) {
	uint64_t until = mono_ns() + PATIENCE_NS;
	for (;;) {
		reap_all(s);
		if ((no_children() && !group_has_members(s)) || mono_ns() > until)
			break;
		kill_all(s);
		(void) poll(NULL, 0, LOOK_MS);
	}
	for (int tries = 0; *s->cgroup && rmdir(s->cgroup) < 0 && errno == EBUSY && tries < 100; tries++)
		(void) poll(NULL, 0, LOOK_MS);
}

/* Asks for the end: politely first, unless the workload itself is gone. */
static void ask_end(struct session *s, enum session_end why, uint64_t grace_ns) {
	uint64_t at = mono_ns() + grace_ns;
	if (s->kill_at_ns == 0 || at < s->kill_at_ns)
		s->kill_at_ns = at;
	if (s->end != END_NOT)
		return;
	s->end = why;
	if (s->ended || grace_ns == 0)
		return;
	/* It is our child and not reaped: neither number can be anybody else's. */
	static const int signals[] = { SIGHUP, SIGCONT };
	for (size_t i = 0; i < ARRAY_LEN(signals); i++) {
		if (kill(-s->child, signals[i]) < 0)
			(void) kill(s->child, signals[i]);
	}
}

static void close_relay(struct relay *r) {
	close_fd(&r->from);
	close_fd(&r->to);
	r->at = r->len = 0;
}

/* Moves what it can. False when the far end takes no more, for good. */
static bool relay_step(struct relay *r) {
	for (;;) {
		while (r->at < r->len) {
			ssize_t n = write(r->to, r->buf + r->at, r->len - r->at);
			if (n < 0 && errno == EINTR)
				continue;
			if (n < 0 && errno == EAGAIN)
				return true;
			if (n < 0) {
				close_relay(r);
				return false;
			}
			r->at += (size_t) n;
		}
		r->at = r->len = 0;
		ssize_t n = read(r->from, r->buf, sizeof r->buf);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return true;
		if (n <= 0) {
			close_relay(r);
			return true;
		}
		r->len = (size_t) n;
	}
}

static bool is_open(const struct relay *r) {
	return r->from >= 0;
}

static void read_report(struct session *s) {
	struct enter_report rep;
	ssize_t n = read(s->report, &rep, sizeof rep);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n == (ssize_t) sizeof rep && rep.stage > 0 && rep.stage < ENTER_STAGE_COUNT)
		s->failure = rep;
	else
		s->started = true;
	close_fd(&s->report);
}

static void read_signals(struct session *s) {
	struct signalfd_siginfo info;
	while (read(s->signals, &info, sizeof info) == (ssize_t) sizeof info) {
		if (info.ssi_signo == SIGTERM)
			ask_end(s, END_ASKED, GRACE_NS);
		if (info.ssi_signo == SIGUSR1)
			s->taken = true;
	}
	reap_all(s);
}

/* Until what does not end by itself is killed, or until what was written is not waited for any more. */
static int wait_ms(const struct session *s) {
	uint64_t now = mono_ns(), at = s->ended ? s->drain_until_ns : s->kill_at_ns;
	if (at == 0)
		return -1;
	return now >= at ? 0 : (int) ((at - now) / NS_PER_MS) + 1;
}

/*
 * Says in the terminal itself that nothing follows. Whoever reads it must have read all before that: when the last
 * holder of a terminal lets go, what is still in it may be lost.
 */
static void write_marker(struct session *s) {
	ssize_t n = write(0, s->marker, strlen(s->marker));
	if (n > 0)
		s->marker += n;
	if (n < 0 && errno != EAGAIN && errno != EINTR)
		s->taken = true; /* Nobody can be told. */
	if (s->taken || !*s->marker)
		s->marker = NULL;
}

/* One wait, and what came of it. */
static void turn(struct session *s) {
	enum { SIGNALS, REPORT, LEADER, TERMINAL, FIXED };
	struct pollfd at[FIXED + RELAYS] = {
		[SIGNALS] = { .fd = s->signals, .events = POLLIN },
		[REPORT] = { .fd = s->report, .events = POLLIN },
		[LEADER] = { .fd = s->end == END_NOT ? s->leader.pidfd : -1, .events = POLLIN },
		/* A terminal whose other end is gone hangs up; nothing of it is read here. */
		[TERMINAL] = { .fd = s->tty && s->end != END_TERMINAL ? 0 : -1, .events = s->marker ? POLLOUT : 0 },
	};
	for (size_t i = 0; i < RELAYS; i++) {
		const struct relay *r = &s->relays[i];
		bool full = r->at < r->len;
		at[FIXED + i] = (struct pollfd){ .fd = full ? r->to : r->from, .events = full ? POLLOUT : POLLIN };
	}
	if (poll(at, ARRAY_LEN(at), wait_ms(s)) < 0)
		return;
	if (at[SIGNALS].revents)
		read_signals(s);
	if (at[REPORT].revents)
		read_report(s);
	if (at[LEADER].revents)
		ask_end(s, END_TASK, 0);
	if (at[TERMINAL].revents & (POLLHUP | POLLERR)) {
		ask_end(s, END_TERMINAL, GRACE_NS);
		s->end = END_TERMINAL;
	} else if (at[TERMINAL].revents & POLLOUT) {
		write_marker(s);
	}
	for (size_t i = 0; i < RELAYS; i++) {
		/* Output that nobody takes any more: whoever asked for the command has gone. */
		if (at[FIXED + i].revents && !relay_step(&s->relays[i]) && i > 0)
			ask_end(s, END_ASKED, GRACE_NS);
	}
	if (s->kill_at_ns != 0 && !s->ended && mono_ns() >= s->kill_at_ns) {
		kill_all(s);
		s->kill_at_ns = mono_ns() + LOOK_MS * NS_PER_MS;
	}
}

static bool is_drained(const struct session *s) {
	return s->tty ? s->taken : !is_open(&s->relays[1]) && !is_open(&s->relays[2]);
}

/* The reader takes what is left at its own pace, unless it has gone; a workload that has ended waits only a little. */
static void drain(struct session *s) {
	static char marker[96];
	close_relay(&s->relays[0]);
	for (size_t i = 1; i < RELAYS; i++) {
		if (is_open(&s->relays[i]))
			(void) relay_step(&s->relays[i]);
	}
	if (s->tty) {
		(void) format_text(marker, sizeof marker, "\033]holdfast;%s\007", s->id);
		s->marker = marker;
		/* It may have been stopped by Ctrl-S. */
		(void) tcflow(0, TCOON);
		(void) fcntl(0, F_SETFL, O_RDWR | O_NONBLOCK);
	}
	if (s->end == END_TASK)
		s->drain_until_ns = mono_ns() + DRAIN_NS;
	while ((s->end == END_NOT || s->end == END_TASK) && !is_drained(s) &&
	       (s->drain_until_ns == 0 || mono_ns() < s->drain_until_ns))
		turn(s);
}

int session_run(struct session *s) {
	while (!s->ended)
		turn(s);
	while (s->report >= 0 && !s->started && s->failure.stage == 0)
		read_report(s);
	end_rest(s);
	/* One SIGKILL for the whole cgroup ends both, and ours may be seen first. */
	struct pollfd leader = { .fd = s->leader.pidfd, .events = POLLIN };
	if (s->end == END_NOT && WIFSIGNALED(s->status) && poll(&leader, 1, END_TOGETHER_MS) > 0)
		s->end = END_TASK;
	close_fd(&s->leader.pidfd);
	drain(s);
	if (s->failure.stage != 0) {
		session_tell(s, (enum enter_stage) s->failure.stage, s->failure.errnum);
		return 127;
	}
	session_tell(s, ENTER_NONE, 0);
	if (WIFSIGNALED(s->status)) {
		/* So that whoever waits for us sees the same end. */
		(void) setrlimit(RLIMIT_CORE, &(struct rlimit){ 0 });
		reset_signals();
		(void) raise(WTERMSIG(s->status));
	}
	return WIFSIGNALED(s->status) ? 128 + WTERMSIG(s->status) : WEXITSTATUS(s->status);
}
