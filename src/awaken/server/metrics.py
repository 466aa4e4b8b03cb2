"""Metrics of this process, in the text format 0.0.4 of Prometheus.

Labels are names from a small set, never ids; a family with too many label sets counts the rest as
`other`.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator

SERIES_MAX = 1000
OTHER = "other"
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)

Labels = tuple[str, ...]


class Counter:
    """A sum for each set of labels; it only grows."""

    kind = "counter"

    def __init__(self, name: str, about: str, *labels: str) -> None:
        self.name = name
        self.about = about
        self.labels = labels
        self.series: dict[Labels, float] = {}

    def add(self, amount: float, *values: str) -> None:
        """Add to the sum of some labels."""
        series = self.series
        if values in series:
            series[values] += amount
            return
        key = values if len(series) < SERIES_MAX else (OTHER,) * len(values)
        series[key] = series.get(key, 0) + amount

    def lines(self) -> Iterator[str]:
        """Its samples."""
        for values, amount in self.series.items():
            yield sample(self.name, zip(self.labels, values, strict=True), amount)


class Gauge(Counter):
    """A number for each set of labels that can rise and fall."""

    kind = "gauge"


class Level:
    """A number without labels that can rise and fall."""

    kind = "gauge"

    def __init__(self, name: str, about: str) -> None:
        self.name = name
        self.about = about
        self.labels: Labels = ()
        self.value = 0

    def lines(self) -> Iterator[str]:
        """Its only sample."""
        yield sample(self.name, (), self.value)


class Histogram:
    """How long things took, for each set of labels."""

    kind = "histogram"

    def __init__(self, name: str, about: str, *labels: str) -> None:
        self.name = name
        self.about = about
        self.labels = labels
        self.series: dict[Labels, list[float]] = {}

    def observe(self, ms: float, *values: str) -> None:
        """Count a duration."""
        counts = self.series.get(values)
        if counts is None:
            key = values if len(self.series) < SERIES_MAX else (OTHER,) * len(values)
            counts = self.series.setdefault(key, [0] * (len(SECONDS) + 2))
        seconds = ms / 1000
        counts[bisect_left(SECONDS, seconds)] += 1
        counts[-1] += seconds

    def lines(self) -> Iterator[str]:
        """Its samples; the buckets are cumulative, as the format requires."""
        for values, counts in self.series.items():
            labels, total = [*zip(self.labels, values, strict=True)], 0.0
            for bound, count in zip((*SECONDS, "+Inf"), counts, strict=False):
                total += count
                yield sample(f"{self.name}_bucket", [*labels, ("le", str(bound))], total)
            yield sample(f"{self.name}_sum", labels, counts[-1])
            yield sample(f"{self.name}_count", labels, total)


class CountOf:
    """How many durations a histogram has, as a counter of its own name."""

    kind = "counter"

    def __init__(self, name: str, about: str, histogram: Histogram) -> None:
        self.name = name
        self.about = about
        self.labels = histogram.labels
        self._histogram = histogram

    def lines(self) -> Iterator[str]:
        """One sample for each of the histogram's sets of labels."""
        for values, counts in self._histogram.series.items():
            labels = zip(self.labels, values, strict=True)
            yield sample(self.name, labels, sum(counts[:-1]))


Family = Counter | Level | Histogram | CountOf


def exposition(families: Iterable[Family]) -> bytes:
    """Encode families as the text that Prometheus scrapes."""
    lines: list[str] = []
    for family in families:
        lines += (f"# HELP {family.name} {family.about}", f"# TYPE {family.name} {family.kind}")
        lines += family.lines()
    return ("\n".join(lines) + "\n").encode()


def sample(name: str, labels: Iterable[tuple[str, str]], amount: float) -> str:
    """Format one sample."""
    text = ",".join(f'{label}="{_escape(value)}"' for label, value in labels)
    return f"{name}{{{text}}} {amount:.10g}" if text else f"{name} {amount:.10g}"


def _escape(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
