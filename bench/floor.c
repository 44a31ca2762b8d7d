/* What the bench measures against: the same things done by the least C that does them, and the workloads that stamp
 * the time. Not part of holdfast. Times are CLOCK_MONOTONIC in nanoseconds, as Node's process.hrtime.
 *
 *   floor stamp FILE            appends "start <ns>" as its first act
 *   floor crash FILE            the same, then appends "end <ns>" and exits with 1
 *   floor lines BYTES           writes that many bytes of 100-byte lines to stdout
 *   floor splice OUT PROGRAM... the least shim: runs PROGRAM with a pipe for its stdout, splices that into the file OUT, reaps it
 *   floor start N FILE          N times: forks, execs `stamp FILE`; prints each time in nanoseconds from before the fork to the stamp
 *   floor shims N OUT FILE      the same with a shim a task: forks, execs `splice OUT stamp FILE`
 *   floor restart N RECORD FILE keeps `crash FILE` running, N times, with an fsync in between
 *   floor wait FILE             stamps its start, then waits for SIGINT or SIGTERM, stamps "end <ns>" and exits
 *   floor burst N FILE          N times `wait FILE` at once; prints the time to the last start, and ends them
 *   floor shim-burst N OUT FILE the same with a shim a task, each with a file of its own
 *   floor stop N FILE           N times: starts `wait FILE`, and prints the time from SIGINT to its being reaped
 *   floor record N DIR FILE     N times: `crash FILE`, then a record made durable in DIR (temp, rename, fsync of it and of the
 *                               directory); prints the time from the end that was stamped to that
 *   floor ask N DIR             sends its standard input to the socket `sock` in DIR; prints when the last of N answers came, each of them
 *                               its length in 4 bytes, and so many more
 *   floor date N RECORD         N times: a record, then `/bin/date +%s%N`; prints the time to what that says
 *   floor shim                  starts a sleeping child and waits for it in epoll: the least that can supervise
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int64_t now_ns(void) {
	struct timespec ts;
	(void) clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t) ts.tv_sec * 1000000000 + ts.tv_nsec;
}

_Noreturn static void die(const char *what) {
	perror(what);
	exit(70);
}

static void append(const char *path, const char *text, int sync) {
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (fd < 0 || write(fd, text, strlen(text)) < 0 || (sync && fsync(fd) < 0))
		die(path);
	(void) close(fd);
}

static void stamp(const char *path, const char *what, int64_t at) {
	char line[64];
	(void) snprintf(line, sizeof line, "%s %" PRId64 "\n", what, at);
	append(path, line, 0);
}

/* One record of the size of a small transaction. */
static void record(const char *path) {
	char text[4097];
	memset(text, 'r', sizeof text - 1);
	text[sizeof text - 1] = '\0';
	append(path, text, 1);
}

static pid_t spawn(char *const argv[]) {
	pid_t pid = fork();
	if (pid < 0)
		die("fork");
	if (pid == 0) {
		(void) execv("/proc/self/exe", argv);
		_exit(127);
	}
	return pid;
}

static void await(pid_t pid) {
	while (waitpid(pid, NULL, 0) < 0)
		if (errno != EINTR)
			die("waitpid");
}

/* The stamp of the newest line of the file. */
static int64_t last_stamp(const char *path) {
	char text[64] = "";
	int64_t at = 0;
	FILE *file = fopen(path, "re");
	if (!file)
		die(path);
	while (fgets(text, sizeof text, file))
		at = strtoll(strchr(text, ' ') ? strchr(text, ' ') : "0", NULL, 10);
	(void) fclose(file);
	return at;
}

static void measure_starts(int count, char *out, char *file) {
	char *const task[] = { "floor", "stamp", file, NULL };
	char *const shim[] = { "floor", "splice", out, "/proc/self/exe", "stamp", file, NULL };
	for (int i = 0; i < count; i++) {
		int64_t from = now_ns();
		await(spawn(out ? shim : task));
		printf("%" PRId64 "\n", last_stamp(file) - from);
	}
}

static void keep_running(int count, const char *record_path, char *file) {
	char *const argv[] = { "floor", "crash", file, NULL };
	for (int i = 0; i < count; i++) {
		await(spawn(argv));
		record(record_path);
	}
}

/* How many lines the file has; 0 when it is not there. */
static int count_lines(const char *path) {
	int lines = 0;
	FILE *file = fopen(path, "re");
	for (int c = 0; file && (c = getc(file)) != EOF;)
		lines += c == '\n';
	if (file)
		(void) fclose(file);
	return lines;
}

static void burst(int count, const char *out, char *file) {
	char *const task[] = { "floor", "wait", file, NULL };
	sigset_t end;
	/* A group of our own, which is ended as one. */
	(void) unlink(file);
	(void) setpgid(0, 0);
	int64_t from = now_ns();
	for (int i = 0; i < count; i++) {
		char own[4096];
		char *const shim[] = { "floor", "splice", own, "/proc/self/exe", "wait", file, NULL };
		(void) snprintf(own, sizeof own, "%s-%d", out ? out : "", i);
		(void) spawn(out ? shim : task);
	}
	while (count_lines(file) < count)
		(void) usleep(10000);
	int64_t last = last_stamp(file);
	(void) sigemptyset(&end);
	(void) sigaddset(&end, SIGTERM);
	(void) sigprocmask(SIG_BLOCK, &end, NULL);
	(void) kill(0, SIGTERM);
	while (wait(NULL) > 0)
		;
	printf("%" PRId64 "\n", last - from);
}

/* The whole life of the least shim. */
static void supervise_output(const char *out, char *const argv[]) {
	int pipes[2], file = open(out, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (file < 0 || pipe2(pipes, O_CLOEXEC) < 0)
		die(out);
	pid_t pid = fork();
	if (pid < 0)
		die("fork");
	if (pid == 0) {
		(void) dup2(pipes[1], STDOUT_FILENO);
		(void) execv(argv[0], argv);
		_exit(127);
	}
	(void) close(pipes[1]);
	ssize_t n;
	while ((n = splice(pipes[0], NULL, file, NULL, 1 << 20, SPLICE_F_MOVE)) != 0)
		if (n < 0 && errno != EINTR)
			die("splice");
	await(pid);
}

static void wait_for_end(const char *file, int64_t first) {
	sigset_t set;
	int signal;
	(void) sigemptyset(&set);
	(void) sigaddset(&set, SIGINT);
	(void) sigaddset(&set, SIGTERM);
	(void) sigprocmask(SIG_BLOCK, &set, NULL);
	stamp(file, "start", first);
	(void) sigwait(&set, &signal);
	stamp(file, "end", now_ns());
}

static void measure_stops(int count, char *file) {
	char *const argv[] = { "floor", "wait", file, NULL };
	for (int i = 0; i < count; i++) {
		(void) unlink(file);
		pid_t pid = spawn(argv);
		while (access(file, F_OK) < 0)
			(void) usleep(100);
		int64_t from = now_ns();
		(void) kill(pid, SIGINT);
		await(pid);
		printf("%" PRId64 "\n", now_ns() - from);
	}
}

static void measure_records(int count, const char *dir, char *file) {
	static char text[4096];
	char *const argv[] = { "floor", "crash", file, NULL };
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || chdir(dir) < 0)
		die(dir);
	for (int i = 0; i < count; i++) {
		await(spawn(argv));
		int record = open("exit.tmp", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		if (record < 0 || write(record, text, sizeof text) != (ssize_t) sizeof text || rename("exit.tmp", "exit") < 0 ||
		    fsync(record) < 0 || fsync(fd) < 0)
			die("exit");
		printf("%" PRId64 "\n", now_ns() - last_stamp(file));
		(void) close(record);
		(void) unlink("exit");
	}
}

static void ask(int count, const char *dir) {
	struct sockaddr_un address = { .sun_family = AF_UNIX, .sun_path = "sock" };
	static char buf[1 << 20];
	size_t len = 0, end = 0;
	ssize_t n;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (chdir(dir) < 0 || fd < 0 || connect(fd, (struct sockaddr *) &address, sizeof address) < 0)
		die(dir);
	while ((n = read(STDIN_FILENO, buf, sizeof buf)) > 0) {
		if (write(fd, buf, (size_t) n) != n)
			die(dir);
	}
	while (count > 0 && (n = read(fd, buf + len, sizeof buf - len)) > 0) {
		int64_t now = now_ns();
		uint32_t size;
		len += (size_t) n;
		while (len >= end + sizeof size && (memcpy(&size, buf + end, sizeof size), len >= end + sizeof size + size)) {
			end += sizeof size + size;
			if (--count == 0)
				printf("%" PRId64 "\n", now);
		}
	}
	if (count > 0)
		die("an answer did not come");
}

static void measure_dates(int count, const char *record_path) {
	for (int i = 0; i < count; i++) {
		struct timespec from;
		char text[64] = "";
		int pipes[2];
		(void) clock_gettime(CLOCK_REALTIME, &from);
		record(record_path);
		if (pipe(pipes) < 0)
			die("pipe");
		pid_t pid = fork();
		if (pid == 0) {
			(void) dup2(pipes[1], STDOUT_FILENO);
			(void) execl("/bin/date", "date", "+%s%N", (char *) NULL);
			_exit(127);
		}
		(void) close(pipes[1]);
		if (pid < 0 || read(pipes[0], text, sizeof text - 1) <= 0)
			die("date");
		(void) close(pipes[0]);
		await(pid);
		printf("%lld\n", strtoll(text, NULL, 10) - ((long long) from.tv_sec * 1000000000 + from.tv_nsec));
	}
}

static void write_lines(long long bytes) {
	static char block[100 * 640];
	for (size_t i = 0; i < sizeof block; i++)
		block[i] = i % 100 == 99 ? '\n' : 'x';
	while (bytes > 0) {
		ssize_t n = write(STDOUT_FILENO, block, sizeof block);
		if (n < 0)
			die("write");
		bytes -= n;
	}
}

static void supervise(void) {
	sigset_t set;
	(void) sigemptyset(&set);
	(void) sigaddset(&set, SIGCHLD);
	(void) sigprocmask(SIG_BLOCK, &set, NULL);
	pid_t pid = fork();
	if (pid < 0)
		die("fork");
	if (pid == 0) {
		(void) execl("/bin/sleep", "sleep", "1000", (char *) NULL);
		_exit(127);
	}
	int signals = signalfd(-1, &set, SFD_CLOEXEC), loop = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event event = { .events = EPOLLIN };
	if (signals < 0 || loop < 0 || epoll_ctl(loop, EPOLL_CTL_ADD, signals, &event) < 0)
		die("epoll");
	(void) dprintf(STDOUT_FILENO, "%d\n", (int) pid);
	while (epoll_wait(loop, &event, 1, -1) < 0 && errno == EINTR)
		;
	await(pid);
}

int main(int argc, char **argv) {
	int64_t first = now_ns();
	const char *what = argc > 1 ? argv[1] : "";
	if (argc == 3 && !strcmp(what, "stamp")) {
		stamp(argv[2], "start", first);
	} else if (argc == 3 && !strcmp(what, "crash")) {
		stamp(argv[2], "start", first);
		stamp(argv[2], "end", now_ns());
		return 1;
	} else if (argc == 3 && !strcmp(what, "lines")) {
		write_lines(atoll(argv[2]));
	} else if (argc >= 4 && !strcmp(what, "splice")) {
		supervise_output(argv[2], argv + 3);
	} else if (argc == 4 && !strcmp(what, "start")) {
		measure_starts(atoi(argv[2]), NULL, argv[3]);
	} else if (argc == 5 && !strcmp(what, "shims")) {
		measure_starts(atoi(argv[2]), argv[3], argv[4]);
	} else if (argc == 5 && !strcmp(what, "restart")) {
		keep_running(atoi(argv[2]), argv[3], argv[4]);
	} else if (argc == 3 && !strcmp(what, "wait")) {
		wait_for_end(argv[2], first);
	} else if (argc == 4 && !strcmp(what, "burst")) {
		burst(atoi(argv[2]), NULL, argv[3]);
	} else if (argc == 5 && !strcmp(what, "shim-burst")) {
		burst(atoi(argv[2]), argv[3], argv[4]);
	} else if (argc == 4 && !strcmp(what, "stop")) {
		measure_stops(atoi(argv[2]), argv[3]);
	} else if (argc == 5 && !strcmp(what, "record")) {
		measure_records(atoi(argv[2]), argv[3], argv[4]);
	} else if (argc == 4 && !strcmp(what, "ask")) {
		ask(atoi(argv[2]), argv[3]);
	} else if (argc == 4 && !strcmp(what, "date")) {
		measure_dates(atoi(argv[2]), argv[3]);
	} else if (argc == 2 && !strcmp(what, "shim")) {
		supervise();
	} else {
		return 64;
	}
	return 0;
}
