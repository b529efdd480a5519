r"""Margins of linear classifiers: how large they are, how large they can be, and the flow that enlarges them.

A sample :math:`x_i` with label :math:`y_i=\pm1` enters everything through the signed sample :math:`z_i=y_ix_i`: the
classifier :math:`\theta` gets it right exactly if :math:`\langle z_i,\theta\rangle>0`. `signed_samples` makes them; all
other functions take them as `signed (*batch, n, d)`, one a row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import torch
from scipy.optimize import linprog, nnls
from torch import Tensor

from learning_dynamics._internal.arguments import require_choice, require_numbers, require_tensors
from learning_dynamics.ensembles import Gradient

LOSSES = ("exponential", "logistic")


class HardMargin(NamedTuple):
    r"""The classifier of largest margin.

    Attributes:
        weights: `(*batch, d)`, the vector :math:`\hat w` of least norm with :math:`\langle z_i,\hat w\rangle\ge1`.
        margin: `(*batch)`, the largest normalized margin :math:`1/\lVert\hat w\rVert`.
        dual: `(*batch, n)`, multipliers :math:`a_i\ge0` with :math:`\hat w=\sum_ia_iz_i`; positive only for support
            vectors.
        support: `(*batch, n)` bool, the samples with :math:`\langle z_i,\hat w\rangle=1`, to 1e-9, or to
            rounding where margins are tiny.
    """

    weights: Tensor
    margin: Tensor
    dual: Tensor
    support: Tensor


class MarginFlow(NamedTuple):
    """A gradient flow of a loss with an exponential tail, seen at chosen times.

    Attributes:
        log_times: `(T,)`, the natural logarithms of the times.
        values: `(T, *batch, d)`, theta at these times.
        evaluations: number of times the velocity was computed.
    """

    log_times: Tensor
    values: Tensor
    evaluations: int


def signed_samples(X: Tensor, y: Tensor) -> Tensor:
    r"""Return the signed samples :math:`z_i=y_ix_i`.

    Args:
        X: `(*batch, n, d)`, floating point, samples in rows.
        y: `(*batch, n)`, labels -1 and +1 in any dtype.

    Returns:
        `(*batch, n, d)` in the dtype of `X`.

    Raises:
        ValueError: the shapes do not fit together, or a label is neither -1 nor +1.
    """
    require_tensors(X=(X, "*batch n d"))
    if y.shape != X.shape[:-1]:
        raise ValueError(
            f"X has shape {tuple(X.shape)} and y {tuple(y.shape)}; allowed: (*batch, n, d) and (*batch, n)"
        )
    if y.is_complex() or y.device != X.device:
        raise ValueError(f"y is {y.dtype} on {y.device}; allowed: real labels on {X.device}")
    if not bool((y.abs() == 1).all()):
        found = sorted({float(label) for label in torch.unique(y)})
        raise ValueError(f"y has the labels {found[:5]}; allowed: -1 and +1 (from 0 and 1: 2 * y - 1)")
    return y[..., None].to(X.dtype) * X


def functional_margins(theta: Tensor, signed: Tensor) -> Tensor:
    r"""Return :math:`\langle z_i,\theta\rangle`, `(*batch, n)`, from `theta (*batch, d)` and `signed (*batch, n, d)`.

    Raises:
        ValueError: the shapes do not fit together.
    """
    require_tensors(theta=(theta, "*batch d"), signed=(signed, "*batch n d"))
    return (signed @ theta[..., None]).squeeze(-1)


def log_exponential_loss(theta: Tensor, signed: Tensor) -> Tensor:
    r"""Return :math:`\log\sum_i e^{-\langle z_i,\theta\rangle}`, `(*batch)`, without overflow or underflow.

    Args:
        theta: `(*batch, d)`.
        signed: `(*batch, n, d)`.

    Raises:
        ValueError: the shapes do not fit together.
    """
    return torch.logsumexp(-functional_margins(theta, signed), -1)


def sample_weights(theta: Tensor, signed: Tensor) -> Tensor:
    r"""Return each sample's share of the exponential loss, `(*batch, n)`.

    .. math:: p_i=e^{-\langle z_i,\theta\rangle}/\sum_je^{-\langle z_j,\theta\rangle}

    The gradient of `log_exponential_loss` is :math:`-\sum_ip_iz_i`.

    Args:
        theta: `(*batch, d)`.
        signed: `(*batch, n, d)`.

    Raises:
        ValueError: the shapes do not fit together.
    """
    return torch.softmax(-functional_margins(theta, signed), -1)


def normalized_margin(theta: Tensor, signed: Tensor, order: float = 2.0) -> Tensor:
    r"""Return :math:`\gamma(\theta)=\min_i\langle z_i,\theta\rangle/\lVert\theta\rVert`, `(*batch)`.

    Source: Definition 9.23 of Ma's lecture notes (2022), for the Euclidean norm.

    Args:
        theta: `(*batch, d)`, nowhere zero.
        signed: `(*batch, n, d)`.
        order: of the norm in the denominator, >= 1; `math.inf` for the largest entry.

    Raises:
        ValueError: the shapes do not fit together, a theta is zero, or `order` is below 1.
    """
    return functional_margins(theta, signed).amin(-1) / _norm(theta, order)


def smooth_margin(theta: Tensor, signed: Tensor, order: float = 2.0) -> Tensor:
    r"""Return :math:`\tilde\gamma(\theta)=-\log\mathcal L(\theta)/\lVert\theta\rVert`, `(*batch)`, exponential loss.

    It lies below the normalized margin, by at most :math:`\log n/\lVert\theta\rVert`. Source: (9.156) of Ma's notes.

    Raises:
        ValueError: as in `normalized_margin`.
    """
    return -log_exponential_loss(theta, signed) / _norm(theta, order)


def logistic_gradient(signed: Tensor) -> Gradient:
    r"""Return the gradient of the logistic loss, a sum: :math:`\sum_i\log(1+e^{-\langle z_i,\theta\rangle})`.

    Args:
        signed: `(*batch, n, d)`.

    Returns:
        `gradient(theta, k)`, `(*batch, d)` from `theta (*batch, d)`; it does not depend on the step number k.
    """

    def gradient(theta: Tensor, k: int) -> Tensor:
        pull = torch.sigmoid(-functional_margins(theta, signed))
        return -(pull[..., None, :] @ signed).squeeze(-2)

    return gradient


def normalized_gradient(signed: Tensor) -> Gradient:
    r"""Return the gradient of `log_exponential_loss`, :math:`-\sum_ip_iz_i`: that of the loss, divided by the loss.

    Args:
        signed: `(*batch, n, d)`.

    Returns:
        `gradient(theta, k)`, `(*batch, d)` from `theta (*batch, d)`; it does not depend on the step number k.
    """

    def gradient(theta: Tensor, k: int) -> Tensor:
        return -(sample_weights(theta, signed)[..., None, :] @ signed).squeeze(-2)

    return gradient


def hard_margin_svm(signed: Tensor) -> HardMargin:
    r"""Return the classifier of largest Euclidean margin through the origin.

    .. math:: \min_w\lVert w\rVert\quad\text{with }\langle z_i,w\rangle\ge1\text{ for all }i

    Least-distance programming (Lawson and Hanson 1974, ch. 23): with the rows of Z the signed samples, non-negative
    least squares on :math:`E=(Z,\mathbf 1)^\top` and :math:`f=(0,\dots,0,1)` leaves the residual :math:`r=Eu-f`. It is
    zero exactly if no classifier separates the data, and otherwise :math:`w=-r_{1..d}/r_{d+1}`. `scipy.optimize.nnls`
    is a finite active-set method; its solution is polished by solving the linear system of its support vectors once.
    One data set at a time, on the CPU in float64.

    Args:
        signed: `(*batch, n, d)`.

    Raises:
        ValueError: the data are not linearly separable through the origin (a margin below 1e-8 of the longest sample
            counts as none), or `signed` has the wrong shape or a value that is not finite.
    """
    flat, batch = _data_sets(signed)
    weights, duals = [], []
    for index, Z in enumerate(flat):
        scale = np.linalg.norm(Z, axis=1).max()
        if scale == 0:
            raise _not_separable(index)
        weight, dual = _least_distance(Z / scale, index)
        weights.append(weight / scale)
        duals.append(dual / scale**2)
    n, d = signed.shape[-2:]
    w = torch.from_numpy(np.stack(weights)).to(signed).reshape(*batch, d)
    a = torch.from_numpy(np.stack(duals)).to(signed).reshape(*batch, n)
    slack = functional_margins(w, signed) - 1
    longest = signed.norm(dim=-1).amax(-1) * w.norm(dim=-1)  # what rounding of a margin is in proportion to
    return HardMargin(w, 1 / w.norm(dim=-1), a, slack.abs() <= (1e-14 * longest).clamp(min=1e-9)[..., None])


def largest_margin(signed: Tensor, order: float) -> Tensor:
    r"""Return the largest margin with the norm of order 1 or infinity in the denominator, `(*batch)`.

    A linear program, :math:`\max m` with :math:`\langle z_i,\theta\rangle\ge m` and :math:`\lVert\theta\rVert\le1`,
    solved by HiGHS (`scipy.optimize.linprog`). For the Euclidean norm take `hard_margin_svm`.

    Args:
        signed: `(*batch, n, d)`.
        order: 1 or `math.inf`.

    Raises:
        ValueError: another order, or as in `hard_margin_svm`.
    """
    if order not in (1, math.inf):
        raise ValueError(f"order = {order}; allowed: 1 and infinity (for 2: hard_margin_svm)")
    flat, batch = _data_sets(signed)
    found = []
    for index, Z in enumerate(flat):  # theta = u - v with u, v >= 0; the unknowns are u, v, m
        n, d = Z.shape
        rows, bounds = [np.hstack([-Z, Z, np.ones((n, 1))])], [0.0] * n
        if order == 1:
            rows.append(np.hstack([np.ones((1, 2 * d)), np.zeros((1, 1))]))
            bounds.append(1.0)
        limits = [(0, 1)] * (2 * d) + [(None, None)]
        cost = np.r_[np.zeros(2 * d), -1.0]
        solution = linprog(cost, A_ub=np.vstack(rows), b_ub=bounds, bounds=limits, method="highs")
        if not solution.success or -solution.fun <= 1e-9 * np.abs(Z).max():
            raise _not_separable(index)
        found.append(-solution.fun)
    return torch.tensor(found).to(signed).reshape(batch)


def exponential_flow(
    signed: Tensor,
    theta0: Tensor,
    log_times: Sequence[float] | Tensor,
    *,
    loss: Literal["exponential", "logistic"] = "exponential",
    tolerance: float = 1e-9,
    max_steps: int = 100_000,
) -> MarginFlow:
    r"""Integrate the gradient flow of a loss with an exponential tail to times whose logarithms are in the thousands.

    .. math:: \dot\theta=-\nabla\mathcal L(\theta)=\sum_iz_ie^{-\langle z_i,\theta\rangle}

    The clock is :math:`s=\log(1+t)`, in which the flow reads

    .. math:: \frac{d\theta}{ds}=e^{\,s+\log\mathcal L(\theta)}\sum_ip_iz_i,
        \qquad p_i=e^{-\langle z_i,\theta\rangle}/\mathcal L,

    so that neither t nor the loss is ever formed. (The logistic loss has :math:`1/(1+e^{\langle z_i,\theta\rangle})` in
    the place of :math:`e^{-\langle z_i,\theta\rangle}`, and their sum in that of the loss.) On separable data
    :math:`s+\log\mathcal L` tends to a constant: the flow relaxes to the straight motion
    :math:`\hat w s+\text{const}`, and what is stiff in s is damped by a Rosenbrock method of order 4 with an embedded
    one of order 3 (Shampine's coefficients, ACM TOMS 8, 1982; Kaps and Rentrop 1979), with the exact Jacobian. All data
    sets of a batch take common steps.

    Args:
        signed: `(*batch, n, d)`; it need not be separable.
        theta0: `(d)` or `(*batch, d)`, theta at t = 0.
        log_times: `(T,)`, increasing natural logarithms of the times.
        loss: "exponential" or "logistic".
        tolerance: of the error of one step, absolute, in units of theta; > 0.
        max_steps: give up after so many steps.

    Returns:
        The path at these times.

    Raises:
        ValueError: a shape, `log_times`, `loss` or `tolerance` is not as described, or `theta0` is not float64.
        RuntimeError: `max_steps` did not suffice, or the step became too small.
    """
    require_tensors(theta0=(theta0, "*batch d"), signed=(signed, "*batch n d"), finite=True)
    if signed.dtype != torch.float64 or theta0.dtype != torch.float64:
        raise ValueError(f"signed is {signed.dtype} and theta0 {theta0.dtype}; allowed: float64")
    require_choice("loss", loss, LOSSES)
    if not tolerance > 0:
        raise ValueError(f"tolerance = {tolerance}; allowed: > 0")
    grid = require_numbers("log_times", log_times, theta0.cpu())
    if grid.ndim != 1:
        raise ValueError(f"log_times has shape {tuple(grid.shape)}; allowed: (T,)")
    if grid.numel() == 0 or not bool((grid.diff() > 0).all()) or not bool(torch.isfinite(grid).all()):
        raise ValueError(f"log_times = {grid.tolist()}; allowed: finite, strictly increasing, at least one")
    functional_margins(theta0, signed)  # raises if the shapes do not fit
    theta = theta0.expand(*torch.broadcast_shapes(theta0.shape[:-1], signed.shape[:-2]), theta0.shape[-1])
    clocks = torch.logaddexp(torch.zeros_like(grid), grid).tolist()
    clock, values, stepper = 0.0, [], _Rosenbrock(signed, loss)
    step = clocks[0] / 8
    for target in clocks:
        while clock < target:
            if stepper.steps == max_steps:
                raise RuntimeError(
                    f"max_steps = {max_steps} did not suffice: stopped at log(1 + t) = {clock:.3g}"
                )
            h = min(step, target - clock)
            candidate, error = stepper.step(clock, theta, h)
            ratio = error / tolerance  # a NaN counts as too large
            growth = min(4.0, max(0.2, 0.9 * max(ratio, 1e-8) ** -0.25)) if math.isfinite(ratio) else 0.1
            if ratio <= 1:
                step = max(step, h * growth) if h < step else h * growth
                clock, theta = (target if h == target - clock else clock + h), candidate
            else:
                step = h * growth
                if clock + step == clock and clock > 0:
                    raise RuntimeError(f"the step became too small at log(1 + t) = {clock:.3g}")
        values.append(theta)
    return MarginFlow(grid.to(theta.device), torch.stack(values), stepper.evaluations)


class _Rosenbrock:
    """One step of Shampine's Rosenbrock method for the velocity of `exponential_flow`."""

    def __init__(self, signed: Tensor, loss: str) -> None:
        self.signed = signed
        self.logistic = loss == "logistic"
        self.identity = torch.eye(signed.shape[-1], dtype=signed.dtype, device=signed.device)
        self.evaluations = 0
        self.steps = 0

    def velocity(self, clock: float, theta: Tensor) -> tuple[Tensor, Tensor]:
        """Return d theta/ds `(*batch, d)`, and minus its coefficients' slopes `(*batch, n)` in the margins."""
        self.evaluations += 1
        minus = -(self.signed @ theta[..., None]).squeeze(-1)
        pulls = torch.nn.functional.logsigmoid(minus) if self.logistic else minus  # logarithms
        coefficients = torch.exp(clock + pulls)
        bends = coefficients * torch.sigmoid(-minus) if self.logistic else coefficients
        return (coefficients[..., None, :] @ self.signed).squeeze(-2), bends

    def step(self, s: float, theta: Tensor, h: float) -> tuple[Tensor, float]:
        """Return theta after a step of length h, and the largest error over the batch."""
        self.steps += 1
        k0, bends = self.velocity(s, theta)
        # the Jacobian of the velocity in theta is -sum_i bends_i z_i z_i^T; its derivative in s is itself
        curvature = (self.signed * bends[..., None]).mT @ self.signed
        matrix = self.identity * (2 / h) + curvature
        factors = torch.linalg.lu_factor(matrix)

        def solve(right: Tensor) -> Tensor:
            return torch.linalg.lu_solve(*factors, right[..., None]).squeeze(-1)

        g1 = solve(k0 + h * 0.5 * k0)
        k1, _ = self.velocity(s + h, theta + 2 * g1)
        g2 = solve(k1 - h * 1.5 * k0 - 8 * g1 / h)
        k2, _ = self.velocity(s + 0.6 * h, theta + (48 * g1 + 6 * g2) / 25)
        g3 = solve(k2 + h * 2.42 * k0 + (14.88 * g1 + 2.4 * g2) / h)
        g4 = solve(k2 + h * 0.116 * k0 - (0.896 * g1 + 0.432 * g2 + 0.4 * g3) / h)
        change = 19 / 9 * g1 + 0.5 * g2 + 25 / 108 * g3 + 125 / 108 * g4
        error = 17 / 54 * g1 + 7 / 36 * g2 + 125 / 108 * g4
        return theta + change, float(error.norm(dim=-1).max())


def _norm(theta: Tensor, order: float) -> Tensor:
    if not order >= 1:
        raise ValueError(f"order = {order}; allowed: >= 1, infinity included")
    norm = torch.linalg.vector_norm(theta, ord=order, dim=-1)
    if bool((norm == 0).any()):
        raise ValueError("theta = 0; allowed: a vector with a direction")
    return norm


def _data_sets(signed: Tensor) -> tuple[np.ndarray, torch.Size]:
    """Return the data sets one after the other, `(sets, n, d)` in float64, and the batch shape."""
    require_tensors(signed=(signed, "*batch n d"), finite=True)
    if 0 in signed.shape:
        raise ValueError(
            f"signed has shape {tuple(signed.shape)}; allowed: (*batch, n, d), none of them zero"
        )
    flat = signed.detach().to("cpu", torch.float64).reshape(-1, *signed.shape[-2:]).numpy()
    return flat, signed.shape[:-2]


def _not_separable(index: int) -> ValueError:
    return ValueError(
        f"data set {index} is not linearly separable through the origin; "
        "allowed: some theta has <z_i, theta> > 0 for all i"
    )


def _least_distance(Z: np.ndarray, index: int) -> tuple[np.ndarray, np.ndarray]:
    """Return weights `(d)` and multipliers `(n)` of one data set whose longest sample has norm 1."""
    n, d = Z.shape
    E = np.vstack([Z.T, np.ones((1, n))])
    f = np.r_[np.zeros(d), 1.0]
    u, _ = nnls(E, f, maxiter=30 * n)
    residual = E @ u - f
    # the square is 1 / (1 + |w|^2): a margin below 1e-8 of the longest sample counts as none
    if residual @ residual < 1e-16:
        raise _not_separable(index)
    active = np.flatnonzero(u > 0)
    dual = np.zeros(n)
    dual[active] = u[active] / -residual[-1]
    weights = Z.T @ dual
    # the least-norm w with <z_i, w> = 1 on the support, and its multipliers; not from Z Z^T, whose condition is squared
    exact = np.linalg.lstsq(Z[active], np.ones(len(active)), rcond=None)[0]
    polished = np.linalg.lstsq(Z[active].T, exact, rcond=None)[0]
    if (polished > 0).all() and (Z @ exact).min() > 1 - 1e-6:
        dual[active], weights = polished, exact
    if (Z @ weights).min() < 1 - 1e-6:
        raise _not_separable(index)
    return weights, dual
