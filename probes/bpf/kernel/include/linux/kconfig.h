/* SPDX-License-Identifier: Apache-2.0 */
/* What bcc includes before anything else: the only option of the kernel's that its own headers ask for. */
#define CONFIG_BPF_SYSCALL 1
