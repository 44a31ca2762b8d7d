/*
 * world.c - the world of a running workload, for a command that is to join it: finds the workload by (boot, pid, start time),
 * and what of it is not ours; joins its cgroups, namespaces, root and limits.
 */
#define _GNU_SOURCE
#include "session.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The pid namespace first: it holds for children only, so that the one outside joins it. */
static const struct {
	const char *name;
	int flag;
} spaces[] = {
	{ "pid", CLONE_NEWPID }, { "user", CLONE_NEWUSER }, { "mnt", CLONE_NEWNS },       { "uts", CLONE_NEWUTS },
	{ "ipc", CLONE_NEWIPC }, { "net", CLONE_NEWNET },   { "cgroup", CLONE_NEWCGROUP },
};

/* Joined by the one outside, whose children are born there: the user namespace lends it the right to join the rest. */
#define OUTSIDE (CLONE_NEWPID | CLONE_NEWUSER)

int find_leader(struct session *s) {
	char status[STATUS_CAP];
	struct leader *l = &s->leader;
	struct proc_stat stat;
	uint64_t pid = 0;
	if (read_file_at(s->x->dir, "status", status, sizeof status) < 0)
		return -ESRCH;
	if (find_number(status, "pid", '=', &pid) < 0 || pid < 2 || pid > INT32_MAX ||
	    find_number(status, "pid_start", '=', &l->start_ticks) < 0)
		return -ESRCH;
	l->pid = (pid_t) pid;
	l->pidfd = pidfd_of(l->pid);
	if (l->pidfd < 0)
		return -ESRCH;
	/* Looked at after the pidfd was opened: from here on the pidfd is the workload or nobody. */
	if (proc_stat_read(l->pid, &stat) < 0 || stat.start_ticks != l->start_ticks ||
	    stat.state == 'Z' || stat.state == 'X' || is_before_exec(&stat))
		return -ESRCH;
	return 0;
}

int find_world(struct session *s) {
	char theirs[64], ours[32];
	struct stat a, b;
	for (size_t i = 0; i < ARRAY_LEN(spaces); i++) {
		(void) format_text(theirs, sizeof theirs, "/proc/%d/ns/%s", s->leader.pid, spaces[i].name);
		(void) format_text(ours, sizeof ours, "/proc/self/ns/%s", spaces[i].name);
		if (stat(ours, &a) < 0)
			continue; /* This kernel does not have it. */
		if (stat(theirs, &b) < 0)
			return -errno;
		if (a.st_ino != b.st_ino || a.st_dev != b.st_dev)
			s->spaces |= spaces[i].flag;
	}
	if (geteuid() != 0 && !(s->spaces & CLONE_NEWUSER)) {
		s->spaces = 0;
		return 0;
	}
	(void) format_text(theirs, sizeof theirs, "/proc/%d/root", s->leader.pid);
	int root = open(theirs, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0 || fstat(root, &b) < 0 || stat("/", &a) < 0)
		return -errno;
	if (a.st_ino != b.st_ino || a.st_dev != b.st_dev || s->spaces & CLONE_NEWNS)
		s->root = root;
	else
		(void) close(root);
	return 0;
}

void make_cgroup(struct session *s) {
	const char *leaf = s->x->spec.cgroup;
	int n = leaf ? format_text(s->cgroup, sizeof s->cgroup, "%s/session-%s", leaf, s->id) : -1;
	if (n <= 0 || (size_t) n >= sizeof s->cgroup || mkdir(s->cgroup, 0755) < 0)
		s->cgroup[0] = '\0';
}

static const char *group_of(const struct session *s) {
	return *s->cgroup ? s->cgroup : s->x->spec.cgroup;
}

int open_group(const struct session *s) {
	const char *group = group_of(s);
	return group ? open(group, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
}

pid_t fork_inside(struct session *s, int group) {
	struct clone_args args = { .flags = CLONE_INTO_CGROUP,
				   .exit_signal = SIGCHLD,
				   .cgroup = (unsigned int) group };
	pid_t pid = -1;
	s->inside = true;
	if (group >= 0)
		pid = (pid_t) syscall(SYS_clone3, &args, sizeof args);
	if (pid < 0) {
		s->inside = false;
		pid = fork();
	}
	return pid;
}

int join_cgroups(const struct session *s) {
	char path[4096 + 32];
	const char *group = group_of(s);
	/* Written to, this file waits for a grace period of RCU, some 10 ms. */
	if (group && !s->inside) {
		(void) format_text(path, sizeof path, "%s/cgroup.procs", group);
		int r = write_file(path, "0");
		if (r < 0)
			return r;
	}
	for (char **procs = s->x->spec.join_procs; *procs; procs++) {
		int r = write_file(*procs, "0");
		/* The task has left a group that is not there. */
		if (r < 0 && r != -ENOENT)
			return r;
	}
	return 0;
}

/* In the order of /proc/<pid>/limits. prlimit() would want CAP_SYS_RESOURCE to read those of another user. */
static const struct {
	const char *name;
	int which;
} limits[] = {
	{ "Max cpu time", RLIMIT_CPU },
	{ "Max file size", RLIMIT_FSIZE },
	{ "Max data size", RLIMIT_DATA },
	{ "Max stack size", RLIMIT_STACK },
	{ "Max core file size", RLIMIT_CORE },
	{ "Max resident set", RLIMIT_RSS },
	{ "Max processes", RLIMIT_NPROC },
	{ "Max open files", RLIMIT_NOFILE },
	{ "Max locked memory", RLIMIT_MEMLOCK },
	{ "Max address space", RLIMIT_AS },
	{ "Max file locks", RLIMIT_LOCKS },
	{ "Max pending signals", RLIMIT_SIGPENDING },
	{ "Max msgqueue size", RLIMIT_MSGQUEUE },
	{ "Max nice priority", RLIMIT_NICE },
	{ "Max realtime priority", RLIMIT_RTPRIO },
	{ "Max realtime timeout", RLIMIT_RTTIME },
};

static rlim_t limit_of(const char *text) {
	return strncmp(text, "unlimited", strlen("unlimited")) == 0 ? RLIM_INFINITY : (rlim_t) read_number(text, NULL);
}

/* What follows `name` on the line that begins with it, or NULL. The strstr of musl is more than a KiB. */
static const char *after_name(const char *text, const char *name) {
	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, name, strlen(name)) == 0)
			return line + strlen(name);
	}
	return NULL;
}

int take_limits(const struct session *s) {
	char path[32], text[4096];
	(void) format_text(path, sizeof path, "/proc/%d/limits", s->leader.pid);
	ssize_t n = read_file_at(-1, path, text, sizeof text);
	if (n < 0)
		return n == -EACCES ? 0 : (int) n;
	for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
		const char *soft = after_name(text, limits[i].name);
		struct rlimit ours;
		if (!soft)
			continue;
		soft += strspn(soft, " ");
		const char *hard = soft + strcspn(soft, " ");
		hard += strspn(hard, " ");
		struct rlimit theirs = { .rlim_cur = limit_of(soft), .rlim_max = limit_of(hard) };
		if (setrlimit(limits[i].which, &theirs) == 0)
			continue;
		if (getrlimit(limits[i].which, &ours) < 0)
			return -errno;
		ours.rlim_cur = theirs.rlim_cur < ours.rlim_max ? theirs.rlim_cur : ours.rlim_max;
		if (setrlimit(limits[i].which, &ours) < 0)
			return -errno;
	}
	return 0;
}

int join_world(const struct session *s, enum enter_stage *ret_stage) {
	*ret_stage = ENTER_NAMESPACES;
	int flags = s->spaces & ~OUTSIDE;
	if (flags != 0 && syscall(SYS_setns, s->leader.pidfd, flags) < 0)
		return -errno;
	*ret_stage = ENTER_ROOT;
	if (s->root >= 0 && (fchdir(s->root) < 0 || chroot(".") < 0))
		return -errno;
	return 0;
}

int join_outside(const struct session *s) {
	pid_t parent = getppid();
	if (!(s->spaces & OUTSIDE))
		return 0;
	if (syscall(SYS_setns, s->leader.pidfd, s->spaces & OUTSIDE) < 0)
		return -errno;
	/* New credentials undo it. */
	if (s->spaces & CLONE_NEWUSER && prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0) < 0)
		return -errno;
	if (getppid() != parent) {
		errno = ECHILD;
		return -ECHILD;
	}
	return 0;
}
