/* launch.h - the helper that starts foreground processes for the agent. */
#pragma once

/* Serves requests from standard input until its end. Returns the exit status. See launch.c for the words. */
int launch(char *program);
