"""Signatures of webhooks: Standard Webhooks, GitHub and Stripe. Pure, and constant in time.

Every check reads all secrets and all given signatures, so that the time of a refusal tells nothing
about either.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping, Sequence

import msgspec

from awaken.contracts.storage.schedules import SignatureScheme

WINDOW_S = 5 * 60
"""How far the time of a signature may be from the store's, in both directions."""
SIGNATURES_MAX = 10
_PREFIX = "whsec_"
_ID_CHARS_MAX = 256


class SignedDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """What the headers of a verified request say."""

    delivery_id: str | None = None
    """The sender's id of the event; None: it is in the body."""
    event: str | None = None


def verify(
    scheme: SignatureScheme,
    secrets: Sequence[str],
    headers: Mapping[str, str],
    body: bytes,
    now_ms: int,
) -> SignedDelivery | None:
    """Verify a request; returns None if it is not signed with one of the secrets, or too old."""
    match scheme:
        case SignatureScheme.STANDARD_WEBHOOKS:
            return _verify_standard(secrets, headers, body, now_ms)
        case SignatureScheme.GITHUB:
            return _verify_github(secrets, headers, body)
        case SignatureScheme.STRIPE:
            return _verify_stripe(secrets, headers, body, now_ms)


def _verify_standard(
    secrets: Sequence[str], headers: Mapping[str, str], body: bytes, now_ms: int
) -> SignedDelivery | None:
    delivery_id, at = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    given = [
        it.partition(",")[2]
        for it in headers.get("webhook-signature", "").split()
        if it.startswith("v1,")
    ]
    signed = f"{delivery_id}.{at}.".encode() + body
    expected = [
        base64.b64encode(hmac.digest(_read_key(it), signed, "sha256")).decode() for it in secrets
    ]
    is_signed = _have_common(expected, given)
    if not (is_signed and _is_timely(at, now_ms) and 0 < len(delivery_id) <= _ID_CHARS_MAX):
        return None
    return SignedDelivery(delivery_id=delivery_id)


def _verify_github(
    secrets: Sequence[str], headers: Mapping[str, str], body: bytes
) -> SignedDelivery | None:
    given = [headers.get("x-hub-signature-256", "")]
    expected = [
        f"sha256={hmac.new(it.encode(), body, hashlib.sha256).hexdigest()}" for it in secrets
    ]
    delivery_id = headers.get("x-github-delivery", "")
    if not _have_common(expected, given) or not 0 < len(delivery_id) <= _ID_CHARS_MAX:
        return None
    return SignedDelivery(delivery_id=delivery_id, event=headers.get("x-github-event"))


def _verify_stripe(
    secrets: Sequence[str], headers: Mapping[str, str], body: bytes, now_ms: int
) -> SignedDelivery | None:
    parts = [it.strip().partition("=") for it in headers.get("stripe-signature", "").split(",")]
    at = next((value for name, _, value in parts if name == "t"), "")
    given = [value for name, _, value in parts if name == "v1"]
    signed = f"{at}.".encode() + body
    expected = [_sign(it, signed) for it in secrets]
    if not (_have_common(expected, given) and _is_timely(at, now_ms)):
        return None
    return SignedDelivery()


def _have_common(expected: Sequence[str], given: Sequence[str]) -> bool:
    """Whether a signature is one of those expected; compares all of them."""
    is_found = False
    for one in expected:
        for other in given[:SIGNATURES_MAX]:
            is_found |= hmac.compare_digest(one.encode(), other.encode())
    return is_found


def _sign(secret: str, data: bytes) -> str:
    return hmac.new(secret.encode(), data, hashlib.sha256).hexdigest()


def _is_timely(at: str, now_ms: int) -> bool:
    if not (at.isascii() and at.isdecimal() and len(at) <= 12):
        return False
    return abs(int(at) - now_ms // 1000) <= WINDOW_S


def _read_key(secret: str) -> bytes:
    """The bytes of a secret of Standard Webhooks, which is written in base64."""
    try:
        return base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        return secret.encode()
