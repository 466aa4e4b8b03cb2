"""Bugs that are planted in replays and evals: each of them is found by the test that is for it."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
import pytest

from awaken.contracts.evals.eval_runs import EvalMode
from awaken.contracts.evals.worlds import ReplayDivergence
from awaken.contracts.messages.message import Message, ToolCall
from awaken.contracts.tools.tool import ToolDescriptor, ToolEffect
from awaken.evals import divergences
from awaken.evals.recorded_tools import CallAnswer, CallPlan
from awaken.evals.worlds import RunWorld
from awaken.runtime.context.digests import MessageDigest
from awaken.stores.memory import state_history

from . import test_eval_effects, test_evals, test_replay_properties

Plant = Callable[[pytest.MonkeyPatch], None]


def take_the_last_of_equal_calls(patch: pytest.MonkeyPatch) -> None:
    real = CallPlan._take

    def take(plan: CallPlan, places: Sequence[int], call: ToolCall) -> CallAnswer:
        return real(plan, [*reversed(places)], call)

    patch.setattr(CallPlan, "_take", take)


def digest_ids(patch: pytest.MonkeyPatch) -> None:
    real = MessageDigest.add

    def add(digest: MessageDigest, messages: Iterable[Message]) -> str:
        kept = list(messages)
        made = real(digest, kept)
        for it in kept:
            digest.hash.update((it.id or "").encode())
        return digest.hash.hexdigest() if kept else made

    patch.setattr(MessageDigest, "add", add)


def fold_one_commit_late(patch: pytest.MonkeyPatch) -> None:
    real = state_history.fold_state

    def fold(tables: Any, run_id: str, seq: int) -> Any:
        thread = tables.threads[tables.runs[run_id].thread_id]
        later = [it.event_seq for it in thread.state_notes if it.event_seq > seq]
        return real(tables, run_id, min(later, default=seq))

    patch.setattr(state_history, "fold_state", fold)


def call_live_on_a_miss(patch: pytest.MonkeyPatch) -> None:
    real = RunWorld.may_execute

    def may_execute(world: RunWorld, descriptor: ToolDescriptor, *, is_miss: bool) -> bool:
        return is_miss or real(world, descriptor, is_miss=is_miss)

    patch.setattr(RunWorld, "may_execute", may_execute)


def forget_the_effects(patch: pytest.MonkeyPatch) -> None:
    real = RunWorld.may_execute

    def may_execute(world: RunWorld, descriptor: ToolDescriptor, *, is_miss: bool) -> bool:
        harmless = msgspec.structs.replace(descriptor, effect=ToolEffect.NONE)
        return real(world, harmless, is_miss=is_miss)

    patch.setattr(RunWorld, "may_execute", may_execute)


def tell_one_step_late(patch: pytest.MonkeyPatch) -> None:
    real = divergences._differ

    def differ(n: int, *about: Any) -> ReplayDivergence:
        return real(n + 1, *about)

    patch.setattr(divergences, "_differ", differ)


BUGS: list[tuple[Plant, Callable[[], None]]] = [
    (
        take_the_last_of_equal_calls,
        test_replay_properties.test_generated_runs_verify_equal_without_executing_anything,
    ),
    (
        digest_ids,
        test_replay_properties.test_generated_runs_verify_equal_without_executing_anything,
    ),
    (
        fold_one_commit_late,
        test_replay_properties.test_a_fork_at_any_point_has_what_the_run_had_there,
    ),
    (
        call_live_on_a_miss,
        test_evals.test_a_call_without_an_answer_is_a_divergence_or_an_error_but_never_an_effect,
    ),
    (
        forget_the_effects,
        lambda: test_eval_effects.test_no_tool_with_effects_is_executed_in_any_mode_by_any_policy(
            EvalMode.SCRIPTED
        ),
    ),
    (
        tell_one_step_late,
        test_replay_properties.test_one_result_that_differs_is_found_at_exactly_its_place,
    ),
]


@pytest.mark.parametrize(("plant", "find"), BUGS, ids=[it[0].__name__ for it in BUGS])
def test_a_planted_bug_is_found(
    plant: Plant, find: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        find()
