"""Signed tokens: verifies the signature, issuer, audience and expiry, and reads the caller."""

import importlib
from pathlib import Path
from typing import Any

from awaken.contracts.clock import Clock
from awaken.contracts.errors import InvalidInput
from awaken.transport.routes import SCOPES, Access, Principal

from .config import JwtConfig, is_principal_id, is_tenant
from .quotas import remember

_CACHE_MAX = 4096
_NAME_CHARS = 256
_SCOPES = {access.value: access for access in SCOPES}


class WebTokens:
    """Verifies tokens as a config says. A token is never passed on.

    Raises:
        InvalidInput: The extra `jwt` is missing, or the keys cannot be read.
    """

    def __init__(self, config: JwtConfig, clock: Clock) -> None:
        try:
            self._jwt = importlib.import_module("jwt")
        except ImportError as error:
            problem = "it needs the extra `jwt`: pip install 'awaken[jwt]'"
            raise InvalidInput(what="jwt", problem=problem) from error
        self._config = config
        self._clock = clock
        self._keys = self._read_keys(config)
        # Verifying a signature takes longer than the rest of a request.
        self._verified: dict[bytes, tuple[float, Principal]] = {}

    def principal(self, token: str, digest: bytes) -> Principal | None:
        """The caller of a token, or None when it is not valid now."""
        now = self._clock.now_ms() / 1000
        known = self._verified.get(digest)
        if known is not None:
            return known[1] if now < known[0] else None
        claims = self._claims(token)
        if claims is None or not _is_valid_at(claims, now):
            return None
        found = self._read_principal(claims)
        if found is not None:
            remember(self._verified, digest, (claims["exp"], found), _CACHE_MAX)
        return found

    def _claims(self, token: str) -> dict[str, Any] | None:
        config = self._config
        try:
            claims: dict[str, Any] = self._jwt.decode(
                token,
                self._key_for(token),
                algorithms=list(config.algorithms),
                audience=config.audience,
                issuer=config.issuer,
                options={
                    "require": ["exp", "iss", "aud"],
                    # The server's own clock decides, below.
                    "verify_exp": False,
                    "verify_nbf": False,
                    "verify_iat": False,
                },
            )
        except (self._jwt.PyJWTError, ValueError, TypeError, RecursionError):
            return None
        return claims

    def _key_for(self, token: str) -> Any:
        if not isinstance(self._keys, dict):
            return self._keys
        key_id = self._jwt.get_unverified_header(token).get("kid")
        if key_id is None and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        if key_id not in self._keys:
            raise self._jwt.InvalidKeyError
        return self._keys[key_id]

    def _read_principal(self, claims: dict[str, Any]) -> Principal | None:
        config = self._config
        name = claims.get(config.principal_claim)
        if not isinstance(name, str) or not is_principal_id(name) or len(name) > _NAME_CHARS:
            return None
        tenant = None
        if config.tenant_claim is not None:
            tenant = claims.get(config.tenant_claim)
            if not isinstance(tenant, str) or not is_tenant(tenant) or len(tenant) > _NAME_CHARS:
                return None
        return Principal(id=name, access=_access(claims.get(config.scope_claim)), tenant_id=tenant)

    def _read_keys(self, config: JwtConfig) -> Any:
        if config.key:
            return config.key.reveal()
        try:
            keys = self._jwt.PyJWKSet.from_json(Path(config.jwks_file or "").read_text("utf-8"))
        except (OSError, ValueError, self._jwt.PyJWTError) as error:
            raise InvalidInput(what="jwks_file", problem=type(error).__name__) from error
        return {key.key_id: key for key in keys if key.public_key_use in (None, "sig")}


def _access(claim: Any) -> frozenset[Access]:
    """The scopes of a claim: words in a text, or a list of texts; anything else has none."""
    words = claim.split() if isinstance(claim, str) else claim
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        return frozenset()
    return frozenset(_SCOPES[word] for word in words if word in _SCOPES)


def _is_valid_at(claims: dict[str, Any], now: float) -> bool:
    expires, begins = claims["exp"], claims.get("nbf", 0)
    numbers = isinstance(expires, int | float) and isinstance(begins, int | float)
    return numbers and begins <= now < expires
