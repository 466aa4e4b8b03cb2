"""`--context` of the commands that hand it on: `submit` and `steer`, `acp` and `mcp`."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import make_dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.forked_python import ForkedPython, run_python

from awaken.authoring.run_contexts import ContextType
from awaken.cli.context_option import describe_context

from .conftest import Call

APP = """
from dataclasses import dataclass
from awaken import Agent
from awaken.testing import ScriptedModel

@dataclass
class Customer:
    id: str
    seats: int = 1

def greet(request):
    return request.system[0]

helper = Agent(
    "helper", model=ScriptedModel([greet], cycle=True), instructions="Greet {context.id}.",
    context_type=Customer,
)
"""
INVALID_PARAMS = -32602
HELLO = {
    "protocolVersion": "2025-06-18", "capabilities": {},
    "clientInfo": {"name": "test", "version": "0"},
}  # fmt: skip


class Peer:
    """A client of a command that speaks JSON-RPC on its stdin and stdout."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self._count = 0
        self.notes: list[Any] = []

    def send(self, method: str, params: Any) -> Any:
        """Send a request; returns its response, and keeps the notifications before it."""
        self._count += 1
        self.write({"id": self._count, "method": method, "params": params})
        assert self._process.stdout is not None
        for line in self._process.stdout:
            answer = json.loads(line)
            if answer.get("id") == self._count and "method" not in answer:
                return answer
            self.notes.append(answer)
        raise AssertionError("it has ended")

    def write(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self._process.stdin.flush()


@contextmanager
def serving(folder: Path, *words: str) -> Iterator[Peer]:
    (folder / "app.py").write_text(APP)
    with ForkedPython(
        *("-m", "awaken", *words, "--store", "memory://"), cwd=folder, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    ) as process:  # fmt: skip
        yield Peer(process)
        process.communicate(timeout=60)


@pytest.mark.parametrize(
    ("option", "meta", "expected"),
    [
        ('{"id": "c-7"}', None, "Greet c-7."),
        ('{"id": "c-7"}', {"id": "c-8"}, "Greet c-8."),
        ('{"id": "c-7"}', {"id": 8}, INVALID_PARAMS),
        (None, None, INVALID_PARAMS),
        (None, "text", INVALID_PARAMS),
        (None, {"id": "x" * 70_000}, INVALID_PARAMS),
        (None, {"id": "c-8"}, "Greet c-8."),
    ],
)
def test_an_editor_has_the_context_of_the_command_line(
    tmp_path: Path, option: str | None, meta: Any, expected: str | int
) -> None:
    words = ["acp", "app.py", *([] if option is None else ["--context", option])]
    with serving(tmp_path, *words) as editor:
        editor.send("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        opened = editor.send("session/new", {"cwd": str(tmp_path), "mcpServers": []})
        params = {"prompt": [{"type": "text", "text": "hi"}], **opened["result"]}
        extra = {} if meta is None else {"_meta": {"context": meta}}
        answer = editor.send("session/prompt", {**params, **extra})
    if isinstance(expected, int):
        assert answer["error"]["code"] == expected, answer
    else:
        assert answer["result"] == {"stopReason": "end_turn"}
        assert expected in json.dumps(editor.notes)


def test_a_client_of_tools_has_the_context_of_the_command_line(tmp_path: Path) -> None:
    with serving(tmp_path, "mcp", "app.py", "--context", '{"id": "c-7"}') as client:
        client.send("initialize", HELLO)
        client.write({"method": "notifications/initialized"})
        call = {"name": "helper", "arguments": {"message": "hi"}}
        given = client.send("tools/call", call)
        own = client.send("tools/call", {**call, "_meta": {"context": {"id": "c-8"}}})
    assert "Greet c-7." in json.dumps(given)
    assert "Greet c-8." in json.dumps(own)


@pytest.mark.parametrize(
    ("command", "context", "words"),
    [
        ("acp", '{"id": 7}', "The context does not fit agent 'helper'"),
        ("acp", "7", "--context is invalid: it is no JSON object"),
        ("mcp", "7", "--context is invalid: it is no JSON object"),
    ],
)
def test_a_context_that_does_not_fit_ends_the_command_at_its_start(
    tmp_path: Path, command: str, context: str, words: str
) -> None:
    (tmp_path / "app.py").write_text(APP)
    done = run_python("-m", "awaken", command, "app.py", "--context", context, cwd=tmp_path)
    assert (done.returncode in (1, 2), done.stdout) == (True, "")
    assert words in done.stderr


def test_submitted_input_has_its_context(call: Call) -> None:
    store = ("--store", "sqlite:///new.db")
    assert call("submit", "helper", "hi", *store, "--context", '{"id": "c-7"}').code == 0
    refused = call("submit", "helper", "hi", *store, "--context", "c-7")
    assert (refused.code, "it is no JSON object" in refused.err) == (2, True)
    listed = call("dispatches", "list", *store, "--json").document["items"]
    (one,) = [call("dispatches", "show", it["dispatch_id"], *store, "--json") for it in listed]
    assert '"c-7"' in one.out


def test_the_way_out_names_the_required_fields() -> None:
    fields = [("id", str), ("seats", int), ("paid", bool)]
    kind = ContextType(make_dataclass("Wanted", fields))
    assert describe_context(kind) == (
        """Pass it with --context '{"id":"…","seats":1,"paid":true}'"""
    )
    assert describe_context(None) == "Pass it with --context '{}'"
