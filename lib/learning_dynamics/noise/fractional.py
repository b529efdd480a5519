r"""Fractional Gaussian noise, the increments of fractional Brownian motion, and what a well makes of coloured noise."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from learning_dynamics._internal.arguments import require_count, require_generator, require_tensors


def increment_covariance(hurst: float, lags: Tensor) -> Tensor:
    r"""Return the autocovariance of the unit increments of fractional Brownian motion.

    It is :math:`\chi_j=\frac12(|j+1|^{2h}-2|j|^{2h}+|j-1|^{2h})` (Mandelbrot and Van Ness 1968), so :math:`\chi_0=1`
    and :math:`\chi_1=2^{2h-1}-1`. Far lags are summed as a series, where the three powers would cancel.

    Args:
        hurst: h, between 0 and 1, ends excluded.
        lags: `(*shape)`, floating point, the lags j, of either sign.

    Returns:
        `(*shape)`, the autocovariances.

    Raises:
        ValueError: an argument is not as described.
    """
    _require_hurst(hurst)
    require_tensors(finite=True, lags=(lags, "*shape"))
    p, j = 2 * hurst, lags.abs()
    near = ((j + 1) ** p - 2 * j**p + (j - 1).abs() ** p) / 2
    inverse = j.clamp(min=100.0) ** -2
    series = 1 + (p - 2) * (p - 3) / 12 * inverse * (1 + (p - 4) * (p - 5) / 30 * inverse)
    far = p * (p - 1) / 2 * j.clamp(min=100.0) ** (p - 2) * series
    return torch.where(j < 100, near, far)


def fractional_gaussian_noise(
    steps: int,
    hurst: float,
    size: Sequence[int],
    generator: torch.Generator,
    *,
    dtype: torch.dtype = torch.float64,
) -> Tensor:
    r"""Return exact samples of fractional Gaussian noise by circulant embedding (Davies and Harte 1987).

    The covariance matrix of the steps is the corner of a circulant matrix of twice the size, whose eigenvalues are the
    discrete Fourier transform of its first row. They are never negative for this noise, so that their roots, times
    complex white noise, transform back to samples whose covariance is exact; one transform gives two samples.

    Args:
        steps: number of steps, >= 1.
        hurst: h, between 0 and 1, ends excluded; 1/2 is white noise.
        size: the leading axes, as many independent samples.
        generator: source of the samples; they lie on its device.
        dtype: of the result, which is computed in it.

    Returns:
        `(*size, steps)`, mean 0 and variance 1 each.

    Raises:
        ValueError: an argument is not as described, or rounding made an eigenvalue negative by more than 1e-12.
    """
    require_count("steps", steps)
    _require_hurst(hurst)
    require_generator(generator)
    for each in size:
        require_count("size", each)
    if dtype not in (torch.float32, torch.float64):
        raise ValueError(f"dtype = {dtype}; allowed: torch.float32 or torch.float64")
    half = 1 << max(steps - 1, 0).bit_length()
    lags = torch.arange(half + 1, dtype=torch.float64, device=generator.device)
    chi = increment_covariance(hurst, lags)
    eigenvalues = torch.fft.fft(torch.cat([chi, chi[1:-1].flip(0)])).real  # of the circulant matrix (2 half)
    if eigenvalues.min() < -1e-12:
        raise ValueError(f"hurst = {hurst}; allowed: one whose circulant eigenvalues are >= -1e-12")
    roots = (eigenvalues.clamp(min=0) / len(eigenvalues)).sqrt().to(dtype)
    samples = math.prod(size)
    shape = (2, (samples + 1) // 2, len(roots))
    white = torch.complex(*torch.randn(shape, generator=generator, dtype=dtype, device=generator.device))
    both = torch.fft.fft(white * roots)[:, :steps]
    return torch.stack([both.real, both.imag], 1).reshape(-1, steps)[:samples].reshape(*size, steps)


def cloud_variance(contraction: float, autocovariance: Tensor) -> Tensor:
    r"""Return the stationary variance of :math:`\theta_{k+1}=\rho\theta_k+\zeta_k` under stationary kicks.

    It is :math:`(\chi_0+2\sum_{j\ge1}\rho^j\chi_j)/(1-\rho^2)`. The sum stops where the autocovariance does; give so
    many lags that the power of the contraction has died out.

    Args:
        contraction: rho, between -1 and 1, ends excluded; gradient descent in a well of curvature L has 1 - eta L.
        autocovariance: `(*batch, lags)`, of the kicks, at the lags 0, 1, ...

    Returns:
        `(*batch)`, the variances.

    Raises:
        ValueError: an argument is not as described.
    """
    if not -1 < contraction < 1:
        raise ValueError(f"contraction = {contraction}; allowed: between -1 and 1, ends excluded")
    require_tensors(finite=True, autocovariance=(autocovariance, "*batch lags"))
    j = torch.arange(1, autocovariance.shape[-1], dtype=autocovariance.dtype, device=autocovariance.device)
    powers = abs(contraction) ** j * (1 if contraction >= 0 else 1 - 2 * (j % 2))
    return (autocovariance[..., 0] + 2 * (autocovariance[..., 1:] * powers).sum(-1)) / (1 - contraction**2)


def box_counts(paths: Tensor, scales: Sequence[int]) -> Tensor:
    r"""Return how many boxes of side :math:`2^{-i}` cover the graph of each path over [0, 1].

    In each column of width :math:`2^{-i}` the graph is covered from its lowest to its highest point, the first point of
    the next column included. The slope of the logarithm against i ln 2 estimates the box dimension.

    Args:
        paths: `(*batch, 2^m)`, samples of the paths at even times.
        scales: the exponents i, each from 0 to m.

    Returns:
        `(*batch, len(scales))`, the counts.

    Raises:
        ValueError: an argument is not as described.
    """
    require_tensors(finite=True, paths=(paths, "*batch n"))
    n = paths.shape[-1]
    if n < 2 or n & (n - 1):
        raise ValueError(f"paths has {n} points; allowed: a power of 2, at least 2")
    counts = []
    for i in scales:
        require_count("scales", i, 0, n.bit_length() - 1)
        columns = paths.unflatten(-1, (2**i, -1))
        # the first point of the next column
        after = torch.cat([columns[..., 1:, 0], columns[..., -1:, -1]], -1)
        high = torch.maximum(columns.amax(-1), after) * 2**i
        low = torch.minimum(columns.amin(-1), after) * 2**i
        counts.append((high.floor() - low.floor() + 1).sum(-1))
    return torch.stack(counts, -1)


def _require_hurst(hurst: float) -> None:
    if not 0 < hurst < 1:
        raise ValueError(f"hurst = {hurst}; allowed: between 0 and 1, ends excluded")
