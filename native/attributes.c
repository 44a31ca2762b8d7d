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
/*
 * Open files of a task that asks for no number: a soft limit that programs using select() survive, and a hard one
 * that they may raise it to. As systemd gives services.
 */
#define FILES_SOFT 1024
#define FILES_HARD 524288

static const struct {
	const char *name;
	int resource;
} limits[] = {
	{ "as", RLIMIT_AS },           { "core", RLIMIT_CORE },
	{ "cpu", RLIMIT_CPU },         { "data", RLIMIT_DATA },
	{ "fsize", RLIMIT_FSIZE },     { "locks", RLIMIT_LOCKS },
	{ "memlock", RLIMIT_MEMLOCK }, { "msgqueue", RLIMIT_MSGQUEUE },
	{ "nice", RLIMIT_NICE },       { "nofile", RLIMIT_NOFILE },
	{ "nproc", RLIMIT_NPROC },     { "rss", RLIMIT_RSS },
	{ "rtprio", RLIMIT_RTPRIO },   { "rttime", RLIMIT_RTTIME },
	{ "sigpending", RLIMIT_SIGPENDING }, { "stack", RLIMIT_STACK },
};

/*
 * All by prlimit(2): the setrlimit of musl knows kernels without it, where it has to stop all threads, and that is 2 KiB.
 * As much of it as may be had: only root raises a hard limit.
 */
static void set_at_most(int resource, rlim_t soft, rlim_t hard) {
	struct rlimit now, want = { .rlim_cur = soft, .rlim_max = hard };
	if (prlimit(0, resource, NULL, &now) < 0)
		return;
	if (now.rlim_max != RLIM_INFINITY && (hard == RLIM_INFINITY || hard > now.rlim_max))
		want.rlim_max = now.rlim_max;
	if (want.rlim_max != RLIM_INFINITY && (want.rlim_cur == RLIM_INFINITY || want.rlim_cur > want.rlim_max))
		want.rlim_cur = want.rlim_max;
	(void) prlimit(0, resource, &want, NULL);
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
		return prlimit(0, limits[i].resource, &want, NULL) < 0 ? -errno : 0;
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
	set_at_most(RLIMIT_NOFILE, FILES_SOFT, FILES_HARD);
	set_at_most(RLIMIT_CORE, 0, RLIM_INFINITY);
	for (char **limit = spec->rlimits; *limit; limit++) {
		(void) format_text(c->detail, sizeof c->detail, "%s", *limit);
		if ((r = set_limit(*limit)) < 0)
			return r;
	}
	c->detail[0] = '\0';
	(void) umask((mode_t) spec->umask & 0777);
	(void) prctl(PR_SET_TIMERSLACK, 0, 0, 0, 0);
	/* Else it shares the keys of whoever started the agent. Kernels without keys have none to share. */
	(void) syscall(SYS_keyctl, JOIN_SESSION_KEYRING, NULL, 0, 0, 0);
	return 0;
}
