"""Ids of calls as a vendor takes them: those of other vendors may be longer or of other letters."""

import re
from base64 import b32encode
from collections.abc import Callable
from hashlib import sha256


def call_ids(pattern: str, made_chars: int = 32) -> Callable[[str], str]:
    """Return a function from an id to one that fits, always the same one.

    An id that fits is itself; others become letters and digits, different ids different ones.
    """
    fits = re.compile(pattern, re.DOTALL).fullmatch

    def fit_id(call_id: str) -> str:
        if fits(call_id):
            return call_id
        return b32encode(sha256(call_id.encode()).digest()).decode()[:made_chars]

    return fit_id


CLAUDE_IDS = call_ids(r"[a-zA-Z0-9_-]{1,64}")
OPENAI_IDS = call_ids(r".{1,64}")
