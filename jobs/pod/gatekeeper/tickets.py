"""Which tickets and cookies this gate takes: those of its service, of its start, and of now."""

from dataclasses import dataclass

from jobs.pod.gatekeeper import refusals
from jobs.pod.gatekeeper.refusals import GateRefusal
from jobs.pod.protocol import tickets
from jobs.pod.protocol.tickets import Claims

# A ticket from the future: the clock of the portal may run a little ahead.
SKEW_S = 5.0


@dataclass(frozen=True)
class Signer:
    """Reads the tickets of one start of one service, reads and writes its cookies."""

    service_id: str
    start: int
    ticket_key: bytes
    word: str  # what people call the app

    def read_ticket(self, text: str) -> Claims:
        """The ticket, if the portal wrote it for this start of this service; not its times.

        Raises:
            GateRefusal: it did not.
        """
        found = self._read(text, self.ticket_key)
        if not found.identity:
            raise self._refusal("ticket_invalid", "The link is not one of Homeport's.")
        return found

    def check_times(self, ticket: Claims, *, now: float, began_at: float) -> None:
        """A ticket is good for a minute, and only for the process that can remember it.

        Raises:
            GateRefusal: it is too old, from the future, or older than this process.
        """
        if now >= min(ticket.expires_at, ticket.issued_at + tickets.TICKET_S):
            raise self._refusal(
                "ticket_expired",
                "The link was valid for one minute and has expired. If a new one says so at once, the "
                "clocks of Homeport and of this machine are apart: tell an admin.",
            )
        if ticket.issued_at > now + SKEW_S:
            raise self._refusal(
                "ticket_invalid",
                "The link is from the future: the clock of this machine is "
                f"{ticket.issued_at - now:.0f} s behind Homeport's. Tell an admin.",
            )
        if ticket.issued_at < began_at:
            raise self._refusal("ticket_expired", "The link is of an earlier start.")

    def used(self) -> GateRefusal:
        return self._refusal("ticket_used", "The link was used before; each link works once.")

    def read_cookie(self, text: str) -> Claims:
        """The cookie, if this gate wrote it, before or after a restart; not its times.

        Raises:
            GateRefusal: it did not.
        """
        return self._read(text, tickets.cookie_key(self.ticket_key))

    def write_cookie(self, subject: str, now: float) -> str:
        issued_at, expires_at = round(now, 3), round(now + tickets.COOKIE_S, 3)
        claims = Claims(self.service_id, subject, self.start, issued_at, expires_at)
        return tickets.write(claims, tickets.cookie_key(self.ticket_key))

    def _read(self, text: str, key: bytes) -> Claims:
        found = tickets.read(text, key)
        if found is None:
            raise self._refusal(
                "ticket_invalid", "The link is not one of Homeport's, or of an earlier start."
            )
        if found.service_id != self.service_id:
            raise self._refusal("ticket_foreign", "The link belongs to something else.")
        if found.start != self.start:
            raise self._refusal("ticket_of_earlier_start", "The link is of an earlier start.")
        return found

    def _refusal(self, code: str, text: str) -> GateRefusal:
        return refusals.bad_ticket(self.word, code, text)


def is_cookie_fresh(cookie: Claims, *, now: float) -> bool:
    return now < min(cookie.expires_at, cookie.issued_at + tickets.COOKIE_S)
