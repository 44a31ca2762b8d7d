/*
 * wire.c - the socket: frames in, replies out (see README.md, "Frames"). A malformed frame costs its sender
 * the connection and nobody anything else. Replies are small and are never queued: who does not read them is
 * let go. Over 300 lines because every request and its reply stand here, in the order of README.md.
 */
#define _GNU_SOURCE
#include "executor.h"
#include "tlv.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define REPLY_CAP (STATUS_CAP + 512U)
#define HEADER 8U
#define BACKLOG 16
/* How long accepting rests after it failed for want of descriptors or memory. */
#define LISTEN_REST_NS NS_PER_SEC

enum frame_type {
	FRAME_HELLO = 1,
	FRAME_STATUS,
	FRAME_GO,
	FRAME_SIGNAL,
	FRAME_STOP,
	FRAME_WAIT,
	FRAME_END,
	FRAME_ERROR = 0x7fff,
	FRAME_REPLY = 0x8000
};

enum frame_tag {
	F_RUN_ID = 1,
	F_PROTOCOL,
	F_VERSION,
	F_PID,
	F_START,
	F_STATUS,
	F_SIGNAL,
	F_TARGET,
	F_GRACE_MS,
	F_ERRNO,
	F_TEXT,
	F_RECORD
};

static uint8_t buffers[MAX_CLIENTS][CLIENT_BUF];

/* A request, taken apart. Absent integers are -1. */
struct request {
	uint16_t type, id;
	const uint8_t *run_id;
	size_t run_id_len;
	int64_t signal, target, grace_ms;
};

struct reply {
	uint8_t bytes[REPLY_CAP];
	size_t len;
};

static void add_field(struct reply *r, uint16_t tag, const void *data, size_t len) {
	if (len > sizeof r->bytes - r->len - TLV_HEADER)
		return;
	uint8_t *at = r->bytes + r->len;
	put_le16(at, tag);
	put_le16(at + 2, 0);
	put_le32(at + 4, (uint32_t) len);
	memcpy(at + TLV_HEADER, data, len);
	r->len += TLV_HEADER + len;
}

static void add_string(struct reply *r, uint16_t tag, const char *value) {
	add_field(r, tag, value, strlen(value));
}

static void add_int(struct reply *r, uint16_t tag, int64_t value) {
	uint8_t bytes[8];
	put_le64(bytes, (uint64_t) value);
	add_field(r, tag, bytes, sizeof bytes);
}

static void drop_client(struct executor *x, struct client *c) {
	close_watched(x, &c->fd);
	c->waiting = c->ending = false;
	c->len = 0;
}

/* What stands before the fields. `len` is that of all. */
static void put_header(uint8_t *at, size_t len, uint16_t type, uint16_t id) {
	put_le32(at, (uint32_t) (len - 4));
	put_le16(at + 4, (uint16_t) (type | FRAME_REPLY));
	put_le16(at + 6, id);
}

static void send_reply(struct executor *x, struct client *c, uint16_t type, uint16_t id, struct reply *r) {
	put_header(r->bytes, r->len, type, id);
	if (send(c->fd, r->bytes, r->len, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t) r->len)
		drop_client(x, c);
}

static void send_error(struct executor *x, struct client *c, uint16_t id, int errnum) {
	struct reply r = { .len = HEADER };
	add_int(&r, F_ERRNO, errnum);
	add_string(&r, F_TEXT, strerror(errnum));
	send_reply(x, c, FRAME_ERROR, id, &r);
}

static void send_result(struct executor *x, struct client *c, const struct request *q, int result) {
	struct reply r = { .len = HEADER };
	if (result < 0)
		send_error(x, c, q->id, -result);
	else
		send_reply(x, c, q->type, q->id, &r);
}

static void on_hello(struct executor *x, struct client *c, const struct request *q) {
	size_t len = strlen(x->spec.run_id);
	if (!q->run_id || q->run_id_len != len || memcmp(q->run_id, x->spec.run_id, len) != 0) {
		send_error(x, c, q->id, ESTALE);
		drop_client(x, c);
		return;
	}
	struct reply r = { .len = HEADER };
	add_string(&r, F_RUN_ID, x->spec.run_id);
	add_int(&r, F_PROTOCOL, PROTOCOL_VERSION);
	add_string(&r, F_VERSION, HOLDFAST_VERSION);
	add_int(&r, F_PID, x->pid);
	add_int(&r, F_START, (int64_t) x->start_ticks);
	send_reply(x, c, q->type, q->id, &r);
}

static void on_status(struct executor *x, struct client *c, const struct request *q) {
	char buf[STATUS_CAP];
	struct text t = { .at = buf, .cap = sizeof buf };
	status_text(x, &t);
	struct reply r = { .len = HEADER };
	add_field(&r, F_STATUS, t.at, t.len);
	send_reply(x, c, q->type, q->id, &r);
}

static bool is_signal(int64_t n, int64_t lowest) {
	return n >= lowest && n <= SIGRTMAX;
}

static void on_signal(struct executor *x, struct client *c, const struct request *q) {
	int result;
	if (!is_signal(q->signal, 1) || q->target > 1)
		result = -EINVAL;
	else if (q->target == 1 && x->leader.pid != 0)
		result = signal_tree(x, (int) q->signal) > 0 ? 0 : -ESRCH;
	else
		result = signal_leader(x, (int) q->signal);
	send_result(x, c, q, result);
}

static void on_stop(struct executor *x, struct client *c, const struct request *q) {
	if (!is_signal(q->signal, 0) || q->grace_ms < 0) {
		send_result(x, c, q, -EINVAL);
		return;
	}
	stop_request(x, (int) q->signal, (uint64_t) q->grace_ms);
	send_result(x, c, q, 0);
}

static void on_request(struct executor *x, struct client *c, const struct request *q) {
	switch (q->type) {
	case FRAME_HELLO:
		on_hello(x, c, q);
		return;
	case FRAME_STATUS:
		on_status(x, c, q);
		return;
	case FRAME_GO:
		go(x);
		send_result(x, c, q, 0);
		return;
	case FRAME_SIGNAL:
		on_signal(x, c, q);
		return;
	case FRAME_STOP:
		on_stop(x, c, q);
		return;
	case FRAME_WAIT:
	case FRAME_END: {
		bool *open = q->type == FRAME_WAIT ? &c->waiting : &c->ending;
		if (*open) {
			send_error(x, c, q->id, EBUSY);
			return;
		}
		*open = true;
		*(q->type == FRAME_WAIT ? &c->wait_request : &c->end_request) = q->id;
		return;
	}
	default:
		send_error(x, c, q->id, EOPNOTSUPP);
		return;
	}
}

/* Takes one frame (what follows its length) apart. 0, or -1 when it is malformed. */
static int parse_request(const uint8_t *frame, size_t len, struct request *ret_request) {
	struct request q = { .type = le16(frame), .id = le16(frame + 2), .signal = -1, .grace_ms = -1 };
	const uint8_t *at = frame + 4, *end = frame + len;
	struct tlv_field f;
	int more, bad = 0;
	while ((more = tlv_next(&at, end, &f)) > 0) {
		switch (f.tag) {
		case F_RUN_ID:
			q.run_id = f.data;
			q.run_id_len = f.len;
			break;
		case F_SIGNAL:
			bad |= tlv_int(&f, &q.signal);
			break;
		case F_TARGET:
			bad |= tlv_int(&f, &q.target);
			break;
		case F_GRACE_MS:
			bad |= tlv_int(&f, &q.grace_ms);
			break;
		default:
			break;
		}
	}
	*ret_request = q;
	return more < 0 || bad != 0 || q.target < 0 ? -1 : 0;
}

/* Serves the whole frames in the buffer and moves the rest to its front. */
static void serve(struct executor *x, struct client *c) {
	size_t at = 0;
	while (c->fd >= 0 && c->len - at >= 4) {
		uint32_t len = le32(c->buf + at);
		if (len < 4 || len > MAX_FRAME) {
			drop_client(x, c);
			return;
		}
		if (c->len - at < 4 + (size_t) len)
			break;
		struct request q;
		if (parse_request(c->buf + at + 4, len, &q) < 0) {
			drop_client(x, c);
			return;
		}
		at += 4 + (size_t) len;
		on_request(x, c, &q);
	}
	if (c->fd < 0)
		return;
	c->len -= at;
	memmove(c->buf, c->buf + at, c->len);
}

void client_ready(struct executor *x, uint32_t index) {
	struct client *c = &x->clients[index];
	if (c->fd < 0)
		return;
	ssize_t n = recv(c->fd, c->buf + c->len, CLIENT_BUF - c->len, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		drop_client(x, c);
		return;
	}
	c->len += (size_t) n;
	serve(x, c);
}

void answer_waits(struct executor *x) {
	for (size_t i = 0; i < MAX_CLIENTS; i++) {
		struct client *c = &x->clients[i];
		if (c->fd < 0 || !c->waiting)
			continue;
		struct reply r = { .len = HEADER };
		c->waiting = false;
		send_reply(x, c, FRAME_WAIT, c->wait_request, &r);
	}
}

void answer_ends(struct executor *x, const char *record, size_t len) {
	/* Not on the stack, whose pages stay: that is for one moment of the executor's life. */
	static uint8_t frame[HEADER + TLV_HEADER + RECORD_CAP];
	put_le16(frame + HEADER, F_RECORD);
	put_le16(frame + HEADER + 2, 0);
	put_le32(frame + HEADER + 4, (uint32_t) len);
	memcpy(frame + HEADER + TLV_HEADER, record, len);
	len += HEADER + TLV_HEADER;
	for (size_t i = 0; i < MAX_CLIENTS; i++) {
		struct client *c = &x->clients[i];
		if (c->fd < 0 || !c->ending)
			continue;
		c->ending = false;
		put_header(frame, len, FRAME_END, c->end_request);
		if (send(c->fd, frame, len, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t) len)
			drop_client(x, c);
	}
}

static bool is_served(int fd) {
	struct ucred peer;
	socklen_t len = sizeof peer;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
		return false;
	return peer.uid == 0 || peer.uid == geteuid();
}

static void accept_one(struct executor *x, int fd) {
	for (uint32_t i = 0; i < MAX_CLIENTS; i++) {
		struct client *c = &x->clients[i];
		if (c->fd >= 0)
			continue;
		if (!is_served(fd) || watch(x, fd, EPOLLIN, SOURCE_CLIENT, i) < 0)
			break;
		c->fd = fd;
		c->buf = buffers[i];
		c->len = 0;
		c->waiting = c->ending = false;
		return;
	}
	(void) close(fd);
}

void accept_clients(struct executor *x) {
	for (int i = 0; i < BACKLOG; i++) {
		int fd = accept4(x->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd >= 0) {
			accept_one(x, fd);
			continue;
		}
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
			/* It would stay readable: look away for a while instead of spinning. */
			(void) change_watch(x, x->listener, 0, SOURCE_LISTENER, 0);
			x->listen_retry_ns = mono_ns() + LISTEN_REST_NS;
		}
		return;
	}
}

/* Binds a socket at `sock`, whatever was there before. Returns it or -errno. */
static int bind_sock(struct executor *x) {
	/* sun_path is short; through /proc the run directory may be as deep as it likes. */
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	(void) format_text(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/sock", x->dir);
	AUTO_FD fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	if (unlinkat(x->dir, "sock", 0) < 0 && errno != ENOENT)
		return -errno;
	/* The directory is 0700; the socket must not be wider for an instant either. */
	mode_t mask = umask(0177);
	int r = bind(fd, (const struct sockaddr *) &address, sizeof address) < 0 ? -errno : 0;
	(void) umask(mask);
	struct stat st;
	if (r < 0)
		return r;
	if (fstatat(x->dir, "sock", &st, AT_SYMLINK_NOFOLLOW) < 0 || listen(fd, BACKLOG) < 0)
		return -errno;
	x->sock_device = st.st_dev;
	x->sock_inode = st.st_ino;
	r = watch(x, fd, EPOLLIN, SOURCE_LISTENER, 0);
	if (r < 0)
		return r;
	r = fd;
	fd = -1;
	return r;
}

int listen_at_sock(struct executor *x) {
	int fd = bind_sock(x);
	if (fd < 0)
		return fd;
	/* After the new one is there: one that cannot be made leaves the old one as it is. */
	close_watched(x, &x->listener);
	x->listener = fd;
	return 0;
}

void listen_again(struct executor *x) {
	struct stat st;
	if (x->phase >= PHASE_RECORDING)
		return;
	if (fstatat(x->dir, "sock", &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_ino == x->sock_inode &&
	    st.st_dev == x->sock_device)
		return;
	x->listen_retry_ns = 0;
	(void) listen_at_sock(x);
}
