"""Slows guessing of passwords down: per user name and address."""

from typing import Any

from rest_framework.throttling import SimpleRateThrottle


class SignInThrottle(SimpleRateThrottle):
    """At most 20 tries a minute for one user name from one address."""

    scope = "sign-in"
    rate = "20/min"

    def get_cache_key(self, request: Any, view: Any) -> str:
        name = request.data.get("username") if isinstance(request.data, dict) else ""
        address = self.get_ident(request)
        return self.cache_format % {"scope": self.scope, "ident": f"{address}:{hash(str(name))}"}
