"""The agent keeps probes apart from each other, follows its configuration and its budget, and ends in order."""

import logging
import threading
import time

import pytest

from probes.agent import Agent
from probes.budget import Step
from probes.opening import UnavailableError
from probes.probe import Lost
from probes.promises import Promises
from probes.runner import CPUS
from probes.settings import AgentSettings
from stream.errors import ConfigError, PausetraceError
from stream.kinds import SOURCE_NOT_READ
from tests.probes.sample_probes import (
    RING,
    STATES,
    SUMS,
    TABLE,
    Gathered,
    Running,
    SampleOpener,
    SampleProbe,
    settings_of,
    wait_until,
)


def test_what_the_probes_see_arrives_and_everything_is_closed_at_the_end() -> None:
    promises = Promises()
    output, opener = Gathered(promises), SampleOpener()
    with Running(settings_of(*TABLE), output, promises, opener):
        wait_until(lambda: all(len(probe.times_ns) > 3 for probe in opener.opened) and len(opener.opened) == 3)
    assert output.closed is True
    assert [probe.closed for probe in opener.opened] == [1, 1, 1]
    for probe in opener.opened:
        taken = [one for one in output.taken if one.kind.name == probe.kind.name]
        assert [one.read_ns for one in taken] == probe.times_ns  # the last read, at the end, as well


def test_options_come_from_the_settings() -> None:
    promises = Promises()
    opener = SampleOpener()
    settings = settings_of(SUMS)._replace(interfaces=("eth*",), per_cpu=True)
    with Running(settings, Gathered(promises), promises, opener):
        wait_until(lambda: bool(opener.options))
    (options,) = opener.options
    assert (options.name, options.device, options.interfaces, options.per_cpu) == ("sums", "h1", ("eth*",), True)


def test_a_probe_that_fails_is_opened_again_counted_and_told_while_others_go_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def prepare(probe: SampleProbe) -> None:
        if probe.kind.name == "sums" and not opener.of(SUMS):
            probe.during_read = lambda: _fail_from(probe, 3)

    opener = SampleOpener(prepare)
    promises = Promises()
    output = Gathered(promises)
    with Running(settings_of(SUMS, STATES), output, promises, opener) as running:
        wait_until(lambda: len(opener.of(SUMS)) == 2 and opener.of(SUMS)[1].reads > 2)
        reads = opener.of(STATES)[0].reads
        wait_until(lambda: opener.of(STATES)[0].reads > reads)
        status = running.status("sums")
    assert (status.state, status.errors) == ("running", 1)
    assert opener.of(SUMS)[0].closed == 1
    assert "probe sums cannot be read: ValueError: a fault" in caplog.text
    lost = [lost for one in output.taken for lost in one.reading.lost]
    assert [(one.topic, one.reason) for one in lost] == [("host", SOURCE_NOT_READ)]
    assert lost[0].rows == max((lost[0].last_ns - lost[0].first_ns) // SUMS.interval_ns, 1)
    assert lost[0].first_ns == opener.of(SUMS)[0].times_ns[-1]
    assert running.status("states").errors == 0


def _fail_from(probe: SampleProbe, read: int) -> None:
    if probe.reads >= read:
        raise ValueError("a fault")


def test_a_probe_that_cannot_run_here_is_tried_again_without_an_error() -> None:
    there = threading.Event()
    opener = SampleOpener(fail=lambda _kind: None if there.is_set() else UnavailableError("no NIC", "plug one in"))
    promises = Promises()
    with Running(settings_of(SUMS), Gathered(promises), promises, opener) as running:
        wait_until(lambda: running.status("sums").state == "unavailable")
        assert running.status("sums").reason == "no NIC; plug one in"
        there.set()
        wait_until(lambda: running.status("sums").state == "running")
        assert running.status("sums").errors == 0


def test_a_read_that_hangs_holds_up_nobody_and_no_promise(caplog: pytest.LogCaptureFixture) -> None:
    hang = threading.Event()

    def prepare(probe: SampleProbe) -> None:
        if probe.kind.name == "sums":
            probe.during_read = lambda: _hang(probe, hang)

    promises = Promises()
    opener = SampleOpener(prepare)
    with Running(settings_of(SUMS, STATES), Gathered(promises), promises, opener, stuck_s=0.2) as running:
        wait_until(lambda: running.status("sums").state == "stuck")
        wait_until(lambda: "probe sums is stuck" in caplog.text)
        before_ns = time.time_ns()
        assert promises.mark_ns("host") >= before_ns
        reads = opener.of(STATES)[0].reads
        wait_until(lambda: opener.of(STATES)[0].reads > reads + 3)
        hang.set()
        wait_until(lambda: running.status("sums").state == "running")


def _hang(probe: SampleProbe, until: threading.Event) -> None:
    if probe.reads == 3:
        until.wait(20)


def burn(seconds: float) -> None:
    """Takes CPU time."""
    end_s = time.thread_time() + seconds
    while time.thread_time() < end_s:
        pass


def test_a_probe_that_costs_too_much_gives_up_detail_visibly_and_takes_it_up_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def prepare(probe: SampleProbe) -> None:
        if probe.kind.name == "sums":
            probe.during_read = lambda: None if "reduce" in probe.log else burn(0.005)

    promises = Promises()
    opener, output = SampleOpener(prepare), Gathered(promises)
    settings = settings_of(SUMS, STATES, cpu_share=0.1)
    with Running(settings, output, promises, opener, over_s=0.2, calm_s=1.5) as running:
        wait_until(lambda: running.status("sums").state == "degraded")
        assert running.status("sums").reason.startswith("counters only: it took ")
        wait_until(lambda: running.status("sums").step == Step.FULL)
        wait_until(lambda: any(status.state == "degraded" for told in output.told for status in told))
        assert running.status("sums").degradations == 1
        assert running.status("states").degradations == 0
    assert opener.of(SUMS)[0].log == ["reduce", "restore"]
    assert "probe sums: counters only from now on: it took" in caplog.text
    assert "probe sums: full from now on: it costs less again" in caplog.text


def test_a_probe_that_still_costs_too_much_is_read_less_often_and_then_closed_for_a_while() -> None:
    calm = threading.Event()

    def prepare(probe: SampleProbe) -> None:
        probe.detail = False
        probe.during_read = lambda: None if calm.is_set() else burn(0.1)

    promises = Promises()
    opener, output = SampleOpener(prepare), Gathered(promises)
    with Running(settings_of(SUMS, cpu_share=0.05), output, promises, opener, over_s=0.2, calm_s=0.4) as running:
        wait_until(lambda: running.status("sums").step == Step.SLOW)
        wait_until(lambda: running.status("sums").step == Step.OFF)
        wait_until(lambda: opener.of(SUMS)[0].closed == 1)
        calm.set()
        wait_until(lambda: running.status("sums").step == Step.FULL, 30)
        wait_until(lambda: running.status("sums").state == "running")
    lost = [lost for one in output.taken for lost in one.reading.lost]
    assert [one.reason for one in lost] == [SOURCE_NOT_READ]  # while it was off


def test_time_that_programs_take_in_the_kernel_counts_as_the_probes_own() -> None:
    def prepare(probe: SampleProbe) -> None:
        read = probe.read
        probe.read = lambda now_ns: read(now_ns)._replace(kernel_ns=10_000_000 * CPUS)  # type: ignore[method-assign]

    promises = Promises()
    opener = SampleOpener(prepare)
    with Running(settings_of(SUMS, cpu_share=0.1), Gathered(promises), promises, opener, over_s=0.2) as running:
        wait_until(lambda: running.status("sums").step == Step.COUNTERS)
        assert running.status("sums").cpu_ns >= 10_000_000 * CPUS * running.status("sums").reads // 2


def test_what_probes_count_themselves_goes_on_when_they_are_opened_again() -> None:
    def prepare(probe: SampleProbe) -> None:
        probe.counted = {"wraps": 2, "resets": 1}
        if not opener.opened:
            probe.during_read = lambda: _fail_from(probe, 3)

    promises = Promises()
    opener = SampleOpener(prepare)
    with Running(settings_of(SUMS), Gathered(promises), promises, opener) as running:
        wait_until(lambda: len(opener.opened) == 2 and opener.opened[1].reads > 1)
        assert running.status("sums").counted == {"wraps": 4, "resets": 2}


def test_rows_that_were_lost_before_the_probe_gave_them_are_counted() -> None:
    def prepare(probe: SampleProbe) -> None:
        read = probe.read
        lost = (Lost("host", 3, 1, 1, 2), Lost("pfc", 4, 1, 1, 2))
        probe.read = lambda now_ns: read(now_ns)._replace(lost=lost)  # type: ignore[method-assign]

    promises = Promises()
    opener, output = SampleOpener(prepare), Gathered(promises)
    with Running(settings_of(SUMS), output, promises, opener) as running:
        wait_until(lambda: running.status("sums").reads > 2)
    status = running.status("sums")
    assert status.lost_rows == 7 * status.reads
    assert status.rows == sum(len(rows.events) for one in output.taken for rows in one.reading.rows) == status.reads - 1


def test_a_reload_starts_stops_and_changes_probes_and_leaves_the_others_alone() -> None:
    later = settings_of(SUMS, RING)
    later = later._replace(probes=dict(later.probes) | {"ring": later.probes["ring"]._replace(threshold_ns=5000)})
    promises = Promises()
    opener, output = SampleOpener(), Gathered(promises)
    with Running(settings_of(*TABLE), output, promises, opener, reload=lambda: later) as running:
        wait_until(lambda: len(opener.opened) == 3)
        running.agent.reload_asked.set()
        wait_until(lambda: len(opener.of(RING)) == 2)
        assert opener.options[-1].threshold_ns == 5000
        assert [probe.closed for probe in opener.of(RING)] == [1, 0]
        assert opener.of(STATES)[0].closed == 1
        assert [probe.closed for probe in opener.of(SUMS)] == [0]
        wait_until(lambda: running.agent.status.reloads == 1)
        assert {status.name for status in running.agent.status.probes} == {"sums", "ring"}
    assert output.expected == [("sums", "states", "ring"), ("sums", "ring")]


def test_a_bad_configuration_changes_nothing_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    def reload() -> AgentSettings:
        raise ConfigError("x.toml:3: no key 'intervall'", "did you mean 'interval'?")

    promises = Promises()
    opener = SampleOpener()
    with Running(settings_of(SUMS), Gathered(promises), promises, opener, reload=reload) as running:
        wait_until(lambda: len(opener.opened) == 1)
        running.agent.reload_asked.set()
        wait_until(lambda: running.agent.status.failed_reloads == 1)
        assert opener.of(SUMS)[0].closed == 0
    assert "the old one stays in force: x.toml:3: no key 'intervall'; did you mean 'interval'?" in caplog.text


def test_who_this_host_is_changes_at_a_restart_alone(caplog: pytest.LogCaptureFixture) -> None:
    promises = Promises()
    opener = SampleOpener()
    other = settings_of(SUMS, device="h2")
    with Running(settings_of(SUMS), Gathered(promises), promises, opener, reload=lambda: other) as running:
        wait_until(lambda: len(opener.opened) == 1)
        running.agent.reload_asked.set()
        wait_until(lambda: running.agent.status.reloads == 1)
    assert "probes.device: in force after a restart" in caplog.text
    assert [options.device for options in opener.options] == ["h1"]


def test_a_probe_that_cannot_be_closed_keeps_nothing_from_ending(caplog: pytest.LogCaptureFixture) -> None:
    def prepare(probe: SampleProbe) -> None:
        def close() -> None:
            raise OSError("busy")

        if probe.kind.name == "sums":
            probe.close = close  # type: ignore[method-assign]

    promises = Promises()
    opener, output = SampleOpener(prepare), Gathered(promises)
    with Running(settings_of(SUMS, STATES), output, promises, opener):
        wait_until(lambda: len(opener.opened) == 2)
    assert "probe sums cannot be closed: busy" in caplog.text
    assert opener.of(STATES)[0].closed == 1
    assert output.closed is True


def test_where_no_probe_at_all_can_run_an_agent_may_give_up() -> None:
    promises = Promises()
    opener = SampleOpener(fail=lambda _kind: UnavailableError("no tracefs", "mount it"))
    output = Gathered(promises)
    agent = Agent(settings_of(SUMS), output, promises, table=TABLE, opener=opener, give_up=True)
    with pytest.raises(PausetraceError, match="no probe can run here: probe sums: no tracefs; mount it"):
        agent.run(threading.Event(), duration_s=20)
    assert output.closed is False


def test_an_agent_ends_by_itself_after_its_duration(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    promises = Promises()
    output = Gathered(promises)
    Agent(settings_of(SUMS), output, promises, table=TABLE, opener=SampleOpener()).run(threading.Event(), 0.2)
    assert output.closed is True
    assert caplog.text == ""
