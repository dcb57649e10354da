/* SPDX-License-Identifier: MIT */
/*
 * describe.h - jobs and what they wait for, in words: for the dump and for reports.
 */
#ifndef KC_JOB_DESCRIBE_H
#define KC_JOB_DESCRIBE_H

#include "job/job.h"

enum { KC_TEXT_SIZE = 384 };

/* What it is: a job, scope, group or promise. */
const char *kc__job_kind(const kc_job_t *j);

/* A line that is being made. */
typedef struct {
    char text[KC_TEXT_SIZE];
} kc_text_t;

/* Appends; what does not fit is cut. */
void kc__text_add(kc_text_t *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Appends a name in quotes, if there is one, from any address; it is cut after 31 bytes. */
void kc__text_add_name(kc_text_t *t, const char *from);

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

/*
 * What waits are for that this folder does not know: locks, channels. src/sync defines the table.
 * An object may be a copy of one.
 */
struct kc_wait_objects {
    /* Who has the lock that a wait of this kind is for; 0: nobody, or it has no single owner. */
    uint64_t (*owner)(kc_wait_kind_t kind, const void *object);
    /* The name of a lock, by the kind of wait that takes it; NULL: none. */
    const char *(*name)(kc_wait_kind_t kind, const void *lock);
    /* Appends name, address and owner. */
    void (*add)(kc_text_t *t, kc_wait_kind_t kind, const void *object);
};
extern const KC_HIDDEN struct kc_wait_objects kc__wait_objects;

#endif
