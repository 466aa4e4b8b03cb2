"""Over MCP and on the command line, too, nothing of one user or tenant is reached by another."""

import asyncio
import json
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from mcp import Client
from tests.sampling import choose_size, sampled
from tests.server.in_process import bearer, config, token
from tests.server.mcp_world import both_eras, connected
from tests.server.serving import serving
from typer.testing import CliRunner

from awaken import Access, Agent, AgentRuntime
from awaken.cli.main import app
from awaken.extensions.memory import MemoryPlugin, user_memory
from awaken.memory.terms import split_terms
from awaken.models import InferenceRequest
from awaken.stores import SqliteStore
from awaken.testing import ScriptedModel, ToolCalls

from .test_isolation import NAMES, TENANTS, TEXTS

USUAL = frozenset({Access.READ, Access.INVOKE, Access.DECIDE})
CALLERS = {"ann": "acme", "bob": "acme", "eve": "other", "free": None}
"""The callers and their tenants."""

callers = st.sampled_from(sorted(CALLERS))
calls_of_mcp = st.tuples(
    st.sampled_from(["remember", "remember", "recall", "forget", "read"]),
    callers,
    callers,
    st.sampled_from(TEXTS),
    st.integers(0, 40),
)
commands = st.tuples(
    st.sampled_from(["add", "add", "search", "list", "export", "edit", "forget", "forget_all"]),
    st.sampled_from(["--user", "--project"]),
    st.sampled_from(NAMES),
    st.sampled_from(TENANTS),
    st.tuples(st.sampled_from(TEXTS), st.integers(0, 40)),
)
OWNERS = [(kind, "ann", tenant) for kind in ("--user", "--project") for tenant in (None, "acme")]


def obey(request: InferenceRequest) -> str | ToolCalls:
    """A model that does whatever its user says: it calls the tool, and repeats what it got."""
    newest = request.messages[-1]
    if newest.role == "tool":
        return newest.text
    name, arguments = json.loads(
        next(it.text for it in request.messages[::-1] if it.role == "user")
    )
    return ToolCalls([(name, arguments)])


class McpModel:
    """What each caller has remembered: all that its own client may ever get."""

    def __init__(self, clients: dict[str, Client]) -> None:
        self.clients = clients
        self.kept: dict[str, dict[str, str]] = {who: {} for who in CALLERS}
        self.ids: list[str] = []

    async def call(self, who: str, tool: str, claimed: str, **arguments: Any) -> dict[str, Any]:
        """Let a caller's agent call a tool, in a run that claims to be another caller's.

        Returns what the tool answered: nothing if it refused.
        """
        names = {"user_id": claimed, "tenant_id": CALLERS[claimed], "user": {"id": claimed}}
        result = await self.clients[who].call_tool(
            "a", {"message": json.dumps([tool, arguments])}, meta={"context": names, **names}
        )
        (content,) = result.content
        assert not result.is_error, content
        try:
            answer: dict[str, Any] = json.loads(content.text)
        except ValueError:
            return {}
        return answer

    async def act(self, what: str, who: str, claimed: str, text: str, number: int) -> None:
        mine = self.kept[who]
        some_id = self.ids[number % len(self.ids)] if self.ids else "none"
        extra = {"user_id": claimed, "tenant_id": CALLERS[claimed]} if number % 4 == 0 else {}
        match what:
            case "remember":
                fact = await self.call(
                    who, "remember", claimed, fact=f"{who} {text} {number}", **extra
                )
                if fact:
                    mine[fact["id"]] = fact["remembered"]
                    self.ids.append(fact["id"])
                assert fact or extra
            case "recall":
                answer = await self.call(who, "recall", claimed, query=f"{text} tea", **extra)
                found = {it["id"]: it["text"] for it in answer.get("facts", ())}
                assert found.items() <= mine.items()
                has_one = any("tea" in split_terms(it) for it in mine.values())
                assert found or extra or not has_one
            case "forget":
                answer = await self.call(who, "forget", claimed, fact_id=some_id)
                assert ("forgotten" in answer) is (mine.pop(some_id, None) is not None)
            case "read":
                await self.read_everything(who)

    async def read_everything(self, who: str) -> None:
        """Whatever a client lists and reads was said in its own tenant; without one it sees all."""
        tenant, client = CALLERS[who], self.clients[who]
        others = [it for it, theirs in CALLERS.items() if tenant and theirs != tenant]
        for it in (await client.list_resources(cache_mode="bypass")).resources:
            whole = str(await client.read_resource(it.uri, cache_mode="bypass"))
            assert not [name for name in others if f'"{name} ' in whole]


@sampled
@both_eras
def test_over_mcp_a_caller_reaches_its_own_facts_only(era: str) -> None:
    """Whatever it lets its agent do, and whoever it claims to be in arguments and context."""
    size = choose_size(2, 25)
    accepted = config(*(token(who, USUAL, tenant_id=tenant) for who, tenant in CALLERS.items()))

    @settings(max_examples=size, deadline=None, phases=[Phase.generate])
    @given(st.lists(calls_of_mcp, min_size=8, max_size=20))
    def check(script: list[tuple[str, str, str, str, int]]) -> None:
        async def run() -> None:
            agent = Agent("a", model=ScriptedModel([obey], cycle=True), plugins=[MemoryPlugin()])
            runtime = AgentRuntime([agent])
            async with AsyncExitStack() as stack:
                url = await stack.enter_async_context(serving(runtime, accepted))
                clients = {
                    who: await stack.enter_async_context(connected(url, era, headers=bearer(who)))
                    for who in CALLERS
                }
                model = McpModel(clients)
                # Whatever is drawn: each has something that the others ask for and would remove.
                for number, who in enumerate(CALLERS):
                    await model.act("remember", who, "bob", "likes tea", 4 * number + 1)
                for who in CALLERS:
                    await model.act("recall", who, "ann", "likes tea", 1)
                    await model.act("forget", who, "bob", "", len(model.ids) - 1)
                    await model.act("read", who, "bob", "", 1)
                for act in script:
                    await model.act(*act)
                for who in CALLERS:
                    await model.act("recall", who, "ann", "tea", 1)
                    page = await runtime.memory.list_facts(user_memory(CALLERS[who], who))
                    assert {it.id: it.text for it in page.items} == model.kept[who]

        asyncio.run(run())

    check()


class CliModel:
    """What each owner has, by id: all that a command for it may ever print."""

    def __init__(self, store: str) -> None:
        self.store = store
        self.kept: dict[tuple[str, str, str | None], dict[str, str]] = {}
        self.ids: list[str] = []

    def call(self, *arguments: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, ["memory", *arguments, "--store", self.store, "--json"])
        assert isinstance(done.exception, SystemExit | None), done.exception
        return done.exit_code, done.stdout

    def act(
        self, what: str, kind: str, name: str, tenant: str | None, said: tuple[str, int]
    ) -> None:
        mine = self.kept.setdefault((kind, name, tenant), {})
        whose = (f"{kind}={name}", *([] if tenant is None else [f"--tenant={tenant}"]))
        text, number = said
        some_id = self.ids[number % len(self.ids)] if self.ids else "none"
        match what:
            case "add":
                code, out = self.call("add", *whose, f"{text} {number}")
                assert code == 0
                fact = json.loads(out)
                assert fact["id"] in mine or fact["id"] not in self.ids
                mine[fact["id"]] = fact["text"]
                self.ids.append(fact["id"])
            case "search":
                found = self.list_items("search", *whose, f"{text} tea")
                assert found.items() <= mine.items()
                assert found or not any("tea" in split_terms(it) for it in mine.values())
            case "list":
                assert self.list_items("list", *whose) == mine
                if some_id not in mine:
                    assert self.call("list", *whose, "--cursor", some_id)[0] != 0
            case "export":
                _, out = self.call("export", *whose)
                facts = [json.loads(line) for line in out.splitlines()]
                assert {it["id"]: it["text"] for it in facts} == mine
            case "edit":
                code, out = self.call("edit", *whose, some_id, f"edited {number} tea {some_id}")
                assert (code == 0) is (some_id in mine)
                if some_id in mine:
                    mine[some_id] = json.loads(out)["text"]
            case "forget":
                code, _ = self.call("forget", *whose, some_id)
                assert (code == 0) is (mine.pop(some_id, None) is not None)
            case "forget_all":
                _, out = self.call("forget", *whose, "--all")
                assert {it["id"] for it in json.loads(out)["facts"]} == mine.keys()
                mine.clear()

    def list_items(self, *arguments: str) -> dict[str, str]:
        code, out = self.call(*arguments)
        assert code == 0
        return {it["id"]: it["text"] for it in json.loads(out)["items"]}


async def create(path: Path) -> None:
    """Make an empty store, so that a script may begin with any command."""
    store = SqliteStore(path)
    await store.open()
    await store.close()


@sampled
def test_a_command_about_one_owner_reaches_the_facts_of_this_owner_only() -> None:
    @settings(max_examples=choose_size(3, 40), deadline=None, phases=[Phase.generate])
    @given(st.lists(commands, min_size=8, max_size=20))
    def check(script: list[tuple[str, str, str, str | None, tuple[str, int]]]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "a.db"
            asyncio.run(create(path))
            model = CliModel(f"sqlite:///{path}")
            # Whatever is drawn: each has something that the others list, edit and forget.
            for number, owner in enumerate(OWNERS):
                model.act("add", *owner, ("likes tea", number))
            for act in script:
                model.act(*act)
            for what in ("search", "list", "edit"):
                for owner in OWNERS:
                    model.act(what, *owner, ("likes", 0))
            for owner in list(model.kept):
                model.act("list", *owner, ("", 0))

    check()
