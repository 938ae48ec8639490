/* SPDX-License-Identifier: Apache-2.0 */
/* LINUX_VERSION_CODE is given on the command line, of the kernel that runs. */
#define KERNEL_VERSION(a, b, c) (((a) << 16) + ((b) << 8) + (c))
