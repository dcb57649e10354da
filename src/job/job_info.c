/* SPDX-License-Identifier: MIT */
/*
 * job_info.c - what users may ask of the handle of a job: how it is, how it ended, who it is.
 *
 * ORDER    id          site   operation     pairs with  carries
 *          job_info.1  state  load_acquire  word.2      code and reason
 */
#include "job/job.h"

kc_job_t *kc_job_current(void)
{
    return kc__job_current();
}

void kc__job_not_live(const char *call, const void *handle)
{
    if (!handle)
        kc__usage(call, "the job is NULL " KC_RULE("J18"));
    if (kc__block_is_free(handle))
        kc__usage(call, "the job has been freed " KC_RULE("J18"));
    kc__usage(call, "the pointer is not a job " KC_RULE("J18"));
}

kc_job_t *kc_job_retain(kc_job_t *j)
{
    kc__job_ref(kc__job_live("kc_job_retain", j));
    return j;
}

void kc_job_release(kc_job_t *j)
{
    if (j)
        kc__job_give_up(kc__job_live("kc_job_release", j));
}

kc_job_state_t kc_job_state(const kc_job_t *j)
{
    uint64_t word = kc_load_acquire(&kc__job_live("kc_job_state", j)->task.word); /* job_info.1 */

    kc__tsan_acquire(j);
    if (word & KC_WORD_DONE)
        return word & KC_WORD_DONE_FAILED      ? KC_JOB_FAILED
               : word & KC_WORD_DONE_CANCELLED ? KC_JOB_CANCELLED
                                               : KC_JOB_COMPLETED;
    return word & KC_WORD_CANCELLED ? KC_JOB_CANCELLING : KC_JOB_ACTIVE;
}

int kc_job_result(const kc_job_t *j, int *code)
{
    if (!j)
        return -EINVAL;
    uint64_t word = kc_load_acquire(&kc__job_live("kc_job_result", j)->task.word); /* job_info.1 */
    if (!(word & KC_WORD_DONE))
        return -EAGAIN;
    int result = kc__job_result(j);
    if (code)
        *code = result;
    return 0;
}

const char *kc_job_name(const kc_job_t *j)
{
    kc_job_ext_t *ext = kc__job_ext_of(kc__job_live("kc_job_name", j));

    return ext ? ext->name : "";
}

uint64_t kc_job_id(const kc_job_t *j)
{
    return kc__job_number(kc__job_live("kc_job_id", j));
}

void kc__job_record(kc_sched_t *s, kc_job_t *j, int64_t at, kc_event_kind_t kind)
{
    kc_job_ext_t *ext = kc__job_ext_of(j);
    bool top = kc__job_flags(j->parent) & KC_JOB_ROOT;
    kc_record_t e = { .at = at,
                      .job = kc__job_number(j),
                      .other = top ? 0 : kc__job_number(j->parent),
                      .kind = (uint8_t)kind,
                      .value = (int32_t)kc__job_flags(j),
                      .state = kc__job_word(j) & KC_WORD_CANCELLED ? KC_JOB_CANCELLING
                                                                   : KC_JOB_ACTIVE };

    kc__sched_record(s, e, ext && ext->name[0] ? ext->name : NULL);
}
