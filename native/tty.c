/*
 * tty.c - see tty.h.
 *
 *   holder      leads the session, holds the terminal's other end, hands what comes on to the FIFO `stdout`
 *     executor  its child, and so in the session until the task is; holds the task's end too, so that nothing is cut
 *       task    a process group of its own, in the foreground
 *
 * The kernel throws away what is still in a terminal when the leader of its session ends: so that is not the task.
 * The holder is above the executor, not below: it is no part of the task's tree or cgroup, and nothing kills it with
 * either. Executors find it by the status file.
 */
#define _GNU_SOURCE
#include "tty.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

/* How an executor asks the holder to come to an end. */
#define FINISH SIGUSR1
/* What a terminal hands over in one piece; no more than PIPE_BUF, so that it goes into the FIFO in one piece too. */
#define PIECE 4096U
/* What is left in a terminal is a few KiB: a holder that has not handed it on by then cannot. */
#define FINISH_NS (10 * NS_PER_SEC)
#define LOOK_MS 1000
/* Made by a holder that has handed on all there was. Without it something may be missing from the log. */
#define DRAINED "tty"

static int open_terminal(const struct spec *spec, int *ret_master, int *ret_slave) {
	AUTO_FD master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	struct winsize size = { .ws_row = (unsigned short) spec->tty_rows, .ws_col = (unsigned short) spec->tty_columns };
	struct termios mode;
	if (master < 0 || grantpt(master) < 0 || unlockpt(master) < 0)
		return -errno;
	AUTO_FD slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (slave < 0 || tcgetattr(slave, &mode) < 0)
		return -errno;
	/* A line ends in the log as the task has written it: no carriage return is put before it. */
	mode.c_oflag &= ~(tcflag_t) ONLCR;
	if (tcsetattr(slave, TCSANOW, &mode) < 0 || ioctl(slave, TIOCSWINSZ, &size) < 0 || ioctl(slave, TIOCSCTTY, 0) < 0)
		return -errno;
	*ret_master = master;
	*ret_slave = slave;
	master = slave = -1;
	return 0;
}

bool terminal_make(struct executor *x) {
	struct terminal *t = &x->terminal;
	int master = -1, slave = -1, ready[2] = { -1, -1 };
	if (x->spec.tty_columns <= 0)
		return false;
	int r = getsid(0) != getpid() && setsid() < 0 ? -errno : open_terminal(&x->spec, &master, &slave);
	if (r == 0 && pipe2(ready, O_CLOEXEC) < 0)
		r = -errno;
	/* The task may be over, and the holder asked for its end, before it has come to its loop. The executor sets a mask of its own. */
	sigset_t finish;
	(void) sigemptyset(&finish);
	(void) sigaddset(&finish, FINISH);
	(void) sigprocmask(SIG_BLOCK, &finish, NULL);
	pid_t executor = r < 0 ? -1 : fork();
	if (r == 0 && executor < 0)
		r = -errno;
	if (executor > 0) {
		/* Above all the lock must not stay held by the holder, nor the foreground process wait for it. */
		close_fd(&x->lock);
		close_fd(&x->told);
		close_fd(&x->release);
		close_fd(&slave);
		close_fd(&ready[1]);
		t->master = master;
		t->ready = ready[0];
		return true;
	}
	close_fd(&master);
	close_fd(&ready[0]);
	t->slave = slave;
	t->ready = ready[1];
	t->error = r;
	if (r == 0) {
		t->pid = getppid();
		terminal_adopt(x);
		/* The number is its own only as long as it is our parent. */
		if (t->pidfd < 0 || getppid() != t->pid)
			t->error = -ESRCH;
	}
	return false;
}

int terminal_ready(struct executor *x) {
	struct terminal *t = &x->terminal;
	if (x->spec.tty_columns <= 0)
		return 0;
	if (t->error < 0)
		return t->error;
	int r = write_full(t->ready, "", 1);
	close_fd(&t->ready);
	return r < 0 ? r : watch(x, t->pidfd, EPOLLIN, SOURCE_TERMINAL, 0);
}

void terminal_adopt(struct executor *x) {
	struct terminal *t = &x->terminal;
	struct proc_stat stat;
	t->pidfd = pidfd_of(t->pid);
	if (t->pidfd < 0 || proc_stat_read(t->pid, &stat) < 0 ||
	    (t->start_ticks != 0 && stat.start_ticks != t->start_ticks)) {
		close_fd(&t->pidfd);
		return;
	}
	t->start_ticks = stat.start_ticks;
}

void terminal_ended(struct executor *x) {
	struct terminal *t = &x->terminal;
	if (!is_there(x->dir, DRAINED))
		x->logs.streams[0].lost = true;
	close_watched(x, &t->pidfd);
	close_fd(&t->slave);
	t->deadline_ns = 0;
}

bool terminal_finish(struct executor *x, uint64_t now) {
	struct terminal *t = &x->terminal;
	if (t->pidfd < 0)
		return true;
	if (!t->finishing) {
		t->finishing = true;
		t->deadline_ns = now + FINISH_NS;
		(void) pidfd_signal(t->pidfd, FINISH);
		return false;
	}
	if (now < t->deadline_ns)
		return false;
	(void) pidfd_signal(t->pidfd, SIGKILL);
	terminal_ended(x);
	return true;
}

/* What the holder is in the middle of. */
struct holder {
	int master, fifo, signals;
	bool finishing;
	size_t at, len;
	uint8_t buf[PIECE];
};

/* Nothing ends it but FINISH, the end of the terminal, and SIGKILL. */
static int set_signals(void) {
	struct sigaction ignore = { .sa_handler = SIG_IGN };
	sigset_t finish;
	for (int n = 1; n <= SIGRTMAX; n++) {
		if (n != SIGSEGV && n != SIGBUS && n != SIGFPE && n != SIGILL && n != SIGABRT && n != FINISH)
			(void) sigaction(n, &ignore, NULL);
	}
	(void) sigemptyset(&finish);
	(void) sigaddset(&finish, FINISH);
	if (sigprocmask(SIG_SETMASK, &finish, NULL) < 0)
		return -errno;
	int fd = signalfd(-1, &finish, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

/* False when the executor has died, or its start failed, before there was a task. */
static bool wait_for_fifos(struct executor *x) {
	char byte;
	ssize_t n;
	do {
		n = read(x->terminal.ready, &byte, 1);
	} while (n < 0 && errno == EINTR);
	close_fd(&x->terminal.ready);
	return n == 1;
}

static void hand_on(struct holder *h) {
	ssize_t n = h->fifo < 0 ? (ssize_t) (h->len - h->at) : write(h->fifo, h->buf + h->at, h->len - h->at);
	if (n > 0)
		h->at += (size_t) n;
	if (h->at == h->len)
		h->at = h->len = 0;
}

/* True when there is nothing more to come: its end was reached, or asked for and nothing is there. */
static bool take_in(struct holder *h) {
	ssize_t n = read(h->master, h->buf, sizeof h->buf);
	if (n > 0) {
		h->len = (size_t) n;
		hand_on(h);
		return false;
	}
	return n < 0 && (errno == EAGAIN || errno == EINTR) ? h->finishing : true;
}

static bool is_hung_up(const struct holder *h) {
	struct pollfd end = { .fd = h->master };
	return poll(&end, 1, 0) > 0 && end.revents & POLLHUP;
}

/* True when all was handed on. */
static bool relay(struct holder *h) {
	uint64_t stuck_ns = 0;
	for (;;) {
		bool full = h->at < h->len;
		struct pollfd on[] = {
			{ .fd = full ? h->fifo : h->master, .events = full ? POLLOUT : POLLIN },
			{ .fd = h->finishing ? -1 : h->signals, .events = POLLIN },
		};
		/* Asked for the end, nothing is waited for but room in the FIFO. */
		int n = h->finishing && !full ? 1 : poll(on, ARRAY_LEN(on), full ? LOOK_MS : -1);
		if (n < 0)
			continue;
		if (on[1].revents)
			h->finishing = true;
		if (full && on[0].revents) {
			hand_on(h);
			stuck_ns = 0;
		} else if (full) {
			/* The task is over and no executor takes its last words: nobody ever will. */
			stuck_ns = stuck_ns == 0 ? mono_ns() : stuck_ns;
			if (mono_ns() - stuck_ns > 2 * FINISH_NS && (h->finishing || is_hung_up(h)))
				return false;
		} else if ((on[0].revents || h->finishing) && take_in(h)) {
			return true;
		}
	}
}

_Noreturn void terminal_hold(struct executor *x) {
	/* Set here, not by an initialiser: that would put its buffer into the program file. */
	static struct holder h;
	h.fifo = -1;
	(void) write_file("/proc/self/oom_score_adj", "-1000");
	(void) prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	(void) prctl(PR_SET_NAME, "holdfast-tty", 0, 0, 0);
	(void) join_self_procs(x);
	/* It has as much to do as the task makes for it. */
	set_slice(SLICE_USUAL);
	h.master = x->terminal.master;
	h.signals = set_signals();
	if (h.signals < 0 || chdir("/") < 0 || fcntl(h.master, F_SETFL, O_RDWR | O_NONBLOCK) < 0 || !wait_for_fifos(x))
		_exit(1);
	/*
	 * O_RDWR, as tasks have theirs: what is in them outlives an executor. Of stderr nothing is used, but a FIFO that
	 * nobody holds would look like a loss to the one that takes over.
	 */
	int flags = O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW;
	if (x->spec.log_dir) {
		h.fifo = openat(x->dir, x->logs.streams[0].name, flags);
		(void) openat(x->dir, x->logs.streams[1].name, flags);
		if (h.fifo < 0)
			_exit(1);
	}
	if (relay(&h))
		(void) openat(x->dir, DRAINED, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	_exit(0);
}
