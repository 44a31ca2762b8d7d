/* fuzz.h - what libFuzzer calls, and standalone.c where there is no libFuzzer. */
#pragma once

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
