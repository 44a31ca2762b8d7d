/*
 * child.h - between spawn.c, which makes the child, handover.c, by which it goes on as the launcher, and child.c, which is
 * the child until it is the task.
 */
#pragma once

#include "executor.h"

/*
 * What the child says: STAGE_NONE = it is through the gate, or at work; else where it failed, and about what.
 * `which` counts join_procs. With `leader` set nothing has failed: the maker has made these two.
 */
struct spawn_report {
	int32_t stage, errnum, which;
	int32_t leader, init;
	char detail[228];
};

struct child {
	const struct executor *x;
	int gate, report, dir;
	int tty; /* the task's end of its terminal, until it is the child's 0 to 2; -1 = none */
	bool join_cgroup; /* it was not born there */
	int32_t which;
	char detail[228];
};

/* Descriptors that a child keeps beside 0 to 2. */
enum kept_fd { REPORT_FD = 3, GATE_FD, DIR_FD, TTY_FD, FIRST_FREE_FD };

/*
 * What the launcher is told: `TITLE become WHERE`, and the descriptors above (TTY_FD with a terminal only). All else is in the
 * spec. This, and struct spawn_report, is only ever added to: during an upgrade an executor may meet the launcher of another
 * release.
 */
#define BECOME_INTO "0" /* it was born in its cgroup, or has none */
#define BECOME_JOIN "1" /* it has to join it */

/* handover.c: becomes the launcher. Only ever called in the child. */
_Noreturn void child_main(struct child *c);
/* child.c, in the launcher: becomes the task, or makes the process that does. */
_Noreturn void become(struct executor *x, int argc, char **argv);
/* program.c: says why there will be no task, and ends. */
_Noreturn void child_failed(const struct child *c, enum stage stage, int error);

/* Parts of that which a session in a running workload needs as well; see enter.c. 0 or -errno. */
int set_oom_score(int64_t wanted);
void reset_signals(void);
