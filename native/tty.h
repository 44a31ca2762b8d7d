/*
 * tty.h - a terminal of the task's own. Its other end must outlive an executor that is killed, and a terminal's
 * session must outlive its task, or what it printed last is lost: a small process, the holder, is there for both.
 */
#pragma once

#include "executor.h"

/*
 * In what becomes the executor: makes the terminal and the holder, when the spec wants one. True in the holder, which
 * must call terminal_hold(). What fails is told by terminal_ready().
 */
bool terminal_make(struct executor *x);
/* The whole life of the holder. */
_Noreturn void terminal_hold(struct executor *x);

/* The FIFOs are there: the holder can begin. 0 or -errno when there is no terminal. */
int terminal_ready(struct executor *x);
/* For the one that takes over, with the holder's pid and start time from the status file. */
void terminal_adopt(struct executor *x);
/* The holder has ended. */
void terminal_ended(struct executor *x);
/* Asks the holder to hand on what is left, and to leave. True once that is over. */
bool terminal_finish(struct executor *x, uint64_t now);
