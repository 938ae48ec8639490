/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* The flow id: XXH3-64 with seed 0 of 40 bytes, the case "17 to 128 bytes" of the xxHash specification, 0 made 1. */
struct flow_tuple {
    u8 source[16]; /* IPv4 as ::ffff:a.b.c.d */
    u8 destination[16];
    u8 bytes[8]; /* protocol, source port, destination port, destination QPN: 1, 2, 2 and 3 bytes in network order */
};

#define XXH_PRIME64_1 0x9E3779B185EBCA87ULL

/* The high and low half of a 128-bit product, folded together: BPF multiplies 64 bits only. */
ALWAYS_INLINE u64 multiply_and_fold(u64 a, u64 b) {
    u64 low_a = (u32)a, high_a = a >> 32, low_b = (u32)b, high_b = b >> 32;
    u64 low = low_a * low_b, middle_1 = high_a * low_b, middle_2 = low_a * high_b;
    u64 cross = (low >> 32) + (u32)middle_1 + middle_2;
    u64 high = high_a * high_b + (middle_1 >> 32) + (cross >> 32);
    return a * b ^ high;
}

ALWAYS_INLINE u64 flow_id(const struct flow_tuple *tuple) {
    const u64 *word = (const u64 *)tuple; /* five little-endian words */
    /* The first 64 bytes of XXH3's default secret, as eight words. */
    u64 sum = 40 * XXH_PRIME64_1;
    sum += multiply_and_fold(word[2] ^ 0x78e5c0cc4ee679cbULL, word[3] ^ 0x2172ffcc7dd05a82ULL);
    sum += multiply_and_fold(word[1] ^ 0x8e2443f7744608b8ULL, word[2] ^ 0x4c263a81e69035e0ULL);
    sum += multiply_and_fold(word[0] ^ 0xbe4ba423396cfeb8ULL, word[1] ^ 0x1cad21f72c81017cULL);
    sum += multiply_and_fold(word[3] ^ 0xdb979083e96dd4deULL, word[4] ^ 0x1f67b3b7a4a44072ULL);
    sum ^= sum >> 37;
    sum *= 0x165667919E3779F9ULL;
    sum ^= sum >> 32;
    return sum ? sum : 1;
}
