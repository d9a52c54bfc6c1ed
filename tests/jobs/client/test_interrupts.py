"""Ctrl-C while a line is written: the line and the note that it was written stay together."""

import os
import signal
import threading
from collections.abc import Callable

import pytest

from homeport_client.interrupts import interrupted_later


def press_ctrl_c() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def within(*steps: Callable[[], object]) -> None:
    with interrupted_later():
        for step in steps:
            step()


def test_it_counts_when_what_was_begun_is_done() -> None:
    done: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        within(press_ctrl_c, lambda: done.append("the other half"))
    assert done == ["the other half"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_one_ends_what_may_never_end() -> None:
    done: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        within(press_ctrl_c, press_ctrl_c, lambda: done.append("never reached"))
    assert done == []
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_error_inside_is_what_is_told() -> None:
    def breaks() -> None:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        within(press_ctrl_c, breaks)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_who_ignores_ctrl_c_goes_on_ignoring_it() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with interrupted_later():
            press_ctrl_c()
            press_ctrl_c()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def test_other_threads_are_not_interrupted_anyhow() -> None:
    done = []

    def work() -> None:
        with interrupted_later():
            done.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [signal.default_int_handler]
