"""A coding agent that keeps to no protocol; the first argument says how it misbehaves."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

SESSION = "s1"


def write(message: Any) -> None:
    raw(json.dumps(message).encode() + b"\n")


def raw(data: bytes) -> None:
    os.write(1, data)


def answer(number: int, result: Any) -> None:
    write({"jsonrpc": "2.0", "id": number, "result": result})


def say(text: str, kind: str = "agent_message_chunk") -> None:
    update = {"sessionUpdate": kind, "content": {"type": "text", "text": text}}
    tell(update)


def tell(update: Any) -> None:
    params = {"sessionId": SESSION, "update": update}
    write({"jsonrpc": "2.0", "method": "session/update", "params": params})


def ask(number: int, method: str, params: Any) -> None:
    write({"jsonrpc": "2.0", "id": number, "method": method, "params": params})


def permission(title: str = "Erase") -> Any:
    kinds = ("allow_once", "reject_once")
    options = [{"optionId": f"o-{kind}", "name": kind, "kind": kind} for kind in kinds]
    call = {"toolCallId": "c1", "title": title}
    return {"sessionId": SESSION, "toolCall": call, "options": options}


def read() -> Any:
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    return json.loads(line)


def is_ready() -> None:
    """Tell that it misbehaves from here on."""
    Path("ready").touch()


def forever() -> None:
    while True:
        signal.pause()


def silent(_: int) -> None:
    is_ready()
    forever()


def stubborn(_: int) -> None:
    """Ignores everything, and has a child that does."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen(["sleep", "600"])
    Path("child").write_text(str(child.pid))
    is_ready()
    say("I begin")
    forever()


def tidy(_: int) -> None:
    """Hears nothing, but ends in good order when it is told to."""

    def end(*_: Any) -> None:
        Path("heard").write_text("term")
        sys.exit(0)

    signal.signal(signal.SIGTERM, end)
    is_ready()
    forever()


def orphaning(number: int) -> None:
    """Answers and is gone, and leaves a child in its group."""
    child = subprocess.Popen(["sleep", "600"])
    Path("child").write_text(str(child.pid))
    answer(number, {"stopReason": "end_turn"})


def leaving(_: int) -> None:
    """A child of another group keeps the pipes open."""
    child = subprocess.Popen(["sleep", "60"], start_new_session=True)
    Path("child").write_text(str(child.pid))
    is_ready()
    sys.exit(0)


def flooding(_: int) -> None:
    while True:
        say("x", "agent_thought_chunk")


def endless_line(_: int) -> None:
    while True:
        raw(b"x" * 65536)


def long_answer(_: int) -> None:
    while True:
        say("x" * 1000)


def asking_too_much(_: int) -> None:
    for number in range(1000):
        ask(number, "session/request_permission", permission())
    forever()


def asking_and_deaf(_: int) -> None:
    number = 0
    while True:
        number += 1
        ask(number, "fs/read_text_file", {"path": "x" * 500})


def writing(_: int) -> None:
    raw(sys.argv[2].encode("latin-1").replace(b"~", b"[" * 50000) + b"\n")
    forever()


def dying(_: int) -> None:
    say("I begin")
    print("x" * 100_000, file=sys.stderr)
    print("no fuel, key", os.environ["KEY"], file=sys.stderr)
    sys.exit(3)


def wanting(number: int) -> None:
    """Asks for what it is not lent, and tells what it was answered."""
    large = permission("x" * 1_000_000)
    wrong = {**permission(), "sessionId": "another"}
    lent: list[tuple[str, Any]] = [
        ("fs/read_text_file", {"sessionId": SESSION, "path": "/etc/passwd"}),
        ("fs/write_text_file", {"sessionId": SESSION, "path": "/x", "content": ""}),
        ("terminal/create", {"sessionId": SESSION, "command": "sh"}),
        ("elicitation/create", {}),
    ]
    asked: list[tuple[str, Any]] = [
        ("session/request_permission", {"sessionId": SESSION}),
        ("session/request_permission", wrong),
        ("session/request_permission", large),
    ]
    codes = []
    for index, (method, params) in enumerate(lent * 10 + asked):
        ask(index, method, params)
        codes.append(read()["error"]["code"])
    write({"jsonrpc": "2.0", "method": "$/unknown"})
    say(json.dumps(codes))
    answer(number, {"stopReason": "end_turn"})


def erasing(number: int) -> None:
    """Asks twice about one call, and tells what was decided."""
    for index in range(2):
        ask(index, "session/request_permission", permission())
        outcome = read()["result"]["outcome"]
        say(outcome.get("optionId", outcome["outcome"]) + " ")
    answer(number, {"stopReason": "end_turn"})


def waiting(number: int) -> None:
    """Asks, and ends its turn once it is told to."""
    say("I begin ")
    ask(0, "session/request_permission", permission())
    for _ in range(2):
        message = read()
        if message.get("method") == "session/cancel":
            Path("heard").write_text("cancel")
        else:
            say(message["result"]["outcome"]["outcome"])
    answer(number, {"stopReason": "cancelled"})


def showing(number: int) -> None:
    say(json.dumps({"environment": dict(os.environ), "cwd": os.getcwd(), "greeted": GREETED}))
    answer(number, {"stopReason": "end_turn"})


def stopping(number: int) -> None:
    say("so far")
    answer(number, {"stopReason": sys.argv[2]})


def chatty(number: int) -> None:
    for index in range(2000):
        call = {"toolCallId": f"c{index}", "title": "t" * 5000, "status": "pending"}
        tell({"sessionUpdate": "tool_call", **call})
        say("words ")
    answer(number, {"stopReason": "end_turn"})


GREETED: list[Any] = []


def greeting(number: int) -> None:
    version = int(sys.argv[2]) if sys.argv[1] == "versioned" else 1
    answer(number, {"protocolVersion": version})


def opening(number: int) -> None:
    if sys.argv[1] == "locked":
        error = {"code": -32000, "message": "Authentication required"}
        write({"jsonrpc": "2.0", "id": number, "error": error})
    else:
        answer(number, {"sessionId": SESSION})


def serve() -> None:
    mode = sys.argv[1]
    while True:
        message = read()
        handle: Callable[[int], None] | None = {
            "initialize": silent if mode == "silent" else greeting,
            "session/new": opening,
            "session/prompt": globals().get(mode),
        }.get(message["method"])
        if handle is not None:
            GREETED.append(message.get("params"))
            handle(message["id"])


if __name__ == "__main__":
    Path("pid").write_text(str(os.getpid()))
    serve()
