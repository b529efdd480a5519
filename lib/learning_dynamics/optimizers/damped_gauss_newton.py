"""The damped Gauss-Newton method, with a damping that follows the gain ratio."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from learning_dynamics._internal.arguments import require_count
from learning_dynamics.curvature.gauss_newton import GaussNewton
from learning_dynamics.curvature.output_laws import Categorical, OutputLaw
from learning_dynamics.curvature.trust_region import gain_ratio, next_damping
from learning_dynamics.optimizers.whole_vector import require_number, require_own_state


class DampedGaussNewton(torch.optim.Optimizer):
    r"""Gauss-Newton steps with Levenberg-Marquardt damping, as a torch optimizer.

    .. math:: \theta_{k+1} = \theta_k - (G_k + \lambda_k I)^{-1} \nabla \mathcal L(\theta_k)

    G is the generalized Gauss-Newton matrix of the batch, for the laws whose H_out does not depend on the target
    (`Categorical`, `Bernoulli`, `SquaredError`, `Poisson`) the Fisher matrix, so that this is the damped natural
    gradient (Martens 2020, section 10). The system is solved by conjugate gradients, by products with G only; a
    product costs a few gradients. Then the loss of the same batch is compared with what the model promised
    (`curvature.gain_ratio`): a step that raises the loss is not taken, and lambda goes down or up by the factor
    (`curvature.next_damping`). There is no learning rate.

    Example:
        >>> optimizer = DampedGaussNewton(model, curvature.Categorical())
        >>> for inputs, targets in batches:
        ...     loss = optimizer.step(inputs=inputs, targets=targets)

    - **The batch** should be large, for a small one the model is exact about too little: full batches, or thousands.
    - **What happened** stands in `param_groups[0]`: `damping` (of the next step), `gain_ratio`, `accepted`,
      `products` (with G, in this step). `state_dict` carries them along.
    - **The end.** Where the model promises less than the rounding of the loss, nothing is done and nothing changes.
    - **Bad input** is refused before anything moves, as `curvature.GaussNewton` does.

    Args:
        model: a module without dropout or batch normalization; its parameters that require a gradient move, those that
            are frozen later stay.
        law: an output law, or a torch loss with reduction="mean".
        damping: lambda of the first step, > 0, in units of the curvature of the loss.
        factor: what lambda is divided or multiplied by, > 1.
        tolerance: relative residual at which conjugate gradients stop, > 0.
        max_steps: products at most in one solution, >= 1.

    Raises:
        ValueError: a hyper-parameter is out of range, `model` is no module, or it has nothing to move.
    """

    def __init__(
        self,
        model: nn.Module,
        law: OutputLaw | nn.Module | None = None,
        *,
        damping: float = 1.0,
        factor: float = 3.0,
        tolerance: float = 1e-2,
        max_steps: int = 30,
    ) -> None:
        require_number("damping", damping, above=0)
        require_number("factor", factor, above=1)
        require_number("tolerance", tolerance, above=0)
        require_count("max_steps", max_steps)
        if not isinstance(model, nn.Module):
            raise ValueError(
                f"model is a {type(model).__name__}; allowed: a torch.nn.Module, not its parameters"
            )
        moving = [parameter for parameter in model.parameters() if parameter.requires_grad]
        if not moving:
            raise ValueError("model has no parameter that requires a gradient; allowed: at least one")
        defaults: dict[str, Any] = {
            "damping": float(damping),
            "factor": float(factor),
            "tolerance": float(tolerance),
            "max_steps": max_steps,
            "gain_ratio": None,
            "accepted": None,
            "products": 0,
        }
        super().__init__(moving, defaults)
        self._model, self._law = model, Categorical() if law is None else law

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy or a pickle needs, the model too: a copy moves its own."""
        return {**super().__getstate__(), "_model": self._model, "_law": self._law}

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Take the one group of the model's parameters, as torch does when an optimizer is made.

        Args:
            param_group: the group.

        Raises:
            ValueError: there is one already.
        """
        if self.param_groups:
            raise ValueError("a second parameter group is given; allowed: one, the parameters of the model")
        super().add_param_group(param_group)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a state that `state_dict` of the same class returned, as in torch.

        Args:
            state_dict: the state.

        Raises:
            ValueError: it is of another optimizer, or of other groups.
        """
        require_own_state("DampedGaussNewton", state_dict, set(), set(self.defaults))
        super().load_state_dict(state_dict)

    @torch.no_grad()
    def step(self, closure: None = None, *, inputs: Tensor, targets: Tensor) -> Tensor:  # type: ignore[override]  # torch's has no data
        """Take one step on a batch and return its loss before the step, `()`.

        Args:
            closure: not used; the method evaluates the model itself.
            inputs: `(n, ...)`, the batch.
            targets: `(n)` or `(n, d_y)`, as the law takes them.

        Returns:
            The loss, a number `()`.

        Raises:
            ValueError: a closure is given, or no parameter requires a gradient; or as `curvature.GaussNewton`.
        """
        if closure is not None:
            raise ValueError("closure is given; allowed: step(inputs=..., targets=...)")
        group = self.param_groups[0]
        moving = [parameter for parameter in group["params"] if parameter.requires_grad]
        G = GaussNewton(self._model, self._law, inputs, targets, parameters=moving)
        loss, gradient = G.loss_and_gradient()
        damping = torch.as_tensor(group["damping"], dtype=loss.dtype, device=loss.device)
        found = G.solve(
            gradient,
            damping=group["damping"],
            tolerance=group["tolerance"],
            max_steps=group["max_steps"],
        )
        step = -found.x
        promised = gradient @ step + 0.5 * (step @ (G @ step))
        group["products"] = found.steps + 2  # the residual and the promise take one each
        if not -promised > 4 * torch.finfo(loss.dtype).eps * loss.abs():
            group["gain_ratio"], group["accepted"] = None, False
            return loss
        theta = torch.cat([parameter.reshape(-1) for parameter in moving])
        after = G.loss_at(theta + step)
        rho = gain_ratio(loss, after, promised)
        group["gain_ratio"], group["accepted"] = float(rho), bool(after < loss)
        group["damping"] = float(next_damping(damping, rho, group["factor"]))
        if group["accepted"]:
            pieces = (theta + step).split([parameter.numel() for parameter in moving])
            for parameter, piece in zip(moving, pieces, strict=True):
                parameter.copy_(piece.view_as(parameter))
        return loss
