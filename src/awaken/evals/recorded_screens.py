"""Answers that a guardrail held back in the recorded run.

The recording has what the guardrail made of the answer: a mark, a refusal in place of arguments, or
a call that asks for a review. The answer itself is gone, so that it cannot be screened again. What
the guardrail did then is done once more. Answers that it let pass are screened as any other.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from awaken.contracts.evals.recordings import RecordedStep, Recording
from awaken.contracts.evals.worlds import ModelSource, World
from awaken.contracts.models.inference import StreamResult
from awaken.contracts.plugins.screens import GUARDRAIL_HOLDS, AnswerScreen, Screened
from awaken.contracts.state.keys import StateCommand, StateKey, StoredValue
from awaken.contracts.suspension.permissions import ASKING_TOOLS
from awaken.runtime.run import Run

WITHHELD = "guardrails.withheld"
"""The state that has an answer until its review: by the id of the call that asks for it."""
Screens = Sequence[tuple[str, AnswerScreen]]


class ScreenedRun(Protocol):
    """A run in a world, as far as its guardrails depend on it."""

    world: World
    recording: Recording | None

    @property
    def step(self) -> int:
        """The number of its step, 1-based."""
        ...

    @property
    def run(self) -> Run:
        """The run."""
        ...


def keep_screened(screens: Screens, run: ScreenedRun) -> list[tuple[str, AnswerScreen]]:
    """Return the screens of an agent's answers, in which guardrails repeat what they did."""
    plugin = GUARDRAIL_HOLDS.name.partition(".")[0]
    return [(name, _repeat(it, run) if name == plugin else it) for name, it in screens]


def _repeat(screen: AnswerScreen, run: ScreenedRun) -> AnswerScreen:
    def screen_recorded(context: Any, answer: StreamResult) -> Screened:
        done = _find_screened(run)
        return screen(context, answer) if done is None else Screened(answer=answer, command=done)

    return screen_recorded


def _find_screened(run: ScreenedRun) -> StateCommand | None:
    """Return what guardrails did to the state with the recorded answer of the current step.

    None if they let it pass, or if the answer is not the recorded one.
    """
    world, recording, place = run.world, run.recording, run.step - 1
    is_recorded = world.models is ModelSource.RECORDED or (
        world.models is ModelSource.LIVE and run.step < world.from_step
    )
    if recording is None or not is_recorded or place >= len(recording.steps):
        return None
    withheld = run.run.state.find_key(WITHHELD)
    return build_screened(recording, recording.steps[place], withheld)


def build_screened(
    recording: Recording, step: RecordedStep, withheld: StateKey[Any, Any] | None
) -> StateCommand | None:
    """Return what guardrails did to the state with the answer of a step; None if they let it pass.

    `withheld` is the key of the answers that wait for a review.
    """
    before = recording.state.run.get(GUARDRAIL_HOLDS.name)
    for it in recording.steps[: step.n - 1]:
        before = it.state.get(GUARDRAIL_HOLDS.name, before)
    after = step.state.get(GUARDRAIL_HOLDS.name, before)
    held = _read_holds(after)[len(_read_holds(before)) :]
    answer = step.answer
    reviews = [
        it
        for it in (answer.tool_calls or () if answer is not None else ())
        if it.name in ASKING_TOOLS and (it.arguments or {}).get("place") == "output"
    ]
    if not held and not reviews:
        return None
    command = StateCommand()
    for reason in held:
        command = command.update(GUARDRAIL_HOLDS, reason)
    kept = step.state.get(WITHHELD)
    answers = {} if kept is None else msgspec.json.decode(kept.data)
    if withheld is not None:
        for call in reviews:
            # One that was refused is gone; nothing shows it any more.
            waiting = {**answers.get(call.id, {}), "is_released": False}
            command = command.update(withheld, withheld.decode_update([call.id, waiting]))
    return command


def _read_holds(stored: StoredValue | None) -> tuple[str, ...]:
    return () if stored is None else GUARDRAIL_HOLDS.decode(stored)
