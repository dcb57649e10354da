/* SPDX-License-Identifier: MIT */
/*
 * describe.h - jobs and what they wait for, in words: for the dump and for reports.
 */
#ifndef KC_FLOW_DESCRIBE_H
#define KC_FLOW_DESCRIBE_H

#include "flow/job.h"

enum { KC_TEXT_SIZE = 384 };

/* What it is: a job, scope, group or promise. */
const char *kc__job_kind(const kc_job_t *j);

/* A line that is being made. */
typedef struct {
    char text[KC_TEXT_SIZE];
} kc_text_t;

/* Appends; what does not fit is cut. */
void kc__text_add(kc_text_t *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Appends: job 7 "order". j has ended meanwhile: another one that is at this place now, or nothing
 * that does harm. */
void kc__text_add_job(kc_text_t *t, const kc_job_t *j);

/* The same for who owns a lock, as kc__owner_self says. */
void kc__text_add_owner(kc_text_t *t, uint64_t owner);

/* Appends what a wait of this kind is for: a mutex "accounts" at 0x5555, owned by job 5 "audit".
 * If the wait ends meanwhile the object may be gone: what is said then is nonsense, but nothing is
 * read that cannot be. */
void kc__text_add_wait(kc_text_t *t, kc_wait_kind_t kind, const void *object);

/* Appends the lock that somebody has by a wait of this kind: a mutex "accounts" at 0x5555. name may
 * be NULL. */
void kc__text_add_lock(kc_text_t *t, kc_wait_kind_t kind, const char *name, const void *lock);

/* There is more to say of it than its kind. */
bool kc__wait_has_object(kc_wait_kind_t kind);

/* Who has the lock that a wait of this kind is for; 0: nobody, or it is no lock of one owner. */
uint64_t kc__wait_owner(kc_wait_kind_t kind, const void *object);

#endif
