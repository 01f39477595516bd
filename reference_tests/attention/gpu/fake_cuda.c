/* CUDA's driver as Triton knows it, on a machine without one: nothing runs, and what the driver would refuse is refused.
   The limits are an H100's. Each launch is a line: kernel, programs, threads, bytes of shared memory. */
#include "cuda.h"
#include <stdio.h>

enum { SHARED = 227 * 1024 };
static const char *reason = "";

static CUresult refused(const char *why) {
    reason = why;
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult error, const char **text) { return *text = reason, CUDA_SUCCESS; }
CUresult cuPointerGetAttribute(void *found, CUpointer_attribute which, CUdeviceptr pointer) {
    return *(CUdeviceptr *)found = pointer, CUDA_SUCCESS;
}
CUresult cuDriverGetVersion(int *version) { return *version = CUDA_VERSION, CUDA_SUCCESS; }
CUresult cuCtxGetCurrent(CUcontext *context) { return *context = (CUcontext)1, CUDA_SUCCESS; }
CUresult cuCtxSetCurrent(CUcontext context) { return CUDA_SUCCESS; }
CUresult cuCtxGetLimit(size_t *value, CUlimit limit) { return *value = 0, CUDA_SUCCESS; }
CUresult cuCtxSetLimit(CUlimit limit, size_t value) { return CUDA_SUCCESS; }
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) { return cuCtxGetCurrent(context); }
CUresult cuDeviceGet(CUdevice *device, int number) { return *device = number, CUDA_SUCCESS; }
CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute which, CUdevice device) {
    return *value = which == CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN ? SHARED : 132, CUDA_SUCCESS;
}
CUresult cuModuleLoadData(CUmodule *module, const void *image) { return *module = (CUmodule)1, CUDA_SUCCESS; }
CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
    static char names[64][64];
    static int used = 0;
    snprintf(names[used % 64], sizeof names[0], "%s", name);
    return *function = (CUfunction)names[used++ % 64], CUDA_SUCCESS;
}
CUresult cuFuncGetAttribute(int *value, CUfunction_attribute which, CUfunction function) {
    return *value = which == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 1024 : 0, CUDA_SUCCESS;
}
CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute which, int value) { return CUDA_SUCCESS; }
CUresult cuFuncSetCacheConfig(CUfunction function, CUfunc_cache config) { return CUDA_SUCCESS; }

CUresult cuLaunchKernelEx(const CUlaunchConfig *launch, CUfunction function, void **arguments, void **extra) {
    if (launch->sharedMemBytes > SHARED) return refused("too much shared memory");
    if (launch->blockDimX > 1024) return refused("too many threads");
    if (launch->gridDimY > 65535 || launch->gridDimZ > 65535) return refused("too large a grid");
    printf("%s %u %u %u\n", (char *)function, launch->gridDimX, launch->blockDimX, launch->sharedMemBytes);
    fflush(stdout);
    return CUDA_SUCCESS;
}

CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
                                const cuuint64_t *sizes, const cuuint64_t *strides, const cuuint32_t *box,
                                const cuuint32_t *steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
    unsigned row = box[0] * (type == CU_TENSOR_MAP_DATA_TYPE_FLOAT32 ? 4 : 2);
    if ((cuuint64_t)address % 16) return refused("the address is no multiple of 16");
    for (unsigned i = 0; i < rank; i++) {
        if (!sizes[i] || sizes[i] > 1ull << 32) return refused("a size is out of range");
        if (!box[i] || box[i] > 256) return refused("a tile is out of range");
        if (i && (!strides[i - 1] || strides[i - 1] % 16 || strides[i - 1] >> 40)) return refused("a stride");
    }
    if (row % 16 || (swizzle && row > 16u << swizzle)) return refused("a tile's rows do not fit the swizzle");
    return CUDA_SUCCESS;
}
