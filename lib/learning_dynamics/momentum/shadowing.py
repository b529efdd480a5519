r"""Shadows: true orbits of an algorithm that stay near a sequence which is only nearly an orbit.

An orbit of a map :math:`\Psi` obeys :math:`\theta_{k+1} = \Psi(\theta_k)`; a :math:`\delta`-pseudo-orbit
:math:`(\vartheta_k)` misses this by at most :math:`\delta` in each step. Gradient flow sampled at the step size is a
pseudo-orbit of gradient descent. An orbit within :math:`\varepsilon` of it for all k, from a start of its own, is its
shadow (Bowen 1975; Orvieto & Lucchi 2019 for optimization).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg import schur, solve_discrete_lyapunov, solve_sylvester, solveh_banded
from torch import Tensor
from torch.func import jacfwd, vmap

from learning_dynamics._internal.arguments import require_count, require_number, require_tensors

Map = Callable[[Tensor], Tensor]
"""One step of an algorithm, `(d)` to `(d)`, made of torch operations that `torch.func.vmap` can batch."""


class Shadow(NamedTuple):
    """The true orbit of least squared distance from a pseudo-orbit.

    Attributes:
        orbit: `(K + 1, d)`.
        residuals: `(iterations + 1)`, the largest one-step error before each Newton step and after the last.
        converged: whether the last of them is below the tolerance; if not, `orbit` is no orbit.
    """

    orbit: Tensor
    residuals: Tensor
    converged: bool


class HyperbolicSplitting(NamedTuple):
    r"""The invariant subspaces of a matrix without eigenvalues on the unit circle.

    Attributes:
        stable: `(d, s)`, orthonormal basis of :math:`E_s`, where powers of A contract.
        unstable: `(d, d - s)`, basis of :math:`E_u`, where powers of the inverse of A contract; orthonormal.
        projector: `(d, d)`, onto :math:`E_s` along :math:`E_u`; orthogonal for a normal A.
        on_stable: `(s, s)`, A in the basis of :math:`E_s`.
        on_unstable: `(d - s, d - s)`, A in the basis of :math:`E_u`.
    """

    stable: Tensor
    unstable: Tensor
    projector: Tensor
    on_stable: Tensor
    on_unstable: Tensor


class AdaptedNorm(NamedTuple):
    r"""A norm :math:`\lVert u\rVert_P = \sqrt{u^\top P u}` in which a stable matrix contracts.

    Attributes:
        matrix: `(d, d)`, P, with :math:`P \succeq I`.
        factor: :math:`\rho < 1` with :math:`\lVert A u\rVert_P \le \rho\lVert u\rVert_P` for all u.
    """

    matrix: Tensor
    factor: float


def pseudo_orbit_error(step: Map, orbit: Tensor) -> Tensor:
    r"""Return the one-step errors :math:`\lVert\vartheta_{k+1} - \Psi(\vartheta_k)\rVert` of a sequence.

    The largest of them is the :math:`\delta` of which the sequence is a pseudo-orbit.

    Source: Orvieto (2023), Definition 2.4.2.

    Args:
        step: :math:`\Psi`.
        orbit: `(K + 1, d)`, K >= 1.

    Returns:
        `(K)`.

    Raises:
        ValueError: `orbit` has another shape, is not finite or not floating point, or `step` changes the shape.
    """
    _require_orbit(orbit)
    return (orbit[1:] - _images(step, orbit)).norm(dim=-1)


def least_squares_shadow(
    step: Map,
    orbit: Tensor,
    *,
    jacobian: Map | None = None,
    tolerance: float = 1e-13,
    iterations: int = 30,
) -> Shadow:
    r"""Return the true orbit of :math:`\Psi` with the least sum of squared distances from a sequence.

    Newton's method on the whole orbit: the constraints :math:`\theta_{k+1} = \Psi(\theta_k)` are linearized at the
    last iterate, and the sequence is projected onto them, which takes one banded Cholesky solution, of cost
    :math:`K d^3`, an iteration. It works across saddles, where iterating :math:`\Psi` from any start in floating
    point would lose the orbit. The result minimizes a sum of squares: the largest distance of another orbit may be
    a little smaller (`linear_shadow`).

    Source: least-squares shadowing, Wang, Hu & Blonigan (2014), here for maps; Newton on whole orbits goes back to
    Coomes, Kocak & Palmer (1995).

    Args:
        step: :math:`\Psi`.
        orbit: `(K + 1, d)`, float64, K >= 1; also the start of the iteration.
        jacobian: `(d)` to `(d, d)`, the derivative of `step`; by default forward differentiation of it.
        tolerance: largest one-step error at which the iteration stops, relative to 1 + the largest entry of `orbit`.
        iterations: most Newton steps.

    Returns:
        The orbit and the history of its one-step errors. `converged` is False where the iteration did not arrive;
        an iterate that is not finite ends it, with the last finite one in `orbit`.

    Raises:
        ValueError: `orbit` is not `(K + 1, d)` with K >= 1 in float64 and finite, `tolerance` <= 0, or `step` or
            `jacobian` returns another shape.
    """
    _require_orbit(orbit)
    if orbit.dtype != torch.float64:
        raise ValueError(f"orbit has dtype {orbit.dtype}; allowed: torch.float64")
    require_number("tolerance", tolerance, above=0)
    require_count("iterations", iterations)
    derivative = jacfwd(step) if jacobian is None else jacobian
    K, d = orbit.shape[0] - 1, orbit.shape[1]
    target = orbit.detach().cpu().numpy()
    bound = tolerance * (1 + float(np.abs(target).max()))
    current, history = orbit.detach().clone(), []
    for iteration in range(iterations + 1):
        defect = (_images(step, current) - current[1:]).detach().cpu().numpy()
        history.append(float(np.sqrt((defect**2).sum(-1)).max()))
        if history[-1] <= bound or iteration == iterations:
            break
        J = vmap(derivative)(current[:-1])
        if J.shape != (K, d, d):
            raise ValueError(f"jacobian has shape {tuple(J.shape[1:])}; allowed: {(d, d)}")
        new = _project(target, current.cpu().numpy(), J.detach().cpu().numpy(), defect)
        if new is None:
            break
        current = torch.from_numpy(new).to(orbit.device)
    return Shadow(current, torch.tensor(history, dtype=torch.float64), history[-1] <= bound)


def _project(
    target: NDArray[np.float64],
    current: NDArray[np.float64],
    J: NDArray[np.float64],
    defect: NDArray[np.float64],
) -> NDArray[np.float64] | None:
    """Return the sequence nearest to `target` on the constraints linearized at `current`; None if not finite."""
    K, d = defect.shape
    deviation = current - target
    # constraint on u = theta - target, linearized: J_k u_k - u_{k+1} = right_k
    right = np.einsum("kij,kj->ki", J, deviation[:-1]) - deviation[1:] - defect
    diagonal = J @ J.transpose(0, 2, 1) + np.eye(d)
    beside = -J[1:].transpose(0, 2, 1)  # block (k, k + 1) of the normal matrix
    band = 2 * d - 1
    upper = np.zeros((band + 1, K * d))
    column = np.arange(K) * d
    for i in range(d):
        for j in range(d):
            if j >= i:
                upper[band - (j - i), column + j] = diagonal[:, i, j]
            upper[band - (d + j - i), column[1:] + j] = beside[:, i, j]
    if not (np.isfinite(upper).all() and np.isfinite(right).all()):
        return None
    if K == 1:  # one block: no band (and solveh_banded refuses a single unknown)
        multipliers = np.linalg.solve(diagonal[0], right[0])[None]
    else:
        multipliers = solveh_banded(upper, right.ravel()).reshape(K, d)
    u = np.zeros_like(target)
    u[:-1] += np.einsum("kji,kj->ki", J, multipliers)
    u[1:] -= multipliers
    new = target + u
    return new if np.isfinite(new).all() else None


def linear_shadow(A: Tensor, orbit: Tensor) -> Tensor:
    r"""Return a shadow of a pseudo-orbit of the map :math:`\theta\mapsto A\theta`, by running time both ways.

    The deviation :math:`u_k = \theta_k - \vartheta_k` obeys :math:`u_{k+1} = A u_k - e_k` with the one-step errors
    :math:`e_k = \vartheta_{k+1} - A\vartheta_k`. Its component in :math:`E_s` is computed forwards from
    :math:`u_0 = 0`, that in :math:`E_u` backwards from :math:`u_K = 0`; both directions contract.

    Source: Orvieto (2023), section 2.4.2.2 and Figure 14; Ombach (1993).

    Args:
        A: `(d, d)`, without eigenvalues on the unit circle.
        orbit: `(K + 1, d)`, K >= 1.

    Returns:
        `(K + 1, d)`, an orbit of A. It starts from :math:`\vartheta_0` in :math:`E_s` and ends at
        :math:`\vartheta_K` in :math:`E_u`.

    Raises:
        ValueError: a has an eigenvalue on the unit circle, or a shape does not fit.
    """
    _require_orbit(orbit)
    split = hyperbolic_splitting(A)
    require_tensors(A=(A, "d d"), orbit=(orbit, "points d"))
    errors = orbit[1:] - orbit[:-1] @ A.mT
    basis = torch.cat([split.stable, split.unstable], 1)
    s = split.stable.shape[1]
    parts = torch.linalg.solve(basis, errors.mT).mT  # coordinates of the errors, (K, d)
    u = torch.zeros_like(orbit)
    for k in range(len(errors)):
        u[k + 1, :s] = split.on_stable @ u[k, :s] - parts[k, :s]
    for k in range(len(errors) - 1, -1, -1):
        u[k, s:] = torch.linalg.solve(split.on_unstable, u[k + 1, s:] + parts[k, s:])
    return orbit + u @ basis.mT


def hyperbolic_splitting(A: Tensor) -> HyperbolicSplitting:
    r"""Split :math:`\mathbb R^d = E_s\oplus E_u` into the invariant subspaces of A inside and outside the unit circle.

    From the real Schur form :math:`A = Q\begin{pmatrix}T_s & R\\0 & T_u\end{pmatrix}Q^\top` with the eigenvalues
    inside the circle first: :math:`E_s` is spanned by the first columns of Q, :math:`E_u` by
    :math:`Q\,(X, I)^\top` with :math:`T_s X - X T_u = -R`.

    Source: Golub & Van Loan (2013), sections 7.6.2 and 7.6.3.

    Args:
        A: `(d, d)`, without eigenvalues on the unit circle.

    Returns:
        Bases, projector and the two restrictions, in the dtype and on the device of A.

    Raises:
        ValueError: a is not square or not finite, or an eigenvalue lies within d eps max(1, norm of A) of the circle.
    """
    matrix = _square("A", A)
    d = len(matrix)
    gap = float(np.abs(np.abs(np.linalg.eigvals(matrix)) - 1).min())
    if gap <= d * torch.finfo(A.dtype).eps * max(1.0, float(np.linalg.norm(matrix, 2))):
        raise ValueError(f"A has an eigenvalue {gap:.1e} from the unit circle; allowed: none on the circle")
    T, Q, s = schur(matrix, output="real", sort=lambda re, im=0.0: np.hypot(re, im) < 1)
    stable = Q[:, :s]
    X = solve_sylvester(T[:s, :s], -T[s:, s:], -T[:s, s:]) if 0 < s < d else np.zeros((s, d - s))
    unstable, mix = np.linalg.qr(Q[:, :s] @ X + Q[:, s:])
    on_unstable = mix @ T[s:, s:] @ np.linalg.inv(mix)
    coordinates = np.linalg.inv(np.hstack([stable, unstable]))
    parts = (stable, unstable, stable @ coordinates[:s], T[:s, :s], on_unstable)
    return HyperbolicSplitting(*(torch.as_tensor(np.ascontiguousarray(part)).to(A) for part in parts))


def adapted_norm(A: Tensor) -> AdaptedNorm:
    r"""Return a norm in which a matrix with all eigenvalues inside the unit circle contracts.

    :math:`P = \sum_{j\ge0}(A^\top)^j A^j` solves :math:`P - A^\top P A = I`, so that
    :math:`\lVert A u\rVert_P^2 = \lVert u\rVert_P^2 - \lVert u\rVert^2 \le (1 - 1/\lambda_1(P))\lVert u\rVert_P^2`.
    A bound in this norm costs a factor up to :math:`\sqrt{\lambda_1(P)}` when it is read in the Euclidean norm.

    Source: Lyapunov's equation for maps, Kalman & Bertram (1960), part II.

    Args:
        A: `(d, d)`, spectral radius below one.

    Returns:
        P and the contraction factor :math:`\sqrt{1 - 1/\lambda_1(P)}`.

    Raises:
        ValueError: a is not square or not finite, or its spectral radius is not below one.
    """
    matrix = _square("A", A)
    radius = float(np.abs(np.linalg.eigvals(matrix)).max())
    if not radius < 1:
        raise ValueError(f"A has spectral radius {radius:.6g}; allowed: < 1")
    P = solve_discrete_lyapunov(matrix.T, np.eye(len(matrix)))
    P = (P + P.T) / 2
    factor = float(np.sqrt(1 - 1 / np.linalg.eigvalsh(P)[-1]))
    return AdaptedNorm(torch.as_tensor(P).to(A), factor)


def _images(step: Map, orbit: Tensor) -> Tensor:
    images = vmap(step)(orbit[:-1])
    if images.shape != orbit[:-1].shape:
        raise ValueError(f"step returns shape {tuple(images.shape[1:])}; allowed: {tuple(orbit.shape[1:])}")
    return images


def _require_orbit(orbit: Tensor) -> None:
    if require_tensors(orbit=(orbit, "points d"), finite=True)["points"] < 2:
        raise ValueError(f"orbit has shape {tuple(orbit.shape)}; allowed: (K + 1, d), K >= 1")


def _square(name: str, A: Tensor) -> NDArray[np.float64]:
    given: dict[str, Any] = {name: (A, "d d")}
    require_tensors(finite=True, **given)
    matrix: NDArray[np.float64] = A.detach().to("cpu", torch.float64).numpy()
    return matrix
