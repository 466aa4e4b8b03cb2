"""Writes oracles.json: what scipy and statsmodels say, so that the tests need neither.

Run it in an environment that has both: `python make_oracles.py > oracles.json`.
"""

import json
import random

import numpy
import scipy
import statsmodels
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.inter_rater import cohens_kappa
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint


def draw_differences(rng: random.Random, n: int) -> list[float]:
    return [rng.choice((-1, -0.6, -0.2, 0, 0, 0, 0.2, 0.4, 1)) for _ in range(n)]


def bootstrap(values: list[float]) -> tuple[float, float]:
    """The plain percentile interval, at the levels that our interval takes for this size."""
    n = len(values)
    level = stats.norm.cdf(-((n / (n - 1)) ** 0.5) * stats.t.ppf(0.975, n - 1))
    found = stats.bootstrap(
        (numpy.array(values),),
        numpy.mean,
        n_resamples=200_000,
        batch=2_000,
        confidence_level=1 - 2 * level,
        method="percentile",
        rng=numpy.random.default_rng(7),
    )
    return float(found.confidence_interval.low), float(found.confidence_interval.high)


def permute(values: list[float]) -> float:
    found = stats.permutation_test(
        (numpy.array(values), numpy.zeros(len(values))),
        lambda a, b: float(numpy.mean(a - b)),
        permutation_type="samples",
        n_resamples=numpy.inf,
        vectorized=False,
    )
    return float(found.pvalue)


def obrien_fleming() -> list[list[float]]:
    """The bounds of three looks, by integrating the normal distribution of the looks."""
    fractions = numpy.array([1 / 3, 2 / 3, 1])
    cover = numpy.sqrt(
        numpy.minimum.outer(fractions, fractions) / numpy.maximum.outer(fractions, fractions)
    )
    law = stats.multivariate_normal(mean=numpy.zeros(3), cov=cover)
    low, high = 1.9, 2.2
    for _ in range(40):
        last = (low + high) / 2
        bounds = last * numpy.sqrt(1 / fractions)
        inside = law.cdf(bounds, lower_limit=-bounds, rng=numpy.random.default_rng(1))
        low, high = (last, high) if inside < 0.95 else (low, last)
    return [[float(it), float(2 * stats.norm.sf(it))] for it in last * numpy.sqrt(1 / fractions)]


def main() -> None:
    rng = random.Random(5)
    counts = [(0, 5), (5, 5), (1, 10), (7, 13), (50, 100), (998, 1000), (1, 1), (0, 1)]
    tables = [(40, 5, 3, 52), (10, 20, 25, 8), (30, 0, 0, 30), (95, 2, 2, 1), (0, 5, 7, 0)]
    some = [draw_differences(rng, n) for n in (5, 9, 12)]
    more = [draw_differences(rng, n) for n in (20, 50, 120)]
    holm = [[0.01, 0.04, 0.03], [0.2, 0.001, 0.05, 0.05], [0.9], [0.5, 0.6, 0.01, 0.012, 0.013]]
    kappas = []
    for it in tables:
        found = cohens_kappa(numpy.array(it).reshape(2, 2))
        kappas.append([it, float(found.kappa), float(found.kappa_low), float(found.kappa_upp)])
    degrees = (1, 2, 3, 4, 7, 20, 99)
    document = {
        "made_with": {"scipy": scipy.__version__, "statsmodels": statsmodels.__version__},
        "wilson": [[*it, *map(float, proportion_confint(*it, method="wilson"))] for it in counts],
        "clopper_pearson": [
            [*it, float(proportion_confint(*it, method="beta")[1])]
            for it in ((0, 5), (0, 60), (1, 60), (2, 2), (2, 9), (4, 60), (5, 500), (11, 5000))
        ],
        "student": [[p, v, float(stats.t.ppf(p, v))] for p in (0.8, 0.975) for v in degrees],
        "mcnemar": [
            [b, c, float(mcnemar([[9, b], [c, 4]], exact=True).pvalue)]
            for b, c in ((0, 0), (0, 1), (5, 0), (3, 12), (12, 3), (10, 10), (40, 60), (0, 300))
        ],
        "holm": [[it, [float(p) for p in multipletests(it, method="holm")[1]]] for it in holm],
        "kappa": kappas,
        "flips": [[it, permute(it)] for it in some],
        "bootstrap": [[it, *bootstrap(it)] for it in more],
        "percentile": [
            [sorted(it), q, float(numpy.percentile(it, 100 * q))]
            for it in more
            for q in (0.5, 0.95)
        ],
        "obrien_fleming": obrien_fleming(),
    }
    print(json.dumps(document, indent=1))


if __name__ == "__main__":
    main()
