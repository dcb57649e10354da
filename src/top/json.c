/* SPDX-License-Identifier: MIT */
/*
 * json.c - strings of the user's in JSON: what is not UTF-8 there is replaced.
 */
#include "top/json.h"

/* How many bytes of well-formed UTF-8 stand at s; 0: none. */
static size_t utf8(const unsigned char *s)
{
    size_t n = s[0] < 0x80 ? 1 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;

    if (s[0] > 0xf4 || (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
        (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    return n;
}

void kc__json_put_text(FILE *out, const char *text)
{
    const unsigned char *s = (const unsigned char *)text;

    for (size_t n; *s; s += n ? n : 1) {
        n = utf8(s);
        if (n == 0)
            fputs("\\ufffd", out);
        else if (*s == '"' || *s == '\\')
            fprintf(out, "\\%c", *s);
        else if (*s < 0x20 || *s == 0x7f)
            fprintf(out, "\\u%04x", *s);
        else
            fwrite(s, 1, n, out);
    }
}
