/* wake.h - see wake.c. Each returns the exit status of the program. */
#pragma once

#include "executor.h"

int wake(const char *run_dir);
int unseat(const char *run_dir);
