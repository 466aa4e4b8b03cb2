"""Numbers and words: quantiles, units, markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def quantile(values: Iterable[float], share: float) -> float:
    """The value at that share of the sorted values; NaN when there are none."""
    ordered = sorted(values)
    if not ordered:
        return float("nan")
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def median(values: Iterable[float]) -> float:
    """The middle value."""
    return quantile(values, 0.5)


def digits(value: float) -> str:
    """Three or so significant digits, no exponent."""
    size = abs(value)
    if size < 0.01:
        return f"{value:.4f}"
    if size < 10:
        return f"{value:.3f}"
    return f"{value:.1f}" if size < 100 else f"{value:,.0f}"


def millis(seconds: float) -> str:
    """Seconds as milliseconds."""
    return digits(seconds * 1e3)


def ratio(value: float) -> str:
    """3.4x"""
    if value < 3:
        return f"{value:.2f}x"
    return f"{value:.1f}x" if value < 30 else f"{value:,.0f}x"


def markdown(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A markdown table."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"
