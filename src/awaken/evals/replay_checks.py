"""What a replay may be asked for, and whether it tried that: nothing tried is never the same."""

from collections.abc import Iterator, Sequence

from awaken.contracts.errors import StorageError
from awaken.contracts.evals.errors import CannotReplay
from awaken.contracts.evals.recordings import Recording
from awaken.contracts.evals.replays import ReplayMode, ReplaySpec
from awaken.contracts.evals.worlds import DivergenceKind, ReplayDivergence, ToolSource
from awaken.contracts.lifecycle import Failed
from awaken.contracts.runs.records import RunKind

from .divergences import is_purged
from .pins import has_changes
from .provider_failures import PROVIDER_CODES
from .side_questions import SIDE_QUESTION
from .worlds import OneWorld

_LIVE = (ReplayMode.WHAT_IF, ReplayMode.SIMULATE)
_STORE_ERRORS: tuple[type[StorageError], ...] = (StorageError, *StorageError.__subclasses__())
_STORE_CODES = frozenset(it.code for it in _STORE_ERRORS)
"""Codes of runs whose store refused a write."""


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


def list_uncompared(
    recording: Recording, spec: ReplaySpec, live_publication: int | None, *, is_managed: bool
) -> Iterator[str]:
    """Yield what a replay could not compare: parts that are missing, and a configuration that is.

    `live_publication` is the one that runs without one take in this process, if it has any.
    """
    yield from recording.incomplete
    # The log has the digest with the end of an answer. The journal of a workflow has its own ones.
    whole = [it for it in recording.steps if it.answer is not None and not it.is_cut]
    lacking = [str(it.n) for it in whole if it.digest is None]
    if lacking and not (is_purged(recording) or recording.run.is_workflow):
        yield f"the requests of steps {', '.join(lacking)}: the recording has no digests of them"
    if spec.variant is not None and spec.variant.publication is not None:
        return
    began_on = recording.config.publication
    if began_on is not None and not is_managed:
        yield f"publication {began_on}: this process has no managed configuration, only its code"
    elif began_on is None and live_publication is not None:
        yield (
            "the configuration: the run began before the first publication, "
            f"and the replay runs on publication {live_publication}"
        )


def check_proven(recording: Recording, spec: ReplaySpec, found: Sequence[ReplayDivergence]) -> None:
    """Refuse to call a verified run diverged if the difference may not come from what was asked.

    Raises:
        CannotReplay: Retention has removed the log of the run, or its store refused a write, and
            something differs.
    """
    if spec.mode is not ReplayMode.VERIFY or not found:
        return
    first, problem, ended = found[0], None, recording.run.termination
    if is_purged(recording):
        problem = (
            f"it was purged: its log is gone, so the difference in step {first.step} "
            f"({first.path}) may come from that; capture runs as cases before retention removes "
            "their logs"
        )
    elif isinstance(ended, Failed) and ended.code in _STORE_CODES and _is_last(recording, first):
        problem = (
            f"its store refused a write ({ended.code}), and a replay has a store of its own; "
            "up to there it is the same"
        )
    if problem is not None:
        raise CannotReplay(run_id=recording.run.run_id, problem=problem)


def _is_last(recording: Recording, found: ReplayDivergence) -> bool:
    """Whether a difference is what a run lacks because it ended before: of its last step on."""
    last = max((it.n for it in recording.steps), default=0)
    if found.kind is DivergenceKind.END or found.step > last:
        return True
    return found.step == last and found.kind is not DivergenceKind.REQUEST


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
    if isinstance(ended, Failed) and SIDE_QUESTION in ended.message:
        problem = ended.message.rstrip(".")
    elif spec.mode is ReplayMode.MODEL_ONLY and is_same and not worlds.executed:
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
