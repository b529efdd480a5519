"""Intervals, slopes and comparisons over seeds.

Samples are one-dimensional: a sequence, a numpy array or a tensor, one value per seed. They are computed in
float64. A value that is not finite is refused by every function here: a diverged run has no place in a mean,
and leaving it out is the caller's decision to take in the open.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import stats

Samples = Sequence[float] | NDArray[Any] | torch.Tensor
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Interval:
    """A confidence interval with its point estimate, in the units of the samples.

    Attributes:
        low: lower end.
        estimate: the point estimate.
        high: upper end.
        level: probability with which the interval covers the true value, e.g. 0.999.
    """

    low: float
    estimate: float
    high: float
    level: float

    def __contains__(self, value: float) -> bool:
        """Tell whether `value` lies between the ends, both included."""
        return self.low <= value <= self.high


class KolmogorovSmirnov(NamedTuple):
    """Outcome of a Kolmogorov-Smirnov test.

    Attributes:
        statistic: largest distance of the two distribution functions, in [0, 1].
        p_value: probability of a distance at least as large if the distributions are the same.
    """

    statistic: float
    p_value: float


def mean_interval(samples: Samples, level: float = 0.999) -> Interval:
    r"""Return Student's interval of the mean, :math:`\bar x \pm t_{n-1}\, s/\sqrt n`.

    Exact for normal samples; the t quantile keeps it honest for a handful of seeds (Student 1908).

    Args:
        samples: `(n,)`, n >= 2.
        level: coverage, between 0 and 1.

    Raises:
        ValueError: no sample, a single one, one that is not finite, or a level outside (0, 1).
    """
    values = _samples("samples", samples)
    _require_level(level)
    error = values.std(ddof=1) / np.sqrt(len(values))
    return _t_interval(values.mean(), error, len(values) - 1, level)


def difference_interval(a: Samples, b: Samples, level: float = 0.999) -> Interval:
    r"""Return Welch's interval of mean(a) - mean(b) for independent samples (Welch 1947).

    .. math:: \bar a - \bar b \pm t_\nu \sqrt{s_a^2/n_a + s_b^2/n_b}, \qquad
        \nu = \frac{(s_a^2/n_a + s_b^2/n_b)^2}{(s_a^2/n_a)^2/(n_a-1) + (s_b^2/n_b)^2/(n_b-1)}

    Args:
        a: `(n_a,)`, n_a >= 2.
        b: `(n_b,)`, n_b >= 2.
        level: coverage, between 0 and 1.

    Raises:
        ValueError: no sample, a single one, one that is not finite, or a level outside (0, 1).
    """
    first, second = _samples("a", a), _samples("b", b)
    _require_level(level)
    parts = np.array([first.var(ddof=1) / len(first), second.var(ddof=1) / len(second)])
    shares = parts / parts.sum() if parts.sum() > 0 else np.array([0.5, 0.5])
    freedom = 1 / (shares**2 / [len(first) - 1, len(second) - 1]).sum()
    return _t_interval(first.mean() - second.mean(), np.sqrt(parts.sum()), freedom, level)


def log_log_slope(x: Samples, y: Samples, level: float = 0.999) -> Interval:
    r"""Return the exponent p of a power law :math:`y \propto x^p` by least squares of ln y on ln x.

    One curve: the slope with its t interval, n - 2 degrees of freedom. For a curve without noise the interval
    measures how far it is from a straight line, and the rounding of the logarithms is added to it. Several
    curves, one per seed: one slope each, and Student's interval of their mean; use this when the points of a
    curve are correlated.

    Source: Draper & Smith (1998), Applied Regression Analysis, sec. 1.4.

    Args:
        x: `(n,)`, positive, n >= 3 (n >= 2 with seeds), not all equal.
        y: `(n,)`, or `(seeds, n)` with at least two seeds; positive.
        level: coverage, between 0 and 1.

    Raises:
        ValueError: too few points or seeds, shapes that do not match, a value that is not positive and
            finite, all x equal, or a level outside (0, 1).
    """
    curves = _array("y", y)
    over_seeds = curves.ndim == 2
    points = _samples("x", x, least=2 if over_seeds else 3)
    _require_level(level)
    if curves.ndim not in (1, 2) or curves.shape[-1] != len(points):
        raise ValueError(
            f"y has shape {curves.shape}; allowed: ({len(points)},) or (seeds, {len(points)}), as x"
        )
    if over_seeds and len(curves) < 2:
        raise ValueError("y has a single seed; allowed: one axis (n,), or at least 2 seeds")
    for name, numbers in (("x", points), ("y", curves)):
        if not (numbers > 0).all():
            raise ValueError(f"{name} has {int((numbers <= 0).sum())} values <= 0; allowed: positive numbers")
    if (points == points[0]).all():
        raise ValueError(f"x has the one value {points[0]}; allowed: at least two different ones")

    log_x, log_y = np.log(points), np.log(curves)
    centred = log_x - log_x.mean()
    spread = (centred**2).sum()
    slopes = log_y @ centred / spread
    if over_seeds:
        return mean_interval(slopes, level)
    residuals = log_y - log_y.mean() - slopes * centred
    error = np.sqrt((residuals**2).sum() / (len(points) - 2) / spread)
    fitted = _t_interval(slopes, error, len(points) - 2, level)
    # |change of the slope| <= |change of the logarithms| / their standard deviation, by Cauchy and Schwarz
    size = np.abs(log_y).max() + abs(slopes) * np.abs(log_x).max()
    rounding = np.finfo(float).eps * size / np.sqrt(spread / len(points))
    return Interval(float(fitted.low - rounding), fitted.estimate, float(fitted.high + rounding), level)


def ks_test(samples: Samples, reference: Callable[[Array], Any] | Samples) -> KolmogorovSmirnov:
    """Test that samples come from a distribution, or two samples from the same one.

    Source: Kolmogorov (1933) for one sample, Smirnov (1939) for two; `scipy.stats.ks_1samp` and `ks_2samp`.

    Args:
        samples: `(n,)`, independent, n >= 2.
        reference: a distribution function such as `scipy.stats.norm(0, 2).cdf`, fixed without looking at the
            samples; or the second sample `(m,)`, m >= 2.

    Returns:
        The statistic and its p-value.

    Raises:
        ValueError: samples as in `mean_interval`.
    """
    values = _samples("samples", samples)
    if callable(reference):
        found = stats.ks_1samp(values, reference)
    else:
        found = stats.ks_2samp(values, _samples("reference", reference))
    return KolmogorovSmirnov(float(found.statistic), float(found.pvalue))


def _t_interval(estimate: float, error: float, freedom: float, level: float) -> Interval:
    """Return `estimate` plus and minus the two-sided t quantile times its standard error."""
    half = stats.t.ppf((1 + level) / 2, freedom) * error
    return Interval(float(estimate - half), float(estimate), float(estimate + half), level)


def _array(name: str, samples: Samples) -> Array:
    """Return finite numbers as a float64 array of any shape."""
    if isinstance(samples, torch.Tensor):
        samples = samples.detach().cpu()
        samples = (samples.float() if samples.dtype == torch.bfloat16 else samples).numpy()
    if np.iscomplexobj(samples):
        raise ValueError(f"{name} has complex numbers; allowed: real ones")
    if isinstance(samples, np.ma.MaskedArray):
        raise ValueError(f"{name} is a masked array; allowed: the numbers that count")
    if np.asarray(samples).dtype.kind in "SU":
        raise ValueError(f"{name} holds text; allowed: numbers")
    values = np.asarray(samples, dtype=np.float64)
    if values.size == 0:
        raise ValueError(f"{name} is empty; allowed: at least two values")
    if np.isnan(values).any():
        raise ValueError(f"{name} has {int(np.isnan(values).sum())} NaN; allowed: finite numbers")
    if np.isinf(values).any():
        raise ValueError(
            f"{name} has {int(np.isinf(values).sum())} infinite values (diverged runs); allowed: finite numbers"
        )
    return values


def _samples(name: str, samples: Samples, least: int = 2) -> Array:
    """Return at least `least` finite samples as a one-dimensional float64 array."""
    values = _array(name, samples)
    if values.size == 1:
        raise ValueError(f"{name} has a single value; allowed: at least {least}")
    if values.ndim != 1:
        raise ValueError(f"{name} has shape {values.shape}; allowed: one axis")
    if len(values) < least:
        raise ValueError(f"{name} has {len(values)} values; allowed: at least {least}")
    return values


def _require_level(level: float) -> None:
    if not 0 < level < 1:
        raise ValueError(f"level = {level}; allowed: between 0 and 1")
