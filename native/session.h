/*
 * session.h - one command in a running workload: `holdfast-executor enter`. world.c finds the workload and joins what it
 * lives in, enter.c makes the command's process, session.c stays beside it until both are over. None touches the
 * workload's executor.
 */
#pragma once

#include "child.h"

#define RELAYS 3
#define RELAY_BYTES 16384U

/* Where a session stopped when it did not come as far as its command. */
enum enter_stage {
	ENTER_NONE,
	ENTER_SETUP,
	ENTER_IDENTITY,
	ENTER_CGROUP,
	ENTER_OOM_SCORE_ADJ,
	ENTER_SESSION,
	ENTER_TTY,
	ENTER_STDIO,
	ENTER_LIMITS,
	ENTER_NAMESPACES,
	ENTER_ROOT,
	ENTER_USER,
	ENTER_ISOLATION,
	ENTER_CHDIR,
	ENTER_EXEC,
	ENTER_STAGE_COUNT
};

/* What the command's process says before its exec; nothing = exec happened. */
struct enter_report {
	int32_t stage, errnum;
};

/* Bytes on their way from one descriptor to another. Reads only when all that was read is written. */
struct relay {
	int from, to; /* -1 = over */
	size_t at, len;
	uint8_t buf[RELAY_BYTES];
};

/* Why a session ends before its command does. */
enum session_end { END_NOT, END_ASKED, END_TASK, END_TERMINAL };

struct session {
	struct executor *x; /* spec, run directory, /proc; no executor is behind it */
	const char *id;
	char **argv;
	bool tty;
	int result; /* the file that tells the agent; it made it */
	struct leader leader;
	int spaces;     /* CLONE_NEW… that are not ours */
	int root;       /* the workload's root when it is not ours, else -1 */
	char cgroup[4096]; /* the session's own group below the workload's leaf, "" = none */
	pid_t child;
	bool inside; /* the command was born in its v2 group */
	int report, signals;
	struct relay relays[RELAYS];
	bool started; /* exec was seen */
	struct enter_report failure;
	bool ended;
	int status; /* as of wait() */
	enum session_end end;
	uint64_t kill_at_ns; /* 0, or when what does not end by itself is killed */
	const char *marker;  /* what is still to be written to the terminal, after all else */
	bool taken;          /* the agent has read the terminal to its end */
	uint64_t drain_until_ns;
};

/* enter.c: the whole life of `enter`; gives its exit status, or ends by the command's signal. */
int enter(struct executor *x, int argc, char **argv);
/* world.c: the workload that the run has on record, if that is what is there now; else -ESRCH. */
int find_leader(struct session *s);
/*
 * Which namespaces, and which root, are not ours. An ordinary user can join them by way of a user namespace of their
 * own only.
 */
int find_world(struct session *s);
/*
 * A group of its own below the workload's leaf: counted and limited with the workload, ended with it, and still to be
 * ended alone. Without one the session is in the leaf itself.
 */
void make_cgroup(struct session *s);
/* For the one outside, whose children are born in its pid namespace; join_world() is for the command's own process. */
int join_outside(const struct session *s);
int join_cgroups(const struct session *s);
/*
 * Like fork, and into the session's v2 group where that can be; s->inside says so. Some kernels kill what is born so at
 * once. `group` as open_group() gave it.
 */
pid_t fork_inside(struct session *s, int group);
/* The v2 group that the session is to be in; -1 = none. Before join_outside(), which may leave us no right to it. */
int open_group(const struct session *s);
int join_world(const struct session *s, enum enter_stage *ret_stage);
/* A limit that we may not raise that far is left as high as it can be. */
int take_limits(const struct session *s);
/* session.c: from the birth of the command to the end of the session. */
int session_run(struct session *s);
/* The session's result for the agent. Best effort: the exit status says nearly the same. */
void session_tell(const struct session *s, enum enter_stage stage, int errnum);
