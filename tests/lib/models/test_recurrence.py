"""Recurrent layers: three paths against a written-out loop, charts, discretizations, streaming, errors."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import solve_ivp
from scipy.signal import cont2discrete
from scipy.stats import kstest
from torch import Tensor
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, stack_module_state, vmap

from learning_dynamics.models.recurrence import (
    DenseRecurrence,
    DiagonalStateSpace,
    LinearRecurrentUnit,
    SequenceModel,
    discretize,
    input_normalizer,
    linear,
    linear_recurrence,
    parameter_groups,
    powers_of,
    ring_eigenvalues,
    s4d_inv,
    s4d_lin,
    warmup_cosine,
)

METHODS = ("loop", "scan", "fft", "auto")


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def instance(length: int, states: int = 5, *batch: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    g = generator(seed)
    nu, phase = ring_eigenvalues(states, 0.3, 0.99, generator=g)
    inputs = torch.randn(*batch, length, states, dtype=torch.complex128, generator=g)
    return torch.polar(torch.exp(-nu), phase), inputs


def written_out(lam: Tensor, b: Tensor) -> Tensor:
    """The recurrence as its definition says, one state at a time."""
    x, path = torch.zeros_like(b[..., 0, :]), []
    for j in range(b.shape[-2]):
        x = lam * x + b[..., j, :]
        path.append(x)
    return torch.stack(path, dim=-2)


@pytest.mark.parametrize("method", METHODS)
@given(length=st.integers(1, 70), seed=st.integers(0, 10**6))
def test_every_path_is_the_recurrence(method: str, length: int, seed: int) -> None:
    lam, b = instance(length, 4, 3, seed=seed)
    expected = written_out(lam, b)
    error = (linear_recurrence(lam, b, method=method) - expected).abs().max() / b.abs().sum()
    assert error < 100 * torch.finfo(torch.float64).eps


@pytest.mark.parametrize("method", METHODS)
def test_every_path_is_real_for_real_numbers(method: str) -> None:
    lam, b = torch.tensor([0.9, -0.5], dtype=torch.float64), torch.randn(40, 2, dtype=torch.float64)
    states = linear_recurrence(lam, b, method=method)
    assert states.dtype == torch.float64
    torch.testing.assert_close(states, written_out(lam, b))


@pytest.mark.parametrize("method", ("loop", "scan", "fft"))
@pytest.mark.parametrize("length", (1, 2, 13))
def test_gradients_pass_gradcheck(method: str, length: int) -> None:
    lam, b = instance(length, 3, 2)
    start = torch.randn(2, 3, dtype=torch.complex128, generator=generator(1))
    for tensor in (lam, b, start):
        tensor.requires_grad_()
    assert torch.autograd.gradcheck(
        lambda lam, b, x: linear_recurrence(lam, b, start=x, method=method), (lam, b, start)
    )


def test_second_derivatives_pass_gradgradcheck() -> None:
    lam, b = instance(7, 2)
    assert torch.autograd.gradgradcheck(
        lambda lam, b: linear_recurrence(lam, b, method="scan", stable=False),
        (lam.requires_grad_(), b.requires_grad_()),
    )


def test_start_continues_a_sequence() -> None:
    lam, b = instance(50, 4, 2)
    whole = linear_recurrence(lam, b)
    tail = linear_recurrence(lam, b[:, 20:], start=whole[:, 19])
    torch.testing.assert_close(tail, whole[:, 20:])


@pytest.mark.parametrize("method", ("scan", "fft"))
def test_complex64_stays_close_to_complex128(method: str) -> None:
    lam, b = instance(1024, 16, 2)
    exact = written_out(lam, b)
    single = linear_recurrence(lam.to(torch.complex64), b.to(torch.complex64), method=method)
    assert single.dtype == torch.complex64
    assert (single - exact).abs().max() / exact.abs().max() < 1e-4


@pytest.mark.parametrize("backwards", (False, True))
@pytest.mark.parametrize("slab", (1, 7, 60, 10**6))
def test_slabs_of_any_size_are_the_recurrence(
    slab: int, backwards: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linear, "SLAB", slab)
    for length in (1, 2, 3, 31, 32, 33, 100):
        lam, b = instance(length, 5, 2)
        turned = b.flip(-2) if backwards else b
        wanted = linear_recurrence(lam, turned, method="loop")
        found = linear._scan(lam, b, backwards)
        torch.testing.assert_close(found, wanted.flip(-2) if backwards else wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("method", ("loop", "scan"))
@pytest.mark.parametrize("dtype", (torch.float32, torch.float64, torch.complex64, torch.complex128))
def test_large_results_in_huge_pages_are_the_same_plain_tensors(
    method: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    lam = torch.tensor([0.9, -0.5, 0.99]).to(dtype)
    b, back = torch.randn(2, 2, 50, 3, dtype=dtype, generator=generator())
    run = lambda: _with_gradients(lam, b, back, method)  # noqa: E731
    wanted = run()
    monkeypatch.setattr(linear, "FRESH", 0)
    assert linear._room(b).data_ptr() % linear.PAGE == 0
    assert linear._room(b.transpose(0, 1)).is_contiguous()
    found = run()
    assert all(map(torch.equal, found, wanted))
    states = linear_recurrence(lam, b.requires_grad_(), method=method)
    assert states.is_contiguous() and not states._is_view()
    kept = states.detach().clone()
    torch.testing.assert_close(states.mul_(2), 2 * kept)  # refused by autograd for a view


def _with_gradients(lam: Tensor, b: Tensor, back: Tensor, method: str) -> tuple[Tensor, ...]:
    lam, b = lam.clone().requires_grad_(), b.clone().requires_grad_()
    states = linear_recurrence(lam, b, method=method)
    return states.detach(), *torch.autograd.grad(states, (lam, b), back)


@pytest.mark.parametrize("backend", ("eager", "aot_eager"))
def test_the_scan_compiles_as_one_graph(backend: str) -> None:
    lam, b = (each.requires_grad_() for each in instance(70, 3, 2))
    run = lambda lam, b: linear_recurrence(lam, b, stable=False)  # noqa: E731
    compiled = torch.compile(run, backend=backend, fullgraph=True)
    for turn in (run, compiled):
        states = turn(lam, b)
        torch.testing.assert_close(states, written_out(lam, b))
        torch.autograd.grad(states.abs().sum(), (lam, b))


def test_a_dense_layer_compiles_as_one_graph() -> None:
    layer, u = DenseRecurrence(2, 3, generator=torch.Generator().manual_seed(0)), torch.ones(2, 5, 2)
    compiled = torch.compile(layer, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(u), layer(u))


def test_the_scan_rounds_no_more_than_twice_as_much_as_the_loop_near_the_circle() -> None:
    g = torch.Generator().manual_seed(0)
    for radius in (0.9, 0.999, 0.99999):
        lam = torch.polar(torch.full((16,), radius), 6 * torch.rand(16, generator=g))
        b = torch.randn(2, 5000, 16, dtype=torch.complex64, generator=g)
        exact = linear_recurrence(lam.to(torch.complex128), b.to(torch.complex128), method="loop")
        loop, scan = (
            ((linear_recurrence(lam, b, method=m) - exact).abs().amax() / exact.abs().amax()).item()
            for m in ("loop", "scan")
        )
        assert scan <= 2 * loop + 1e-7, (radius, scan, loop)


def test_eigenvalues_outside_the_circle_and_zeros_first() -> None:
    """A power that overflows would make the zeros in front not-a-number."""
    lam, b = torch.tensor([1.1, 1.15]), torch.zeros(3000, 2)
    b[2990:] = 1.0
    loop, scan = (linear_recurrence(lam, b, method=m, stable=False) for m in ("loop", "scan"))
    assert not (lam**1500).isfinite().any() and loop[-1].min() > 10
    torch.testing.assert_close(scan, loop)


def test_vmap_over_runs_is_a_batch_axis() -> None:
    lams = torch.stack([instance(9, seed=s)[0] for s in (0, 1)])
    b = torch.randn(2, 3, 9, 5, dtype=torch.complex128, generator=generator())
    run = lambda lam, b: linear_recurrence(lam, b, method="scan", stable=False)  # noqa: E731
    torch.testing.assert_close(vmap(run)(lams, b), run(lams[:, None], b))
    energy = lambda lam, b: run(lam, b).abs().square().sum()  # noqa: E731
    torch.testing.assert_close(vmap(grad(energy))(lams, b)[1], grad(energy)(lams[1], b[1]))
    torch.testing.assert_close(vmap(run, (0, None))(lams, b[0])[1], run(lams[1], b[0]))


def test_vmap_looks_at_the_eigenvalues_of_all_runs() -> None:
    lams, b = torch.tensor([[0.5, 0.9], [0.2, 1.1]]), torch.ones(7, 2)
    assert vmap(linear_recurrence, (0, None))(lams * 0.9, b).shape == (2, 7, 2)
    with pytest.raises(ValueError, match=r"reach \|lambda\| = 1.1; allowed: below 1"):
        vmap(linear_recurrence, (0, None))(lams, b)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("length", (1, 9, 40))
def test_forward_mode_is_the_derivative(method: str, length: int) -> None:
    lam, b = instance(length)
    run = lambda lam, b: linear_recurrence(lam, b, method=method, stable=False)  # noqa: E731
    of_lam, of_b = (torch.randn(x.shape, dtype=x.dtype, generator=generator(9)) for x in (lam, b))
    ends = [run(lam + h * of_lam, b + h * of_b) for h in (1e-6, -1e-6)]
    torch.testing.assert_close(
        jvp(run, (lam, b), (of_lam, of_b))[1], (ends[0] - ends[1]) / 2e-6, rtol=1e-6, atol=1e-6
    )
    real = lam.abs(), torch.stack([b.real, b.imag])
    for forward, reverse in zip(jacfwd(run, (0, 1))(*real), jacrev(run, (0, 1))(*real), strict=True):
        torch.testing.assert_close(forward, reverse)
    energy = lambda lam: run(lam, real[1]).square().sum()  # noqa: E731
    torch.testing.assert_close(hessian(energy)(real[0]), jacrev(jacrev(energy))(real[0]))


@pytest.mark.parametrize("activation", ("tanh", "relu", "linear"))
def test_forward_mode_of_the_dense_recurrence(activation: str) -> None:
    layer = DenseRecurrence(2, 4, activation=activation, generator=generator()).double()
    u = torch.randn(3, 6, 2, dtype=torch.float64, generator=generator(1))
    outputs = lambda parameters: functional_call(layer, parameters, (u,))  # noqa: E731
    parameters = dict(layer.named_parameters())
    forward, reverse = jacfwd(outputs)(parameters), jacrev(outputs)(parameters)
    for name in parameters:
        torch.testing.assert_close(forward[name], reverse[name])
    torch.testing.assert_close(jacfwd(layer)(u), jacrev(layer)(u))


def test_powers_are_powers() -> None:
    lam = instance(1)[0]
    torch.testing.assert_close(powers_of(lam, 11), lam ** torch.arange(11)[:, None])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"method": "fast"}, "method = 'fast'"),
        ({"inputs": torch.zeros(0, 5)}, "T >= 1"),
        ({"inputs": torch.zeros(5)}, "T >= 1"),
        ({"inputs": torch.zeros(7, 4)}, "N = 4"),
        ({"eigenvalues": torch.ones(5)}, r"\|lambda\| = 1"),
        ({"eigenvalues": torch.full((5,), math.nan)}, r"\|lambda\| = nan"),
        ({"eigenvalues": torch.zeros(5, dtype=torch.long), "inputs": torch.zeros(7, 5).long()}, "dtype"),
        ({"start": torch.zeros(4)}, "start has shape"),
    ],
)
def test_recurrence_refuses(change: dict, message: str) -> None:
    arguments = {"eigenvalues": torch.zeros(5), "inputs": torch.zeros(7, 5)} | change
    with pytest.raises(ValueError, match=message):
        linear_recurrence(**arguments)


def test_unstable_eigenvalues_on_request() -> None:
    states = linear_recurrence(torch.tensor([2.0]), torch.ones(4, 1), stable=False)
    assert states.flatten().tolist() == [1, 3, 7, 15]


@pytest.mark.parametrize(("r_min", "r_max"), [(0.0, 1.0), (0.5, 0.9), (0.9, 0.99)])
def test_ring_is_uniform_in_area(r_min: float, r_max: float) -> None:
    nu, phase = ring_eigenvalues(20_000, r_min, r_max, math.pi / 10, generator=generator())
    area = (torch.exp(-2 * nu) - r_min**2) / (r_max**2 - r_min**2)
    assert kstest(area.numpy(), "uniform").pvalue > 1e-3
    assert kstest((phase / (math.pi / 10)).numpy(), "uniform").pvalue > 1e-3
    assert kstest(area.sqrt().numpy(), "uniform").pvalue < 1e-6  # uniform in the radius it is not
    assert abs(np.corrcoef(nu.numpy(), phase.numpy())[0, 1]) < 0.03


def test_a_ring_may_shrink_to_a_circle() -> None:
    nu, _ = ring_eigenvalues(5, 0.9, 0.9)
    torch.testing.assert_close(torch.exp(-nu), torch.full((5,), 0.9, dtype=torch.float64))


@pytest.mark.parametrize("radii", [(0.5, 0.4), (-0.1, 0.5), (0.0, 1.1), (0.0, 0.0)])
def test_ring_refuses_radii(radii: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="r_min, r_max"):
        ring_eigenvalues(3, *radii)


def test_ring_refuses_a_phase() -> None:
    with pytest.raises(ValueError, match="max_phase"):
        ring_eigenvalues(3, max_phase=0)


def test_rates_of_s4d() -> None:
    torch.testing.assert_close(s4d_lin(3).imag, math.pi * torch.arange(3, dtype=torch.float64))
    expected = 4 / math.pi * (4 / torch.tensor([1, 3, 5, 7], dtype=torch.float64) - 1)
    torch.testing.assert_close(s4d_inv(4).imag, expected)


@pytest.mark.parametrize("method", ("zoh", "bilinear"))
def test_discretization_against_scipy(method: str) -> None:
    rate, step = complex(-0.5, 3.0), 0.1
    system = tuple(np.array([[c]]) for c in (rate, 1.0, 1.0, 0.0))
    a, b, *_ = cont2discrete(system, step, method=method)
    lam, gain = discretize(torch.tensor([rate]), step, method)
    assert lam.item() == pytest.approx(complex(a[0, 0]))
    assert gain.item() == pytest.approx(complex(b[0, 0]))


def test_zoh_is_exact_for_held_inputs() -> None:
    rates, step, u = s4d_lin(3), 0.2, torch.tensor([1.0, -2.0, 0.5, 3.0], dtype=torch.float64)
    lam, gain = discretize(rates, step)
    states = linear_recurrence(lam, gain * u[:, None])
    x = np.zeros(3, dtype=complex)
    for j, held in enumerate(u.tolist()):
        path = solve_ivp(
            lambda t, x, held=held: rates.numpy() * x + held, (0, step), x, rtol=1e-10, atol=1e-12
        )
        x = path.y[:, -1]
        np.testing.assert_allclose(states[j].numpy(), x, atol=1e-8)


def test_zoh_near_and_at_rate_zero() -> None:
    rates = torch.tensor([0, 1e-12, 1e-12j, -1e-9 + 1e-9j], dtype=torch.complex128)
    _, gain = discretize(rates, 0.3)
    torch.testing.assert_close(gain, torch.full_like(gain, 0.3), rtol=1e-9, atol=0)
    with pytest.raises(ValueError, match="step = 0"):
        discretize(rates, 0.0)


LAYERS = {
    "stable": lambda g: LinearRecurrentUnit(3, 5, r_min=0.5, r_max=0.99, generator=g),
    "exponential": lambda g: LinearRecurrentUnit(3, 5, eigenvalues="exponential", generator=g),
    "cartesian": lambda g: LinearRecurrentUnit(3, 5, eigenvalues="cartesian", normalizer="none", generator=g),
    "recomputed": lambda g: LinearRecurrentUnit(3, 5, normalizer="recomputed", generator=g),
    "s4d-lin": lambda g: DiagonalStateSpace(3, 5, generator=g),
    "s4d-inv": lambda g: DiagonalStateSpace(
        3, 5, rates="inv", discretization="bilinear", tied=False, generator=g
    ),
}


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("dtype", (torch.float32, torch.float64))
def test_layers_stream_what_they_compute(name: str, dtype: torch.dtype) -> None:
    layer = LAYERS[name](generator()).to(dtype)
    u = torch.randn(2, 40, 3, dtype=dtype, generator=generator(1))
    whole, x = layer(u), layer.start(2)
    assert whole.dtype == dtype
    for j in range(40):
        y, x = layer.step(u[:, j], x)
        torch.testing.assert_close(y, whole[:, j])


@pytest.mark.parametrize("name", LAYERS)
def test_real_form_computes_the_same(name: str) -> None:
    layer = LAYERS[name](generator()).double()
    twin = layer.real_form()
    u = torch.randn(2, 30, 3, dtype=torch.float64, generator=generator(1))
    assert twin.A.dtype == torch.float64 and not any(p.is_complex() for p in twin.parameters())
    torch.testing.assert_close(twin(u), layer(u))


def test_bidirectional_layer_sees_both_ways() -> None:
    layer = LinearRecurrentUnit(2, 4, bidirectional=True, generator=generator())
    u = torch.randn(1, 9, 2, generator=generator(1)).requires_grad_()
    grad_u = torch.autograd.grad(layer(u)[0, 4].sum(), u)[0].abs().sum(-1)
    assert (grad_u > 0).all()
    for refused in (lambda: layer.step(u[:, 0], layer.start(1)), layer.real_form):
        with pytest.raises(ValueError, match="bidirectional"):
            refused()


def test_charts_start_at_the_same_eigenvalues() -> None:
    layers = [
        LinearRecurrentUnit(2, 6, eigenvalues=c, generator=generator())
        for c in ("stable", "exponential", "cartesian")
    ]
    for layer in layers[1:]:
        torch.testing.assert_close(layer.eigenvalues(), layers[0].eigenvalues())


def test_normalizers_agree_at_the_start() -> None:
    trained, recomputed = (
        LinearRecurrentUnit(2, 6, normalizer=n, generator=generator()) for n in ("trained", "recomputed")
    )
    torch.testing.assert_close(trained.gain(), recomputed.gain())
    assert LinearRecurrentUnit(2, 6, normalizer="none").gain() is None


def test_the_stable_chart_stays_inside() -> None:
    layer = LinearRecurrentUnit(1, 100, generator=generator()).double()
    with torch.no_grad():
        layer.first.uniform_(-15, 5, generator=generator(2))
    assert (layer.eigenvalues().abs() < 1).all()


def test_normalizer_keeps_white_variance() -> None:
    lam = torch.tensor([0.5, 0.9, 0.97], dtype=torch.float64)
    noise = torch.randn(20_000, 3, dtype=torch.float64, generator=generator())
    states = linear_recurrence(lam, input_normalizer(lam) * noise)
    torch.testing.assert_close(states[500:].var(0), torch.ones(3, dtype=torch.float64), atol=0.15, rtol=0)


@pytest.mark.parametrize("activation", ("linear", "tanh", "relu"))
def test_dense_recurrence_is_its_loop(activation: str) -> None:
    layer = DenseRecurrence(2, 4, activation=activation, generator=generator()).double()
    u = torch.randn(3, 6, 2, dtype=torch.float64, generator=generator(1))
    phi = {"linear": lambda x: x, "tanh": torch.tanh, "relu": torch.relu}[activation]
    x, whole, stream = torch.zeros(3, 4, dtype=torch.float64), layer(u), layer.start(3)
    for j in range(6):
        x = phi(x @ layer.A.T + u[:, j] @ layer.B.T)
        torch.testing.assert_close(whole[:, j], x @ layer.C.T + u[:, j] @ layer.D.T)
        y, stream = layer.step(u[:, j], stream)
        torch.testing.assert_close(y, whole[:, j])


@pytest.mark.parametrize("activation", ("linear", "tanh", "relu"))
@pytest.mark.parametrize("length", (1, 6))
def test_dense_recurrence_passes_gradcheck(activation: str, length: int) -> None:
    layer = DenseRecurrence(2, 4, activation=activation, generator=generator()).double()
    u = torch.randn(3, length, 2, dtype=torch.float64, generator=generator(1)).requires_grad_()
    names = [name for name, _ in layer.named_parameters()]
    assert torch.autograd.gradcheck(
        lambda u, *p: functional_call(layer, dict(zip(names, p, strict=True)), (u,)), (u, *layer.parameters())
    )


@pytest.mark.parametrize("pooling", ("mean", "last", "none"))
@pytest.mark.parametrize("norm", ("batch", "layer"))
def test_deep_model_streams_what_it_computes(pooling: str, norm: str) -> None:
    model = SequenceModel(
        5, 4, 3, 2, lambda: LinearRecurrentUnit(4, 6), tokens=True, pooling=pooling, norm=norm, dropout=0.1
    )
    tokens = torch.randint(5, (2, 12), generator=generator())
    model(tokens)  # fills the running statistics
    model.eval()
    whole, state = model(tokens), model.start(2)
    for j in range(12):
        y, state = model.step(tokens[:, j], state)
        if pooling == "none":
            torch.testing.assert_close(y, whole[:, j], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(y, whole if pooling != "none" else whole[:, -1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("layer", (LinearRecurrentUnit, DiagonalStateSpace, DenseRecurrence))
def test_an_ensemble_of_models_trains_in_one_call(layer: type) -> None:
    models = [SequenceModel(1, 4, 2, 1, lambda: layer(4, 3), norm="layer") for _ in range(3)]
    parameters, buffers = stack_module_state(models)
    u = torch.randn(2, 40, 1, generator=generator())
    loss = lambda p, b: functional_call(models[0], (p, b), (u,)).square().mean()  # noqa: E731
    together = vmap(grad(loss))(parameters, buffers)
    alone = torch.autograd.grad(models[1](u).square().mean(), list(models[1].parameters()))
    for (name, _), expected in zip(models[1].named_parameters(), alone, strict=True):
        torch.testing.assert_close(together[name][1], expected, rtol=1e-3, atol=1e-6)


def test_parameter_groups_of_the_source() -> None:
    model = SequenceModel(1, 4, 2, 2, lambda: LinearRecurrentUnit(4, 3))
    rest, recurrent = parameter_groups(model, learning_rate=0.1)
    assert (recurrent["lr"], recurrent["weight_decay"], len(recurrent["params"])) == (0.025, 0.0, 8)
    assert len(rest["params"]) + 8 == len(list(model.parameters()))
    assert (
        len(parameter_groups(SequenceModel(1, 4, 2, 1, lambda: DenseRecurrence(4, 3)), learning_rate=0.1))
        == 1
    )
    torch.optim.AdamW([rest, recurrent]).step()


def test_warmup_then_cosine() -> None:
    factor = warmup_cosine(100)
    assert (
        factor(0) == pytest.approx(1e-7)
        and factor(10) == pytest.approx(1)
        and factor(100) == pytest.approx(1e-7)
    )
    assert factor(55) == pytest.approx(0.5, abs=1e-6)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LinearRecurrentUnit(0, 3), "width = 0"),
        (lambda: LinearRecurrentUnit(2, 3, eigenvalues="polar"), "eigenvalues = 'polar'"),
        (lambda: LinearRecurrentUnit(2, 3, method="fast"), "method = 'fast'"),
        (lambda: LinearRecurrentUnit(2, 3, normalizer="off"), "normalizer = 'off'"),
        (lambda: LinearRecurrentUnit(2, 3)(torch.zeros(1, 0, 2)), "T >= 1"),
        (lambda: LinearRecurrentUnit(2, 3)(torch.zeros(1, 5, 3)), r"\(\*batch, T, 2\)"),
        (lambda: DenseRecurrence(2, 3, activation="gelu"), "activation = 'gelu'"),
        (lambda: DenseRecurrence(2, 3)(torch.zeros(0, 2)), "T >= 1"),
        (lambda: DiagonalStateSpace(2, 3, rates="hippo"), "rates = 'hippo'"),
        (lambda: DiagonalStateSpace(2, 3, steps=(0.1, 0.01)), "steps"),
        (lambda: SequenceModel(1, 4, 2, 0, lambda: LinearRecurrentUnit(4, 3)), "depth = 0"),
        (lambda: SequenceModel(1, 4, 2, 1, lambda: LinearRecurrentUnit(4, 3), pooling="max"), "pooling"),
        (lambda: SequenceModel(1, 4, 2, 1, lambda: LinearRecurrentUnit(4, 3), dropout=1.0), "dropout"),
        (
            lambda: SequenceModel(2, 4, 2, 1, lambda: LinearRecurrentUnit(4, 3))(torch.zeros(3, 0, 2)),
            ">= 1",
        ),
        (lambda: parameter_groups(torch.nn.Linear(1, 1), learning_rate=0.0), "learning_rate = 0.0"),
        (lambda: warmup_cosine(0), "steps = 0"),
        (lambda: powers_of(torch.ones(2), 0), "count = 0"),
    ],
)
def test_bad_arguments_are_named(make, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
