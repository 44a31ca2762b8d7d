/*
 * die-at-step.c - ends a program at any of its instructions.
 *
 *   die-at-step READS STEPS PROGRAM...
 *
 * Runs PROGRAM and all that it forks. When the second thread of one of them has come back from so many calls of read, it goes on for so
 * many instructions, a call counted as one; then its process is killed. Exits when that is gone: with 0, or 1 when it did not come to that.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define FOLLOW (PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE)

static void go_on(int request, pid_t tid, int signal) {
	(void) ptrace((enum __ptrace_request) request, tid, NULL, (void *) (long) signal);
}

/* Of which process a thread is. */
static pid_t process_of(pid_t tid) {
	char path[64], line[128];
	int pid = 0;
	(void) snprintf(path, sizeof path, "/proc/%d/status", tid);
	FILE *file = fopen(path, "re");
	while (file && fgets(line, sizeof line, file) && sscanf(line, "Tgid: %d", &pid) != 1)
		;
	if (file)
		(void) fclose(file);
	return pid;
}

/* Has it just come back from a read? */
static bool is_after_read(pid_t tid) {
	static long call;
	struct __ptrace_syscall_info info = { .op = PTRACE_SYSCALL_INFO_NONE };
	(void) ptrace(PTRACE_GET_SYSCALL_INFO, tid, sizeof info, &info);
	if (info.op == PTRACE_SYSCALL_INFO_ENTRY)
		call = (long) info.entry.nr;
	return info.op == PTRACE_SYSCALL_INFO_EXIT && call == SYS_read;
}

/* Goes on until a second thread has read so often. Returns that thread, or 0. */
static pid_t await_reads(long reads) {
	int status;
	for (pid_t tid; (tid = waitpid(-1, &status, __WALL)) > 0;) {
		if (!WIFSTOPPED(status))
			continue;
		int signal = WSTOPSIG(status);
		bool is_call = signal == (SIGTRAP | 0x80);
		if (is_call && process_of(tid) != tid && is_after_read(tid) && --reads == 0)
			return tid;
		/* What is followed begins with a stop, and tells of others with a trap. */
		go_on(PTRACE_SYSCALL, tid, is_call || signal == SIGTRAP || signal == SIGSTOP ? 0 : signal);
	}
	return 0;
}

static bool is_ours(pid_t tid, int status, pid_t of) {
	return tid == of && (WIFEXITED(status) || WIFSIGNALED(status));
}

int main(int argc, char **argv) {
	int status;
	if (argc < 4)
		return 64;
	pid_t pid = fork();
	if (pid == 0) {
		(void) ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		(void) raise(SIGSTOP);
		(void) execv(argv[3], argv + 3);
		_exit(127);
	}
	if (waitpid(pid, &status, 0) != pid || ptrace(PTRACE_SETOPTIONS, pid, NULL, (void *) FOLLOW) < 0)
		return 2;
	go_on(PTRACE_SYSCALL, pid, 0);
	pid_t thread = await_reads(atol(argv[1]));
	if (thread == 0)
		return 1;
	pid_t process = process_of(thread);
	for (long left = atol(argv[2]); left > 0; left--) {
		go_on(PTRACE_SINGLESTEP, thread, 0);
		if (waitpid(thread, &status, __WALL) != thread || !WIFSTOPPED(status))
			return 3;
	}
	(void) kill(process, SIGKILL);
	for (pid_t tid; (tid = waitpid(-1, &status, __WALL)) > 0 && !is_ours(tid, status, process);) {
		if (WIFSTOPPED(status))
			go_on(PTRACE_DETACH, tid, 0);
	}
	return 0;
}
