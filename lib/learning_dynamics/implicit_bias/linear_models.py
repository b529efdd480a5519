r"""Least squares that many parameters solve: closed forms of the points where the optimizers end.

Data `X (*batch, n, d)` hold one sample a row, targets are `y (*batch, n)` or, for several outputs, `(*batch, n, c)`;
parameters are then `(*batch, d)` or `(*batch, d, c)`. The loss is the sum :math:`\frac12\lVert X\theta-y\rVert^2`.
Everything is computed from a QR factorization or an eigenvalue decomposition, in the dtype and on the device of `X`.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from learning_dynamics._internal.arguments import (
    require_count,
    require_last,
    require_numbers,
    require_symmetric,
    require_tensors,
)
from learning_dynamics.ensembles import Gradient


def least_squares_gradient(X: Tensor, y: Tensor) -> Gradient:
    r"""Return the gradient of the sum of squares, :math:`\nabla\mathcal L(\theta)=X^\top(X\theta-y)`.

    Args:
        X: `(*batch, n, d)`, samples in rows; it broadcasts against the batch axes of the parameters.
        y: `(*batch, n)`, targets; several outputs are a batch axis, `y (c, n)` with `theta (c, d)`.

    Returns:
        `gradient(theta, k)`, `(*batch, d)` from `theta (*batch, d)`; it does not depend on the step number k.

    Raises:
        ValueError: `X` and `y` do not fit together.
    """
    d = require_tensors(X=(X, "*batch n d"), y=(y, "*runs n"))["d"]

    def gradient(theta: Tensor, k: int) -> Tensor:
        require_last("theta", theta, X, d)
        residual = (theta[..., None, :] @ X.mT).squeeze(-2) - y
        return (residual[..., None, :] @ X).squeeze(-2)

    return gradient


def min_norm_solution(X: Tensor, y: Tensor) -> Tensor:
    r"""Return :math:`X^+y`: of all least-squares solutions the one of least Euclidean norm.

    For n <= d this is the interpolant :math:`X^\top(XX^\top)^{-1}y`, computed as :math:`QR^{-\top}y` from the
    factorization :math:`X^\top=QR`, which does not square the condition number as :math:`XX^\top` would; for n > d it
    is the ordinary least-squares solution.

    Args:
        X: `(*batch, n, d)` of full rank min(n, d).
        y: `(*batch, n)` or `(*batch, n, c)`.

    Returns:
        `(*batch, d)` or `(*batch, d, c)`.

    Raises:
        ValueError: the shapes do not fit together, or `X` is rank deficient to working precision.
    """
    theta = _min_norm(X, _outputs(X, y))
    return theta.squeeze(-1) if y.ndim < X.ndim else theta


def nearest_solution(X: Tensor, y: Tensor, start: Tensor, preconditioner: Tensor | None = None) -> Tensor:
    r"""Return the interpolant nearest to `start`, in the norm that a preconditioner measures with.

    .. math:: \arg\min_{X\theta=y}(\theta-\theta_0)^\top P^{-1}(\theta-\theta_0)
        =\theta_0+PX^\top(XPX^\top)^{-1}(y-X\theta_0)

    Args:
        X: `(*batch, n, d)` of full rank n <= d; its batch axes broadcast against those of `start`.
        y: `(*batch, n)`.
        start: `(*batch, d)`, the point theta_0.
        preconditioner: P, symmetric positive definite `(*batch, d, d)`; the identity if left out.

    Returns:
        `(*batch, d)`.

    Raises:
        ValueError: the shapes do not fit together, n > d, `X` is rank deficient, or P is not positive definite.
    """
    n, d = require_tensors(
        X=(X, "*batch n d"), y=(y, "*batch n"), start=(start, "*batch d"), finite=True
    ).values()
    if n > d:
        raise ValueError(f"X has shape {tuple(X.shape)}; allowed: at most as many samples n as parameters d")
    missing = (y - (start[..., None, :] @ X.mT).squeeze(-2))[..., None]
    if preconditioner is None:
        return start + _min_norm(X, missing).squeeze(-1)
    require_tensors(start=(start, "*batch d"), preconditioner=(preconditioner, "*batch d d"), finite=True)
    require_symmetric("preconditioner", preconditioner)
    root, failed = torch.linalg.cholesky_ex(preconditioner)
    if bool((failed != 0).any()):
        raise ValueError(
            "preconditioner is not positive definite; allowed: symmetric with positive eigenvalues"
        )
    return start + (root @ _min_norm(X @ root, missing)).squeeze(-1)


def project_row_space(X: Tensor, v: Tensor) -> Tensor:
    r"""Return :math:`\Pi v` with :math:`\Pi=X^+X`, the orthogonal projector on the span of the samples.

    Args:
        X: `(*batch, n, d)` of full rank n <= d.
        v: `(*batch, d)`.

    Returns:
        `(*batch, d)`.

    Raises:
        ValueError: n > d, the shapes do not fit together, or `X` is rank deficient.
    """
    n, d = require_tensors(X=(X, "*batch n d"), v=(v, "*batch d"), finite=True).values()
    if n > d:
        raise ValueError(f"X has shape {tuple(X.shape)}; allowed: (*batch, n, d) with n <= d")
    Q, R = torch.linalg.qr(X.mT)
    _require_full_rank(R, n, d)
    return (v[..., None, :] @ Q @ Q.mT).squeeze(-2)


def ridge_solution(X: Tensor, y: Tensor, penalty: float | Tensor) -> Tensor:
    r"""Return the minimizer of :math:`\frac12\lVert X\theta-y\rVert^2+\frac\lambda2\lVert\theta\rVert^2`.

    Args:
        X: `(*batch, n, d)`; no assumption on the rank.
        y: `(*batch, n)` or `(*batch, n, c)`.
        penalty: lambda > 0, a number or a tensor that broadcasts against `*batch`.

    Returns:
        `(*batch, d)` or `(*batch, d, c)`.

    Raises:
        ValueError: the shapes do not fit together or a penalty is not positive.
    """
    require_tensors(X=(X, "*batch n d"), finite=True)
    strength = require_numbers("penalty", penalty, X)
    if not bool((strength > 0).all()):
        raise ValueError(f"penalty = {strength.tolist()}; allowed: positive numbers")
    return _filtered(X, y, lambda s: 1 / (s + strength[..., None]))


def stopped_gradient_descent(X: Tensor, y: Tensor, step_size: float | Tensor, steps: int) -> Tensor:
    r"""Return gradient descent's iterate from zero after a number of steps, without taking them.

    On the eigenvalue s of :math:`X^\top X` the iterate has covered the share :math:`1-(1-\eta s)^k` of its way.
    Small eigenvalues do no harm: their share is about :math:`k\eta s`.

    Args:
        X: `(*batch, n, d)`; no assumption on the rank.
        y: `(*batch, n)` or `(*batch, n, c)`.
        step_size: eta >= 0 with eta times the largest eigenvalue below 2; a number or a tensor over `*batch`.
        steps: k >= 0.

    Returns:
        `(*batch, d)` or `(*batch, d, c)`.

    Raises:
        ValueError: the shapes do not fit together, `steps` is negative, or the step size is too large.
    """
    require_count("steps", steps, least=0)
    require_tensors(X=(X, "*batch n d"), finite=True)
    eta = require_numbers("step_size", step_size, X)[..., None]

    def share(s: Tensor) -> Tensor:
        if not bool(((eta >= 0) & (eta * s < 2)).all()):
            raise ValueError(
                f"step_size = {step_size!r}; allowed: from 0 to below 2 over the largest eigenvalue"
            )
        x = eta * s
        covered = torch.where(
            x < 0.5, -torch.expm1(steps * torch.log1p(-x.clamp(max=0.5))), 1 - (1 - x) ** steps
        )
        return torch.where(s > 0, covered / s.clamp(min=torch.finfo(s.dtype).tiny), steps * eta)

    return _filtered(X, y, share)


def random_features(inputs: Tensor, weights: Tensor) -> Tensor:
    r"""Return the hidden layer of a network whose first layer stays random, :math:`\max(0, Wx)`.

    Args:
        inputs: `(*batch, n, d_x)`.
        weights: W `(*batch, d, d_x)`; more rows are more features, and do not change the earlier ones.

    Returns:
        `(*batch, n, d)`.

    Raises:
        ValueError: the two differ in d_x.
    """
    require_tensors(inputs=(inputs, "*batch n d_x"), weights=(weights, "*batch d d_x"))
    return torch.relu(inputs @ weights.mT)


def _min_norm(X: Tensor, targets: Tensor) -> Tensor:
    """Return the least-squares solution of least norm for `targets (*batch, n, c)`; batch axes broadcast."""
    n, d = X.shape[-2:]
    Q, R = torch.linalg.qr(X.mT if n <= d else X)
    _require_full_rank(R, n, d)
    if n <= d:
        return Q @ torch.linalg.solve_triangular(R.mT, targets, upper=False)
    return torch.linalg.solve_triangular(R, Q.mT @ targets, upper=True)


def _filtered(X: Tensor, y: Tensor, weight: Callable[[Tensor], Tensor]) -> Tensor:
    r"""Return :math:`\sum_i w(s_i)v_iv_i^\top X^\top y` over the eigenpairs of the smaller Gram matrix."""
    targets = _outputs(X, y)
    n, d = X.shape[-2:]
    gram = X @ X.mT if n <= d else X.mT @ X
    s, U = torch.linalg.eigh(gram)
    w = weight(s.clamp(min=0.0))[..., None]
    if n <= d:
        theta = X.mT @ (U @ (w * (U.mT @ targets)))
    else:
        theta = U @ (w * (U.mT @ (X.mT @ targets)))
    return theta.squeeze(-1) if y.ndim < X.ndim else theta


def _outputs(X: Tensor, y: Tensor) -> Tensor:
    """Return targets with an output axis, `(*batch, n, c)`, after checking the shapes."""
    require_tensors(X=(X, "*batch n d"), y=(y, "*runs last"), finite=True)
    targets = y[..., None] if y.ndim < X.ndim else y
    if targets.shape[-2] != X.shape[-2]:
        raise ValueError(
            f"y has shape {tuple(y.shape)}; allowed: (*batch, {X.shape[-2]}) or (*batch, {X.shape[-2]}, c)"
        )
    return targets


def _require_full_rank(R: Tensor, n: int, d: int) -> None:
    """Raise if the triangular factor says that the data have no full rank."""
    diagonal = R.diagonal(dim1=-2, dim2=-1).abs()
    smallest = diagonal.min(-1).values / diagonal.max(-1).values.clamp(min=torch.finfo(R.dtype).tiny)
    if not bool((smallest > max(n, d) * torch.finfo(R.dtype).eps).all()):
        raise ValueError(
            f"X (n = {n}, d = {d}) is rank deficient; allowed: full rank, the smaller of n and d"
        )
