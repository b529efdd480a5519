"""Stacked modules against a loop over the modules with torch.autograd and torch.optim."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from learning_dynamics import ensembles, optimizers, rules
from learning_dynamics.ensembles import ModuleEnsemble, batches, drawn, shuffled

seeds = st.integers(0, 10_000)
RUNS, SAMPLES = 3, 20


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def network(seed: int, *layers: nn.Module) -> nn.Sequential:
    module = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), *layers, nn.Linear(4, 1)).double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(generator=generator(seed))
    return module


def networks(*layers: nn.Module, runs: int = RUNS) -> list[nn.Module]:
    return [network(seed, *layers) for seed in range(runs)]


def data(seed: int = 7) -> tuple[Tensor, Tensor]:
    g = generator(seed)
    x = torch.randn(RUNS, SAMPLES, 2, generator=g, dtype=torch.float64)
    return x, torch.randn(RUNS, SAMPLES, 1, generator=g, dtype=torch.float64)


def loss(model: Callable[..., Tensor], x: Tensor, y: Tensor) -> Tensor:
    return mse_loss(model(x), y)


def alone(
    model: nn.Module, make: Callable[..., Any], x: Tensor, y: Tensor, rows: list[Tensor]
) -> tuple[list[float], nn.Module]:
    """The twin: one network, torch.autograd and a torch optimizer, batch by batch."""
    optimizer, seen = make(model.parameters()), []
    for chosen in rows:
        optimizer.zero_grad()
        value = mse_loss(model(x[chosen]), y[chosen])
        value.backward()
        if getattr(optimizer, "needs_loss", False):
            optimizer.step(loss=value)
        else:
            optimizer.step()
        seen.append(value.item())
    return seen, model


def flat(model: nn.Module) -> Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


PAIRS = {
    "sgd": (rules.SGD(0.05, 0.9, nesterov=True), lambda p: torch.optim.SGD(p, 0.05, 0.9, nesterov=True)),
    "heavy ball": (rules.HeavyBall(0.05, 0.9), lambda p: torch.optim.SGD(p, 0.05, 0.9)),
    "adam": (rules.Adam(0.01), lambda p: torch.optim.Adam(p, 0.01)),
    "ngn": (rules.NGN(2.0), lambda p: optimizers.NGN(p, 2.0)),
    "adagrad norm": (rules.AdaGradNorm(0.5), lambda p: optimizers.AdaGradNorm(p, 0.5)),
    "torch's adamw": (
        lambda named: torch.optim.AdamW(named.values(), 0.01),
        lambda p: torch.optim.AdamW(p, 0.01),
    ),
}
any_update = pytest.mark.parametrize(("update", "make"), PAIRS.values(), ids=PAIRS)


@any_update
@pytest.mark.parametrize("own_order", [False, True], ids=["one order", "own orders"])
def test_each_run_is_a_loop_with_torch(update: Any, make: Callable[..., Any], own_order: bool) -> None:
    x, y = data()

    def sources() -> Any:
        return [generator(10 + run) for run in range(RUNS)] if own_order else generator(10)

    ensemble = ModuleEnsemble(networks(), update, loss)
    seen = ensemble.train(batches(shuffled(SAMPLES, 8, sources()), x, y), 7)
    rows = list(itertools.islice(shuffled(SAMPLES, 8, sources()), 7))
    assert [each.shape[-1] for each in rows] == [8, 8, 4, 8, 8, 4, 8]
    for run, model in enumerate(networks()):
        own = [each[run] if own_order else each for each in rows]
        losses, trained = alone(model, make, x[run], y[run], own)
        torch.testing.assert_close(seen.losses[:, run].tolist(), losses, rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(ensemble.theta[run], flat(trained), rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(flat(ensemble.module(run)), flat(trained), rtol=1e-10, atol=1e-12)
    assert not seen.diverged.any()
    assert torch.equal(flat(networks()[0]), flat(network(0)))


@given(seeds, st.permutations(range(RUNS)))
def test_runs_never_see_each_other(seed: int, order: list[int]) -> None:
    """Runs in another order, each with its own step size, give the same numbers in that order."""
    (x, y), rates = data(seed), torch.tensor([[0.01], [0.1], [0.3]], dtype=torch.float64)
    first = ModuleEnsemble(networks(), rules.NGN(rates, 0.5), loss)
    second = ModuleEnsemble([networks()[run] for run in order], rules.NGN(rates[order], 0.5), loss)
    full = first.train(itertools.repeat((x, y)), 5, watch=lambda state: state.step_size)
    other = second.train(itertools.repeat((x[order], y[order])), 5, watch=lambda state: state.step_size)
    torch.testing.assert_close(full.losses[:, order], other.losses, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(full.watched[1:, order], other.watched[1:], rtol=1e-12, atol=1e-14)
    assert full.steps.tolist() == list(ensembles.log_spaced(5))


def test_parameter_groups_and_a_schedule_are_torchs() -> None:
    x, y = data()

    def make(weights: list[Tensor], biases: list[Tensor]) -> torch.optim.Optimizer:
        groups = [
            {"params": weights, "weight_decay": 0.3},
            {"params": biases, "lr": 0.1, "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(groups, lr=0.02)

    def split(named: dict[str, Tensor]) -> torch.optim.Optimizer:
        return make(*([p for n, p in named.items() if n.endswith(kind)] for kind in ("weight", "bias")))

    ensemble = ModuleEnsemble(networks(), split, loss)
    schedule = torch.optim.lr_scheduler.ExponentialLR(ensemble.optimizer, 0.5)
    twin = network(1)
    optimizer = split(dict(twin.named_parameters()))
    twin_schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    for _ in range(4):
        losses = ensemble.step(x, y)
        schedule.step()
        optimizer.zero_grad()
        value = mse_loss(twin(x[1]), y[1])
        value.backward()
        optimizer.step()
        twin_schedule.step()
        assert losses[1].item() == pytest.approx(value.item(), rel=1e-10)
    torch.testing.assert_close(ensemble.theta[1], flat(twin), rtol=1e-10, atol=1e-12)


def test_running_means_of_a_normalization_are_each_runs_own() -> None:
    x, y = data()
    models = networks(nn.BatchNorm1d(4, dtype=torch.float64))
    ensemble = ModuleEnsemble(models, rules.SGD(0.1), loss)
    ensemble.train(itertools.repeat((x, y)), 3)
    twin = network(2, nn.BatchNorm1d(4, dtype=torch.float64))
    _, twin = alone(twin, lambda p: torch.optim.SGD(p, 0.1), x[2], y[2], [torch.arange(SAMPLES)] * 3)
    held = ensemble.module(2).state_dict()
    for name, value in twin.state_dict().items():
        torch.testing.assert_close(held[name], value, rtol=1e-10, atol=1e-12)
    assert held["2.num_batches_tracked"] == 3
    outputs = ensemble.evaluate(lambda model, x: model(x), x)
    torch.testing.assert_close(outputs[2], twin.eval()(x[2]).detach(), rtol=1e-10, atol=1e-12)
    assert models[2].state_dict()["2.num_batches_tracked"] == 0


def test_parameters_without_gradient_stay() -> None:
    x, y = data()
    models = networks()
    for model in models:
        model[0].requires_grad_(False)
    ensemble = ModuleEnsemble(models, rules.GradientDescent(0.1), loss)
    ensemble.train(itertools.repeat((x, y)), 2)
    assert ensemble.theta.shape == (RUNS, 5) and "0.weight" in ensemble.buffers
    after = ensemble.module(0)
    assert torch.equal(after[0].weight, models[0][0].weight)
    assert not torch.equal(after[2].weight, models[0][2].weight)
    assert not after[0].weight.requires_grad and after[2].weight.requires_grad


def test_records_are_what_observe_and_watch_return() -> None:
    x, y = data()
    ensemble = ModuleEnsemble(networks(), rules.NGN(1.0), loss)
    seen = ensemble.train(
        itertools.repeat((x, y)),
        4,
        record=[0, 2, 4],
        observe=lambda ensemble: ensemble.evaluate(loss, x, y),
        watch=lambda state: state.step_size,
    )
    assert seen.steps.tolist() == [0, 2, 4]
    torch.testing.assert_close(seen.values[:2], seen.losses[[0, 2]])
    assert seen.values[2].lt(seen.values[0]).all() and seen.watched[0].isnan().all()
    again = ensemble.train(itertools.repeat((x, y)), 0, record=[0], observe=lambda e: e.evaluate(loss, x, y))
    assert again.losses.shape == (0, RUNS) and torch.equal(again.values[0], seen.values[2])


def test_a_diverged_run_is_flagged_and_harms_no_other() -> None:
    x, y = data()
    rates = torch.tensor([[0.05], [1e200], [0.05]], dtype=torch.float64)

    def train(update: Any) -> tuple[ModuleEnsemble, ensembles.ModuleTrajectory]:
        ensemble = ModuleEnsemble(networks(), update, loss)
        return ensemble, ensemble.train(
            itertools.repeat((x, y)), 6, record=[0, 6], observe=lambda e: e.evaluate(loss, x, y)
        )

    (ensemble, seen), (_, calm) = train(rules.HeavyBall(rates, 0.9)), train(rules.HeavyBall(0.05, 0.9))
    assert seen.diverged.tolist() == [False, True, False] == ensemble.diverged.tolist()
    assert seen.values[1].isinf().tolist() == [False, True, False]
    assert seen.losses[-1, 1] == torch.inf and not seen.losses.isnan().any()
    for run in (0, 2):
        torch.testing.assert_close(seen.losses[:, run], calm.losses[:, run], rtol=1e-12, atol=1e-14)


@any_update
def test_a_state_goes_on_bit_by_bit(update: Any, make: Callable[..., Any], tmp_path: Any) -> None:
    x, y = data()

    def started() -> ModuleEnsemble:
        models = networks(nn.BatchNorm1d(4, dtype=torch.float64), nn.Dropout(0.4))
        return ModuleEnsemble(models, update, loss, dropout_seed=5)

    first = started()
    first.train(itertools.repeat((x, y)), 3)
    torch.save(first.state_dict(), tmp_path / "state.pt")
    whole = first.train(itertools.repeat((x, y)), 3).losses
    second = started()
    second.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    assert second.steps == 3
    assert torch.equal(second.train(itertools.repeat((x, y)), 3).losses, whole)
    assert torch.equal(first.theta, second.theta)
    assert all(torch.equal(value, second.buffers[name]) for name, value in first.buffers.items())


def test_averages_of_a_rule_that_reads_the_loss_are_restored() -> None:
    x, y = data()
    first, second = (ModuleEnsemble(networks(), rules.Averaged(rules.NGN(1.0)), loss) for _ in range(2))
    first.train(itertools.repeat((x, y)), 3)
    second.load_state_dict(first.state_dict())
    assert type(second.state) is type(first.state) and type(second.state.inner) is type(first.state.inner)
    assert torch.equal(second.state.mean, first.state.mean) and second.state.weight == 3.0


def test_dropout_differs_between_runs_and_steps_and_leaves_the_global_generator() -> None:
    x, y = (part[:1].expand(RUNS, *part.shape[1:]) for part in data())
    models = [network(0, nn.Dropout(0.5)) for _ in range(RUNS)]
    before = torch.random.get_rng_state()

    def losses(seed: int) -> Tensor:
        ensemble = ModuleEnsemble(models, rules.GradientDescent(0.0), loss, dropout_seed=seed)
        return ensemble.train(itertools.repeat((x, y)), 3).losses

    first = losses(0)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert len(first.flatten().unique()) == 3 * RUNS
    assert torch.equal(losses(0), first) and torch.equal(losses(1)[:2], first[1:])
    with pytest.raises(RuntimeError, match="randomness"):
        ModuleEnsemble(models, rules.GradientDescent(0.0), loss).step(x, y)


def test_shared_data_need_no_copies() -> None:
    x, y = data()
    ensemble = ModuleEnsemble(networks(), rules.GradientDescent(0.1), loss)
    shared = ensemble.evaluate(loss, x[0], y[0], shared=True)
    expanded = ensemble.evaluate(loss, *(part[:1].expand(RUNS, *part.shape[1:]) for part in (x, y)))
    torch.testing.assert_close(shared, expanded)
    sources = [generator(s) for s in range(RUNS)]
    rows = next(drawn(SAMPLES, 6, sources))
    sources = [generator(s) for s in range(RUNS)]
    (batch,) = next(batches(drawn(SAMPLES, 6, sources), x[0], shared=True))
    assert torch.equal(batch, x[0][rows]) and batch.shape == (RUNS, 6, 2)


@given(seeds, st.integers(1, 12), st.integers(1, 12), st.booleans())
def test_an_epoch_has_every_sample_once(seed: int, n: int, batch_size: int, drop_last: bool) -> None:
    batch_size = min(batch_size, n)
    stream = shuffled(n, batch_size, generator(seed), drop_last=drop_last)
    count = n // batch_size if drop_last else -(-n // batch_size)
    for _ in range(2):
        epoch = torch.cat([next(stream) for _ in range(count)])
        assert len(epoch.unique()) == len(epoch) == (count * batch_size if drop_last else n)


def test_rows_are_drawn_with_replacement_and_nothing_ahead() -> None:
    source = generator(3)
    stream = drawn(5, 2000, source)
    assert next(stream).bincount(minlength=5).sub(400).abs().max() < 100  # 5.6 standard deviations
    at = source.get_state()
    following = next(stream)
    source.set_state(at)
    assert torch.equal(next(drawn(5, 2000, source)), following)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ModuleEnsemble(networks(), rules.Adam, loss), "rule = the class Adam; allowed: a rule"),
        (lambda: ModuleEnsemble([], rules.Adam(), loss), r"models = \[\]"),
        (
            lambda: ModuleEnsemble([network(0), nn.Linear(2, 1)], rules.Adam(), loss),
            r"models\[1\] is another kind",
        ),
        (
            lambda: ModuleEnsemble([nn.Linear(2, 1), nn.Linear(3, 1)], rules.Adam(), loss),
            r"models\[1\] is another kind",
        ),
        (
            lambda: ModuleEnsemble([nn.Linear(2, 1).requires_grad_(False)], rules.Adam(), loss),
            "nothing to train",
        ),
        (
            lambda: ModuleEnsemble(
                [nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1).double())], rules.Adam(), loss
            ),
            "float32 on cpu, torch.float64 on cpu; allowed under a rule",
        ),
        (
            lambda: ModuleEnsemble(networks(), lambda named: optimizers.NGN(named.values()), loss),
            "update makes a NGN; allowed: a rule, or SGD, Adam",
        ),
        (lambda: made().step(data()[0][:2], data()[1]), r"data have shape \(2, 20, 2\); allowed: \(3, ...\)"),
        (lambda: made(lambda model, x, y: model(x)).step(*data()), r"loss has shape \(20, 1\) in one run"),
        (lambda: made().evaluate(loss, *(part[0] for part in data())), r"data have shape \(20, 2\)"),
        (lambda: made().module(3), "run = 3"),
        (lambda: made().train([data()], 2), "batches end after 1; allowed: at least steps = 2"),
        (lambda: made().train([], -1), "steps = -1"),
        (lambda: made().train([data()], 1, record=[0, 2]), "record = "),
        (lambda: made().train([data()], 1, observe=lambda e: torch.zeros(2)), "observe returned the shape"),
        (lambda: made().train([data()], 1, watch=lambda state: torch.zeros(2)), "watch returned the shape"),
        (
            lambda: ModuleEnsemble(
                networks(), lambda named: torch.optim.SGD(named.values(), 0.1), loss
            ).train([data()], 1, watch=lambda state: state),
            "watch is given; allowed: under a rule",
        ),
        (lambda: made().load_state_dict(made(runs=2).state_dict()), "state has parameters"),
        (lambda: shuffled(5, 6, generator()), "batch_size = 6"),
        (lambda: shuffled(5, 2, []), "generator is a list"),
        (lambda: drawn(0, 2, generator()), "n = 0"),
        (lambda: drawn(5, 2, None), "generator is a NoneType"),
        (lambda: next(batches([torch.arange(2)], data()[0][0], shared=True)), r"rows have shape \(2,\)"),
    ],
)
def test_wrong_arguments_are_named(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def made(function: Callable[..., Tensor] = loss, runs: int = RUNS) -> ModuleEnsemble:
    return ModuleEnsemble(networks(runs=runs), rules.GradientDescent(0.1), function)
