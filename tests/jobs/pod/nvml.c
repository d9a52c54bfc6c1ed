/* A stand-in for the driver's library with its C interface, as nvml.h declares it: two GPUs, what they say is in
   the environment. https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceQueries.html */
#include <stdlib.h>
#include <string.h>

typedef struct { int number; } device;
typedef struct { unsigned int gpu, memory; } utilisation;
typedef struct { unsigned long long total, free, used; } memory;
typedef struct { unsigned int version; unsigned long long total, reserved, free, used; } memory_2;
static device devices[2] = {{0}, {1}};

static int said(const char *name) { const char *text = getenv(name); return text ? atoi(text) : 0; }

int nvmlInit_v2(void) { return said("NVML_INIT"); }
int nvmlDeviceGetCount_v2(unsigned int *count) { *count = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, device **found) {
    if (said("NVML_LOST")) return 15;
    *found = &devices[index];
    return 0;
}
int nvmlDeviceGetHandleByUUID(const char *uuid, device **found) {
    if (strcmp(uuid, "GPU-1")) return 6;
    *found = &devices[1];
    return 0;
}
int nvmlDeviceGetMigMode(device *one, unsigned int *mode, unsigned int *pending) {
    *mode = *pending = said("NVML_MIG");
    return said("NVML_MIG") ? 0 : 3;
}
int nvmlDeviceGetUtilizationRates(device *one, utilisation *found) {
    found->gpu = 40 + one->number;
    found->memory = 7;
    return 0;
}
int nvmlDeviceGetMemoryInfo_v2(device *one, memory_2 *found) {
    if (said("NVML_OLD")) return 13;
    if (found->version != (sizeof *found | 2U << 24)) return 25;
    found->total = 80ULL << 30;
    found->reserved = 600ULL << 20;
    found->used = (10ULL + one->number) << 30;
    found->free = found->total - found->reserved - found->used;
    return 0;
}
int nvmlDeviceGetMemoryInfo(device *one, memory *found) {
    found->total = 80ULL << 30;
    found->used = ((10ULL + one->number) << 30) + (600ULL << 20);
    found->free = found->total - found->used;
    return 0;
}
int nvmlDeviceGetPowerUsage(device *one, unsigned int *milliwatts) {
    if (one->number) return 3;
    *milliwatts = 312500;
    return 0;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(device *one, unsigned long long *reasons) {
    *reasons = one->number ? 0x20 : 0x1;
    return 0;
}
