"""The portable form of recordings: canonical JSON, `recording/1`."""

import msgspec

from awaken.contracts.evals.errors import CannotRecord, CannotReplay
from awaken.contracts.evals.recordings import BYTES_MAX, FORMAT, Recording

# The keys of objects keep their order: a model reads a result in the order in which it was made.
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Recording).decode


class _Head(msgspec.Struct):
    format: str = ""


def encode_recording(recording: Recording) -> bytes:
    """Return a recording as JSON; equal recordings have equal bytes."""
    return _encode(recording)


def decode_recording(data: bytes) -> Recording:
    """Read a recording.

    Raises:
        CannotReplay: It is too large, of another format, or damaged.
    """
    if len(data) > BYTES_MAX:
        raise CannotReplay(run_id="?", problem=_say_too_large(len(data)))
    try:
        head = msgspec.json.decode(data, type=_Head)
        if head.format != FORMAT:
            problem = f"its format is '{head.format:.40}', and this release reads '{FORMAT}'"
            raise CannotReplay(run_id="?", problem=problem)
        return _decode(data)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise CannotReplay(run_id="?", problem=f"it is damaged: {error}") from error


def check_size(recording: Recording) -> None:
    """Refuse a recording that is larger than recordings may be.

    Raises:
        CannotRecord: It is too large.
    """
    size = len(_encode(recording))
    if size > BYTES_MAX:
        raise CannotRecord(run_id=recording.run.run_id, problem=_say_too_large(size))


def _say_too_large(size: int) -> str:
    return f"it has {size} bytes, and at most {BYTES_MAX} are kept"
