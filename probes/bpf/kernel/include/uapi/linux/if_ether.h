/* SPDX-License-Identifier: Apache-2.0 */
/* Nothing of it is needed: bcc includes it, and brings its own bpf.h. */
