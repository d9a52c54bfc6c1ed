"""Starts scripted API servers for the tests of this folder."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from onebox_tests.node_kubelet.fakeapi import Answer, FakeApi

StartApi = Callable[[Answer], Awaitable[FakeApi]]


@pytest.fixture
async def start_api() -> AsyncIterator[StartApi]:
    started: list[FakeApi] = []

    async def start(answer: Answer) -> FakeApi:
        api = FakeApi(answer)
        await api.start()
        started.append(api)
        return api

    yield start
    for api in started:
        await api.close()
