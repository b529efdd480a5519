"""What the torch optimizers of this package share: one step size for the whole parameter vector."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, SupportsFloat

import torch
import torch.distributed
from torch import Tensor

from learning_dynamics._internal import arguments
from learning_dynamics._internal.arguments import require_real

Loss = Tensor | float
"""The loss of the batch: a number or a tensor with one entry."""

ROUNDING = 1e-6
"""By how much of max(1, |lower bound|) a loss may lie below its lower bound and count as equal to it."""

BOOKKEEPING = frozenset({"params", "param_names", "name", "initial_lr", "step_size"})
"""Keys of a parameter group that are no hyper-parameters: torch's own, a name, and what schedulers write."""


class WholeVectorOptimizer(torch.optim.Optimizer):
    r"""Base of `SPS`, `DecSPS`, `NGN` and `AdaGradNorm`: gradient steps with one step size.

    - **The vector.** The source's algorithms know one parameter vector. Its gradient's norm is taken over all
      parameters of all groups that have a gradient; parameters without one stay where they are.
    - **Groups.** A group has its own hyper-parameters, and with them its own step; with equal ones the step is
      the same for all. `lr` is the hyper-parameter that torch's schedulers act on. A step with `lr` 0, as a
      schedule may ask for, moves nothing.
    - **The loss** is given as `step(loss)` or `step(loss=loss)` after `loss.backward()`, or by a closure that zeroes
      the gradients, calls `backward` and returns the loss. It must be that of the same batch as the gradients, a
      weight penalty of your own included. When gradients are accumulated over several batches it is the loss
      whose gradient they are: the mean of the losses if each was divided by their number.
    - **Clipping.** Loss and norm belong together. `norm = clip_grad_norm_(...)` and then
      `step(loss, gradient_norm=norm)` takes the step size of the whole gradient and moves by the clipped one;
      without it a step of the clipped gradient's norm would be far too long. A `GradScaler` hands all on:
      `scaler.step(optimizer, loss=loss)`, with the loss before scaling.
    - **Weight decay** as torch has it: `weight_decay` adds :math:`\lambda\theta` to the gradient and, so that the
      pair stays one, :math:`\frac\lambda2\|\theta\|^2` to the loss; with `decoupled_weight_decay` parameters shrink by
      the factor :math:`1 - \eta\lambda` (with this step's size) and the step size does not see it.
    - **Several processes** (DistributedDataParallel): gradients come averaged, and the loss is averaged here over the
      default process group, so that the replicas stay equal, with `find_unused_parameters=True` too: a parameter
      that no process used has no gradient and stays. `average_loss=False` where each process trains a model of its own.
      Sharded parameters (FSDP, DTensor) are refused.
    - **The step size** used last stands in `param_groups[i]["step_size"]`, a float; None before the first step.
    - **State** stands under each parameter, numbers that belong to the whole vector under all of them, so that
      `state_dict`, `deepcopy` and `torch.distributed.checkpoint` carry it along. The state of another optimizer is
      refused.
    - **Precision.** Parameters keep their dtype, bfloat16 and float16 too; the norm is summed in float32 at
      least and the step size computed in float64. Reading loss and norm waits for the device once a step.
    - **Bad input** is refused before anything moves: a loss or a gradient that is not finite, a loss below its
      lower bound by more than 1e-6 max(1, |bound|) (one that is below by less counts as equal to it), a sparse
      gradient; a caller may catch the `ValueError` and go on with the next batch.
    - **Zero gradient.** Nothing moves; the largest step allowed is reported.

    A subclass says its step size (`_step_sizes`), checks the hyper-parameters that only it has (`_require`), names what
    it remembers (`_start`) and, if it does more than subtract step size times gradient, moves the parameters (`_move`).

    Args:
        params: parameters, or dictionaries of parameter groups.
        defaults: hyper-parameters of the groups that do not say them.
        average_loss: average the loss over the processes of the default group, where there are several.

    Raises:
        ValueError: a hyper-parameter is out of range or unknown, or a parameter is not real floating point.
    """

    needs_loss: ClassVar[bool] = True
    """Whether a step reads the loss of the batch, and the hyper-parameter `lower_bound` with it."""

    shared: ClassVar[str] = "lower_bound"
    """The hyper-parameter that belongs to the whole vector: equal in all groups."""

    remembers: ClassVar[tuple[str, ...]] = ()
    """The names in the state of a parameter."""

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any], *, average_loss: bool = True) -> None:
        require_parameters(type(self).__name__, params)
        self.average_loss = average_loss
        super().__init__(params, {**defaults, "step_size": None})

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy or a pickle needs, `average_loss` too."""
        return {**super().__getstate__(), "average_loss": self.average_loss}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take over the attributes of a copy or of `load_state_dict`."""
        super().__setstate__(state)
        self.__dict__.setdefault("average_loss", True)

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
        self._require(settings)
        first = (self.param_groups or [self.defaults])[0][self.shared]
        if settings[self.shared] != first:
            raise ValueError(
                f"{self.shared} = {settings[self.shared]!r} in one group; allowed: the same in all, {first!r}"
            )
        super().add_param_group(param_group)
        refuse_unfit_parameters(self)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a state that `state_dict` of the same class returned, as in torch.

        Args:
            state_dict: the state.

        Raises:
            ValueError: it is of another optimizer, or of other groups.
        """
        require_own_state(type(self).__name__, state_dict, set(self.remembers), set(self.defaults))
        for group in state_dict["param_groups"]:
            self._require({**group, "lr": group["lr"] or 1.0})  # a schedule may have it at 0
        super().load_state_dict(state_dict)

    @torch.no_grad()
    def step(  # type: ignore[override]  # torch's own takes no loss
        self,
        closure: Callable[[], Loss] | Loss | None = None,
        *,
        loss: Loss | None = None,
        gradient_norm: Loss | None = None,
    ) -> Loss | None:
        """Take one step and return the loss.

        Args:
            closure: computes the gradients again and returns the loss; or the loss itself.
            loss: the loss that the present gradients belong to; instead of a closure.
            gradient_norm: the norm that all gradients together had before they were clipped to a norm, as
                `torch.nn.utils.clip_grad_norm_` returns it; left out where they were not clipped.

        Returns:
            The loss as it was given; None where none is needed and none was given.

        Raises:
            ValueError: no loss where one is needed, or both; the loss, the norm, a gradient or an lr is not allowed
                (see above).
        """
        if closure is not None:
            if loss is not None:
                raise ValueError("closure and loss are both given; allowed: one of them")
            if callable(closure) and not isinstance(closure, Tensor):
                with torch.enable_grad():
                    loss = closure()
            else:
                loss = closure
        for group in self.param_groups:
            require_number("lr", group["lr"], least=0)  # a schedule may have it at 0
        self._remember()
        if loss is None and self.needs_loss:
            if all(group["lr"] == 0 for group in self.param_groups):
                return (
                    None  # nothing would move: so torch.distributed.checkpoint asks for a state to load into
                )
            raise ValueError("loss = None; allowed: step(loss=loss) after backward, or step(closure)")

        groups = [[p for p in group["params"] if p.grad is not None] for group in self.param_groups]
        gradients = [[p.grad for p in group] for group in groups]
        squared_norms = [_squared_norm(group) for group in gradients]
        scale = _scale(gradient_norm, math.fsum(squared_norms))
        penalty = 0.0
        for i, (group, parameters) in enumerate(zip(self.param_groups, groups, strict=True)):
            decay = 0.0 if group["decoupled_weight_decay"] else group["weight_decay"]
            if decay and parameters:
                whole = gradients[i] if scale == 1 else torch._foreach_mul(gradients[i], scale)
                squared_norms[i] = _squared_norm(list(torch._foreach_add(whole, parameters, alpha=decay)))
                gradients[i] = list(torch._foreach_add(gradients[i], parameters, alpha=decay))
                penalty += decay / 2 * _squared_norm(parameters)
            else:
                squared_norms[i] *= scale * scale
        gap = self._gap(loss, penalty) if self.needs_loss and loss is not None else math.nan
        step_sizes = self._step_sizes(gap, squared_norms)
        for group, parameters, own, step_size in zip(
            self.param_groups, groups, gradients, step_sizes, strict=True
        ):
            group["step_size"] = step_size
            if not parameters:
                continue
            if group["decoupled_weight_decay"] and group["weight_decay"]:
                torch._foreach_mul_(parameters, 1 - step_size * group["weight_decay"])
            self._move(group, parameters, own, step_size)
        return loss

    def _gap(self, loss: Loss, penalty: float) -> float:
        """Return the loss with the weight penalty less its lower bound, as a float >= 0, averaged over processes."""
        if isinstance(loss, Tensor) and loss.numel() != 1:
            raise ValueError(f"loss has shape {tuple(loss.shape)}; allowed: one entry")
        require_real("loss", loss)
        if isinstance(loss, bool) or not isinstance(loss, SupportsFloat):
            raise ValueError(f"loss = {loss!r}; allowed: a number or a tensor with one entry")
        value = float(loss)
        if self.average_loss and _processes() > 1:
            device = self.param_groups[0]["params"][0].device
            shared = torch.tensor(value / _processes(), dtype=torch.float64, device=device)
            torch.distributed.all_reduce(shared)
            value = shared.item()
        bound = self.param_groups[0]["lower_bound"]
        if not bound - ROUNDING * max(1.0, abs(bound)) <= value < math.inf:  # it may round to below its bound
            raise ValueError(f"loss = {value!r}; allowed: finite, >= lower_bound = {bound!r}")
        precision = (
            torch.finfo(loss.dtype).eps if isinstance(loss, Tensor) and loss.is_floating_point() else 0.0
        )
        gap = value - bound
        return penalty + (gap if gap > precision * abs(bound) else 0.0)

    def _require(self, group: dict[str, Any]) -> None:
        """Check the hyper-parameters of a group; a subclass adds those that only it has."""
        require_number("lr", group["lr"], above=0)
        require_number("weight_decay", group["weight_decay"], least=0)
        if not isinstance(group["decoupled_weight_decay"], bool):
            raise ValueError(
                f"decoupled_weight_decay = {group['decoupled_weight_decay']!r}; allowed: True, False"
            )
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

    def _start(self, group: dict[str, Any], parameter: Tensor) -> dict[str, Any]:
        """Return what is remembered of a parameter before the first step, by the names in `remembers`."""
        return {}

    def _remember(self) -> None:
        """Give every parameter a state that has none; a new one takes the numbers of the whole vector over."""
        if not self.remembers:
            return
        numbers = {
            name: value
            for entry in list(self.state.values())[:1]
            for name, value in entry.items()
            if not isinstance(value, Tensor)
        }
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter not in self.state and (start := self._start(group, parameter)):
                    self.state[parameter] = {**start, **numbers}

    def _whole(self) -> dict[str, Any]:
        """Return what is remembered of the whole vector; it stands under each parameter."""
        return self.state[self.param_groups[0]["params"][0]]

    def _keep_whole(self, **values: float) -> None:
        """Write what is remembered of the whole vector under each parameter."""
        for entry in self.state.values():
            entry.update(values)


def _processes() -> int:
    """Return the number of processes of the default group, 1 where there is none."""
    here = torch.distributed.is_available() and torch.distributed.is_initialized()
    return torch.distributed.get_world_size() if here else 1


def _scale(gradient_norm: Loss | None, square: float) -> float:
    """Return by what the present gradients, of this squared norm, were divided when they were clipped."""
    if gradient_norm is None:
        return 1.0
    norm, present = float(gradient_norm), math.sqrt(square)
    if not (math.isfinite(norm) and norm >= present * (1 - 1e-3)):
        raise ValueError(
            f"gradient_norm = {norm!r}; allowed: finite, at least the norm of the present gradients, {present!r}"
        )
    return max(1.0, norm / present) if present else 1.0


def require_parameters(name: str, params: object) -> None:
    """Raise unless the first argument of the optimizer `name` can be parameters; the message says where its rule is."""
    alone = isinstance(params, Tensor | torch.nn.Module)
    if alone or not isinstance(params, Iterable):
        raise ValueError(
            f"params = {f'a {type(params).__name__}' if alone else repr(params)}; allowed: parameters, as from "
            f"model.parameters(); the rule that takes a step size or a cap is learning_dynamics.rules.{name}"
        )


def require_known_keys(param_group: dict[str, Any], settings: set[str]) -> None:
    """Raise a ValueError when a parameter group has a key that is no hyper-parameter of the optimizer."""
    unknown = sorted(set(param_group) - settings - BOOKKEEPING)
    if unknown:
        allowed = ", ".join(sorted({"params"} | settings - BOOKKEEPING))
        raise ValueError(f"parameter group has {', '.join(unknown)}; allowed: {allowed}")


def refuse_unfit_parameters(optimizer: torch.optim.Optimizer) -> None:
    """Take the last group back and raise a ValueError when a parameter in it is there twice, not real, or a shard."""
    reason = _why_unfit(optimizer.param_groups[-1]["params"])
    if reason is not None:
        optimizer.param_groups.pop()
        raise ValueError(reason)


def _why_unfit(parameters: list[Tensor]) -> str | None:
    if len(set(parameters)) < len(parameters):
        return "params has a parameter twice; allowed: each once"
    for parameter in parameters:
        if not parameter.is_floating_point():
            return (
                f"params has a parameter of dtype {parameter.dtype}; allowed: real floating point "
                "(for a complex parameter hand over torch.view_as_real of it)"
            )
        if type(parameter).__module__.startswith("torch.distributed"):
            return (
                f"params has a {type(parameter).__name__}, a shard; "
                "allowed: whole parameters, as under DistributedDataParallel"
            )
    return None


def require_own_state(
    name: str, state_dict: dict[str, Any], remembered: set[str], settings: set[str]
) -> None:
    """Check that a state is one of the optimizer `name`, by what it remembers of a parameter and says of a group.

    Raises:
        ValueError: it is not.
    """
    entries = [entry for entry in state_dict["state"].values() if isinstance(entry, dict)]
    foreign = {key for entry in entries for key in entry} - remembered
    foreign |= {key for key in state_dict["state"] if isinstance(key, str) and " " in key}
    if foreign or len(entries) != len(state_dict["state"]):
        allowed = ", ".join(sorted(remembered)) or "nothing"
        raise ValueError(f"state has {', '.join(sorted(foreign))}; allowed for {name}: {allowed}")
    for group in state_dict["param_groups"]:
        missing = sorted(settings - set(group))
        if missing:
            raise ValueError(f"a group of the state lacks {', '.join(missing)}; allowed: a state of {name}")


def require_number(
    name: str, value: object, *, above: float = -math.inf, least: float = -math.inf, below: float = math.inf
) -> None:
    """Check a hyper-parameter as `_internal.arguments.require_number` does, which lets a tensor pass: here it is none.

    Raises:
        ValueError: it is no number in the range.
    """
    if isinstance(value, Tensor):
        value = f"a tensor {value.tolist()}"
    arguments.require_number(name, value, above=above, least=least, below=below)


def _squared_norm(tensors: list[Tensor]) -> float:
    """Return the squared norm of all tensors together; each norm is summed in float32 at least."""
    for tensor in tensors:
        if tensor.layout != torch.strided:
            raise ValueError(f"gradient has layout {tensor.layout}; allowed: dense, torch.strided")
    total = 0.0
    for dtype in {tensor.dtype for tensor in tensors}:
        same = [tensor for tensor in tensors if tensor.dtype == dtype]
        norms = torch._foreach_norm(same, 2, dtype=torch.promote_types(dtype, torch.float32))
        for tensor, norm in zip(
            same, torch.stack([norm.to(norms[0].device) for norm in norms]).tolist(), strict=True
        ):
            if not math.isfinite(norm):  # a square may overflow where no entry does
                largest = tensor.abs().amax().item()
                norm = largest
                if math.isfinite(largest):
                    norm *= torch.linalg.vector_norm((tensor / largest).double()).item()
            if not math.isfinite(norm * norm):
                raise ValueError(f"gradient has norm {norm}; allowed: finite, with a finite square")
            total += norm * norm
    return total
