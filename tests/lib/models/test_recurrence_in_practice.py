"""Recurrent layers as practitioners use them: half precision, autocast, lengths, masks, states, broken numbers."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.func import vmap

from learning_dynamics.models.recurrence import (
    DenseRecurrence,
    DiagonalStateSpace,
    LinearRecurrentUnit,
    SequenceModel,
    discretize,
    input_normalizer,
    linear_recurrence,
)

METHODS = ("loop", "scan", "fft", "auto")
LAYERS: dict[str, Callable[[], nn.Module]] = {
    "lru": lambda: LinearRecurrentUnit(3, 5, r_min=0.5, r_max=0.99, generator=generator()),
    "recomputed": lambda: LinearRecurrentUnit(3, 5, normalizer="recomputed", generator=generator()),
    "cartesian": lambda: LinearRecurrentUnit(3, 5, eigenvalues="cartesian", generator=generator()),
    "s4d": lambda: DiagonalStateSpace(3, 5, generator=generator()),
    "dense": lambda: DenseRecurrence(3, 5, generator=generator()),
}


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def noise(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 1) -> Tensor:
    return torch.randn(*shape, dtype=dtype, generator=generator(seed))


# Half precision and autocast


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16))
def test_half_precision_is_computed_in_single(method: str, dtype: torch.dtype) -> None:
    lam, b = torch.tensor([0.9, 0.99, -0.98]).to(dtype), torch.ones(500, 3).to(dtype)
    states = linear_recurrence(lam, b, method=method, stable=False)
    exact = linear_recurrence(lam.double(), b.double(), method="loop", stable=False)
    assert states.dtype == dtype
    assert ((states.double() - exact).abs() <= torch.finfo(dtype).eps * exact.abs()).all()


@pytest.mark.filterwarnings("ignore:ComplexHalf support")
def test_complex_half_precision() -> None:
    lam, b = torch.polar(torch.tensor([0.99]), torch.tensor([0.3])), torch.ones(300, 1, dtype=torch.complex64)
    states = linear_recurrence(lam.to(torch.complex32), b.to(torch.complex32))
    assert states.dtype == torch.complex32
    exact = linear_recurrence(lam.to(torch.complex32).to(torch.complex64), b)
    torch.testing.assert_close(states.to(torch.complex64), exact, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("kind", (torch.bfloat16, torch.float16))
def test_autocast_leaves_the_recurrence_in_single_precision(name: str, kind: torch.dtype) -> None:
    layer, u = LAYERS[name](), noise(2, 50, 3)
    plain = layer(u)
    of_plain = torch.autograd.grad(plain.square().sum(), list(layer.parameters()))
    with torch.autocast("cpu", dtype=kind):
        cast = layer(u)
        y, state = layer.step(u[:, 0], layer.start(2))
        assert layer(u.to(kind)).dtype == torch.float32
    of_cast = torch.autograd.grad(cast.square().sum(), list(layer.parameters()))
    assert torch.equal(cast, plain) and all(map(torch.equal, of_cast, of_plain))
    torch.testing.assert_close(y, plain[:, 0])
    assert state.dtype in (torch.float32, torch.complex64)


@pytest.mark.parametrize("layer", (LinearRecurrentUnit, DiagonalStateSpace, DenseRecurrence))
@pytest.mark.parametrize("norm", ("batch", "layer"))
def test_a_deep_model_trains_under_autocast(layer: type, norm: str) -> None:
    torch.manual_seed(0)
    model = SequenceModel(3, 4, 2, 2, lambda: layer(4, 6), norm=norm)
    u = noise(8, 60, 3)
    exact = torch.autograd.grad(model(u).square().mean(), list(model.parameters()))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(u).square().mean()
    rounded = torch.autograd.grad(loss, list(model.parameters()))
    exact_all, rounded_all = (torch.cat([g.flatten() for g in gs]) for gs in (exact, rounded))
    assert (rounded_all - exact_all).norm() < 0.1 * exact_all.norm()


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("kind", (torch.bfloat16, torch.float16))
def test_layers_in_half_precision(name: str, kind: torch.dtype) -> None:
    layer, u = LAYERS[name]().to(kind), noise(2, 300, 3).to(kind)
    y = layer(u)
    y.float().square().mean().backward()
    assert y.dtype == kind and all(p.grad.isfinite().all() for p in layer.parameters())
    twin = LAYERS[name]().float()
    twin.load_state_dict({k: v.float() for k, v in layer.state_dict().items()})
    exact = twin(u.float())
    assert (y.float() - exact).abs().max() <= torch.finfo(kind).eps * exact.abs().max()


def test_streaming_a_half_precision_model_keeps_its_mean() -> None:
    model = SequenceModel(1, 4, 2, 1, lambda: LinearRecurrentUnit(4, 3, generator=generator()), norm="layer")
    model = model.bfloat16().eval()
    u = noise(1, 1500, 1).abs().bfloat16() + 1  # a running sum in bfloat16 stops growing after 256 of these
    with torch.no_grad():
        _, state = model.advance(u[:, :-1])
        y, _ = model.step(u[:, -1], state)
        torch.testing.assert_close(y, model(u), rtol=0.02, atol=0.02)


# Near and beyond the circle


@pytest.mark.parametrize("chart", ("stable", "exponential"))
def test_recomputed_gamma_where_the_radius_rounds_to_one(chart: str) -> None:
    layer = LinearRecurrentUnit(2, 4, normalizer="recomputed", eigenvalues=chart, generator=generator())
    nu = torch.tensor([1e-12, 1e-9, 1e-4, 0.5])
    with torch.no_grad():
        layer.first.copy_(nu.log() if chart == "stable" else nu)
    assert layer.eigenvalues().abs()[0] == 1
    expected = torch.sqrt(-torch.expm1(-2 * layer._nu().detach().double())).float()
    torch.testing.assert_close(layer.gain(), expected, rtol=1e-6, atol=0)
    layer(noise(1, 50, 2)).square().sum().backward()
    assert all(p.grad.isfinite().all() for p in layer.parameters())


def test_gamma_outside_the_circle_is_zero_with_gradient_zero() -> None:
    lam = torch.tensor([1.0, 1.5, -1.0, 0.6, math.nan], dtype=torch.float64, requires_grad=True)
    gamma = input_normalizer(lam)
    of_lam = torch.autograd.grad(gamma[:4].sum(), lam)[0]
    assert gamma[:3].tolist() == [0, 0, 0] and gamma[3].item() == pytest.approx(0.8) and gamma[4].isnan()
    assert of_lam[:3].tolist() == [0, 0, 0] and of_lam[3].item() == pytest.approx(-0.75)
    layer = LinearRecurrentUnit(2, 2, normalizer="recomputed", eigenvalues="cartesian", generator=generator())
    with torch.no_grad():
        layer.first.copy_(torch.tensor([1.0, 0.5]))
        layer.second.zero_()
    layer(noise(1, 5, 2)).sum().backward()
    assert layer.first.grad.isfinite().all()


def test_gradient_of_the_held_input_gain_near_rate_zero() -> None:
    for rate in (0.0, 1e-7, 1e-3, 1.0):  # d/da (exp(delta a) - 1) / a = delta^2 (1/2 + delta a / 3 + ...)
        a = torch.tensor([-rate], requires_grad=True)
        of_a = torch.autograd.grad(discretize(a, 0.01)[1].sum(), a)[0].item()
        z = -rate * 0.01
        assert of_a == pytest.approx(1e-4 * (1 / 2 + z / 3 + z * z / 8), rel=3e-2 if rate == 1e-3 else 1e-3)


@pytest.mark.parametrize("radius", (1.0, 1.01, 3.0))
def test_fft_refuses_what_it_cannot_do(radius: float) -> None:
    lam = torch.tensor([0.5, radius], dtype=torch.float64)
    with pytest.raises(ValueError, match=r"allowed: below 1 \(or another method than fft\)"):
        linear_recurrence(lam, torch.ones(40, 2, dtype=torch.float64), method="fft", stable=False)
    for method in ("loop", "scan"):
        states = linear_recurrence(lam, torch.ones(40, 2, dtype=torch.float64), method=method, stable=False)
        j = torch.arange(1, 41, dtype=torch.float64)
        expected = j if radius == 1 else (radius**j - 1) / (radius - 1)
        torch.testing.assert_close(states[:, 1], expected)


@pytest.mark.parametrize("method", METHODS)
@given(
    bad=st.sampled_from([math.nan, math.inf, -math.inf]),
    position=st.integers(0, 39),
    kind=st.sampled_from([torch.float64, torch.complex128, torch.float32]),
)
def test_a_broken_input_spoils_its_own_state_from_there_on(
    method: str, bad: float, position: int, kind: torch.dtype
) -> None:
    lam, b = torch.tensor([0.9, -0.5, 0.99], dtype=kind), noise(2, 40, 3, dtype=kind)
    whole = linear_recurrence(lam, b, method=method)
    b[1, position, 1] = bad
    broken = linear_recurrence(lam, b, method=method)
    spoilt = torch.zeros(2, 40, 3, dtype=torch.bool)
    spoilt[1, position:, 1] = True
    assert torch.equal(~broken.isfinite(), spoilt)
    torch.testing.assert_close(broken[~spoilt], whole[~spoilt])


@pytest.mark.parametrize("method", METHODS)
def test_a_broken_gradient_stays_with_its_state(method: str) -> None:
    lam, b = torch.tensor([0.9, -0.5]).requires_grad_(), noise(40, 2).requires_grad_()
    into = torch.ones(40, 2)
    into[20, 1] = math.nan
    linear_recurrence(lam, b, method=method).backward(into)
    assert lam.grad.isnan().tolist() == [False, True]
    assert b.grad[:, 0].isfinite().all() and b.grad[21:, 1].isfinite().all() and b.grad[:21, 1].isnan().all()


@pytest.mark.parametrize("method", ["loop", "scan", "fft"])
@pytest.mark.parametrize("shape", [(0, 5, 2), (3, 5, 0)])
def test_no_sequence_and_no_state_are_no_numbers(method: str, shape: tuple[int, ...]) -> None:
    found = linear_recurrence(torch.full(shape[-1:], 0.5), torch.zeros(shape), method=method)
    assert found.shape == shape


def test_fft_with_numbers_that_overflow_in_its_spectrum() -> None:
    lam, b = torch.tensor([0.5]), torch.full((40, 1), 1e38)
    b[::2] *= -1
    torch.testing.assert_close(
        linear_recurrence(lam, b, method="fft"), linear_recurrence(lam, b, method="loop")
    )


# States in and out


@pytest.mark.parametrize("method", METHODS)
def test_a_complex_start_makes_the_states_complex(method: str) -> None:
    lam, b = torch.tensor([0.5, -0.9], dtype=torch.float64), noise(40, 2, dtype=torch.float64)
    start = torch.tensor([1j, 2 - 1j], dtype=torch.complex128)
    states = linear_recurrence(lam, b, start=start, method=method)
    expected = lam ** torch.arange(1, 41)[:, None] * start + linear_recurrence(lam, b, method="loop")
    assert states.dtype == torch.complex128
    torch.testing.assert_close(states, expected)


def test_a_start_in_double_precision_is_not_rounded() -> None:
    lam, b = torch.tensor([0.5]), torch.zeros(3, 1)
    start = torch.tensor([1 / 3], dtype=torch.float64)
    assert linear_recurrence(lam, b, start=start)[0].item() == 1 / 6
    assert linear_recurrence(lam, b, start=torch.tensor([4])).flatten().tolist() == [2, 1, 0.5]


@pytest.mark.parametrize("name", LAYERS)
@given(cut=st.integers(1, 39))
def test_layers_go_through_a_sequence_in_chunks(name: str, cut: int) -> None:
    layer, u = LAYERS[name]().double(), noise(2, 40, 3, dtype=torch.float64)
    whole = layer(u)
    first, state = layer.advance(u[:, :cut])
    second, after = layer.advance(u[:, cut:], state)
    torch.testing.assert_close(torch.cat([first, second], 1), whole)
    torch.testing.assert_close(layer(u[:, cut:], state=state), second)
    x = layer.start(2)
    for j in range(40):
        _, x = layer.step(u[:, j], x)
    torch.testing.assert_close(after, x)


@pytest.mark.parametrize("name", LAYERS)
def test_gradients_flow_through_the_state(name: str) -> None:
    layer, u = LAYERS[name]().double(), noise(2, 40, 3, dtype=torch.float64)
    whole = torch.autograd.grad(layer(u).square().sum(), list(layer.parameters()))
    first, state = layer.advance(u[:, :17])
    loss = first.square().sum() + layer.advance(u[:, 17:], state)[0].square().sum()
    for got, expected in zip(torch.autograd.grad(loss, list(layer.parameters())), whole, strict=True):
        torch.testing.assert_close(got, expected)


# Lengths and masks

PADDABLE = LAYERS | {
    "bidirectional": lambda: LinearRecurrentUnit(3, 5, bidirectional=True, generator=generator())
}


@pytest.mark.parametrize("name", PADDABLE)
@given(lengths=st.lists(st.integers(1, 36), min_size=3, max_size=3))
def test_padding_is_never_read(name: str, lengths: list[int]) -> None:
    layer, u = PADDABLE[name]().double(), noise(3, 36, 3, dtype=torch.float64)
    for row, n in zip(u, lengths, strict=True):
        row[n:] = math.nan
    u.requires_grad_()
    y = layer(u, lengths=torch.tensor(lengths))
    for i, n in enumerate(lengths):
        torch.testing.assert_close(y[i, :n], layer(u[i : i + 1, :n])[0])
        assert (y[i, n:] == 0).all()
    gradients = torch.autograd.grad(y.square().sum(), [u, *layer.parameters()])
    assert all(g.isfinite().all() for g in gradients)
    if name != "bidirectional":
        _, state = layer.advance(u, lengths=torch.tensor(lengths))
        for i, n in enumerate(lengths):
            torch.testing.assert_close(state[i], layer.advance(u[i, :n])[1])


@pytest.mark.parametrize("name", PADDABLE)
@given(seed=st.integers(0, 10**6))
def test_masked_positions_are_left_out(name: str, seed: int) -> None:
    layer, u = PADDABLE[name]().double(), noise(3, 20, 3, dtype=torch.float64, seed=seed)
    mask = torch.rand(3, 20, generator=generator(seed)) < 0.6
    mask[:, 11] = True
    u[~mask] = math.nan
    y = layer(u, mask=mask)
    for i in range(3):
        torch.testing.assert_close(y[i, mask[i]], layer(u[i, mask[i]][None])[0])
    assert (y[~mask] == 0).all()


@pytest.mark.parametrize("name", PADDABLE)
def test_lengths_and_masks_under_vmap(name: str) -> None:
    layer, u = PADDABLE[name]().double(), noise(4, 9, 3, dtype=torch.float64)
    mask, lengths = torch.rand(4, 9, generator=generator(2)) < 0.6, torch.tensor([1, 9, 4, 6])
    mask[:, 3] = True
    masked, cut = (lambda u, m: layer(u, mask=m)), (lambda u, n: layer(u, lengths=n))
    torch.testing.assert_close(vmap(masked)(u, mask), masked(u, mask))
    torch.testing.assert_close(vmap(masked, (0, None))(u, mask[0]), masked(u, mask[:1].expand(4, 9)))
    torch.testing.assert_close(vmap(cut)(u, lengths), cut(u, lengths))
    with pytest.raises(ValueError, match="at least one True in each row"):
        vmap(masked)(u, mask & (torch.arange(4) < 3)[:, None])
    with pytest.raises(ValueError, match="lengths from 0 to 8; allowed: from 1 to T = 9"):
        vmap(cut)(u, lengths - 1)


@pytest.mark.parametrize("pooling", ("mean", "last", "none"))
@pytest.mark.parametrize("norm", ("batch", "layer"))
@pytest.mark.parametrize("layer", (LinearRecurrentUnit, DenseRecurrence))
def test_a_deep_model_never_reads_padding(pooling: str, norm: str, layer: type) -> None:
    torch.manual_seed(0)
    model = SequenceModel(2, 4, 3, 2, lambda: layer(4, 6), pooling=pooling, norm=norm).double()
    u, lengths = noise(3, 30, 2, dtype=torch.float64), torch.tensor([30, 11, 1])
    mask = torch.arange(30) < lengths[:, None]
    model(u, mask=mask)  # fills the running statistics
    other = torch.where(mask[..., None], u, math.nan)
    assert torch.equal(model(u, lengths=lengths), model(other, lengths=lengths))
    model.eval()
    together = model(other, lengths=lengths)
    left = model(other.flip(1), mask=mask.flip(1))  # what counts stands at the end, in reversed order
    for i, n in enumerate(lengths.tolist()):
        alone, turned = model(u[i : i + 1, :n])[0], model(u[i : i + 1, :n].flip(1))[0]
        torch.testing.assert_close(together[i, :n] if pooling == "none" else together[i], alone)
        torch.testing.assert_close(left[i, 30 - n :] if pooling == "none" else left[i], turned)
    loss = model(other, lengths=lengths).square().sum()
    assert all(g.isfinite().all() for g in torch.autograd.grad(loss, list(model.parameters())))


def test_batch_statistics_leave_padding_out() -> None:
    model = SequenceModel(2, 4, 3, 1, lambda: LinearRecurrentUnit(4, 6, generator=generator()))
    u, lengths = noise(2, 30, 2), torch.tensor([30, 10])
    model(u, lengths=lengths)
    h = torch.cat([model.encoder(u[0]), model.encoder(u[1, :10])]).detach()
    torch.testing.assert_close(model.blocks[0].norm.inner.running_mean, 0.1 * h.mean(0))


@pytest.mark.parametrize("pooling", ("mean", "last", "none"))
def test_a_deep_model_advances_in_chunks_of_different_lengths(pooling: str) -> None:
    model = SequenceModel(
        5, 4, 3, 2, lambda: LinearRecurrentUnit(4, 6), tokens=True, pooling=pooling, norm="layer"
    )
    tokens, lengths = torch.randint(5, (2, 40), generator=generator()), torch.tensor([25, 4])
    padded = torch.where(torch.arange(25) < lengths[:, None], tokens[:, :25], -100)
    _, state = model.advance(padded, lengths=lengths)
    y, state = model.advance(tokens[:, 25:], state)
    z, _ = model.step(tokens[:, 0], state)
    for i, n in enumerate(lengths.tolist()):
        joined = torch.cat([tokens[i, :n], tokens[i, 25:], tokens[i, :1]])[None]
        alone, longer = model(joined[:, :-1])[0], model(joined)[0]
        torch.testing.assert_close(y[i], alone[n:] if pooling == "none" else alone)
        torch.testing.assert_close(z[i], longer[-1] if pooling == "none" else longer)


def test_norm_and_gelu_are_arguments() -> None:
    make = lambda **k: SequenceModel(  # noqa: E731
        1, 4, 2, 1, lambda: LinearRecurrentUnit(4, 3, generator=generator()), norm="layer", **k
    )
    model = make(epsilon=0.5, gelu="tanh")
    block, h = model.blocks[0], noise(1, 7, 4)
    scaled = (h - h.mean(-1, keepdim=True)) / (h.var(-1, unbiased=False, keepdim=True) + 0.5).sqrt()
    torch.testing.assert_close(block.norm(h), scaled)
    y = block.recurrence(scaled)
    bent = 0.5 * y * (1 + torch.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * y**3)))
    torch.testing.assert_close(block(h), h + nn.functional.glu(block.gate(bent), dim=-1))
    assert not torch.equal(block(h), h + nn.functional.glu(block.gate(nn.functional.gelu(y)), dim=-1))
    for bad, message in (({"epsilon": -1.0}, "epsilon = -1.0"), ({"gelu": "fast"}, "gelu = 'fast'")):
        with pytest.raises(ValueError, match=message):
            make(**bad)


class Doubling(nn.Module):
    """A layer that streams and knows nothing of lengths."""

    def forward(self, h: Tensor) -> Tensor:
        return 2 * h

    def start(self, *batch: int) -> Tensor:
        return torch.zeros(*batch, 1)

    def step(self, u: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        return 2 * u, state


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m, u: m(u, lengths=torch.tensor([7, 3])), "from 1 to T = 5"),
        (lambda m, u: m(u, lengths=torch.tensor([0, 3])), "from 1 to T = 5"),
        (lambda m, u: m(u, lengths=torch.tensor([1.0, 3.0])), r"whole numbers of shape \(2,\)"),
        (lambda m, u: m(u, lengths=torch.tensor([3])), r"whole numbers of shape \(2,\)"),
        (lambda m, u: m(u, lengths=[5, 3]), r"lengths = \[5, 3\]"),
        (lambda m, u: m(u, mask=torch.ones(2, 5)), r"booleans of shape \(2, 5\)"),
        (lambda m, u: m(u, mask=torch.zeros(2, 5, dtype=torch.bool)), "at least one True"),
        (lambda m, u: m(u, lengths=torch.tensor([5, 3]), mask=torch.ones(2, 5).bool()), "one of them"),
        (lambda m, u: m(u.double()), "u has dtype torch.float64; allowed: torch.float32"),
        (lambda m, u: m(u.long()), "u has dtype torch.int64"),
        (lambda m, u: m.step(u[:, 0].double(), m.start(2)), "u has dtype"),
        (lambda m, u: m.step(u[:, 0, :2], m.start(2)), r"u has shape \(2, 2\)"),
        (lambda m, u: m.step(u[:, 0], m.start(3)), r"state has shape \(3, 5\); allowed: shape \(2, 5\)"),
        (lambda m, u: m.advance(u, m.start(1)), r"state has shape \(1, 5\)"),
        (lambda m, u: m.advance(u, m.start(2).to(torch.complex128)), "state has dtype torch.complex128"),
    ],
)
@pytest.mark.parametrize("name", ("lru", "dense"))
def test_layers_refuse(name: str, call: Callable, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call(LAYERS[name](), noise(2, 5, 3))


def test_others_refuse() -> None:
    both = LinearRecurrentUnit(3, 5, bidirectional=True)
    for call in (
        lambda: both.advance(noise(2, 5, 3)),
        lambda: both(noise(2, 5, 3), state=torch.zeros(2, 5, dtype=torch.complex64)),
    ):
        with pytest.raises(ValueError, match="bidirectional"):
            call()
    model = SequenceModel(1, 4, 2, 1, Doubling)
    assert model(noise(2, 5, 1)).shape == (2, 2)
    with pytest.raises(ValueError, match="recurrence is a Doubling"):
        model(noise(2, 5, 1), lengths=torch.tensor([5, 2]))
    with pytest.raises(ValueError, match="batch axes of eigenvalues, inputs and start"):
        linear_recurrence(torch.zeros(3, 2), torch.zeros(4, 7, 2))
    with pytest.raises(ValueError, match="rates have dtype torch.int64"):
        discretize(torch.tensor([-1, -2]), 0.1)
