"""A peer that lies, floods, stalls and breaks: every run there ends as it should, and in time.

The bounds that are waits are shortened, so that the tests are; none is lifted.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import aiohttp
import msgspec
import pytest
from tests.process_watch import bound_memory, list_open_files

from awaken import (
    Agent,
    AgentEvent,
    AgentRuntime,
    Cancelled,
    Failed,
    NaturalEnd,
    RemoteEndpoint,
    RunFinish,
    Stopped,
    Suspended,
)
from awaken.backends.a2a import (
    client,
)
from awaken.backends.a2a import (
    delivery as sending,
)
from awaken.backends.a2a import (
    remote_turns as errand,
)
from awaken.backends.a2a import (
    task_stop as stopping,
)
from awaken.backends.a2a import (
    task_watch as watching,
)
from awaken.messages import Role
from awaken.testing import ScriptedModel, ToolCalls

from .a2a_peers import task
from .hostile_a2a import (
    ELSEWHERE,
    HostilePeer,
    Reply,
    document,
    flooding,
    hang,
    head,
    missing,
    redirect,
    reset,
    result,
    then,
    turns_about,
    whole,
)
from .hostile_a2a_cases import SHORT, TOKEN, Case, cases, foreign

T = TypeVar("T")
THREAD = "thread-1"
CASES = {case.name + (" (JSON-RPC)" if case.rpc else ""): case for case in cases()}
DELEGATED = {name: case for name, case in CASES.items() if case.is_delegated}
ENDS_S = 50
"""Far more than any case needs: a run that hangs is what fails."""
GROWTH_MAX = 192 * 1024 * 1024
"""How much memory a peer may cost at a time, which answers with all that it can."""
SHORTER = {
    errand: {"CARRY_S": 0.1},
    stopping: {"STOP_S": 0.6, "FIRST_PAUSE_S": 0.01},
    sending: {"FIRST_PAUSE_S": 0.002, "PAUSE_MAX_S": 0.01},
    watching: {"FIRST_PAUSE_S": 0.01, "CONFIRM_S": 0.3, "CONFIRM_QUESTION_S": 0.3},
    client: {"CARD_S": 0.2, "CARD_PATIENCE_S": 0.1},
}


PATIENCE = 10
"""How much longer they are where the machine stops for longer than they are."""


@pytest.fixture(autouse=True)
def _shorter_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, values in SHORTER.items():
        for name, value in values.items():
            assert value < getattr(module, name) <= 60
    shorten(monkeypatch)


def shorten(patch: pytest.MonkeyPatch, patience: int = 1) -> None:
    for module, values in SHORTER.items():
        for name, value in values.items():
            patch.setattr(module, name, value * patience)


class Outcome:
    """How a run ended, and all that can be seen of it."""

    def __init__(self, events: list[AgentEvent], messages: list[Any]) -> None:
        self.events = events
        self.messages = messages
        finish = events[-1]
        assert isinstance(finish, RunFinish), finish
        self.termination = finish.termination

    @property
    def code(self) -> str:
        """The end in one word, with the text if it is an answer."""
        match self.termination:
            case NaturalEnd():
                return f"text:{self.messages[-1].text}"
            case Failed(code=code):
                return code
            case Stopped(reason=reason):
                return reason.code
            case Suspended():
                return "waiting"
            case Cancelled():
                return "cancelled"
        raise AssertionError(self.termination)

    @property
    def error(self) -> str:
        """What is told of a failure."""
        return self.termination.message if isinstance(self.termination, Failed) else ""

    def everything(self) -> str:
        """All that is seen of it, as one text."""
        return msgspec.json.encode([self.events, self.messages]).decode()


def agents(url: str, timeout_ms: int = 10_000, token: str | None = TOKEN) -> list[Agent]:
    """The agent at the peer, and one that delegates to it."""
    endpoint = RemoteEndpoint(
        base_url=url,
        auth={"type": "bearer", "token": token} if token else None,
        timeout_ms=timeout_ms,
        options={"poll_interval_ms": 10},
    )
    script = [ToolCalls([("agent_run_far", {"prompt": "hi"})]), "I know."]
    boss = Agent("boss", model=ScriptedModel(script), delegates=["far"])
    return [Agent("far", endpoint=endpoint), boss]


Act = Callable[[AgentRuntime, HostilePeer], Awaitable[T]]
Fits = Callable[[Case, Outcome, HostilePeer], bool]


def against(peer: HostilePeer, act: Act[T], **options: Any) -> T:
    """Act on a runtime that has an agent at the peer; nothing is left when this returns."""

    async def scenario() -> T:
        async with HostilePeer({}) as other, peer:
            peer.elsewhere = other.url
            async with asyncio.timeout(ENDS_S), AgentRuntime(agents(peer.url, **options)) as ours:
                done = await act(ours, peer)
            assert await peer.is_alone()
            assert other.asked == []
        if left := asyncio.all_tasks() - {asyncio.current_task()}:
            # The peer may have taken a connection that was closed at once.
            _, left = await asyncio.wait(left, timeout=20)
        assert not left
        return done

    with nothing_left(), bound_memory(GROWTH_MAX, 0.005):
        return asyncio.run(scenario())


def attacked(case: Case, agent_id: str, fits: Fits) -> tuple[Outcome, HostilePeer]:
    """Run an agent against a case; once more with longer waits if the machine was too slow."""
    for patience in (1, PATIENCE):
        patient, peer = case.patient(patience), HostilePeer(case.replies, case.rpc)
        with pytest.MonkeyPatch.context() as patch:
            shorten(patch, patience)
            act = partial(told, agent_id=agent_id)
            outcome = against(peer, act, timeout_ms=patient.timeout_ms)
        if fits(case, outcome, peer):
            break
    return outcome, peer


def fits_alone(case: Case, outcome: Outcome, peer: HostilePeer) -> bool:
    is_heard = case.heard is None or tuple(peer.operations()) == case.heard
    is_said = re.search(case.says, outcome.error) is not None
    return outcome.code.startswith(case.ends) and is_said and is_heard


def fits_its_caller(case: Case, outcome: Outcome, _: HostilePeer) -> bool:
    is_waiting = case.ends == "waiting"
    is_end = outcome.code == ("waiting" if is_waiting else "text:I know.")
    is_said = is_waiting or re.search(case.says, outcome.messages[2].text) is not None
    return is_end and is_said


async def told(
    runtime: AgentRuntime, _: HostilePeer, text: str = "hi", agent_id: str = "far"
) -> Outcome:
    """Run an agent in the one thread there is."""
    events = [it async for it in runtime.stream(agent_id, text, thread_id=THREAD)]
    return Outcome(events, [it.message for it in await runtime.messages(THREAD)])


@contextmanager
def nothing_left() -> Iterator[None]:
    """No file, no socket and no session is left of what happens here."""
    before, sessions = list_open_files(), []

    def made(session: aiohttp.ClientSession, *arguments: Any, **options: Any) -> None:
        sessions.append(session)
        make(session, *arguments, **options)

    make = aiohttp.ClientSession.__init__
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(aiohttp.ClientSession, "__init__", made)
        yield
    # What tests before this one left may go at any time.
    assert not list_open_files() - before
    assert all(it.closed for it in sessions)


@pytest.mark.parametrize("name", CASES)
def test_a_run_at_a_hostile_peer_ends_as_it_should(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    case = CASES[name]
    caplog.set_level("DEBUG")
    outcome, peer = attacked(case, "far", fits_alone)
    assert outcome.code.startswith(case.ends), (outcome.code, outcome.error)
    assert re.search(case.says, outcome.error), outcome.error
    assert len(outcome.error) < 20_000
    assert case.heard is None or tuple(peer.operations()) == case.heard
    check_secrets(outcome, peer, caplog.text)


def check_secrets(outcome: Outcome, peer: HostilePeer, logs: str) -> None:
    assert TOKEN not in outcome.everything()
    assert TOKEN[:12] not in outcome.error
    assert TOKEN not in logs
    assert "never retrieved" not in logs
    for asked in peer.asked:
        assert "cookie" not in asked.headers
        sent = None if asked.operation == "card" else f"Bearer {TOKEN}"
        assert asked.headers.get("authorization") == sent


@pytest.mark.parametrize("name", DELEGATED)
def test_a_delegate_at_a_hostile_peer_is_a_result_of_its_caller_and_nothing_more(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    case = DELEGATED[name]
    caplog.set_level("DEBUG")
    outcome, peer = attacked(case, "boss", fits_its_caller)
    assert outcome.code == ("waiting" if case.ends == "waiting" else "text:I know.")
    roles = [message.role for message in outcome.messages]
    whole = [Role.USER, Role.ASSISTANT, Role.TOOL, Role.ASSISTANT]
    assert roles == (whole[:2] if case.ends == "waiting" else whole)
    assert outcome.messages[0].text == "hi"
    if case.ends.startswith("text:"):
        assert case.ends.removeprefix("text:") in outcome.messages[2].text
    elif case.ends != "waiting":
        assert re.search(case.says, outcome.messages[2].text)
        assert "did not answer" in outcome.messages[2].text
    check_secrets(outcome, peer, caplog.text)


def test_there_are_behaviours_enough() -> None:
    assert len(CASES) >= 150
    assert len(DELEGATED) >= 20


STOPPED: dict[str, Reply] = {
    "takes it": result(task("CANCELED")),
    "refuses it": whole(b"no", 403),
    "cannot do it": whole(b"", 501),
    "says that it has ended": document(
        {"error": {"details": [{"reason": "TASK_NOT_CANCELABLE"}]}}, 409
    ),
    "never answers": hang,
    "breaks the connection": reset,
    "fails": whole(b"", 500),
    "redirects it": redirect(307, ELSEWHERE),
    "answers with another task": result(task("CANCELED", "t-2")),
    "answers with nothing": whole(b""),
    "goes on": result(task("WORKING")),
    "answers without an end": flooding(first=head(200, "text/plain"), again=b" " * 65536),
}


@pytest.mark.parametrize("name", STOPPED)
def test_a_cancelled_run_ends_whatever_the_peer_makes_of_it(name: str) -> None:
    async def act(runtime: AgentRuntime, peer: HostilePeer) -> None:
        handle = await runtime.start("far", "hi", thread_id=THREAD)
        await peer.heard("get")
        await runtime.cancel(handle.run_id)
        ended = await runtime.wait(handle.run_id)
        assert isinstance(ended.termination, Cancelled)

    patiently({"cancel": STOPPED[name]}, act, "cancel")


def patiently(replies: dict[str, Reply], act: Act[None], operation: str) -> HostilePeer:
    """Act until the peer is asked for something: with short waits, and with longer ones."""
    for patience in (1, PATIENCE):
        peer = HostilePeer(replies)
        with pytest.MonkeyPatch.context() as patch:
            shorten(patch, patience)
            against(peer, act)
        if operation in peer.operations():
            return peer
    raise AssertionError(f"it was never asked for {operation}")


def test_a_cancel_that_is_answered_with_another_task_was_not_heard(
    caplog: pytest.LogCaptureFixture,
) -> None:
    test_a_cancelled_run_ends_whatever_the_peer_makes_of_it("answers with another task")
    assert (
        "aborted yet: remote error: the answer is another task than the requested one"
        in caplog.text
    )


@pytest.mark.parametrize("listed", [foreign, whole(b"", 500), hang, missing])
def test_a_task_of_others_is_not_stopped_when_ours_is_not_known(listed: Reply) -> None:
    async def act(runtime: AgentRuntime, peer: HostilePeer) -> None:
        handle = await runtime.start("far", "hi", thread_id=THREAD)
        await peer.heard("send")
        await runtime.cancel(handle.run_id)
        ended = await runtime.wait(handle.run_id)
        assert isinstance(ended.termination, Cancelled)
        assert "cancel" not in peer.operations()

    patiently({"send": hang, "list": listed}, act, "list")


@pytest.mark.parametrize("state", ["INPUT_REQUIRED", "AUTH_REQUIRED"])
def test_a_task_that_asks_again_and_again_waits_again_and_again(state: str) -> None:
    async def act(runtime: AgentRuntime, peer: HostilePeer) -> None:
        for turn in range(1, 4):
            outcome = await told(runtime, peer, f"answer {turn}")
            assert outcome.code == "waiting"
            assert peer.operations() == ["send"] * turn
        assert "authorization" not in {name for it in peer.asked for name in it.headers}
        sent = [it.body["message"] for it in peer.asked if it.operation == "send"]
        assert [it.get("taskId") for it in sent] == [None, "t-1", "t-1"]
        assert [it["parts"] for it in sent][1:] == [[{"text": f"answer {it}"}] for it in (2, 3)]

    against(HostilePeer({"send": result({"task": task(state, text="more?")})}), act, token=None)


def test_an_answer_to_one_task_that_comes_from_another_is_malformed() -> None:
    async def act(runtime: AgentRuntime, peer: HostilePeer) -> None:
        assert (await told(runtime, peer)).code == "waiting"
        outcome = await told(runtime, peer, "the blue one")
        assert outcome.code == "remote_malformed"
        assert "another" in outcome.error

    asks = result({"task": task("INPUT_REQUIRED")})
    against(HostilePeer({"send": then(asks, result({"task": task("COMPLETED", "t-2")}))}), act)


def test_a_run_whose_time_is_over_stops_its_task() -> None:
    for patience in (1, PATIENCE):
        peer = HostilePeer({})
        assert against(peer, told, timeout_ms=SHORT * patience).code == "timeout"
        if peer.operations()[-1:] == ["cancel"]:
            return
    pytest.fail("its task was not stopped")


def test_a_run_that_fails_on_what_it_is_told_stops_its_task() -> None:
    peer = HostilePeer({"get": whole(b"oops")})
    assert against(peer, told).code == "remote_malformed"
    assert peer.operations()[-1] == "cancel"


def test_many_runs_at_a_hostile_peer_end_each_by_itself() -> None:
    async def act(runtime: AgentRuntime, _: HostilePeer) -> None:
        handles = [await runtime.start("far", "hi", thread_id=f"t-{it}") for it in range(50)]
        ends = [await runtime.wait(it.run_id) for it in handles]
        assert {type(it.termination) for it in ends} == {Failed}

    against(HostilePeer({"get": turns_about(reset, whole(b"oops"), whole(b"", 403))}), act)
