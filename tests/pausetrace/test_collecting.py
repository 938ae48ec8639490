"""`collect` follows its inventory while it runs: what is wrong changes nothing, and what is mended is taken."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from collectors.inventory import load
from collectors.target import Target
from collectors.target_status import TargetStatus
from pausetrace import collecting
from pausetrace.child import own_command, own_environment
from simulation.gnmi_targets.server import FakeTarget
from tests.collectors.lab_device import lab_leaves
from tests.collectors.running import LAB

DEADLINE_S = 20.0
HEAD = '[collect]\nfabric = "dc-1"\n'


class Assigned:
    """A group that remembers which targets it was given last."""

    def __init__(self) -> None:
        self.targets: tuple[Target, ...] = ()
        self.times = 0

    @property
    def names(self) -> list[str]:
        return [target.name for target in self.targets]

    async def assign(self, targets: tuple[Target, ...]) -> None:
        self.targets = targets
        self.times += 1

    async def run(self, stop: asyncio.Event) -> None:
        await stop.wait()

    def statuses(self) -> list[TargetStatus]:
        return []

    def counters(self) -> Counter[str]:
        return Counter()

    held_bytes = 0


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not condition():
            await asyncio.sleep(0.02)


def following(file: Path, does: Callable[[Assigned, asyncio.Event], Awaitable[None]]) -> None:
    """Follows the inventory for as long as `does` takes; the event is SIGHUP."""

    async def run() -> None:
        group, reload = Assigned(), asyncio.Event()
        inventory = load(file, {})
        await group.assign(inventory.targets)
        task = asyncio.create_task(collecting._follow_file(file, inventory, group, reload, None))
        try:
            # What it is to see changes only after its first look.
            await asyncio.sleep(0)
            await does(group, reload)
            assert not task.done()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(run())


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collecting, "WATCH_S", 0.05)


def test_no_fault_of_reading_ends_the_following(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "fabric.toml"
    file.write_text(HEAD + "[targets.a]\n")

    def fails(_path: Path) -> None:
        raise TypeError("odd")

    async def does(group: Assigned, reload: asyncio.Event) -> None:
        monkeypatch.setattr(collecting, "load", fails)
        reload.set()
        await until(lambda: "stays as it was" in caplog.text)
        assert group.names == ["a"]
        monkeypatch.setattr(collecting, "load", load)
        file.write_text(HEAD + "[targets.a]\n[targets.b]\n")
        await until(lambda: group.names == ["a", "b"])

    following(file, does)


def test_a_run_ends_when_nobody_reads_its_rows(tmp_path: Path) -> None:
    """As `collect -o jsonl | head -1` does."""

    async def run() -> tuple[int, bytes]:
        async with FakeTarget(lab_leaves()) as fake:
            file = tmp_path / "fabric.toml"
            file.write_text(
                f'{HEAD}[targets.a]\naddress = "{fake.address}"\nplaintext = true\ninterval = "200ms"\n'
                f'profile = "{LAB}"\n'
            )
            process = await asyncio.create_subprocess_exec(
                *own_command(["collect", str(file), "-o", "jsonl"]), env=own_environment(),
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            )  # fmt: skip
            assert process.stdout is not None
            assert process.stderr is not None
            try:
                async with asyncio.timeout(60):
                    assert await process.stdout.readline()
                    process._transport.get_pipe_transport(1).close()  # type: ignore[attr-defined]
                    return await process.wait(), await process.stderr.read()
            finally:
                if process.returncode is None:
                    process.kill()

    status, said = asyncio.run(run())
    assert status == 0
    assert b"Traceback" not in said


@pytest.mark.parametrize("pattern", ["targets.d/*.toml", "*/*.toml", "**/more-*.toml"])
def test_a_file_that_an_include_means_is_read_when_it_comes(tmp_path: Path, pattern: str) -> None:
    file, folder = tmp_path / "fabric.toml", tmp_path / "targets.d"
    file.write_text(f'{HEAD}include = ["{pattern}"]\n[targets.a]\n')

    async def does(group: Assigned, _reload: asyncio.Event) -> None:
        folder.mkdir()
        (folder / "more-1.toml").write_text("[targets.b]\n")
        await until(lambda: group.names == ["a", "b"])
        (folder / "more-1.toml").unlink()
        await until(lambda: group.names == ["a"])

    following(file, does)


def test_an_include_that_has_gone_changes_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file, more = tmp_path / "fabric.toml", tmp_path / "more.toml"
    file.write_text(f'{HEAD}include = ["more.toml"]\n[targets.a]\n')
    more.write_text("[targets.b]\n")

    async def does(group: Assigned, _reload: asyncio.Event) -> None:
        more.unlink()
        await until(lambda: "more.toml: no such file" in caplog.text)
        assert group.names == ["a", "b"]
        more.write_text("[targets.b]\n[targets.c]\n")
        await until(lambda: group.names == ["a", "b", "c"])

    following(file, does)


def test_new_certificates_in_the_same_files_make_another_target(tmp_path: Path) -> None:
    """So that a session whose breaker has opened because of the old ones begins anew at once."""
    file, ca = tmp_path / "fabric.toml", tmp_path / "ca.pem"
    file.write_text(f'{HEAD}[targets.a]\nca = "ca.pem"\n[targets.b]\n')
    ca.write_text("-----BEGIN CERTIFICATE-----\nold\n")

    async def does(group: Assigned, _reload: asyncio.Event) -> None:
        before = group.targets
        ca.write_text("-----BEGIN CERTIFICATE-----\nnew\n")
        await until(lambda: group.times == 2)
        assert group.targets[0] != before[0]
        assert group.targets[1] == before[1]

    following(file, does)


@pytest.mark.parametrize("setting", ["fabric", "source", "budget_mb", "workers", "profiles"])
def test_what_a_reload_does_not_change_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture, setting: str) -> None:
    file = tmp_path / "fabric.toml"
    (tmp_path / "own").mkdir()
    old = {"fabric": '"dc-1"'}
    new = old | {setting: {"budget_mb": "64", "workers": "2", "profiles": '"own"'}.get(setting, '"other"')}

    def write(settings: dict[str, str]) -> None:
        file.write_text("[collect]\n" + "".join(f"{key} = {value}\n" for key, value in settings.items()))

    async def does(group: Assigned, _reload: asyncio.Event) -> None:
        write(new)
        await until(lambda: group.times == 2)
        assert f"{setting}: changed, which takes effect at the next start" in caplog.text

    write(old)
    following(file, does)


PROFILE = 'name = "own"\ntitle = "Ours"\n[[subscribe]]\npath = "/{}"\n'


@pytest.mark.parametrize("profile", ["own.toml", "own", "above.toml", "auto"])
def test_a_change_of_a_profile_of_the_user_s_makes_other_targets_of_those_that_have_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, profile: str
) -> None:
    file, own = tmp_path / "fabric.toml", tmp_path / "own.toml"
    own.write_text(PROFILE.format("a"))
    (tmp_path / "above.toml").write_text('name = "above"\ntitle = "Above"\nextends = "own.toml"\n')
    folder = tmp_path / "folder"
    folder.mkdir()
    if profile in ("own", "auto"):
        own = folder / "own.toml"
        own.write_text(PROFILE.format("a"))
    file.write_text(
        f'{HEAD}profiles = "folder"\n[targets.a]\nprofile = "{profile}"\n[targets.b]\nprofile = "openconfig"\n'
    )

    async def does(group: Assigned, _reload: asyncio.Event) -> None:
        before = group.targets
        own.write_text(PROFILE.format("[b"))
        await until(lambda: "has a key that is not" in caplog.text)
        assert group.targets == before
        own.write_text(PROFILE.format("b"))
        await until(lambda: group.times == 2)
        assert group.targets[0] != before[0]
        assert group.targets[1] == before[1]

    following(file, does)


def test_what_a_wrong_inventory_names_is_watched_too(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file, folder = tmp_path / "fabric.toml", tmp_path / "new"
    file.write_text(f"{HEAD}[targets.a]\n")
    folder.mkdir()
    (folder / "more.toml").write_text("[targets.b]\nno = 1\n")

    async def does(group: Assigned, _reload: asyncio.Event) -> None:
        file.write_text(f'{HEAD}include = ["new/*.toml"]\n[targets.a]\nca = "ca.pem"\n')
        await until(lambda: "b.no: there is no such setting" in caplog.text or "ca.pem: no such file" in caplog.text)
        (folder / "more.toml").write_text("[targets.b]\n")
        await until(lambda: "ca.pem: no such file" in caplog.text)
        (tmp_path / "ca.pem").write_text("-----BEGIN CERTIFICATE-----\n")
        await until(lambda: group.names == ["a", "b"])

    following(file, does)
