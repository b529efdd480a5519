"""What the torch optimizers of this package share: one step size for the whole parameter vector."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from numbers import Real
from typing import Any, ClassVar

import torch
from torch import Tensor

Loss = Tensor | float
"""The loss of the batch: a number or a tensor with one entry."""


class WholeVectorOptimizer(torch.optim.Optimizer):
    r"""Base of `SPS`, `DecSPS`, `NGN` and `AdaGradNorm`: gradient steps with one step size.

    - **The vector.** The source's algorithms know one parameter vector. Its gradient's norm is taken over all
      parameters of all groups that have a gradient; parameters without one stay where they are.
    - **Groups.** A group has its own hyper-parameters, and with them its own step; with equal ones the step is
      the same for all. `lr` is the hyper-parameter that torch's schedulers act on. A step with `lr` 0, as a
      schedule may ask for, moves nothing.
    - **The loss** is given as `step(loss=loss)` after `loss.backward()`, or by a closure that zeroes the
      gradients, calls `backward` and returns the loss. It must be that of the same batch as the gradients, a
      weight penalty included.
    - **The step size** used last stands in `param_groups[i]["step_size"]`, a float; None before the first step.
    - **Precision.** Parameters keep their dtype, bfloat16 and float16 too; the norm is summed in float32 at
      least and the step size computed in float64. Reading loss and norm waits for the device once a step.
    - **Bad input** is refused before anything moves: a loss or a gradient that is not finite, a loss below its
      lower bound, a sparse gradient; a caller may catch the `ValueError` and go on with the next batch.
    - **Zero gradient.** Nothing moves; the largest step allowed is reported.

    A subclass says its step size (`_step_sizes`), checks the hyper-parameters that only it has (`_require`) and, if it
    does more than subtract step size times gradient, moves the parameters (`_move`).

    Args:
        params: parameters, or dictionaries of parameter groups.
        defaults: hyper-parameters of the groups that do not say them.

    Raises:
        ValueError: a hyper-parameter is out of range, or a parameter is not real floating point.
    """

    needs_loss: ClassVar[bool] = True
    """Whether a step reads the loss of the batch, and the hyper-parameter `lower_bound` with it."""

    shared: ClassVar[str] = "lower_bound"
    """The hyper-parameter that belongs to the whole vector: equal in all groups."""

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]) -> None:
        _require_parameters(type(self).__name__, params)
        super().__init__(params, {**defaults, "step_size": None})

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group of parameters, as in torch.

        Args:
            param_group: the group's `params` and the hyper-parameters that are its own.

        Raises:
            ValueError: a hyper-parameter is out of range, or a parameter is not real floating point.
        """
        settings = {**self.defaults, **param_group}
        self._require(settings)
        first = (self.param_groups or [self.defaults])[0][self.shared]
        if settings[self.shared] != first:
            raise ValueError(
                f"{self.shared} = {settings[self.shared]!r} in one group; allowed: the same in all, {first!r}"
            )
        super().add_param_group(param_group)
        for parameter in self.param_groups[-1]["params"]:
            if not parameter.is_floating_point():
                self.param_groups.pop()
                raise ValueError(
                    f"params has a parameter of dtype {parameter.dtype}; allowed: real floating point "
                    "(for a complex parameter hand over torch.view_as_real of it)"
                )

    @torch.no_grad()
    def step(  # type: ignore[override]  # torch's own takes no loss
        self, closure: Callable[[], Loss] | None = None, *, loss: Loss | None = None
    ) -> Loss | None:
        """Take one step and return the loss.

        Args:
            closure: computes the gradients again and returns the loss.
            loss: the loss that the present gradients belong to; instead of a closure.

        Returns:
            The loss as it was given; None where none is needed and none was given.

        Raises:
            ValueError: no loss where one is needed, or both; the loss or a gradient is not allowed (see above).
        """
        if closure is not None:
            if loss is not None:
                raise ValueError("closure and loss are both given; allowed: one of them")
            with torch.enable_grad():
                loss = closure()
        if loss is None and self.needs_loss:
            raise ValueError("loss = None; allowed: step(loss=loss) after backward, or step(closure)")

        groups = [[p for p in group["params"] if p.grad is not None] for group in self.param_groups]
        gradients = [[p.grad for p in group] for group in groups]
        squared_norms = [_squared_norm(group) for group in gradients]
        gap = self._gap(loss) if self.needs_loss and loss is not None else math.nan
        step_sizes = self._step_sizes(gap, squared_norms)
        for group, parameters, own, step_size in zip(
            self.param_groups, groups, gradients, step_sizes, strict=True
        ):
            group["step_size"] = step_size
            if parameters:
                self._move(group, parameters, own, step_size)
        return loss

    def _gap(self, loss: Loss) -> float:
        """Return the loss less its lower bound, as a float >= 0."""
        if isinstance(loss, Tensor) and loss.numel() != 1:
            raise ValueError(f"loss has shape {tuple(loss.shape)}; allowed: one entry")
        value = loss.item() if isinstance(loss, Tensor) else float(loss)
        bound = self.param_groups[0]["lower_bound"]
        if not bound - 1e-6 * abs(bound) <= value < math.inf:  # a loss at its bound may round to below it
            raise ValueError(f"loss = {value!r}; allowed: finite, >= lower_bound = {bound!r}")
        return max(value - bound, 0.0)

    def _require(self, group: dict[str, Any]) -> None:
        """Check the hyper-parameters of a group; a subclass adds those that only it has."""
        require_number("lr", group["lr"], above=0)
        if self.needs_loss:
            require_number("lower_bound", group["lower_bound"])

    def _step_sizes(self, gap: float, squared_norms: list[float]) -> list[float]:
        """Return the step size of each group from the loss above its bound and the groups' squared norms."""
        raise NotImplementedError

    def _move(
        self, group: dict[str, Any], parameters: list[Tensor], gradients: list[Tensor], step_size: float
    ) -> None:
        """Move a group's parameters, in place."""
        torch._foreach_add_(parameters, gradients, alpha=-step_size)

    def _whole(self, **start: float) -> dict[str, Any]:
        """Return the state of the whole vector, which `state_dict` carries along; `start` if there is none."""
        shared: dict[Any, dict[str, Any]] = (
            self.state
        )  # torch writes Tensor for the keys, and saves all of them
        state = shared["whole vector"]
        for name, value in start.items():
            state.setdefault(name, value)
        return state


def _require_parameters(name: str, params: object) -> None:
    """Raise unless the first argument of the optimizer `name` can be parameters; the message says where its rule is."""
    alone = isinstance(params, Tensor | torch.nn.Module)
    if alone or not isinstance(params, Iterable):
        raise ValueError(
            f"params = {f'a {type(params).__name__}' if alone else repr(params)}; allowed: parameters, as from "
            f"model.parameters(); the rule that takes a step size or a cap is learning_dynamics.rules.{name}"
        )


def require_number(
    name: str, value: object, above: float | None = None, low: float | None = None, below: float | None = None
) -> None:
    """Check that a hyper-parameter is a finite number, `> above`, `>= low` and `< below` where these are given.

    Raises:
        ValueError: it is not.
    """
    allowed = ["a finite number"]
    number = float(value) if isinstance(value, Real) else math.nan
    good = math.isfinite(number)
    for sign, bound in ((">", above), (">=", low), ("<", below)):
        if bound is not None:
            allowed.append(f"{sign} {bound}")
            good = good and {">": number > bound, ">=": number >= bound, "<": number < bound}[sign]
    if not good:
        raise ValueError(f"{name} = {value!r}; allowed: {', '.join(allowed)}")


def _squared_norm(gradients: list[Tensor]) -> float:
    """Return the squared norm of all gradients together; each norm is summed in float32 at least."""
    for gradient in gradients:
        if gradient.layout != torch.strided:
            raise ValueError(f"gradient has layout {gradient.layout}; allowed: dense, torch.strided")
    total = 0.0
    for dtype in {gradient.dtype for gradient in gradients}:
        same = [gradient for gradient in gradients if gradient.dtype == dtype]
        norms = torch._foreach_norm(same, 2, dtype=torch.promote_types(dtype, torch.float32))
        for norm in torch.stack([norm.to(norms[0].device) for norm in norms]).tolist():
            if not math.isfinite(norm):
                raise ValueError(f"gradient has norm {norm}; allowed: finite")
            total += norm * norm
    return total
