"""How long one statement may take: little in the web, longer in the reconciler, any time elsewhere."""

import threading

WEB_S = 4.0  # a request ends within 10 s whatever the database does
RECONCILER_S = 14.0  # it reads and writes thousands of rows at once; its lease lasts 15 s


class Patience(threading.local):
    """Seconds; None: as long as it takes. Commands such as `migrate` have all the time they need."""

    of_process: float | None = None  # of threads that have none of their own; set on the class
    of_thread: float | None = None

    @property
    def statement_s(self) -> float | None:
        return self.of_process if self.of_thread is None else self.of_thread


patience = Patience()
