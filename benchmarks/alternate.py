"""Is a script slower than before?  Runs it on two versions in turn.

    python benchmarks/alternate.py BASE SCRIPT [ARGS]      BASE is a commit
    python benchmarks/alternate.py 1e57719 benchmarks/race/decide.py --only ball --seed 1

Both use the script of the working tree, with PYTHONPATH set to the src of each version in turn and
BLAS in one thread. It prints the median processor time (user and system) of each version and their
ratio, and the last line of a script that fails, as scripts above a limit do. Other output is
ignored.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def git(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a git command in this repository; the caller checks its status."""
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@contextlib.contextmanager
def checked_out(commit: str) -> Iterator[Path]:
    """Yield a temporary folder with the files of a commit."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "base"
        made = git("worktree", "add", "--detach", str(place), commit)
        if made.returncode != 0:
            raise SystemExit(f"alternate: git cannot check {commit} out: {made.stderr.strip()}")
        try:
            yield place
        finally:
            git("worktree", "remove", "--force", str(place))


def processor_time(src: Path, command: Sequence[str]) -> tuple[float, str]:
    """Return user and system seconds with the package in ``src``, and how the script failed."""
    environment = os.environ | dict.fromkeys(THREADS, "1") | {"PYTHONPATH": str(src)}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ended = subprocess.run(
        [sys.executable, *command], env=environment, capture_output=True, text=True, check=False
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if ended.returncode == 0:
        return seconds, ""
    last = (ended.stderr.strip() or ended.stdout.strip()).rpartition("\n")[2]
    return seconds, f"status {ended.returncode}: {last}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="alternate", description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=5, help="of each version (default: 5)")
    parser.add_argument("base", metavar="BASE", help="the commit to compare the working tree with")
    parser.add_argument("script", metavar="SCRIPT", type=Path)
    parser.add_argument("rest", metavar="ARGS", nargs=argparse.REMAINDER)
    given = parser.parse_args(arguments)
    if given.runs < 1:
        parser.error(f"--runs must be at least 1, got {given.runs}")
    if not given.script.is_file():
        parser.error(f"SCRIPT must be a file, got {given.script}")
    if git("rev-parse", "--verify", "--quiet", given.base + "^{commit}").returncode != 0:
        parser.error(f"BASE must be a commit of this repository, got {given.base!r}")
    command = [str(given.script.resolve()), *given.rest]
    with checked_out(given.base) as base:
        versions = {given.base: base / "src", "working tree": ROOT / "src"}
        times: dict[str, list[float]] = {name: [] for name in versions}
        failures = dict.fromkeys(versions, "")
        for _ in range(given.runs):
            for name, src in versions.items():
                seconds, failures[name] = processor_time(src, command)
                times[name].append(seconds)
    medians = [statistics.median(found) for found in times.values()]
    for (name, found), median in zip(times.items(), medians, strict=True):
        print(
            f"{name:<14} {median:8.3f} s   {min(found):.3f} to {max(found):.3f}   {failures[name]}"
        )
    print(f"ratio          {medians[1] / medians[0]:8.3f}     of processor times")
    return 0


if __name__ == "__main__":
    sys.exit(main())
