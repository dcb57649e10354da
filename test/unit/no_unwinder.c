/* SPDX-License-Identifier: MIT */
/*
 * no_unwinder.c - linked where there is none: the compiler's own may be made for another C library.
 *
 * It finds no frame at all, so the tests of backtraces are skipped.
 */
#include <unwind.h>

_Unwind_Reason_Code _Unwind_Backtrace(_Unwind_Trace_Fn step, void *arg)
{
    (void)step, (void)arg;
    return _URC_END_OF_STACK;
}

_Unwind_Ptr _Unwind_GetIP(struct _Unwind_Context *context)
{
    (void)context;
    return 0;
}

_Unwind_Ptr _Unwind_GetRegionStart(struct _Unwind_Context *context)
{
    (void)context;
    return 0;
}
