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
_LARGE = b"2"
_SMALL = b"3"
_SHORT_BYTES = 160
"""Below this, compression saves too little for its time; see ADR 24."""
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
_DICTIONARY_2 = (
    b'{"error":"code":"timed_out":true"failed""suspended""overrides":{"frontend_tools":[{'
    b'"adapter":"internal""session_id":"parent_run_id":"parent_thread_id":"parent_tool_call_id":"'
    b'"mode":"steer""dedupe_key":"claim_token":"claimed_by":"lease_until":17"run_mode":"resume",'
    b'"continue_run_id":"{"event_type":"reasoning_delta","delta":"'
    b'{"type":"stopped","value":{"code":"max_rounds"}}{"type":"cancelled","cause":"user"}'
    b'"termination":{"type":"error","value":{"code":"internal_error","message":"'
    b'"cache_read_tokens":{"ticket_id":"suspension":{"id":"action":"message":"parameters":'
    b'{"type":"object","properties":{"response_schema":{"resume_mode":"replay_tool_call"'
    b'"use_decision_as_tool_result""decision":{"decision_id":"action":"resume","decided_by":"'
    b'"updated_at":1},"status":"decided"},{"event_type":"tool_call_resumed","target_id":"'
    b'"status":"waiting","waiting":{"reason":"tool_permission","ticket_ids":["'
    b'"dispatch_id":"01","request":{"dispatch_id":"01","thread_id":"01","agent_id":"'
    b'","messages":[{"role":"user","id":"01"}]}]},"request_hash":"","status":"acked","queued"'
    b'"available_at":1,"attempt_count":1,"completed_at":1,"created_at":1,"updated_at":1'
    b'[{"run_id":"01","call_id":"call_","step":1,"tool_name":"","arguments_hash":"'
    b'","effect":"none","idempotent","status":"finished","result":{"tool_name":"'
    b'","status":"success","data":"","message":""},"reads":["updates":[["'
    b'{"run_id":"01","thread_id":"01","agent_id":"","status":"done","registry_version":1,'
    b'"input":{"from_seq":1,"to_seq":1},"termination":{"type":"natural_end"},"final_output":"'
    b'","steps":2,"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":1},'
    b'"log_start":1,"created_at":17,"started_at":17,"finished_at":17,"updated_at":17'
    b'"status":"running","registry_version":1,"input":{"from_seq":1,"to_seq":1},"steps":1,'
    b'"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":1},'
    b'"bookmark":{"version":1,"data":{"step":1,"is_step_open":true,"message_id":"01'
    b'","answer":{},"is_over":true,"passed":[],"hooked":[]}},"log_start":1,"created_at":179'
    b'[{"event_type":"run_start","thread_id":"01","run_id":"01","identity":{"dispatch_id":"01'
    b'","origin":"user","thread_id":"01","run_id":"01","agent_id":""}}]'
    b'[{"event_type":"step_start","message_id":"01"},{"event_type":"tool_call_start","id":"call_'
    b'","name":""},{"event_type":"tool_call_ready","id":"call_","name":"","arguments":{"'
    b'"}},{"event_type":"text_delta","delta":""},{"event_type":"inference_complete","model":"'
    b'","usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":1},"duration_ms":0},'
    b'{"event_type":"tool_call_done","id":"call_","message_id":"01","result":{"tool_name":"'
    b'","status":"success","data":"","message":""},"outcome":"succeeded"},'
    b'{"event_type":"step_end"},{"event_type":"run_finish","thread_id":"01","run_id":"01'
    b'","identity":{"origin":"user","result":{"response":"","status":"done",'
    b'"status_reason":"natural"},"termination":{"type":"natural_end"}}]'
    b'{"role":"tool","id":"01","content":[{"type":"text","text":""}],"tool_call_id":"call_'
    b'","metadata":{"run_id":"01{"role":"assistant","id":"01","content":[],"tool_calls":['
    b'{"id":"call_","name":"","arguments":{""}}],"metadata":{"run_id":"01","step_index":0}}'
    b'{"role":"user","id":"01","content":[{"type":"text","text":""}],"metadata":{"run_id":"01'
    b'","step_index":1}}'
)
_SMALL_PACKER = zlib.compressobj(6, zlib.DEFLATED, -12, 4, zlib.Z_DEFAULT_STRATEGY, _DICTIONARY_2)


def seal(data: bytes, seed: int = 0) -> bytes:
    """Return data as a blob: compressed if that pays, with a checksum.

    `seed` comes from `column_seed` and binds the blob to the columns beside it.
    """
    size = len(data)
    if size < _SHORT_BYTES:
        body = _PLAIN + data
    elif size <= _SMALL_MAX:
        packer = _SMALL_PACKER.copy()
        body = _SMALL + packer.compress(data) + packer.flush()
    elif size > _SAMPLED_MIN and len(zlib.compress(data[:_SAMPLE], 1)) > _SAMPLE * 0.6:
        # Probably files in base64: compression saves a quarter and takes longer than all the rest.
        body = _PLAIN + data
    else:
        body = _LARGE + zlib.compress(data, 1)
    return body + zlib.crc32(body, seed).to_bytes(_CHECKSUM_BYTES, "big")


def column_seed(*beside: int | str | None) -> int:
    """Return the number by which a checksum covers the columns beside a blob."""
    return zlib.crc32(repr(beside).encode()) if beside else 0


def unseal(blob: bytes, what: str, *beside: int | str | None) -> bytes:
    """Verify and decompress a sealed blob; `beside` are the columns that it is bound to.

    Raises:
        CorruptRecord: The blob is damaged, or this version does not know its format.
    """
    body, checksum = blob[:-_CHECKSUM_BYTES], blob[-_CHECKSUM_BYTES:]
    if zlib.crc32(body, column_seed(*beside)).to_bytes(_CHECKSUM_BYTES, "big") != checksum:
        raise CorruptRecord(what=what, problem="its checksum does not match")
    match body[:1]:
        case b"0":
            return body[1:]
        case b"1":
            return zlib.decompressobj(-12, _DICTIONARY_1).decompress(body[1:], _SMALL_MAX)
        case b"2":
            return zlib.decompressobj().decompress(body[1:], _LARGE_MAX)
        case b"3":
            return zlib.decompressobj(-12, _DICTIONARY_2).decompress(body[1:], _SMALL_MAX)
        case unknown:
            raise CorruptRecord(what=what, problem=f"its format {unknown!r} is not known")
