"""What another version left behind goes on; what would not go on is named before it is tried."""

import asyncio
import gc
import importlib.util
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest
from tests.forked_python import run_python
from tests.older_schemas import list_removals
from typer.testing import CliRunner

from awaken import (
    Agent,
    AgentRuntime,
    InputMode,
    MailboxConfig,
    Message,
    NaturalEnd,
    Phase,
    Plugin,
    PluginRegistrar,
    RunRequest,
    RunStatus,
    StateCommand,
    StateKey,
    SuspendTicket,
    ToolContext,
    __version__,
    tool,
    user,
)
from awaken.bootstrap.registries import registry_set
from awaken.bootstrap.resumability import Resumability
from awaken.bootstrap.upgrade import UpgradeReport, check_upgrade
from awaken.cli.db import app as db_app
from awaken.cli.upgrade import app as upgrade_app
from awaken.errors import CorruptRecord, StoreUnavailable
from awaken.messages import MessageMetadata, Role, ToolCall
from awaken.plugins import (
    GLOBAL_SCOPE,
    PENDING_ACTIONS,
    QueuedAction,
    ScheduledActionSpec,
    Suspend,
    ToolGateContext,
)
from awaken.runtime.journal.bookmark import Bookmark, encode_bookmark
from awaken.runtime.resolution.snapshots import RegistrySnapshot
from awaken.stores import (
    Checkout,
    DispatchQuery,
    MemoryStore,
    RunQuery,
    RunRecord,
    SqliteStore,
    StoredValue,
    Thread,
    ThreadQuery,
    ToolRecord,
    ToolRecordStatus,
)
from awaken.testing import ScriptedModel, ToolCalls, assert_valid_events, assert_valid_transcript
from awaken.tools import ResumeMode, Ticket, ToolCallResume

GOLDEN = Path(__file__).parents[1] / "golden"
VERSIONS = sorted(path.parent.name for path in GOLDEN.glob("*/store.db"))
CONFIG = MailboxConfig(
    lease_ms=2_000, renew_ms=500, sweep_ms=50, poll_ms=20, retention_ms=None
)  # A golden store is older than anything is kept for.
PATIENCE_MS = 20_000


def golden_app(version: str) -> ModuleType:
    path = GOLDEN / version / "app.py"
    spec = importlib.util.spec_from_file_location(f"golden_{version}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def store_file(version: str, tmp_path: Path) -> Path:
    return Path(shutil.copy(GOLDEN / version / "store.db", tmp_path / "store.db"))


def test_this_version_has_a_golden_store() -> None:
    assert __version__ in VERSIONS


def test_everything_that_a_version_left_behind_is_resumed(version: str, store_file: Path) -> None:
    app = golden_app(version)

    async def scenario() -> None:
        runtime = AgentRuntime([app.agent], store=f"sqlite:///{store_file}", mailbox=CONFIG)
        async with runtime:
            finished = await runtime.get_run("run-finished")
            assert finished.final_output == "Done: visited Rome"
            queued = await runtime.wait("run-queued", timeout_ms=PATIENCE_MS)
            assert (queued.status, queued.text) == (RunStatus.DONE, "You said: hello")
            left = await runtime.wait("run-open", timeout_ms=PATIENCE_MS)
            assert left.status is RunStatus.DONE
            assert "may or may not have taken effect" in left.text
            (ticket,) = await runtime.tickets()
            await runtime.decide(ticket.ticket_id, result="yes")
            waited = await runtime.wait("run-waiting", timeout_ms=PATIENCE_MS)
            assert (waited.status, waited.text) == (RunStatus.DONE, "Done: they said yes")
            for thread_id in ("finished", "waiting", "queued", "open"):
                await judge(runtime, thread_id)

    asyncio.run(scenario())


def test_what_belonged_to_a_tenant_is_found_and_resumed_under_the_tenants_own_ids(
    version: str, store_file: Path
) -> None:
    """As schema 3 had it: threads with an owner, and ids that were unique in the whole store."""
    app = golden_app(version)
    asyncio.run(opened_once(store_file))
    with closing(sqlite3.connect(store_file)) as file, file:
        file.execute("UPDATE threads SET tenant_id = 'ann' WHERE id <> 'finished'")
        for removal in list_removals():
            file.execute(removal)
        file.execute("PRAGMA user_version = 3")

    async def scenario() -> None:
        runtime = AgentRuntime([app.agent], store=f"sqlite:///{store_file}", mailbox=CONFIG)
        async with runtime:
            ann, bob = runtime._services.view("ann"), runtime._services.view("bob")
            queued = await ann.wait("run-queued", PATIENCE_MS)
            assert (queued.thread_id, queued.text) == ("queued", "You said: hello")
            left = await ann.wait("run-open", PATIENCE_MS)
            assert "may or may not have taken effect" in left.text
            (ticket,) = await ann.tickets()
            assert (ticket.thread_id, ticket.run_id) == ("waiting", "run-waiting")
            yes = ToolCallResume(decision_id="", result="yes")
            await ann.decide(await ann.run("run-waiting"), {ticket.ticket_id: yes})
            waited = await ann.wait("run-waiting", PATIENCE_MS)
            assert (waited.status, waited.text) == (RunStatus.DONE, "Done: they said yes")
            assert {it.id for it in (await ann.threads(ThreadQuery())).items} == {
                "waiting", "queued", "open",
            }  # fmt: skip
            assert (await bob.threads(ThreadQuery())).items == ()
            assert (await runtime.get_run("run-finished")).thread_id == "finished"
            for thread_id in ("waiting", "queued", "open"):
                await judge(runtime, f"@ann:{thread_id}")
                for item in await ann.events(thread_id, 0, 1000):
                    assert b"@ann" not in msgspec.json.encode(item)
        assert (await SqliteStore(store_file).check()).problems == ()

    asyncio.run(scenario())
    with closing(sqlite3.connect(store_file)) as file:
        assert file.execute("PRAGMA user_version").fetchone() == (12,)


def test_branches_of_a_tenants_threads_are_found_under_their_new_ids(store_file: Path) -> None:
    async def branched() -> str:
        runtime = AgentRuntime([], store=f"sqlite:///{store_file}", has_worker=False)
        async with runtime:
            branch = await runtime.fork("finished")
            await runtime.view("local").set_newest_branch("finished", branch.id)
            return branch.id

    branch_id = asyncio.run(branched())
    with closing(sqlite3.connect(store_file)) as file, file:
        file.execute("UPDATE threads SET tenant_id = 'ann'")
        for removal in list_removals():
            file.execute(removal)
        file.execute("PRAGMA user_version = 3")

    async def scenario() -> None:
        runtime = AgentRuntime([], store=f"sqlite:///{store_file}", has_worker=False)
        async with runtime:
            branch = await runtime._services.view("ann").branch("finished")
            assert branch.id == branch_id
            assert branch.forked_from is not None
            assert branch.forked_from.thread_id == "finished"
            stored = await runtime.store.load_thread(f"@ann:{branch_id}")
            assert stored is not None
            assert stored.forked_from is not None
            assert stored.forked_from.thread_id == "@ann:finished"

    asyncio.run(scenario())


async def opened_once(store_file: Path) -> None:
    store = SqliteStore(store_file)
    await store.open()
    await store.close()


async def judge(runtime: AgentRuntime, thread_id: str) -> None:
    assert_valid_transcript(await runtime.messages(thread_id))
    events = await runtime.store.list_events(thread_id)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert_valid_events(events)


def test_a_call_that_was_over_before_the_crash_is_not_run_again(
    version: str, store_file: Path
) -> None:
    app = golden_app(version)

    async def scenario() -> None:
        runtime = AgentRuntime([app.agent], store=f"sqlite:///{store_file}", mailbox=CONFIG)
        async with runtime:
            await runtime.wait("run-open", timeout_ms=PATIENCE_MS)
            checkout = await runtime.store.checkout("open")
            assert checkout is not None
            assert app.VISITS.decode(checkout.state["visits"]) == 1
            results = [it.message for it in await runtime.messages("open")]
            told = [it.text for it in results if it.role is Role.TOOL]
            assert told[0] == "visited Oslo"

    asyncio.run(scenario())


def test_state_and_profile_entries_are_read_and_old_state_is_migrated(
    version: str, store_file: Path
) -> None:
    app = golden_app(version)
    visits: StateKey[dict[str, int], Any] = StateKey(
        "visits", default={}, scope="thread", migrations=[lambda count: {"count": count}]
    )

    async def scenario() -> None:
        store = SqliteStore(store_file)
        await store.open()
        checkout = await store.checkout("finished")
        assert checkout is not None
        assert app.VISITS.decode(checkout.state["visits"]) == 1
        assert visits.decode(checkout.state["visits"]) == {"count": 1}
        entry = await store.find_entry(GLOBAL_SCOPE, "favourite")
        assert entry is not None
        assert entry.value in ("Rome", "Oslo")
        await store.close()

    asyncio.run(scenario())


def test_the_golden_store_of_this_version_can_be_made_again(tmp_path: Path) -> None:
    made = tmp_path / "made.db"
    written = run_python(str(GOLDEN / "write_golden.py"), str(made))
    assert written.returncode == 0, written.stderr
    with closing(sqlite3.connect(made)) as file, file:
        # The process that wrote it was killed: it left its entry among the workers.
        file.execute("DELETE FROM profiles WHERE owner = 'system::workers'")
    kept = Path(shutil.copy(GOLDEN / __version__ / "store.db", tmp_path / "kept.db"))
    # Reading opens both, which brings what is kept to the schema of today.
    assert asyncio.run(told_by(made)) == asyncio.run(told_by(kept))
    assert schema_of(made) == schema_of(kept)


def test_a_store_from_before_threads_had_tenants_keeps_them_from_now_on(store_file: Path) -> None:
    app = golden_app("0.1.0")

    async def scenario() -> None:
        runtime = AgentRuntime([app.agent], store=f"sqlite:///{store_file}", has_worker=False)
        async with runtime:
            # What is there already is nobody's: an operator may go on with it, a tenant has
            # another one of that name.
            own = await runtime.run("traveller", "hello", thread_id="finished", tenant_id="ann")
            before = await runtime.run("traveller", "hello", thread_id="finished")
            assert (own.thread_id, before.thread_id) == ("@ann:finished", "finished")
            await runtime.run("traveller", "hello", thread_id="new", tenant_id="ann")
            listed = await runtime.store.list_threads(ThreadQuery(tenant_id="ann"))
            assert {thread.id for thread in listed.items} == {"@ann:new", "@ann:finished"}
            everything = (await runtime.store.list_threads(ThreadQuery())).items
            assert {thread.id for thread in everything if thread.tenant_id is None} == {
                "finished", "open", "queued", "waiting",
            }  # fmt: skip

    with closing(sqlite3.connect(store_file)) as file:
        assert file.execute("PRAGMA user_version").fetchone() == (1,)
    asyncio.run(scenario())
    with closing(sqlite3.connect(store_file)) as file:
        assert file.execute("PRAGMA user_version").fetchone() == (12,)


def test_a_file_of_an_older_schema_is_not_checked_but_named(store_file: Path) -> None:
    with pytest.raises(StoreUnavailable, match="its schema is 1, this version needs 12"):
        asyncio.run(SqliteStore(store_file).check())


def schema_of(path: Path) -> Any:
    """Tables, indexes and the number of rows in each table."""
    with closing(sqlite3.connect(path)) as file:
        parts = sorted(map(str, file.execute("SELECT type, name, sql FROM sqlite_master")))
        tables = file.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        counts = {
            name: file.execute(f"SELECT count(*) FROM {name}").fetchone() for (name,) in tables
        }
        return parts, counts, file.execute("PRAGMA user_version").fetchone()


async def told_by(path: Path) -> dict[str, Any]:
    """Everything that a store says, but for ids that nobody chose."""
    store = SqliteStore(path)
    await store.open()
    try:
        threads = (await store.list_threads(ThreadQuery())).items
        told = {thread.id: await told_of(store, thread.id) for thread in threads}
        dispatches = (await store.list_dispatches(DispatchQuery())).items
        told["dispatches"] = [(it.thread_id, it.run_id, it.status) for it in dispatches]
        told["profile"] = await store.list_entries(GLOBAL_SCOPE)
        return told
    finally:
        await store.close()


async def told_of(store: SqliteStore, thread_id: str) -> Any:
    checkout = await store.checkout(thread_id)
    assert checkout is not None
    runs = (await store.list_runs(RunQuery(thread_id=thread_id))).items
    journal = [it for run in runs for it in await store.list_tool_records(run.run_id)]
    return (
        [(it.role, it.text, it.tool_calls) for it in checkout.messages],
        [(it.run_id, it.status, it.termination, it.steps, it.final_output) for it in runs],
        [type(it.event) for it in await store.list_events(thread_id)],
        [(it.call_id, it.status, it.arguments) for it in checkout.tickets],
        {name: (it.version, bytes(it.data)) for name, it in checkout.state.items()},
        sorted(checkout.run_state),
        [(it.call_id, it.status, it.effect, it.updates) for it in journal],
    )


def test_a_golden_store_is_small_and_tells_nothing_of_a_machine(version: str) -> None:
    path = GOLDEN / version / "store.db"
    assert path.stat().st_size < 200_000
    assert sorted(it.name for it in path.parent.glob("store.db*")) == ["store.db"]


# What would not go on.


def checked(store: Any, agents: Any) -> UpgradeReport:
    return asyncio.run(check_upgrade(store, agents))


@tool
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


COUNT: StateKey[int, int] = StateKey("count", default=0, scope="thread")
LATER = ScheduledActionSpec[int]("later", Phase.STEP_START, int)


class Careful(Plugin):
    """Asks before every call, counts, and plans something for later."""

    name = "careful"

    def register(self, registrar: PluginRegistrar) -> None:
        registrar.key(COUNT)
        registrar.gate(self.gate)
        registrar.hook(Phase.RUN_START, self.count)
        registrar.action(LATER, self.later)

    async def gate(self, context: ToolGateContext) -> Suspend | None:
        return None if context.resume else Suspend(ticket=SuspendTicket())

    async def count(self, _context: Any) -> StateCommand:
        return StateCommand().update(COUNT, 7)

    async def later(self, _context: Any, _payload: int) -> StateCommand:
        return StateCommand()


def payer(*, tools: Any = (pay,), plugins: Any = (), agent_id: str = "payer") -> Agent:
    model = ScriptedModel([ToolCalls([("pay", {"amount": 3})]), "done"])
    return Agent(agent_id, model=model, tools=list(tools), plugins=list(plugins))


def parked(agent: Agent) -> MemoryStore:
    """A store with one run that waits for a decision."""
    store = MemoryStore()

    async def scenario() -> None:
        async with AgentRuntime([agent], store=store) as runtime:
            result = await runtime.run(agent.id, "pay", thread_id="t")
            assert result.status is RunStatus.WAITING

    asyncio.run(scenario())
    return store


def problems_of(store: Any, *agents: Agent) -> str:
    report = checked(store, agents)
    assert report.checked >= 1
    return "\n".join(problem for run in report.stranded for problem in run.problems)


def test_a_run_that_waits_goes_on_with_the_same_agents_whatever_their_model() -> None:
    store = parked(payer(plugins=[Careful()]))
    same = Agent("payer", model="no_such_provider:model", tools=[pay], plugins=[Careful()])
    report = checked(store, [same])
    assert (report.checked, report.is_safe) == (1, True)


def test_a_run_whose_agent_is_gone_is_named() -> None:
    store = parked(payer(plugins=[Careful()]))
    report = checked(store, [payer(agent_id="other", plugins=[Careful()])])
    (run,) = report.stranded
    assert (run.thread_id, run.agent_id, run.status) == ("t", "payer", "waiting")
    assert "'payer' is not registered" in run.problems[0]


def test_a_run_whose_tool_is_gone_is_named() -> None:
    store = parked(payer(plugins=[Careful()]))
    assert "Tool 'pay' of call" in problems_of(store, payer(tools=[], plugins=[Careful()]))


def test_a_run_whose_suspended_arguments_do_not_fit_any_more_is_named() -> None:
    @tool(id="pay")
    def pay_in(amount: int, currency: str) -> str:
        """Pay."""
        return f"{amount} {currency}"

    store = parked(payer(plugins=[Careful()]))
    found = problems_of(store, payer(tools=[pay_in], plugins=[Careful()]))
    assert "does not take the arguments" in found
    assert "currency" in found


def test_a_run_whose_gate_is_gone_is_named() -> None:
    store = parked(payer(plugins=[Careful()]))
    assert "Plugin 'careful', which asks for ticket" in problems_of(store, payer())


def test_a_run_that_waits_for_the_approval_of_its_tool_needs_no_plugin() -> None:
    approved = tool(id="pay", approval=True)(pay.__wrapped__)
    report = checked(parked(payer(tools=[approved])), [payer()])
    assert (report.checked, report.is_safe) == (1, True)


def test_state_whose_key_is_gone_is_named() -> None:
    def before() -> MemoryStore:
        gone: StateKey[int, int] = StateKey("gone", default=0, scope="thread")

        class Counting(Careful):
            def register(self, registrar: PluginRegistrar) -> None:
                registrar.key(gone)
                registrar.gate(self.gate)
                registrar.hook(Phase.RUN_START, self.count)

            async def count(self, _context: Any) -> StateCommand:
                return StateCommand().update(gone, 7)

        return parked(payer(plugins=[Counting()]))

    store = before()
    gc.collect()
    found = problems_of(store, payer(plugins=[Careful()]))
    assert found == "State 'gone' is kept, and no plugin declares it and no tool uses it any more."


USED: StateKey[int, int] = StateKey("used by a tool", default=0, scope="thread")


def test_state_that_only_tools_know_needs_no_declaration() -> None:
    """A tool may use a key that no plugin declares: unchanged code passes."""

    @tool
    async def count(ctx: ToolContext) -> SuspendTicket:
        ctx.state.set(USED, ctx.state.get(USED) + 1)
        return ctx.suspend("?")

    def counter() -> Agent:
        model = ScriptedModel([ToolCalls([("count", {})]), "done"])
        return Agent("payer", model=model, tools=[count])

    store = parked(counter())
    assert checked(store, [counter()]).is_safe
    call = ToolCall(id="c", name="count", arguments={})
    answer = Message(
        role=Role.ASSISTANT,
        tool_calls=(call,),
        metadata=MessageMetadata(run_id="r", step_index=0),
    )
    record = ToolRecord(
        run_id="r",
        call_id="c",
        step=1,
        tool_name="count",
        status=ToolRecordStatus.FINISHED,
        updates=((USED.name, "update", 1),),
    )
    assert in_the_middle(counter(), [record], messages=[answer]) == []
    misfit = StoredValue(version=1, data=msgspec.Raw(b'"text"'))
    (problem,) = in_the_middle(counter(), state={USED.name: misfit})
    assert "cannot decode" in problem


class Retyped(Careful):
    """The same plugin, whose key has another type or version."""

    def __init__(self, key: StateKey[Any, Any]) -> None:
        self._key = key

    def register(self, registrar: PluginRegistrar) -> None:
        registrar.key(self._key)


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        (StateKey("count", default="", type=str, scope="thread"), "cannot decode"),
        (StateKey("count", default={}, scope="thread", migrations=[len]), "cannot decode"),
    ],
    ids=["another type", "a migration that fails"],
)
def test_a_run_whose_state_cannot_be_read_is_named(key: Any, problem: str) -> None:
    store = parked(payer(plugins=[Careful()]))
    found = problems_of(store, payer(plugins=[Retyped(key)]))
    assert "'count'" in found
    assert problem in found


def test_state_of_a_newer_version_is_named() -> None:
    newer: StateKey[int, int] = StateKey(
        "count", default=0, scope="thread", migrations=[lambda count: count]
    )

    class Newer(Careful):
        def register(self, registrar: PluginRegistrar) -> None:
            registrar.key(newer)
            registrar.gate(self.gate)
            registrar.hook(Phase.RUN_START, self.count)

        async def count(self, _context: Any) -> StateCommand:
            return StateCommand().update(newer, 7)

    store = parked(payer(plugins=[Newer()]))
    found = problems_of(store, payer(plugins=[Careful()]))
    assert "stored by version 2, this is version 1" in found


def test_a_call_whose_decision_is_its_result_needs_no_tool() -> None:
    @tool(id="pay")
    def asks(ctx: ToolContext, amount: int) -> SuspendTicket:
        """Ask."""
        return ctx.suspend(f"{amount}?", mode=ResumeMode.USE_DECISION_AS_TOOL_RESULT)

    store = parked(payer(tools=[asks]))
    assert checked(store, [payer(tools=[])]).is_safe


def test_a_run_that_has_not_begun_needs_its_agent() -> None:
    async def scenario() -> UpgradeReport:
        store = MemoryStore()
        runtime = AgentRuntime([payer()], store=store)
        request = RunRequest(thread_id="t", agent_id="payer", messages=(user("hi"),))
        # Not through the runtime, whose worker would execute it.
        await runtime._node.mailbox.submit(request, mode=InputMode.QUEUE)
        assert (await check_upgrade(store, [payer()])).is_safe
        return await check_upgrade(store, [payer(agent_id="other")])

    (run,) = asyncio.run(scenario()).stranded
    assert (run.agent_id, run.status) == ("payer", "queued")


def test_every_page_is_looked_at() -> None:
    store = MemoryStore()
    count = 450

    async def scenario() -> None:
        agent = payer(plugins=[Careful()])
        for number in range(count):
            model = ScriptedModel([ToolCalls([("pay", {"amount": 3})])])
            agent = Agent("payer", model=model, tools=[pay], plugins=[Careful()])
            async with AgentRuntime([agent], store=store) as runtime:
                await runtime.run("payer", "pay", thread_id=f"t{number}")

    asyncio.run(scenario())
    report = checked(store, [payer(tools=[], plugins=[Careful()])])
    assert report.checked == count
    assert len({run.thread_id for run in report.stranded}) == count


def test_runs_that_ended_are_nobodys_concern() -> None:
    store = MemoryStore()

    async def scenario() -> None:
        async with AgentRuntime([payer()], store=store) as runtime:
            result = await runtime.run("payer", "pay", thread_id="t")
            assert isinstance(result.termination, NaturalEnd)

    asyncio.run(scenario())
    assert checked(store, []) == UpgradeReport(store="memory", checked=0)


APP = """
from awaken import Agent, Plugin, StateKey, tool

agent = Agent({agent_id!r}, model="some:model")
"""


def test_the_command_lists_what_would_not_go_on_and_exits_with_one(
    version: str, store_file: Path, tmp_path: Path
) -> None:
    good, bad = GOLDEN / version / "app.py", tmp_path / "bad_app.py"
    bad.write_text(APP.format(agent_id="someone"), "utf-8")
    url = f"sqlite:///{store_file}"
    early = CliRunner().invoke(upgrade_app, ["check", str(good), "--store", url])
    assert (early.exit_code, "run `awaken db migrate`" in early.output) == (1, True)
    assert CliRunner().invoke(db_app, ["migrate", "--store", url]).exit_code == 0
    fine = CliRunner().invoke(upgrade_app, ["check", str(good), "--store", url])
    assert (fine.exit_code, fine.output) == (
        0,
        "3 unfinished runs, every one of them would go on.\n",
    )
    told = CliRunner().invoke(upgrade_app, ["check", str(bad), "--store", url])
    assert told.exit_code == 1
    assert "3 of 3 unfinished runs would not go on." in told.output
    assert {"run-open", "run-waiting", "run-queued"} <= set(told.output.split())
    as_json = CliRunner().invoke(upgrade_app, ["check", str(bad), "--store", url, "--json"])
    report = msgspec.json.decode(as_json.stdout)
    assert (as_json.exit_code, report["checked"], len(report["stranded"])) == (1, 3, 3)


def test_a_crashed_run_needs_the_tools_of_its_open_calls(version: str, store_file: Path) -> None:
    app = golden_app(version)

    async def scenario() -> UpgradeReport:
        store = SqliteStore(store_file)
        await store.open()
        try:
            agent = Agent("traveller", model="a:b", tools=[app.ask], plugins=[app.Memory()])
            return await check_upgrade(store, [agent])
        finally:
            await store.close()

    (run,) = asyncio.run(scenario()).stranded
    # The call that was over needs no tool any more.
    assert (run.run_id, run.problems) == ("run-open", ("Tool 'pay' of call 'pay-1' is gone.",))


def test_a_store_of_a_newer_schema_is_refused_with_its_name(store_file: Path) -> None:
    with closing(sqlite3.connect(store_file)) as file, file:
        file.execute("PRAGMA user_version = 999")
        file.execute("INSERT INTO facts (name, value) VALUES ('readable_from', '999')")
    good = str(GOLDEN / __version__ / "app.py")
    told = CliRunner().invoke(upgrade_app, ["check", good, "--store", f"sqlite:///{store_file}"])
    assert told.exit_code == 1
    assert "999" in told.output


# What only a store in the middle of things has.


def in_the_middle(
    agent: Agent, records: Any = (), bookmark: StoredValue | None = None, **checkout: Any
) -> list[str]:
    run = RunRecord(
        run_id="r",
        thread_id="t",
        agent_id="payer",
        status=RunStatus.RUNNING,
        bookmark=bookmark,
    )
    given = Checkout(thread=Thread(id="t"), open_run=run, **checkout)
    snapshot = RegistrySnapshot(1, registry_set([agent], [], [], {}, {}))
    return Resumability(snapshot).problems("payer", given, records)


def test_a_suspended_call_is_judged_by_its_ticket_alone() -> None:
    call = ToolCall(id="c", name="pay", arguments={"amount": 1})
    asked = Ticket(
        ticket_id="k",
        thread_id="t",
        run_id="r",
        call_id="c",
        tool_name="pay",
        resume_mode=ResumeMode.USE_DECISION_AS_TOOL_RESULT,
    )
    answer = Message(role=Role.ASSISTANT, tool_calls=(call,))
    assert in_the_middle(payer(tools=[]), messages=[answer], tickets=(asked,)) == []


def test_an_action_that_nobody_handles_any_more_is_named() -> None:
    planned = StateCommand().schedule(LATER, 1).actions[0]
    stored = PENDING_ACTIONS.encode((QueuedAction(id="1", action=planned),))
    kept = {PENDING_ACTIONS.name: stored}
    assert in_the_middle(payer(plugins=[Careful()]), run_state=kept) == []
    (problem,) = in_the_middle(payer(), run_state=kept)
    assert problem == "Action 'later' is scheduled, and no plugin handles it any more."


def test_a_place_in_the_run_that_this_version_cannot_read_is_named() -> None:
    known = encode_bookmark(Bookmark(step=1))
    newer = msgspec.structs.replace(known, version=known.version + 1)
    assert in_the_middle(payer(), bookmark=known) == []
    (problem,) = in_the_middle(payer(), bookmark=newer)
    assert "has version 2" in problem


def test_updates_of_a_finished_call_need_their_key() -> None:
    call = ToolCall(id="c", name="pay", arguments={"amount": 1})
    answer = Message(
        role=Role.ASSISTANT,
        tool_calls=(call,),
        metadata=MessageMetadata(run_id="r", step_index=0),
    )
    record = ToolRecord(
        run_id="r",
        call_id="c",
        step=1,
        tool_name="pay",
        status=ToolRecordStatus.FINISHED,
        updates=(("count", "update", 1),),
    )
    unknown = msgspec.structs.replace(record, updates=(("nobody's", "update", 1),))
    careful = payer(tools=[], plugins=[Careful()])
    assert in_the_middle(careful, [record], messages=[answer]) == []
    (problem,) = in_the_middle(payer(tools=[]), [unknown], messages=[answer])
    assert problem == "Tool 'pay' changed state 'nobody's', which no plugin and no tool declares."
    of_another_step = msgspec.structs.replace(record, step=2)
    (problem,) = in_the_middle(careful, [of_another_step], messages=[answer])
    assert problem == "Tool 'pay' of call 'c' is gone."


def test_a_record_that_cannot_be_read_does_not_hide_the_others() -> None:
    class Damaged(MemoryStore):
        async def checkout(self, thread_id: str) -> Checkout | None:
            if thread_id == "t":
                raise CorruptRecord(what="Thread 't'", problem="its checksum is wrong")
            return await super().checkout(thread_id)

    store = Damaged()
    store._tables = parked(payer(plugins=[Careful()]))._tables
    (run,) = checked(store, [payer(plugins=[Careful()])]).stranded
    assert "Thread 't' cannot be decoded" in run.problems[0]
