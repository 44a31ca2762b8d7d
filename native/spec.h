/*
 * spec.h - the spec file: what to run. Read once, before the claim, into one block that lives as long as the
 * process; all strings point into it.
 */
#pragma once

#include "util.h"

struct spec {
	const char *run_id, *boot_id, *title, *path, *cwd, *user, *log_dir, *log_name, *cgroup;
	const char *memory_events, *memory_peak, *memory_hits;
	/* Null-terminated, never null themselves. */
	char **argv, **envp, **join_procs, **self_procs;
	/* Of equal length: what is bound where in the task's own root, and how; see rootfs.h. */
	char **mount_source, **mount_target, **mount_options;
	/* Where a program without a slash is looked for, once the root is the task's. */
	char **search;
	/* `name soft hard`; see attributes.c. */
	char **rlimits;
	int64_t log_max_files, log_max_bytes, oom_score_adj, gate, leftovers, leftovers_ms;
	int64_t on_death;
	int64_t isolate, privileges, caps_bounding, caps_ambient, umask, nice;
	/* Both above 0: a terminal of that size. */
	int64_t tty_columns, tty_rows;
};

/* Bits of `isolate`: the namespaces that are the task's own. ISOLATE_MOUNTS is its root as well. */
enum isolate {
	ISOLATE_MOUNTS = 1,
	ISOLATE_PID = 2,
	ISOLATE_IPC = 4,
	ISOLATE_UTS = 8,
	ISOLATE_CGROUP = 16,
	ISOLATE_NET = 32,
	ISOLATE_USER = 64
};

/* Bits of `privileges`: what the task gives up before its exec. */
enum privileges { PRIVILEGES_CAPS = 1, PRIVILEGES_NO_NEW = 2, PRIVILEGES_SECCOMP = 4 };

/* What becomes of the workload when its executor is killed: the next one takes it over, or ends it. */
enum on_death { ON_DEATH_ADOPT = 0, ON_DEATH_KILL = 1 };

/* `nice` was not asked for: 0, as far as that can be had. */
#define NICE_UNSET INT64_MIN

/* Most pointers that the lists of a spec of `len` bytes need, their ends included: a field has 8 bytes at least. */
#define SPEC_POINTERS(len) ((len) / 8U + 16U)

/*
 * Parses `len` bytes, which must have room for one more behind them; the spec points into them, its lists are put into
 * `pointers`, which are null. Returns as spec_load().
 */
int spec_parse(uint8_t *bytes, size_t len, char **pointers, struct spec *ret_spec, struct text *reterr_why);

/*
 * Reads and checks `spec` in the run directory. Returns 0; on failure -errno with one line in reterr_why.
 */
int spec_load(int dir, struct spec *ret_spec, struct text *reterr_why);
