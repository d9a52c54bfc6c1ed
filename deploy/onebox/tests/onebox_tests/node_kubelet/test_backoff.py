"""The kubelet's restart back-off, second by second."""

from __future__ import annotations

from onebox.node.backoff import Backoff, short_duration


def test_the_first_restart_is_immediate_and_then_the_wait_doubles_to_five_minutes():
    backoff, now = Backoff(), 1000.0
    waits = []
    for _ in range(8):
        now += 1  # it ran for a second
        retry = backoff.retry_at_s(now)
        waits.append(retry - now)
        backoff.tried(now, retry)
        now = retry
    assert waits == [0, 10, 20, 40, 80, 160, 300, 300]


def test_ten_minutes_of_running_are_a_new_beginning():
    backoff = Backoff()
    backoff.tried(0.0, 0.0)
    backoff.tried(1.0, 11.0)
    assert backoff.retry_at_s(30.0) == 50.0
    assert backoff.retry_at_s(11.0 + 601) == 11.0 + 601
    backoff.tried(11.0 + 601, 11.0 + 601)
    assert backoff.delay_s == 10


def test_durations_read_as_the_kubelet_writes_them():
    assert [short_duration(s) for s in (10, 80, 300)] == ["10s", "1m20s", "5m0s"]
