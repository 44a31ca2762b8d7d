/*
 * usage.c - how long a run has used the CPU. A cgroup counts all that was ever in it, whoever reaped it, and goes on when the executor is
 * another one; what we reaped ourselves is less: nothing of a process whose parent ignores SIGCHLD.
 */
#define _GNU_SOURCE
#include "executor.h"

#include <string.h>
#include <sys/resource.h>

/* The file NAME in a directory that is the first LEN bytes of PATH. */
static bool read_in(const char *path, size_t len, const char *name, char *buf, size_t cap) {
	char file[4096];
	int n = format_text(file, sizeof file, "%.*s/%s", (int) len, path, name);
	return n > 0 && (size_t) n < sizeof file && read_file_at(-1, file, buf, cap) > 0;
}

/* v2 has these in every cgroup, also where no controller is its own. */
static bool read_v2(const struct executor *x, struct cpu_time *ret_time) {
	char buf[1024];
	return x->spec.cgroup && read_in(x->spec.cgroup, strlen(x->spec.cgroup), "cpu.stat", buf, sizeof buf) &&
	       find_number(buf, "user_usec", ' ', &ret_time->user_us) == 0 &&
	       find_number(buf, "system_usec", ' ', &ret_time->sys_us) == 0;
}

/* v1: if one of the hierarchies that the workload has joined is that of cpuacct. */
static bool read_v1(const struct executor *x, struct cpu_time *ret_time) {
	char user[64], sys[64];
	for (char **procs = x->spec.join_procs; *procs; procs++) {
		const char *slash = strrchr(*procs, '/');
		size_t len = slash ? (size_t) (slash - *procs) : 0;
		if (len == 0 || !read_in(*procs, len, "cpuacct.usage_user", user, sizeof user) ||
		    !read_in(*procs, len, "cpuacct.usage_sys", sys, sizeof sys))
			continue;
		ret_time->user_us = (uint64_t) read_number(user, NULL) / 1000;
		ret_time->sys_us = (uint64_t) read_number(sys, NULL) / 1000;
		return true;
	}
	return false;
}

static uint64_t timeval_us(struct timeval t) {
	return (uint64_t) t.tv_sec * 1000000U + (uint64_t) t.tv_usec;
}

struct usage read_usage(const struct executor *x) {
	struct usage usage = { .has_cpu = false };
	struct rusage reaped;
	/* An adopted tree is reaped by somebody else. */
	if (!x->adopted && getrusage(RUSAGE_CHILDREN, &reaped) == 0) {
		usage.has_cpu = usage.has_rss = true;
		usage.cpu = (struct cpu_time){ timeval_us(reaped.ru_utime), timeval_us(reaped.ru_stime) };
		usage.max_rss_kib = (uint64_t) reaped.ru_maxrss;
	}
	struct cpu_time counted;
	if (read_v2(x, &counted) || read_v1(x, &counted)) {
		usage.has_cpu = true;
		usage.cpu = counted;
	}
	return usage;
}
