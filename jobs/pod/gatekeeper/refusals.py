"""Every reason for which a request ends at the gate, in words and with a next step."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Refusal:
    """A request that ends at the gate. The texts are plain text."""

    status: int
    code: str
    title: str
    text: str
    retry_s: int = 0  # the page loads itself again after it; 0: it does not


class StopError(Exception):
    """The request ends here."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.text)
        self.refusal = refusal


MALFORMED = Refusal(400, "malformed", "Malformed request", "No browser sends a request like this.")
FOREIGN = Refusal(
    403,
    "wrong_origin",
    "Not from here",
    "Another page asked for this. Only the app's own pages may do that.",
)
FAILED = Refusal(
    500, "gate_failed", "The gate failed", "That is a fault in Homeport; its log has the cause."
)


def nothing_here(word: str) -> Refusal:
    text = f"No {word} answers under this address. Open it again from Homeport."
    return Refusal(404, "not_found", "Nothing is here", text)


def closed(word: str) -> Refusal:
    return Refusal(
        401,
        "not_let_in",
        f"Open this {word} from Homeport",
        f"This browser has not been let in, or not to this start of the {word}, or it was more "
        "than 12 hours ago. Go to Homeport and open it there.",
    )


def withdrawn(word: str) -> Refusal:
    return Refusal(
        401,
        "access_withdrawn",
        f"You may not open this {word}",
        "Homeport has withdrawn the access. If that surprises you, ask the lead of your team.",
    )


def gone(word: str) -> Refusal:
    text = "It was stopped, deleted or started anew. Open it again from Homeport."
    return Refusal(410, "gone", f"This {word} is over", text)


def uncertain(word: str) -> Refusal:
    return Refusal(
        503,
        "portal_unreachable",
        "Homeport does not answer",
        f"Nobody can say at present who may open this {word}, so it stays closed. What runs in it "
        "goes on. This page tries again by itself.",
        retry_s=15,
    )


def starting(word: str, retry_s: int) -> Refusal:
    return Refusal(
        503,
        "app_not_answering",
        f"The {word} does not answer yet",
        "It is starting, or it has ended and is being started again. This page tries again by "
        "itself; Homeport shows what it waits for.",
        retry_s=retry_s,
    )


def broken(word: str, retry_s: int) -> Refusal:
    return Refusal(
        502,
        "app_broke_off",
        f"The {word} broke off",
        "It went away before it had answered, perhaps because it ran out of memory. This page "
        "tries again by itself; Homeport shows what happened.",
        retry_s=retry_s,
    )


def no_websocket(word: str, status: int) -> Refusal:
    text = f"The {word} does not open this connection."
    return Refusal(status, "no_websocket", "No connection", text)


def bad_ticket(word: str, code: str, text: str) -> Refusal:
    return Refusal(
        401, code, "This link does not work", f"{text} Open the {word} again from Homeport."
    )
