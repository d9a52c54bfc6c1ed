"""Runs tests of the checkout in which it is started, and reports each as it begins and ends.

    python watched.py REQUEST

It stands alone, as the checkout may be of another version. REQUEST is a file with a JSON object:

    words: pytest's
    report: where to write; one JSON object in a line for each test that begins (`begins`), and when
        it has ended (`test`, `failed`, `took_s`, `cpu_s`, `fixtures`)
    chosen: node ids to run, in that order; all, if it is null
    count: coverage's settings, "" for none. What runs is kept by context: a test's node id; the
        fixture, for one that several tests share (`shared`); "" for what runs while tests are collected
    limits_s: by node id, after how much time of a processor, and after how much at all, the process is
        ended; under "" for a test that is not named, and for what runs between tests
"""

import faulthandler
import json
import os
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import coverage
import pytest


def shared(scope: str, file: str, fixture: str) -> str:
    """The context of a fixture that is set up for more than one test."""
    return f"::{fixture}" if scope in {"session", "package"} else f"{file}::{fixture}"


def _cpu_s() -> float:
    """Of this process and of those that it has waited for."""
    return sum(os.times()[:4])


class Watch:
    """The plugin."""

    def __init__(
        self, request: dict[str, Any], report: TextIO, counted: coverage.Coverage | None
    ) -> None:
        self._report = report
        self._chosen = request["chosen"]
        self._limits_s = request["limits_s"]
        self._counted = counted
        self._context = ""
        self._failed = False
        self._fixtures: list[str] = []
        self._errors = os.dup(2)
        self._limit("")

    def _tell(self, **what: Any) -> None:
        self._report.write(json.dumps(what) + "\n")

    def _limit(self, test: str) -> None:
        cpu_s, took_s = self._limits_s.get(test) or self._limits_s[""]
        own = resource.getrusage(resource.RUSAGE_SELF)
        until_s = int(own.ru_utime + own.ru_stime + cpu_s) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (until_s, resource.RLIM_INFINITY))
        faulthandler.dump_traceback_later(took_s, exit=True, file=self._errors)

    @contextmanager
    def _counts_as(self, context: str) -> Iterator[None]:
        before, self._context = self._context, context
        self._switch()
        yield
        self._context = before
        self._switch()

    def _switch(self) -> None:
        os.environ["WATCHED"] = self._context  # for processes that are started meanwhile
        if self._counted:
            self._counted.switch_context(self._context)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._tell(test=report.nodeid, failed=True, took_s=0.0, cpu_s=0.0, fixtures=[])

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if self._chosen is not None:
            by_id = {item.nodeid: item for item in items}
            # A fault may change what a test's parameters are: then all of its function are meant.
            renamed = {test.partition("[")[0] for test in self._chosen if test not in by_id}
            chosen = [test for test in self._chosen if test in by_id]
            chosen += [test for test in by_id if test.partition("[")[0] in renamed]
            items[:] = [by_id[test] for test in dict.fromkeys(chosen)]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._failed, self._fixtures = False, []
        self._tell(begins=item.nodeid)
        self._limit(item.nodeid)
        began_s, cpu_s = time.monotonic(), _cpu_s()
        with self._counts_as(item.nodeid):
            told = yield
        self._tell(
            test=item.nodeid,
            failed=self._failed,
            took_s=round(time.monotonic() - began_s, 3),
            cpu_s=round(_cpu_s() - cpu_s, 3),
            fixtures=self._fixtures,
        )
        self._limit("")
        return told

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any, request: Any) -> Iterator[None]:
        if fixturedef.scope == "function":
            return (yield)
        file = request.node.nodeid.partition("::")[0]
        with self._counts_as(shared(fixturedef.scope, file, fixturedef.argname)):
            return (yield)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self, item: Any) -> None:
        # With those that were only asked for while it ran, which `item.fixturenames` leaves out.
        self._fixtures = sorted(getattr(item, "_request", item).fixturenames)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._failed |= report.failed


def main() -> int:
    request = json.loads(Path(sys.argv[1]).read_text())
    sys.path[0] = os.getcwd()  # as with `python -m`
    sys.argv = ["pytest", *request["words"]]
    with Path(request["report"]).open("a", buffering=1) as report:
        if not request["count"]:
            return int(pytest.main(request["words"], plugins=[Watch(request, report, None)]))
        os.environ["WATCHED"] = ""
        counted = coverage.Coverage(config_file=request["count"])
        counted.start()
        os.environ["COVERAGE_PROCESS_START"] = request["count"]
        try:
            return int(pytest.main(request["words"], plugins=[Watch(request, report, counted)]))
        finally:
            counted.stop()
            counted.save()


if __name__ == "__main__":
    raise SystemExit(main())
