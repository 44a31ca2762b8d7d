/*
 * notify.c - `holdfast-executor notify`: sends what it reads to the service manager, because the agent's runtime has
 * no datagram sockets. Lives as long as its standard input and decides nothing. What the manager does not take is
 * lost: a service must run just as well when nobody wants to hear of it.
 */
#define _GNU_SOURCE
#include "notify.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "util.h"

/* A manager that is stuck must not make us stuck: systemd itself is given so long. */
#define SEND_SECONDS 5
/* Longest message; the agent's are far shorter. */
#define MOST_BYTES 4096

/* `/path` or `@abstract`. Returns the length of the address, or -errno. */
static int address_of(const char *name, struct sockaddr_un *ret) {
	size_t len = name ? strlen(name) : 0;
	if (len < 2 || (name[0] != '/' && name[0] != '@'))
		return -EINVAL;
	if (len >= sizeof ret->sun_path)
		return -ENAMETOOLONG;
	*ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
	memcpy(ret->sun_path, name, len);
	if (name[0] == '/')
		return (int) (offsetof(struct sockaddr_un, sun_path) + len + 1);
	ret->sun_path[0] = '\0';
	return (int) (offsetof(struct sockaddr_un, sun_path) + len);
}

/* One refusal is told once, not every few seconds. */
static void send_message(int fd, const struct sockaddr_un *to, socklen_t to_len, const char *message, size_t len) {
	static int told;
	ssize_t n;
	do {
		n = sendto(fd, message, len, MSG_NOSIGNAL, (const struct sockaddr *) to, to_len);
	} while (n < 0 && errno == EINTR);
	int error = n < 0 ? errno : 0;
	if (error != 0 && error != told)
		say("holdfast-executor: NOTIFY_SOCKET: %s\n", strerror(error));
	told = error;
}

int notify(const char *socket_name) {
	/* The terminal's and the manager's signals are for the agent; its end is our end of file. */
	static const int ignored[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE, SIGTSTP, SIGTTIN, SIGTTOU };
	for (size_t i = 0; i < ARRAY_LEN(ignored); i++)
		(void) signal(ignored[i], SIG_IGN);
	struct sockaddr_un to;
	int to_len = address_of(socket_name, &to);
	AUTO_FD fd = to_len < 0 ? -1 : socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0) {
		int error = to_len < 0 ? -to_len : errno;
		say("holdfast-executor: NOTIFY_SOCKET: %s\n", strerror(error));
		return 1;
	}
	const struct timeval patience = { .tv_sec = SEND_SECONDS };
	(void) setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
	char buf[MOST_BYTES];
	size_t have = 0;
	for (;;) {
		ssize_t n = read(STDIN_FILENO, buf + have, sizeof buf - have);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n == 0 ? 0 : 1;
		have += (size_t) n;
		size_t done = 0;
		for (char *end; (end = memchr(buf + done, '\0', have - done)); done = (size_t) (end - buf) + 1)
			send_message(fd, &to, (socklen_t) to_len, buf + done, (size_t) (end - buf) - done);
		have -= done;
		memmove(buf, buf + done, have);
		if (have == sizeof buf) {
			say("holdfast-executor: a message is too long\n");
			return 1;
		}
	}
}
