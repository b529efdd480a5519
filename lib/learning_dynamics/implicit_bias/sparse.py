r"""Sparse recovery: squared weights, restricted isometry, basis pursuit and dual certificates.

Data `X (*batch, n, d)` hold one sample a row. The model predicts :math:`X\beta` with the effective weights
:math:`\beta=\theta\odot\theta\ge0`, and the loss is
:math:`\mathcal L(\theta)=\frac1{4n}\lVert X(\theta\odot\theta)-y\rVert^2`.
The two linear programs are solved by HiGHS through `scipy.optimize.linprog`, one problem after the other.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import combinations, pairwise
from typing import NamedTuple

import numpy as np
import torch
from scipy.optimize import linprog
from torch import Tensor

from learning_dynamics._internal.arguments import (
    require_broadcast,
    require_finite,
    require_last,
    require_number,
    require_numbers,
    require_symmetric,
    require_tensors,
    step_numbers,
)
from learning_dynamics.ensembles import Gradient


class SparseProblem(NamedTuple):
    """A linear regression with a sparse truth behind it.

    Attributes:
        X: `(*batch, n, d)`, samples in rows.
        y: `(*batch, n)`, targets.
        truth: `(*batch, d)`, the weights that made them.
    """

    X: Tensor
    y: Tensor
    truth: Tensor


class Certificate(NamedTuple):
    """A dual certificate: `level` (), the largest product off the support, and `vector (n)`."""

    level: float
    vector: Tensor


def sparse_problem(
    generators: Sequence[torch.Generator],
    n: int,
    d: int,
    sparsity: int,
    *,
    noise: float = 0.0,
    dtype: torch.dtype = torch.float64,
) -> SparseProblem:
    r"""Draw one under-determined problem a generator: Gaussian samples, a truth of zeros and `sparsity` ones.

    Args:
        generators: one for each problem; they become the batch axis.
        n: number of samples, 1 <= n < d.
        d: number of weights.
        sparsity: number of ones, at random places, 1 <= sparsity <= d.
        noise: standard deviation of the noise in the targets, >= 0.
        dtype: floating point type.

    Returns:
        `X (problems, n, d)`, `y (problems, n)` and `truth (problems, d)`.

    Raises:
        ValueError: a size is out of range (n >= d, say), the noise is negative, or there is no generator.
    """
    if not 1 <= n < d:
        raise ValueError(f"n = {n}, d = {d}; allowed: fewer samples than weights, 1 <= n < d")
    if not 1 <= sparsity <= d:
        raise ValueError(f"sparsity = {sparsity}; allowed: between 1 and d = {d}")
    require_number("noise", noise, least=0)
    if not len(generators):
        raise ValueError("generators is empty; allowed: at least one")
    X, truth, error = [], [], []
    for generator in generators:
        X.append(torch.randn(n, d, generator=generator, dtype=dtype))
        places = torch.randperm(d, generator=generator)[:sparsity]
        truth.append(torch.zeros(d, dtype=dtype).index_fill(0, places, 1.0))
        error.append(noise * torch.randn(n, generator=generator, dtype=dtype))
    samples, ones = torch.stack(X), torch.stack(truth)
    return SparseProblem(samples, (samples @ ones[..., None]).squeeze(-1) + torch.stack(error), ones)


def second_moment(X: Tensor) -> Tensor:
    r"""Return :math:`\hat\Sigma=X^\top X/n`, `(*batch, d, d)`.

    Args:
        X: `(*batch, n, d)`, samples in rows, n >= 1.

    Raises:
        ValueError: X is not real floating point of this shape.
    """
    require_tensors(X=(X, "*batch n d"))
    return X.mT @ X / X.shape[-2]


def gaussian_second_moment(
    generators: Sequence[torch.Generator], n: int, d: int, dtype: torch.dtype = torch.float64
) -> Tensor:
    r"""Draw :math:`\hat\Sigma` of n standard Gaussian samples without drawing the samples.

    :math:`n\hat\Sigma` has the Wishart law, and equals :math:`AA^\top` with A lower triangular, normal below the
    diagonal and :math:`A_{ii}^2\sim\chi^2_{n-i+1}` (Bartlett 1933). Millions of samples cost nothing.

    Args:
        generators: one for each matrix; they become the batch axis.
        n: number of samples, n >= d.
        d: dimension, >= 1.
        dtype: floating point type.

    Returns:
        `(matrices, d, d)`.

    Raises:
        ValueError: n < d, d < 1, or there is no generator.
    """
    if not 1 <= d <= n:
        raise ValueError(f"n = {n}, d = {d}; allowed: 1 <= d <= n (draw the samples themselves if n < d)")
    if not len(generators):
        raise ValueError("generators is empty; allowed: at least one")
    drawn = []
    for generator in generators:
        seed = int(torch.randint(2**62, (), generator=generator))
        random = np.random.default_rng(seed)
        A = np.tril(random.standard_normal((d, d)), -1)
        A[np.diag_indices(d)] = np.sqrt(random.chisquare(n - np.arange(d)))
        drawn.append(torch.from_numpy(A @ A.T / n).to(dtype))
    return torch.stack(drawn)


def squared_weights_gradient(X: Tensor, y: Tensor, rows: Tensor | None = None) -> Gradient:
    r"""Return the gradient of the squared-weight model, :math:`\frac1nX^\top(X(\theta\odot\theta)-y)\odot\theta`.

    Args:
        X: `(*batch, n, d)`.
        y: `(*batch, n)`.
        rows: `(cells, n)`, the weight of each sample in each cell of a grid, such as 1/m for the first m samples
            and 0 for the others; one more batch axis, before the last, that shares the data. 1/n without cells if
            left out.

    Returns:
        `gradient(theta, k)`, `(*batch, d)` from `theta (*batch, d)`, or `(*batch, cells, d)` with `rows`.

    Raises:
        ValueError: the shapes do not fit together.
    """
    d = require_tensors(X=(X, "*batch n d"), y=(y, "*runs n"))["d"]
    if rows is not None:
        require_tensors(X=(X, "*batch n d"), rows=(rows, "cells n"))

    def gradient(theta: Tensor, k: int) -> Tensor:
        require_last("theta", theta, X, d)
        if rows is not None and theta.shape[-2:-1] != rows.shape[:1]:
            raise ValueError(
                f"theta has shape {tuple(theta.shape)}; allowed: (*batch, cells = {len(rows)}, {d})"
            )
        beta = theta * theta
        if rows is None:
            residual = (beta[..., None, :] @ X.mT).squeeze(-2) - y
            return (residual[..., None, :] @ X).squeeze(-2) / X.shape[-2] * theta
        residual = (beta @ X.mT - y) * rows
        return residual @ X * theta

    return gradient


def population_gradient(truth: Tensor) -> Gradient:
    r"""Return the gradient for infinitely many samples, :math:`(\theta\odot\theta-\beta^\star)\odot\theta`.

    Args:
        truth: `(*batch, d)`.

    Returns:
        `gradient(theta, k)`, of the shape of `theta (*batch, d)`.

    Raises:
        ValueError: a shape or dtype is wrong, of the truth or at the call of theta.
    """
    d = require_tensors(truth=(truth, "*batch d"))["d"]

    def gradient(theta: Tensor, k: int) -> Tensor:
        require_last("theta", theta, truth, d)
        return (theta * theta - truth) * theta

    return gradient


def log_descent(
    X: Tensor,
    truth: Tensor,
    log_start: Tensor,
    step_size: float | Tensor,
    steps: int,
    record: Iterable[int] | None = None,
    noise: Tensor | None = None,
) -> Tensor:
    r"""Run gradient descent on the squared-weight model in the logarithms of its weights.

    The update :math:`\theta\leftarrow\theta\,(1-\eta g)`, :math:`g=\hat\Sigma(\beta-\beta^\star)`, becomes
    :math:`\log\theta\leftarrow\log\theta+\log(1-\eta g)`. These are the same iterates in better arithmetic: weights
    of any size are kept with all their digits, and so is the error :math:`\beta-\beta^\star`, even far below the
    spacing of numbers near 1 (`recovery_error` reads it).

    Args:
        X: `(*batch, n, d)`; the targets are :math:`X\beta^\star`, plus `noise`.
        truth: `(*batch, d)`, >= 0.
        log_start: `(*batch, starts, d)`, logarithms of the starts; the starts share the data.
        step_size: eta > 0, a number or a tensor over `(*batch, starts, 1)`.
        steps: number of steps, >= 0.
        record: increasing step numbers between 0 and `steps`; the last one if left out.
        noise: what is added to the targets, `(*batch, starts, n)` or what broadcasts to it; nothing if left out.

    Returns:
        `(records, *batch, starts, d)`, logarithms of the weights.

    Raises:
        ValueError: a shape does not fit, `record` is out of range, a start is not finite (alpha <= 0, say), or the
            step size lets a weight change its sign, which a logarithm cannot follow.
    """
    d = require_tensors(X=(X, "*batch n d"), truth=(truth, "*batch d"))["d"]
    if require_tensors(log_start=(log_start, "*runs last"))["last"] != d:  # of any dtype: it is promoted
        raise ValueError(f"log_start has shape {tuple(log_start.shape)}; allowed: (*batch, starts, d = {d})")
    require_finite("X", X)
    require_finite("truth", truth)
    runs = torch.broadcast_shapes(X.shape[:-2], truth.shape[:-1], log_start.shape[:-2])
    starts = (*runs, *log_start.shape[-2:-1])
    eta = require_numbers("step_size", step_size, log_start)
    require_broadcast("step_size", eta, torch.Size((*starts, d)), enlarge=True)
    if noise is not None:
        require_last("noise", noise, log_start, X.shape[-2])
        require_broadcast("noise", noise, torch.Size((*starts, X.shape[-2])), enlarge=True)
    if bool((truth < 0).any()):
        raise ValueError("truth has entries < 0; allowed: >= 0")
    if not bool(torch.isfinite(log_start).all()):
        raise ValueError("log_start is not finite; allowed: the logarithms of positive starts, alpha > 0")
    kept = step_numbers([steps] if record is None else record, steps)
    log_theta, wanted, found = log_start, set(kept), []
    for k in range(kept[-1] + 1):
        if k in wanted:
            found.append(log_theta)
        if k < kept[-1]:
            error = recovery_error(log_theta, truth[..., None, :])
            residual = error @ X.mT if noise is None else error @ X.mT - noise
            growth = residual @ X * (-step_size / X.shape[-2])
            log_theta = log_theta + torch.log1p(growth)
    if not bool(torch.isfinite(log_theta).all()):
        raise ValueError(f"step_size = {step_size}; allowed: so small that no weight changes its sign")
    return torch.stack(found)


def recovery_error(log_theta: Tensor, truth: Tensor) -> Tensor:
    r"""Return :math:`\theta\odot\theta-\beta^\star` from log weights, with all digits however small it is.

    Args:
        log_theta: `(*batch, d)`.
        truth: `(d)` or `(*batch, d)`, >= 0.

    Returns:
        `(*batch, d)`.

    Raises:
        ValueError: a number is complex, or the two differ in d.
    """
    if log_theta.is_complex() or truth.is_complex() or log_theta.shape[-1:] != truth.shape[-1:]:
        raise ValueError(
            f"log_theta, truth = {log_theta.dtype} {tuple(log_theta.shape)}, {truth.dtype} {tuple(truth.shape)}; "
            "allowed: real, (*batch, d) with one d"
        )
    positive = ~(truth <= 0)  # a NaN stays one
    safe = torch.where(positive, truth, 1.0)
    return torch.where(positive, truth * torch.expm1(2 * log_theta - safe.log()), torch.exp(2 * log_theta))


def log_start(alpha: float | Sequence[float] | Tensor, d: int, like: Tensor) -> Tensor:
    """Return the logarithms of the starts alpha (1, ..., 1), `(starts, d)`.

    Args:
        alpha: one scale or several, each positive and finite.
        d: number of weights, >= 1.
        like: a tensor of any shape, whose dtype and device the result has.

    Raises:
        ValueError: a scale is not positive and finite.
    """
    if not like.is_floating_point():
        raise ValueError(f"like has dtype {like.dtype}; allowed: a real floating point dtype")
    scales = require_numbers("alpha", alpha, like)
    if scales.ndim > 1 or not bool(((scales > 0) & torch.isfinite(scales)).all()):
        raise ValueError(
            f"alpha = {scales.tolist()}; allowed: one or several, finite, > 0 (at 0 the gradient vanishes)"
        )
    return scales.reshape(-1).log()[:, None].expand(-1, d)


def restricted_isometry_constant(moment: Tensor, order: int, chunk: int = 65536) -> Tensor:
    r"""Return the exact constant :math:`\delta_s=\max_{|T|=s}\lVert(\hat\Sigma-I)_{TT}\rVert`.

    It is the least number with :math:`(1-\delta)\lVert v\rVert^2\le v^\top\hat\Sigma v\le(1+\delta)\lVert v\rVert^2`
    for all v with at most s nonzero entries (Candes & Tao 2005). Order 1 and 2 have closed forms; higher orders are
    enumerated, all supports of a chunk in one batch.

    Args:
        moment: `(*batch, d, d)`, symmetric.
        order: s, 1 <= s <= d; there are binomial(d, s) supports.
        chunk: supports per batch.

    Returns:
        `(*batch)`.

    Raises:
        ValueError: `moment` is not square and symmetric, `order` is out of range, or there are more than 20
            million supports.
    """
    d = _square(moment)
    if not 1 <= order <= d:
        raise ValueError(f"order = {order}; allowed: between 1 and d = {d}")
    apart = moment - torch.eye(d, dtype=moment.dtype, device=moment.device)
    diagonal = apart.diagonal(dim1=-2, dim2=-1)
    if order == 1:
        return diagonal.abs().amax(-1)
    if order == 2:  # eigenvalues of [[a, c], [c, b]]
        a, b = diagonal[..., :, None], diagonal[..., None, :]
        radius = torch.sqrt(((a - b) / 2) ** 2 + apart**2)
        off = ~torch.eye(d, dtype=torch.bool, device=moment.device)
        return (((a + b) / 2).abs() + radius)[..., off].amax(-1)
    worst = torch.zeros(moment.shape[:-2], dtype=moment.dtype, device=moment.device)
    for supports in _supports(d, order, chunk, moment.device):
        blocks = apart[..., supports[:, :, None], supports[:, None, :]]
        worst = torch.maximum(worst, torch.linalg.eigvalsh(blocks).abs().amax((-2, -1)))
    return worst


def cross_isometry_constant(
    moment: Tensor, order: int, other: int | None = None, chunk: int = 65536
) -> Tensor:
    r"""Return the largest :math:`|v^\top(\hat\Sigma-I)w|` over unit v, w with at most `order` and `other` entries.

    Args:
        moment: `(*batch, d, d)`, symmetric.
        order: number of entries of v, between 1 and d.
        other: number of entries of w; `order` if left out.
        chunk: pairs of supports per batch.

    Returns:
        `(*batch)`.

    Raises:
        ValueError: `moment` is not square and symmetric, or an order is out of range.
    """
    d = _square(moment)
    other = order if other is None else other
    for size in (order, other):
        if not 1 <= size <= d:
            raise ValueError(f"order = {order}, other = {other}; allowed: between 1 and d = {d}")
    apart = moment - torch.eye(d, dtype=moment.dtype, device=moment.device)
    worst = torch.zeros(moment.shape[:-2], dtype=moment.dtype, device=moment.device)
    columns = torch.cat(list(_supports(d, other, chunk, moment.device)))
    for rows in _supports(d, order, max(1, chunk // len(columns)), moment.device):
        blocks = apart[..., rows[:, None, :, None], columns[None, :, None, :]]
        gram = blocks @ blocks.mT if order <= other else blocks.mT @ blocks
        worst = torch.maximum(worst, torch.linalg.eigvalsh(gram)[..., -1].clamp(min=0).sqrt().amax((-2, -1)))
    return worst


def basis_pursuit(X: Tensor, y: Tensor, *, signed: bool = False) -> Tensor:
    r"""Return the interpolant of least :math:`\ell_1` norm, :math:`\arg\min\{\lVert\beta\rVert_1:X\beta=y\}`.

    Args:
        X: `(*batch, n, d)`.
        y: `(*batch, n)`.
        signed: also search among negative entries (Chen, Donoho & Saunders 1998); by default beta >= 0.

    Returns:
        `(*batch, d)`.

    Raises:
        ValueError: the shapes do not fit together, or no interpolant exists.
    """
    sizes = require_tensors(X=(X, "*batch n d"), y=(y, "*batch n"), finite=True)
    if y.shape != X.shape[:-1]:
        raise ValueError(f"y has shape {tuple(y.shape)}; allowed: {tuple(X.shape[:-1])}")
    n, d = sizes["n"], sizes["d"]
    found = []
    for samples, targets in zip(_flat(X, n, d), _flat(y, n), strict=True):
        columns = np.hstack([samples, -samples]) if signed else samples
        done = linprog(np.ones(columns.shape[1]), A_eq=columns, b_eq=targets, method="highs")
        if not done.success:
            raise ValueError(f"y has no interpolant: {done.message}; allowed: y = X beta for an allowed beta")
        found.append(done.x[:d] - done.x[d:] if signed else done.x)
    return torch.from_numpy(np.stack(found)).to(X).reshape(*X.shape[:-2], d)


def best_certificate(X: Tensor, support: Tensor) -> Certificate:
    r"""Return the dual certificate with the lowest level off the support.

    .. math:: \tau=\min_w\max_{i\notin S}\langle x_i,w\rangle\quad\text{subject to}\quad
        \langle x_j,w\rangle=1\ (j\in S),

    where :math:`x_i` are the columns of X. If tau < 1, nonnegative basis pursuit recovers every vector on S.

    Args:
        X: `(n, d)`.
        support: `(d)` bool.

    Raises:
        ValueError: the shapes do not fit, the support is empty or everything, or the program has no solution (the
            level is unbounded below, as it is for n >= d).
    """
    require_tensors(X=(X, "n d"), finite=True)
    if support.shape != X.shape[-1:] or support.dtype != torch.bool:
        raise ValueError(
            f"X has shape {tuple(X.shape)}, support {tuple(support.shape)}; allowed: (n, d) and bool (d)"
        )
    inside = support.cpu().numpy()
    if not 0 < inside.sum() < inside.size:
        raise ValueError(f"support has {int(inside.sum())} entries; allowed: at least one, fewer than d")
    samples = X.detach().cpu().numpy().astype(np.float64)
    n = samples.shape[0]
    off, on = samples[:, ~inside].T, samples[:, inside].T
    done = linprog(
        np.append(np.zeros(n), 1.0),
        A_ub=np.hstack([off, -np.ones((len(off), 1))]),
        b_ub=np.zeros(len(off)),
        A_eq=np.hstack([on, np.zeros((len(on), 1))]),
        b_eq=np.ones(len(on)),
        bounds=(None, None),
        method="highs",
    )
    if not done.success:
        raise ValueError(
            f"no best certificate: {done.message}; allowed: independent columns on S, n well below d"
        )
    return Certificate(float(done.x[-1]), torch.from_numpy(done.x[:-1]).to(X))


def least_norm_certificate(X: Tensor, truth: Tensor) -> Tensor:
    r"""Return :math:`X^\top X_S(X_S^\top X_S)^{-1}1`, the products of all columns with the shortest certificate.

    Its entries are 1 on the support; if they stay below 1 elsewhere, the lasso recovers the support (Fuchs 2004).

    Args:
        X: `(*batch, n, d)`.
        truth: `(*batch, d)`, zeros and ones, as many ones in every problem.

    Returns:
        `(*batch, d)`.

    Raises:
        ValueError: the problems differ in sparsity, an entry is neither 0 nor 1, or the shapes do not fit.
    """
    d = require_tensors(X=(X, "*batch n d"), finite=True)["d"]
    if require_tensors(truth=(truth, "*batch last"))["last"] != d:
        raise ValueError(f"truth has shape {tuple(truth.shape)}; allowed: (*batch, d = {d})")
    if not bool(((truth == 0) | (truth == 1)).all()):
        raise ValueError("truth has other entries than 0 and 1; allowed: zeros and ones")
    if truth.shape[:-1] != X.shape[:-2]:
        raise ValueError(f"truth has shape {tuple(truth.shape)}; allowed: {(*X.shape[:-2], d)}")
    inside = truth > 0
    counts = inside.sum(-1)
    sparsity = int(counts.flatten()[0])
    if not bool((counts == sparsity).all()):
        raise ValueError("truth: the problems differ in sparsity; allowed: the same number of ones in all")
    places = inside.to(torch.int8).argsort(dim=-1, descending=True, stable=True)[..., :sparsity]
    on = torch.gather(X, -1, places[..., None, :].expand(*X.shape[:-1], places.shape[-1]))
    ones = torch.ones(*on.shape[:-2], on.shape[-1], 1, dtype=X.dtype, device=X.device)
    return (X.mT @ (on @ torch.linalg.solve(on.mT @ on, ones))).squeeze(-1)


def entropy_limit(X: Tensor, y: Tensor, alphas: Sequence[float], *, tolerance: float = 1e-10) -> Tensor:
    r"""Return where gradient flow from :math:`\alpha(1,\dots,1)` ends, without following it.

    It is the interpolant that minimizes :math:`\sum_i\beta_i\log(\beta_i/\alpha^2)-\beta_i`, computed from the dual:
    :math:`\beta_i=\alpha^2e^{\langle x_i,\nu\rangle}` with :math:`X\beta=y`, by Newton's method along a path of
    shrinking alpha.

    Args:
        X: `(*batch, n, d)` of rank n < d.
        y: `(*batch, n)`, such that some interpolant has positive entries only.
        alphas: decreasing scales, all > 0.
        tolerance: largest relative residual of the equations that is accepted.

    Returns:
        `(alphas, *batch, d)`.

    Raises:
        ValueError: the scales are not positive and decreasing, n >= d, or Newton's method does not arrive.
    """
    scales = [float(alpha) for alpha in alphas]
    if not scales or min(scales) <= 0 or any(b >= a for a, b in pairwise(scales)):
        raise ValueError(f"alphas = {scales}; allowed: positive and decreasing")
    require_tensors(X=(X, "*batch n d"), y=(y, "*batch n"), finite=True)
    if X.shape[-2] >= X.shape[-1]:
        raise ValueError(f"X has shape {tuple(X.shape)}; allowed: (*batch, n, d) with n < d")
    size = y.abs().amax(-1, keepdim=True).clamp(min=torch.finfo(X.dtype).tiny)
    level = 2 * math.log(max(1.0, scales[0]))
    nu = torch.zeros_like(y)
    found: list[Tensor] = []

    def residual(nu: Tensor, level: float) -> tuple[Tensor, Tensor]:
        beta = torch.exp(((nu[..., None, :] @ X).squeeze(-2) + level).clamp(max=300))
        return beta, (X @ beta[..., None]).squeeze(-1) - y

    def newton(nu: Tensor, level: float) -> Tensor:
        for _ in range(60):
            beta, off = residual(nu, level)
            if bool((off.abs() <= 1e-13 * size).all()):
                break
            step = torch.linalg.solve((X * beta[..., None, :]) @ X.mT, off[..., None]).squeeze(-1)
            move = (step[..., None, :] @ X).abs().amax((-2, -1))[..., None]
            nu = nu - step / move.clamp(min=1.0)  # no weight changes by more than a factor e
        return nu

    nu = newton(nu, level)
    for alpha in scales:
        target = 2 * math.log(alpha)
        while level > target:
            ahead = max(target, level - 0.5)
            beta, _ = residual(nu, level)
            slope = torch.linalg.solve((X * beta[..., None, :]) @ X.mT, (X @ beta[..., None]))
            nu = newton(nu + (level - ahead) * slope.squeeze(-1), ahead)
            level = ahead
        beta, off = residual(nu, level)
        if not bool((off.abs() <= tolerance * size).all()):
            raise ValueError(
                f"alpha = {alpha}: Newton's method did not arrive; allowed: larger alpha, y = X beta, beta > 0"
            )
        found.append(beta)
    return torch.stack(found)


def _square(moment: Tensor) -> int:
    require_tensors(moment=(moment, "*batch d d"), finite=True)
    require_symmetric("moment", moment)
    return int(moment.shape[-1])


def _supports(d: int, order: int, chunk: int, device: torch.device) -> Iterable[Tensor]:
    """Yield all supports of a size, `(at most chunk, order)` at a time."""
    if math.comb(d, order) > 20_000_000:
        raise ValueError(
            f"d = {d}, order = {order}: {math.comb(d, order)} supports; allowed: at most 20 million"
        )
    every = np.fromiter((i for support in combinations(range(d), order) for i in support), dtype=np.int64)
    return torch.from_numpy(every.reshape(-1, order)).to(device).split(chunk)


def _flat(values: Tensor, *shape: int) -> np.ndarray:
    return values.detach().cpu().numpy().astype(np.float64).reshape(-1, *shape)
