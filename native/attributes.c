/*
 * attributes.c - see attributes.h. The agent's own values never reach a task: Node raises its limit of open files,
 * and a service manager may have made the agent nice, or protected from the OOM killer.
 */
#define _GNU_SOURCE
#include "attributes.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* keyctl(2): a session keyring of one's own. */
#define JOIN_SESSION_KEYRING 1
/* ioprio_set(2): of one process. */
#define IOPRIO_WHO_PROCESS 1

#define UNLIMITED (-1)
/* What the kernel gives its first process: half of the threads that it has room for. */
#define HALF_OF_THREADS (-2)
#define MIB (INT64_C(1) << 20)

/*
 * Those of a task that asks for no other, soft and hard: what systemd gives services, which is what the kernel starts with, but for
 * open files (a soft limit that programs using select() survive) and core files. What the agent has says only how it was
 * started: from a shell, or by whom.
 */
static const struct {
	const char *name;
	int resource;
	int64_t soft, hard;
} limits[] = {
	{ "as", RLIMIT_AS, UNLIMITED, UNLIMITED },
	{ "core", RLIMIT_CORE, 0, UNLIMITED },
	{ "cpu", RLIMIT_CPU, UNLIMITED, UNLIMITED },
	{ "data", RLIMIT_DATA, UNLIMITED, UNLIMITED },
	{ "fsize", RLIMIT_FSIZE, UNLIMITED, UNLIMITED },
	{ "locks", RLIMIT_LOCKS, UNLIMITED, UNLIMITED },
	{ "memlock", RLIMIT_MEMLOCK, 8 * MIB, 8 * MIB },
	{ "msgqueue", RLIMIT_MSGQUEUE, 819200, 819200 },
	{ "nice", RLIMIT_NICE, 0, 0 },
	{ "nofile", RLIMIT_NOFILE, 1024, 524288 },
	{ "nproc", RLIMIT_NPROC, HALF_OF_THREADS, HALF_OF_THREADS },
	{ "rss", RLIMIT_RSS, UNLIMITED, UNLIMITED },
	{ "rtprio", RLIMIT_RTPRIO, 0, 0 },
	{ "rttime", RLIMIT_RTTIME, UNLIMITED, UNLIMITED },
	{ "sigpending", RLIMIT_SIGPENDING, HALF_OF_THREADS, HALF_OF_THREADS },
	{ "stack", RLIMIT_STACK, 8 * MIB, UNLIMITED },
};

static rlim_t limit_value(int64_t value, rlim_t half_of_threads) {
	if (value == HALF_OF_THREADS)
		return half_of_threads;
	return value == UNLIMITED ? RLIM_INFINITY : (rlim_t) value;
}

/* As much of it as may be had: only CAP_SYS_RESOURCE raises a hard limit. */
static void set_at_most(int resource, struct rlimit want) {
	struct rlimit now;
	if (getrlimit(resource, &now) < 0 || (now.rlim_cur == want.rlim_cur && now.rlim_max == want.rlim_max) ||
	    setrlimit(resource, &want) == 0)
		return;
	if (want.rlim_max > now.rlim_max) /* RLIM_INFINITY is the largest number. */
		want.rlim_max = now.rlim_max;
	if (want.rlim_cur > want.rlim_max)
		want.rlim_cur = want.rlim_max;
	(void) setrlimit(resource, &want);
}

static bool is_named(char *const *rlimits, const char *name) {
	size_t len = strlen(name);
	for (; *rlimits; rlimits++) {
		if (strncmp(*rlimits, name, len) == 0 && (*rlimits)[len] == ' ')
			return true;
	}
	return false;
}

/* Not those that the task names: a hard limit that is lowered here could not be raised again by everybody. */
static void set_usual_limits(char *const *named) {
	char text[32];
	rlim_t half = read_file_at(-1, "/proc/sys/kernel/threads-max", text, sizeof text) > 0 ?
			      (rlim_t) read_number(text, NULL) / 2 : 0;
	for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
		/* Without /proc nobody knows how many: the agent's, then. */
		if ((limits[i].soft == HALF_OF_THREADS && half == 0) || is_named(named, limits[i].name))
			continue;
		set_at_most(limits[i].resource, (struct rlimit){ .rlim_cur = limit_value(limits[i].soft, half),
								 .rlim_max = limit_value(limits[i].hard, half) });
	}
}

/* `name soft hard`, -1 = unlimited. */
static int set_limit(const char *text) {
	size_t len = strcspn(text, " ");
	const char *at, *end;
	int64_t soft = read_number(text + len, &at), hard = read_number(at, &end);
	if (at == text + len || end == at || *end != '\0')
		return -EINVAL;
	for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
		if (strlen(limits[i].name) != len || strncmp(limits[i].name, text, len) != 0)
			continue;
		struct rlimit want = { .rlim_cur = soft < 0 ? RLIM_INFINITY : (rlim_t) soft,
				       .rlim_max = hard < 0 ? RLIM_INFINITY : (rlim_t) hard };
		return setrlimit(limits[i].resource, &want) < 0 ? -errno : 0;
	}
	return -EINVAL;
}

/* 0 without being asked for: going back to it is not always allowed, going up to it always is. */
static int set_nice(int64_t wanted) {
	errno = 0;
	int now = getpriority(PRIO_PROCESS, 0);
	int value = wanted == NICE_UNSET ? 0 : (int) wanted;
	if (now == value && errno == 0)
		return 0;
	int r = setpriority(PRIO_PROCESS, 0, value) < 0 ? -errno : 0;
	return wanted == NICE_UNSET ? 0 : r;
}

int attributes_set(struct child *c, enum stage *ret_stage) {
	const struct spec *spec = &c->x->spec;
	struct sched_param normal = { 0 };
	if (sched_getscheduler(0) != SCHED_OTHER)
		(void) sched_setscheduler(0, SCHED_OTHER, &normal);
	*ret_stage = STAGE_NICE;
	int r = set_nice(spec->nice);
	if (r < 0)
		return r;
	*ret_stage = STAGE_RLIMIT;
	set_usual_limits(spec->rlimits);
	for (char **limit = spec->rlimits; *limit; limit++) {
		(void) format_text(c->detail, sizeof c->detail, "%s", *limit);
		if ((r = set_limit(*limit)) < 0)
			return r;
	}
	c->detail[0] = '\0';
	(void) umask((mode_t) spec->umask & 0777);
	(void) prctl(PR_SET_TIMERSLACK, 0, 0, 0, 0);
	/* That which goes with the niceness. */
	(void) syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, 0);
	/* Else it shares the keys of whoever started the agent. Kernels without keys have none to share. */
	(void) syscall(SYS_keyctl, JOIN_SESSION_KEYRING, NULL, 0, 0, 0);
	return 0;
}
