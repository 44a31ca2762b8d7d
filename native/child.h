/* child.h - between spawn.c, which makes the child, and child.c, which is the child. */
#pragma once

#include "executor.h"

/*
 * What the child says: STAGE_NONE = it is through the gate; else where it failed. `which` counts join_procs.
 */
struct spawn_report {
	int32_t stage, errnum, which;
};

struct child {
	const struct executor *x;
	int gate, report;
	bool join_cgroup; /* it was not born there */
	int32_t which;
};

/* Becomes the task. Only ever called in the child. */
_Noreturn void child_main(struct child *c);

/* Parts of that which a session in a running workload needs as well; see enter.c. 0 or -errno. */
int set_oom_score(int64_t wanted);
int become(const struct child *c, enum stage *ret_stage);
void reset_signals(void);
