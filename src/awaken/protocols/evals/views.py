"""The documents of the routes of evals."""

from collections.abc import Sequence
from typing import Annotated, Any

from msgspec import Meta

from awaken.contracts.evals.eval_runs import EvalItem, EvalRecord
from awaken.contracts.evals.scores import ScoreSource, StoredScore
from awaken.contracts.record import Record, StrictRecord, always

Limit = Annotated[int, Meta(ge=1, le=1000)]
Text = Annotated[str, Meta(max_length=4_000)]
Name = Annotated[str, Meta(min_length=1, max_length=200)]


class EvalFilter(StrictRecord, frozen=True, kw_only=True):
    """Which evals, newest first."""

    dataset_id: str | None = None
    status: str | None = None
    before: Annotated[int, Meta(ge=0)] | None = None
    """The `no` of the last eval of the page before."""
    limit: Limit = 50
    demo: bool = False
    """Whether to list those of the demo data as well."""


class NumberedEval(Record, frozen=True, kw_only=True):
    """An eval in a list."""

    no: int
    eval: EvalRecord


class EvalList(Record, frozen=True, kw_only=True):
    """A page of evals."""

    evals: tuple[NumberedEval, ...]
    next_before: int | None = None
    """`before` of the next page; absent: there is none."""


def list_evals(found: Sequence[tuple[int, EvalRecord]], asked: EvalFilter) -> EvalList:
    """Return a page of evals as their list; one more than it takes tells that there is a next."""
    page = found[: asked.limit]
    return EvalList(
        evals=tuple(
            NumberedEval(no=no, eval=record)
            for no, record in page
            if asked.demo or not record.is_demo
        ),
        next_before=page[-1][0] if len(found) > asked.limit else None,
    )


class ItemFilter(StrictRecord, frozen=True, kw_only=True):
    """Which items, in the order of the plan."""

    after: Annotated[int, Meta(ge=-1)] = -1
    limit: Limit = 200


class ItemList(Record, frozen=True, kw_only=True):
    """A page of items."""

    items: tuple[EvalItem, ...]


class NewScore(StrictRecord, frozen=True, kw_only=True):
    """What a person says of a run, or of one of its steps."""

    name: Name = "thumbs"
    value: Annotated[float, Meta(ge=0, le=1)]
    label: Annotated[str, Meta(max_length=200)] = ""
    comment: Text = ""
    step: Annotated[int, Meta(ge=1)] | None = None


class ScoreFilter(StrictRecord, frozen=True, kw_only=True):
    """Which scores, newest first."""

    scorer: Name | None = None
    source: ScoreSource | None = None
    since: Annotated[int, Meta(ge=0)] | None = None
    below: Annotated[float, Meta(ge=0, le=2)] | None = None
    """Only scores with a smaller value; those without a value are left out."""
    before: Annotated[int, Meta(ge=0)] | None = None
    """The `no` of the last score of the page before."""
    limit: Limit = 100


class ScoreList(Record, frozen=True, kw_only=True):
    """Scores, newest first."""

    scores: tuple[StoredScore, ...]


class EvalForms(Record, frozen=True, kw_only=True):
    """JSON Schemas of what people write."""

    case: dict[str, Any]
    gate: dict[str, Any]
    scorers: dict[str, dict[str, Any]]
    """The options of each scorer, by its name."""


class NewLabel(StrictRecord, frozen=True, kw_only=True):
    """A person's answer to what a judge was asked about a run."""

    run_id: Name
    scorer: Name
    passed: bool
    comment: Text = ""


class NewLabels(StrictRecord, frozen=True, kw_only=True):
    """Labels, all or none."""

    labels: Annotated[tuple[NewLabel, ...], Meta(min_length=1, max_length=1000)]


class FixtureJudge(StrictRecord, frozen=True, kw_only=True):
    """The judge of `min_judge_score`."""

    model_id: str
    rubric: str


class FixtureRun(StrictRecord, frozen=True, kw_only=True):
    """An eval, as Awaken for Rust asks for it."""

    dataset_id: str
    id: str | None = None
    mode: str = "scripted"
    models: tuple[str, ...] = ()
    agent_id: str | None = None
    agent_overrides: dict[str, Any] = {}  # noqa: RUF012 - msgspec copies an empty default
    samples: Annotated[int, Meta(ge=1, le=50)] = 1
    judge: FixtureJudge | None = None
    max_walltime_secs: Annotated[int, Meta(ge=1)] | None = None
    max_total_tokens: Annotated[int, Meta(ge=1)] | None = None
    baseline_run_id: str | None = None


class FixtureRunQuery(StrictRecord, frozen=True, kw_only=True):
    """What is shown beside a run."""

    baseline: str | None = None
    aggregate: str | None = None


class FixtureDiff(Record, frozen=True, kw_only=True):
    """What a baseline and a run differ in, fixture by fixture."""

    entries: tuple[dict[str, Any], ...]


class FixtureRunReply(Record, frozen=True, kw_only=True):
    """A run with what was asked for beside it."""

    run: dict[str, Any]
    diff: FixtureDiff | None = None
    aggregates: tuple[dict[str, Any], ...] | None = None
    persisted: bool = always(True)  # noqa: FBT003 - a default


class FixtureRunListQuery(StrictRecord, frozen=True, kw_only=True):
    """Which runs are listed."""

    dataset_id: str | None = None
    limit: Annotated[int, Meta(ge=1, le=100)] = 20


class FixtureRunList(Record, frozen=True, kw_only=True):
    """Runs, newest first, without their items."""

    runs: tuple[dict[str, Any], ...]


class OnlineEval(StrictRecord, frozen=True, kw_only=True):
    """One input for several models."""

    user_input: Text
    agent_id: str | None = None
    agent_overrides: dict[str, Any] = {}  # noqa: RUF012 - msgspec copies an empty default
    models: Annotated[tuple[str, ...], Meta(min_length=1, max_length=10)]
    expectations: dict[str, Any] = {}  # noqa: RUF012 - msgspec copies an empty default
    samples: Annotated[int, Meta(ge=1, le=50)] = 1
    judge: FixtureJudge | None = None
    persist: bool = True
    """Every eval is durable, so it is kept anyway; the reply says so."""
    max_walltime_secs: Annotated[int, Meta(ge=1)] | None = None
    max_total_tokens: Annotated[int, Meta(ge=1)] | None = None
