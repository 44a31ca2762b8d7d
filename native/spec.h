/*
 * spec.h - the spec file: what to run. Read once, before the claim, into one block that lives as long as the
 * process; all strings point into it.
 */
#pragma once

#include "util.h"

struct spec {
	const char *run_id, *boot_id, *title, *path, *cwd, *user, *log_dir, *log_name, *cgroup;
	const char *memory_events, *memory_peak;
	/* Null-terminated, never null themselves. */
	char **argv, **envp, **join_procs, **self_procs;
	int64_t log_max_files, log_max_bytes, oom_score_adj, gate, leftovers;
	/* The block that holds all the lists. */
	char **pointers;
};

/*
 * Parses `len` bytes, which must have room for one more behind them; the spec points into them. Returns as
 * spec_load().
 */
int spec_parse(uint8_t *bytes, size_t len, struct spec *ret_spec, struct text *reterr_why);

/*
 * Reads and checks `spec` in the run directory. Returns 0; on failure -errno with one line in reterr_why.
 */
int spec_load(int dir, struct spec *ret_spec, struct text *reterr_why);
