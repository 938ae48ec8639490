"""A skip says how to enable the test, and PAUSETRACE_REQUIRE=all lets none pass."""

from pathlib import Path

import pytest

CONFTEST = Path(__file__).with_name("conftest.py")

# One module for each way in which a test can come to be skipped.
SKIPS = {
    "our_marker": "import pytest\n@pytest.mark.docker\ndef test_it(): pass\n",
    "skip_mark": "import pytest\n@pytest.mark.skip(reason='tired')\ndef test_it(): pass\n",
    "skipif_mark": "import pytest\n@pytest.mark.skipif(True, reason='tired')\ndef test_it(): pass\n",
    "call": "import pytest\ndef test_it(): pytest.skip('tired')\n",
    "fixture": "import pytest\n@pytest.fixture\ndef tired(): pytest.skip('tired')\ndef test_it(tired): pass\n",
    "importorskip": "import pytest\ndef test_it(): pytest.importorskip('no_such_module')\n",
    "unittest": "import unittest\nclass TestIt(unittest.TestCase):\n    def test_it(self): self.skipTest('tired')\n",
    "no_parameters": "import pytest\n@pytest.mark.parametrize('x', [])\ndef test_it(x): pass\n",
    "xfail_not_run": "import pytest\n@pytest.mark.xfail(run=False)\ndef test_it(): pass\n",
    "subtest": "import pytest\ndef test_it(subtests):\n    with subtests.test('sub'):\n        pytest.skip('tired')\n",
}
SKIPS_AT_COLLECTION = {
    "module": "import pytest\npytest.skip('tired', allow_module_level=True)\n",
    "module_importorskip": "import pytest\npytest.importorskip('no_such_module')\n",
}

NEEDS = {
    "docker": "*docker: no Docker engine answers: install one*start it*",
    "kafka": "*kafka: no Docker engine answers: install one*start it*",
    "kcat": "*kcat: no kcat on the PATH: apt-get install kcat*",
    "prometheus": "*prometheus: no Docker engine answers: install one*start it*",
    "go": "*go: no Go toolchain on the PATH: install Go*",
    "graphviz": "*graphviz: no dot on the PATH: apt-get install graphviz*",
    "browser": "*browser: no chromium on the PATH: apt-get install chromium*",
    "slow": "*slow: PAUSETRACE_FAST=1 leaves slow tests out: unset it*",
}


@pytest.fixture
def bare_machine(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A folder with the project's conftest.py, on a machine that has nothing on its PATH."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("PAUSETRACE_REQUIRE", raising=False)
    monkeypatch.delenv("PAUSETRACE_FAST", raising=False)
    pytester.makeconftest(CONFTEST.read_text(encoding="utf-8"))
    markers = "".join(f"\n    {name}" for name in (*NEEDS, "ebpf"))
    pytester.makeini(f"[pytest]\nmarkers ={markers}\n")
    return pytester


def write_modules(folder: pytest.Pytester, sources: dict[str, str]) -> None:
    for name, source in sources.items():
        folder.path.joinpath(f"test_{name}.py").write_text(source, encoding="utf-8")


def test_a_skipped_test_says_how_to_enable_it(bare_machine: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAUSETRACE_FAST", "1")
    write_modules(
        bare_machine,
        {name: f"import pytest\n@pytest.mark.{name}\ndef test_it(): raise AssertionError\n" for name in NEEDS},
    )
    result = bare_machine.runpytest("-rs")
    result.assert_outcomes(skipped=len(NEEDS))
    result.stdout.fnmatch_lines_random(list(NEEDS.values()))
    assert result.ret == pytest.ExitCode.OK


def test_a_slow_test_runs_unless_it_is_left_out(bare_machine: pytest.Pytester) -> None:
    bare_machine.makepyfile("import pytest\n@pytest.mark.slow\ndef test_it(): pass\n")
    bare_machine.runpytest().assert_outcomes(passed=1)


def test_skips_pass_where_nothing_is_required(bare_machine: pytest.Pytester) -> None:
    write_modules(bare_machine, SKIPS | SKIPS_AT_COLLECTION)
    result = bare_machine.runpytest()
    assert result.ret == pytest.ExitCode.OK
    assert result.parseoutcomes().keys() <= {"passed", "skipped", "xfailed"}


def test_a_skip_of_any_origin_fails_where_all_is_required(
    bare_machine: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAUSETRACE_REQUIRE", "all")
    write_modules(bare_machine, SKIPS)
    result = bare_machine.runpytest()
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    outcomes = result.parseoutcomes()
    assert "skipped" not in outcomes
    assert "xfailed" not in outcomes
    result.stdout.fnmatch_lines_random([f"test_{name}.py*: PAUSETRACE_REQUIRE=all allows no skip*" for name in SKIPS])


def test_a_single_test_that_is_not_run_fails_the_whole_run(
    bare_machine: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAUSETRACE_REQUIRE", "all")
    write_modules(bare_machine, {"passes": "def test_it(): pass\n", "xfail_not_run": SKIPS["xfail_not_run"]})
    assert bare_machine.runpytest().ret == pytest.ExitCode.TESTS_FAILED


@pytest.mark.parametrize("origin", SKIPS_AT_COLLECTION)
def test_a_module_that_skips_itself_fails_the_whole_run(
    bare_machine: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, origin: str
) -> None:
    monkeypatch.setenv("PAUSETRACE_REQUIRE", "all")
    write_modules(bare_machine, {"passes": "def test_it(): pass\n", origin: SKIPS_AT_COLLECTION[origin]})
    result = bare_machine.runpytest()
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines([f"test_{origin}.py: PAUSETRACE_REQUIRE=all allows no skip*"])


def test_an_expected_failure_that_ran_is_no_skip(
    bare_machine: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAUSETRACE_REQUIRE", "all")
    bare_machine.makepyfile("import pytest\n@pytest.mark.xfail\ndef test_it(): raise AssertionError\n")
    result = bare_machine.runpytest()
    result.assert_outcomes(xfailed=1)
    assert result.ret == pytest.ExitCode.OK


def test_an_unknown_requirement_is_a_usage_error(
    bare_machine: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAUSETRACE_REQUIRE", "some")
    result = bare_machine.runpytest()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*PAUSETRACE_REQUIRE=some is not known*"])
