/* SPDX-License-Identifier: Apache-2.0 */
/* The types that bcc's headers and our programs use, so that a host needs no kernel headers. No struct of the kernel
 * is known here: a program that would read one by the layout of another kernel does not compile. */
#ifndef PAUSETRACE_TYPES_H
#define PAUSETRACE_TYPES_H
typedef signed char __s8;
typedef unsigned char __u8;
typedef short __s16;
typedef unsigned short __u16;
typedef int __s32;
typedef unsigned int __u32;
typedef long long __s64;
typedef unsigned long long __u64;
typedef __u16 __le16;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u64 __be64;
typedef __u16 __sum16;
typedef __u32 __wsum;
#define __aligned_u64 __u64 __attribute__((aligned(8)))

typedef __s8 s8;
typedef __u8 u8;
typedef __s16 s16;
typedef __u16 u16;
typedef __s32 s32;
typedef __u32 u32;
typedef __s64 s64;
typedef __u64 u64;
typedef __s32 int32_t;
typedef __s64 int64_t;
typedef __u8 uint8_t;
typedef __u16 uint16_t;
typedef __u32 uint32_t;
typedef __u64 uint64_t;
typedef unsigned long size_t;
typedef unsigned long uintptr_t;
typedef _Bool bool;
#define true 1
#define false 0
#endif
