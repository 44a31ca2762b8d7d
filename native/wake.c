/*
 * wake.c - two words to an executor that does not answer on its socket. It is known by its pid and start time, as the
 * status file has them, and reached through a pidfd: a signal to a stranger is impossible.
 *
 *   wake     goes on when it was stopped (SIGSTOP is the one thing it cannot refuse), and sees to its socket
 *   unseat   is killed, so that another one can take over; what it supervises is not touched
 */
#define _GNU_SOURCE
#include "wake.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* A pidfd of the executor that the run has on record, or -errno. */
static int executor_of(const char *run_dir) {
	char status[STATUS_CAP];
	uint64_t pid = 0, start = 0;
	struct proc_stat stat;
	AUTO_FD dir = open(run_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return -errno;
	ssize_t n = read_file_at(dir, "status", status, sizeof status);
	if (n < 0)
		return (int) n;
	if (find_number(status, "executor_pid", '=', &pid) < 0 || pid < 2 || pid > INT32_MAX ||
	    find_number(status, "executor_start", '=', &start) < 0)
		return -ESRCH;
	int fd = pidfd_of((pid_t) pid);
	if (fd < 0)
		return fd;
	/* Looked at after the pidfd was opened: from here on the pidfd is this executor or nobody. */
	if (proc_stat_read((pid_t) pid, &stat) == 0 && stat.start_ticks == start && stat.state != 'Z' &&
	    stat.state != 'X' && strcmp(stat.comm, EXECUTOR_COMM) == 0)
		return fd;
	(void) close(fd);
	return -ESRCH;
}

static int tell_why(const char *what, int error) {
	say("holdfast-executor: %s: %s\n", what, strerror(-error));
	return error == -ESRCH || error == -ENOENT ? TOLD_NOT_THERE : TOLD_NO_SETUP;
}

int wake(const char *run_dir) {
	AUTO_FD executor = executor_of(run_dir);
	if (executor < 0)
		return tell_why("no executor to wake", executor);
	int r = pidfd_signal(executor, SIGCONT);
	if (r == 0)
		r = pidfd_signal(executor, WAKE_SIGNAL);
	return r < 0 ? tell_why("cannot wake the executor", r) : TOLD_OK;
}

int unseat(const char *run_dir) {
	AUTO_FD executor = executor_of(run_dir);
	if (executor < 0)
		return tell_why("no executor to unseat", executor);
	int r = pidfd_signal(executor, SIGKILL);
	return r < 0 ? tell_why("cannot unseat the executor", r) : TOLD_OK;
}
