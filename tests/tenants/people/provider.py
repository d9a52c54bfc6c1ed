"""An OpenID Connect provider on a port of its own: discovery, code flow with PKCE, signed tokens.

It does what the specification asks and checks what clients send. `bend` makes it lie in one way.
"""

import base64
import hashlib
import json
import secrets
import ssl
import threading
import time
from dataclasses import dataclass
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

CLIENT_ID, CLIENT_SECRET = "homeport", "a secret of the client"


@dataclass
class Grant:
    """What a code stands for."""

    subject: str
    redirect_uri: str
    challenge: str
    nonce: str


class Provider(ThreadingHTTPServer):
    """Attributes:
    people: `sub` -> claims.
    redirect_uri: the only one that is taken.
    bend: which lie to tell; empty: none.
    """

    redirect_uri = ""
    bend = ""

    def __init__(
        self, people: dict[str, dict[str, Any]], pair: tuple[Path, Path] | None = None
    ) -> None:
        """
        Args:
            pair: certificate and key with which it speaks HTTPS.
        """
        super().__init__(("127.0.0.1", 0), _Handler)
        self.scheme = "https" if pair else "http"
        if pair:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*pair)
            # The handshake is left to the thread of each connection.
            self.socket = context.wrap_socket(
                self.socket, server_side=True, do_handshake_on_connect=False
            )
        self.people = people
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.other_key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.grants: dict[str, Grant] = {}
        self.access: dict[str, str] = {}

    @property
    def issuer(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.server_port}"

    def start(self) -> None:
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self.shutdown()
        self.server_close()

    # --- what it answers ---
    def discovery(self) -> dict[str, Any]:
        return {
            "issuer": "http://127.0.0.1:1" if self.bend == "issuer" else self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "userinfo_endpoint": f"{self.issuer}/userinfo",
            "jwks_uri": f"{self.issuer}/keys",
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
            "token_endpoint_auth_methods_supported": ["client_secret_basic"],
            "code_challenge_methods_supported": ["S256"],
        }

    def keys(self) -> dict[str, Any]:
        public = jwt.algorithms.RSAAlgorithm.to_jwk(self.key.public_key(), as_dict=True)
        return {"keys": [{**public, "kid": "one", "use": "sig", "alg": "RS256"}]}

    def authorize(self, asked: dict[str, str]) -> str:
        """Where to send the browser back to, with a code.

        Raises:
            ValueError: the client asked in a way that is not allowed.
        """
        wanted = {"response_type": "code", "client_id": CLIENT_ID, "code_challenge_method": "S256"}
        for name, value in wanted.items():
            if asked.get(name) != value:
                raise ValueError(f"{name} is {asked.get(name)!r}")
        if asked.get("redirect_uri") != self.redirect_uri:
            raise ValueError(f"redirect_uri {asked.get('redirect_uri')!r} is not registered")
        if "openid" not in asked.get("scope", "").split():
            raise ValueError("scope openid is missing")
        code = secrets.token_urlsafe(16)
        self.grants[code] = Grant(
            asked["login_as"], asked["redirect_uri"], asked["code_challenge"], asked["nonce"]
        )
        state = "forged" if self.bend == "state" else asked["state"]
        return f"{self.redirect_uri}?{urlencode({'code': code, 'state': state})}"

    def token(self, asked: dict[str, str], authorization: str) -> dict[str, Any]:
        """
        Raises:
            ValueError: the client did not prove who it is, or the code is not its own.
        """
        good = base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode()
        if authorization != f"Basic {good}":
            raise ValueError("invalid_client")
        grant = self.grants.pop(asked.get("code", ""), None)
        if grant is None or asked.get("redirect_uri") != grant.redirect_uri:
            raise ValueError("invalid_grant")
        digest = hashlib.sha256(asked.get("code_verifier", "").encode()).digest()
        if base64.urlsafe_b64encode(digest).decode().rstrip("=") != grant.challenge:
            raise ValueError("the code verifier is wrong")
        access = secrets.token_urlsafe(16)
        self.access[access] = grant.subject
        answer = {"access_token": access, "token_type": "Bearer", "expires_in": 300}
        return answer if self.bend == "no id_token" else {**answer, "id_token": self._sign(grant)}

    def _sign(self, grant: Grant) -> str:
        now = int(time.time())
        claims: dict[str, Any] = {
            "iss": self.issuer,
            "sub": grant.subject,
            "aud": CLIENT_ID,
            "iat": now,
            "exp": now + 300,
            "nonce": grant.nonce,
        }
        lies: dict[str, dict[str, Any]] = {
            "iss": {"iss": "https://accounts.evil.example"},
            "aud": {"aud": "somebody else"},
            "azp": {"aud": [CLIENT_ID, "b"], "azp": "b"},
            "nonce": {"nonce": "another"},
            "no nonce": {"nonce": None},
            "expired": {"iat": now - 900, "exp": now - 600},
            "no sub": {"sub": None},
            "empty sub": {"sub": ""},
        }
        claims |= lies.get(self.bend, {})
        claims = {name: value for name, value in claims.items() if value is not None}
        if self.bend == "alg none":
            return jwt.encode(claims, None, algorithm="none")
        if self.bend == "alg HS256":
            secret = CLIENT_SECRET.ljust(32, "x")
            return jwt.encode(claims, secret, algorithm="HS256", headers={"kid": "one"})
        key = self.other_key if self.bend == "signature" else self.key
        kid = "two" if self.bend == "unknown key" else "one"
        return jwt.encode(claims, key, algorithm="RS256", headers={"kid": kid})

    def userinfo(self, authorization: str) -> dict[str, Any]:
        subject = self.access[authorization.removeprefix("Bearer ")]
        said = "somebody-else" if self.bend == "userinfo" else subject
        return {**self.people.get(subject, {}), "sub": said}


class _Handler(BaseHTTPRequestHandler):
    server: Provider

    def log_message(self, *_args: Any) -> None:
        """Quiet."""

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        owner = self.server
        asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if owner.bend == "down":
            self._send(503, b"down", "text/plain")
        elif parts.path == "/.well-known/openid-configuration":
            self._json(owner.discovery())
        elif parts.path == "/keys":
            self._json(owner.keys())
        elif parts.path == "/userinfo":
            self._json(owner.userinfo(self.headers.get("Authorization", "")))
        elif parts.path == "/authorize" and "login_as" in asked:
            self._authorize(asked)
        elif parts.path == "/authorize":
            self._choose(parts.query)
        else:
            self._send(404, b"", "text/plain")

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", "0"))
        body = parse_qs(self.rfile.read(length).decode())
        asked = {name: values[0] for name, values in body.items()}
        try:
            self._json(self.server.token(asked, self.headers.get("Authorization", "")))
        except ValueError as error:
            self._json({"error": str(error)}, 400)

    def _authorize(self, asked: dict[str, str]) -> None:
        try:
            where = self.server.authorize(asked)
        except ValueError as error:
            self._send(400, str(error).encode(), "text/plain")
            return
        self.send_response(302)
        self.send_header("Location", where)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _choose(self, query: str) -> None:
        """The page on which people say who they are."""
        links = "".join(
            f'<p><a href="/authorize?{escape(query)}&amp;login_as={sub}">{escape(sub)}</a></p>'
            for sub in self.server.people
        )
        page = f'<!doctype html><html lang="en"><title>Lab login</title><h1>Lab login</h1>{links}'
        self._send(200, page.encode(), "text/html; charset=utf-8")

    def _json(self, body: Any, status: int = 200) -> None:
        self._send(status, json.dumps(body).encode(), "application/json")

    def _send(self, status: int, body: bytes, content_type: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
