/*
 * intent.c - what the writer is about to do, so that the executor that takes over after a SIGKILL neither loses nor repeats a byte.
 * Bytes are first copied into the file and then taken out of the pipe. In between, the length of the file tells how many of them are
 * written. That they were taken out is told by the very read that takes them: it puts the last one here, into memory that is shared with
 * a file of the run directory and so outlives us. Nothing of it is ever synced: another boot has other pipes.
 */
#define _GNU_SOURCE
#include "pump.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096U
/* Of the first layout. */
#define MAGIC UINT64_C(0x3144455049465548)

enum intent_phase {
	INTENT_NONE,
	INTENT_WRITE, /* `len` bytes are being written at `pos` */
	INTENT_TAKE   /* they are written, and out of the pipe once `witness` is `last` */
};

struct intent {
	uint64_t phase, index, pos, len;
	uint8_t last, witness;
};

struct intents {
	uint64_t magic;
	struct intent of[STREAMS];
};

static struct intents own;
static bool was_opened;
/* NULL = there is only our own. Volatile: what is here when we are killed has to be what was said up to then, in that order. */
static volatile struct intents *shared;

/* The page cannot be had from its disk, or not be changed there. Our own memory does as well, for as long as we live. */
static void on_bus_error(int signal, siginfo_t *info, void *context) {
	(void) context;
	uintptr_t at = (uintptr_t) info->si_addr - (uintptr_t) shared;
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
	if (!shared || at >= PAGE || mmap((void *) (uintptr_t) shared, PAGE, PROT_READ | PROT_WRITE, flags, -1, 0) == MAP_FAILED) {
		struct sigaction dfl = { .sa_handler = SIG_DFL };
		(void) sigaction(signal, &dfl, NULL);
	}
}

void intents_open(struct executor *x) {
	struct sigaction handle = { .sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO };
	was_opened = true;
	AUTO_FD fd = openat(x->dir, "pumped", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0 || sigaction(SIGBUS, &handle, NULL) < 0)
		return;
	/* Not every file system can give it its blocks now; then a full disk shows in on_bus_error(). */
	if (posix_fallocate(fd, 0, PAGE) != 0 && ftruncate(fd, PAGE) < 0)
		return;
	void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED)
		return;
	shared = page;
	if (shared->magic == MAGIC)
		return;
	for (size_t i = 0; i < STREAMS; i++)
		shared->of[i].phase = INTENT_NONE;
	shared->magic = MAGIC;
}

static volatile struct intent *intent_of(const struct executor *x, const struct stream *s) {
	volatile struct intents *i = shared ? shared : &own;
	return &i->of[s - x->logs.streams];
}

void intent_none(struct executor *x, const struct stream *s) {
	intent_of(x, s)->phase = INTENT_NONE;
}

void intent_write(struct executor *x, const struct stream *s, size_t len) {
	volatile struct intent *i;
	/* Not before there is output: many a task has none. */
	if (!was_opened)
		intents_open(x);
	i = intent_of(x, s);
	i->phase = INTENT_NONE;
	i->index = s->index;
	i->pos = s->pos;
	i->len = len;
	i->phase = INTENT_WRITE;
}

volatile uint8_t *intent_take(struct executor *x, const struct stream *s, uint64_t end, size_t len) {
	volatile struct intent *i = intent_of(x, s);
	uint8_t last;
	if (pread(s->file, &last, 1, (off_t) end - 1) != 1)
		return NULL;
	i->last = last;
	i->witness = (uint8_t) ~last;
	i->pos = end - len;
	i->len = len;
	i->phase = INTENT_TAKE;
	return &i->witness;
}

size_t intent_left(struct executor *x, const struct stream *s, uint64_t *ret_end) {
	volatile struct intent *i = intent_of(x, s);
	uint64_t pos = i->pos, len = i->len;
	if (i->phase == INTENT_NONE || i->index != s->index || len > CHUNK || s->pos < pos ||
	    (i->phase == INTENT_TAKE && (i->witness == i->last || s->pos - pos < len)))
		return 0;
	if (s->pos - pos < len)
		len = s->pos - pos;
	*ret_end = pos + len;
	return (size_t) len;
}
