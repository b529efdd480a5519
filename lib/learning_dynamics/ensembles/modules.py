"""Many networks at once: modules of one shape, stacked, trained by one update with all seeds and settings as a batch.

    def loss(model, x, y):
        return cross_entropy(model(x), y)

    ensemble = ModuleEnsemble([make(seed) for seed in range(64)], rules.Adam(1e-3), loss)
    seen = ensemble.train(batches(shuffled(n, 100, generator), X, y), steps=600)

The obviously right twin is a loop over the networks with `torch.autograd` and `torch.optim`, which the tests use.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, stack_module_state, vmap

from learning_dynamics._internal.arguments import require_count, step_numbers
from learning_dynamics._internal.randomness import global_seed
from learning_dynamics.ensembles.iterate import infinite_unless, log_spaced, take_step
from learning_dynamics.rules import LossRule, Rule
from learning_dynamics.rules.rule import reads_loss

ModuleLoss = Callable[..., Tensor]
"""`loss(model, *batch) -> ()`: the loss of one run; `model` is called as the module is, and no data have a run axis."""

MakeOptimizer = Callable[[dict[str, Tensor]], torch.optim.Optimizer]
"""Makes a torch optimizer from the stacked parameters by name, `(B, *shape)` each."""

ENTRYWISE = tuple(
    getattr(torch.optim, name)
    for name in "SGD Adam AdamW Adamax NAdam RAdam RMSprop Adagrad Adadelta ASGD Rprop".split()
)
"""The torch optimizers that treat every entry of a parameter by itself, so that stacked runs never mix."""


class ModuleTrajectory(NamedTuple):
    """What `ModuleEnsemble.train` saw in B runs.

    Attributes:
        losses: `(steps, B)`, the loss of each step's batch before the step; infinite where it is not finite.
        steps: `(R,)` int64, the recorded step numbers.
        values: `(R, B, ...)`, what `observe` returned there; infinite where the run had diverged. None without it.
        diverged: `(B,)` bool, whether the run has left the finite numbers.
        watched: `(R, B, ...)`, what `watch` returned there; infinite where the run had diverged. None without it.
    """

    losses: Tensor
    steps: Tensor
    values: Tensor | None
    diverged: Tensor
    watched: Tensor | None = None


class ModuleEnsemble:
    """B modules of one shape under one update; the runs never see each other.

    Under a rule the trained parameters of a run are one vector, in the order of `named_parameters`, so that rules
    that take a norm (`NGN`, `AdaGradNorm`) do what they do on `theta (B, d)`, and a hyper-parameter `(B, 1)` gives
    every run its own. A run that leaves the finite numbers stays among the others and is told by `diverged`.

    Buffers belong to the runs as parameters do: what a module writes into them in training mode (the running means
    of `BatchNorm`) is kept. Parameters that require no gradient stay as they are. A parameter that a module has in
    two places is trained once.

    Example:
        >>> ensemble = ModuleEnsemble(models, rules.HeavyBall(rates[:, None], momentum=0.9), loss)
        >>> seen = ensemble.train(itertools.repeat((X, y)), steps=200)  # full batch; X (B, n, ...), y (B, n)
        >>> best = ensemble.module(int(seen.losses[-1].argmin()))

    Attributes:
        count: the number of members, B.
        steps: number of steps taken.
        buffers: buffers and untrained parameters by name, `(B, *shape)`.
        optimizer: the torch optimizer, for its schedulers; None under a rule.
        state: the rule's state; None under a torch optimizer.

    Args:
        models: B modules of one class with parameters of the same shapes; they are not changed.
        update: a rule of `learning_dynamics.rules`, or a function that makes a torch optimizer from the stacked
            parameters by name: `lambda named: torch.optim.AdamW(named.values(), lr=1e-3)`. Only optimizers that
            treat every entry by itself are allowed, as others would mix the runs.
        loss: `loss(model, *batch) -> ()`, the loss of one run.
        dropout_seed: for modules that draw in training mode, since they take no generator: in step k = 0, 1, ...
            PyTorch's global generator is seeded with `dropout_seed + k`, and put back afterwards. Each run draws
            its own.

    Raises:
        ValueError: no models, models that differ in class, names or shapes, or nothing to train; a rule's class in the
            place of a rule; under a rule parameters of more than one dtype or device, or complex ones; an optimizer
            that mixes entries.
    """

    def __init__(
        self,
        models: Sequence[nn.Module],
        update: Rule[Any] | LossRule[Any] | MakeOptimizer,
        loss: ModuleLoss,
        *,
        dropout_seed: int | None = None,
    ) -> None:
        if isinstance(models, nn.Module):
            raise ValueError(f"models is a {type(models).__name__}; allowed: a sequence of modules")
        models = list(models)
        _require_alike(models)
        self.count, self.steps = len(models), 0
        self._template = copy.deepcopy(models[0])
        self._loss, self._dropout_seed = loss, dropout_seed
        stacked, self.buffers = stack_module_state(models)
        trained = {name for name, parameter in models[0].named_parameters() if parameter.requires_grad}
        if not trained:
            raise ValueError("models have nothing to train; allowed: a parameter that requires a gradient")
        values = {name: value.detach() for name, value in stacked.items()}
        self.buffers |= {name: value for name, value in values.items() if name not in trained}
        named = {name: value for name, value in values.items() if name in trained}
        self._shapes = {name: value.shape for name, value in named.items()}
        self._gradient = vmap(
            grad_and_value(self._loss_and_buffers, has_aux=True),
            randomness="error" if dropout_seed is None else "different",
        )
        self.optimizer: torch.optim.Optimizer | None = None
        self.state: Any = None
        self._rule: Any = None
        if hasattr(update, "start"):
            reads_loss(update)  # type: ignore[arg-type]  # refuses what is no rule
            _require_one_kind(named)
            self._rule = update
            self._theta = torch.cat([value.flatten(1) for value in named.values()], 1)
            self.state = update.start(self._theta)
        else:
            if isinstance(update, type | torch.optim.Optimizer):
                kind = update.__name__ if isinstance(update, type) else type(update).__name__
                raise ValueError(
                    f"update is the torch optimizer {kind}; allowed: a rule, or a function that makes an optimizer, "
                    f"lambda named: {kind}(named.values())"
                )
            self._named = named
            self.optimizer = update(named)
            if not isinstance(self.optimizer, ENTRYWISE):
                names = ", ".join(kind.__name__ for kind in ENTRYWISE)
                raise ValueError(
                    f"update makes a {type(self.optimizer).__name__}; allowed: a rule, or {names}"
                )

    @property
    def parameters(self) -> dict[str, Tensor]:
        """The trained parameters by name, `(B, *shape)`; to be read, `load_state_dict` writes them."""
        if self._rule is None:
            return self._named
        parts = self._theta.split([shape[1:].numel() for shape in self._shapes.values()], 1)
        return {
            name: part.reshape(shape).contiguous()
            for (name, shape), part in zip(self._shapes.items(), parts, strict=True)
        }

    @property
    def theta(self) -> Tensor:
        """The trained parameters of each run as one vector, `(B, d)`, in the order of `named_parameters`."""
        if self._rule is not None:
            return self._theta
        return torch.cat([value.flatten(1) for value in self._named.values()], 1)

    @property
    def diverged(self) -> Tensor:
        """Whether a run has left the finite numbers, `(B,)` bool."""
        return ~self.theta.isfinite().all(1)

    def step(self, *batch: Tensor) -> Tensor:
        """Take one step in every run.

        Args:
            batch: tensors `(B, ...)`, handed to the loss one run at a time.

        Returns:
            the losses before the step, `(B,)`; infinite where they are not finite.

        Raises:
            ValueError: a tensor has not one entry for each run, or the loss of a run is no scalar.
            RuntimeError: from torch, where a module draws random numbers and there is no `dropout_seed`.
        """
        self._require_runs(batch)
        self._template.train()
        parameters = self.parameters
        with self._drawing(next(iter(parameters.values())).device):
            slopes, (losses, self.buffers) = self._gradient(parameters, self.buffers, *batch)
        losses = losses.detach()
        if self.optimizer is not None:
            for name, value in parameters.items():
                value.grad = slopes[name]
            self.optimizer.step()
        else:
            gradient = torch.cat([slopes[name].flatten(1) for name in self._shapes], 1)
            self._theta, self.state = take_step(self._rule, self._theta, (losses, gradient), self.state)
        self.steps += 1
        return infinite_unless(losses.isfinite(), losses, "loss")

    def train(
        self,
        batches: Iterable[Sequence[Tensor]],
        steps: int,
        *,
        record: Iterable[int] | None = None,
        observe: Callable[[ModuleEnsemble], Tensor] | None = None,
        watch: Callable[[Any], Tensor] | None = None,
    ) -> ModuleTrajectory:
        """Take `steps` steps, one batch each, and record what is wanted on the way.

        Args:
            batches: the tensors `(B, ...)` of each step, as from `batches` of this package; for the full batch
                `itertools.repeat((X, y))`. Nothing is taken ahead.
            steps: number of steps, >= 0.
            record: increasing numbers between 0 and `steps`, counted from this call; `log_spaced(steps)` if left
                out. Number k is the ensemble after k steps.
            observe: `observe(ensemble) -> (B, ...)`, what to record, such as a loss on all data by `evaluate`. It
                sees diverged runs as they are; what it returns for them is replaced by infinity.
            watch: maps the rule's state to what else is recorded, `(B, ...)`: `lambda state: state.step_size`.

        Returns:
            What was recorded, and which runs diverged.

        Raises:
            ValueError: `steps` or `record` is out of range, the batches end early, `observe` or `watch` drops the
                axis of the runs, or `watch` is given without a rule; and as `step`.
        """
        require_count("steps", steps, least=0)
        recorded = log_spaced(steps) if record is None else step_numbers(record, steps)
        if watch is not None and self._rule is None:
            raise ValueError(
                "watch is given; allowed: under a rule, a torch optimizer has no state of that kind"
            )
        wanted, losses, values, watched, source = set(recorded), [], [], [], iter(batches)
        for k in range(steps + 1):
            if k in wanted:
                finite = ~self.diverged
                if observe is not None:
                    values.append(infinite_unless(finite, observe(self)))
                if watch is not None:
                    watched.append(infinite_unless(finite, watch(self.state), "watch"))
            if k < steps:
                batch = next(source, None)
                if batch is None:
                    raise ValueError(f"batches end after {k}; allowed: at least steps = {steps}")
                losses.append(self.step(*batch))
        device = self.diverged.device
        return ModuleTrajectory(
            torch.stack(losses) if losses else torch.empty(0, self.count, device=device),
            torch.tensor(recorded, device=device),
            torch.stack(values) if observe is not None else None,
            self.diverged,
            torch.stack(watched) if watch is not None else None,
        )

    def evaluate(self, function: Callable[..., Any], *data: Tensor, shared: bool = False) -> Any:
        """Return what a function of one run's model and data gives in every run, stacked; in evaluation mode.

        Args:
            function: `function(model, *data)`, a tensor or a tuple of tensors, such as outputs, loss or accuracy.
            data: tensors `(B, ...)`, or without the axis of the runs if they are `shared`.
            shared: hand the same data to all runs.

        Returns:
            one tensor `(B, ...)` for each tensor the function returns; no gradients are kept.

        Raises:
            ValueError: a tensor has not one entry for each run.
        """
        if not shared:
            self._require_runs(data)
        self._template.eval()

        def of_one(parameters: Mapping[str, Tensor], buffers: Mapping[str, Tensor], *own: Tensor) -> Any:
            return function(self._call(parameters, buffers), *own)

        with torch.no_grad():
            axes = (0, 0, *(None if shared else 0 for _ in data))
            return vmap(of_one, axes)(self.parameters, self.buffers, *data)

    def module(self, run: int) -> nn.Module:
        """Return a copy of the module of one run, 0 <= `run` < B, with the parameters and buffers it has now.

        Raises:
            ValueError: `run` is out of range.
        """
        require_count("run", run, least=0, most=self.count - 1)
        one = copy.deepcopy(self._template)
        held = {name: value[run] for name, value in (self.parameters | self.buffers).items()}
        with torch.no_grad():
            for name, target in (*one.named_parameters(), *one.named_buffers()):
                target.copy_(held[name])
        return one

    def state_dict(self) -> dict[str, Any]:
        """Return all that `load_state_dict` needs to go on from here: tensors, numbers, and dicts and lists of them.

        It is a copy. Generators and schedulers are the caller's.
        """
        update = _leaves(self.state) if self.optimizer is None else self.optimizer.state_dict()
        whole = {
            "parameters": self.parameters,
            "buffers": self.buffers,
            "update": update,
            "steps": self.steps,
        }
        return copy.deepcopy(whole)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a state of an ensemble made in the same way; its tensors may lie on another device.

        Args:
            state: what `state_dict` returned.

        Raises:
            ValueError: parameters or buffers have other names or shapes.
        """
        for part, own in (("parameters", self.parameters), ("buffers", self.buffers)):
            given = {name: tuple(value.shape) for name, value in state[part].items()}
            if given != (here := {name: tuple(value.shape) for name, value in own.items()}):
                raise ValueError(f"state has {part} {given}; allowed: {here}")
        if self.optimizer is not None:
            with torch.no_grad():
                for name, value in state["parameters"].items():
                    self._named[name].copy_(value)
            self.optimizer.load_state_dict(state["update"])
        else:
            flat = torch.cat([state["parameters"][name].flatten(1) for name in self._shapes], 1)
            self._theta = flat.to(self._theta)
            self.state = _rebuilt(self.state, iter(state["update"]))
        self.buffers = {name: state["buffers"][name].to(value) for name, value in self.buffers.items()}
        self.steps = state["steps"]

    def _call(self, parameters: Mapping[str, Tensor], buffers: Mapping[str, Tensor]) -> Callable[..., Any]:
        return lambda *inputs, **options: functional_call(
            self._template, {**parameters, **buffers}, inputs, options
        )

    def _loss_and_buffers(
        self, parameters: Mapping[str, Tensor], buffers: Mapping[str, Tensor], *batch: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        written = {name: value.clone() for name, value in buffers.items()}  # a module may write into these
        loss = self._loss(self._call(parameters, written), *batch)
        if loss.ndim:
            raise ValueError(f"loss has shape {tuple(loss.shape)} in one run; allowed: a scalar")
        return loss, {name: value.detach() for name, value in written.items()}

    def _drawing(self, device: torch.device) -> AbstractContextManager[None]:
        if self._dropout_seed is None:
            return nullcontext()
        return global_seed(self._dropout_seed + self.steps, device)

    def _require_runs(self, data: Sequence[Tensor]) -> None:
        for part in data:
            if part.ndim == 0 or len(part) != self.count:
                raise ValueError(
                    f"data have shape {tuple(part.shape)}; allowed: ({self.count}, ...), one a run"
                )


def _require_alike(models: list[nn.Module]) -> None:
    """Raise unless there are modules, all of one class with parameters and buffers of the same names and shapes."""
    if not models:
        raise ValueError("models = []; allowed: at least one module")

    def kind(model: nn.Module) -> tuple[Any, ...]:
        held = (*model.named_parameters(), *model.named_buffers())
        trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
        return type(model), {name: (tuple(value.shape), value.dtype) for name, value in held}, trained

    for position, model in enumerate(models):
        if kind(model) != kind(models[0]):
            raise ValueError(
                f"models[{position}] is another kind of module than models[0]; allowed: one class, with the same "
                "names, shapes and dtypes, and the same parameters to train"
            )


def _require_one_kind(named: dict[str, Tensor]) -> None:
    """Raise unless all tensors have one real dtype and one device, so that a run is one vector."""
    kinds = {(value.dtype, value.device) for value in named.values()}
    if len(kinds) > 1 or not next(iter(named.values())).is_floating_point():
        found = ", ".join(sorted(f"{dtype} on {device}" for dtype, device in kinds))
        raise ValueError(
            f"models have parameters of {found}; allowed under a rule: one real dtype and device"
        )


def _leaves(state: Any) -> list[Any]:
    """Return the entries of nested tuples in order: a rule's state without its classes."""
    return [leaf for entry in state for leaf in _leaves(entry)] if isinstance(state, tuple) else [state]


def _rebuilt(like: Any, leaves: Iterator[Any]) -> Any:
    """Return the leaves in the classes, dtypes and devices of a state of the same rule."""
    if isinstance(like, tuple):
        entries = [_rebuilt(entry, leaves) for entry in like]
        return type(like)(*entries) if hasattr(like, "_fields") else tuple(entries)
    leaf = next(leaves)
    return leaf.to(like) if isinstance(like, Tensor) else leaf
