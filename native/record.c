/*
 * record.c - the two files that say what became of a run. `status` is for whoever looks while it runs and is
 * swapped for another without fsync: after a power cut the boot id says that it is stale. `exit` is durable before
 * anybody is told but those who ask for the record itself, to make it durable themselves.
 * A little over 300 lines because both files, which whoever finds a run reads together, are written here.
 */
#define _GNU_SOURCE
#include "executor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Of most disks. On one of larger ones a record is written as any other file. */
#define SECTOR 512U
#define RECORD_FLAGS (O_RDWR | O_CLOEXEC | O_NOFOLLOW)
/* crc32=12345678 and its end. */
#define CRC_LINE 15U
/* RENAME_EXCHANGE, where the C library does not know it. */
#define SWAP 2U

uint32_t crc32_of(const void *data, size_t len) {
	const uint8_t *p = data;
	uint32_t crc = ~UINT32_C(0);
	for (size_t i = 0; i < len; i++) {
		crc ^= p[i];
		for (int bit = 0; bit < 8; bit++)
			crc = (crc >> 1) ^ (UINT32_C(0xEDB88320) & (0U - (crc & 1U)));
	}
	return ~crc;
}

static const char *state_name(const struct executor *x) {
	/* Nothing has run, and nothing of it is on record: whoever finds that takes it for never started. */
	if (x->given_up || (x->phase == PHASE_ENDING && x->leader.pid == 0))
		return "ready";
	switch (x->phase) {
	case PHASE_READY:
		return "ready";
	case PHASE_STARTING:
		return x->stop.asked ? "stopping" : "starting";
	case PHASE_RUNNING:
		return x->stop.asked ? "stopping" : "running";
	case PHASE_ENDING:
		return "stopping";
	case PHASE_RECORDING:
	case PHASE_DONE:
		break;
	}
	return x->outcome.result == RESULT_START_FAILED ? "failed" : "exited";
}

static void add_number(struct text *t, const char *key, uint64_t value) {
	text_add(t, "%s=%llu\n", key, (unsigned long long) value);
}

static void add_leader(struct text *t, const struct leader *leader) {
	if (leader->pid == 0)
		return;
	add_number(t, "pid", (uint64_t) leader->pid);
	add_number(t, "pid_start", leader->start_ticks);
	add_number(t, "started_at_ns", leader->started_at_ns);
	add_number(t, "started_mono_ns", leader->started_mono_ns);
}

static void add_names(struct text *t, const struct executor *x) {
	text_add_value(t, "run_id", x->spec.run_id);
	text_add_value(t, "boot_id", x->spec.boot_id);
	text_add_value(t, "version", HOLDFAST_VERSION);
}

static void add_streams(struct text *t, const struct executor *x) {
	for (size_t i = 0; i < STREAMS; i++) {
		const struct stream *s = &x->logs.streams[i];
		text_add(t, "%s_bytes=%llu\n", s->name, (unsigned long long) s->bytes);
		text_add(t, "%s_dropped=%llu\n", s->name, (unsigned long long) s->dropped);
	}
}

/* What does not die, and in which function of the kernel it waits. */
static void add_stuck(struct text *t, const struct killing *k) {
	char buf[MAX_STUCK * (sizeof k->stuck[0] + 32)] = "";
	struct text list = { .at = buf, .cap = sizeof buf };
	if (k->stuck_count == 0)
		return;
	for (uint64_t i = 0; i < k->stuck_count && i < MAX_STUCK; i++)
		text_add(&list, "%s%d (%s) in %s", i > 0 ? ", " : "", k->stuck[i].pid, k->stuck[i].comm, k->stuck[i].where);
	add_number(t, "stuck_count", k->stuck_count);
	text_add_value(t, "stuck", buf);
}

void status_text(const struct executor *x, struct text *t) {
	text_add(t, "holdfast_status=1\n");
	add_names(t, x);
	text_add_value(t, "state", state_name(x));
	add_number(t, "executor_pid", (uint64_t) x->pid);
	add_number(t, "executor_start", x->start_ticks);
	add_leader(t, &x->leader);
	if (x->init.pid != 0) {
		add_number(t, "init_pid", (uint64_t) x->init.pid);
		add_number(t, "init_start", x->init.start_ticks);
	}
	if (x->terminal.pid != 0) {
		add_number(t, "tty_pid", (uint64_t) x->terminal.pid);
		add_number(t, "tty_start", x->terminal.start_ticks);
	}
	add_streams(t, x);
	add_stuck(t, &x->killing);
	if (x->adopted)
		text_add(t, "adopted=1\n");
	if (x->adopted_before_exec)
		text_add(t, "exec_unseen=1\n");
	if (x->self_procs_error != 0)
		add_number(t, "self_procs_errno", (uint64_t) x->self_procs_error);
}

/*
 * In ps as well. What stays the same is written over itself: whoever looks for us by our title must find it at any moment.
 */
static void show_state(const struct executor *x) {
	int n = format_text(x->title, x->title_cap, "holdfast-executor: %s %s",
			    x->spec.title ? x->spec.title : x->spec.run_id, state_name(x));
	if ((size_t) n < x->title_cap)
		memset(x->title + n, 0, x->title_cap - (size_t) n);
}

static int create_next(const struct executor *x) {
	return openat(x->dir, "status.tmp", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
}

/*
 * A file for the next text. `status.tmp` as the last change left it was `status` before that: whoever opened it then may
 * still be about to read. A write lease is had only while nobody else has the file open. Without one, a new file takes its place.
 */
static int open_next(const struct executor *x) {
	int fd = openat(x->dir, "status.tmp", O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd >= 0 && fcntl(fd, F_SETLEASE, F_WRLCK) == 0)
		return fd;
	close_fd(&fd);
	(void) unlinkat(x->dir, "status.tmp", 0);
	return create_next(x);
}

static int fill(int fd, const struct text *t) {
	struct stat st;
	int r = write_full(fd, t->at, t->len);
	if (r < 0)
		return r;
	return fstat(fd, &st) < 0 || ((size_t) st.st_size > t->len && ftruncate(fd, (off_t) t->len) < 0) ? -errno : 0;
}

/*
 * Makes the second file before there is a hurry. Its blocks, and those of the first one, are not asked for: a file that was never
 * written out when its run ends never has any.
 */
void status_reserve(const struct executor *x) {
	char buf[STATUS_CAP];
	struct text t = { .at = buf, .cap = sizeof buf };
	AUTO_FD fd = create_next(x);
	status_text(x, &t);
	if (fd >= 0)
		(void) fill(fd, &t);
}

/*
 * Two files take turns: making one, and removing another, takes longer than all else here. The first text has nothing to
 * swap with; nor has any where the file system, or the kernel, does not know how: then the new file replaces the old one.
 */
int status_write(const struct executor *x) {
	char buf[STATUS_CAP];
	struct text t = { .at = buf, .cap = sizeof buf };
	show_state(x);
	status_text(x, &t);
	AUTO_FD fd = open_next(x);
	if (fd < 0)
		return -errno;
	int r = fill(fd, &t);
	/* Before it is `status`: a lease on that would hold up who opens it for as long as we are stopped. */
	close_fd(&fd);
	if (r < 0)
		return r;
	if (syscall(SYS_renameat2, x->dir, "status.tmp", x->dir, "status", SWAP) == 0)
		return 0;
	return renameat(x->dir, "status.tmp", x->dir, "status") < 0 ? -errno : 0;
}

uint64_t read_oom_kills(const struct executor *x) {
	char buf[1024];
	uint64_t kills = 0;
	/* v2 memory.events and v1 memory.oom_control call the counter by the same name. */
	if (!x->spec.memory_events || read_file_at(-1, x->spec.memory_events, buf, sizeof buf) < 0 ||
	    find_number(buf, "oom_kill", ' ', &kills) < 0)
		return x->oom_kills_before;
	return kills;
}

/* How often memory was at its limit: v1 has a file for it, v2 counts it with the other events. */
static uint64_t read_memory_hits(const struct executor *x) {
	char buf[1024];
	uint64_t hits = 0;
	if (x->spec.memory_hits && read_file_at(-1, x->spec.memory_hits, buf, sizeof buf) >= 0 &&
	    find_number(buf, "max", ' ', &hits) < 0)
		hits = (uint64_t) read_number(buf, NULL);
	return hits;
}

static uint64_t read_memory_peak(const struct executor *x) {
	char buf[64];
	if (!x->spec.memory_peak || read_file_at(-1, x->spec.memory_peak, buf, sizeof buf) < 0)
		return 0;
	return (uint64_t) read_number(buf, NULL);
}

static void add_outcome(struct text *t, const struct outcome *o) {
	switch (o->result) {
	case RESULT_EXITED:
		text_add(t, "result=exited\ncode=%d\n", o->code);
		break;
	case RESULT_SIGNALED:
		text_add(t, "result=signaled\nsignal=%d\ncore=%d\n", o->signal, o->core ? 1 : 0);
		break;
	case RESULT_UNKNOWN:
		text_add(t, "result=unknown\nreason=supervision_lost\n");
		break;
	case RESULT_START_FAILED:
		text_add(t, "result=start_failed\nstage=%s\nerrno=%d\n", stage_name(o->stage), o->errnum);
		text_add_value(t, "detail", o->detail ? o->detail : "");
		break;
	}
	if (o->how)
		text_add_value(t, "how", o->how);
}

/* What nobody has measured is not said. */
static void add_usage(struct text *t, const struct executor *x) {
	struct usage usage = read_usage(x);
	if (usage.has_cpu) {
		add_number(t, "cpu_user_us", usage.cpu.user_us);
		add_number(t, "cpu_sys_us", usage.cpu.sys_us);
	}
	if (usage.has_rss)
		add_number(t, "max_rss_kib", usage.max_rss_kib);
}

static void add_evidence(struct text *t, const struct executor *x, bool log_complete) {
	static const char *const stop_stages[] = { "none", "signal", "kill" };
	if (x->stop.asked) {
		add_number(t, "stop_signal", (uint64_t) x->stop.signal);
		text_add_value(t, "stop_stage", stop_stages[x->stop.stage]);
	}
	add_number(t, "oom_kills", read_oom_kills(x) - x->oom_kills_before);
	add_number(t, "leader_oom", x->leader_oom ? 1 : 0);
	if (x->spec.memory_hits)
		add_number(t, "memory_limit_hits", read_memory_hits(x));
	const struct killing *k = &x->killing;
	add_number(t, "leftovers_killed", k->seen > k->reaped ? k->seen : k->reaped);
	add_usage(t, x);
	add_number(t, "memory_peak_bytes", read_memory_peak(x));
	add_number(t, "log_complete", log_complete ? 1 : 0);
	add_streams(t, x);
}

static void record_text(const struct executor *x, bool log_complete, struct text *t) {
	text_add(t, "holdfast_exit=1\n");
	add_names(t, x);
	add_outcome(t, &x->outcome);
	if (x->adopted)
		text_add(t, "adopted=1\n");
	if (x->outcome.result != RESULT_START_FAILED) {
		add_leader(t, &x->leader);
		add_number(t, "ended_at_ns", x->leader.ended_at_ns);
		add_number(t, "ended_mono_ns", x->leader.ended_mono_ns);
	}
	add_evidence(t, x, log_complete);
	/* So that the length is a multiple of a sector, see fill_record(). What is written here is far from the cap. */
	text_add(t, "pad=");
	for (size_t left = SECTOR - (t->len + 1 + CRC_LINE) % SECTOR; left > 0; left--)
		text_add(t, " ");
	text_add(t, "\n");
	text_add(t, "crc32=%08x\n", crc32_of(t->at, t->len));
}

void record_reserve(struct executor *x) {
	AUTO_FD fd = openat(x->dir, "exit.tmp", RECORD_FLAGS | O_CREAT, 0600);
	/* Its size stays as it is: to cut it back later would cost more than the write. */
	if (fd >= 0)
		(void) fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, RECORD_CAP);
}

/*
 * Past the page cache where that goes: what the kernel writes out of it into blocks that were reserved is only done when one of its workers
 * has said so, which may have to wait for a CPU for milliseconds. Where the kernel does not take it as direct the disk is waited for here.
 */
static int fill_record(int fd, const struct text *t) {
	struct stat st;
	bool is_direct = fcntl(fd, F_SETFL, O_DIRECT) == 0 && pwrite(fd, t->at, t->len, 0) == (ssize_t) t->len;
	if (!is_direct) {
		int r = fcntl(fd, F_SETFL, 0) < 0 ? -errno : write_full(fd, t->at, t->len);
		if (r < 0)
			return r;
	}
	/* One that was killed meanwhile may have left more. */
	if (fstat(fd, &st) < 0 || ((size_t) st.st_size > t->len && ftruncate(fd, (off_t) t->len) < 0))
		return -errno;
	return is_direct || fsync(fd) == 0 ? 0 : -errno;
}

/*
 * The name comes before the one wait for the disk: a name that outlives a power cut names what was written before it, as long as file systems
 * keep their own order; where one does not, the checksum says so, and the run counts as one whose end nobody has seen.
 * A disk that fails after that is given the same bytes again, in the same place: there is no other room for them.
 */
int record_write(struct executor *x, bool log_complete) {
	static _Alignas(SECTOR) char buf[RECORD_CAP];
	static struct text t;
	static bool is_named;
	if (!t.at) {
		t = (struct text){ .at = buf, .cap = sizeof buf };
		record_text(x, log_complete, &t);
	}
	answer_ends(x, t.at, t.len);
	struct stat st;
	if (fstat(x->dir, &st) == 0 && st.st_nlink == 0)
		return 0; /* The run directory was removed: nobody is left who could read it. */
	AUTO_FD fd = openat(x->dir, is_named ? "exit" : "exit.tmp", RECORD_FLAGS | (is_named ? 0 : O_CREAT), 0600);
	if (fd < 0)
		/* Likewise when it is gone: whoever has found it removes the directory. */
		return is_named && errno == ENOENT ? 0 : -errno;
	int r = fill_record(fd, &t);
	if (r < 0)
		return r;
	if (!is_named && renameat(x->dir, "exit.tmp", x->dir, "exit") < 0)
		return -errno;
	is_named = true;
	return fsync(fd) < 0 || fsync(x->dir) < 0 ? -errno : 0;
}
