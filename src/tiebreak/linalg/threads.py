"""How many threads a product may take, and threads of our own for products that take only one."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")


def allowed() -> int:
    """How many threads may share a product, as far as the environment tells."""
    has_affinity = hasattr(os, "sched_getaffinity")
    cores = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
        asked = os.environ.get(name, "").partition(",")[0]
        if asked.isdigit() and int(asked) > 0:
            return min(int(asked), cores)
    return cores


def together(tasks: Sequence[Callable[[], T]]) -> list[T]:
    """What the tasks return, all of them at work at once: the last one in the thread that asks.

    For tasks that set the interpreter free while they work, and that ask for no others.
    """
    *others, last = tasks
    try:
        coming = [_pool().submit(task) for task in others]
    except RuntimeError:  # the interpreter is about to end and begins no more threads
        return [task() for task in tasks]
    mine = last()
    return [*(each.result() for each in coming), mine]


@cache
def _pool() -> Any:
    """The threads of this process, begun when there is work for them and kept."""
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(max(allowed() - 1, 1), "tiebreak")  # whoever asks works too


if hasattr(os, "register_at_fork"):  # a fork has no threads but its own
    os.register_at_fork(after_in_child=_pool.cache_clear)
