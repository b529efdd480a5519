r"""Expected excess loss of preconditioned stochastic gradient steps on a quadratic, exactly.

The loss is :math:`\frac12(\theta-\theta^\star)^\top H(\theta-\theta^\star)`, the step

.. math:: \theta_{k+1}=\theta_k-\eta_k\,C^{-1}\bigl(H(\theta_k-\theta^\star)+\xi_k\bigr),\qquad
          \mathbb E\,\xi_k=0,\quad \mathbb E\,\xi_k\xi_k^\top=\Sigma,

with noise that does not depend on the iterate. Two ways lead to the same numbers. `moments` iterates mean and
covariance as they stand. `modes` diagonalizes :math:`H^{1/2}C^{-1}H^{1/2}=Q\,\mathrm{diag}(\rho)\,Q^\top` first; then
the excess is a sum over independent modes, whatever Sigma is,

.. math:: \mathcal E_k=\tfrac12\sum_i\bigl(v_i(k)+e_i(k)^2\bigr),\qquad
          v_i\leftarrow(1-\eta_k\rho_i)^2v_i+\eta_k^2u_i,\quad e_i\leftarrow(1-\eta_k\rho_i)\,e_i ,

and the functions `excess_*` and `bounds_*` need only these d numbers of each kind.

Source: J. Martens (2020), New insights and perspectives on the natural gradient method, section 14 and appendices A to
D; the form by modes is this book's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from learning_dynamics._internal.arguments import (
    require_broadcast,
    require_numbers,
    require_symmetric,
    require_tensors,
)


@dataclass(frozen=True, eq=False)
class Modes:
    r"""A noisy quadratic problem in the coordinates in which its modes are independent; made by `modes`.

    Args:
        curvature: `(d)`, the relative curvatures rho_i, the eigenvalues of C^{-1} H, largest first.
        noise: `(d)`, the numbers u_i, diagonal of Q^T H^{1/2} C^{-1} Sigma C^{-1} H^{1/2} Q.
        error: `(d)`, the numbers e_i, entries of Q^T H^{1/2} (theta_0 - theta*).

    Raises:
        ValueError: the shapes differ, a curvature is not positive, or a noise is negative.
    """

    curvature: Tensor
    noise: Tensor
    error: Tensor

    def __post_init__(self) -> None:
        """Check shapes and signs."""
        require_tensors(
            curvature=(self.curvature, "d"), noise=(self.noise, "d"), error=(self.error, "d"), finite=True
        )
        if not (self.curvature > 0).all():
            raise ValueError(f"curvature reaches {float(self.curvature.min()):.3g}; allowed: > 0")
        if not (self.noise >= 0).all():
            raise ValueError(f"noise reaches {float(self.noise.min()):.3g}; allowed: >= 0")

    @property
    def start_excess(self) -> Tensor:
        r"""The excess loss of the start, :math:`\mathcal E_0=\frac12\sum_ie_i^2`; a scalar tensor."""
        return self.error.square().sum() / 2

    @property
    def noise_constant(self) -> Tensor:
        r"""The constant :math:`w=\frac12\mathrm{tr}(H^{-1}\Sigma)=\frac12\sum_iu_i/\rho_i^2`; a scalar tensor."""
        return (self.noise / self.curvature.square()).sum() / 2


def modes(H: Tensor, C: Tensor, Sigma: Tensor, start_error: Tensor) -> Modes:
    r"""Return the independent modes of a noisy quadratic problem.

    Args:
        H: `(d, d)`, symmetric positive definite: the Hessian.
        C: `(d, d)`, symmetric positive definite: the curvature matrix in front of the gradient is C^{-1}.
        Sigma: `(d, d)`, symmetric positive semidefinite: the covariance of the gradient noise.
        start_error: `(d)`, theta_0 - theta*.

    Returns:
        The modes, in the dtype and on the device of H.

    Raises:
        ValueError: a shape is wrong, a matrix is not symmetric, or H or C is not positive definite.
    """
    root = _root(H, C, Sigma, start_error)
    rho, Q = torch.linalg.eigh(_symmetric(root @ torch.linalg.solve(C, root)))
    rho, Q = rho.flip(0), Q.flip(1)
    into = Q.mT @ root @ torch.linalg.inv(C)
    noise = torch.einsum("ij,jk,ik->i", into, Sigma, into).clamp(min=0)
    return Modes(rho, noise, Q.mT @ (root @ start_error))


class Moments(NamedTuple):
    r"""What `moments` returns: mean and covariance of each iterate and of the mean of the iterates so far.

    Attributes:
        mean: `(K + 1, d)`, expectation of theta_k - theta*.
        covariance: `(K + 1, d, d)`, V_k.
        average_mean: `(K + 1, d)`, the same for (theta_0 + ... + theta_k) / (k + 1).
        average_covariance: `(K + 1, d, d)`.
        excess: `(K + 1)`, expected excess loss of the iterate.
        average_excess: `(K + 1)`, expected excess loss of the mean of the iterates.
    """

    mean: Tensor
    covariance: Tensor
    average_mean: Tensor
    average_covariance: Tensor
    excess: Tensor
    average_excess: Tensor


def moments(H: Tensor, C: Tensor, Sigma: Tensor, start_error: Tensor, step_sizes: Tensor) -> Moments:
    r"""Return the exact first two moments of the iterates and of their running mean, step by step.

    With :math:`D_k=I-\eta_kC^{-1}H` and :math:`U=C^{-1}\Sigma C^{-1}`,

    .. math:: m_{k+1}=D_km_k,\qquad V_{k+1}=D_kV_kD_k^\top+\eta_k^2U .

    The covariance of the sum of the iterates is carried along with the covariance between that sum and the iterate.

    Source: Martens (2020), equations (22) and (23); the sum is this book's.

    Args:
        H: `(d, d)`, symmetric positive definite.
        C: `(d, d)`, symmetric positive definite.
        Sigma: `(d, d)`, symmetric positive semidefinite.
        start_error: `(d)`, theta_0 - theta*.
        step_sizes: `(K)`, eta_0, ..., eta_{K-1}.

    Returns:
        The moments after 0, 1, ..., K steps.

    Raises:
        ValueError: a shape is wrong, a matrix is not symmetric, or H or C is not positive definite.
    """
    _root(H, C, Sigma, start_error)
    require_tensors(step_sizes=(step_sizes, "K"), empty=True)
    relative, inverse = torch.linalg.solve(C, H), torch.linalg.inv(C)
    U, eye = inverse @ Sigma @ inverse, torch.eye(len(H), dtype=H.dtype, device=H.device)
    mean, V, total, across = start_error, torch.zeros_like(H), start_error, torch.zeros_like(H)
    spread, path = torch.zeros_like(H), []  # covariances: of the sum; across: of the sum with the iterate
    path.append((mean, V, total, spread))
    for eta in step_sizes:
        D = eye - eta * relative
        mean, V, across = D @ mean, D @ V @ D.mT + eta**2 * U, across @ D.mT
        spread, across, total = spread + across + across.mT + V, across + V, total + mean
        path.append((mean, V, total, spread))
    means, covariances, totals, spreads = (torch.stack(parts) for parts in zip(*path, strict=True))
    count = torch.arange(1, len(path) + 1, dtype=H.dtype, device=H.device)
    totals, spreads = totals / count[:, None], spreads / count[:, None, None] ** 2
    last, average = _excess(H, means, covariances), _excess(H, totals, spreads)
    return Moments(means, covariances, totals, spreads, last, average)


def excess_scheduled(problem: Modes, step_sizes: Tensor) -> Tensor:
    r"""Return the expected excess loss after every step, for any step sizes.

    The affine maps of the steps are composed in blocks, so that K steps cost about 2 sqrt(K) operations on tensors.

    Args:
        problem: the modes.
        step_sizes: `(*grid, K)`; schedules are batch axes.

    Returns:
        `(*grid, K + 1)`, the excess of theta_0, ..., theta_K.

    Raises:
        ValueError: there is no step.
    """
    require_tensors(step_sizes=(step_sizes, "*grid K"))
    grid, steps = step_sizes.shape[:-1], step_sizes.shape[-1]
    width = max(1, int(steps**0.5))
    blocks = -(-steps // width)
    # steps of size 0 change nothing
    padded = torch.nn.functional.pad(step_sizes, (0, blocks * width - steps))
    eta = padded.view(*grid, blocks, width, 1)
    shrink, push = 1 - eta * problem.curvature, eta.square() * problem.noise
    factors, additions = [shrink[..., 0, :]], [push[..., 0, :]]
    for j in range(1, width):
        factors.append(shrink[..., j, :] * factors[-1])
        additions.append(shrink[..., j, :].square() * additions[-1] + push[..., j, :])
    factor, addition = torch.stack(factors, -2), torch.stack(additions, -2)  # from the start of each block
    error, variance = problem.error.expand(*grid, -1), torch.zeros_like(problem.noise).expand(*grid, -1)
    path = [(error.square() + variance).sum(-1, keepdim=True)]
    for i in range(blocks):
        e = factor[..., i, :, :] * error[..., None, :]
        v = factor[..., i, :, :].square() * variance[..., None, :] + addition[..., i, :, :]
        path.append((e.square() + v).sum(-1))
        error, variance = e[..., -1, :], v[..., -1, :]
    return torch.cat(path, -1)[..., : steps + 1] / 2


def excess_decaying(problem: Modes, offset: float | Tensor, k: Tensor) -> Tensor:
    r"""Return the expected excess loss with the steps :math:`\eta_k=1/(k+k_0+1)`.

    For C = H it equals :math:`(k\,w+k_0^2\,\mathcal E_0)/(k+k_0)^2`.

    Args:
        problem: the modes.
        offset: k_0 >= 0, a number or a tensor `(*grid)`.
        k: `(m)`, the integers >= 0 at which the excess is wanted.

    Returns:
        `(*grid, m)`.

    Raises:
        ValueError: the offset or a member of k is negative.
    """
    rho = problem.curvature
    start = require_numbers("offset", offset, rho)
    if not (start >= 0).all():
        raise ValueError(f"offset reaches {float(start.min()):.3g}; allowed: >= 0")
    marks = _whole(k)
    if marks.max() == 0:
        return problem.start_excess.expand(*start.shape, len(marks))
    count = torch.arange(1, int(marks.max()) + 1, dtype=rho.dtype, device=rho.device)
    return excess_scheduled(problem, 1 / (count + start[..., None]))[..., marks]


def excess_constant(problem: Modes, step_size: float, k: Tensor) -> Tensor:
    r"""Return the expected excess loss after k steps of one size, in closed form.

    .. math:: \mathcal E_k=\tfrac12\sum_i\Bigl(\eta u_i\,\frac{1-r_i^{2k}}{\rho_i(2-\eta\rho_i)}+e_i^2r_i^{2k}\Bigr),
              \qquad r_i=1-\eta\rho_i .

    Args:
        problem: the modes.
        step_size: eta with 0 < eta rho_1 < 2.
        k: any shape `(*marks)`, numbers of steps >= 0.

    Returns:
        `(*marks)`.

    Raises:
        ValueError: the step is so long that the iteration has no limit, or a member of k is negative.
    """
    left = 1 - _lost(problem, step_size, k, power=2)
    return (_variance(problem, step_size, k) + problem.error.square() * left).sum(-1) / 2


def excess_average(problem: Modes, step_size: float, k: Tensor, first: Tensor | int = 0) -> Tensor:
    r"""Return the expected excess loss of the mean of theta_first, ..., theta_k, for steps of one size.

    With n = k - first, c = eta rho, r = 1 - c and :math:`g=(1-r^{n+1})/c` in each mode, the start of the mean adds
    :math:`(e_{first}^2+v_{first})\,(g/(n+1))^2`, and the noise after it

    .. math:: \frac{\eta^2u}{(n+1)^2c^2}\Bigl(n-2\,\frac{r-r^{n+1}}{c}+\frac{r^2-r^{2n+2}}{c(2-c)}\Bigr).

    Where c n is small the three terms cancel: the noise part then has a relative error of about
    1e-15 / (c n)^2.

    Args:
        problem: the modes.
        step_size: eta with 0 < eta rho_1 < 2.
        k: `(*marks)`, integers >= first.
        first: the number of iterates that are dropped, an integer or `(*marks)`.

    Returns:
        `(*marks)`.

    Raises:
        ValueError: the step is too long, or a member of k is smaller than `first`.
    """
    rho = problem.curvature
    count, start = require_numbers("k", k, rho), require_numbers("first", first, rho)
    require_broadcast("first", start, count.shape)
    start = start.expand_as(count)
    n = (count - start)[..., None]
    if not (n >= 0).all():
        raise ValueError(f"first exceeds k by {float(-n.min()):g}; allowed: first <= k")
    c = step_size * rho
    left = problem.error.square() * (1 - _lost(problem, step_size, start, power=2))
    left = left + _variance(problem, step_size, start)
    lost = _lost(problem, step_size, n[..., 0] + 1, power=1)  # 1 - r^(n+1)
    twice = _lost(problem, step_size, n[..., 0] + 1, power=2)
    inner = n - 2 * (lost - c) / c + (twice - c * (2 - c)) / (c * (2 - c))
    noise = problem.noise / rho.square() * torch.where(n > 0, inner.clamp(min=0), 0 * inner)
    return ((left * (lost / c).square() + noise) / (n + 1) ** 2).sum(-1) / 2


class Bounds(NamedTuple):
    """Bounds on an expected excess loss.

    Attributes:
        lower: `(*marks)`, from below.
        upper: `(*marks)`, from above.
    """

    lower: Tensor
    upper: Tensor


def bounds_constant(problem: Modes, step_size: float, k: Tensor) -> Bounds:
    r"""Return the two-sided bound for steps of one size.

    With the limit :math:`b=\frac\eta4\mathrm{tr}\bigl((C-\frac\eta2H)^{-1}\Sigma\bigr)`,

    .. math:: \begin{aligned}
              u(k)&=\bigl(1-(1-\eta\rho_1)^{2k}\bigr)b+(1-\eta\rho_d)^{2k}\mathcal E_0,\\
              l(k)&=\bigl(1-(1-\eta\rho_d)^{2k}\bigr)b+(1-\eta\rho_1)^{2k}\mathcal E_0 .\end{aligned}

    It is proved for :math:`\eta\rho_1\le1`; the formulas are returned for longer steps too.

    Source: Martens (2020), theorem 5 and lemma 11.

    Args:
        problem: the modes.
        step_size: eta with 0 < eta rho_1 < 2.
        k: `(*marks)`, numbers of steps >= 0.

    Returns:
        Both bounds.

    Raises:
        ValueError: the step is so long that the iteration has no limit, or a member of k is negative.
    """
    rho = problem.curvature
    limit = (step_size * problem.noise / (rho * (2 - step_size * rho))).sum() / 2
    left = 1 - _lost(problem, step_size, k, power=2)
    fast, slow = left[..., 0], left[..., -1]
    start = problem.start_excess
    return Bounds((1 - slow) * limit + fast * start, (1 - fast) * limit + slow * start)


def bounds_decaying(problem: Modes, offset: float, k: Tensor, repaired: bool = True) -> Bounds:
    r"""Return the two-sided bound for the steps :math:`\eta_k=1/(k+k_0+1)`.

    With :math:`T=\mathrm{tr}\bigl((C^{-1}-\frac12H^{-1})^{-1}U\bigr)`, the same with
    :math:`(I-C^{-1}H)U(I-C^{-1}H)^\top` for T', :math:`\rho=\rho_d` and :math:`\nu=(k_0+2)^3/(k_0(k_0+1)^2)`,

    .. math:: \begin{aligned}
              u(k)&=\frac T{4(k+k_0)}+\frac{\nu T'}{4(k+k_0)^{2\rho}}
                    \sum_{i<k}\min\{i+k_0+2,\,k+k_0\}^{2\rho-3}
                    +\mathcal E_0\Bigl(\frac{1+k_0}{k+k_0}\Bigr)^{2\rho},\\
              l(k)&=\frac T{4(k+k_0)}-\frac T{4k_0}\Bigl(\frac{1+k_0}{k+k_0}\Bigr)^{2\rho} .\end{aligned}

    The printed upper bound has :math:`k\,(k+k_0)^{2\rho-3}` in the place of the sum, which is proved for
    :math:`\rho\ge\frac32` only.

    Source: Martens (2020), theorem 5, lemmas 15 and 16; the sum stands in the proof of proposition 23.

    Args:
        problem: the modes; the smallest curvature exceeds 1/2 and the largest is at most k_0 + 1.
        offset: k_0 >= 1.
        k: `(m)`, integers >= 0.
        repaired: with the sum, or as printed.

    Returns:
        Both bounds, `(m)` each.

    Raises:
        ValueError: the offset or a curvature is outside the theorem's range, or a member of k is negative.
    """
    rho = problem.curvature
    smallest, largest = float(rho.min()), float(rho.max())
    if not offset >= 1:
        raise ValueError(f"offset = {offset}; allowed: >= 1")
    if not smallest > 0.5:
        raise ValueError(f"smallest relative curvature = {smallest:.4g}; allowed: > 1/2")
    if not largest <= (offset + 1) * (1 + 1e-12):
        raise ValueError(f"largest relative curvature = {largest:.4g}; allowed: <= offset + 1 = {offset + 1}")
    marks = _whole(k)
    later = marks.to(rho) + offset
    leading = (problem.noise / (rho - 0.5)).sum()
    second = (problem.noise * (1 - rho).square() / (rho - 0.5)).sum()
    forgets = ((1 + offset) / later) ** (2 * smallest)
    power = 2 * smallest - 3
    if repaired:
        count = torch.arange(2, max(int(marks.max()), 2) + 1, dtype=rho.dtype, device=rho.device)
        terms = (count + offset) ** power
        sums = torch.cat([terms.new_zeros(2), terms.cumsum(0)])[marks] + (marks > 0) * later**power
    else:
        sums = marks * later**power
    nu = (offset + 2) ** 3 / (offset * (offset + 1) ** 2)
    upper = leading / (4 * later) + nu * second / 4 * sums / later ** (2 * smallest)
    return Bounds(
        leading / (4 * later) - leading / (4 * offset) * forgets, upper + problem.start_excess * forgets
    )


def bound_average(problem: Modes, step_size: float, k: Tensor) -> Tensor:
    r"""Return the upper bound on the excess loss of the mean of theta_0, ..., theta_k.

    .. math:: \min\Bigl\{\frac{\mathrm{tr}(H^{-1}\Sigma)}{2(k+1)},\,b\Bigr\}
              +\min\Bigl\{\frac{\lVert H^{-1/2}C(\theta_0-\theta^\star)\rVert^2}{2(k+1)^2\eta^2},\,
              \frac{\lVert C^{1/2}(\theta_0-\theta^\star)\rVert^2}{2(k+1)\eta},\,\mathcal E_0\Bigr\}

    with the limit b of `bounds_constant`. It is proved for :math:`\eta\rho_1<1`.

    Source: Martens (2020), theorem 6.

    Args:
        problem: the modes.
        step_size: eta with 0 < eta rho_1 < 2.
        k: `(*marks)`, numbers of steps >= 0.

    Returns:
        `(*marks)`.

    Raises:
        ValueError: the step is too long, or a member of k is negative.
    """
    _require_step(problem, step_size)
    rho, count = problem.curvature, _counts(problem, k) + 1
    limit = (step_size * problem.noise / (rho * (2 - step_size * rho))).sum() / 2
    far = (problem.error / rho).square().sum() / (2 * count.square() * step_size**2)
    near = (problem.error.square() / rho).sum() / (2 * count * step_size)
    start = torch.minimum(torch.minimum(far, near), problem.start_excess)
    return torch.minimum(problem.noise_constant / count, limit) + start


def _root(H: Tensor, C: Tensor, Sigma: Tensor, start_error: Tensor) -> Tensor:
    """Return the symmetric root of H after checking all four arguments."""
    require_tensors(
        H=(H, "d d"), C=(C, "d d"), Sigma=(Sigma, "d d"), start_error=(start_error, "d"), finite=True
    )
    for name, matrix in (("H", H), ("C", C), ("Sigma", Sigma)):
        require_symmetric(name, matrix)
    least = float(torch.linalg.eigvalsh(C)[0])
    if not least > 0:
        raise ValueError(f"C has the eigenvalue {least:.3g}; allowed: positive definite")
    values, vectors = torch.linalg.eigh(H)
    if not values[0] > 0:
        raise ValueError(f"H has the eigenvalue {float(values[0]):.3g}; allowed: positive definite")
    return (vectors * values.sqrt()) @ vectors.mT


def _excess(H: Tensor, mean: Tensor, covariance: Tensor) -> Tensor:
    """Return half of tr(H V) plus half of m' H m for each step."""
    return (torch.einsum("ij,kji->k", H, covariance) + torch.einsum("ki,ij,kj->k", mean, H, mean)) / 2


def _symmetric(matrix: Tensor) -> Tensor:
    return (matrix + matrix.mT) / 2


def _whole(k: Tensor) -> Tensor:
    """Return k as a vector of int64 after checking it."""
    marks = torch.as_tensor(k)
    integer = not (marks.is_floating_point() or marks.is_complex())
    if marks.ndim != 1 or not integer or len(marks) == 0 or int(marks.min()) < 0:
        raise ValueError(f"k is {marks.dtype} of shape {tuple(marks.shape)}; allowed: integers >= 0, (m)")
    return marks.long()


def _counts(problem: Modes, k: Tensor | int) -> Tensor:
    """Return k in the dtype of the problem after checking that nothing is negative."""
    count = require_numbers("k", k, problem.curvature)
    if not (count >= 0).all():
        raise ValueError(f"k reaches {float(count.min()):g}; allowed: >= 0")
    return count


def _require_step(problem: Modes, step_size: float) -> None:
    if not 0 < step_size * float(problem.curvature.max()) < 2:
        most = 2 / float(problem.curvature.max())
        raise ValueError(f"step_size = {step_size}; allowed: above 0 and below 2 / rho_1 = {most:.4g}")


def _lost(problem: Modes, step_size: float, k: Tensor | int, power: int) -> Tensor:
    """Return 1 - (1 - eta rho)^(power k), `(*marks, d)`, without cancellation where eta rho k is small."""
    _require_step(problem, step_size)
    count = _counts(problem, k)[..., None] * power
    c = step_size * problem.curvature
    # ln |1 - c|
    logarithm = torch.where(c < 1, torch.log1p(-c.clamp(max=1)), torch.log((c - 1).clamp(min=0)))
    size = -torch.expm1(torch.where(count > 0, count * logarithm, 0 * count))
    return torch.where((c > 1) & (count.remainder(2) == 1), 2 - size, size)


def _variance(problem: Modes, step_size: float, k: Tensor | int) -> Tensor:
    """Return v_i(k), `(*marks, d)`."""
    scale = step_size * problem.noise / (problem.curvature * (2 - step_size * problem.curvature))
    return scale * _lost(problem, step_size, k, power=2)
