"""Asks a portal's pages and REST for what they show; the same code looks at the old and at the new.

It is run by the old version's Python beside its code (`make_dump.py`), and by today's
(`test_dump.py`), each as a program of its own, and imports nothing of either but Django:

    python looking.py < WANTED > SHOWN     # with HOMEPORT_HOME and the checkout as working folder
"""

import html
import json
import os
import re
import sys
from collections.abc import Iterable
from typing import Any

HOST = "localhost"
TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?")


def look(wanted: Iterable[tuple[str, str]], names: list[str]) -> dict[str, Any]:
    """What each address shows to a person.

    Args:
        wanted: user name ("": nobody is signed in) and address.
        names: texts that are looked for on pages.

    Returns:
        "WHO ADDRESS" -> {"status": code} with, of a page, `names` (places in the list of names) or,
        of REST, `json`.
    """
    from django.contrib.auth import get_user_model
    from django.test import Client

    clients: dict[str, Any] = {}
    shown = {}
    for who, address in wanted:
        if who not in clients:
            clients[who] = Client(raise_request_exception=False, HTTP_HOST=HOST)
            if who:
                clients[who].force_login(get_user_model().objects.get(username=who))
        answer = clients[who].get(address)
        content = b"".join(answer) if answer.streaming else answer.content
        seen: dict[str, Any] = {"status": answer.status_code}
        is_json = answer.headers.get("Content-Type", "").startswith("application/json")
        # Of a list of trainings, which is long and of many owners, names will do.
        is_one = address.count("/") > 4 or address.endswith("/me/")
        if is_json and (is_one or (who == "root" and address != "/api/v1/jobs/")):
            seen["json"] = json.loads(content)
        else:
            text = " ".join(html.unescape(content.decode(errors="replace")).split())
            seen["names"] = [place for place, name in enumerate(names) if _has(text, name)]
        shown[f"{who} {address}"] = seen
    return shown


def sign_in(password: str, names: Iterable[str]) -> list[str]:
    """Who of these can sign in with this password."""
    from django.test import Client

    return [name for name in names if Client().login(username=name, password=password)]


def _has(text: str, name: str) -> bool:
    """As a word of its own: a short name may stand by chance within a token of a page."""
    return name in text and bool(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text))


def flat(value: Any, path: str = "") -> dict[str, Any]:
    """Each leaf of a JSON value by its path; a time is only told to be one."""
    if isinstance(value, dict):
        pairs: Iterable[tuple[Any, Any]] = value.items()
    elif isinstance(value, list):
        pairs = enumerate(value)
    elif isinstance(value, str) and TIME.search(value):
        return {path: TIME.sub("<time>", value)}
    else:
        return {path: value}
    found = {path: type(value).__name__}
    for key, inner in pairs:
        found |= flat(inner, f"{path}/{key}")
    return found


def main() -> None:
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
    sys.path.insert(0, os.getcwd())
    django.setup()
    asked = json.load(sys.stdin)
    shown = look(asked["wanted"], asked["names"])
    signed_in = sign_in(asked["password"], asked["people"])
    json.dump({"shown": shown, "signed_in": signed_in}, sys.stdout)


if __name__ == "__main__":
    main()
