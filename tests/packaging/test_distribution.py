"""The distribution as users get it: an sdist, the wheel built from it, a clean environment, and an editable install."""

import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
ROOMS = ("pausetrace", "simulation", "probes", "collectors", "analytics", "stream")
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]


def run(*command: str | Path, cwd: Path) -> str:
    """A command's standard output; a failure shows everything that the command said."""
    call = subprocess.run([*map(str, command)], cwd=cwd, capture_output=True, text=True, check=False)
    assert call.returncode == 0, f"{command} exited {call.returncode}\n{call.stdout}\n{call.stderr}"
    return call.stdout


def new_environment(folder: Path) -> Path:
    """A virtual environment without any of this one's packages; the value is its bin folder."""
    run(sys.executable, "-m", "venv", folder, cwd=folder.parent)
    return folder / "bin"


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("sdist")
    run(sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", out, cwd=ROOT)
    return out / f"pausetrace-{VERSION}.tar.gz"


@pytest.fixture(scope="module")
def unpacked(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unpacked")
    shutil.unpack_archive(sdist, folder)  # Debian 12's 3.11.2 knows no filter= yet, and the archive is ours
    return folder / f"pausetrace-{VERSION}"


@pytest.fixture(scope="module")
def wheel(unpacked: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, cwd=unpacked)
    return out / f"pausetrace-{VERSION}-py3-none-any.whl"


def test_the_sdist_holds_what_a_packager_builds_and_tests_with(unpacked: Path) -> None:
    for name in ("pyproject.toml", "LICENSE", "Makefile", "requirements/dev.txt", "tests/conftest.py"):
        assert (unpacked / name).is_file(), name
    assert not list(unpacked.glob(".venv*"))


def test_the_wheel_holds_every_file_of_the_rooms_and_nothing_else(wheel: Path) -> None:
    listed = run("git", "ls-files", "--", *ROOMS, cwd=ROOT).split() if (ROOT / ".git").exists() else []
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    packed = {name for name in names if ".dist-info/" not in name}
    assert set(listed) <= packed
    assert {name.partition("/")[0] for name in packed} == set(ROOMS)
    assert {f"{room}/{name}" for room in ROOMS for name in ("__init__.py", "py.typed")} <= packed
    assert f"pausetrace-{VERSION}.dist-info/licenses/LICENSE" in names


def test_the_wheel_runs_in_a_clean_environment(wheel: Path, tmp_path: Path) -> None:
    bin_folder = new_environment(tmp_path / "clean")
    pip = (bin_folder / "python", "-m", "pip", "install", "--quiet")
    run(*pip, "--require-hashes", "-r", ROOT / "requirements" / "run.txt", cwd=tmp_path)
    run(*pip, "--no-deps", wheel, cwd=tmp_path)
    run(bin_folder / "python", "-m", "pip", "check", cwd=tmp_path)
    assert run(bin_folder / "pausetrace", "--version", cwd=tmp_path) == f"pausetrace {VERSION}\n"
    assert "usage: pausetrace" in run(bin_folder / "pausetrace", "--help", cwd=tmp_path)
    places = f"import importlib; [print(importlib.import_module(r).__file__) for r in {ROOMS}]"
    for path in run(bin_folder / "python", "-c", places, cwd=tmp_path).splitlines():
        assert Path(path).is_relative_to(tmp_path), "a room was imported from somewhere else than the wheel"


def test_an_editable_install_runs_the_work_tree(unpacked: Path, tmp_path: Path) -> None:
    bin_folder = new_environment(tmp_path / "editable")
    pip = (bin_folder / "python", "-m", "pip", "install", "--quiet")
    run(*pip, "--require-hashes", "-r", ROOT / "requirements" / "build.txt", cwd=tmp_path)
    run(*pip, "--no-build-isolation", "--no-deps", "--editable", unpacked, cwd=tmp_path)
    assert run(bin_folder / "pausetrace", "--version", cwd=tmp_path) == f"pausetrace {VERSION}\n"
    place = run(bin_folder / "python", "-c", "import stream; print(stream.__file__)", cwd=tmp_path).strip()
    assert Path(place) == unpacked / "stream" / "__init__.py"
