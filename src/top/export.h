/* SPDX-License-Identifier: MIT */
/*
 * export.h - the file of a trace.
 */
#ifndef KC_TOP_EXPORT_H
#define KC_TOP_EXPORT_H

#include "top/trace.h"

/* Writes the file: merges the chunks of all lanes. buffer: one for each lane. 0, negative errno. */
int kc__trace_export(kc_sched_t *s, kc_trace_t *t, unsigned lanes, kc_record_t **buffer);

#endif
