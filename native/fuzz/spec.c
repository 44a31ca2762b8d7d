/* fuzz/spec.c - feeds the parser of the spec file. What it accepts must hold together. */
#define _GNU_SOURCE
#include "../spec.h"
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Input names another boot than this one, unless told: put the real id where a placeholder stands. */
static void put_boot_id(uint8_t *bytes, size_t len) {
	static char boot_id[64];
	static const char placeholder[] = "00000000-0000-0000-0000-000000000000";
	if (!*boot_id && read_file_at(-1, "/proc/sys/kernel/random/boot_id", boot_id, sizeof boot_id) < 0)
		abort();
	uint8_t *at = memmem(bytes, len, placeholder, sizeof placeholder - 1);
	if (at)
		memcpy(at, boot_id, sizeof placeholder - 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	char buf[256];
	struct text why = { .at = buf, .cap = sizeof buf };
	struct spec spec;
	uint8_t *bytes = malloc(size + 1);
	char **pointers = calloc(SPEC_POINTERS(size), sizeof *pointers);
	if (!bytes || !pointers)
		abort();
	memcpy(bytes, data, size);
	put_boot_id(bytes, size);
	if (spec_parse(bytes, size, pointers, &spec, &why) == 0) {
		if ((spec.path[0] != '/' && !*spec.search) || !spec.argv[0] || !spec.cwd || strlen(spec.run_id) > 64)
			abort();
		char **const lists[] = { spec.argv,         spec.envp,         spec.join_procs,
					 spec.self_procs,   spec.mount_source, spec.mount_target,
					 spec.mount_options, spec.search,       spec.rlimits };
		size_t total = 0, mounts[3] = { 0 };
		for (size_t list = 0; list < ARRAY_LEN(lists); list++) {
			for (char **item = lists[list]; *item; item++) {
				total += strlen(*item);
				if (list >= 4 && list < 7)
					mounts[list - 4]++;
			}
		}
		if (total > size || mounts[0] != mounts[1] || mounts[0] != mounts[2])
			abort();
	}
	free(pointers);
	free(bytes);
	return 0;
}
