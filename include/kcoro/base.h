/* SPDX-License-Identifier: MIT */
/*
 * kcoro/base.h - what every public header needs: linkage and attributes.
 *
 * In src: base/version.c.
 */
#ifndef KCORO_BASE_H
#define KCORO_BASE_H

#ifdef __cplusplus
#define KC_BEGIN_DECLS extern "C" {
#define KC_END_DECLS }
#else
#define KC_BEGIN_DECLS
#define KC_END_DECLS
#endif

#define KC_API __attribute__((visibility("default")))
#define KC_WARN_UNUSED __attribute__((warn_unused_result))
#define KC_PRINTF(fmt, first) __attribute__((__format__(__printf__, fmt, first)))

/* The version of the headers; kc_version() is the version of the library that runs. */
#define KC_VERSION_MAJOR 0
#define KC_VERSION_MINOR 1
#define KC_VERSION_PATCH 0

KC_BEGIN_DECLS

/* Context: anywhere.  Returns: "major.minor.patch" of the library, a static string. */
KC_API const char *kc_version(void);

KC_END_DECLS

#endif
