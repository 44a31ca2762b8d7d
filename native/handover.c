/*
 * handover.c - the child of an executor goes on as the launcher, which makes it the task. That way what is only needed
 * for a start is not in every executor. It costs the start nothing: it happens while the executor puts the child on
 * record, before the gate.
 */
#define _GNU_SOURCE
#include "child.h"
#include "program.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* Closes all but what the launcher takes, which gets its numbers. */
static int keep_own(struct child *c) {
	int *const own[] = { &c->report, &c->gate, &c->dir, &c->tty };
	/* Out of the way of the numbers first. */
	for (size_t i = 0; i < ARRAY_LEN(own); i++) {
		if (*own[i] >= 0 && (*own[i] = fcntl(*own[i], F_DUPFD_CLOEXEC, FIRST_FREE_FD)) < 0)
			return -errno;
	}
	for (size_t i = 0; i < ARRAY_LEN(own); i++) {
		int as = REPORT_FD + (int) i;
		if (*own[i] < 0)
			(void) close(as);
		else if ((*own[i] = dup2(*own[i], as)) < 0)
			return -errno;
	}
	/* The lock too: when the executor dies while we wait or work, it must be free. */
	close_from(FIRST_FREE_FD);
	return 0;
}

_Noreturn void child_main(struct child *c) {
	char into[] = BECOME_INTO, join[] = BECOME_JOIN, become[] = LAUNCHER_BECOME, *none[] = { NULL };
	/* By its title it is a part of this executor still. */
	char *argv[] = { c->x->title, become, c->join_cgroup ? join : into, NULL };
	char path[4096] = "";
	int r = keep_own(c);
	if (r == 0)
		r = exec_launcher(argv, none, path, sizeof path);
	(void) format_text(c->detail, sizeof c->detail, "%s", path);
	child_failed(c, STAGE_SETUP, r);
}
