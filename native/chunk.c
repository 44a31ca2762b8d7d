/*
 * chunk.c - the chunk on its way from a task's pipe into a log file, in memory that is shared with a file of the run directory and so
 * outlives us. Beside the bytes stands how far they have come, so that the executor that takes over after a SIGKILL goes on with them and
 * neither loses nor repeats one:
 *
 *   CHUNK_READ    a read may have taken them out of the pipe. It has when the last of them are not what was put there before: a number
 *                 that nobody can guess, or, for a few bytes, which are looked at first, something else than what will come.
 *   CHUNK_HELD    they are here and nowhere else, from `at` on
 *   CHUNK_WRITE   those from `at` to `end` are being written; the length of the file says how many are
 *
 * A read that has begun comes to its end before a SIGKILL takes effect. Nothing of it is ever synced: another boot has other tasks.
 */
#define _GNU_SOURCE
#include "pump.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#define PAGE 4096U
/* Of this layout. */
#define MAGIC UINT64_C(0x324b4e5548434648)

enum chunk_phase { CHUNK_NONE, CHUNK_READ, CHUNK_HELD, CHUNK_WRITE };

/* Volatile: what is here when we are killed has to be what was said up to then, in that order. */
struct chunk {
	volatile uint64_t magic, phase;
	volatile uint64_t stream, len, at, end;
	volatile uint64_t index; /* of the file that is written */
	volatile int64_t base;   /* where in it the first byte of the chunk would be: before its start, when that one is in the file before it */
	volatile uint8_t before[CHUNK_MARK];
	_Alignas(PAGE) uint8_t bytes[CHUNK];
};

/* Does as well where there is no such file, for as long as we live. */
static struct chunk own;
static struct chunk *chunk = &own;
static bool was_opened, is_large;
/* A page of it is not that of the file any more. */
static volatile bool was_lost;
static size_t page_size;
static uint8_t nonce[CHUNK_MARK];

/* A page cannot be had from its disk, or not be changed there. */
static void on_bus_error(int signal, siginfo_t *info, void *context) {
	(void) context;
	uintptr_t at = (uintptr_t) info->si_addr, from = (uintptr_t) chunk;
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
	void *page = (void *) (at & ~(uintptr_t) (page_size - 1));
	was_lost = true;
	if (chunk == &own || at - from >= sizeof *chunk || mmap(page, page_size, PROT_READ | PROT_WRITE, flags, -1, 0) == MAP_FAILED) {
		struct sigaction dfl = { .sa_handler = SIG_DFL };
		(void) sigaction(signal, &dfl, NULL);
	}
}

void chunk_open(struct executor *x) {
	struct sigaction handle = { .sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO };
	if (was_opened)
		return;
	was_opened = true;
	page_size = (size_t) sysconf(_SC_PAGESIZE);
	if (getrandom(nonce, sizeof nonce, GRND_NONBLOCK) < 0) {
		uint64_t now = mono_ns();
		memcpy(nonce, &now, sizeof nonce);
	}
	AUTO_FD fd = openat(x->dir, "pumped", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0 || sigaction(SIGBUS, &handle, NULL) < 0)
		return;
	/* Not every file system can give it its blocks now; then a full disk shows in on_bus_error(). */
	if (posix_fallocate(fd, 0, sizeof *chunk) != 0 && ftruncate(fd, sizeof *chunk) < 0)
		return;
	void *map = mmap(NULL, sizeof *chunk, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return;
	/* Not more of it in memory than is used. */
	(void) madvise(map, sizeof *chunk, MADV_RANDOM);
	chunk = map;
	if (chunk->magic == MAGIC)
		return;
	chunk->phase = CHUNK_NONE;
	chunk->magic = MAGIC;
}

/*
 * So that the read, which holds the lock of the pipe, does not have to wait for a page. One that cannot be had makes the whole of it our own:
 * whoever takes over must not find a part of it.
 */
static void touch(size_t len) {
	volatile uint8_t *bytes = chunk->bytes;
	for (size_t i = 0; i < len; i += PAGE)
		bytes[i] = 0;
	if (!was_lost)
		return;
	chunk->phase = CHUNK_NONE;
	chunk = &own;
}

void *chunk_expect(struct executor *x, const struct stream *s, size_t len, const uint8_t *seen) {
	size_t mark = len < CHUNK_MARK ? len : CHUNK_MARK;
	chunk_open(x);
	chunk->phase = CHUNK_NONE;
	touch(len);
	volatile uint8_t *bytes = chunk->bytes;
	for (size_t i = 0; i < mark; i++)
		bytes[len - mark + i] = chunk->before[i] = seen ? (uint8_t) ~seen[i] : nonce[i];
	chunk->stream = (uint64_t) (s - x->logs.streams);
	chunk->at = chunk->end = 0;
	chunk->len = len;
	chunk->phase = CHUNK_READ;
	is_large = is_large || len > PAGE;
	return chunk->bytes;
}

void chunk_hold(size_t len) {
	chunk->at = 0;
	chunk->len = len;
	chunk->phase = CHUNK_HELD;
}

const uint8_t *chunk_rest(size_t *ret_len) {
	*ret_len = chunk->len - chunk->at;
	return chunk->bytes + chunk->at;
}

void chunk_write(const struct stream *s, size_t len) {
	chunk->phase = CHUNK_HELD;
	chunk->index = s->index;
	chunk->base = (int64_t) s->pos - (int64_t) chunk->at;
	chunk->end = chunk->at + len;
	chunk->phase = CHUNK_WRITE;
}

void chunk_written(size_t len) {
	chunk->at = chunk->at + len;
}

void chunk_none(void) {
	chunk->phase = CHUNK_NONE;
}

void chunk_shrink(void) {
	if (is_large)
		(void) madvise(chunk->bytes + PAGE, CHUNK - PAGE, MADV_DONTNEED);
	is_large = false;
}

bool chunk_is_large(void) {
	return is_large;
}

static bool was_read(void) {
	size_t mark = chunk->len < CHUNK_MARK ? chunk->len : CHUNK_MARK;
	for (size_t i = 0; i < mark; i++) {
		if (chunk->bytes[chunk->len - mark + i] != chunk->before[i])
			return true;
	}
	return false;
}

struct stream *chunk_left(struct executor *x) {
	if (chunk->phase == CHUNK_NONE || chunk->stream >= STREAMS || chunk->at > chunk->len || chunk->end > CHUNK || chunk->len > CHUNK ||
	    (chunk->phase == CHUNK_READ && !was_read()))
		return NULL;
	struct stream *s = &x->logs.streams[chunk->stream];
	if (chunk->phase == CHUNK_READ) {
		chunk_hold(chunk->len);
	} else if (chunk->phase == CHUNK_WRITE && ready_file(x, s) == 0 && s->index == chunk->index) {
		int64_t written = (int64_t) s->pos - chunk->base; /* counted from the first byte of the chunk */
		if (written > (int64_t) chunk->at)
			chunk->at = (uint64_t) written < chunk->end ? (uint64_t) written : chunk->end;
	}
	chunk->phase = CHUNK_HELD;
	if (chunk->at < chunk->len)
		return s;
	chunk_none();
	return NULL;
}
