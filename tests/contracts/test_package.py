"""What a user installs: the names of the package, its metadata, and what is in the wheel."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tomllib
import types
import zipfile
from pathlib import Path

import pytest

import tiebreak as tb

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_dir_shows_the_public_names_alone():
    assert dir(tb) == sorted([*tb.__all__, "__version__"])
    assert not [name for name in dir(tb) if isinstance(getattr(tb, name), types.ModuleType)]


def test_the_version_is_in_one_place_and_the_papers_of_a_release_agree():
    assert "version" not in PROJECT
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {tb.__version__}\n" in citation
    versions = re.findall(r"^## (\d+\.\d+\.\d+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.M)
    assert versions[0] == tb.__version__
    assert versions == sorted(versions, reverse=True)


def test_a_plain_install_is_four_packages():
    names = sorted(re.match(r"[\w-]+", line)[0] for line in PROJECT["dependencies"])
    assert names == ["array-api-compat", "clarabel", "numpy", "scipy"]


def test_the_page_names_every_extra():
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    for extra in PROJECT["optional-dependencies"]:
        assert f"`{extra}`" in page, extra


def test_without_scikit_learn_the_estimators_say_what_to_install():
    text = "import sys; sys.modules['sklearn'] = None; import tiebreak.sklearn"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.endswith("pip install scikit-learn (tiebreak's extra [sklearn])\n")


def test_what_is_missing_is_named_by_a_package_that_its_extra_installs():
    calls = r"""missing\([^,]+, ["']([\w-]+)["'], ["'](\w+)["']\)"""
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py")]
    found = [pair for text in texts for pair in re.findall(calls, text)]
    assert len(found) >= 10
    for package, extra in found:
        lines = PROJECT["optional-dependencies"][extra]
        assert any(re.match(rf"{package}\b", line) for line in lines), (package, extra)
    assert not any("install 'tiebreak" in text for text in texts)  # not on the index yet


@pytest.mark.skipif(not importlib.util.find_spec("hatchling"), reason="needs hatchling")
def test_the_wheel_has_all_files_of_the_package_and_no_others(tmp_path):
    made = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    (wheel,) = tmp_path.iterdir()
    assert wheel.name == f"tiebreak-{tb.__version__}-py3-none-any.whl"
    assert wheel.stat().st_size < 1_000_000
    with zipfile.ZipFile(wheel) as archive:
        inside = {name for name in archive.namelist() if name.startswith("tiebreak/")}
        others = {name.split("/")[0] for name in archive.namelist()} - {"tiebreak"}
    source = ROOT / "src" / "tiebreak"
    files = [
        path for path in source.rglob("*") if path.is_file() and "__pycache__" not in str(path)
    ]
    assert inside == {f"tiebreak/{path.relative_to(source).as_posix()}" for path in files}
    assert "tiebreak/py.typed" in inside
    assert others == {f"tiebreak-{tb.__version__}.dist-info"}
