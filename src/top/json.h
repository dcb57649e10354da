/* SPDX-License-Identifier: MIT */
/*
 * json.h - strings in JSON.
 */
#ifndef KC_TOP_JSON_H
#define KC_TOP_JSON_H

#include <stdio.h>

/* Writes the characters of a string, without the quotes. */
void kc__json_put_text(FILE *out, const char *text);

#endif
