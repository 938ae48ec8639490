/* SPDX-License-Identifier: Apache-2.0 */
/* PAGE_SIZE is given on the command line, of the kernel that runs. */
