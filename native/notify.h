/*
 * notify.h - the helper that speaks to the service manager. Has nothing to do with runs.
 */
#pragma once

/*
 * Sends each NUL-terminated message on standard input as one datagram to `socket_name` (the value of NOTIFY_SOCKET, or
 * NULL), until end of file. Returns the exit status.
 */
int notify(const char *socket_name);
