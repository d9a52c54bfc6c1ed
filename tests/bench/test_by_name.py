"""What was asked for by name and cannot be measured fails; what was not is told."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.bench import __main__ as bench
from tests.bench import cluster_rows


@contextmanager
def nowhere(folder: Path, ports: Any) -> Iterator[Path]:
    raise cluster_rows.NoClusterError("there is no Go to build it")
    yield folder


@pytest.fixture(autouse=True)
def no_upstream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "fake_logs", lambda *_: None)
    monkeypatch.setattr(cluster_rows, "CLUSTERS", {"upstream": nowhere})


@pytest.mark.parametrize("asked", [["M5"], ["M1", "--quick"], ["M5", "--cluster", "upstream"]])
def test_rows_that_were_asked_for_must_be_measured(
    asked: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench.main(asked) == 1
    assert "Not measured with real pods on upstream: there is no Go" in capsys.readouterr().out


def test_other_rows_do_not_miss_a_cluster() -> None:
    assert bench.main(["M5", "--cluster", "none"]) == 0


def test_without_names_what_is_missing_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench, "ROWS", ("M5", "M7"))
    assert bench.main([]) == 0
    assert "Not measured with real pods on upstream" in capsys.readouterr().out
