r"""Does a target lie in the column space of a Jacobian, and at which tolerance?

In exact arithmetic :math:`y \in \mathrm{Col}\,J` is a yes or a no. On a computer it needs a tolerance: keep the left
singular vectors of J whose singular value exceeds `rtol` times the largest, and ask how much of y they miss. Every
function here takes the tolerance from its caller.

Source: Kawaguchi, Zhang and Deng (2022), definition 2; the numerical forms are ours.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from scipy.sparse.linalg import LinearOperator as ScipyOperator
from scipy.sparse.linalg import lsmr
from torch import Tensor, nn
from torch.nn import functional

from learning_dynamics._internal.arguments import require_number, require_symmetric, require_tensors
from learning_dynamics.curvature import LinearOperator


@dataclass(frozen=True, eq=False)
class ColumnSpace:
    r"""A target in the singular basis of a matrix: one decomposition, any tolerance.

    Attributes:
        singular_values: `(*batch, r)`, largest first.
        components: `(*batch, r)`, :math:`u_i^\top y`, the target along each left singular vector.
        outside: `(*batch)`, norm of the part of y that is orthogonal to all r vectors.
        norm: `(*batch)`, norm of y.

    Raises:
        ValueError: the shapes do not fit, or a number is not finite.
    """

    singular_values: Tensor
    components: Tensor
    outside: Tensor
    norm: Tensor

    def __post_init__(self) -> None:
        """Check the fields."""
        require_tensors(
            singular_values=(self.singular_values, "*batch r"),
            components=(self.components, "*batch r"),
            outside=(self.outside, "*batch"),
            norm=(self.norm, "*batch"),
            finite=True,
        )

    def kept(self, rtol: float) -> Tensor:
        """Return which singular values exceed `rtol` times the largest, `(*batch, r)` bool.

        Raises:
            ValueError: `rtol` is not in [0, 1).
        """
        require_number("rtol", rtol, least=0, below=1)
        return self.singular_values > rtol * self.singular_values[..., :1]

    def rank(self, rtol: float) -> Tensor:
        """Return the number of singular values that are kept, `(*batch)` int64.

        Args:
            rtol: singular values up to `rtol` times the largest are dropped; in [0, 1).
        """
        return self.kept(rtol).sum(-1)

    def residual(self, rtol: float) -> Tensor:
        """Return the norm of what the kept vectors miss of y, divided by the norm of y, `(*batch)`, in [0, 1].

        Args:
            rtol: singular values up to `rtol` times the largest are dropped; in [0, 1).
        """
        missed = torch.where(self.kept(rtol), 0.0, self.components).square().sum(-1) + self.outside**2
        return missed.sqrt() / self.norm

    def damped_residual(self, damping: float) -> Tensor:
        r"""Return :math:`\lVert y - J\omega\rVert / \lVert y\rVert` for the minimizer of |y - J w|^2 + damping^2 |w|^2.

        A smooth relative of `residual`, which a matrix-free solver can compute too.

        Args:
            damping: positive and finite, in units of the singular values.

        Returns:
            `(*batch)`, in [0, 1].

        Raises:
            ValueError: the damping is not positive and finite.
        """
        require_number("damping", damping, above=0)
        left = damping**2 / (self.singular_values**2 + damping**2) * self.components
        return (left.square().sum(-1) + self.outside**2).sqrt() / self.norm

    def coefficient_norm(self, rtol: float) -> Tensor:
        r"""Return :math:`\lVert J^+ y\rVert` with the kept singular values only, `(*batch)`.

        Args:
            rtol: singular values up to `rtol` times the largest are dropped; in [0, 1).
        """
        quotient = self.components / torch.where(self.kept(rtol), self.singular_values, torch.inf)
        return quotient.norm(dim=-1)


def from_jacobian(jacobian: Tensor, target: Tensor) -> ColumnSpace:
    """Decompose a dense matrix; singular values are right to eps times the largest.

    Args:
        jacobian: `(*batch, n, d)`, in the dtype in which the question is asked.
        target: `(*batch, n)`, not zero.

    Returns:
        What the columns can reach of the target.

    Raises:
        ValueError: shapes do not fit, or a target is zero.
    """
    require_tensors(jacobian=(jacobian, "*batch n d"), target=(target, "*batch n"), finite=True)
    _require_target(jacobian.shape[:-1], target)
    u, s, _ = torch.linalg.svd(jacobian, full_matrices=False)
    return _split(u, s, target)


def from_gram(gram: Tensor, target: Tensor) -> ColumnSpace:
    """Decompose J through J J^T: no matrix of d columns, but singular values below sqrt(eps) times the largest drown.

    Args:
        gram: `(*batch, n, n)`, symmetric positive semi-definite.
        target: `(*batch, n)`, not zero.

    Returns:
        What the columns can reach of the target.

    Raises:
        ValueError: shapes do not fit, or a target is zero.
    """
    require_tensors(gram=(gram, "*batch n n"), target=(target, "*batch n"), finite=True)
    _require_target(gram.shape[:-1], target)
    require_symmetric("gram", gram)
    values, vectors = torch.linalg.eigh(gram)
    return _split(vectors.flip(-1), values.flip(-1).clamp(min=0).sqrt(), target)


class MatrixFree(NamedTuple):
    """What `damped_residual` found.

    Attributes:
        residual: relative residual, in [0, 1].
        steps: LSMR's steps.
        converged: whether its tolerance was met.
    """

    residual: float
    steps: int
    converged: bool


def damped_residual(
    jacobian: LinearOperator | Tensor,
    target: Tensor,
    damping: float,
    *,
    tolerance: float = 1e-10,
    max_steps: int | None = None,
) -> MatrixFree:
    """Return `ColumnSpace.damped_residual` from products with J and its transpose alone, by LSMR.

    Args:
        jacobian: an operator (n, d), such as `curvature.Jacobian`, or a matrix.
        target: `(n)`, not zero.
        damping: > 0, in units of the singular values. Steps grow like the largest one divided by it.
        tolerance: LSMR's `atol` and `btol`.
        max_steps: the most steps; 10 n if left out.

    Raises:
        ValueError: shapes do not fit, the target is zero, or the damping is not positive.
    """
    require_tensors(target=(target, "n"), finite=True)
    if isinstance(jacobian, Tensor):
        require_tensors(target=(target, "n"), jacobian=(jacobian, "n d"), finite=True)
    _require_target(jacobian.shape[:1], target)
    require_number("damping", damping, above=0)

    def product(matrix: LinearOperator | Tensor) -> Callable[[np.ndarray], np.ndarray]:
        return lambda v: (
            (matrix @ torch.from_numpy(v.reshape(-1)).to(target.device, target.dtype)).detach().cpu().numpy()
        )

    operator = ScipyOperator(
        tuple(jacobian.shape),
        matvec=product(jacobian),
        rmatvec=product(jacobian.T),
        dtype=np.float64,
    )
    y = target.detach().cpu().numpy().astype(np.float64)
    solution, stop, steps, *_ = lsmr(
        operator,
        y,
        damp=damping,
        atol=tolerance,
        btol=tolerance,
        conlim=0,
        maxiter=10 * len(y) if max_steps is None else max_steps,
    )
    missed = np.linalg.norm(y - operator.matvec(solution))
    return MatrixFree(float(missed / np.linalg.norm(y)), int(steps), stop != 7)


@torch.no_grad()
def layer_grams(model: nn.Module, inputs: Tensor) -> dict[str, Tensor]:
    r"""Return what each affine layer adds to :math:`JJ^\top`, by its name; their sum is the tangent kernel.

    For an affine layer with inputs a_i and output gradients g_i (one for each sample and output) the share is
    :math:`(a_i^\top a_j + 1)(g_i^\top g_j)`, with the 1 for a bias; a convolution sums patches first. No matrix with d
    columns is formed for affine layers; a convolution needs the gradients of its own weights. Parameters that require
    no gradient do not count.

    Args:
        model: its parameters belong to `nn.Linear` and `nn.Conv2d` (ungrouped, zero padding) modules, each used
            once, and samples do not mix.
        inputs: `(n, ...)`.

    Returns:
        `(n d_y, n d_y)` for each layer, rows sample by sample as in `curvature.Jacobian`.

    Raises:
        ValueError: parameters belong to another kind of module or to two layers, a layer is used more than once, or no
            parameter requires a gradient.
    """
    layers = {
        name: module
        for name, module in model.named_modules()
        if any(parameter.requires_grad for parameter in module.parameters(recurse=False))
    }
    if not layers:
        raise ValueError("model has no parameter that requires a gradient; allowed: at least one")
    held = [p for layer in layers.values() for p in layer.parameters(recurse=False) if p.requires_grad]
    if len({id(parameter) for parameter in held}) < len(held):
        raise ValueError("model has layers that share a parameter; allowed: each parameter in one layer")
    for name, layer in layers.items():
        plain = isinstance(layer, nn.Linear) or (
            isinstance(layer, nn.Conv2d) and layer.groups == 1 and layer.padding_mode == "zeros"
        )
        if not plain:
            raise ValueError(f"model has {name}: {type(layer).__name__}; allowed: Linear and plain Conv2d")
    _require_inputs(model, inputs)
    calls: dict[str, list[tuple[Tensor, Tensor]]] = {name: [] for name in layers}
    hooks = [
        layer.register_forward_hook(lambda _, ins, out, name=name: calls[name].append((ins[0].detach(), out)))
        for name, layer in layers.items()
    ]
    try:
        with torch.inference_mode(False), torch.enable_grad():
            given = inputs.clone() if inputs.is_inference() else inputs
            columns = [column.sum() for column in model(given).flatten(1).unbind(1)]
    finally:
        for hook in hooks:
            hook.remove()
    for name, made in calls.items():
        if len(made) != 1:
            raise ValueError(f"layer {name} is used {len(made)} times; allowed: once")
    signals = [
        torch.autograd.grad(column, [made[0][1] for made in calls.values()], retain_graph=True)
        for column in columns
    ]
    grams = {}
    for position, (name, layer) in enumerate(layers.items()):
        gradients = torch.stack([of_output[position] for of_output in signals], 1)  # (n, d_y, *out)
        grams[name] = _layer_gram(layer, calls[name][0][0], gradients)
    return grams


def layerwise_gram(model: nn.Module, inputs: Tensor) -> Tensor:
    r"""Return the tangent kernel :math:`JJ^\top`, `(n d_y, n d_y)`, as the sum of `layer_grams`.

    Args:
        model: a module whose layers `layer_grams` knows.
        inputs: `(n, ...)`.

    Raises:
        ValueError: as `layer_grams`.
    """
    return torch.stack(list(layer_grams(model, inputs).values())).sum(0)


def row_khatri_rao(gates: Tensor, features: Tensor) -> Tensor:
    r"""Return :math:`\Phi`, whose row i holds all products of a gate and a feature of sample i.

    The row-wise Khatri-Rao (face-splitting) product, the matrix of assumption 4 in Kawaguchi, Zhang and Deng (2022).

    Args:
        gates: `(*batch, n, m)`.
        features: `(*batch, n, p)`.

    Returns:
        `(*batch, n, m p)`; column k p + l is gate k times feature l.

    Raises:
        ValueError: the two differ in the number of samples.
    """
    _require_same_samples(gates, features)
    return (gates[..., :, None] * features[..., None, :]).flatten(-2)


def gated_gram(gates: Tensor, features: Tensor) -> Tensor:
    r"""Return :math:`\Phi\Phi^\top = (\Gamma\Gamma^\top)\odot(EE^\top)` of gates and features, without forming it.

    Args:
        gates: :math:`\Gamma`, `(*batch, n, m)`.
        features: E, `(*batch, n, p)`.

    Returns:
        `(*batch, n, n)`.

    Raises:
        ValueError: the two differ in the number of samples.
    """
    _require_same_samples(gates, features)
    return (gates @ gates.mT) * (features @ features.mT)


def rank_tolerances(shape: tuple[int, int], dtype: torch.dtype) -> dict[str, float]:
    """Return the two rank tolerances in common use, relative to the largest singular value.

    `golub` is max(rows, columns) eps (Golub and Van Loan), `press` is (eps/2) sqrt(rows + columns + 1) (Press et al.);
    both are quoted by `numpy.linalg.matrix_rank`.

    Args:
        shape: rows and columns, each >= 1.
        dtype: floating point type of the matrix.

    Returns:
        The tolerances by name.

    Raises:
        ValueError: a count is below 1.
    """
    rows, columns = shape
    if min(rows, columns) < 1:
        raise ValueError(f"shape = {shape}; allowed: two numbers >= 1")
    eps = torch.finfo(dtype).eps
    return {"golub": max(rows, columns) * eps, "press": eps / 2 * math.sqrt(rows + columns + 1)}


def _require_same_samples(gates: Tensor, features: Tensor) -> None:
    require_tensors(gates=(gates, "*batch n m"), features=(features, "*batch n p"))
    if gates.shape[:-1] != features.shape[:-1]:
        raise ValueError(
            f"gates, features have shapes {tuple(gates.shape)}, {tuple(features.shape)}; allowed: the same but for "
            "the last axis"
        )


def dead_share(model: nn.Module, inputs: Tensor, level: float = 0.01) -> float:
    """Return the share of dead units in the hidden layer of `MLP` or `LeNet` that has most of them.

    A unit is dead when the slope of its softplus stays below `level` on every sample (and pixel): no gradient passes.

    Args:
        model: has `activation`, an `nn.Softplus`.
        inputs: `(n, ...)`.
        level: in (0, 1).

    Raises:
        ValueError: the level is out of range.
    """
    require_number("level", level, above=0, below=1)
    shares: list[float] = []

    def watch(softplus: nn.Softplus, ins: tuple[Tensor], _: Tensor) -> None:
        slopes = torch.sigmoid(softplus.beta * ins[0])
        largest = slopes.transpose(0, 1).flatten(1).amax(1)
        shares.append((largest < level).double().mean().item())

    _require_inputs(model, inputs)
    if not isinstance(model.activation, nn.Softplus):
        raise ValueError(f"model.activation = {model.activation!r}; allowed: an nn.Softplus")
    hook = model.activation.register_forward_hook(watch)
    try:
        with torch.no_grad():
            model(inputs)
    finally:
        hook.remove()
    return max(shares)


def _layer_gram(layer: nn.Linear | nn.Conv2d, inputs: Tensor, gradients: Tensor) -> Tensor:
    n, d_y = gradients.shape[:2]
    bias = layer.bias is not None and layer.bias.requires_grad
    if isinstance(layer, nn.Linear):
        if inputs.ndim != 2:
            raise ValueError(
                f"a Linear layer has inputs of shape {tuple(inputs.shape)}; allowed: (n, features)"
            )
        same = (inputs @ inputs.T if layer.weight.requires_grad else inputs.new_zeros(n, n)) + bias
        flat = gradients.reshape(n * d_y, -1)
        return same.repeat_interleave(d_y, 0).repeat_interleave(d_y, 1) * (flat @ flat.T)
    if isinstance(layer.padding, str):
        raise ValueError(f"layer.padding = {layer.padding!r}; allowed: numbers")
    patches = functional.unfold(inputs, layer.kernel_size, layer.dilation, layer.padding, layer.stride)
    of_weights = torch.einsum("npl,nyol->nyop", patches, gradients.flatten(3)).reshape(n * d_y, -1)
    gram = of_weights @ of_weights.T
    if not layer.weight.requires_grad:
        gram = torch.zeros_like(gram)
    if bias:
        of_bias = gradients.flatten(3).sum(-1).reshape(n * d_y, -1)
        gram = gram + of_bias @ of_bias.T
    return gram


def _split(u: Tensor, s: Tensor, target: Tensor) -> ColumnSpace:
    components = (u.mT @ target[..., None]).squeeze(-1)
    outside = target - (u @ components[..., None]).squeeze(-1)
    return ColumnSpace(s, components, outside.norm(dim=-1), target.norm(dim=-1))


def _require_target(shape: tuple[int, ...], target: Tensor) -> None:
    if tuple(target.shape) != tuple(shape):
        raise ValueError(f"target has shape {tuple(target.shape)}; allowed: {tuple(shape)}")
    if not bool((target != 0).any(-1).all()):
        raise ValueError("target is zero; allowed: a vector with a direction")


def _require_inputs(model: nn.Module, inputs: Tensor) -> None:
    """Raise unless the inputs are samples in the dtype of the model's parameters."""
    for parameter in model.parameters():
        if inputs.dtype != parameter.dtype or inputs.device != parameter.device:
            raise ValueError(
                f"inputs is {inputs.dtype} on {inputs.device}; allowed: {parameter.dtype} on {parameter.device}"
            )
    if inputs.ndim < 2 or inputs.numel() == 0:
        raise ValueError(f"inputs has shape {tuple(inputs.shape)}; allowed: (n, ...), n >= 1")
