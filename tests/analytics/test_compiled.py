"""Compiled kernels are kept by the sources of the whole room, so that none of an earlier version is run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOM = Path(__file__).parents[2]
PRINT_FOLDER = "import analytics.compiled, numba; print(numba.config.CACHE_DIR)"


def cache_folder(root: Path, environ: dict[str, str] | None = None) -> Path:
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"} | (environ or {})
    printed = subprocess.run(
        [sys.executable, "-c", PRINT_FOLDER], cwd=root, env=environment, check=True, capture_output=True, text=True
    )
    return Path(printed.stdout.strip())


def copied_room(tmp_path: Path) -> Path:
    shutil.copytree(ROOM / "analytics", tmp_path / "analytics", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def test_a_change_of_any_source_gives_another_folder_and_drops_the_old_one(tmp_path: Path) -> None:
    root = copied_room(tmp_path)
    before = cache_folder(root)
    assert before.is_dir()
    assert before == cache_folder(root)
    with (root / "analytics" / "blame.py").open("a") as source:
        source.write("# changed\n")
    after = cache_folder(root)
    assert after != before
    assert after.is_dir()
    assert not before.exists()


def test_a_folder_of_the_users_choice_is_shared_and_nothing_there_is_dropped(tmp_path: Path) -> None:
    root = copied_room(tmp_path)
    chosen = tmp_path / "chosen"
    (chosen / "kernels-of-another").mkdir(parents=True)
    folder = cache_folder(root, {"NUMBA_CACHE_DIR": str(chosen)})
    assert folder.parent == chosen
    assert (chosen / "kernels-of-another").is_dir()
