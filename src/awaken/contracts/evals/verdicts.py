"""What an eval says: figures with intervals, comparisons and gates, as they are shown."""

from enum import StrEnum

from awaken.contracts.record import Record, always


class Interval(Record, frozen=True, kw_only=True):
    """Where a true value lies, with 95 % confidence unless said otherwise."""

    low: float
    high: float


class PassesOfK(Record, frozen=True, kw_only=True):
    """What k tries of a case give, averaged over the cases that have at least k samples."""

    k: int
    any: float
    """pass@k: at least one of k tries passes."""
    all: float
    """pass^k: all of k tries pass."""
    cases: int


class Percentiles(Record, frozen=True, kw_only=True):
    """The middle and the upper end of a quantity; samples without it are left out."""

    p50: float
    p95: float
    samples: int


class CorrectedRate(Record, frozen=True, kw_only=True):
    """A pass rate without the known errors of its judge (Rogan and Gladen)."""

    rate: float
    interval: Interval


class Calibration(Record, frozen=True, kw_only=True):
    """How far a judge agrees with people."""

    scorer: str = ""
    labels: int = always(0)
    is_calibrated: bool = always(False)  # noqa: FBT003
    """Whether there are enough labels of both kinds; otherwise the figures decide nothing."""
    agreement: float | None = None
    agreement_interval: Interval | None = None
    kappa: float | None = None
    kappa_interval: Interval | None = None
    false_pass: float | None = None
    """The share of the items that people fail which the judge passes."""
    false_pass_interval: Interval | None = None
    false_fail: float | None = None
    """The share of the items that people pass which the judge fails."""
    false_fail_interval: Interval | None = None
    self_consistency: float | None = None
    """How often the votes of one item agree; None without items of several votes."""
    human_passes: int = 0
    human_fails: int = 0
    prompt_hash: str | None = None
    """The prompt of the judge that was calibrated; None if its labels are of several judges."""
    model_id: str | None = None
    """Its model."""

    @property
    def judge_key(self) -> tuple[str | None, str | None]:
        """Identifies the judge, as `JudgeUse.judge_key` does."""
        return self.prompt_hash, self.model_id


class ScorerFigures(Record, frozen=True, kw_only=True):
    """What one scorer says of one variant."""

    scorer: str
    cases: int
    samples: int = always(0)
    """Samples with a value, those of an agent that failed included."""
    errors: int = always(0)
    """Samples that the scorer could not score: missing, not zero."""
    missing: int = always(0)
    """Samples that were cut, or that a provider failed."""
    mean: float | None = None
    mean_interval: Interval | None = None
    """By Student's distribution over the means of cases; None with fewer than two cases."""
    rate: float | None = None
    """The weighted mean over cases of the share of samples that pass."""
    interval: Interval | None = None
    """Wilson's interval of the rate, for as many independent samples as these are worth."""
    passes: tuple[PassesOfK, ...] = ()
    flake_rate: float | None = None
    """The share of cases that neither always pass nor always fail; None without repeats."""
    between_cases: float | None = None
    """The share of the variance that lies between cases (ICC); None without repeats."""
    is_judged: bool = False
    calibration: Calibration | None = None
    corrected: CorrectedRate | None = None

    @property
    def error_share(self) -> float:
        """The share of samples that the scorer could not score."""
        tried = self.samples + self.errors
        return self.errors / tried if tried else 0.0


class VariantFigures(Record, frozen=True, kw_only=True):
    """What an eval says of one variant."""

    variant: str
    items: int
    missing: int = always(0)
    failed: int = always(0)
    scorers: tuple[ScorerFigures, ...] = ()
    tokens: Percentiles | None = None
    cost_usd: Percentiles | None = None
    ms: Percentiles | None = None
    total_cost_usd: float | None = None
    """None if the cost of a sample is not known."""


class ComparisonVerdict(StrEnum):
    """What a comparison says of the second variant."""

    SAME = "same"
    """The whole interval lies inside the margin."""
    WORSE = "worse"
    BETTER = "better"
    UNDECIDED = "undecided"


class CaseDifference(Record, frozen=True, kw_only=True):
    """One case in a comparison."""

    case_id: str
    first: float
    second: float
    difference: float
    weight: float = 1.0


class SequentialLook(Record, frozen=True, kw_only=True):
    """A look at an eval before its end, and the level at which it may decide."""

    number: int
    of: int
    fraction: float
    """How much of the plan was there."""
    bound: float
    """The O'Brien-Fleming bound for the standardized difference."""
    alpha: float
    """The two-sided level that belongs to the bound."""


class ScorerComparison(Record, frozen=True, kw_only=True):
    """The second variant against the first by one scorer, paired by case."""

    scorer: str
    first: str
    second: str
    verdict: ComparisonVerdict
    reason: str
    """The verdict in words."""
    cases: int
    """How many cases are scored in both."""
    margin: float
    difference: float | None = None
    """Second minus first, the weighted mean over cases."""
    interval: Interval | None = None
    """By bootstrap over cases; None with fewer than two cases."""
    p_value: float | None = None
    """By sign-flip permutation, two-sided."""
    p_adjusted: float | None = None
    """The same, adjusted for several scorers (Holm)."""
    mcnemar_p: float | None = None
    """Exact and two-sided; only with one passed-or-failed sample per case."""
    smallest_effect: float | None = None
    """The smallest difference that this eval would have seen with 80 % power."""
    needed_cases: int | None = None
    """How many cases would decide it with as many repeats; None: not to be said, or decided."""
    needed_repeats: int | None = None
    """How many repeats would decide it with these cases; None: no number of repeats does."""
    only_first: tuple[str, ...] = ()
    """Cases that are scored in the first only."""
    only_second: tuple[str, ...] = ()
    rescored: tuple[str, ...] = ()
    """Cases that another version of the scorer scored in the second: not comparable."""
    by_case: tuple[CaseDifference, ...] = ()
    """From the worst to the best difference."""
    look: SequentialLook | None = None


class EvalComparison(Record, frozen=True, kw_only=True):
    """The second variant against the first by every scorer that both have."""

    first: str
    second: str
    scorers: tuple[ScorerComparison, ...] = ()
    cost_ratio: float | None = None
    """The cost per sample of the second over that of the first; None if a price is missing."""
    warnings: tuple[str, ...] = ()


class GateStatus(StrEnum):
    """What a gate, or one of its conditions, says."""

    PASSED = "passed"
    FAILED = "failed"
    UNDECIDED = "undecided"
    """Too little is known: the gate has not passed."""


class GateCheck(Record, frozen=True, kw_only=True):
    """One condition of a gate."""

    condition: str
    """The field of the gate, such as `compare[0]`."""
    status: GateStatus
    reason: str


class GateResult(Record, frozen=True, kw_only=True):
    """What a gate says of an eval."""

    status: GateStatus
    checks: tuple[GateCheck, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def is_passed(self) -> bool:
        """Whether everything that the gate asks for holds."""
        return self.status is GateStatus.PASSED


class FixtureChange(StrEnum):
    """How a fixture of a report compares with the baseline, in the words of Awaken for Rust."""

    UNCHANGED = "unchanged"
    REGRESSION = "regression"
    FIXED = "fixed"
    STILL_FAILING = "still_failing"
    DRIFT = "drift"
    """Both passed, and something that can be observed differs."""
    MISSING_FROM_NEW = "missing_from_new"
    NEWLY_ADDED = "newly_added"


class FixtureDifference(Record, frozen=True, kw_only=True):
    """One fixture in the comparison of two reports."""

    kind: FixtureChange
    fixture_id: str
    new_failures: tuple[str, ...] | None = None
    fields: tuple[str, ...] | None = None
    """What drifted."""
    passed: bool | None = None
    """Whether a new fixture passes."""
    cell: str | None = None
    """The model, if an eval has several."""

    @property
    def is_blocking(self) -> bool:
        """Whether it fails a check against the baseline."""
        if self.kind is FixtureChange.NEWLY_ADDED:
            return not self.passed
        return self.kind in (
            FixtureChange.REGRESSION,
            FixtureChange.DRIFT,
            FixtureChange.MISSING_FROM_NEW,
        )
