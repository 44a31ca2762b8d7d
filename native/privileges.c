/*
 * privileges.c - see privileges.h. Whatever is taken on is read back: a credential that is not as asked for is a
 * start that failed.
 */
#define _GNU_SOURCE
#include "privileges.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Numbers of capabilities fit a 64-bit word, in this header format as in the kernel. */
#define MOST_CAPS 63

struct caps {
	uint64_t effective, permitted, inheritable;
};

/*
 * Name or number. A number that the user database does not know gets the group of the same number and no
 * others.
 */
static int look_up(const char *user, struct identity *ret_id) {
	errno = 0;
	const struct passwd *pw = getpwnam(user);
	if (!pw) {
		const char *end;
		int64_t n = read_number(user, &end);
		if (user[0] < '0' || user[0] > '9' || *end != '\0' || n >= UINT32_MAX)
			return -ENOENT;
		pw = getpwuid((uid_t) n);
		if (!pw) {
			static gid_t own;
			own = (gid_t) n;
			*ret_id = (struct identity){
				.known = true, .uid = (uid_t) n, .gid = own, .groups = &own, .count = 1
			};
			return 0;
		}
	}
	struct identity id = { .known = true, .uid = pw->pw_uid, .gid = pw->pw_gid, .count = 64 };
	for (int tries = 0; tries < 2; tries++) {
		gid_t *groups = reallocarray(id.groups, (size_t) id.count, sizeof *groups);
		if (!groups)
			return -ENOMEM;
		id.groups = groups;
		if (getgrouplist(pw->pw_name, id.gid, id.groups, &id.count) >= 0) {
			*ret_id = id;
			return 0;
		}
	}
	return -E2BIG;
}

int identity_find(const struct spec *spec, struct identity *ret_id, enum stage *ret_stage) {
	*ret_stage = STAGE_USER;
	*ret_id = (struct identity){ 0 };
	if (!spec->user)
		return 0;
	int r = look_up(spec->user, ret_id);
	return r < 0 || geteuid() == 0 || ret_id->uid == geteuid() ? r : -EPERM;
}

static int check_groups(const struct identity *id) {
	gid_t *now = calloc((size_t) id->count + 1, sizeof *now);
	if (!now)
		return -ENOMEM;
	if (getgroups(id->count, now) != id->count)
		return -EPERM;
	for (int i = 0; i < id->count; i++) {
		bool found = false;
		for (int k = 0; k < id->count; k++)
			found = found || now[k] == id->groups[i];
		if (!found)
			return -EPERM;
	}
	return 0;
}

/* Becomes the user, with exactly the groups of the user database, and looks whether that is so. */
static int become_user(const struct spec *spec, const struct identity *id, enum stage *ret_stage) {
	if (!id->known || geteuid() != 0)
		return 0;
	*ret_stage = STAGE_USER;
	/* So that the task can open /dev/stdout and /dev/stderr anew. */
	for (int fd = 1; (spec->log_dir || spec->tty_columns > 0) && fd <= STREAMS; fd++) {
		if (fchown(fd, id->uid, (gid_t) -1) < 0)
			return -errno;
	}
	*ret_stage = STAGE_GROUPS;
	if (setgroups((size_t) id->count, id->groups) < 0)
		return -errno;
	int r = check_groups(id);
	if (r < 0)
		return r;
	gid_t gids[3];
	*ret_stage = STAGE_GID;
	if (setresgid(id->gid, id->gid, id->gid) < 0 || getresgid(&gids[0], &gids[1], &gids[2]) < 0)
		return -errno;
	if (gids[0] != id->gid || gids[1] != id->gid || gids[2] != id->gid)
		return -EPERM;
	uid_t uids[3];
	*ret_stage = STAGE_UID;
	if (setresuid(id->uid, id->uid, id->uid) < 0 || getresuid(&uids[0], &uids[1], &uids[2]) < 0)
		return -errno;
	if (uids[0] != id->uid || uids[1] != id->uid || uids[2] != id->uid)
		return -EPERM;
	return 0;
}

static int caps_get(struct caps *ret_caps) {
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];
	if (syscall(SYS_capget, &header, data) < 0)
		return -errno;
	*ret_caps = (struct caps){
		.effective = data[0].effective | (uint64_t) data[1].effective << 32,
		.permitted = data[0].permitted | (uint64_t) data[1].permitted << 32,
		.inheritable = data[0].inheritable | (uint64_t) data[1].inheritable << 32,
	};
	return 0;
}

static int caps_set(const struct caps *caps) {
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];
	for (unsigned int i = 0; i < ARRAY_LEN(data); i++) {
		data[i] = (struct __user_cap_data_struct){ .effective = (uint32_t) (caps->effective >> (32U * i)),
							   .permitted = (uint32_t) (caps->permitted >> (32U * i)),
							   .inheritable =
								   (uint32_t) (caps->inheritable >> (32U * i)) };
	}
	return syscall(SYS_capset, &header, data) < 0 ? -errno : 0;
}

int capabilities_give_up(void) {
	return caps_set(&(struct caps){ 0 });
}

/* What is not in the bounding set can never come back, not even by a file with capabilities. */
static int limit_bounding(uint64_t bounding) {
	for (unsigned int cap = 0; cap <= MOST_CAPS; cap++) {
		int has = prctl(PR_CAPBSET_READ, (unsigned long) cap, 0, 0, 0);
		if (has < 0)
			return 0; /* The kernel knows no more of them. */
		if (has == 1 && !(bounding >> cap & 1U) && prctl(PR_CAPBSET_DROP, (unsigned long) cap, 0, 0, 0) < 0)
			return -errno;
	}
	return 0;
}

/*
 * Root has what the bounding set leaves it. Anybody else has what was asked for by name, and by the ambient set
 * keeps it over exec. A capability asked for that is not there to be had is a fault.
 */
static int take_caps(uint64_t bounding, uint64_t ambient) {
	struct caps have;
	int r = caps_get(&have);
	if (r < 0)
		return r;
	bool is_root = geteuid() == 0;
	uint64_t want = is_root ? have.permitted & bounding : ambient;
	if (ambient & ~have.permitted)
		return -EPERM;
	const struct caps caps = { .effective = want, .permitted = want, .inheritable = is_root ? 0 : want };
	if ((r = caps_set(&caps)) < 0)
		return r;
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
		return -errno;
	for (unsigned int cap = 0; !is_root && cap <= MOST_CAPS; cap++) {
		if (want >> cap & 1U && prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, (unsigned long) cap, 0, 0) < 0)
			return -errno;
	}
	if ((r = caps_get(&have)) < 0)
		return r;
	return have.permitted == want && have.effective == want ? 0 : -EPERM;
}

int privileges_take(struct child *c, const struct identity *id, enum stage *ret_stage) {
	const struct spec *spec = &c->x->spec;
	const uint64_t bounding = (uint64_t) spec->caps_bounding, ambient = (uint64_t) spec->caps_ambient;
	bool caps = spec->privileges & PRIVILEGES_CAPS;
	*ret_stage = STAGE_CAPABILITIES;
	/* While becoming somebody else, so that what is left can still be chosen below. */
	if (caps && prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0)
		return -errno;
	int r = caps ? limit_bounding(bounding) : 0;
	if (r == 0)
		r = become_user(spec, id, ret_stage);
	if (r < 0)
		return r;
	*ret_stage = STAGE_CAPABILITIES;
	if (spec->privileges & PRIVILEGES_NO_NEW && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	if (spec->privileges & PRIVILEGES_SECCOMP) {
		/* Without no_new_privs a filter takes CAP_SYS_ADMIN, which becoming the user made ineffective. */
		struct caps have;
		if (caps && caps_get(&have) == 0) {
			have.effective = have.permitted;
			(void) caps_set(&have);
		}
		*ret_stage = STAGE_SECCOMP;
		if ((r = seccomp_filter(bounding, !(spec->isolate & ISOLATE_PID))) < 0)
			return r;
		*ret_stage = STAGE_CAPABILITIES;
	}
	return caps ? take_caps(bounding, ambient) : 0;
}
