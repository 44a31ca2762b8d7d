/*
 * rootfs.h - the root of a task: an empty tmpfs with binds on it, and nothing copied. Of a mount's options (a list,
 * with commas) these are known: `ro` read-only, `optional` left out when there is no source, `link` a source that
 * is a symbolic link becomes one where that resolves, `own` the source is given to the task's user.
 */
#pragma once

#include "child.h"
#include "privileges.h"

/* Makes the root in the present mount namespace, and moves into it. The old one is gone afterwards. */
int rootfs_enter(struct child *c, const struct identity *id, enum stage *ret_stage);
