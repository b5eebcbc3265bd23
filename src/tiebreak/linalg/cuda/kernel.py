"""The kernel of ``fused.cu``: its argument, its compilation for a tiling, and its launch."""

from __future__ import annotations

import ctypes
from functools import lru_cache
from importlib import resources

from tiebreak.linalg.cuda.driver import LaunchConfig, check, compiled, driver
from tiebreak.linalg.cuda.tiling import Tiling

SOURCE = "fused.cu"
MAX_FRESH, MAX_CARRIED, MAX_ASKED, MAX_SLOPES = 2, 3, 4, 2  # the sizes of the kernel's arrays


class Job(ctypes.Structure):
    """The kernel's argument, a struct called Job in ``fused.cu``; every field has eight bytes."""

    _fields_ = (
        ("matrix", ctypes.c_void_p),
        ("target", ctypes.c_void_p),
        ("fresh", ctypes.c_void_p * MAX_FRESH),
        ("known", ctypes.c_void_p * MAX_CARRIED),
        ("images", ctypes.c_void_p),
        ("products", ctypes.c_void_p),
        ("gradients", ctypes.c_void_p),
        ("losses", ctypes.c_void_p),
        ("all_gradients", ctypes.c_void_p),
        ("all_losses", ctypes.c_void_p),
        ("recipe", ctypes.c_double * (MAX_CARRIED + MAX_FRESH) * MAX_ASKED),
        ("scale", ctypes.c_double),
        ("rows", ctypes.c_longlong),
        ("columns", ctypes.c_longlong),
        ("carried", ctypes.c_longlong),
        ("asked", ctypes.c_longlong),
        ("logistic", ctypes.c_longlong),
        ("teams", ctypes.c_longlong),
    )


class Kernel:
    """The kernel, compiled for a tiling and loaded on the current device."""

    def __init__(self, tiling: Tiling, fresh: int, slopes: int) -> None:
        self.tiling = tiling
        self.slopes = slopes
        self.teams: int = tiling.teams
        values = {
            "REAL": "double" if tiling.itemsize == 8 else "float",
            "COPY": tiling.copy,
            "WIDE": tiling.copy // tiling.itemsize,
            "THREADS": tiling.threads,
            "ITEMS": tiling.items,
            "BLOCKS": tiling.blocks,
            "CLUSTER": tiling.cluster,
            "SLOTS": tiling.slots,
            "LAG": tiling.lag,
            "FRESH": fresh,
            "SLOPES": slopes,
        }
        macros = [f"-D{name}={value}" for name, value in values.items()]
        options = [f"--gpu-architecture={tiling.arch}", "--std=c++17", *macros]
        image = compiled(source(), SOURCE, options)
        module, self.sweep, self.fold = (ctypes.c_void_p() for _ in range(3))
        check(driver().cuModuleLoadData(ctypes.byref(module), image))
        check(driver().cuModuleGetFunction(ctypes.byref(self.sweep), module, b"sweep"))
        check(driver().cuModuleGetFunction(ctypes.byref(self.fold), module, b"fold"))
        most_dynamic_shared = 8  # the attribute's number
        check(driver().cuFuncSetAttribute(self.sweep, most_dynamic_shared, tiling.shared))
        if tiling.cluster > 1:  # clusters may leave part of the GPU idle
            most = ctypes.c_int()
            launch = LaunchConfig(tiling.cluster, 1, 1, tiling.threads + 32, 1, 1, tiling.shared)
            query = driver().cuOccupancyMaxActiveClusters
            check(query(ctypes.byref(most), self.sweep, ctypes.byref(launch)))
            self.teams = max(1, min(tiling.teams, most.value))

    def __call__(self, job: Job, stream: int) -> None:
        """Queue one pass and the sums over its teams; the driver copies ``job`` immediately."""
        arguments = (ctypes.c_void_p * 1)(ctypes.addressof(job))
        launch = driver().cuLaunchKernel
        queue = ctypes.c_void_p(stream)
        tiling = self.tiling
        size = (job.teams * tiling.cluster, 1, 1, tiling.threads + 32, 1, 1, tiling.shared)
        check(launch(self.sweep, *size, queue, arguments, None))
        entries = max(self.slopes * job.columns, job.asked)
        check(launch(self.fold, -(-entries // 128), 1, 1, 128, 1, 1, 0, queue, arguments, None))


kernel_for = lru_cache(Kernel)


def source() -> bytes:
    """The source code of the kernel, read from the installed package."""
    return resources.files(__name__.rpartition(".")[0]).joinpath(SOURCE).read_bytes()
