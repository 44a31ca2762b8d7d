/*
 * program.h - what both programs begin with. `holdfast-executor` is the one that stays, once for each task, and is kept
 * small; `holdfast-launcher` lies beside it and does what ends soon or is there once for an agent.
 */
#pragma once

#include "executor.h"

/* What ps shows of an executor begins with it. */
#define EXECUTOR_NAME "holdfast-executor"
#define LAUNCHER_NAME "holdfast-launcher"
/* Its command for a child of an executor; see child.h. */
#define LAUNCHER_BECOME "become"

/* Sets every descriptor to none. */
void program_init(struct executor *x);
/* Descriptors 0 to 2 must be something, and nothing else may have been inherited. 0 or -errno. */
int clean_descriptors(void);
/* Shows `<what>: <title>` in ps, as far as the space of the old arguments and environment goes. */
void set_title(struct executor *x, int argc, char **argv, char **envp, const char *what, const char *title);
/*
 * Goes on as the launcher that lies beside this program, also when it was replaced since. Returns only with a fault, as -errno;
 * ret_path then says of which file.
 */
int exec_launcher(char *const *argv, char *const *envp, char *ret_path, size_t cap);
