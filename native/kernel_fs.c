/*
 * kernel_fs.c - /proc, /sys and /dev of a task that is shut in: its own where it has namespaces of its own, and without what
 * would change the host or tell too much of it.
 */
#define _GNU_SOURCE
#include "isolate.h"
#include "mount.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* Group `tty` of every distribution; terminals belong to it. */
#define TTY_GROUP "5"

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
	return cover < 0 ? cover : attach_tree(cover, fd);
}

static int make_read_only(const struct root *root, const char *path) {
	AUTO_FD fd = open_in(root, path, O_PATH);
	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	AUTO_FD tree = clone_tree(fd, "", true);
	if (tree < 0)
		return tree;
	int r = set_mount_attr(tree, ATTR_RDONLY, true);
	return r < 0 ? r : attach_tree(tree, fd);
}

/* Of the task's own pid namespace when it has one; else the host's. */
int mount_proc(const struct root *root) {
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
int mount_sys(const struct root *root) {
	const uint64_t attrs = ATTR_RDONLY | ATTR_NOSUID | ATTR_NODEV | ATTR_NOEXEC;
	int tree = new_fs("sysfs", NULL, attrs);
	if (tree == -EPERM) {
		tree = clone_tree(AT_FDCWD, "/sys", true);
		int set = tree < 0 ? tree : set_mount_attr(tree, attrs, true);
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
	return own >= 0 ? attach_tree(own, at) : mask(root, "/sys/fs/cgroup");
}

static int make_device(const struct root *root, const char *path) {
	AUTO_FD tree = clone_tree(AT_FDCWD, path, false);
	if (tree < 0)
		return tree;
	AUTO_FD target = open_target(root, path, false);
	return target < 0 ? target : attach_tree(tree, target);
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

int mount_dev(const struct root *root) {
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
	int r = set_mount_attr(dev, 0, false);
	AUTO_FD at = r < 0 ? r : open_target(root, "/dev", true);
	if (at < 0 || (r = attach_tree(dev, at)) < 0)
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
	return r < 0 ? r : set_mount_attr(dev, ATTR_RDONLY, false);
}
