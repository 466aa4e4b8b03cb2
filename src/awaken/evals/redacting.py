"""Recordings without secrets: what was replaced changes requests, whose digests are made again."""

from collections.abc import Sequence
from typing import Any

import msgspec

from awaken.contracts.errors import UnknownRun
from awaken.contracts.evals.errors import CannotReplay
from awaken.contracts.evals.recordings import Recording
from awaken.contracts.evals.replays import ReplaySpec

from .recording import Recorder
from .recording_files import decode_recording, encode_recording
from .replaying import Replays
from .result_digests import renew_result_digests

SECRETS = ("secrets",)
"""The detectors that every recording goes through unless redaction is switched off as a whole."""
_PARTS_DEPTH = 4
"""How deep the lists of a diff or of a followed replay are; their entries are values of a run."""
_NO_DIGESTS = "digests: the redacted form could not be replayed"


class Recordings:
    """Makes recordings of runs, redacted unless the caller says otherwise."""

    def __init__(self, recorder: Recorder, replays: Replays) -> None:
        self._recorder = recorder
        self._replays = replays

    async def record(self, run_id: str, detectors: Sequence[str] = SECRETS) -> Recording:
        """Record a run; detectors are named by kind or group, and none switches redaction off.

        Named ones are applied besides those of secrets.

        Raises:
            UnknownRun: There is no such run.
            CannotRecord: It cannot be recorded, or the recording is too large.
            InvalidSpec: There is no such detector.
        """
        made = await self._recorder.record(run_id)
        if not detectors:
            return made
        redacted = redact_recording(made, detectors)
        return redacted if not redacted.redacted else await self._renew_digests(redacted)

    async def _renew_digests(self, recording: Recording) -> Recording:
        """Return a redacted recording with the digests of its own requests."""
        try:
            result = await self._replays.replay(recording, ReplaySpec(keep_going=True))
        except (CannotReplay, UnknownRun):
            return _drop_digests(recording)
        found = {it.n: it.digest for it in result.replayed.steps}
        steps = tuple(
            msgspec.structs.replace(it, digest=found.get(it.n) if it.digest is not None else None)
            for it in recording.steps
        )
        is_whole = all(
            (one.digest is None) == (two.digest is None)
            for one, two in zip(recording.steps, steps, strict=True)
        )
        if not is_whole:
            return _drop_digests(recording)
        return msgspec.structs.replace(recording, steps=steps)


def _drop_digests(recording: Recording) -> Recording:
    steps = tuple(msgspec.structs.replace(it, digest=None) for it in recording.steps)
    incomplete = (*recording.incomplete, _NO_DIGESTS)
    return msgspec.structs.replace(recording, steps=steps, incomplete=incomplete)


def read_detectors(text: str) -> tuple[str, ...]:
    """Return the detectors in a text with commas; a text without one means those of secrets."""
    return tuple(it.strip() for it in text.split(",") if it.strip()) or SECRETS


def redact_shown(value: Any) -> Any:
    """Return a diff, or a followed replay, as JSON values without the secrets of its runs.

    What it says of them was compared before: a difference between two secrets stays one.
    """
    # RE2 is loaded by the first text that is searched.
    from awaken.redaction.detectors import select_detectors  # noqa: PLC0415

    return _redact_parts(msgspec.to_builtins(value), select_detectors(SECRETS), 0)


def _redact_parts(value: Any, detectors: Any, depth: int) -> Any:
    """Redact each entry by itself: one walk over all of them would cut a long list off."""
    from awaken.redaction.replacement import redact_value  # noqa: PLC0415 - as above

    if depth < _PARTS_DEPTH and isinstance(value, list | tuple):
        return [_redact_parts(it, detectors, depth + 1) for it in value]
    if depth < _PARTS_DEPTH and isinstance(value, dict):
        shown: dict[str, Any] = {}
        for name, it in value.items():
            if isinstance(it, dict | list | tuple):
                shown[name] = _redact_parts(it, detectors, depth + 1)
            else:
                # With its name, which may say that it is a secret.
                shown |= redact_value({name: it}, detectors)
        return shown
    return redact_value(value, detectors)


def redact_recording(recording: Recording, detectors: Sequence[str]) -> Recording:
    """Return a recording with what the detectors find replaced, and their names.

    Secrets are always searched for, whatever else is named.

    Raises:
        InvalidSpec: There is no such detector.
    """
    # RE2 is loaded by the first text that is searched.
    from awaken.redaction.detectors import select_detectors  # noqa: PLC0415

    chosen = select_detectors((*SECRETS, *detectors))
    document = msgspec.json.decode(encode_recording(recording))
    redaction = _Redaction(chosen)
    redaction.redact_document(document)
    if not redaction.found:
        return recording
    document["redacted"] = sorted({*recording.redacted, *redaction.found})
    return renew_result_digests(decode_recording(msgspec.json.encode(document)))


class _Redaction:
    """One walk over the parts of a recording; each is searched by itself."""

    def __init__(self, detectors: Any) -> None:
        self._detectors = detectors
        self.found: set[str] = set()

    def redact_document(self, document: dict[str, Any]) -> None:
        for name in ("history", "input", "journal"):
            self._redact_items(document.get(name))
        for scope in document.get("state", {}).values():
            self._redact_items(scope)
        run = document["run"]
        for name in ("final_output", "context", "termination"):
            if run.get(name) is not None:
                run[name] = self._redact(run[name])
        config = document["config"]
        self._redact_items(config.get("instructions"))
        for agent in config.get("agents", {}).values():
            if agent.get("system_prompt"):
                agent["system_prompt"] = self._redact(agent["system_prompt"])
        for step in document.get("steps", ()):
            if step.get("answer") is not None:
                step["answer"] = self._redact(step["answer"])
            for name in ("inputs", "calls", "state"):
                self._redact_items(step.get(name))
            for child in step.get("children", ()):
                self.redact_document(child)

    def _redact_items(self, items: Any) -> None:
        places = range(len(items)) if isinstance(items, list) else list(items or ())
        for place in places:
            items[place] = self._redact(items[place])

    def _redact(self, value: Any) -> Any:
        from awaken.redaction.replacement import (  # noqa: PLC0415 - as above
            SECRET_NAME,
            find_all,
            redact_value,
        )

        redacted = redact_value(value, self._detectors)
        if redacted != value:
            text = msgspec.json.encode(value).decode()
            kinds = {it.kind for it in find_all(text, self._detectors)}
            self.found |= kinds or {SECRET_NAME}
        return redacted
