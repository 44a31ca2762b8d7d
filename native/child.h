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
