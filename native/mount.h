/*
 * mount.h - mounts that are made complete before anybody sees them, and a root under construction: whatever path is
 * given, nothing outside of it is ever reached. All functions return -errno when they fail, and most of them a descriptor.
 */
#pragma once

#include "spec.h"

#include <stdbool.h>
#include <stdint.h>

/* Of mount_setattr(2) and fsmount(2): newer than the headers of the distributions we build on. */
#define ATTR_RDONLY 0x1U
#define ATTR_NOSUID 0x2U
#define ATTR_NODEV 0x4U
#define ATTR_NOEXEC 0x8U

/* The root holds mount points only, /dev device files only. */
#define ROOT_SIZE "1m"
#define SHM_SIZE "64m"

/* A root under construction. */
struct root {
	int fd;
	const struct spec *spec;
	uint64_t nosuid; /* what every bind gets, so that no_new_privs has a second bolt */
};

/* A detached copy of what is mounted at a descriptor, and with `all` of what is mounted below it. */
int clone_tree(int at, const char *path, bool all);
/* A new file system, detached. `options`: name, value, ..., NULL. */
int new_fs(const char *type, const char *const *options, uint64_t attrs);
int new_tmpfs(const char *mode, const char *size, uint64_t attrs);
/* With `all` also of what is mounted below it. */
int set_mount_attr(int fd, uint64_t set, bool all);
int attach_tree(int tree, int target);

/* Opens below the new root, never leaving it. */
int open_in(const struct root *root, const char *path, int flags);
/* Opens the directory above `path`, which is made, and gives its last part. */
int open_parent(const struct root *root, const char *path, const char **ret_name);
/* Opens the place where something is to be mounted; makes it when it is not there. */
int open_target(const struct root *root, const char *path, bool is_dir);
/* Mounts a tree at a path; it closes `tree`. */
int attach_at(const struct root *root, int tree, const char *path, bool is_dir);

/* kernel_fs.c: the file systems of the kernel, as a task that is shut in may see them. */
int mount_proc(const struct root *root);
int mount_sys(const struct root *root);
int mount_dev(const struct root *root);
