"""What the gate itself says to people and programs: pages in words, JSON for scripts.

The pages need no other file, since nothing but the app is behind the gate's prefix. Their one
script and one style sheet are allowed by their hashes.
"""

import base64
import hashlib
import json
from collections.abc import Mapping
from html import escape

from aiohttp import web

from jobs.pod.gatekeeper.refusals import GateRefusal

_STYLE = """
:root { color-scheme: light dark; --paper: #f4f3ee; --ink: #13232c; --soft: #4a5b65;
  --accent: #0b5f6b; --line: #e0ded4; --surface: #fffefb; }
@media (prefers-color-scheme: dark) { :root { --paper: #0d161b; --ink: #e6edf0;
  --soft: #a9b8c0; --accent: #63cfd4; --line: #263640; --surface: #142028; } }
body { margin: 0; min-height: 100vh; display: grid; place-items: center; background: var(--paper);
  color: var(--ink); font: 1rem/1.6 Inter, ui-sans-serif, system-ui, "Segoe UI", Roboto, sans-serif; }
main { box-sizing: border-box; width: min(34rem, 100% - 2rem); margin: 2rem 0; padding: 2rem;
  background: var(--surface); border: 1px solid var(--line); border-radius: 12px; }
p { margin: 0.5rem 0 0; color: var(--soft); overflow-wrap: anywhere; }
h1 { margin: 0; font-size: 1.375rem; line-height: 1.3; }
.brand { margin: 0 0 1rem; color: var(--accent); font-weight: 600; font-size: 0.875rem; }
"""

# The ticket stands in the fragment, which browsers send to no server and no log. It is taken out of
# the address before anything else happens.
_SCRIPT = """
"use strict";
const ticket = new URLSearchParams(location.hash.slice(1)).get("t");
history.replaceState(null, "", location.pathname);
const title = document.querySelector("h1"), text = document.querySelector("p[role=status]");
text.textContent = "";
async function open() {
  const answer = await fetch("__gate/login", {
    method: "POST", body: ticket, credentials: "same-origin", redirect: "error",
    headers: { "Content-Type": "text/plain" },
  });
  const said = await answer.json();
  if (answer.ok) return location.replace(said.next);
  title.textContent = said.title;
  text.textContent = said.message;
}
if (ticket) {
  open().catch(() => {
    title.textContent = "No response";
    text.textContent = "The connection was interrupted. Open it again from Homeport.";
  });
} else {
  location.replace("./");
}
"""


def _source(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        f"default-src 'none'; script-src {_source(_SCRIPT)}; style-src {_source(_STYLE)}; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "Server": "Homeport gate",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


def opening(word: str) -> web.Response:
    """The page that hands the ticket over; what it says before its script runs is for want of one."""
    text = (
        f"This page needs JavaScript to let you in, as the {word} itself does. Allow it for this "
        f"address and open the {word} again from Homeport."
    )
    body = f'<p role="status">{escape(text)}</p><script>{_SCRIPT}</script>'
    return _page(f"Opening your {word}", body, status=200)


def refused(refusal: GateRefusal, headers: Mapping[str, str]) -> web.Response:
    """The refusal as a page for somebody who follows a link, as JSON for a script.

    Args:
        headers: of the request.
    """
    if not is_navigation(headers):
        return said(refusal)
    response = _page(refusal.title, f"<p>{escape(refusal.text)}</p>", status=refusal.status)
    if refusal.retry_s:
        response.headers["Refresh"] = response.headers["Retry-After"] = str(refusal.retry_s)
    return response


def said(refusal: GateRefusal) -> web.Response:
    """The refusal as JSON: the shape of Homeport's REST, and `message`, which JupyterLab shows."""
    row = {"field": "", "code": refusal.code, "text": refusal.text}
    response = answer(
        {"title": refusal.title, "message": refusal.text, "errors": [row]}, status=refusal.status
    )
    if refusal.retry_s:
        response.headers["Retry-After"] = str(refusal.retry_s)
    return response


def answer(fields: Mapping[str, object], *, status: int = 200) -> web.Response:
    return web.Response(
        text=json.dumps(fields), status=status, content_type="application/json", headers=_HEADERS
    )


def word(text: str, *, status: int = 200) -> web.Response:
    """A plain word, for probes."""
    return web.Response(text=f"{text}\n", status=status, headers=_HEADERS)


def is_navigation(headers: Mapping[str, str]) -> bool:
    """Whether a person looks at the answer."""
    return (
        "text/html" in headers.get("Accept", "")
        and headers.get("Sec-Fetch-Mode", "navigate") == "navigate"
    )


def _page(title: str, body: str, *, status: int) -> web.Response:
    return web.Response(
        text=(
            '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            # Else browsers ask for /favicon.ico, which is nobody's here.
            '<link rel="icon" href="data:,">'
            f"<title>{escape(title)} · Homeport</title><style>{_STYLE}</style></head>"
            f'<body><main><p class="brand">Homeport</p><h1>{escape(title)}</h1>{body}</main>'
            "</body></html>\n"
        ),
        status=status,
        content_type="text/html",
        charset="utf-8",
        headers=_HEADERS,
    )
