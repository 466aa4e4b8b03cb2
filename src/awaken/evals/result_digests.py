"""Digests of recorded results: a result that is not what the run had is found at its own place.

The digest of a request covers the results of earlier steps. No request follows the results of the
last step, and a request cannot say which of several results is another one.
"""

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any

import msgspec

from awaken.contracts.evals.recordings import RecordedCall, RecordedStep, Recording
from awaken.contracts.tool_results import ToolResult, ToolStatus

_encode = msgspec.json.Encoder(order="sorted").encode
DIGEST_BYTES = 8


def digest_result(result: ToolResult, updates: tuple[tuple[str, str, Any], ...]) -> str | None:
    """Return the digest of a result and of what its tool did to the state; None if it is open."""
    if result.status is ToolStatus.PENDING:
        return None
    data = _encode([str(result.status), result.data, result.message, updates])
    return blake2b(data, digest_size=DIGEST_BYTES).hexdigest()


def renew_result_digests(recording: Recording) -> Recording:
    """Return a recording with the digests of the results that it has now, children included."""
    steps = tuple(_renew_step(it) for it in recording.steps)
    digests = digest_journal(recording.journal) if recording.journal_digests else ()
    return msgspec.structs.replace(recording, steps=steps, journal_digests=digests)


def digest_journal(journal: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the digests of the entries of a workflow's journal."""
    return tuple(blake2b(_encode(it), digest_size=DIGEST_BYTES).hexdigest() for it in journal)


def _renew_step(step: RecordedStep) -> RecordedStep:
    return msgspec.structs.replace(
        step,
        calls=tuple(map(_renew_call, step.calls)),
        children=tuple(map(renew_result_digests, step.children)),
    )


def _renew_call(call: RecordedCall) -> RecordedCall:
    if call.digest is None:
        return call
    return msgspec.structs.replace(call, digest=digest_result(call.result, call.updates))
