/*
 * reap.c - who ended, and how. As a sub-reaper the executor gets every orphan of the tree; only the leader's
 * end counts. An adopted leader is somebody else's child: its pidfd says that it ended, and the kernel mostly
 * says how.
 */
#define _GNU_SOURCE
#include "executor.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* A fork bomb's orphans must not keep the loop from its other work. */
#define REAP_AT_ONCE 256
/*
 * Its status could not be read while it was dead: how long to wait for it to be reaped before it is called
 * unknown.
 */
#define INFO_PATIENCE_NS (2 * NS_PER_SEC)

/*
 * PIDFD_GET_INFO, Linux 6.13; the exit status in it, 6.15. Newer than the headers of the distributions we
 * build on.
 */
struct pidfd_exit_info {
	uint64_t mask, cgroupid;
	uint32_t pid, tgid, ppid, ids[8];
	int32_t exit_code;
};
_Static_assert(sizeof(struct pidfd_exit_info) == 64, "the first published size of struct pidfd_info");
#define GET_INFO _IOWR(0xFF, 11, struct pidfd_exit_info)
#define INFO_EXIT (UINT64_C(1) << 3)

static void take_status(struct executor *x, int code, int status) {
	struct outcome *o = &x->outcome;
	if (code == CLD_EXITED) {
		o->result = RESULT_EXITED;
		o->code = status;
	} else {
		o->result = RESULT_SIGNALED;
		o->signal = status;
		o->core = code == CLD_DUMPED;
	}
}

static void leader_ended(struct executor *x) {
	x->leader.ended = true;
	x->leader.ended_at_ns = wall_ns();
	x->leader.ended_mono_ns = mono_ns();
}

static void count_oom_kills(struct executor *x) {
	x->oom_kills = read_oom_kills(x) - x->oom_kills_before;
}

/* By evidence only: a SIGKILL that did not come from here. */
static bool was_killed(const struct executor *x) {
	return x->outcome.result == RESULT_SIGNALED && x->outcome.signal == SIGKILL && !x->leader.killed_by_us;
}

/* And the kernel had counted an OOM kill in the cgroup when the leader ended. */
static void judge_oom(struct executor *x) {
	x->leader_oom = was_killed(x) && x->oom_kills > 0;
}

static void child_leader_ended(struct executor *x, const siginfo_t *info) {
	close_fd(&x->leader.pidfd);
	if (x->spawn.again) {
		x->leader.pid = 0;
		return;
	}
	leader_ended(x);
	if (x->outcome.result == RESULT_START_FAILED)
		return;
	take_status(x, info->si_code, info->si_status);
	/* Most ends have nothing to do with it. */
	if (was_killed(x))
		count_oom_kills(x);
	judge_oom(x);
}

void reap(struct executor *x) {
	x->more_to_reap = false;
	for (int i = 0; i < REAP_AT_ONCE; i++) {
		siginfo_t info;
		memset(&info, 0, sizeof info);
		if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid == 0)
			return;
		/* What the child still said about its start is read while /proc still shows what it was. */
		if (info.si_pid == x->leader.pid || info.si_pid == x->spawn.pid || x->spawn.maker != 0)
			spawn_report(x);
		if (info.si_pid == x->leader.pid)
			spawn_note_death(x);
		if (waitid(P_PID, (id_t) info.si_pid, &info, WEXITED | WNOHANG) < 0)
			return;
		if (info.si_pid == x->spawn.maker)
			x->spawn.maker = 0;
		else if (info.si_pid == x->spawn.pid)
			spawn_lost(x);
		else if (info.si_pid == x->init.pid)
			x->init.pid = 0;
		else if (info.si_pid == x->leader.pid && !x->leader.ended) {
			child_leader_ended(x, &info);
		} else if (x->leader.ended && x->killing.on && info.si_code != CLD_EXITED &&
			   info.si_status == SIGKILL) {
			x->killing.reaped++;
		}
	}
	x->more_to_reap = true;
}

static void take_wait_status(struct executor *x, int status, const char *how) {
	if (WIFEXITED(status))
		take_status(x, CLD_EXITED, WEXITSTATUS(status));
	else
		take_status(x, WCOREDUMP(status) ? CLD_DUMPED : CLD_KILLED, WTERMSIG(status));
	x->outcome.how = how;
	judge_oom(x);
}

/* After it was reaped, newer kernels still know by its pidfd how it ended. */
static bool ask_exit_info(struct executor *x) {
	struct pidfd_exit_info info = { .mask = INFO_EXIT };
	if (ioctl(x->leader.pidfd, GET_INFO, &info) < 0 || !(info.mask & INFO_EXIT))
		return false;
	take_wait_status(x, info.exit_code, "pidfd_info");
	return true;
}

/*
 * While it is dead and not yet reaped, its line in /proc ends with its status: for those who may trace it,
 * and with 0 for all others. Who may trace it may also try to read its `exe`, and finds that the dead have
 * none.
 */
static bool ask_proc(struct executor *x) {
	char path[32], link[8];
	struct proc_stat stat;
	(void) format_text(path, sizeof path, "/proc/%d/exe", x->leader.pid);
	if (readlink(path, link, sizeof link) >= 0 || errno != ENOENT)
		return false;
	/* Looked at last: that it is still the leader now says that it was the leader above. */
	if (proc_stat_read(x->leader.pid, &stat) < 0 || stat.state != 'Z' ||
	    stat.start_ticks != x->leader.start_ticks)
		return false;
	if (x->adopted_before_exec && is_before_exec(&stat))
		return false; /* It never got as far as exec, or is one of us: not known to be the task. */
	take_wait_status(x, stat.exit_status, "proc_stat");
	return true;
}

void adopted_leader_event(struct executor *x, uint32_t events) {
	if (!x->leader.ended) {
		leader_ended(x);
		/* Now: how it ended may only be known once more of the tree was killed. */
		count_oom_kills(x);
		x->info_deadline_ns = x->leader.ended_mono_ns + INFO_PATIENCE_NS;
		/* Now only its being reaped is of interest; being dead it would stay readable for ever. */
		(void) change_watch(x, x->leader.pidfd, 0, SOURCE_LEADER, 0);
	}
	/*
	 * Taken over before its exec was seen, it may never have been the task; the pidfd does not tell that.
	 */
	if (ask_proc(x) || x->adopted_before_exec || ask_exit_info(x) || events & EPOLLHUP) {
		close_watched(x, &x->leader.pidfd);
		x->info_deadline_ns = 0;
	}
}
