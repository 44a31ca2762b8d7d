/* tlv.h - the encoding shared by the spec file and the socket frames (see README.md, "Encoding"). */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct tlv_field {
	uint16_t tag;
	uint32_t len;
	const uint8_t *data;
};

static inline uint16_t le16(const uint8_t *p) {
	return (uint16_t) (p[0] | p[1] << 8);
}

static inline uint32_t le32(const uint8_t *p) {
	return (uint32_t) p[0] | (uint32_t) p[1] << 8 | (uint32_t) p[2] << 16 | (uint32_t) p[3] << 24;
}

static inline uint64_t le64(const uint8_t *p) {
	return (uint64_t) le32(p) | (uint64_t) le32(p + 4) << 32;
}

static inline void put_le16(uint8_t *p, uint16_t v) {
	p[0] = (uint8_t) v;
	p[1] = (uint8_t) (v >> 8);
}

static inline void put_le32(uint8_t *p, uint32_t v) {
	put_le16(p, (uint16_t) v);
	put_le16(p + 2, (uint16_t) (v >> 16));
}

static inline void put_le64(uint8_t *p, uint64_t v) {
	put_le32(p, (uint32_t) v);
	put_le32(p + 4, (uint32_t) (v >> 32));
}

#define TLV_HEADER 8U

/* Takes one field off the front of [*at, end). Returns 1, 0 at the end, -1 when it is malformed. */
static inline int tlv_next(const uint8_t **at, const uint8_t *end, struct tlv_field *ret_field) {
	size_t left = (size_t) (end - *at);
	if (left == 0)
		return 0;
	if (left < TLV_HEADER)
		return -1;
	uint32_t len = le32(*at + 4);
	if (len > left - TLV_HEADER)
		return -1;
	*ret_field = (struct tlv_field){ .tag = le16(*at), .len = len, .data = *at + TLV_HEADER };
	*at += TLV_HEADER + len;
	return 1;
}

/* Reads an integer field. Returns 0, or -1 when it does not have 8 bytes. */
static inline int tlv_int(const struct tlv_field *f, int64_t *ret_value) {
	if (f->len != 8)
		return -1;
	*ret_value = (int64_t) le64(f->data);
	return 0;
}
