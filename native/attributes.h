/* attributes.h - what a process inherits from its parent and a task must not: limits, niceness, umask, keys. */
#pragma once

#include "child.h"

/* Sets them before privileges are given up. */
int attributes_set(struct child *c, enum stage *ret_stage);
