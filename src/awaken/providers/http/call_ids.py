"""Ids of calls as a vendor accepts them: ids of other vendors may have other forms."""

import re
from base64 import b32encode
from collections.abc import Callable
from hashlib import sha256


def make_id_fitter(pattern: str, made_chars: int = 32) -> Callable[[str], str]:
    """Return a function that maps an id to one that matches the pattern, always the same one.

    An id that matches is unchanged; others are replaced by a hash in letters and digits.
    """
    fits = re.compile(pattern, re.DOTALL).fullmatch

    def fit_id(call_id: str) -> str:
        if fits(call_id):
            return call_id
        return b32encode(sha256(call_id.encode()).digest()).decode()[:made_chars]

    return fit_id


CLAUDE_IDS = make_id_fitter(r"[a-zA-Z0-9_-]{1,64}")
OPENAI_IDS = make_id_fitter(r".{1,64}")
