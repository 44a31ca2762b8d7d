/*
 * fuzz/frames.c - feeds what comes over the socket. The executor it talks to has a workload that never was: every
 * request is answered, none finds a process. wire.c is included to reach the reading of one client.
 */
#include "../wire.c"
#include "fuzz.h"

#include <stdlib.h>

static struct executor x;
static int ends[2] = { -1, -1 };

static void begin(void) {
	static char *none[] = { NULL };
	x.spec = (struct spec){ .run_id = "0123456789abcdef", .boot_id = "b", .join_procs = none, .self_procs = none };
	x.dir = x.lock = x.listener = x.told = x.leader.pidfd = x.cgroup_events = -1;
	x.spawn.report = x.logs.dir = -1;
	x.phase = PHASE_RUNNING;
	x.leader.ended = true;
	x.epoll = epoll_create1(EPOLL_CLOEXEC);
	for (size_t i = 0; i < STREAMS; i++)
		x.logs.streams[i] = (struct stream){ .name = "stdout", .fifo = -1, .file = -1 };
	for (size_t i = 0; i < MAX_CLIENTS; i++)
		x.clients[i].fd = -1;
	if (x.epoll < 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	struct client *c = &x.clients[0];
	if (!x.spec.run_id)
		begin();
	if (c->fd < 0) {
		close_fd(&ends[0]);
		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) < 0)
			abort();
		if (watch(&x, ends[1], EPOLLIN, SOURCE_CLIENT, 0) < 0)
			abort();
		*c = (struct client){ .fd = ends[1], .buf = buffers[0] };
	}
	/* In two pieces, as a stream may come. */
	for (size_t at = 0; c->fd >= 0 && at < size;) {
		size_t room = CLIENT_BUF - c->len, n = at == 0 && size > 1 ? size / 2 : size - at;
		n = n < room ? n : room;
		memcpy(c->buf + c->len, data + at, n);
		c->len += n;
		at += n;
		serve(&x, c);
		if (c->len >= CLIENT_BUF)
			abort(); /* A whole frame fits: it would never be served. */
	}
	char answers[8192];
	while (recv(ends[0], answers, sizeof answers, MSG_DONTWAIT) > 0)
		;
	if (c->fd >= 0)
		drop_client(&x, c);
	x.stop = (struct stop){ 0 };
	x.phase = PHASE_RUNNING;
	return 0;
}
