/*
 * isolate.h - the namespaces of a task. Used in the child only; every function says at which stage it stopped,
 * and in c->detail what it was about.
 */
#pragma once

#include "child.h"
#include "privileges.h"

/* Enters new namespaces, as far as the spec wants them; of pids the caller's children will be in the new one. */
int namespaces_enter(struct child *c, const struct identity *id, enum stage *ret_stage);

/*
 * What becomes process 1 of the pid namespace: makes the task's root, says so by one byte into `built`, waits at
 * the gate, and then only reaps, until the leader and all others are gone. Never returns.
 */
_Noreturn void init_main(struct child *c, const struct identity *id, int built);

/* Forks a sibling: a child of our parent. 0 in it, its pid here, or -errno. */
pid_t fork_sibling(void);

/* The command `probe`: can namespaces be entered here, in a user namespace or without one? 0 = yes. */
int probe(bool in_user_namespace);
