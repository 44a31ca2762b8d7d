/*
 * rootfs.c - see rootfs.h. Every mount is made complete before it is attached: a bind is read-only from its first
 * moment, with all that is mounted below it, and is looked at again afterwards.
 */
#define _GNU_SOURCE
#include "rootfs.h"
#include "isolate.h"
#include "mount.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool has_option(const char *options, const char *name) {
	size_t len = strlen(name);
	for (const char *at = options; at; at = strchr(at, ',')) {
		at += *at == ',';
		if (strncmp(at, name, len) == 0 && (at[len] == ',' || at[len] == '\0'))
			return true;
	}
	return false;
}

/* What is said to be read-only is looked at; the kernel has ignored that before without a word. */
static int verify_read_only(const struct root *root, const char *path) {
	struct statvfs fs;
	AUTO_FD fd = open_in(root, path, O_PATH);
	if (fd < 0)
		return fd;
	if (fstatvfs(fd, &fs) < 0)
		return -errno;
	return fs.f_flag & ST_RDONLY ? 0 : -EROFS;
}

/* Binds what an O_PATH descriptor is open on. */
static int bind_fd(const struct root *root, int source, const char *target, const char *options) {
	struct stat st;
	if (fstat(source, &st) < 0)
		return -errno;
	AUTO_FD tree = clone_tree(source, "", true);
	if (tree < 0)
		return tree;
	bool read_only = has_option(options, "ro");
	uint64_t attrs = ATTR_NODEV | root->nosuid | (read_only ? ATTR_RDONLY : 0);
	int r = set_mount_attr(tree, attrs, true);
	if (r < 0)
		return r;
	AUTO_FD at = open_target(root, target, S_ISDIR(st.st_mode));
	if (at < 0)
		return at;
	r = attach_tree(tree, at);
	return r < 0 || !read_only ? r : verify_read_only(root, target);
}

/* A host directory that is a link, as /bin -> usr/bin, becomes the same link. */
static int copy_link(const struct root *root, const char *source, const char *target) {
	char text[4096];
	const char *name = NULL;
	ssize_t n = readlink(source, text, sizeof text - 1);
	if (n < 0)
		return -errno;
	text[n] = '\0';
	AUTO_FD parent = open_parent(root, target, &name);
	if (parent < 0)
		return parent;
	return symlinkat(text, parent, name) < 0 && errno != EEXIST ? -errno : 0;
}

static int bind_one(const struct root *root, size_t i, const struct identity *id) {
	const struct spec *spec = root->spec;
	const char *from = spec->mount_source[i], *to = spec->mount_target[i], *options = spec->mount_options[i];
	struct stat st;
	bool link = has_option(options, "link");
	AUTO_FD source = open(from, O_PATH | O_CLOEXEC | (link ? O_NOFOLLOW : 0));
	if (source < 0 || fstat(source, &st) < 0)
		return errno == ENOENT && has_option(options, "optional") ? 0 : -errno;
	if (S_ISLNK(st.st_mode))
		return copy_link(root, from, to);
	if (has_option(options, "own") && id->known && geteuid() == 0 &&
	    fchownat(source, "", id->uid, id->gid, AT_EMPTY_PATH) < 0)
		return -errno;
	return bind_fd(root, source, to, options);
}

/* A link that leads to nothing in the new root was to something that is not mapped: then that itself is bound. */
static int mend_link(const struct root *root, size_t i) {
	const char *from = root->spec->mount_source[i], *to = root->spec->mount_target[i];
	const char *name = NULL;
	if (!has_option(root->spec->mount_options[i], "link"))
		return 0;
	int there = open_in(root, to, O_PATH);
	if (there >= 0)
		(void) close(there);
	if (there != -ENOENT)
		return there < 0 ? there : 0;
	AUTO_FD source = open(from, O_PATH | O_CLOEXEC);
	if (source < 0)
		return 0; /* It dangles on the host as well, or is not there. */
	AUTO_FD parent = open_parent(root, to, &name);
	if (parent < 0)
		return parent;
	(void) unlinkat(parent, name, 0);
	return bind_fd(root, source, to, root->spec->mount_options[i]);
}

static int bind_all(struct child *c, const struct root *root, const struct identity *id) {
	for (int pass = 0; pass < 2; pass++) {
		for (size_t i = 0; root->spec->mount_source[i]; i++) {
			int r = pass == 0 ? bind_one(root, i, id) : mend_link(root, i);
			if (r < 0) {
				(void) format_text(c->detail, sizeof c->detail, "%.100s on %.100s",
						root->spec->mount_source[i], root->spec->mount_target[i]);
				return r;
			}
		}
	}
	c->detail[0] = '\0';
	return 0;
}

/* The new root is the root, the old one is nowhere. */
static int move_in(const struct root *root) {
	if (fchdir(root->fd) < 0 || syscall(SYS_pivot_root, ".", ".") < 0)
		return -errno;
	/* The old root now lies upon the new one. */
	if (umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
		return -errno;
	return 0;
}

/* Directories that are there whatever was bound; without a mount of its own /tmp is in memory. */
static int add_usual(const struct root *root) {
	int there = open_in(root, "/tmp", O_PATH | O_DIRECTORY);
	if (there >= 0) {
		(void) close(there);
		return 0;
	}
	return attach_at(root, new_tmpfs("1777", SHM_SIZE, 0), "/tmp", true);
}

/*
 * It has to lie somewhere: over the run directory, for as long as the old root is in sight. The descriptor leads to
 * the old mount namespace: in ours it has to be opened anew.
 */
static int attach_over_run_dir(int tree, int run_dir) {
	char link[32], path[4096];
	(void) format_text(link, sizeof link, "/proc/self/fd/%d", run_dir);
	ssize_t n = readlink(link, path, sizeof path - 1);
	if (n < 0)
		return -errno;
	path[n] = '\0';
	AUTO_FD at = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return at < 0 ? -errno : attach_tree(tree, at);
}

int rootfs_enter(struct child *c, const struct identity *id, enum stage *ret_stage) {
	static const struct {
		const char *name;
		int (*make)(const struct root *root);
	} own[] = {
		{ "/proc", mount_proc }, { "/sys", mount_sys }, { "/dev", mount_dev }, { "/tmp", add_usual }
	};
	const struct spec *spec = &c->x->spec;
	*ret_stage = STAGE_ROOT;
	/* Nothing that is mounted here may show on the host, nor the other way round. */
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return -errno;
	AUTO_FD fd = new_tmpfs("0755", ROOT_SIZE, 0);
	if (fd < 0)
		return fd;
	struct root root = { .fd = fd,
			     .spec = spec,
			     .nosuid = spec->privileges & PRIVILEGES_NO_NEW ? ATTR_NOSUID : 0 };
	int r = attach_over_run_dir(fd, c->dir);
	if (r < 0)
		return r;
	*ret_stage = STAGE_MOUNT;
	r = bind_all(c, &root, id);
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(own); i++) {
		(void) format_text(c->detail, sizeof c->detail, "%s", own[i].name);
		r = own[i].make(&root);
	}
	if (r < 0)
		return r;
	c->detail[0] = '\0';
	*ret_stage = STAGE_ROOT;
	r = set_mount_attr(fd, ATTR_RDONLY, false);
	return r < 0 ? r : move_in(&root);
}
