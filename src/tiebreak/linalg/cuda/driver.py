"""CUDA's driver and its run-time compiler NVRTC, called through ctypes."""

from __future__ import annotations

import contextlib
import ctypes
import glob
import os
import sys
from functools import lru_cache
from typing import Any


@lru_cache
def driver() -> Any:
    """The library of the CUDA driver; OSError if it is not installed."""
    return ctypes.CDLL("libcuda.so.1")


def check(status: int) -> None:
    """Raise RuntimeError if a call to the driver has failed."""
    if status:
        text = ctypes.c_char_p()
        driver().cuGetErrorString(status, ctypes.byref(text))
        raise RuntimeError(f"CUDA error {status}: {(text.value or b'unknown').decode()}")


def device_limits(device: int) -> list[int]:
    """The properties of a GPU that the kernel needs, which the driver identifies by number.

    These are the major and minor version of its compute capability, the number of multiprocessors,
    and the bytes of shared memory that a block can have.
    """
    handle, value = ctypes.c_int(), ctypes.c_int()
    check(driver().cuInit(0))
    check(driver().cuDeviceGet(ctypes.byref(handle), device))
    found = []
    for attribute in (75, 76, 16, 97):
        check(driver().cuDeviceGetAttribute(ctypes.byref(value), attribute, handle))
        found.append(value.value)
    return found


class LaunchConfig(ctypes.Structure):
    """The driver's CUlaunchConfig."""

    _fields_ = (
        *((f"{what}_{axis}", ctypes.c_uint) for what in ("grid", "block") for axis in "xyz"),
        ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("count", ctypes.c_uint),
    )


@lru_cache
def nvrtc() -> Any:
    """NVIDIA's run-time compiler, which is installed with PyTorch and CuPy; OSError if not found.

    The packages from PyPI keep NVRTC in a folder that the loader does not search. The driver cannot
    load the output of a compiler newer than itself.
    """
    version = ctypes.c_int()
    check(driver().cuDriverGetVersion(ctypes.byref(version)))
    names = [f"libnvrtc.so.{major}" for major in range(version.value // 1000, 11, -1)]
    folders = getattr(sys.modules.get("nvidia"), "__path__", None) or [
        os.path.join(folder, "nvidia") for folder in sys.path
    ]
    found = [
        path
        for name in names
        for folder in folders
        for path in glob.glob(os.path.join(folder, "*", "lib", name))
    ]
    for name in (*names, *found, "libnvrtc.so"):
        with contextlib.suppress(OSError):
            return ctypes.CDLL(name)
    raise OSError("NVRTC was not found")


def compiled(source: bytes, name: str, options: list[str]) -> bytes:
    """The machine code of a CUDA program; RuntimeError with the compiler's message on failure.

    ``name`` is what the compiler calls the program in error messages.
    """
    compiler = nvrtc()
    program, size = ctypes.c_void_p(), ctypes.c_size_t()

    def check_compiler(status: int) -> None:
        if status:
            compiler.nvrtcGetProgramLogSize(program, ctypes.byref(size))
            log = ctypes.create_string_buffer(max(1, size.value))
            compiler.nvrtcGetProgramLog(program, log)
            raise RuntimeError(f"NVRTC error {status}: {log.value.decode()}")

    create = compiler.nvrtcCreateProgram
    check_compiler(create(ctypes.byref(program), source, name.encode(), 0, None, None))
    try:
        words = (ctypes.c_char_p * len(options))(*[option.encode() for option in options])
        check_compiler(compiler.nvrtcCompileProgram(program, len(options), words))
        check_compiler(compiler.nvrtcGetCUBINSize(program, ctypes.byref(size)))
        image = ctypes.create_string_buffer(size.value)
        check_compiler(compiler.nvrtcGetCUBIN(program, image))
        return image.raw
    finally:
        compiler.nvrtcDestroyProgram(ctypes.byref(program))
