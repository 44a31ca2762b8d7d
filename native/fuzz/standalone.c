/*
 * fuzz/standalone.c - drives a fuzz target where there is no libFuzzer: `target SECONDS SEED FILE...` changes the
 * given inputs at random, blindly, until the time is up.
 */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MOST 65536U

static uint64_t state;

static uint64_t roll(uint64_t below) {
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state % below;
}

static size_t change(uint8_t *bytes, size_t len) {
	for (uint64_t n = roll(8) + 1; n > 0; n--) {
		size_t at = len ? (size_t) roll(len) : 0;
		switch (roll(5)) {
		case 0: /* one bit */
			if (len)
				bytes[at] ^= (uint8_t) (1U << roll(8));
			break;
		case 1: /* one byte */
			if (len)
				bytes[at] = (uint8_t) roll(256);
			break;
		case 2: /* cut */
			len = at;
			break;
		case 3: /* a length or number of some size */
			if (len >= at + 4) {
				uint32_t value = (uint32_t) (roll(2) ? roll(64) : roll(UINT32_MAX));
				memcpy(bytes + at, &value, 4);
			}
			break;
		case 4: { /* repeat a part */
			size_t part = len - at < MOST - len ? len - at : MOST - len;
			memmove(bytes + len, bytes + at, part);
			len += part;
			break;
		}
		}
	}
	return len;
}

int main(int argc, char **argv) {
	static uint8_t bytes[2 * MOST];
	if (argc < 4)
		return 2;
	time_t until = time(NULL) + atoi(argv[1]);
	state = strtoull(argv[2], NULL, 10) | 1;
	uint64_t runs = 0;
	for (int which = 3; time(NULL) < until; which = which + 1 < argc ? which + 1 : 3) {
		FILE *file = fopen(argv[which], "rb");
		if (!file)
			return 2;
		size_t len = fread(bytes, 1, MOST, file);
		(void) fclose(file);
		for (int i = 0; i < 500; i++, runs++)
			(void) LLVMFuzzerTestOneInput(bytes, len = change(bytes, len));
	}
	(void) printf("%llu inputs\n", (unsigned long long) runs);
	return 0;
}
