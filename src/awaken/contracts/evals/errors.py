"""Errors of recordings, datasets and evals; each says what to do."""

from awaken.contracts.errors import StorageError, UsageError
from awaken.contracts.models.errors import ModelError


class EvalError(UsageError):
    """Something asked of evals cannot be done."""

    code = "eval_error"


class EvalsUnavailable(EvalError):
    """The store has no place for datasets and evals."""

    code = "evals_unavailable"
    template = "Store '{store}' keeps no evals: it has no open_evals(); use one of awaken.stores."
    store: str


class UnknownDataset(EvalError):
    """There is no such dataset, or it belongs to another tenant."""

    code = "unknown_dataset"
    template = "There is no dataset '{dataset_id}'{detail}."
    dataset_id: str
    detail: str = ""


class UnknownCase(EvalError):
    """The dataset has no such case."""

    code = "unknown_case"
    template = "Dataset '{dataset_id}' has no case '{case_id}'."
    dataset_id: str
    case_id: str


class UnknownEval(EvalError):
    """There is no such eval, or it belongs to another tenant."""

    code = "unknown_eval"
    template = "There is no eval '{eval_id}'."
    eval_id: str


class EvalExists(EvalError):
    """An eval has this id already."""

    code = "eval_exists"
    template = "There is an eval '{eval_id}' already; give another id."
    eval_id: str


class InvalidDataset(EvalError):
    """A dataset, a case or a file cannot be read."""

    code = "invalid_dataset"
    template = "{what}: {problem}."
    what: str
    problem: str


class InvalidScorer(EvalError):
    """A scorer does not exist, or its options do not fit."""

    code = "invalid_scorer"
    template = "Scorer '{scorer}': {problem}."
    scorer: str
    problem: str


class InvalidGate(EvalError):
    """A gate cannot be read."""

    code = "invalid_gate"
    template = "Gate: {problem}."
    problem: str


class InvalidEval(EvalError):
    """An eval cannot be planned: nothing was spent."""

    code = "invalid_eval"
    template = "The eval cannot be planned: {problem}."
    problem: str


class NotComparable(EvalError):
    """Two evals cannot be compared."""

    code = "not_comparable"
    template = "Evals '{first}' and '{second}' cannot be compared: {problem}."
    first: str
    second: str
    problem: str


class CannotRecord(EvalError):
    """A run cannot be recorded whole."""

    code = "cannot_record"
    template = "Run '{run_id}' cannot be recorded: {problem}."
    run_id: str
    problem: str


class CannotReplay(EvalError):
    """A recording cannot be replayed."""

    code = "cannot_replay"
    template = "The recording of run '{run_id}' cannot be replayed: {problem}."
    run_id: str
    problem: str


class UnknownReplay(EvalError):
    """The run has no such replay, or it is not kept any more."""

    code = "unknown_replay"
    template = "Run '{run_id}' has no replay '{replay_id}'."
    run_id: str
    replay_id: str


class ReplayTimedOut(EvalError):
    """A replay took longer than it may."""

    code = "replay_timed_out"
    template = (
        "The replay of run '{run_id}' took longer than {limit_ms} ms and was stopped; "
        "begin at a later step, or allow more."
    )
    run_id: str
    limit_ms: int


class TooManyReplays(EvalError):
    """The process does as many replays as it may."""

    code = "too_many_replays"
    template = "This process does {limit} replays at once already; wait for one, or cancel one."
    limit: int


class DatasetConflict(StorageError):
    """The dataset was changed meanwhile; nothing was written."""

    code = "dataset_conflict"
    template = (
        "Dataset '{dataset_id}' is at revision {actual}, not {expected}; "
        "load it and make the change again."
    )
    dataset_id: str
    expected: int
    actual: int


class ReplayDiverged(ModelError):
    """A replayed run asks or does something that its recording has no answer for."""

    code = "diverged"
    template = "The run diverged at step {step} ({kind}): {message}."
    step: int
    kind: str


class RecordingEnded(ModelError):
    """The recorded run had not gone further when it was recorded."""

    code = "recording_ended"
    template = "The recording ends before the answer of step {step}; {message}."
    step: int


class RecordedFailure(ModelError):
    """The failure with which a recorded run ended, or that a script asks for."""

    code = "recorded_failure"
    template = "{message}"
