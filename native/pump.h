/*
 * pump.h - what the parts of the way from a task's pipes into its log files offer each other.
 *
 *   pump.c      the writer: the thread that moves the bytes
 *   logs.c      the files: names, rotation, the marker of a gap
 *   intent.c    what the writer is about to do, for the executor that takes over
 *   turns.c     who reads the pipes: the writer, or, while a disk does not answer, the main thread
 */
#pragma once

#include "executor.h"

/* The capacity of a pipe, and the longest line that is kept in one piece. */
#define CHUNK 65536U
/* How much one stream may move before the others have their turn. */
#define TURN_BYTES (1U << 20)
/* Names that are no plain file are stepped over, so often. */
#define MAX_SKIPPED 16
/* Wakes the writer: it is to come to its end. */
#define FINISH_SIGNAL SIGUSR2

/* logs.c; of the writer, once there is one, between begin_disk() and end_disk(). */
/* Makes sure that the present file is open and still in its directory, and knows its length. */
int ready_file(struct executor *x, struct stream *s);
int rotate(struct executor *x, struct stream *s);
bool at_line_start(const struct stream *s);
/* Says in the log itself what is missing from it. */
int mark_gap(struct stream *s);

/* intent.c; likewise. */
void intents_open(struct executor *x);
/* `len` bytes from the front of the pipe are about to be written at s->pos. */
void intent_write(struct executor *x, const struct stream *s, size_t len);
/* The `len` bytes before `end` are in the file; whoever takes them out of the pipe puts the last one where this points to. NULL = nowhere. */
volatile uint8_t *intent_take(struct executor *x, const struct stream *s, uint64_t end, size_t len);
void intent_none(struct executor *x, const struct stream *s);
/* How many bytes at the front of the pipe the executor before us seems to have written already, and where they end. */
size_t intent_left(struct executor *x, const struct stream *s, uint64_t *ret_end);

/* turns.c */
/* From here on a file may be touched. `held` bytes of `of` (or NULL) will be written, whoever takes them out of the pipe. */
void begin_disk(struct executor *x, struct stream *of, size_t held);
/* Files have been touched. False: it took so long that the main thread has emptied the pipes meanwhile, the held bytes included. */
bool end_disk(struct executor *x);
/* The writer has come to its end. */
void writer_done(struct executor *x);

/* pump.c */
/*
 * Takes up to `len` bytes out of a pipe, in one step that SIGKILL cannot cut in two. The last of them goes to *ret_last unless that is
 * NULL, the others nowhere. As read(2).
 */
ssize_t discard(int fifo, size_t len, volatile uint8_t *ret_last);
int scratch_open(struct executor *x);
size_t at_hand(const struct stream *s);
/* Moves what is in the pipes now, then lets go of files and pipes. */
void finish_streams(struct executor *x);
