/* child.h - between spawn.c, which makes the child, and child.c, which is the child. */
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
	bool join_cgroup; /* it was not born there */
	int32_t which;
	char detail[228];
};

/* Becomes the task, or makes the process that does. Only ever called in the child. */
_Noreturn void child_main(struct child *c);
/* Says why there will be no task, and ends. */
_Noreturn void child_failed(const struct child *c, enum stage stage, int error);

/* Parts of that which a session in a running workload needs as well; see enter.c. 0 or -errno. */
int set_oom_score(int64_t wanted);
void reset_signals(void);
