"""A place for compiled kernels where neither the package nor the home can be written."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TRACE = ROOT / "tests/data/ns3/slow_receiver-ft4-s1"
COMMAND = [sys.executable, "-m", "pausetrace.cli.main"]
NOBODY = 65534

CHOOSE = """
import os, tempfile
from pausetrace.kernel_cache import choose_kernel_cache
environ = {"XDG_CACHE_HOME": os.environ["XDG_CACHE_HOME"]}
choose_kernel_cache(environ)
print(environ.get("NUMBA_CACHE_DIR"))
"""


def as_nobody(arguments: list[str], folder: str = "/", **environ: str) -> subprocess.CompletedProcess[str]:
    """Runs a command as a user without a home who may not write to the package."""
    if os.geteuid() != 0:
        pytest.skip("another user's process needs root: run the tests as root")
    environ = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "PYTHONPATH": str(ROOT)} | environ
    try:
        return subprocess.run(
            arguments, capture_output=True, text=True, check=False, cwd=folder, user=NOBODY, group=NOBODY,
            extra_groups=[], env=environ,
        )  # fmt: skip
    except PermissionError:
        pytest.skip(f"another user may not reach {sys.executable}: put the project where everybody may go, as in /opt")


def chosen(cache: Path, temporary: Path) -> str:
    """What is chosen where the user's cache is `cache`."""
    return as_nobody([sys.executable, "-c", CHOOSE], XDG_CACHE_HOME=str(cache), TMPDIR=str(temporary)).stdout.strip()


@pytest.fixture
def open_folder(tmp_path: Path) -> Path:
    """A folder where everybody can write, on a path that everybody can go."""
    for above in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        above.chmod(0o755)
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o1777)
    return folder


@pytest.mark.slow
def test_a_user_without_a_home_gets_kernels_in_a_temporary_directory_of_his_own(open_folder: Path) -> None:
    done = as_nobody([*COMMAND, "analyze", str(TRACE)], TMPDIR=str(open_folder))
    assert (done.returncode, done.stderr) == (0, "")
    assert "h9 is a slow receiver" in done.stdout
    folder = open_folder / f"pausetrace-kernels-{NOBODY}"
    assert (folder.stat().st_uid, folder.stat().st_mode & 0o777) == (NOBODY, 0o700)
    assert list(folder.rglob("*.nbi"))


def test_a_users_own_cache_is_left_to_numba(open_folder: Path) -> None:
    assert chosen(open_folder / "cache", open_folder) == "None"


def test_a_home_that_may_not_even_be_looked_into_is_no_place(open_folder: Path) -> None:
    home = open_folder / "home"
    home.mkdir(mode=0o700)
    assert chosen(home / ".cache", open_folder) == str(open_folder / f"pausetrace-kernels-{NOBODY}")
    command = [*COMMAND, "config", "show"]
    done = as_nobody(command, HOME=str(home), TMPDIR=str(open_folder))
    assert (done.returncode, done.stderr) == (0, "")
    done = as_nobody(command, str(home), TMPDIR=str(open_folder))
    assert (done.returncode, done.stderr) == (0, "")
    (home / "x.toml").touch()
    done = as_nobody([*command, "--config", str(home / "x.toml")], TMPDIR=str(open_folder))
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "x.toml: Permission denied; check the path given by --config" in done.stderr


def test_a_folder_that_others_may_write_or_own_is_not_trusted(open_folder: Path) -> None:
    folder = open_folder / f"pausetrace-kernels-{NOBODY}"
    folder.mkdir()
    assert chosen(Path("/nonexistent"), open_folder) != str(folder)
    os.chown(folder, NOBODY, NOBODY)
    folder.chmod(0o777)
    assert chosen(Path("/nonexistent"), open_folder) != str(folder)
    folder.chmod(0o700)
    assert chosen(Path("/nonexistent"), open_folder) == str(folder)
    assert [path.name for path in open_folder.iterdir()] == [folder.name], "what is made for one run goes with it"
