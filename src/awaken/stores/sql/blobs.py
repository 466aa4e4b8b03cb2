"""Bytes as a database stores them: a format, the data, a checksum.

Small records repeat the same names again and again, so they are compressed against a dictionary
of these names; this halves what a commit writes. The first byte names the format, so that every
later version can read what an earlier one wrote: a dictionary is never changed, a new one is
added.
"""

import zlib

from awaken.contracts.errors import CorruptRecord

_CHECKSUM_BYTES = 4
_PLAIN = b"0"
_SMALL = b"1"
_LARGE = b"2"
_SHORT_BYTES = 64
_SMALL_MAX = 16 * 1024
_LARGE_MAX = 512 * 1024 * 1024
_SAMPLED_MIN = 512 * 1024
_SAMPLE = 64 * 1024

_DICTIONARY_1 = (
    b'{"error":"code":"message":"metadata":{"timed_out":true"failed""suspended"'
    b'"ticket_id":"suspension":{"id":"action":"parameters":"response_schema":"resume_mode":'
    b'"replay_tool_call""use_decision_as_tool_result""decision":{"decision_id":"decided_by":'
    b'{"event_type":"tool_call_resumed","target_id":"{"event_type":"reasoning_delta","delta":"'
    b'"overrides":{"frontend_tools":[{"continue_run_id":"run_mode":"resume""adapter":"internal"'
    b'"dispatch_id":"session_id":"parent_run_id":"parent_thread_id":"parent_tool_call_id":'
    b'"waiting":{"reason":"tool_permission","ticket_ids":["status":"waiting"'
    b'"request":{"thread_id":"agent_id":"messages":[{"role":"user","content":[{"type":"text"'
    b'"mode":"steer""dedupe_key":"request_hash":"attempt_count":1,"available_at":17'
    b'"status":"claimed""claim_token":"claimed_by":"lease_until":17"completed_at":17'
    b'{"type":"stopped","value":{"code":"max_rounds"}}{"type":"cancelled","cause":"user"}'
    b'"termination":{"type":"error","value":"code":"internal_error"},"final_output":"'
    b'"usage":{"prompt_tokens":"completion_tokens":"total_tokens":"cache_read_tokens":'
    b'"run_id":"thread_id":"agent_id":"status":"running","registry_version":1,"input":{"from_seq":'
    b',"to_seq":"status":"done","steps":2,"created_at":17,"started_at":17,"finished_at":17,'
    b'"updated_at":17[{"run_id":"call_id":"step":1,"tool_name":"arguments_hash":"effect":"none"'
    b'"idempotent""status":"finished","result":{"tool_name":"status":"success","data":"}}]'
    b'[{"event_type":"run_start","thread_id":"run_id":"identity":{"thread_id":"run_id":'
    b'"agent_id":"origin":"user"}}][{"event_type":"step_start","message_id":"'
    b'"},{"event_type":"text_delta","delta":"},{"event_type":"tool_call_start","id":"call_'
    b'","name":"},{"event_type":"tool_call_ready","id":"call_","name":"arguments":{'
    b'}},{"event_type":"inference_complete","model":"duration_ms":[{"event_type":"tool_call_done"'
    b',"id":"call_","message_id":"result":{"tool_name":"status":"success","data":"message":"'
    b'"},"outcome":"succeeded"},{"event_type":"step_end"},{"event_type":"run_finish","thread_id":"'
    b'","result":{"response":"status":"done","status_reason":"natural"},"termination":'
    b'{"type":"natural_end"}}]{"role":"tool","id":"content":[{"type":"text","text":"'
    b'}],"tool_call_id":"call_{"role":"assistant","id":"content":[],"tool_calls":[{"id":"call_'
    b'","name":"arguments":{"{"role":"user","id":"content":[{"type":"text","text":"'
    b'"}],"metadata":{"run_id":"01","step_index":0}}'
)
_SMALL_PACKER = zlib.compressobj(1, zlib.DEFLATED, -12, 4, zlib.Z_DEFAULT_STRATEGY, _DICTIONARY_1)


def compress(data: bytes) -> bytes:
    """Return the body of a blob: the format and the data, smaller if that pays."""
    size = len(data)
    if size < _SHORT_BYTES:
        return _PLAIN + data
    if size <= _SMALL_MAX:
        packer = _SMALL_PACKER.copy()
        return _SMALL + packer.compress(data) + packer.flush()
    if size > _SAMPLED_MIN and len(zlib.compress(data[:_SAMPLE], 1)) > _SAMPLE * 0.6:
        # Probably files in base64: compression saves a quarter and takes longer than all the rest.
        return _PLAIN + data
    return _LARGE + zlib.compress(data, 1)


def add_checksum(body: bytes, *beside: int | str | None) -> bytes:
    """Append a checksum of the body and of the columns beside it, to which it binds the blob."""
    return body + zlib.crc32(body, _seed(beside)).to_bytes(_CHECKSUM_BYTES, "big")


def unseal(blob: bytes, what: str, *beside: int | str | None) -> bytes:
    """Verify and decompress a sealed blob; `beside` are the columns that it is bound to.

    Raises:
        CorruptRecord: The blob is damaged, or this version does not know its format.
    """
    body, checksum = blob[:-_CHECKSUM_BYTES], blob[-_CHECKSUM_BYTES:]
    if zlib.crc32(body, _seed(beside)).to_bytes(_CHECKSUM_BYTES, "big") != checksum:
        raise CorruptRecord(what=what, problem="its checksum does not match")
    match body[:1]:
        case b"0":
            return body[1:]
        case b"1":
            return zlib.decompressobj(-12, _DICTIONARY_1).decompress(body[1:], _SMALL_MAX)
        case b"2":
            return zlib.decompressobj().decompress(body[1:], _LARGE_MAX)
        case unknown:
            raise CorruptRecord(what=what, problem=f"its format {unknown!r} is not known")


def _seed(beside: tuple[int | str | None, ...]) -> int:
    return zlib.crc32(repr(beside).encode()) if beside else 0
