"""Checks the signed statement by which an OpenID Connect provider says who somebody is.

Every rule of https://openid.net/specs/openid-connect-core-1_0.html#IDTokenValidation that concerns
the code flow is applied, the signature too: allauth leaves that one to TLS.
"""

import hmac
from collections.abc import Mapping
from typing import Any

import jwt

# Signed with the provider's private key. Those made with a shared secret are refused, and "none".
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA")
LEEWAY_S = 60  # clocks of two machines
MAX_SUBJECT = 191  # characters that are kept


def checked(
    text: str, *, keys: Mapping[str, Any], issuer: str, client_id: str, nonce: str
) -> dict[str, Any]:
    """The claims of a statement that is good.

    Args:
        text: the id_token as it was received.
        keys: the provider's JSON Web Key Set.
        nonce: what went along with this sign-in and no other.

    Raises:
        jwt.InvalidTokenError: it is not to be believed; the text says why, for the log.
    """
    try:
        key = _key(text, keys)
        claims: dict[str, Any] = jwt.decode(
            text,
            key,
            algorithms=ALGORITHMS,
            audience=client_id,
            issuer=issuer,
            leeway=LEEWAY_S,
            options={"require": ["iss", "sub", "aud", "exp", "iat"]},
        )
    except (jwt.PyJWTError, ValueError, TypeError, KeyError) as error:
        raise jwt.InvalidTokenError(f"{type(error).__name__}: {error}") from error
    if isinstance(claims["aud"], list) and len(claims["aud"]) > 1:
        if claims.get("azp") != client_id:
            raise jwt.InvalidTokenError("it was made for another client")
    elif claims.get("azp", client_id) != client_id:
        raise jwt.InvalidTokenError("it was made for another client")
    said = claims.get("nonce")
    if not isinstance(said, str) or not nonce or not hmac.compare_digest(said, nonce):
        raise jwt.InvalidTokenError("its nonce is not that of this sign-in")
    if not 0 < len(claims["sub"]) <= MAX_SUBJECT:
        raise jwt.InvalidTokenError("its subject is empty or too long")
    return claims


def _key(text: str, keys: Mapping[str, Any]) -> jwt.PyJWK:
    """The public key that the statement names; the only one where it names none."""
    named = jwt.get_unverified_header(text).get("kid")
    usable = [
        key
        for key in jwt.PyJWKSet.from_dict(dict(keys)).keys
        if key.public_key_use in {None, "sig"} and key.key_type != "oct"
    ]
    fitting = [key for key in usable if key.key_id == named] if named else usable
    if len(fitting) != 1:
        raise jwt.InvalidTokenError("it is signed with a key that the provider does not publish")
    return fitting[0]
