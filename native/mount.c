/*
 * mount.c - see mount.h. Every path below a new root is resolved as if it were the root already: a link that a task
 * planted leads to nowhere outside.
 */
#define _GNU_SOURCE
#include "mount.h"
#include "util.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Linux 5.12 and 5.6: newer than the headers of the distributions we build on, and libc's own clash with them. */
#define NR_MOUNT_SETATTR 442
#define NR_OPENAT2 437
#define TREE_CLONE 1U
#define TREE_CLOEXEC ((unsigned int) O_CLOEXEC)
#define AT_TREE 0x8000U
#define MOVE_FROM_EMPTY 0x4U
#define MOVE_TO_EMPTY 0x40U
#define FS_CLOEXEC 1U
#define FS_SET_STRING 1U
#define FS_CREATE 6U
#define RESOLVE_MAGICLINKS_NOT 0x2U
#define RESOLVE_AS_ROOT 0x10U

struct attr {
	uint64_t set, clear, propagation, userns_fd;
};

struct how {
	uint64_t flags, mode, resolve;
};

int open_in(const struct root *root, const char *path, int flags) {
	struct how how = { .flags = (uint64_t) (unsigned int) (flags | O_CLOEXEC),
			   .resolve = RESOLVE_AS_ROOT | RESOLVE_MAGICLINKS_NOT };
	long fd = syscall(NR_OPENAT2, root->fd, path, &how, sizeof how);
	return fd < 0 ? -errno : (int) fd;
}

int clone_tree(int at, const char *path, bool all) {
	unsigned int flags = TREE_CLONE | TREE_CLOEXEC | AT_EMPTY_PATH | (all ? AT_TREE : 0U);
	long fd = syscall(SYS_open_tree, at, path, flags);
	return fd < 0 ? -errno : (int) fd;
}

int set_mount_attr(int fd, uint64_t set, bool all) {
	struct attr attr = { .set = set, .propagation = MS_PRIVATE };
	return syscall(NR_MOUNT_SETATTR, fd, "", AT_EMPTY_PATH | (all ? AT_TREE : 0U), &attr, sizeof attr) < 0
		       ? -errno
		       : 0;
}

int attach_tree(int tree, int target) {
	return syscall(SYS_move_mount, tree, "", target, "", MOVE_FROM_EMPTY | MOVE_TO_EMPTY) < 0 ? -errno : 0;
}

int new_fs(const char *type, const char *const *options, uint64_t attrs) {
	AUTO_FD fs = (int) syscall(SYS_fsopen, type, FS_CLOEXEC);
	if (fs < 0)
		return -errno;
	for (const char *const *o = options; o && *o; o += 2) {
		if (syscall(SYS_fsconfig, fs, FS_SET_STRING, o[0], o[1], 0) < 0)
			return -errno;
	}
	if (syscall(SYS_fsconfig, fs, FS_CREATE, NULL, NULL, 0) < 0)
		return -errno;
	long fd = syscall(SYS_fsmount, fs, FS_CLOEXEC, (unsigned int) attrs);
	return fd < 0 ? -errno : (int) fd;
}

int new_tmpfs(const char *mode, const char *size, uint64_t attrs) {
	const char *const options[] = { "mode", mode, "size", size, NULL };
	return new_fs("tmpfs", options, attrs | ATTR_NOSUID | ATTR_NODEV);
}

/* Makes every directory of a path below the root. */
static int make_dirs(const struct root *root, const char *path) {
	char part[4096];
	size_t len = strlen(path);
	if (len >= sizeof part)
		return -ENAMETOOLONG;
	for (size_t i = 1; i <= len; i++) {
		if (path[i] != '/' && path[i] != '\0')
			continue;
		(void) format_text(part, sizeof part, "%.*s", (int) i, path);
		int fd = open_in(root, part, O_PATH | O_DIRECTORY);
		if (fd == -ENOENT) {
			char *slash = strrchr(part, '/');
			*slash = '\0';
			AUTO_FD parent = open_in(root, slash == part ? "/" : part, O_PATH | O_DIRECTORY);
			if (parent < 0)
				return parent;
			if (slash[1] != '\0' && mkdirat(parent, slash + 1, 0755) < 0 && errno != EEXIST)
				return -errno;
		} else if (fd < 0) {
			return fd;
		} else {
			(void) close(fd);
		}
	}
	return 0;
}

int open_parent(const struct root *root, const char *path, const char **ret_name) {
	char parent[4096];
	const char *slash = strrchr(path, '/');
	if (!slash || (size_t) (slash - path) >= sizeof parent)
		return -EINVAL;
	(void) format_text(parent, sizeof parent, "%.*s", (int) (slash - path), path);
	int r = parent[0] == '\0' ? 0 : make_dirs(root, parent);
	if (r < 0)
		return r;
	*ret_name = slash + 1;
	return open_in(root, parent[0] == '\0' ? "/" : parent, O_PATH | O_DIRECTORY);
}

int open_target(const struct root *root, const char *path, bool is_dir) {
	int fd = open_in(root, path, O_PATH);
	if (fd != -ENOENT)
		return fd;
	if (is_dir) {
		int r = make_dirs(root, path);
		return r < 0 ? r : open_in(root, path, O_PATH | O_DIRECTORY);
	}
	const char *name = NULL;
	AUTO_FD parent = open_parent(root, path, &name);
	if (parent < 0)
		return parent;
	AUTO_FD file = openat(parent, name, O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0644);
	return file < 0 ? -errno : open_in(root, path, O_PATH);
}

int attach_at(const struct root *root, int tree_fd, const char *path, bool is_dir) {
	AUTO_FD tree = tree_fd;
	if (tree < 0)
		return tree;
	AUTO_FD target = open_target(root, path, is_dir);
	return target < 0 ? target : attach_tree(tree, target);
}
