/*
 * child.c - the child between its birth and execve: waits at the gate, then becomes the task or says how far
 * it came. It is single-threaded, so that looking up a user, which allocates, is safe here too; that way the
 * executor stays small, and a user database that hangs cannot hang it.
 */
#define _GNU_SOURCE
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int wait_at_gate(const struct child *c) {
	char byte;
	ssize_t n;
	/* While we wait, the executor may die: its lock must be free then. */
	(void) close(c->x->lock);
	do {
		n = read(c->gate, &byte, 1);
	} while (n < 0 && errno == EINTR);
	if (n != 1)
		_exit(125); /* The executor died: nobody has us on record, nothing may run. */
	struct spawn_report alive = { .stage = STAGE_NONE };
	return write(c->report, &alive, sizeof alive) == (ssize_t) sizeof alive ? 0 : -EPIPE;
}

static int join_groups(struct child *c, enum stage *ret_stage) {
	char path[4096];
	*ret_stage = STAGE_CGROUP;
	if (c->join_cgroup) {
		int n = snprintf(path, sizeof path, "%s/cgroup.procs", c->x->spec.cgroup);
		if (n < 0 || (size_t) n >= sizeof path)
			return -ENAMETOOLONG;
		int r = write_file(path, "0");
		if (r < 0)
			return r;
	}
	*ret_stage = STAGE_JOIN_PROCS;
	for (char **procs = c->x->spec.join_procs; *procs; procs++, c->which++) {
		int r = write_file(*procs, "0");
		if (r < 0)
			return r;
	}
	return 0;
}

/*
 * The executor may be protected from the OOM killer; a workload that inherits that cannot be limited. Raising
 * the score is always allowed; being unable to lower it only leaves it easier to kill than asked for.
 */
int set_oom_score(int64_t wanted) {
	char buf[32];
	long now = 0;
	if (read_file_at(-1, "/proc/self/oom_score_adj", buf, sizeof buf) > 0)
		now = strtol(buf, NULL, 10);
	if (now == wanted)
		return 0;
	(void) snprintf(buf, sizeof buf, "%lld", (long long) wanted);
	int r = write_file("/proc/self/oom_score_adj", buf);
	return r < 0 && now < wanted ? r : 0;
}

/* Puts fd at number `as`, open across exec. */
static int place(int fd, int as) {
	if (fd < 0)
		return -errno;
	if (fd == as)
		return fcntl(fd, F_SETFD, 0) < 0 ? -errno : 0;
	int r = dup3(fd, as, 0) < 0 ? -errno : 0;
	(void) close(fd);
	return r;
}

/*
 * stdin from /dev/null, output to the FIFOs; then nothing of the executor's is open but the report pipe, at
 * 3.
 */
static int set_stdio(struct child *c) {
	const struct executor *x = c->x;
	int r = place(open("/dev/null", O_RDONLY | O_CLOEXEC), 0);
	for (size_t i = 0; i < STREAMS && r == 0; i++) {
		/* O_RDWR: with its own read end open, the task never gets SIGPIPE when the executor dies. */
		r = place(x->spec.log_dir ? openat(x->dir, x->logs.streams[i].name, O_RDWR | O_NOCTTY | O_CLOEXEC)
					  : open("/dev/null", O_WRONLY | O_CLOEXEC),
			  (int) i + 1);
	}
	if (r < 0)
		return r;
	if (c->report != 3) {
		if (dup3(c->report, 3, O_CLOEXEC) < 0)
			return -errno;
		c->report = 3;
	}
	if (syscall(SYS_close_range, 4U, ~0U, 0U) == 0)
		return 0;
	for (int fd = 4; fd < 1024; fd++)
		(void) close(fd);
	return 0;
}

void reset_signals(void) {
	struct sigaction dfl = { .sa_handler = SIG_DFL };
	for (int n = 1; n <= SIGRTMAX; n++)
		(void) sigaction(n, &dfl, NULL);
	sigset_t none;
	(void) sigemptyset(&none);
	(void) sigprocmask(SIG_SETMASK, &none, NULL);
}

struct identity {
	uid_t uid;
	gid_t gid;
	gid_t *groups;
	int count;
};

/*
 * Name or number. A number that the user database does not know gets the group of the same number and no
 * others.
 */
static int look_up(const char *user, struct identity *ret_id) {
	errno = 0;
	const struct passwd *pw = getpwnam(user);
	if (!pw) {
		char *end;
		errno = 0;
		unsigned long n = strtoul(user, &end, 10);
		if (user[0] < '0' || user[0] > '9' || *end != '\0' || errno != 0 || n >= UINT32_MAX)
			return -ENOENT;
		pw = getpwuid((uid_t) n);
		if (!pw) {
			static gid_t own;
			own = (gid_t) n;
			*ret_id = (struct identity){ .uid = (uid_t) n, .gid = own, .groups = &own, .count = 1 };
			return 0;
		}
	}
	struct identity id = { .uid = pw->pw_uid, .gid = pw->pw_gid, .count = 64 };
	for (int tries = 0; tries < 2; tries++) {
		gid_t *groups = reallocarray(id.groups, (size_t) id.count, sizeof *groups);
		if (!groups)
			return -ENOMEM;
		id.groups = groups;
		if (getgrouplist(pw->pw_name, id.gid, id.groups, &id.count) >= 0) {
			*ret_id = id;
			return 0;
		}
	}
	return -E2BIG;
}

static int check_groups(const struct identity *id) {
	gid_t *now = calloc((size_t) id->count + 1, sizeof *now);
	if (!now)
		return -ENOMEM;
	if (getgroups(id->count, now) != id->count)
		return -EPERM;
	for (int i = 0; i < id->count; i++) {
		bool found = false;
		for (int k = 0; k < id->count; k++)
			found = found || now[k] == id->groups[i];
		if (!found)
			return -EPERM;
	}
	return 0;
}

/* Becomes the user, with exactly the groups of the user database, and looks whether that is so. */
int become(const struct child *c, enum stage *ret_stage) {
	const struct spec *spec = &c->x->spec;
	struct identity id;
	*ret_stage = STAGE_USER;
	if (!spec->user)
		return 0;
	int r = look_up(spec->user, &id);
	if (r < 0)
		return r;
	if (geteuid() != 0)
		return id.uid == geteuid() ? 0 : -EPERM;
	/* So that the task can open /dev/stdout and /dev/stderr anew. */
	for (int fd = 1; spec->log_dir && fd <= STREAMS; fd++) {
		if (fchown(fd, id.uid, (gid_t) -1) < 0)
			return -errno;
	}
	*ret_stage = STAGE_GROUPS;
	if (setgroups((size_t) id.count, id.groups) < 0)
		return -errno;
	if ((r = check_groups(&id)) < 0)
		return r;
	gid_t gids[3];
	*ret_stage = STAGE_GID;
	if (setresgid(id.gid, id.gid, id.gid) < 0 || getresgid(&gids[0], &gids[1], &gids[2]) < 0)
		return -errno;
	if (gids[0] != id.gid || gids[1] != id.gid || gids[2] != id.gid)
		return -EPERM;
	uid_t uids[3];
	*ret_stage = STAGE_UID;
	if (setresuid(id.uid, id.uid, id.uid) < 0 || getresuid(&uids[0], &uids[1], &uids[2]) < 0)
		return -errno;
	if (uids[0] != id.uid || uids[1] != id.uid || uids[2] != id.uid)
		return -EPERM;
	return 0;
}

static int become_task(struct child *c, enum stage *ret_stage) {
	const struct spec *spec = &c->x->spec;
	int r;
	*ret_stage = STAGE_GATE;
	if ((r = wait_at_gate(c)) < 0)
		return r;
	*ret_stage = STAGE_SESSION;
	if (setsid() < 0)
		return -errno;
	if ((r = join_groups(c, ret_stage)) < 0)
		return r;
	/* An undumpable process does not own its files in /proc; exec makes it dumpable anyway. */
	if (geteuid() != 0)
		(void) prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
	*ret_stage = STAGE_OOM_SCORE_ADJ;
	if ((r = set_oom_score(spec->oom_score_adj)) < 0)
		return r;
	*ret_stage = STAGE_STDIO;
	if ((r = set_stdio(c)) < 0)
		return r;
	(void) umask(022);
	if ((r = become(c, ret_stage)) < 0)
		return r;
	*ret_stage = STAGE_CHDIR;
	if (chdir(spec->cwd) < 0)
		return -errno;
	*ret_stage = STAGE_EXEC;
	reset_signals();
	(void) execve(spec->path, spec->argv, spec->envp);
	return -errno;
}

_Noreturn void child_main(struct child *c) {
	enum stage stage = STAGE_NONE;
	int r = become_task(c, &stage);
	struct spawn_report rep = { .stage = (int32_t) stage, .errnum = -r, .which = c->which };
	ssize_t n = write(c->report, &rep, sizeof rep);
	_exit(n == (ssize_t) sizeof rep ? 127 : 126);
}
