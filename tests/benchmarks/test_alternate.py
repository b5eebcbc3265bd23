"""Two versions in alternating runs: each sees its own package, and the ratio is printed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import alternate

GIT = "git -c user.name=tests -c user.email=tests@example.org"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a package of 1 in its only commit and of 2 in its working tree."""
    if shutil.which("git") is None:
        pytest.skip("needs git")
    package = tmp_path / "src" / "number.py"
    package.parent.mkdir()
    package.write_text("VALUE = 1\n")
    for command in (f"{GIT} init -q", f"{GIT} add .", f"{GIT} commit -q -m first"):
        subprocess.run(command.split(), cwd=tmp_path, check=True)
    package.write_text("VALUE = 2\n")
    monkeypatch.setattr(alternate, "ROOT", tmp_path)
    return tmp_path


def test_versions_alternate_and_the_worktree_is_removed(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = repository / "seen.txt"
    script = repository / "script.py"
    script.write_text(
        "import os, sys\nimport number\n"
        "open(sys.argv[1], 'a').write(f'{number.VALUE}' + os.environ['OPENBLAS_NUM_THREADS'] + ' ')"
    )
    assert alternate.main(["--runs", "2", "HEAD", str(script), str(seen)]) == 0
    assert seen.read_text().split() == ["11", "21", "11", "21"]
    printed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in printed] == ["HEAD", "working", "ratio"]
    assert float(printed[2].split()[1]) > 0.0
    assert alternate.git("worktree", "list").stdout.count("\n") == 1


def test_bad_input_gets_one_sentence(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = repository / "script.py"
    script.write_text("raise ValueError('not today')")
    for arguments, said in (
        (["nonsense", str(script)], "BASE must be a commit of this repository, got 'nonsense'"),
        (["HEAD", "nowhere.py"], "SCRIPT must be a file, got nowhere.py"),
        (["--runs", "0", "HEAD", str(script)], "--runs must be at least 1, got 0"),
    ):
        with pytest.raises(SystemExit):
            alternate.main(arguments)
        assert said in capsys.readouterr().err
    assert alternate.main(["--runs", "1", "HEAD", str(script)]) == 0
    assert capsys.readouterr().out.count("status 1: ValueError: not today") == 2
    assert alternate.git("worktree", "list").stdout.count("\n") == 1
