/*
 * executor.h - the state of one executor, and what its parts offer each other.
 *
 *   main.c    its commands, the claim, the forks       spec.c   what to run
 *   setup.c   what comes before the loop               adopt.c  taking over from an executor that died
 *   executor.c  the loop, from one phase to the next
 *   spawn.c   makes the child, opens its gate          handover.c  the child goes on as the launcher
 *   reap.c    who ended, and how                       kill.c   signals, STOP, and the end of the whole tree: tree.c
 *   pump.h    output into rotated files: pump.c, logs.c, chunk.c, turns.c
 *   record.c  status and exit files                    wire.c   the socket
 *   tty.c     a terminal for the task, and who holds it   usage.c  how long it used the CPU
 *
 * In the launcher (programs.json says which file is in which program):
 *   child.c   the child, until execve                  isolate.c namespaces, and their process 1
 *   rootfs.c  the task's own root                      attributes.c  limits, niceness
 *   privileges.c  user, groups, capabilities; seccomp.c
 *
 * One thread, one epoll; and the writer (pump.c), which alone touches log files. Set-up may fail and may allocate; the loop does neither.
 */
#pragma once

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/epoll.h>

#include "spec.h"

#define PROTOCOL_VERSION 1
#define MAX_CLIENTS 8
#define MAX_FRAME 65536U
#define STREAMS 2
/*
 * Our name in /proc/<pid>/stat, at most 15 bytes. The child bears it until its exec, which gives it another.
 */
#define EXECUTOR_COMM "holdfast-exec"
/* What the kernel calls a child that goes on as the launcher, for the moment until it has that name again. */
#define LAUNCHER_COMM "holdfast-launch"
/* Asks an executor to see to its socket. Ignored by those of older releases. */
#define WAKE_SIGNAL SIGUSR1
/* To ourselves: it is time to look at what the writer does. */
#define LOOK_SIGNAL SIGALRM
/* Room for a status text, and for an exit record. */
#define STATUS_CAP 2048U
#define RECORD_CAP 8192U

/* Exit statuses of the foreground process; see README.md, "Commands". */
enum told { TOLD_OK = 0, TOLD_CLAIMED = 10, TOLD_START_FAILED = 11, TOLD_NO_SETUP = 12, TOLD_NOT_THERE = 13 };

/* What the foreground process is told; smaller than PIPE_BUF, so that it comes in one piece. */
struct report {
	int32_t told;
	char why[508];
};

enum phase {
	PHASE_READY,     /* waits for GO; the child may be there, behind its gate */
	PHASE_STARTING,  /* the child exists, exec has not been seen */
	PHASE_RUNNING,   /* exec happened */
	PHASE_ENDING,    /* the leader has ended; its tree and its output have not */
	PHASE_RECORDING, /* all is known, the record is not durable yet */
	PHASE_DONE       /* told everybody */
};

/* Stages of a start, as named in the exit record. */
enum stage {
	STAGE_NONE,
	STAGE_SETUP,
	STAGE_LOG_DIR,
	STAGE_STATUS,
	STAGE_GATE,
	STAGE_CLONE,
	STAGE_SESSION,
	STAGE_CGROUP,
	STAGE_JOIN_PROCS,
	STAGE_OOM_SCORE_ADJ,
	STAGE_STDIO,
	STAGE_USER,
	STAGE_GROUPS,
	STAGE_GID,
	STAGE_UID,
	STAGE_CHDIR,
	STAGE_EXEC,
	STAGE_USER_NAMESPACE,
	STAGE_NAMESPACES,
	STAGE_INIT,
	STAGE_ROOT,
	STAGE_MOUNT,
	STAGE_NETWORK,
	STAGE_RLIMIT,
	STAGE_NICE,
	STAGE_CAPABILITIES,
	STAGE_SECCOMP,
	STAGE_TTY,
	STAGE_COUNT
};

enum leftovers { LEFTOVERS_KILL = 0, LEFTOVERS_KEEP = 1 };
enum stop_stage { STOP_NONE, STOP_SIGNAL, STOP_KILL };
enum result { RESULT_UNKNOWN, RESULT_EXITED, RESULT_SIGNALED, RESULT_START_FAILED };

/* What an epoll event is about: kind in the upper half of data.u64, index in the lower. */
enum source {
	SOURCE_SIGNALS,
	SOURCE_LEADER,
	SOURCE_REPORT,
	SOURCE_STREAM,
	SOURCE_CGROUP,
	SOURCE_LISTENER,
	SOURCE_CLIENT,
	SOURCE_TERMINAL,
	SOURCE_RELEASE
};

/* The first process of the workload. */
struct leader {
	pid_t pid; /* 0 before there is one */
	uint64_t start_ticks;
	int pidfd; /* the only way to signal it */
	bool ended;
	bool killed_by_us; /* a SIGKILL was sent to it from here: its death by SIGKILL is no sign of OOM */
	uint64_t started_at_ns, started_mono_ns, ended_at_ns, ended_mono_ns;
};

struct outcome {
	enum result result;
	int code, signal;
	bool core;
	const char *how; /* null, or how an adopted one's status was found out */
	enum stage stage;
	int errnum;
	const char *detail;
};

struct spawn {
	int report; /* read end of the child's report pipe, -1 once it has ended */
	bool into_cgroup; /* the child was born in the cgroup */
	bool alive;       /* the child has been through the gate */
	bool died_before_exec; /* the leader was reaped before its report pipe had ended, and was not the task yet */
	bool again;       /* start it once more without CLONE_INTO_CGROUP when this one is reaped */
	pid_t maker; /* the one that makes init and leader of a pid namespace, until it has ended */
	bool held;   /* nothing is let through before GO */
	pid_t pid;   /* the leader to be, until it is on record; 0 = none */
	int pidfd;   /* of that one */
	int gate;    /* write end of the gate until it is opened, else -1 */
	char detail[240]; /* what a failed start was about */
};

/* Process 1 of the task's own pid namespace: adopts and reaps, and takes all others along when it is killed. */
struct init {
	pid_t pid; /* 0 = there is none */
	uint64_t start_ticks;
};

/* The task's terminal, when it has one; see tty.h. */
struct terminal {
	pid_t pid; /* the holder, which leads its session; 0 = there is none */
	uint64_t start_ticks;
	int pidfd;  /* -1 once it has ended */
	int master; /* in the holder only */
	int slave;  /* the task's end */
	int ready;  /* a pipe between executor and holder, until the FIFOs are there */
	int error;  /* why there is none, as -errno */
	bool finishing;
	uint64_t deadline_ns; /* of the holder's end, once it was asked for */
};

struct stop {
	bool asked;
	int signal;
	enum stop_stage stage;
	uint64_t deadline_ns; /* CLOCK_MONOTONIC; 0 = none */
};

/* A process that was sent SIGKILL and is still there. */
struct stuck {
	pid_t pid;
	char comm[16], where[24];
};
#define MAX_STUCK 4

/* The end of the whole tree: rounds at a bounded pace until nothing is left. */
struct killing {
	bool on;
	uint64_t next_ns, pause_ns, last_found;
	/* What outlived the leader: as many as were there before the first kill, and as many as were reaped after it. */
	uint64_t seen, reaped;
	/* Of the last round, once killing does not get on: some of them, and how many there are. */
	struct stuck stuck[MAX_STUCK];
	uint64_t stuck_count;
};

struct stream {
	const char *name;
	int fifo;   /* read end; -1 when there is none */
	int file;   /* -1 when none is open */
	bool ended; /* read to its end */
	bool lost;   /* taken over when nobody held the pipe any more, or given up */
	uint64_t index, pos;
	_Atomic uint64_t bytes, dropped; /* since this executor began */
	uint64_t gap;                    /* dropped since the last marker */
	uint64_t late;                   /* likewise, by the main thread */
	int gap_errno;
};

struct logs {
	int dir;
	uid_t dir_owner;
	int scratch[2]; /* a pipe of our own, to look into the task's */
	struct stream streams[STREAMS];
};

/* Whose turn it is to read the pipes; see turns.c. */
enum writer_state {
	WRITER_NONE,     /* there is no such thread (yet): the main thread's */
	WRITER_READS,    /* the writer's */
	WRITER_WAITS,    /* the writer's, which sleeps until there is output, and has none in its hands */
	WRITER_AT_DISK,  /* the writer's, which is about to touch a file, and may not come back for long */
	WRITER_LATE,     /* the main thread's, until the writer is back */
	WRITER_LATE_BUSY, /* likewise, and it is at it just now */
	WRITER_FINISHING, /* the main thread's, which looks whether anything is left for a writer that sleeps */
	WRITER_GIVEN_UP, /* the main thread's, for good */
	WRITER_DONE      /* the writer has come to its end */
};

struct writer {
	_Atomic int state;
	_Atomic uint32_t steps;    /* how often it went to the disk */
	_Atomic uint32_t timed_at; /* steps when the timer was set */
	_Atomic bool timed;        /* the timer is set */
	_Atomic int doubts;        /* how many times more it is looked after soon */
	_Atomic bool finish;       /* it is to come to its end */
	struct stream *of;         /* of which it has bytes in its hands, or NULL */
	size_t held;
	pthread_t thread;
	uint32_t seen_steps;
	uint64_t deadline_ns; /* 0, or how long to wait for its next step to the end */
	uint64_t start_ns;    /* 0, or when to try again to start it */
};

struct client {
	int fd; /* -1 = free */
	bool waiting, ending; /* WAIT, END are open */
	uint16_t wait_request, end_request;
	size_t len;
	uint8_t *buf; /* one whole frame; apart, so that idle clients cost no memory */
};
#define CLIENT_BUF (4U + MAX_FRAME)

struct executor {
	struct spec spec;
	int dir;      /* the run directory */
	int lock;     /* holds the flock for life */
	int epoll, signals;
	int listener;
	uint64_t sock_device, sock_inode; /* of `sock` as we made it */
	int told;      /* pipe to the foreground process, or to the launcher; -1 once told */
	int release;   /* where the launcher says that the cgroup is there, then GO; -1 = nowhere, or no more */
	bool cgroup_is_made;
	bool given_up; /* GO will never come: nothing has run, and nothing is put on record */
	pid_t pid;
	uint64_t start_ticks;
	char *title; /* what ps shows of us, and its room */
	size_t title_cap;
	bool adopted;
	bool adopted_before_exec; /* the one before us died before it knew whether exec happened */
	int self_procs_error;     /* of moving ourselves, 0 or errno */

	enum phase phase;
	struct leader leader;
	struct outcome outcome;
	struct spawn spawn;
	struct init init;
	struct terminal terminal;
	struct stop stop;
	struct killing killing;
	struct logs logs;
	struct writer writer;

	int cgroup_events; /* -1 when there is no v2 cgroup */
	bool cgroup_watched;
	uint64_t oom_kills_before, oom_kills;
	bool leader_oom;
	uint64_t memory_peak;

	bool more_to_reap;
	uint64_t info_deadline_ns;   /* adopted: how long to wait for the leader's status */
	uint64_t leftovers_ns;       /* 0, or when to look at what outlived the leader */
	uint64_t record_retry_ns;    /* 0, or when to try the exit record again */
	uint64_t listen_retry_ns;    /* 0, or when to accept again */
	struct client clients[MAX_CLIENTS];
};

/* program.c: by its name in /proc it is a child that has not been through the exec of its task. */
bool is_before_exec(const struct proc_stat *stat);

/* executor.c */
int watch(struct executor *x, int fd, uint32_t events, enum source source, uint32_t index);
int change_watch(struct executor *x, int fd, uint32_t events, enum source source, uint32_t index);
/*
 * Closes what is watched. Closing alone would not do: until its exec the child has a copy, and epoll goes on
 * to report a file as long as any copy is open.
 */
void close_watched(struct executor *x, int *fd);
/* Tells the foreground process its exit status; only the first call counts. */
void tell(struct executor *x, enum told told, const char *why);
/* GO: the task may run. Harmless when it does. */
void go(struct executor *x);
/* The workload could not be started. `detail` must live as long as x. */
void start_failed(struct executor *x, enum stage stage, int errnum, const char *detail);
_Noreturn void executor_loop(struct executor *x);

/* setup.c: opens what is to be read of the cgroup, which has to be there, when it has one. */
void open_cgroup(struct executor *x);
/* setup.c: the whole life of an executor. A set-up that fails is a start that failed, and on record. */
_Noreturn void executor_run(struct executor *x);
_Noreturn void executor_adopt(struct executor *x);
/*
 * The one of self_procs that an executor can be born in: on the v2 tree. Moving there afterwards waits for a grace period of RCU, some
 * 10 ms. -1 when there is none.
 */
int open_birth_group(const struct executor *x);
/* Moves this process where executors are to be, unless it is there. 0 or -errno; all of it is best effort. */
int join_self_procs(const struct executor *x);

/* spawn.c: makes the child, and lets it run once it is on record, unless it is held. Calls start_failed itself. */
void spawn_leader(struct executor *x);
/* Makes the child as soon as the launcher says that its cgroup is there, and holds it until GO. */
void spawn_held(struct executor *x);
/* The launcher has said something, or never will. */
void spawn_release(struct executor *x);
/* Puts the leader on record, and only then opens its gate. Nothing while there is none, or it is held. */
void let_through(struct executor *x);
/*
 * Like fork, with a pidfd, and into the cgroup (-1 = none) when it can be: some kernels kill what is born so at once. Returns the pid
 * (0 in the child) or -errno.
 */
pid_t clone_child(int cgroup, int *ret_pidfd, bool *ret_into_cgroup);
/* The leader to be has ended. */
void spawn_lost(struct executor *x);
/* The report pipe is readable. */
void spawn_report(struct executor *x);
/* The leader is about to be reaped: /proc will not show any more what it was. */
void spawn_note_death(struct executor *x);
const char *stage_name(enum stage stage);

/* reap.c */
void reap(struct executor *x);
/* Adopted: the leader's pidfd became readable, or hung up: it was reaped. */
void adopted_leader_event(struct executor *x, uint32_t events);

/* tree.c: signals every process of the tree, best effort; returns how many were there. Signal 0 only counts. */
uint64_t signal_tree(struct executor *x, int signal);
/* True when the kernel says that we have no child, not even a dead one. */
bool no_children(void);

/* kill.c */
int signal_leader(struct executor *x, int signal);
void stop_request(struct executor *x, int signal, uint64_t grace_ms);
void kill_begin(struct executor *x);
/* Has what outlived the leader time left to end by itself? */
bool leftovers_have_time(struct executor *x, uint64_t now);
/* Does what is due; true when nothing of the tree is left. */
bool kill_step(struct executor *x, uint64_t now);
bool tree_is_empty(struct executor *x);
void cgroup_event(struct executor *x);

/* logs.c */
int logs_open(struct executor *x);

/* pump.c; before there is a writer */
int fifos_make(struct executor *x);
int fifos_open(struct executor *x);
void fifos_note_loss(struct executor *x);
void *writer_main(void *executor);

/* turns.c; of the main thread */
/* Starts the writer. Only once there is a task, which is forked from a process of one thread. */
void pump_start(struct executor *x);
/* LOOK_SIGNAL has come. */
void pump_look(struct executor *x);
/* There is output while the writer hangs. */
void pump_late(struct executor *x, uint32_t index);
/* Lets the writer take what is left in the pipes now. True once it has, or was given up. */
bool pump_finish(struct executor *x, uint64_t now);
/* Afterwards: were both streams read to their end? */
bool pump_is_complete(const struct executor *x);

/* wire.c */
int listen_at_sock(struct executor *x);
/* Makes `sock` anew when it is not there, or is not ours. */
void listen_again(struct executor *x);
void accept_clients(struct executor *x);
void client_ready(struct executor *x, uint32_t index);
/* Answers all open WAITs: the record is durable. */
void answer_waits(struct executor *x);
/* Answers all open ENDs with the record, which nobody has written yet. */
void answer_ends(struct executor *x, const char *record, size_t len);

/* usage.c */
struct cpu_time {
	uint64_t user_us, sys_us;
};
struct usage {
	bool has_cpu, has_rss;
	struct cpu_time cpu;
	uint64_t max_rss_kib;
};
struct usage read_usage(const struct executor *x);

/* record.c */
uint32_t crc32_of(const void *data, size_t len);
void status_text(const struct executor *x, struct text *t);
/* Puts another text in the place of `status`, whole at any moment. 0 or -errno. */
int status_write(const struct executor *x);
/* Makes `status.tmp`, so that the next change has no file to make. Best effort. */
void status_reserve(const struct executor *x);
/* Makes exit.tmp and reserves room, so that a full disk cannot swallow the record. Best effort. */
void record_reserve(struct executor *x);
/* Gives the record to those who asked for it, then makes `exit` durable. 0 or -errno. */
int record_write(struct executor *x, bool log_complete);
uint64_t read_oom_kills(const struct executor *x);

/*
 * adopt.c: finds the workload of a run whose executor died. Fills leader and phase; `told` says what came of
 * it.
 */
enum told adopt_find(struct executor *x, struct text *reterr_why);
