"""The digest of a request, which the log keeps: equal digests mean the same question.

It has two halves. The first covers instructions, tools, parameters and output schema, the second
the messages. The model is not part of it: the same question may be put to another one.
"""

from hashlib import blake2b

import msgspec

from awaken.contracts.messages.message import Transcript
from awaken.contracts.models.inference import InferenceRequest
from awaken.runtime.context.digests import DIGEST_BYTES, MessageDigest
from awaken.runtime.run import Run

_encode = msgspec.json.Encoder(order="sorted").encode


def digest_request(run: Run, request: InferenceRequest) -> str | None:
    """Return the digest of a request of the run; None if a plugin's message has no JSON form."""
    agent = run.agent
    is_usual = (
        request.system is agent.system
        and request.tools is agent.model_tools
        and request.overrides is agent.overrides
        and request.tool_choice is None
    )
    try:
        frame = agent.frame_digest if is_usual else ""
        if not frame:
            frame = digest_frame(request)
            if is_usual:
                agent.keep_frame_digest(frame)
        if request.messages is not run.messages:
            return frame + MessageDigest().add(request.messages)
        known = run.digest
        if known is None:
            cache, thread_id = run.services.digests, run.identity.thread_id
            if thread_id in cache.by_thread:
                known = _find_digest(run)
            if known is None:
                known = MessageDigest()
                cache.room -= 1
                if cache.room < 0:
                    cache.clear()
                cache.by_thread[thread_id] = known
            run.digest = known
        transcript, done = run.messages, known.count
        length = transcript.length
        if done >= length:
            return frame + known.add(transcript.own[done - length :])
        base = transcript.base
        while type(base) is Transcript:
            # A store gives a view of its list, and nothing is appended to that view.
            base = base.base
        return frame + known.add([*base[done:length], *transcript.own])
    except (TypeError, ValueError, RecursionError):
        return None


def digest_frame(request: InferenceRequest) -> str:
    """Return the digest of a request without its messages."""
    parts = (
        request.system,
        request.tools,
        request.overrides,
        request.output_schema,
        request.tool_choice,
    )
    return blake2b(_encode(parts), digest_size=DIGEST_BYTES).hexdigest()


def _find_digest(run: Run) -> MessageDigest | None:
    """Return the digest of the thread as its last run in this process left it, if there is one."""
    known = run.services.digests.by_thread[run.identity.thread_id]
    count, base = known.count, run.messages.base
    while type(base) is Transcript:
        base = base.base
    is_its_own = 0 < count <= run.messages.length and base[count - 1].id == known.last_id
    return known if is_its_own else None
