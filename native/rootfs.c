/*
 * rootfs.c - see rootfs.h. Every mount is made complete before it is attached: a bind is read-only from its first
 * moment, with all that is mounted below it, and is looked at again afterwards. Every path below the new root is
 * resolved as if it were the root already: a link that a task planted leads to nowhere outside.
 */
#define _GNU_SOURCE
#include "rootfs.h"
#include "isolate.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Linux 5.12 and 5.6: newer than the headers of the distributions we build on, and libc's own clash with them. */
#define NR_MOUNT_SETATTR 442
#define NR_OPENAT2 437
#define ATTR_RDONLY 0x1U
#define ATTR_NOSUID 0x2U
#define ATTR_NODEV 0x4U
#define ATTR_NOEXEC 0x8U
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

/* The root holds mount points only, /dev device files only. */
#define ROOT_SIZE "1m"
#define SHM_SIZE "64m"
/* Group `tty` of every distribution; terminals belong to it. */
#define TTY_GROUP "5"

struct attr {
	uint64_t set, clear, propagation, userns_fd;
};

struct how {
	uint64_t flags, mode, resolve;
};

/* A root under construction. */
struct root {
	int fd;
	const struct spec *spec;
	uint64_t nosuid; /* what every bind gets, so that no_new_privs has a second bolt */
};

/* Opens below the new root, never leaving it. */
static int open_in(const struct root *root, const char *path, int flags) {
	struct how how = { .flags = (uint64_t) (unsigned int) (flags | O_CLOEXEC),
			   .resolve = RESOLVE_AS_ROOT | RESOLVE_MAGICLINKS_NOT };
	long fd = syscall(NR_OPENAT2, root->fd, path, &how, sizeof how);
	return fd < 0 ? -errno : (int) fd;
}

/* A detached copy of what is mounted at a descriptor, and with `all` of what is mounted below it. */
static int clone_tree(int at, const char *path, bool all) {
	unsigned int flags = TREE_CLONE | TREE_CLOEXEC | AT_EMPTY_PATH | (all ? AT_TREE : 0U);
	long fd = syscall(SYS_open_tree, at, path, flags);
	return fd < 0 ? -errno : (int) fd;
}

static int set_attr(int fd, uint64_t set, bool all) {
	struct attr attr = { .set = set, .propagation = MS_PRIVATE };
	return syscall(NR_MOUNT_SETATTR, fd, "", AT_EMPTY_PATH | (all ? AT_TREE : 0U), &attr, sizeof attr) < 0
		       ? -errno
		       : 0;
}

static int attach(int tree, int target) {
	return syscall(SYS_move_mount, tree, "", target, "", MOVE_FROM_EMPTY | MOVE_TO_EMPTY) < 0 ? -errno : 0;
}

/* A new file system, detached. `options`: name, value, ..., NULL. */
static int new_fs(const char *type, const char *const *options, uint64_t attrs) {
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

static int new_tmpfs(const char *mode, const char *size, uint64_t attrs) {
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

/* Opens the directory above `path`, which is made, and gives its last part. */
static int open_parent(const struct root *root, const char *path, const char **ret_name) {
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

/* Opens the place where something is to be mounted; makes it when it is not there. */
static int open_target(const struct root *root, const char *path, bool is_dir) {
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

/* Mounts a tree at a path; it closes `tree`. */
static int attach_at(const struct root *root, int tree_fd, const char *path, bool is_dir) {
	AUTO_FD tree = tree_fd;
	if (tree < 0)
		return tree;
	AUTO_FD target = open_target(root, path, is_dir);
	return target < 0 ? target : attach(tree, target);
}

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
	int r = set_attr(tree, attrs, true);
	if (r < 0)
		return r;
	AUTO_FD at = open_target(root, target, S_ISDIR(st.st_mode));
	if (at < 0)
		return at;
	r = attach(tree, at);
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

/* Hides a file or a directory of the kernel's file systems. What is not there needs no hiding. */
static int mask(const struct root *root, const char *path) {
	struct stat st;
	AUTO_FD fd = open_in(root, path, O_PATH);
	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	AUTO_FD cover = S_ISDIR(st.st_mode) ? new_tmpfs("0555", "4k", ATTR_RDONLY | ATTR_NOEXEC)
					    : clone_tree(AT_FDCWD, "/dev/null", false);
	return cover < 0 ? cover : attach(cover, fd);
}

static int make_read_only(const struct root *root, const char *path) {
	AUTO_FD fd = open_in(root, path, O_PATH);
	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	AUTO_FD tree = clone_tree(fd, "", true);
	if (tree < 0)
		return tree;
	int r = set_attr(tree, ATTR_RDONLY, true);
	return r < 0 ? r : attach(tree, fd);
}

/* Of the task's own pid namespace when it has one; else the host's. */
static int mount_proc(const struct root *root) {
	static const char *const masked[] = { "/proc/acpi",	  "/proc/kcore",       "/proc/keys",
					      "/proc/latency_stats", "/proc/timer_list", "/proc/sched_debug",
					      "/proc/scsi" };
	static const char *const read_only[] = { "/proc/asound", "/proc/bus", "/proc/fs",
						 "/proc/irq",	 "/proc/sys", "/proc/sysrq-trigger" };
	const uint64_t attrs = ATTR_NOSUID | ATTR_NODEV | ATTR_NOEXEC;
	int tree = root->spec->isolate & ISOLATE_PID ? new_fs("proc", NULL, attrs) : clone_tree(AT_FDCWD, "/proc", true);
	int r = attach_at(root, tree, "/proc", true);
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(read_only); i++)
		r = make_read_only(root, read_only[i]);
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(masked); i++)
		r = mask(root, masked[i]);
	return r;
}

/*
 * Read-only, and without the host's cgroups: only the task's own, by which programs find their limits, where it
 * is a cgroup v2. An ordinary user may make no sysfs for the host's network: then the host's is bound.
 */
static int mount_sys(const struct root *root) {
	const uint64_t attrs = ATTR_RDONLY | ATTR_NOSUID | ATTR_NODEV | ATTR_NOEXEC;
	int tree = new_fs("sysfs", NULL, attrs);
	if (tree == -EPERM) {
		tree = clone_tree(AT_FDCWD, "/sys", true);
		int set = tree < 0 ? tree : set_attr(tree, attrs, true);
		if (tree >= 0 && set < 0) {
			(void) close(tree);
			return set;
		}
	}
	int r = attach_at(root, tree, "/sys", true);
	if (r == 0)
		r = mask(root, "/sys/firmware");
	if (r == 0)
		r = mask(root, "/sys/devices/virtual/powercap");
	if (r < 0)
		return r;
	AUTO_FD at = open_in(root, "/sys/fs/cgroup", O_PATH | O_DIRECTORY);
	if (at < 0)
		return at == -ENOENT ? 0 : at;
	AUTO_FD own = root->spec->cgroup && root->spec->isolate & ISOLATE_CGROUP ? new_fs("cgroup2", NULL, attrs) : -1;
	return own >= 0 ? attach(own, at) : mask(root, "/sys/fs/cgroup");
}

static int make_device(const struct root *root, const char *path) {
	AUTO_FD tree = clone_tree(AT_FDCWD, path, false);
	if (tree < 0)
		return tree;
	AUTO_FD target = open_target(root, path, false);
	return target < 0 ? target : attach(tree, target);
}

static int mount_shm(const struct root *root) {
	const uint64_t attrs = ATTR_NOSUID | ATTR_NODEV | ATTR_NOEXEC;
	bool own = root->spec->isolate & ISOLATE_IPC;
	int r = attach_at(root, own ? new_tmpfs("1777", SHM_SIZE, attrs) : clone_tree(AT_FDCWD, "/dev/shm", true),
			  "/dev/shm", true);
	if (r < 0)
		return r;
	int mqueue = own ? new_fs("mqueue", NULL, attrs) : clone_tree(AT_FDCWD, "/dev/mqueue", true);
	/* Kernels without message queues have nothing to mount. */
	return mqueue == -ENODEV || mqueue == -ENOENT ? 0 : attach_at(root, mqueue, "/dev/mqueue", true);
}

static int mount_dev(const struct root *root) {
	static const char *const devices[] = { "/dev/null",   "/dev/zero",    "/dev/full",
					       "/dev/random", "/dev/urandom", "/dev/tty" };
	static const char *const links[][2] = { { "/proc/self/fd", "fd" },
						{ "/proc/self/fd/0", "stdin" },
						{ "/proc/self/fd/1", "stdout" },
						{ "/proc/self/fd/2", "stderr" },
						{ "pts/ptmx", "ptmx" } };
	/* In a user namespace there is no such group. */
	static const char *const pts_options[] = { "ptmxmode", "0666", "mode", "0620", "gid", TTY_GROUP, NULL };
	static const char *const own_pts_options[] = { "ptmxmode", "0666", "mode", "0600", NULL };
	const uint64_t attrs = ATTR_NOSUID | ATTR_NOEXEC;
	AUTO_FD dev = new_tmpfs("0755", ROOT_SIZE, ATTR_NOEXEC);
	if (dev < 0)
		return dev;
	int r = set_attr(dev, 0, false);
	AUTO_FD at = r < 0 ? r : open_target(root, "/dev", true);
	if (at < 0 || (r = attach(dev, at)) < 0)
		return at < 0 ? at : r;
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(devices); i++)
		r = make_device(root, devices[i]);
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(links); i++)
		r = symlinkat(links[i][0], dev, links[i][1]) < 0 ? -errno : 0;
	if (r < 0)
		return r;
	const char *const *options = root->spec->isolate & ISOLATE_USER ? own_pts_options : pts_options;
	r = attach_at(root, new_fs("devpts", options, attrs), "/dev/pts", true);
	if (r == 0)
		r = mount_shm(root);
	/* Devices are mounts of their own: the directory itself can be closed. */
	return r < 0 ? r : set_attr(dev, ATTR_RDONLY, false);
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
	return at < 0 ? -errno : attach(tree, at);
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
	r = set_attr(fd, ATTR_RDONLY, false);
	return r < 0 ? r : move_in(&root);
}
