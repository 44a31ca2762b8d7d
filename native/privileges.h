/* privileges.h - who the task is, and what it may do: user, groups, capabilities, no_new_privs, seccomp. */
#pragma once

#include "child.h"

struct identity {
	bool known; /* false = the spec names no user: nothing changes */
	uid_t uid;
	gid_t gid;
	gid_t *groups;
	int count;
};

/* Looks the user up in the database of the host. Allocates, and may take long. */
int identity_find(const struct spec *spec, struct identity *ret_id, enum stage *ret_stage);

/* Becomes the user and gives up what the spec does not leave; after it only chdir and exec follow. */
int privileges_take(struct child *c, const struct identity *id, enum stage *ret_stage);

/* Gives up every capability. */
int capabilities_give_up(void);

/* seccomp.c: filters system calls; those that belong to a capability are let through when `caps` has it. */
int seccomp_filter(uint64_t caps, bool host_pids);
