/* program.c - see program.h. */
#define _GNU_SOURCE
#include "child.h"
#include "program.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__
/* Looking for leaks at the end stops the world, which a process of a pid namespace of its own waits for in vain. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) {
	return "detect_leaks=0";
}
#endif

bool is_before_exec(const struct proc_stat *stat) {
	return strcmp(stat->comm, EXECUTOR_COMM) == 0 || strcmp(stat->comm, LAUNCHER_COMM) == 0;
}

void program_init(struct executor *x) {
	x->dir = x->lock = x->epoll = x->signals = x->listener = x->told = x->release = -1;
	x->terminal.pidfd = x->terminal.master = x->terminal.slave = x->terminal.ready = -1;
	x->leader.pidfd = x->spawn.report = x->spawn.gate = x->spawn.pidfd = x->cgroup_events = -1;
	x->logs.dir = x->logs.scratch[0] = x->logs.scratch[1] = -1;
	static const char *const names[STREAMS] = { "stdout", "stderr" };
	for (size_t i = 0; i < STREAMS; i++)
		x->logs.streams[i] = (struct stream){ .name = names[i], .fifo = -1, .file = -1 };
	for (size_t i = 0; i < MAX_CLIENTS; i++)
		x->clients[i].fd = -1;
}

int clean_descriptors(void) {
	int fd;
	do {
		fd = open("/dev/null", O_RDWR);
	} while (fd >= 0 && fd < 3);
	if (fd < 0)
		return -errno;
	close_from(3);
	return 0;
}

void set_title(struct executor *x, int argc, char **argv, char **envp, const char *what, const char *title) {
	char *end = argv[0] + strlen(argv[0]) + 1;
	for (int i = 1; i < argc && argv[i] == end; i++)
		end += strlen(argv[i]) + 1;
	for (char **e = envp; *e && *e == end; e++)
		end += strlen(*e) + 1;
	(void) clearenv();
	size_t cap = (size_t) (end - argv[0]);
	memset(argv[0], 0, cap);
	x->title = argv[0];
	x->title_cap = cap;
	(void) format_text(argv[0], cap, "%s: %s", what, title);
	(void) prctl(PR_SET_NAME, EXECUTOR_COMM, 0, 0, 0);
}

int exec_launcher(char *const *argv, char *const *envp, char *ret_path, size_t cap) {
	(void) format_text(ret_path, cap, LAUNCHER_NAME);
	ssize_t n = readlink("/proc/self/exe", ret_path, cap - sizeof LAUNCHER_NAME);
	if (n < 0)
		return -errno;
	if ((size_t) n == cap - sizeof LAUNCHER_NAME)
		return -ENAMETOOLONG;
	/* Of a program that was replaced the name has more behind it, the directory has not. */
	while (n > 0 && ret_path[n - 1] != '/')
		n--;
	memcpy(ret_path + n, LAUNCHER_NAME, sizeof LAUNCHER_NAME);
	(void) execve(ret_path, argv, envp);
	return -errno;
}

_Noreturn void child_failed(const struct child *c, enum stage stage, int error) {
	struct spawn_report rep = { .stage = (int32_t) stage, .errnum = -error, .which = c->which };
	(void) format_text(rep.detail, sizeof rep.detail, "%s", c->detail);
	ssize_t n = write(c->report, &rep, sizeof rep);
	_exit(n == (ssize_t) sizeof rep ? 127 : 126);
}
