"""What a replay may be asked for, and whether it tried that: nothing tried is never the same."""

from collections.abc import Sequence

from awaken.contracts.evals.errors import CannotReplay
from awaken.contracts.evals.recordings import Recording
from awaken.contracts.evals.replays import ReplayMode, ReplaySpec
from awaken.contracts.evals.worlds import ReplayDivergence, ToolSource
from awaken.contracts.lifecycle import Failed
from awaken.contracts.runs.records import RunKind

from .divergences import is_purged
from .pins import has_changes
from .provider_failures import PROVIDER_CODES
from .worlds import OneWorld

_LIVE = (ReplayMode.WHAT_IF, ReplayMode.SIMULATE)


def find_mode_problem(recording: Recording, spec: ReplaySpec) -> str | None:
    """Return why a mode cannot do what else is asked for; None if it can."""
    if recording.run.kind is RunKind.FOLLOW_UP:
        return "it is what plugins did after another run, and has no step; replay that run instead"
    if spec.mode not in _LIVE:
        if spec.variant is not None:
            what = "a verification" if spec.mode is ReplayMode.VERIFY else f"'{spec.mode}'"
            return f"{what} changes nothing; use the mode what_if"
        if spec.from_step > 1:
            return (
                f"the mode {spec.mode} takes the answers of all steps from the recording; "
                "leave from_step out, or use the mode what_if"
            )
    if spec.mode is ReplayMode.VERIFY and spec.tools.sources != {ToolSource.RECORDED}:
        return (
            "a verification takes results from the recording, and its tools ask for others; "
            "use the mode model_only"
        )
    has_ended = recording.run.termination is not None
    if spec.mode in _LIVE and has_ended and spec.from_step > len(recording.steps):
        count = len(recording.steps)
        return f"it ended after {count} steps, so from step {spec.from_step} on nothing is asked"
    return None


def check_proven(recording: Recording, spec: ReplaySpec, found: Sequence[ReplayDivergence]) -> None:
    """Refuse to call a verified run diverged if the difference may come from what was purged.

    Raises:
        CannotReplay: Retention has removed the log of the run, and something differs.
    """
    if spec.mode is not ReplayMode.VERIFY or not found or not is_purged(recording):
        return
    first = found[0]
    problem = (
        f"it was purged: its log is gone, so the difference in step {first.step} ({first.path}) "
        "may come from that; capture runs as cases before retention removes their logs"
    )
    raise CannotReplay(run_id=recording.run.run_id, problem=problem)


def check_tried(
    recording: Recording,
    spec: ReplaySpec,
    replayed: Recording,
    worlds: OneWorld,
    *,
    is_same: bool,
) -> None:
    """Refuse a result that says nothing about what was to be tried.

    Raises:
        CannotReplay: A provider failed, or what is live in this mode was never asked.
    """
    problem, ended = None, replayed.run.termination
    if spec.mode is ReplayMode.MODEL_ONLY and is_same and not worlds.executed:
        problem = "no tool was executed: the run called none without effects"
    elif spec.mode in _LIVE:
        if worlds.asked and isinstance(ended, Failed) and ended.code in PROVIDER_CODES:
            message = ended.message.rstrip(".")
            problem = f"the model of step {len(replayed.steps)} could not be asked: {message}"
        else:
            problem = _find_untried(recording, spec, worlds, is_same=is_same)
    if problem is not None:
        raise CannotReplay(run_id=recording.run.run_id, problem=problem)


def _find_untried(
    recording: Recording, spec: ReplaySpec, worlds: OneWorld, *, is_same: bool
) -> str | None:
    """Return what was not tried; a run that parts before it gets there has shown something."""
    begin, variant = f"from step {spec.from_step} on", spec.variant
    if variant is not None:
        shown = {*worlds.shown, *(it.id for it in recording.run.frontend_tools)}
        if unknown := sorted(variant.tool_descriptions.keys() - shown):
            return f"no agent that spoke has a tool '{unknown[0]}', whose text should change"
    if not worlds.asked:
        ways = "begin at an earlier step, or give the decisions that it waits for"
        return f"no model was asked {begin}; {ways}" if is_same else None
    # Texts of tools and publications are for all agents.
    is_for_one = variant is not None and has_changes(variant) and not variant.tool_descriptions
    if variant is None or not is_for_one or variant.publication is not None:
        return None
    changed = variant.agent_id or recording.run.agent_id
    # The same agent may be named with or without its source.
    if changed.rpartition("/")[2] in {it.rpartition("/")[2] for it in worlds.asked}:
        return None
    others = ", ".join(f"'{it}'" for it in sorted(worlds.asked))
    return f"{begin} only {others} was asked, and the change is of '{changed}'"
