"""An outage of the database ends, whatever becomes of asking for it."""

from threading import Event

import pytest

from portal.database.postgres import outage


def test_asking_goes_on_when_it_cannot_be_done_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outage, "ASK_S", 0)
    asked: list[OSError] = [OSError(24, "Too many open files")]
    may_answer = Event()

    def is_back() -> bool:
        may_answer.wait()
        if asked:
            raise asked.pop()
        return True

    found = outage.Outage()
    over = Event()
    monkeypatch.setattr(
        outage.log, "warning", lambda text, *_: over.set() if "again" in text else 0
    )
    found.begin(is_back)
    assert found.is_on
    may_answer.set()
    assert over.wait(10)
    assert not found.is_on
