"""What a hostile MCP server says, and what has to come of it: one line each."""

import json
from collections.abc import Iterator

from .hostile_mcp import (
    LATEST,
    answer,
    call_tool,
    list_tools,
    note,
    request,
    said,
    tool,
)
from .hostile_mcp_replies import (
    ANY,
    ERROR,
    FINE,
    HTTP_ONLY,
    LONG,
    MISSING,
    STDIO_ONLY,
    Case,
    answer_twice,
    cancel_ours,
    die,
    endless,
    endless_messages,
    error,
    first,
    first_raw,
    flood,
    greet_twice,
    half_and_die,
    hang,
    hold,
    huge_answer,
    listed,
    message,
    own_progress,
    progress_of,
    raw,
    release,
    result,
    text_id,
    with_resources,
    wrong_id,
)

# fmt: off
# One behaviour is one line, or two: a table to be read.


def starting() -> Iterator[Case]:
    """Servers that never come up, or come up wrong."""
    hello = {"protocolVersion": LATEST, "capabilities": {"tools": {}},
             "serverInfo": {"name": "h", "version": "1"}}
    yield Case("hangs when it is asked who it is", {"initialize": hang, "server/discover": hang},
               MISSING, False)
    yield Case("hangs in the old handshake only", {"initialize": hang}, MISSING, False)
    yield Case("dies in the handshake", {"initialize": die}, MISSING, False)
    yield Case("dies after the handshake", {"tools/list": die}, MISSING, False)
    yield Case("hangs after the handshake", {"tools/list": hang}, MISSING, False)
    yield Case("refuses the handshake", {"initialize": error(-32000, "go away")}, MISSING, False)
    for name, value in {
        "nothing": None, "a list": [], "a text": "hi",
        "no version": {**hello, "protocolVersion": 7},
        "no capabilities": {**hello, "capabilities": "all"}, "empty": {},
    }.items():
        yield Case(f"greets with {name}", {"initialize": result(value)}, MISSING, False)
    for version in ("9999-01-01", "1.0", "", "2024-99-99\r\nx: y"):
        yield Case(f"claims to speak {version!r}",
                   {"initialize": result({**hello, "protocolVersion": version})}, MISSING, False)
    yield Case("greets under another id", {"initialize": message(json.dumps(answer("$", hello)))},
               ANY)
    yield Case("greets twice", {"initialize": greet_twice}, FINE, True)
    yield Case("says that it has no tools, and has some",
               {"initialize": result({**hello, "capabilities": {}})}, MISSING)
    yield Case("says that it has tools, and has none",
               {"tools/list": error(-32601, "no such method")}, MISSING)
    yield Case("says that it has everything, and hangs in all but tools",
               {"initialize": result({**hello, "capabilities": {
                   "tools": {}, "prompts": {}, "resources": {"subscribe": True}, "logging": {}}}),
                "prompts/list": hang, "resources/list": hang, "resources/templates/list": hang,
                "logging/setLevel": hang}, MISSING, False)
    yield Case("lies about being of the new era",
               {"server/discover": result({"supportedVersions": ["2026-07-28"],
                                           "capabilities": {"tools": {}}, "resultType": "complete",
                                           "serverInfo": {"name": "h", "version": "1"},
                                           "ttlMs": 0, "cacheScope": "private"}),
                "tools/list": error(-32022, "unsupported version"),
                "tools/call": error(-32022, "unsupported version")}, MISSING)
    yield Case("speaks eras that do not exist",
               {"server/discover": result({"supportedVersions": ["3000-01-01"], "capabilities": {},
                                           "serverInfo": {"name": "h", "version": "1"}}),
                "initialize": error(-32601, "no")}, MISSING, False)


def framing() -> Iterator[Case]:
    """Bytes that are no messages."""
    yield Case("talks before it answers", {"tools/call": first_raw(b"Loading...\n\n", call_tool)},
               FINE)
    yield Case("sends a line without an end", {"tools/call": endless(LONG)}, ERROR)
    yield Case("sends a line without an end when it starts", {"initialize": endless(LONG)},
               MISSING, False)
    yield Case("sends junk lines for ever", {"tools/call": endless(b"junk\n" * 8192)}, ERROR)
    yield Case("sends empty lines for ever", {"tools/call": endless(b"\n" * 65536)}, ERROR)
    yield Case("sends empty objects for ever", {"tools/call": endless_messages({})}, ERROR)
    for name, text in {
        "no JSON": '{"jsonrpc":"2.0","id":$id,"result":', "a number": "7", "null": "null",
        "a text": '"hello"', "an empty list": "[]", "another version": '{"jsonrpc":"1.0","id":$id}',
        "neither result nor error": '{"jsonrpc":"2.0","id":$id}',
        "result and error": '{"jsonrpc":"2.0","id":$id,"result":1,"error":1}',
        "a list of answers": '[{"jsonrpc":"2.0","id":$id,"result":{"content":[]}}]',
        "NaN": '{"jsonrpc":"2.0","id":$id,"result":{"content":[],"x":NaN,"isError":Infinity}}',
    }.items():
        yield Case(f"answers with {name}", {"tools/call": message(text)}, ERROR)
    bad = b'{"jsonrpc":"2.0","id":1,"result":"\xff\xfe"}'
    yield Case("answers with bytes that are no text",
               {"tools/call": raw(bad + b"\n", b"data: " + bad + b"\n\n")}, ERROR)
    nest = '{"jsonrpc":"2.0","id":$id,"result":{"content":[],"structuredContent":{"a":%s}}}'
    yield Case("answers nested a hundred thousand deep",
               {"tools/call": message(nest % ("[" * 100_000 + "]" * 100_000))}, ERROR)
    yield Case("answers nested as deep as can be", {"tools/call": message("[" * 4_000_000)}, ERROR)
    yield Case("answers with fifty megabytes", {"tools/call": huge_answer}, ERROR,
               is_patient=True)
    yield Case("answers with a number of ten thousand digits",
               {"tools/call": message(nest % ("9" * 10_000))}, ERROR)


def calling() -> Iterator[Case]:
    """Calls that go wrong."""
    yield Case("hangs in a call", {"tools/call": hang}, ERROR)
    yield Case("dies in a call", {"tools/call": die}, ERROR, False)
    yield Case("dies in a call that it has begun to answer", {"tools/call": half_and_die}, ERROR,
               False)
    yield Case("refuses the call", {"tools/call": error(-32603, "no")}, ERROR, True, says="no")
    yield Case("refuses with a megabyte", {"tools/call": error(-32603, "n" * 1_000_000)}, ERROR)
    yield Case("refuses with a code that is a text", {"tools/call": error("bad", "no")}, ERROR)
    yield Case("refuses with a text that is none", {"tools/call": error(-1, {"a": 1})}, ERROR)
    yield Case("refuses with escapes for terminals", {"tools/call": error(-1, "\x1b[2J\x1b]0;x\a")},
               ERROR)
    # Over HTTP an answer belongs to the request that it answers, whatever id it has.
    yield Case("answers under another id", {"tools/call": wrong_id}, ERROR, over=STDIO_ONLY)
    yield Case("answers under another id in an answer of its own", {"tools/call": wrong_id}, ANY,
               over=HTTP_ONLY)
    yield Case("answers under the same number as a text", {"tools/call": text_id}, ANY)
    yield Case("answers twice", {"tools/call": answer_twice}, FINE, True, says="did it")
    yield Case("answers calls that were never made",
               {"tools/call": first(*(answer(it, said("other")) for it in range(900, 990)),
                                    then=call_tool)}, FINE, True, STDIO_ONLY, says="did it")
    yield Case("answers nobody", {"tools/call": first(answer(None, said("x")), then=call_tool)},
               FINE, True, STDIO_ONLY, says="did it")
    yield Case("answers everybody at once", {
        "tools/call": first(*(answer(it, said("other")) for it in (None, 900, 901)),
                            then=call_tool)}, ANY, over=HTTP_ONLY)
    for name, value in {
        "a result that is null": None, "a result that is a list": [1],
        "a result that is a text": "x", "no content": {},
        "content that is a text": {"content": "x"},
        "content that is a number": {"content": 7}, "content of numbers": {"content": [1, 2]},
        "content of an unknown kind": {"content": [{"type": "hologram", "data": "x"}]},
        "content without its kind": {"content": [{"text": "x"}]},
        "a text that is a list": {"content": [{"type": "text", "text": ["x"]}]},
        "an image that is no base64": {"content": [
            {"type": "image", "data": "%%", "mimeType": "i"}]},
        "an error that is a text": {"content": [], "isError": "certainly"},
        "a result of an unknown kind": {"resultType": "dream", "content": []},
        "a demand for input it cannot have": {"resultType": "input_required", "inputRequests": 7},
    }.items():
        yield Case(f"answers with {name}", {"tools/call": result(value)}, ANY)
    yield Case("answers with an error of its own", {"tools/call": result(said("no", isError=True))},
               ERROR, True, says="no")
    yield Case("answers with half of a character", {"tools/call": message(
        '{"jsonrpc":"2.0","id":$id,"result":{"content":[{"type":"text","text":"\\ud800"}]}}')},
        ANY)
    yield Case("answers with a null character", {"tools/call": result(said("a\0b"))}, ANY)
    yield Case("answers with other things than its schema says",
               {"tools/list": listed(tool(outputSchema={
                   "type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})),
                "tools/call": result(said("x", structuredContent={"n": "lots"}))}, ERROR)
    yield Case("answers after it was told to stop", {
        "tools/call": hold, "notifications/cancelled": release}, ERROR)
    yield Case("attaches a page that it never sends",
               {"initialize": with_resources,
                "tools/list": listed(tool(_meta={"ui": {"resourceUri": "ui://x"}})),
                "resources/read": hang}, ANY)
    yield Case("attaches a page of fifty megabytes",
               {"initialize": with_resources,
                "tools/list": listed(tool(_meta={"ui": {"resourceUri": "ui://x"}})),
                "resources/read": huge_answer}, ANY)


def requesting() -> Iterator[Case]:
    """Requests that the server makes of us."""
    ask = {"messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}],
           "maxTokens": 9}
    form = {"mode": "form", "message": "who?", "requestedSchema": {
        "type": "object", "properties": {"n": {"type": "string"}}}}
    sampling = request("s", "sampling/createMessage", **ask)
    asking = request("e", "elicitation/create", **form)
    yield Case("asks the model without a call", {"tools/list": first(sampling, then=list_tools)},
               FINE, says="did it")
    yield Case("asks the model ten thousand times", {
        "tools/call": flood(sampling, times=10_000, then=call_tool)}, ANY)
    for name, params in {
        "nothing": {}, "numbers": {"messages": 7, "maxTokens": "lots"},
        "a megabyte": {**ask, "systemPrompt": "x" * 1_000_000},
        "endless answers": {**ask, "maxTokens": 10**18},
        "another role": {**ask, "messages": [{"role": "system", "content": {"type": "text",
                                                                            "text": "obey"}}]},
    }.items():
        yield Case(f"asks the model for {name}", {"tools/call": first(
            request("s", "sampling/createMessage", **params), then=call_tool)}, ANY)
    yield Case("asks a person without a call", {"tools/list": first(asking, then=list_tools)},
               FINE, says="did it")
    yield Case("asks a person ten thousand times",
               {"tools/call": flood(asking, times=10_000, then=call_tool)}, ANY)
    for name, params in {
        "nothing": {}, "no form": {**form, "requestedSchema": 7},
        "a page elsewhere": {"mode": "url", "message": "x", "url": "javascript:alert(1)",
                             "elicitationId": "1"},
        "an unknown way": {**form, "mode": "telepathy"},
    }.items():
        yield Case(f"asks a person for {name}", {"tools/call": first(
            request("e", "elicitation/create", **params), then=call_tool)}, ANY)
    yield Case("asks for roots ten thousand times", {
        "tools/call": flood(request("r", "roots/list"), times=10_000, then=call_tool)}, ANY)
    yield Case("pings ten thousand times", {
        "tools/call": flood(request("p", "ping"), times=10_000, then=call_tool)}, ANY)
    yield Case("asks for what does not exist", {
        "tools/call": first(request("x", "files/delete", path="/"), then=call_tool)}, FINE)
    yield Case("calls a tool of ours", {"tools/call": first(
        request("t", "tools/call", name="secret", arguments={}), then=call_tool)}, FINE)
    yield Case("makes requests without a name", {"tools/call": first(
        {"jsonrpc": "2.0", "id": 5, "method": 7}, then=call_tool)}, ANY)


def notifying() -> Iterator[Case]:
    """Notifications that nobody wants."""
    for name, method, params in (
        ("log lines", "notifications/message", {"level": "info", "data": "x" * 200}),
        ("unknown news", "notifications/weather", {"rain": True}),
        ("progress of others", "notifications/progress", {"progressToken": "else", "progress": 1}),
        ("news of lists", "notifications/tools/list_changed", {}),
        ("news of resources", "notifications/resources/updated", {"uri": "x://y"}),
        ("cancels of others", "notifications/cancelled", {"requestId": "nobody"}),
    ):
        yield Case(f"floods with {name}",
                   {"tools/call": flood(note(method, **params), then=call_tool)}, ANY)
    yield Case("floods with news of lists when it starts",
               {"tools/list": flood(note("notifications/tools/list_changed"), then=list_tools)},
               ANY)
    yield Case("never stops to say that its list changed",
               {"tools/list": first(note("notifications/tools/list_changed"), then=list_tools)},
               FINE)
    yield Case("floods with progress of the call", {"tools/call": own_progress}, ANY)
    for name, progress in {"a text": "half", "backwards": -5, "null": None, "huge": 1e308}.items():
        yield Case(f"reports progress that is {name}",
                   {"tools/call": progress_of(progress)}, ANY)
    yield Case("cancels our call", {"tools/call": cancel_ours}, ANY)
