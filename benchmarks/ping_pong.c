/* SPDX-License-Identifier: Apache-2.0 */
/* Two processes on one CPU throw a byte to and fro through two pipes: two wakeups and two switches a round trip, and
 * nothing else, which is the worst that a run-queue probe can meet. Prints the CPU time of both in ns a round trip. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double cpu_ns(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

int main(int argc, char **argv) {
    int round_trips = argc > 1 ? atoi(argv[1]) : 20000, cpu = argc > 2 ? atoi(argv[2]) : 0;
    int there[2], back[2], told[2];
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    if (pipe(there) || pipe(back) || pipe(told) || sched_setaffinity(0, sizeof(one), &one))
        return 1;
    pid_t child = fork();
    char byte = 0;
    double began = cpu_ns(CLOCK_PROCESS_CPUTIME_ID);
    for (int i = 0; i < round_trips; i++) {
        if (child) {
            if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1)
                return 1;
        } else if (read(there[0], &byte, 1) != 1 || write(back[1], &byte, 1) != 1) {
            return 1;
        }
    }
    double took = cpu_ns(CLOCK_PROCESS_CPUTIME_ID) - began, other = 0;
    if (!child)
        return write(told[1], &took, sizeof(took)) != sizeof(took);
    if (read(told[0], &other, sizeof(other)) != sizeof(other))
        return 1;
    waitpid(child, NULL, 0);
    printf("%.1f\n", (took + other) / round_trips);
    return 0;
}
