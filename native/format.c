/* format.c - the few conversions of printf that are used here; see util.h. */
#define _GNU_SOURCE
#include "util.h"

#include <string.h>
#include <unistd.h>

struct sink {
	char *buf;
	size_t cap, len; /* len counts what does not fit as well */
};

static void put(struct sink *s, char c) {
	if (s->len + 1 < s->cap)
		s->buf[s->len] = c;
	s->len++;
}

static void put_string(struct sink *s, const char *text, size_t most) {
	for (size_t i = 0; i < most && text[i] != '\0'; i++)
		put(s, text[i]);
}

static void put_number(struct sink *s, unsigned long long value, unsigned int base, size_t width) {
	char digits[24];
	size_t n = 0;
	do {
		digits[n++] = "0123456789abcdef"[value % base];
		value /= base;
	} while (value != 0);
	for (size_t i = n; i < width; i++)
		put(s, '0');
	while (n > 0)
		put(s, digits[--n]);
}

static void put_signed(struct sink *s, long long value, size_t width) {
	if (value < 0)
		put(s, '-');
	put_number(s, value < 0 ? 0ULL - (unsigned long long) value : (unsigned long long) value, 10, width);
}

static size_t take_number(const char **at) {
	size_t n = 0;
	for (; **at >= '0' && **at <= '9'; (*at)++)
		n = n * 10 + (size_t) (**at - '0');
	return n;
}

size_t format_args(char *buf, size_t cap, const char *format, va_list args) {
	struct sink s = { .buf = buf, .cap = cap };
	for (const char *at = format; *at != '\0'; at++) {
		if (*at != '%') {
			put(&s, *at);
			continue;
		}
		at++;
		size_t width = take_number(&at), most = SIZE_MAX;
		if (*at == '.') {
			at++;
			if (*at == '*') {
				int given = va_arg(args, int);
				most = given < 0 ? SIZE_MAX : (size_t) given;
				at++;
			} else {
				most = take_number(&at);
			}
		}
		bool is_long = strncmp(at, "ll", 2) == 0;
		at += is_long ? 2 : 0;
		switch (*at) {
		case 's':
			put_string(&s, va_arg(args, const char *), most);
			break;
		case 'd':
			put_signed(&s, is_long ? va_arg(args, long long) : va_arg(args, int), width);
			break;
		case 'u':
		case 'x':
			put_number(&s, is_long ? va_arg(args, unsigned long long) : va_arg(args, unsigned int),
				   *at == 'x' ? 16 : 10, width);
			break;
		default:
			put(&s, *at); /* `%%`; nothing else is used. */
			break;
		}
	}
	if (cap > 0)
		buf[s.len < cap ? s.len : cap - 1] = '\0';
	return s.len;
}

int format_text(char *buf, size_t cap, const char *format, ...) {
	va_list args;
	va_start(args, format);
	size_t n = format_args(buf, cap, format, args);
	va_end(args);
	return (int) n;
}

void say(const char *format, ...) {
	char buf[1024];
	va_list args;
	va_start(args, format);
	size_t n = format_args(buf, sizeof buf, format, args);
	va_end(args);
	(void) write_full(STDERR_FILENO, buf, n < sizeof buf ? n : sizeof buf - 1);
}
