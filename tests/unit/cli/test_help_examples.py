"""Every command has an example in its help, and every example runs."""

import asyncio
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import typer.main
from tests.extensions.mcp_servers.authority import Authority
from tests.forked_python import ForkedPython
from typer.testing import CliRunner

from awaken import AgentRuntime
from awaken.cli.apps import load_app
from awaken.cli.examples import EXAMPLES
from awaken.cli.main import app
from awaken.contracts.evals.eval_runs import (
    EvalItem,
    EvalRecord,
    EvalSpec,
    EvalStatus,
    ItemStatus,
)
from awaken.contracts.evals.worlds import Variant
from awaken.contracts.messages.message import user
from awaken.contracts.runs.records import RunRequest
from awaken.contracts.storage.dispatch import DispatchStatus, Release, RunDispatch
from awaken.evals.dataset_files import read_folder
from awaken.evals.datasets import Datasets
from awaken.extensions.memory import (
    DocumentDraft,
    FactSource,
    knowledge_collection,
    user_memory,
)
from awaken.runtime.primitives.system import SystemClock
from awaken.stores.sqlite import SqliteStore
from awaken.testing import Turn

from .test_models import serving

APP = """
from awaken import Agent, tool, workflow
from awaken.extensions.permission import PermissionPlugin
from awaken.testing import ScriptedModel, ToolCalls


@tool
async def delete_file(name: str) -> str:
    "Delete a file."
    return "deleted"


def answer(request):
    is_first = request.messages[-1].role == "user"
    return ToolCalls([("delete_file", {"name": "a"})]) if is_first else "Done."


assistant = Agent(
    "assistant", model=ScriptedModel([answer], cycle=True), tools=[delete_file],
    plugins=[PermissionPlugin()], config={"permission": {"default_behavior": "ask"}},
)


@workflow
async def refund(ctx):
    "Wait for a payment."
    await ctx.wait_for("payment", dict)
"""
LOGIN_APP = """
from awaken import Agent
from awaken.extensions.mcp import Http, Login, McpPlugin, McpServer

login = Login(file={file!r}, redirect={redirect!r})
vault = McpServer(
    name="vault", transport=Http(url={url!r}, oauth=login, allow_private=True), protocol="legacy"
)
agent = Agent("a", model="scripted", plugins=[McpPlugin([vault])])
"""
DOCUMENT = "agents:\n- id: support\n  model_id: scripted\n  system_prompt: {}\n"
RULES = "rules:\n- tool: delete_file\n  behavior: ask\n"
SECRET_KEYS = "one:MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
WAIT_S = 60
PROCESSES = {"serve": "Ready: ", "worker": "Ready: ", "acp": "", "mcp": ""}
"""Commands that go on until a signal or the end of their input, and their first words."""


def list_commands(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    children = getattr(command, "commands", None)
    if children is None:
        yield path, command
        return
    for name in children:
        yield from list_commands(f"{path} {name}".strip(), children[name])


COMMANDS = dict(list_commands("", typer.main.get_group(app)))


def test_every_command_shows_its_example_and_no_example_is_left_over() -> None:
    assert set(EXAMPLES) == set(COMMANDS)
    for path, example in EXAMPLES.items():
        shown = CliRunner().invoke(app, [*path.split(), "--help"], terminal_width=200)
        assert f"Example:\n  {example}" in shown.stdout.replace("    ", "  "), path


FIXTURE = '{"id": "hello", "user_input": "Hello", "expect": {"final_answer_contains": ["Hi"]}}'
SCRIPTED = f'{FIXTURE[:-1]}, "provider_script": [{{"text": "Hi there"}}]}}'
TESTS = "tests: [{vars: {q: Hello?}, assert: [{type: contains, value: Hi}]}]"


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all that the examples name."""
    folder = tmp_path_factory.mktemp("examples")
    (folder / "agent.py").write_text(APP)
    (folder / "config").mkdir()
    for name in ("old", "new"):
        (folder / f"{name}.yaml").write_text(RULES)
    (folder / "key.txt").write_text("sk-of-a-test\n")
    (folder / "handbook.md").write_text("# Handbook\n\nParental leave is paid.\n")
    (folder / "fixtures").mkdir()
    (folder / "fixtures" / "hello.json").write_text(FIXTURE)
    (folder / "scripted").mkdir()
    (folder / "scripted" / "hello.json").write_text(SCRIPTED)
    (folder / "promptfooconfig.yaml").write_text(TESTS)
    asyncio.run(fill_store(folder))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("AWAKEN_SECRET_KEYS", SECRET_KEYS)
        for prompt in ("Help.", "Be kind."):
            (folder / "config" / "agents.yaml").write_text(DOCUMENT.format(prompt))
            done = CliRunner().invoke(app, ["config", "apply", "config", "--yes"])
            assert done.exit_code == 0, done.stderr
        done = CliRunner().invoke(
            app, ["config", "secrets", "set", "providers/openai/api_key"], input="x"
        )
        assert done.exit_code == 0, done.stderr
    return folder


async def fill_store(folder: Path) -> None:
    agents = load_app(str(folder / "agent.py")).agents
    url = f"sqlite:///{folder / 'awaken.db'}"
    async with AgentRuntime(agents, store=url, has_worker=False) as runtime:
        await runtime.run("refund", {}, thread_id="refunds", run_id_hint="refund-1")
        await runtime.run("assistant", "Go.", thread_id="invoices", run_id_hint="run-1")
        await runtime.schedules.create("assistant", "Go.", cron="0 8 * * *", schedule_id="daily")
        hook = {"scheme": "github", "secrets": ["env:HOOK"], "target": {"agent_id": "assistant"}}
        await runtime.triggers.create(hook, trigger_id="orders")
        await runtime.memory.remember(user_memory(None, "ann"), ["Likes coffee"], FactSource())
        handbook = knowledge_collection(None, "handbook")
        await runtime.knowledge.ingest(handbook, DocumentDraft(data="Parental leave.", id="doc-1"))
    store = SqliteStore(folder / "awaken.db")
    await store.open()
    cases = read_folder(folder / "fixtures").document
    evals = store.open_evals()
    await Datasets(evals, SystemClock()).create("greetings", cases)
    variant = Variant(name="default", agent_id="assistant")
    spec = EvalSpec(dataset_id="greetings", variants=(variant,))
    await evals.create_eval(
        EvalRecord(eval_id="eval-1", spec=spec, revision=1, status=EvalStatus.DONE, planned=1)
    )
    item = {"number": 0, "case_id": "hello", "variant": "default", "sample": 0, "run_id": "run-1"}
    await evals.put_eval_item("eval-1", EvalItem(**item, status=ItemStatus.SCORED))
    for name in ("dead-1", "queued-1"):
        request = RunRequest(agent_id="assistant", thread_id="later", messages=(user("Go."),))
        await store.enqueue(
            RunDispatch(dispatch_id=name, thread_id="later", run_id=f"r-{name}", request=request)
        )
        if name == "dead-1":
            (claimed,) = await store.claim("w", "token", 1000)
            assert claimed.claim_token is not None
            dead = Release(status=DispatchStatus.DEAD_LETTER, error="gone")
            await store.release(name, claimed.claim_token, dead)
    await store.close()


@pytest.fixture
def shop(prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "shop"
    shutil.copytree(prepared, folder)
    monkeypatch.chdir(folder)
    for name in ("AWAKEN_STORE", "AWAKEN_STORAGE_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWAKEN_SECRET_KEYS", SECRET_KEYS)
    monkeypatch.setenv("AWAKEN_HTTP_ADDR", "127.0.0.1:0")
    return folder


def words_of(path: str) -> list[str]:
    """The words of an example after `awaken`, with ids for the words in capitals."""
    ids = {"RUN": "run-1", "DISPATCH": "queued-1", "DEAD_LETTER": "dead-1", "DOCUMENT": "doc-1"}
    ids |= {"WORKFLOW_RUN": "refund-1", "EVAL": "eval-1"}
    if "FACT" in EXAMPLES[path]:
        listed = CliRunner().invoke(app, ["memory", "list", "--user", "ann", "--json"])
        ids["FACT"] = json.loads(listed.stdout)["items"][0]["id"]
    if "TICKET" in EXAMPLES[path]:
        listed = CliRunner().invoke(app, ["tickets", "list", "--json"])
        found = {it["run_id"]: it["ticket_id"] for it in json.loads(listed.stdout)["items"]}
        ids["TICKET"] = found["run-1"]
    program, *words = shlex.split(EXAMPLES[path])
    assert program == "awaken"
    # A port that is free on every machine.
    return [ids.get(word, "0" if word == "8000" else word) for word in words]


BEFORE = {
    "config switch release": "config switch pause",
    "eval compare": "eval run",
    "eval check": "eval replay",
}
"""What an example needs to have happened."""
EXITS = {"eval score": 1, "memory reindex": 1}
"""The run that is scored asks a person and has no answer yet, so its gate fails; and the app has no
embedding model."""
APART = (*PROCESSES, "completion", "mcp-login", "models test")


@pytest.mark.parametrize("path", [path for path in EXAMPLES if path not in APART])
def test_the_example_runs(path: str, shop: Path) -> None:
    if path in BEFORE:
        assert CliRunner().invoke(app, words_of(BEFORE[path])).exit_code == 0
    # The example's agent needs a decision, and there is no terminal here.
    words, typed = [*words_of(path), *(["--approve", "all"] if path == "run" else [])], ""
    if "<" in words:
        typed = Path(words.pop()).read_text()
        assert words.pop() == "<"
    done = CliRunner().invoke(app, words, input=typed)
    assert done.exit_code == EXITS.get(path, 0), (done.stdout, done.stderr, done.exception)


@pytest.mark.parametrize("path", PROCESSES)
def test_the_example_serves_until_it_is_stopped(path: str, shop: Path) -> None:
    process = ForkedPython(
        *("-m", "awaken", *words_of(path)),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    with process:
        assert process.stdout is not None
        if PROCESSES[path]:
            assert process.stdout.readline().startswith(PROCESSES[path])
            process.send_signal(signal.SIGTERM)
        # The end of the input ends the others.
        _, complaints = process.communicate(timeout=WAIT_S)
    assert process.returncode == 0, complaints


def test_the_example_asks_a_model(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving([Turn(text="ready", calls=[("report", {"number": 7})])]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "sk-of-a-test")
        done = CliRunner().invoke(app, words_of("models test"))
    assert done.exit_code == 0, done.stderr


def test_the_example_completes_in_a_shell(shop: Path, tmp_path: Path) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash")
    program = tmp_path / "awaken"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m awaken "$@"\n')
    program.chmod(0o755)
    script = (
        f"{EXAMPLES['completion']}\n"
        "COMP_WORDS=(awaken dead); COMP_CWORD=1; _awaken_completion awaken\n"
        'echo "${COMPREPLY[@]}"\n'
        "COMP_WORDS=(awaken runs list --st); COMP_CWORD=3; _awaken_completion awaken\n"
        'echo "${COMPREPLY[@]}"\n'
    )
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [bash, "--norc", "-c", script], env={**os.environ, "PATH": path},
        capture_output=True, text=True, timeout=WAIT_S, check=False,
    )  # fmt: skip
    assert done.stdout.split("\n")[:2] == ["dead-letters", "--status --store"], done.stderr


@contextmanager
def authority() -> Iterator[str]:
    """A server that wants a login, in a thread of its own; yields its address."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    serving = Authority().serving()
    try:
        yield asyncio.run_coroutine_threadsafe(serving.__aenter__(), loop).result(WAIT_S)
    finally:
        asyncio.run_coroutine_threadsafe(serving.__aexit__(None, None, None), loop).result(WAIT_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(WAIT_S)
        loop.close()


def test_the_example_logs_in(shop: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        redirect = f"http://127.0.0.1:{free.getsockname()[1]}/back"
    with authority() as url:
        file = str(shop / "login.json")
        (shop / "agent.py").write_text(LOGIN_APP.format(file=file, redirect=redirect, url=url))
        command = ("-m", "awaken", *words_of("mcp-login"))
        with ForkedPython(*command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            address = next(it.strip() for it in process.stdout if "http" in it)
            with urllib.request.urlopen(address, timeout=WAIT_S) as page:
                assert page.status == 200
            assert process.wait(WAIT_S) == 0
