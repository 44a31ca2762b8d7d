/*
 * isolate.c - see isolate.h.
 *
 *   executor ── maker        joins the cgroup, enters the namespaces, makes the other two, says so and leaves
 *      ├─────── init         process 1 of the pid namespace: makes the root, then only adopts and reaps
 *      └─────── leader       process 2: the task
 *
 * Both are children of the executor (CLONE_PARENT), so that the leader's true end is seen by wait() as without
 * a pid namespace, and the task is an ordinary process, on which SIGTERM does what it always does: the kernel
 * keeps signals without a handler from a process 1.
 */
#define _GNU_SOURCE
#include "isolate.h"
#include "rootfs.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* The leader's number in its namespace: the second process that is made there. */
#define LEADER_PID 2
/* One page of /proc/self/uid_map holds far more than our one line. */
#define MAP_CAP 64

pid_t fork_sibling(void) {
	/* Without a stack of its own it goes on here, as after fork. The order of the other, zero, arguments is
	 * the machine's. */
	long pid = syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0L, 0L, 0L, 0L);
	return pid < 0 ? -errno : (pid_t) pid;
}

static int write_map(const char *path, unsigned int id) {
	char map[MAP_CAP];
	(void) format_text(map, sizeof map, "%u %u 1", id, id);
	return write_file(path, map);
}

/*
 * A user namespace in which everybody is who they were: files keep their owners, and nothing in the task
 * believes to be root. It only lends the capabilities to make the other namespaces.
 */
static int enter_user_namespace(void) {
	unsigned int uid = geteuid(), gid = getegid();
	if (unshare(CLONE_NEWUSER) < 0)
		return -errno;
	/* New credentials made us undumpable, and then our files in /proc are root's. */
	(void) prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
	int r = write_file("/proc/self/setgroups", "deny");
	if (r == 0)
		r = write_map("/proc/self/uid_map", uid);
	return r < 0 ? r : write_map("/proc/self/gid_map", gid);
}

/* A new network namespace has a loopback that is down. */
static int raise_loopback(void) {
	AUTO_FD fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq lo = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	return fd < 0 || ioctl(fd, SIOCSIFFLAGS, &lo) < 0 ? -errno : 0;
}

int namespaces_enter(struct child *c, const struct identity *id, enum stage *ret_stage) {
	static const struct {
		int bit, flag;
		const char *name;
	} kinds[] = {
		{ ISOLATE_MOUNTS, CLONE_NEWNS, "mount" },      { ISOLATE_PID, CLONE_NEWPID, "pid" },
		{ ISOLATE_IPC, CLONE_NEWIPC, "ipc" },          { ISOLATE_UTS, CLONE_NEWUTS, "uts" },
		{ ISOLATE_CGROUP, CLONE_NEWCGROUP, "cgroup" }, { ISOLATE_NET, CLONE_NEWNET, "net" },
	};
	const int64_t wanted = c->x->spec.isolate;
	(void) id;
	*ret_stage = STAGE_USER_NAMESPACE;
	int r = wanted & ISOLATE_USER ? enter_user_namespace() : 0;
	if (r < 0)
		return r;
	*ret_stage = STAGE_NAMESPACES;
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		if (!(wanted & kinds[i].bit))
			continue;
		(void) format_text(c->detail, sizeof c->detail, "%s", kinds[i].name);
		if (unshare(kinds[i].flag) < 0)
			return -errno;
	}
	c->detail[0] = '\0';
	*ret_stage = STAGE_NETWORK;
	return wanted & ISOLATE_NET ? raise_loopback() : 0;
}

/* Nothing of the executor's stays open in it, and above all not the task's output, which would never end. */
static int hold_only(void) {
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int fd = 0; fd < 3; fd++) {
		if (null < 0 || dup2(null, fd) < 0)
			return -errno;
	}
	close_from(FIRST_FREE_FD);
	return 0;
}

/* True once the leader and everything it left are gone. */
static bool all_gone(bool leader_ended) {
	for (;;) {
		siginfo_t info = { 0 };
		if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG) < 0)
			return leader_ended && errno == ECHILD;
		if (info.si_pid == 0)
			return false;
	}
}

_Noreturn static void reap_for_ever(void) {
	sigset_t child;
	(void) sigemptyset(&child);
	(void) sigaddset(&child, SIGCHLD);
	struct pollfd on[] = {
		{ .fd = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK), .events = POLLIN },
		{ .fd = pidfd_of(LEADER_PID), .events = POLLIN },
	};
	/* The leader may be over already. */
	bool leader_ended = on[1].fd < 0;
	while (!all_gone(leader_ended)) {
		struct signalfd_siginfo ignored;
		(void) poll(on, ARRAY_LEN(on), -1);
		while (read(on[0].fd, &ignored, sizeof ignored) > 0) {
		}
		if (!leader_ended && on[1].revents != 0) {
			leader_ended = true;
			close_fd(&on[1].fd);
		}
	}
	_exit(0);
}

_Noreturn void init_main(struct child *c, const struct identity *id, int built) {
	char byte;
	ssize_t n;
	enum stage stage = STAGE_INIT;
	/* The capacity of a name is 15 bytes. By its title it must not be taken for an executor. */
	(void) prctl(PR_SET_NAME, "holdfast-init", 0, 0, 0);
	memset(c->x->title, 0, c->x->title_cap);
	(void) format_text(c->x->title, c->x->title_cap, "holdfast-init");
	int r = c->x->spec.isolate & ISOLATE_MOUNTS ? rootfs_enter(c, id, &stage) : 0;
	if (r < 0)
		child_failed(c, stage, r);
	if (write(built, "", 1) != 1)
		_exit(126); /* The maker is dead: there will be no task. */
	if ((r = hold_only()) < 0)
		child_failed(c, STAGE_INIT, r);
	(void) close(REPORT_FD);
	(void) close(DIR_FD);
	/* It does nothing for the task but wait: nothing of it may be of use to the task. */
	(void) prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	(void) prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	(void) capabilities_give_up();
	/* All that is in the namespace dies with this one. Until the gate is open its end says the same. */
	if (c->x->spec.on_death == ON_DEATH_KILL)
		(void) prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	do {
		n = read(GATE_FD, &byte, 1);
	} while (n < 0 && errno == EINTR);
	if (n != 1)
		_exit(125); /* The executor died, or the start failed: there is no task. */
	(void) close(GATE_FD);
	/* It has as much to do as the task makes for it, and is in its cgroup. */
	set_slice(SLICE_USUAL);
	reap_for_ever();
}

int probe(bool in_user_namespace) {
	const char *what = "a user namespace";
	int r = in_user_namespace ? enter_user_namespace() : 0;
	if (r == 0) {
		what = "namespaces for mounts, processes and names";
		if (unshare(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP) < 0)
			r = -errno;
	}
	if (r == 0) {
		what = "a private tree of mounts";
		r = mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ? -errno : 0;
	}
	if (r < 0)
		say("holdfast-executor: cannot have %s: %s\n", what, strerror(-r));
	return r < 0 ? 1 : 0;
}
