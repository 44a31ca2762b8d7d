/*
 * pump.h - what the parts of the way from a task's pipes into its log files offer each other.
 *
 *   pump.c      the writer: the thread that moves the bytes
 *   logs.c      the files: names, rotation, the marker of a gap
 *   chunk.c     the chunk on its way, and how far it is, for the executor that takes over
 *   turns.c     who reads the pipes: the writer, or, while a disk does not answer, the main thread
 */
#pragma once

#include "executor.h"

/* How much is on its way at once: what a pipe holds. With half of it all takes a quarter longer, and the executor less memory meanwhile. */
#define CHUNK 65536U
/* The longest line that is never cut. No line is begun so near the end of a file that does not end there. */
#define LAST_STRETCH 65536U
/* So many bytes tell whether a read has happened. */
#define CHUNK_MARK 8U
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

/* chunk.c; all of it of the writer, and between begin_disk() and end_disk(), but for the last two. There is one chunk at a time. */
void chunk_open(struct executor *x);
/* Where up to `len` bytes may be looked at, while there is no chunk. */
uint8_t *chunk_room(struct executor *x, size_t len);
/* Up to `len` bytes are about to be read to where this points. `seen`: the bytes that will come, for `len` up to CHUNK_MARK; or NULL. */
void *chunk_expect(struct executor *x, const struct stream *s, size_t len, const uint8_t *seen);
/* They have been read. */
void chunk_hold(size_t len);
/* Those of them that have not been written. */
const uint8_t *chunk_rest(size_t *ret_len);
/* The first `len` of those are about to be written at s->pos. */
void chunk_write(const struct stream *s, size_t len);
void chunk_written(size_t len);
/* Nothing is on its way any more. */
void chunk_none(void);
/* The stream of what the executor before us has left on its way, which is held now; NULL = nothing. */
struct stream *chunk_left(struct executor *x);
/* More than a little memory is used for it; gives that back. */
bool chunk_is_large(void);
void chunk_shrink(void);

/* turns.c */
/* From here on a file may be touched. `held` bytes of `of` (or NULL) are to be written. */
void begin_disk(struct executor *x, struct stream *of, size_t held);
/* Files have been touched. False: it took so long that the main thread has emptied the pipes meanwhile. */
bool end_disk(struct executor *x);
/* Something has been written. What takes long from here on has only begun. */
void count_step(struct executor *x);
/* The writer goes to sleep until there is output, with nothing in its hands; and is awake again. */
void writer_waits(struct executor *x);
void writer_wakes(struct executor *x);
/* The writer has come to its end. */
void writer_done(struct executor *x);

/* pump.c */
/* Takes up to `len` bytes out of a pipe. They go nowhere. As read(2). */
ssize_t discard(int fifo, size_t len);
int scratch_open(struct executor *x);
size_t at_hand(const struct stream *s);
/* Moves what is in the pipes now, then lets go of files and pipes. */
void finish_streams(struct executor *x);
