/*
 * launcher.c - the commands that an executor has no part in, and `become` for a child of one. Called by the name of the
 * executor, which hands on what is not its own.
 */
#define _GNU_SOURCE
#include "isolate.h"
#include "launch.h"
#include "notify.h"
#include "program.h"
#include "session.h"
#include "wake.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct executor executor;

/* The arguments go elsewhere, for as long as the process lives, since the title takes their place. */
static int enter_command(int argc, char **argv, char **envp) {
	static char **own, *text;
	size_t len = 0;
	for (int i = 0; i < argc; i++)
		len += strlen(argv[i]) + 1;
	own = calloc((size_t) argc + 1, sizeof *own);
	text = malloc(len);
	int r = own && text ? clean_descriptors() : -ENOMEM;
	if (r < 0) {
		say("holdfast-executor: enter: %s\n", strerror(-r));
		return TOLD_NO_SETUP;
	}
	char *at = text;
	for (int i = 0; i < argc; i++) {
		own[i] = at;
		at = stpcpy(at, argv[i]) + 1;
	}
	program_init(&executor);
	set_title(&executor, argc, argv, envp, EXECUTOR_NAME, "session");
	return enter(&executor, argc - 2, own + 2);
}

int main(int argc, char **argv, char **envp) {
	if (argc == 3 && strcmp(argv[1], LAUNCHER_BECOME) == 0) {
		program_init(&executor);
		become(&executor, argc, argv);
	}
	if (argc == 3 && strcmp(argv[1], "probe") == 0)
		return probe(strcmp(argv[2], "user") == 0);
	if (argc == 2 && strcmp(argv[1], "notify") == 0)
		return notify(getenv("NOTIFY_SOCKET"));
	if (argc == 3 && strcmp(argv[1], "launch") == 0)
		return launch(argv[2]);
	if (argc == 3 && strcmp(argv[1], "wake") == 0)
		return wake(argv[2]);
	if (argc == 3 && strcmp(argv[1], "unseat") == 0)
		return unseat(argv[2]);
	if (argc >= 2 && strcmp(argv[1], "enter") == 0)
		return enter_command(argc, argv, envp);
	say("usage: holdfast-executor run RUN_DIR | adopt RUN_DIR | wake RUN_DIR | unseat RUN_DIR | "
	    "launch PROGRAM | enter ... | notify | probe user|root | version\n");
	return TOLD_NO_SETUP;
}
