"""Libraries whose kernels have no source to edit, by the file that holds the image."""

from __future__ import annotations

import os
import re
from collections.abc import Callable

from kerncap import env
from kerncap.capture.languages.language import Language
from kerncap.capture.source.wanted_source import FoundSource, SourceRequest
from kerncap.format import kernel_names
from kerncap.log import one_line

_LIBRARIES = (
    (re.compile(r"libcublas(?:Lt)?\b|libnvblas"), "cuBLAS"),
    (re.compile(r"libcudnn"), "cuDNN"),
    (re.compile(r"libcufftw?\b|libcufft"), "cuFFT"),
    (re.compile(r"libcusolver"), "cuSOLVER"),
    (re.compile(r"libcusparse"), "cuSPARSE"),
    (re.compile(r"libcurand"), "cuRAND"),
    (re.compile(r"libcutensor"), "cuTENSOR"),
    (re.compile(r"libcutensornet|libcustatevec|libcudensitymat"), "cuQuantum"),
    (re.compile(r"libnccl"), "NCCL"),
    (re.compile(r"libnvshmem"), "NVSHMEM"),
    (re.compile(r"libnpp"), "NPP"),
    (re.compile(r"libnvjpeg"), "nvJPEG"),
    (re.compile(r"libnvinfer|libnvonnxparser"), "TensorRT"),
    (re.compile(r"libcublasdx|libcufile|libnvtiff|libnvcomp"), "an NVIDIA library"),
    (re.compile(r"libcuda\.so|libnvidia-"), "the CUDA driver"),
    (re.compile(r"librocblas|libhipblas(?:lt)?\b|libtensilelite"), "rocBLAS or hipBLASLt"),
    (re.compile(r"libMIOpen"), "MIOpen"),
    (re.compile(r"librocfft|libhipfft"), "rocFFT"),
    (re.compile(r"librocsolver|libhipsolver"), "rocSOLVER"),
    (re.compile(r"librocsparse|libhipsparse"), "rocSPARSE"),
    (re.compile(r"librocrand|libhiprand"), "rocRAND"),
    (re.compile(r"libhiptensor|libdevice_operations|libdevice_\w+_operations"), "Composable Kernel"),
    (re.compile(r"librccl"), "RCCL"),
    (re.compile(r"librocalution|libmigraphx"), "an AMD library"),
    (re.compile(r"libamdhip64|libhsa-runtime64"), "the HIP runtime"),
)
# Kernels of the libraries by the shape of their names, for images that were given from memory.
_NAMES = (
    (re.compile(r"^(?:nvjet_|cublas|_ZN8cublas|gemmSN_|gemv2|gemmk1_|splitKreduce|_ZN\d+cublas)"), "cuBLAS"),
    (re.compile(r"^(?:cudnn|_ZN5cudnn|sm\d+_xmma_(?:fprop|dgrad|wgrad)|cutlass__\d+_cudnn)"), "cuDNN"),
    (re.compile(r"^(?:sm\d+_xmma_gemm|ampere_[\w]*gemm|volta_[\w]*gemm|hopper_[\w]*gemm)"), "cuBLAS"),
    (re.compile(r"^(?:nccl(?:Dev)?Kernel|_Z\d+nccl(?:Dev)?Kernel)"), "NCCL"),
    (re.compile(r"^(?:vector_fft|regular_fft|_Z\d+(?:vector|regular)_fft|_ZN5cufft)"), "cuFFT"),
    (re.compile(r"^Cijk_"), "rocBLAS or hipBLASLt"),
    (re.compile(r"^_ZN\d+cusparse|^_ZN8cusolver"), "cuSPARSE or cuSOLVER"),
)


class VendorLibraries(Language):
    name = "vendor library"

    def find(self, request: SourceRequest) -> FoundSource | None:
        library = vendor_library(request.mapped_from, request.mangled)
        if library is None:
            return None
        where = f" ({os.path.basename(request.mapped_from)})" if request.mapped_from else ""
        reason = f"no source exists: vendor library {library}{where}"
        entry = kernel_names.parse(request.mangled, request.demangled).base
        return FoundSource(entry=entry, missing=one_line(env.hide_home(reason)))

    def is_known(self, request: SourceRequest, image: Callable[[], bytes | None] | None) -> bool | None:
        return None if vendor_library(request.mapped_from, request.mangled) is None else False


def vendor_library(mapped_from: str | None, mangled: str) -> str | None:
    """The vendor library that a kernel belongs to, None for one that may have a source."""
    if mapped_from:
        name = os.path.basename(mapped_from)
        for pattern, library in _LIBRARIES:
            if pattern.match(name):
                return library
        return None  # linked into something else: its own line tables may know
    return next((library for pattern, library in _NAMES if pattern.match(mangled)), None)
