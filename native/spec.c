/* spec.c - see spec.h. Parses untrusted input: every length is checked before it is used. */
#define _GNU_SOURCE
#include "spec.h"
#include "tlv.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SPEC_MAX_BYTES (4U << 20)
#define SPEC_MAGIC "HFSPEC01"
#define MAGIC_LEN 8U
#define DEFAULT_LOG_FILES 10
#define DEFAULT_LOG_BYTES (10 << 20)

enum spec_tag {
	TAG_RUN_ID = 1,
	TAG_BOOT_ID,
	TAG_TITLE,
	TAG_PATH,
	TAG_ARGV,
	TAG_ENV,
	TAG_CWD,
	TAG_USER,
	TAG_LOG_DIR,
	TAG_LOG_NAME,
	TAG_LOG_MAX_FILES,
	TAG_LOG_MAX_BYTES,
	TAG_CGROUP,
	TAG_JOIN_PROCS,
	TAG_SELF_PROCS,
	TAG_GATE,
	TAG_LEFTOVERS,
	TAG_OOM_SCORE_ADJ,
	TAG_MEMORY_EVENTS,
	TAG_MEMORY_PEAK,
	TAG_ON_DEATH,
	TAG_LEFTOVERS_MS,
	TAG_MEMORY_HITS,
	/* From here on: isolation, and attributes of the process. */
	TAG_ISOLATE = 40,
	TAG_MOUNT_SOURCE,
	TAG_MOUNT_TARGET,
	TAG_MOUNT_OPTIONS,
	TAG_SEARCH,
	TAG_PRIVILEGES,
	TAG_CAPS_BOUNDING,
	TAG_CAPS_AMBIENT,
	TAG_RLIMIT,
	TAG_UMASK,
	TAG_NICE,
	TAG_TTY_COLUMNS,
	TAG_TTY_ROWS,
	TAG_COUNT
};

enum kind { KIND_UNKNOWN, KIND_STRING, KIND_LIST, KIND_INT };
static const struct {
	enum kind kind;
	size_t offset;
} tags[TAG_COUNT] = {
	[TAG_RUN_ID] = { KIND_STRING, offsetof(struct spec, run_id) },
	[TAG_BOOT_ID] = { KIND_STRING, offsetof(struct spec, boot_id) },
	[TAG_TITLE] = { KIND_STRING, offsetof(struct spec, title) },
	[TAG_PATH] = { KIND_STRING, offsetof(struct spec, path) },
	[TAG_ARGV] = { KIND_LIST, offsetof(struct spec, argv) },
	[TAG_ENV] = { KIND_LIST, offsetof(struct spec, envp) },
	[TAG_CWD] = { KIND_STRING, offsetof(struct spec, cwd) },
	[TAG_USER] = { KIND_STRING, offsetof(struct spec, user) },
	[TAG_LOG_DIR] = { KIND_STRING, offsetof(struct spec, log_dir) },
	[TAG_LOG_NAME] = { KIND_STRING, offsetof(struct spec, log_name) },
	[TAG_LOG_MAX_FILES] = { KIND_INT, offsetof(struct spec, log_max_files) },
	[TAG_LOG_MAX_BYTES] = { KIND_INT, offsetof(struct spec, log_max_bytes) },
	[TAG_CGROUP] = { KIND_STRING, offsetof(struct spec, cgroup) },
	[TAG_JOIN_PROCS] = { KIND_LIST, offsetof(struct spec, join_procs) },
	[TAG_SELF_PROCS] = { KIND_LIST, offsetof(struct spec, self_procs) },
	[TAG_GATE] = { KIND_INT, offsetof(struct spec, gate) },
	[TAG_LEFTOVERS] = { KIND_INT, offsetof(struct spec, leftovers) },
	[TAG_OOM_SCORE_ADJ] = { KIND_INT, offsetof(struct spec, oom_score_adj) },
	[TAG_MEMORY_EVENTS] = { KIND_STRING, offsetof(struct spec, memory_events) },
	[TAG_LEFTOVERS_MS] = { KIND_INT, offsetof(struct spec, leftovers_ms) },
	[TAG_MEMORY_HITS] = { KIND_STRING, offsetof(struct spec, memory_hits) },
	[TAG_ON_DEATH] = { KIND_INT, offsetof(struct spec, on_death) },
	[TAG_MEMORY_PEAK] = { KIND_STRING, offsetof(struct spec, memory_peak) },
	[TAG_ISOLATE] = { KIND_INT, offsetof(struct spec, isolate) },
	[TAG_MOUNT_SOURCE] = { KIND_LIST, offsetof(struct spec, mount_source) },
	[TAG_MOUNT_TARGET] = { KIND_LIST, offsetof(struct spec, mount_target) },
	[TAG_MOUNT_OPTIONS] = { KIND_LIST, offsetof(struct spec, mount_options) },
	[TAG_SEARCH] = { KIND_LIST, offsetof(struct spec, search) },
	[TAG_PRIVILEGES] = { KIND_INT, offsetof(struct spec, privileges) },
	[TAG_CAPS_BOUNDING] = { KIND_INT, offsetof(struct spec, caps_bounding) },
	[TAG_CAPS_AMBIENT] = { KIND_INT, offsetof(struct spec, caps_ambient) },
	[TAG_RLIMIT] = { KIND_LIST, offsetof(struct spec, rlimits) },
	[TAG_UMASK] = { KIND_INT, offsetof(struct spec, umask) },
	[TAG_NICE] = { KIND_INT, offsetof(struct spec, nice) },
	[TAG_TTY_COLUMNS] = { KIND_INT, offsetof(struct spec, tty_columns) },
	[TAG_TTY_ROWS] = { KIND_INT, offsetof(struct spec, tty_rows) },
};

static enum kind kind_of(uint16_t tag) {
	return tag < TAG_COUNT ? tags[tag].kind : KIND_UNKNOWN;
}

static int refuse(struct text *reterr_why, int error, const char *what) {
	text_add(reterr_why, "spec: %s", what);
	return error;
}

/*
 * Reads the whole file into fresh memory, with room behind it for one byte and for the lists. That is mapped, not allocated:
 * nothing else in an executor needs an allocator. Null on failure, with -errno in reterr_errno.
 */
static uint8_t *read_whole(int dir, size_t *ret_len, char ***ret_pointers, int *reterr_errno) {
	AUTO_FD fd = openat(dir, "spec", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) < 0) {
		*reterr_errno = -errno;
		return NULL;
	}
	if (st.st_size > SPEC_MAX_BYTES) {
		*reterr_errno = -EFBIG;
		return NULL;
	}
	size_t size = (size_t) st.st_size, len = 0, lists = (size / sizeof(char *) + 1) * sizeof(char *);
	uint8_t *bytes = mmap(NULL, lists + SPEC_POINTERS(size) * sizeof(char *), PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ssize_t n = bytes == MAP_FAILED ? -1 : 1;
	while (n > 0 && len < size) {
		n = read(fd, bytes + len, size - len);
		len += n > 0 ? (size_t) n : 0;
	}
	if (n < 0) {
		*reterr_errno = -errno;
		return NULL;
	}
	*ret_len = len;
	*ret_pointers = (char **) (void *) (bytes + lists);
	return bytes;
}

/* First pass: every field is well formed; counts the members of the lists. */
static int check_fields(const uint8_t *at, const uint8_t *end, size_t *ret_counts, struct text *reterr_why) {
	struct tlv_field f;
	int r;
	while ((r = tlv_next(&at, end, &f)) > 0) {
		int64_t ignored;
		switch (kind_of(f.tag)) {
		case KIND_UNKNOWN:
			break;
		case KIND_INT:
			if (tlv_int(&f, &ignored) < 0)
				return refuse(reterr_why, -EBADMSG, "an integer field without 8 bytes");
			break;
		case KIND_STRING:
		case KIND_LIST:
			if (memchr(f.data, 0, f.len))
				return refuse(reterr_why, -EBADMSG, "a string with a NUL in it");
			ret_counts[f.tag]++;
			break;
		}
	}
	return r < 0 ? refuse(reterr_why, -EBADMSG, "a field that goes beyond the end") : 0;
}

/*
 * Second pass: points the spec into the bytes. A string is terminated in place, over the header of the field
 * behind it, after that header has been read.
 */
static void take_fields(uint8_t *bytes, size_t len, struct spec *spec, char **lists[TAG_COUNT]) {
	const uint8_t *at = bytes + MAGIC_LEN, *end = bytes + len;
	uint8_t *terminate = NULL;
	struct tlv_field f;
	while (tlv_next(&at, end, &f) > 0) {
		if (terminate)
			*terminate = 0;
		terminate = NULL;
		enum kind kind = kind_of(f.tag);
		if (kind == KIND_UNKNOWN)
			continue;
		uint8_t *data = bytes + (f.data - bytes);
		char *target = (char *) spec + tags[f.tag].offset;
		if (kind == KIND_INT) {
			int64_t value = (int64_t) le64(data);
			memcpy(target, &value, sizeof value);
			continue;
		}
		terminate = data + f.len;
		if (kind == KIND_STRING)
			memcpy(target, &(char *){ (char *) data }, sizeof(char *));
		else
			*lists[f.tag]++ = (char *) data;
	}
	if (terminate)
		*terminate = 0;
}

static size_t length(char *const *list) {
	size_t n = 0;
	while (list[n])
		n++;
	return n;
}

static int check_meaning(const struct spec *s, struct text *reterr_why) {
	if (!s->run_id || !*s->run_id || strlen(s->run_id) > 64)
		return refuse(reterr_why, -EINVAL, "no run_id, or a very long one");
	if (!s->path || !*s->path || !s->argv[0] || !s->cwd)
		return refuse(reterr_why, -EINVAL, "path, argv and cwd are required");
	if (s->path[0] != '/' && !*s->search)
		return refuse(reterr_why, -EINVAL, "path is relative, and nothing says where to look for it");
	size_t sources = length(s->mount_source);
	if (sources != length(s->mount_target) || sources != length(s->mount_options))
		return refuse(reterr_why, -EINVAL, "a mount has a source, a target and options");
	if ((s->tty_columns == 0) != (s->tty_rows == 0) || s->tty_columns < 0 || s->tty_columns > UINT16_MAX ||
	    s->tty_rows < 0 || s->tty_rows > UINT16_MAX)
		return refuse(reterr_why, -EINVAL, "a terminal has columns and rows, from 1 to 65535");
	const char *name = s->log_name;
	if (s->log_dir && (!name || !*name || strchr(name, '/') || strlen(name) > 200))
		return refuse(reterr_why, -EINVAL, "log_name is missing or no plain name");
	char boot_id[64];
	ssize_t n = read_file_at(-1, "/proc/sys/kernel/random/boot_id", boot_id, sizeof boot_id);
	if (n < 0)
		return refuse(reterr_why, (int) n, "this boot's id cannot be read");
	boot_id[strcspn(boot_id, "\n")] = '\0';
	if (!s->boot_id || strcmp(s->boot_id, boot_id) != 0)
		return refuse(reterr_why, -ESTALE, "it is of another boot");
	return 0;
}

int spec_parse(uint8_t *bytes, size_t len, char **pointers, struct spec *ret_spec, struct text *reterr_why) {
	size_t counts[TAG_COUNT] = { 0 }, total = 0;
	if (len < MAGIC_LEN || memcmp(bytes, SPEC_MAGIC, MAGIC_LEN) != 0)
		return refuse(reterr_why, -EBADMSG, "wrong magic");
	int r = check_fields(bytes + MAGIC_LEN, bytes + len, counts, reterr_why);
	if (r < 0)
		return r;
	for (size_t tag = 0; tag < TAG_COUNT; tag++)
		total += kind_of((uint16_t) tag) == KIND_LIST ? counts[tag] + 1 : 0;
	struct spec spec = { .log_max_files = DEFAULT_LOG_FILES,
			     .log_max_bytes = DEFAULT_LOG_BYTES,
			     .umask = 022,
			     .nice = NICE_UNSET };
	char **lists[TAG_COUNT] = { 0 }, **next = pointers;
	if (total > SPEC_POINTERS(len))
		return refuse(reterr_why, -E2BIG, "more fields than can be");
	for (size_t tag = 0; tag < TAG_COUNT; tag++) {
		if (kind_of((uint16_t) tag) != KIND_LIST)
			continue;
		lists[tag] = next;
		memcpy((char *) &spec + tags[tag].offset, &next, sizeof next);
		next += counts[tag] + 1;
	}
	take_fields(bytes, len, &spec, lists);
	if (spec.log_max_files < 1)
		spec.log_max_files = DEFAULT_LOG_FILES;
	if (spec.log_max_bytes < 1)
		spec.log_max_bytes = DEFAULT_LOG_BYTES;
	r = check_meaning(&spec, reterr_why);
	if (r == 0)
		*ret_spec = spec;
	return r;
}

int spec_load(int dir, struct spec *ret_spec, struct text *reterr_why) {
	size_t len = 0;
	char **pointers = NULL;
	int r = -EBADMSG;
	uint8_t *bytes = read_whole(dir, &len, &pointers, &r);
	/* After a fault the process ends, and the block with it. */
	return bytes ? spec_parse(bytes, len, pointers, ret_spec, reterr_why) : refuse(reterr_why, r, "it cannot be read");
}
