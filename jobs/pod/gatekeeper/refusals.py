"""Every reason for which a request ends at the gate, in words and with a next step."""

GONE = 410  # the status of the one refusal that says that there is nothing behind the gate any more


class GateRefusal(Exception):  # noqa: N818 (what the gate is for, and no error of ours)
    """A request ends at the gate, with a page or JSON that says why. The texts are plain text.

    Attributes:
        status: of HTTP.
        code: for programs.
        retry_s: the page loads itself again after it; 0: it does not.
    """

    def __init__(self, status: int, code: str, title: str, text: str, retry_s: int = 0) -> None:
        super().__init__(text)
        self.status = status
        self.code = code
        self.title = title
        self.text = text
        self.retry_s = retry_s


def malformed() -> GateRefusal:
    text = "No browser sends a request like this."
    return GateRefusal(400, "malformed", "Malformed request", text)


def foreign() -> GateRefusal:
    text = "Another page sent this. Only the app's own pages may do that."
    return GateRefusal(403, "wrong_origin", "Not from here", text)


def failed() -> GateRefusal:
    text = "This is a fault in Homeport; its log has the cause."
    return GateRefusal(500, "gate_failed", "The gate failed", text)


def nothing_here(word: str) -> GateRefusal:
    text = f"There is no {word} at this address. Open it again from Homeport."
    return GateRefusal(404, "not_found", "Not found", text)


def closed(word: str) -> GateRefusal:
    return GateRefusal(
        401,
        "not_let_in",
        f"Open this {word} from Homeport",
        f"This browser has no access, or none to this start of the {word}, or its access is "
        "older than 12 hours. Go to Homeport and open it there.",
    )


def withdrawn(word: str) -> GateRefusal:
    return GateRefusal(
        401,
        "access_withdrawn",
        f"You may not open this {word}",
        "Homeport has withdrawn the access. If that surprises you, ask the lead of your team.",
    )


def gone(word: str) -> GateRefusal:
    text = "It was stopped, deleted or restarted. Open it again from Homeport."
    return GateRefusal(GONE, "gone", f"This {word} has ended", text)


def uncertain(word: str) -> GateRefusal:
    return GateRefusal(
        503,
        "portal_unreachable",
        "Homeport does not respond",
        f"Access to this {word} cannot be checked now, so it stays closed. What runs in it "
        "continues. This page tries again automatically.",
        retry_s=15,
    )


def starting(word: str, retry_s: int) -> GateRefusal:
    return GateRefusal(
        503,
        "app_not_answering",
        f"The {word} does not respond yet",
        "It is starting, or it has ended and is being restarted. This page tries again "
        "automatically; Homeport shows what it waits for.",
        retry_s=retry_s,
    )


def broken(word: str, retry_s: int) -> GateRefusal:
    return GateRefusal(
        502,
        "app_broke_off",
        f"The {word} stopped responding",
        "It ended before it had responded, perhaps because it ran out of memory. This page "
        "tries again automatically; Homeport shows what happened.",
        retry_s=retry_s,
    )


def no_websocket(word: str, status: int) -> GateRefusal:
    text = f"The {word} does not open this connection."
    return GateRefusal(status, "no_websocket", "No connection", text)


def bad_ticket(word: str, code: str, text: str) -> GateRefusal:
    return GateRefusal(
        401, code, "This link does not work", f"{text} Open the {word} again from Homeport."
    )
