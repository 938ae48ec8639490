/* A libnvidia-ml that knows two GPUs, as nvml.h lays out its structs; what they count is in the file $GPUS:
 * for each GPU the numbers of the fields 3, 4, 74, 76, 269, 270, 271 (-1: not supported), its mask of reasons, and
 * the number of an XID that waits (0: none). Tests use it where no driver is, so that nvidia-ml-py itself is at work.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, INVALID = 2, NOT_SUPPORTED = 3, TIMEOUT = 10, GPUS = 2, FIELDS = 7, REASONS = 7, XID = 8, NUMBERS = 9 };
static const unsigned fields[FIELDS] = {3, 4, 74, 76, 269, 270, 271};
static int handles[GPUS], taken[GPUS];

struct pci { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; };
struct value { unsigned field, scope; long long timestamp, latency; int type, result; unsigned long long number; };
struct event { void *device; unsigned long long type, data; unsigned gpu_instance, compute_instance; };

static long long number(int gpu, int which)
{
    FILE *file = fopen(getenv("GPUS"), "r");
    long long found = -1;
    for (int at = 0; file && at <= gpu * NUMBERS + which; at++)
        if (fscanf(file, "%lld", &found) != 1)
            found = -1;
    if (file)
        fclose(file);
    return found;
}

static int index_of(void *device) { return (int)((int *)device - handles); }

int nvmlInitWithFlags(unsigned flags) { (void)flags; return SUCCESS; }
int nvmlShutdown(void) { return SUCCESS; }
const char *nvmlErrorString(int result) { (void)result; return "an error"; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = GPUS; return SUCCESS; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device)
{
    if (index >= GPUS)
        return INVALID;
    *device = &handles[index];
    return SUCCESS;
}

int nvmlDeviceGetIndex(void *device, unsigned *index) { *index = (unsigned)index_of(device); return SUCCESS; }

int nvmlDeviceGetPciInfo_v3(void *device, struct pci *pci)
{
    memset(pci, 0, sizeof *pci);
    snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%X:00.0", 0x3a + index_of(device));
    return SUCCESS;
}

int nvmlDeviceGetFieldValues(void *device, int count, struct value *values)
{
    for (int at = 0; at < count; at++) {
        values[at].result = NOT_SUPPORTED;
        for (int which = 0; which < FIELDS; which++) {
            long long found = fields[which] == values[at].field ? number(index_of(device), which) : -1;
            if (found >= 0) {
                values[at].result = SUCCESS;
                values[at].number = (unsigned long long)found;
            }
        }
    }
    return SUCCESS;
}

int nvmlDeviceGetCurrentClocksEventReasons(void *device, unsigned long long *mask)
{
    *mask = (unsigned long long)number(index_of(device), REASONS);
    return SUCCESS;
}

int nvmlEventSetCreate(void **set) { static int one; *set = &one; return SUCCESS; }
int nvmlEventSetFree(void *set) { (void)set; return SUCCESS; }

int nvmlDeviceRegisterEvents(void *device, unsigned long long types, void *set)
{
    (void)device;
    (void)set;
    return types == 8 ? SUCCESS : NOT_SUPPORTED;
}

int nvmlEventSetWait_v2(void *set, struct event *event, unsigned timeout_ms)
{
    (void)set;
    (void)timeout_ms;
    for (int gpu = 0; gpu < GPUS; gpu++) {
        long long xid = number(gpu, XID);
        if (xid > 0 && taken[gpu] != xid) {
            taken[gpu] = (int)xid;
            memset(event, 0, sizeof *event);
            event->device = &handles[gpu];
            event->type = 8;
            event->data = (unsigned long long)xid;
            return SUCCESS;
        }
    }
    return TIMEOUT;
}
