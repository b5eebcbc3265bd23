"""How many threads a product may use, and a thread pool for products that use one thread each."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")


def allowed() -> int:
    """The number of threads that may share a product, according to the environment."""
    has_affinity = hasattr(os, "sched_getaffinity")
    cores = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
        asked = os.environ.get(name, "").partition(",")[0]
        if asked.isdigit() and int(asked) > 0:
            return min(int(asked), cores)
    return cores


def together(tasks: Sequence[Callable[[], T]]) -> list[T]:
    """The results of tasks that run at the same time, the last of them in the calling thread.

    The tasks should release the interpreter's lock while they work, and must start no other tasks.
    """
    *others, last = tasks
    try:
        coming = [_pool().submit(task) for task in others]
    except RuntimeError:  # the interpreter is shutting down and starts no more threads
        return [task() for task in tasks]
    mine = last()
    return [*(each.result() for each in coming), mine]


@cache
def _pool() -> Any:
    """The thread pool of this process, started on first use and then kept."""
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(max(allowed() - 1, 1), "tiebreak")  # the calling thread works too


if hasattr(os, "register_at_fork"):  # a forked process does not inherit the pool's threads
    os.register_at_fork(after_in_child=_pool.cache_clear)
