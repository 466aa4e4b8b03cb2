"""Replays of generated runs: all equal, a difference found where it is, forks at any point."""

import asyncio
import random
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from tests.sampling import choose_size, sampled

from awaken.bootstrap.replays import _make_store
from awaken.bootstrap.run_services import build_services
from awaken.contracts.evals.errors import CannotReplay
from awaken.contracts.evals.recordings import RecordedCall, Recording
from awaken.contracts.evals.worlds import DivergenceKind, ModelSource, World
from awaken.contracts.lifecycle import Stopped, tag_of
from awaken.contracts.storage.queries import RunQuery
from awaken.contracts.suspension.tickets import DecisionAction
from awaken.contracts.tool_results import ToolStatus
from awaken.evals.divergences import find_divergences, strip_message
from awaken.evals.forking import ForkAt, fork_at, list_points
from awaken.evals.recording import Recorder
from awaken.evals.recording_files import decode_recording, encode_recording
from awaken.evals.replaying import ReplayHost, Replays
from awaken.runtime.limits import Limits
from awaken.runtime.primitives.system import SystemClock, Uuid7Source
from awaken.stores.memory.profiles import MemoryProfileStore

from .generated_runs import LAST, SUM, TRAIL, Generated, play_generated, play_in_world

pytestmark = [sampled, pytest.mark.timeout(choose_size(180, 7_200))]


def build_generated_replays(generated: Generated) -> Replays:
    profile = MemoryProfileStore()
    clock, ids = SystemClock(), Uuid7Source()
    services = build_services({}, Limits(), clock, ids, profile, generated.store)
    host = ReplayHost(
        registry=generated.handle,
        services=services,
        make_store=_make_store,
        make_profile=MemoryProfileStore,
        version="test",
    )
    return Replays(host)


async def record_all(generated: Generated) -> list[Recording]:
    recorder = Recorder(generated.store, generated.handle, "test")
    return [await recorder.record(it.run_id) for it in generated.runs]


def test_generated_runs_verify_equal_without_executing_anything() -> None:
    seen: dict[str, int] = {}

    async def verify(generated: Generated) -> None:
        replays = build_generated_replays(generated)
        for recording in await record_all(generated):
            executed = len(generated.done.calls)
            # What is replayed is the document, not what made it.
            document = decode_recording(encode_recording(recording))
            assert document == recording
            result = await replays.replay(document)
            assert result.divergences == (), (generated.seed, result.divergences)
            assert result.is_same
            assert recording.incomplete == ()
            assert len(generated.done.calls) == executed, generated.seed
            digests = [it.digest for it in recording.steps]
            assert [it.digest for it in result.replayed.steps] == digests
            note_kinds(seen, recording, generated)

    for seed in range(choose_size(80, 2_000)):
        asyncio.run(verify(play_generated(seed)))
    # The runs have all that a run can have.
    wanted = {"parallel", "state", "ticket", "steering", "child", "handoff", "summary", "crash"}
    assert {name for name, count in seen.items() if count} >= wanted, seen


def test_generated_runs_with_guardrails_rules_and_limits_verify_equal() -> None:
    """What plugins and limits did to a run they do to it again."""
    ends: dict[str, int] = {}
    asked_by: set[str] = set()

    async def verify(generated: Generated) -> None:
        replays = build_generated_replays(generated)
        executed = len(generated.done.calls)
        for recording in await record_all(generated):
            result = await replays.replay(recording)
            assert result.is_same, (generated.seed, result.divergences)
            assert len(generated.done.calls) == executed, generated.seed
            end = recording.run.termination
            code = end.reason.code if isinstance(end, Stopped) else tag_of(end) if end else "waits"
            ends[code] = ends.get(code, 0) + 1
            calls = (call for step in recording.steps for call in step.calls)
            asked_by.update(it.question.asked_by for call in calls for it in call.decisions)

    for seed in range(40_000, 40_000 + choose_size(60, 700)):
        asyncio.run(verify(play_generated(seed, is_wide=True)))
    assert ends.keys() >= {"natural_end", "max_rounds", "budget_exceeded", "token_budget"}, ends
    assert asked_by >= {"permission", "__loop_actions", ""}, asked_by


def test_generated_runs_whose_log_was_purged_are_never_called_diverged() -> None:
    counts = {"same": 0, "cannot": 0}

    async def verify(generated: Generated) -> None:
        await generated.store.purge(1 << 50)
        replays = build_generated_replays(generated)
        recorder = Recorder(generated.store, generated.handle, "test")
        # Earlier runs of a thread are gone with their logs.
        for it in (await generated.store.list_runs(RunQuery())).items:
            recording = await recorder.record(it.run_id)
            assert recording.incomplete
            try:
                result = await replays.replay(recording)
            except CannotReplay as error:
                counts["cannot" if "purged" in str(error) else str(error)] += 1
            else:
                assert result.is_same, (generated.seed, result.divergences)
                counts["same"] += 1

    for seed in range(choose_size(120, 2_000)):
        asyncio.run(verify(play_generated(seed)))
    assert counts["cannot"] <= counts["same"] // 50, counts


def note_kinds(seen: dict[str, int], recording: Recording, generated: Generated) -> None:
    for step in recording.steps:
        found = {
            "parallel": len(step.calls) > 1,
            "state": any(not name.startswith("__") for name in step.state),
            "ticket": any(call.decisions for call in step.calls),
            "steering": bool(step.inputs),
            "child": bool(step.children),
            "handoff": any(call.tool == "transfer_to_agent" for call in step.calls),
            "summary": "__context_compaction" in step.state,
            "crash": bool(generated.crashes),
        }
        for name, is_there in found.items():
            seen[name] = seen.get(name, 0) + is_there


def list_flips(recording: Recording) -> Iterator[tuple[int, int, RecordedCall]]:
    for step in recording.steps:
        for place, call in enumerate(step.calls):
            is_final = call.result.status is ToolStatus.SUCCESS and call.result.message is not None
            given = call.decisions[-1].decision if call.decisions else None
            is_declined = given is not None and given.action is DecisionAction.CANCEL
            # The result of a declined call is the decision, which no tool gives.
            if call.has_run and is_final and not is_declined:
                yield step.n, place, call


def flip(recording: Recording, step: int, place: int) -> Recording:
    """Return a recording in which one result is another one."""
    steps = list(recording.steps)
    calls = list(steps[step - 1].calls)
    result = calls[place].result
    other = msgspec.structs.replace(result, message=f"{result.message}!")
    calls[place] = msgspec.structs.replace(calls[place], result=other)
    steps[step - 1] = msgspec.structs.replace(steps[step - 1], calls=tuple(calls))
    return msgspec.structs.replace(recording, steps=tuple(steps))


def test_one_result_that_differs_is_found_at_exactly_its_place() -> None:
    wanted, found, seed = choose_size(60, 1_000), 0, 10_000
    lasts = [0]

    async def find(generated: Generated) -> int:
        replays, count = build_generated_replays(generated), 0
        for recording in await record_all(generated):
            flips = list(list_flips(recording))
            if not flips:
                continue
            chance = random.Random(generated.seed)
            step, place, call = flips[-1] if chance.random() < 0.3 else chance.choice(flips)
            flipped = decode_recording(encode_recording(flip(recording, step, place)))
            result = await replays.replay(flipped)
            # The recording by itself says which of its results is not what the run had.
            shown = result.divergences[0]
            assert (shown.step, shown.kind) == (step, DivergenceKind.RESULT), generated.seed
            assert shown.path == f"/calls/{place}/result", generated.seed
            lasts[0] += step == len(recording.steps)
            first = find_divergences(recording, result.replayed)[0]
            assert (first.step, first.kind) == (step, DivergenceKind.RESULT), generated.seed
            assert first.path == f"/calls/{place}/result/message", generated.seed
            assert first.recorded == call.result.message
            assert first.replayed == f"{call.result.message}!"
            count += 1
        return count

    while found < wanted:
        found += asyncio.run(find(play_generated(seed, has_crashes=False)))
        seed += 1
    # Of the last round no later request tells.
    assert lasts[0], lasts


def test_a_fork_at_any_point_has_what_the_run_had_there() -> None:
    points, runs, seed, wanted = 0, 0, 20_000, choose_size(25, 500)

    async def fork(generated: Generated) -> tuple[int, int]:
        count = 0
        recordings = await record_all(generated)
        for record, recording in zip(generated.runs, recordings, strict=True):
            before = await generated.store.checkout(record.thread_id)
            assert before is not None
            for at in list(list_points(record, before.messages)):
                made = await fork_at(generated.store, SystemClock(), Uuid7Source(), record, at)
                branch = await generated.store.checkout(made.thread.id)
                assert branch is not None
                assert made.is_state_exact
                kept = before.messages[: len(branch.messages)]
                said = [strip_message(it) for it in branch.messages]
                assert said == [strip_message(it) for it in kept], (generated.seed, at)
                assert made.run.forked_from is not None
                assert made.run.forked_from.run_id == record.run_id
                check_messages(recording, at, branch.messages, len(recording.history))
                values = {**branch.state, **branch.run_state}
                shown = {
                    key.name: key.decode(values[key.name]) if key.name in values else key.default
                    for key in (TRAIL, SUM, LAST)
                }
                assert shown == expect_state(recording, at, kept), (generated.seed, at)
                assert not branch.tickets
                count += 1
            assert await generated.store.checkout(record.thread_id) == before
        return count, len(generated.runs)

    while runs < wanted:
        made, more = asyncio.run(fork(play_generated(seed)))
        points, runs, seed = points + made, runs + more, seed + 1
    assert points > runs


def check_messages(recording: Recording, at: ForkAt, messages: Any, history: int) -> None:
    """The branch ends at the point: no answer of a later step, and as many results as asked."""
    own = [it for it in messages[history:] if it.metadata and it.metadata.step_index is not None]
    answers = [it for it in own if it.role == "assistant"]
    steps = [it for it in recording.steps if it.answer is not None and it.answer.id is not None]
    before = [it for it in steps if it.n < at.step + (at.results is not None)]
    assert len(answers) == len(before)
    if at.results is not None:
        results = [it for it in own if it.role == "tool" and it.metadata.step_index == at.step - 1]
        assert len(results) == at.results


def expect_state(recording: Recording, at: ForkAt, kept: Any) -> dict[str, Any]:
    """What the tools' own code makes of the calls before the point, in the order of results."""
    start = {**recording.state.thread, **recording.state.run}
    values: dict[str, Any] = {
        key.name: key.decode(start[key.name]) if key.name in start else key.default
        for key in (TRAIL, SUM, LAST)
    }
    calls = {(step.n, call.id): call for step in recording.steps for call in step.calls}
    for message in kept[len(recording.history) :]:
        if message.role != "tool" or message.metadata is None:
            continue
        call = calls.get(((message.metadata.step_index or 0) + 1, message.tool_call_id))
        if call is None or call.result.status is not ToolStatus.SUCCESS or not call.has_run:
            continue
        if call.tool == "note":
            values[TRAIL.name] = [*values[TRAIL.name], call.arguments["text"]]
            values[LAST.name] = call.arguments["text"]
        elif call.tool == "tally":
            values[SUM.name] += call.arguments["n"]
    return values


def test_a_run_in_a_world_is_taken_over_by_another_process() -> None:
    """A world keeps no position: whoever goes on with the run finds the same answers."""
    taken_over = 0
    # The last one loses a call of a `once` tool.
    for seed in sorted({*range(30_000, 30_000 + choose_size(12, 200)), 30_037}):
        generated = play_generated(seed, has_crashes=False)
        recordings = asyncio.run(record_all(generated))
        recording = next(it for it in recordings if it.run.agent_id == "main" and not it.history)
        if any(call.decisions for step in recording.steps for call in step.calls):
            # Decisions are the driver's part; a world alone has none.
            continue
        executed = len(generated.done.calls)
        world = World(models=ModelSource.RECORDED, keep_going=True)
        again = play_in_world(generated, recording, world, seed)
        assert len(generated.done.calls) == executed, seed
        found = find_divergences(recording, again)
        assert [it for it in found if it.path != "/state/__context_compaction"] == [], (seed, found)
        taken_over += 1
    assert taken_over
