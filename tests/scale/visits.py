"""Opens pages in this process, without a network in between: what they answer, ask and take."""

import time
from dataclasses import dataclass

from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from tenants.models import User
from tests.scale.addresses import Address

HOST = "localhost"


@dataclass(frozen=True)
class Visit:
    """One page for one person.

    Attributes:
        status: of the answer.
        is_file: a download that is made while it is sent; it may take as long as it is long.
        queries: asked of the database, the session's included.
        times_s: server time of each round, the body included.
        cpu_s: processor time of each round: the same, whatever else the machine does.
    """

    status: int
    is_file: bool
    queries: int
    times_s: tuple[float, ...] = ()
    cpu_s: tuple[float, ...] = ()
    statements: tuple[str, ...] = ()


class Visitor:
    """Somebody who has signed in."""

    def __init__(self, user: User) -> None:
        self._client = Client(raise_request_exception=True, headers={"host": HOST})
        self._client.force_login(user)

    def open(self, address: Address) -> tuple[int, bool]:
        """The status, and whether it is a file; all of the body was made."""
        answer = self._client.get(address.path)
        if answer.streaming:
            answer.getvalue()
        return int(answer.status_code), bool(answer.streaming)

    def visit(self, address: Address, rounds: int = 0) -> Visit:
        """Opens the page once to warm up, once to count, and `rounds` times to measure."""
        cache.clear()
        self.open(address)
        with CaptureQueriesContext(connection) as asked:
            status, is_file = self.open(address)
        # The log of queries is emptied by the next request.
        statements = tuple(query["sql"] for query in asked.captured_queries)
        times, processor = [], []
        for _ in range(rounds):
            began, began_cpu = time.perf_counter(), time.process_time()
            self.open(address)
            times.append(time.perf_counter() - began)
            processor.append(time.process_time() - began_cpu)
        return Visit(status, is_file, len(statements), tuple(times), tuple(processor), statements)
