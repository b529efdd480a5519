"""Gradient descent with kicks on the weights that are taken back one step later."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from learning_dynamics._internal.arguments import require_generator
from learning_dynamics.optimizers.whole_vector import (
    refuse_unfit_parameters,
    require_known_keys,
    require_number,
    require_own_state,
    require_parameters,
)


class AntiPGD(torch.optim.Optimizer):
    r"""Anticorrelated perturbed gradient descent as a torch optimizer (Orvieto 2023, eq. 147).

    .. math:: \theta_{k+1} = \theta_k - \mathtt{lr}\, \nabla\mathcal L(\theta_k) + \zeta_k - \zeta_{k-1}

    Every coordinate of a kick :math:`\zeta_k` is plus or minus sigma. The weights always carry the last kick; the
    point behind it, :math:`\bar\theta_k = \theta_k - \zeta_{k-1}`, is the one to evaluate and to save. In the mean it
    descends the loss plus :math:`\frac{\sigma^2}2` times the trace of its Hessian.

    Example:
        >>> optimizer = AntiPGD(model.parameters(), lr=0.1, sigma=0.01, generator=generator)
        >>> loss = criterion(model(inputs), targets)
        >>> optimizer.zero_grad()
        >>> loss.backward()
        >>> optimizer.step()
        >>> with optimizer.unperturbed():
        ...     evaluate(model)

    - **To end a run**, set `group["sigma"] = 0` for the last tenth of the steps: the next step takes the last kick
      back, and from then on nothing is kicked.
    - **Parameters without a gradient** stay where they are, with the kick that they carry.
    - **Memory**: one kick a parameter. The state of the generator is not in `state_dict`; keep it beside it to go on
      with the same kicks.
    - **With another optimizer**: `noise.shaking.shaken` asks the gradient at a shaken point for any of them, which is
      the same method, there with normal kicks.

    Args:
        params: parameters, or dictionaries of parameter groups.
        lr: eta >= 0, on which a scheduler acts.
        sigma: size of the kicks, >= 0, in the units of the weights.
        generator: source of the kicks, on the device of the parameters.
        weight_decay: lambda >= 0; lambda times the weights is added to the gradient.

    Raises:
        ValueError: a hyper-parameter is out of range, `params` are no parameters, or one of them is not real floating
            point.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float,
        sigma: float,
        *,
        generator: torch.Generator,
        weight_decay: float = 0.0,
    ) -> None:
        require_parameters("PerturbedGradientDescent", params)
        self.generator = require_generator(generator)
        super().__init__(params, {"lr": lr, "sigma": sigma, "weight_decay": weight_decay})

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group of parameters, as in torch.

        Args:
            param_group: the group's `params` and the hyper-parameters that are its own.

        Raises:
            ValueError: a hyper-parameter is out of range or unknown, or a parameter is not real floating point, only
                a shard, or there twice.
        """
        require_known_keys(param_group, set(self.defaults))
        settings = {**self.defaults, **param_group}
        for name in self.defaults:
            require_number(name, settings[name], least=0)
        super().add_param_group(param_group)
        refuse_unfit_parameters(self)

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy or a pickle needs, the generator too."""
        return {**super().__getstate__(), "generator": self.generator}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a state that `state_dict` of the same class returned, as in torch.

        Args:
            state_dict: the state.

        Raises:
            ValueError: it is of another optimizer, or of other groups.
        """
        require_own_state("AntiPGD", state_dict, {"kick"}, set(self.defaults))
        super().load_state_dict(state_dict)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take one step with the gradients in place.

        Args:
            closure: zeroes the gradients, calls `backward` and returns the loss.

        Returns:
            The loss that the closure returned; None without one.

        Raises:
            ValueError: the closure is no function.
        """
        loss = None
        if closure is not None:
            if not callable(closure) or isinstance(closure, Tensor):
                raise ValueError(f"closure is a {type(closure).__name__}; allowed: a function, or none")
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                kick = torch.empty_like(parameter).bernoulli_(0.5, generator=self.generator)
                kick.mul_(2 * group["sigma"]).sub_(group["sigma"])
                parameter.mul_(1 - group["lr"] * group["weight_decay"])
                parameter.sub_(parameter.grad, alpha=group["lr"])
                parameter.add_(kick)
                if "kick" in state:
                    parameter.sub_(state["kick"])
                state["kick"] = kick
        return loss

    @contextmanager
    def unperturbed(self) -> Iterator[None]:
        """Take the last kick off the weights while the block runs, and put them back exactly, also after an exception.

        Evaluate or save the model inside the block; train outside.

        Returns:
            a context manager.
        """
        kicked: list[tuple[Tensor, Tensor]] = []
        with torch.no_grad():
            for parameter, state in self.state.items():
                kicked.append((parameter, parameter.detach().clone()))
                parameter.sub_(state["kick"])
        try:
            yield
        finally:
            with torch.no_grad():
                for parameter, value in kicked:
                    parameter.copy_(value)
