"""What users of a Hessian have: their losses, batches, dict outputs, sequences; and what is refused by name."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

from learning_dynamics import curvature
from learning_dynamics.curvature import Categorical, EmpiricalFisher, Fisher, GaussNewton, Hessian, Jacobian
from learning_dynamics.implicit_bias import linear_models
from learning_dynamics.parameterization import column_space


def close(found: Tensor, expected: Tensor) -> None:
    size = float(expected.abs().max()) + 1e-30
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-11 * size)


def random(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def drawn(model: nn.Module, seed: int = 0) -> nn.Module:
    source = random(seed)
    with torch.no_grad():
        for p in model.parameters():
            p.normal_(generator=source)
    return model


def normal(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=random(seed), dtype=torch.float64)


def torch_hessian(model: nn.Module, loss) -> Tensor:
    """The Hessian of a loss `(model) -> ()` by torch.autograd.functional, in the flat parameters."""
    names, values = zip(*model.named_parameters(), strict=True)
    shapes = [v.shape for v in values]

    def of(theta: Tensor) -> Tensor:
        pieces = theta.split([v.numel() for v in values])
        weights = {name: piece.reshape(s) for name, piece, s in zip(names, pieces, shapes, strict=True)}
        return loss(lambda *x: torch.func.functional_call(model, weights, x))

    return torch.autograd.functional.hessian(of, nn.utils.parameters_to_vector(values).detach())


def mlp(outputs: int = 3) -> nn.Module:
    return drawn(nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, outputs)).double())


cross_entropies = st.builds(
    lambda reduction, weighted, smoothing, ignore: nn.CrossEntropyLoss(
        weight=torch.tensor([0.5, 2.0, 1.25]).double() if weighted else None,
        reduction=reduction,
        label_smoothing=smoothing,
        ignore_index=ignore,
    ),
    st.sampled_from(["mean", "sum"]),
    st.booleans(),
    st.sampled_from([0.0, 0.1, 1.0]),
    st.sampled_from([-100, 0, 7]),
)


@given(cross_entropies, st.booleans(), st.integers(0, 1000), st.sampled_from([None, 2]))
def test_cross_entropy_with_weights_smoothing_ignored_targets_and_sums(loss, soft, seed, batch_size):
    x, model = normal(6, 2, seed=seed), mlp()
    y = torch.tensor([1, 2, 0, 2, 1, 1])
    assume(not soft or loss.ignore_index < 0)  # torch refuses it, as the library does
    if soft:
        y = normal(6, 3, seed=seed + 1).softmax(-1)
    elif loss.ignore_index != 0:
        y[3] = loss.ignore_index
    expected = torch_hessian(model, lambda f: loss(f(x), y))
    close(Hessian(model, loss, x, y, batch_size=batch_size).dense(), expected)
    value, gradient = curvature.loss_and_gradient(model, loss, x, y)
    torch_gradient = torch.autograd.grad(loss(model(x), y), list(model.parameters()))
    close(gradient, torch.cat([g.reshape(-1) for g in torch_gradient]))
    torch.testing.assert_close(gradient, GaussNewton(model, loss, x, y).loss_and_gradient()[1])
    close(value, loss(model(x), y).detach())
    outputs = model(x).detach()
    H_out = torch.autograd.functional.hessian(lambda f: loss(f.reshape(6, 3), y), outputs.reshape(-1))
    J = Jacobian(model, x).dense()
    G = GaussNewton(model, loss, x, y, batch_size=batch_size)
    close(G.dense(), J.T @ H_out @ J)
    torch.testing.assert_close(G.diagonal(), G.dense().diagonal(), rtol=0, atol=1e-10)
    g = curvature.per_sample_gradients(model, loss, x, y)
    counted = 1 if loss.reduction == "sum" else 6 - int(not soft and (y == loss.ignore_index).sum())
    close(g.sum(0) / counted, gradient)
    close(EmpiricalFisher(model, loss, x, y).dense(), g.T @ g / counted)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize(
    "loss",
    [
        nn.MSELoss(),
        nn.BCEWithLogitsLoss(),
        nn.BCEWithLogitsLoss(pos_weight=torch.tensor([3.0, 0.5, 1.0]).double()),
        nn.BCEWithLogitsLoss(
            weight=torch.tensor([0.5, 2.0, 1.0]).double(), pos_weight=torch.tensor(2.0).double()
        ),
        nn.PoissonNLLLoss(),
    ],
    ids=["mse", "bce", "pos_weight", "weight", "poisson"],
)
def test_other_losses_with_sums_and_weights(loss, reduction):
    loss.reduction = reduction
    x, y, model = normal(5, 2), normal(5, 3, seed=2).sigmoid(), mlp()
    close(Hessian(model, loss, x, y).dense(), torch_hessian(model, lambda f: loss(f(x), y)))
    J, outputs = Jacobian(model, x).dense(), model(x).detach()
    H_out = torch.autograd.functional.hessian(lambda f: loss(f.reshape(5, 3), y), outputs.reshape(-1))
    close(GaussNewton(model, loss, x, y).dense(), J.T @ H_out @ J)
    gradient = torch.autograd.grad(loss(model(x), y), list(model.parameters()))
    close(curvature.loss_and_gradient(model, loss, x, y)[1], torch.cat([g.reshape(-1) for g in gradient]))


@pytest.mark.parametrize("shuffle", [False, True])
def test_a_loader_is_read_once_and_is_all_data(shuffle):
    x, y, model = normal(7, 2), torch.tensor([0, 1, 2, 2, 1, 0, 1]), mlp()
    loader = DataLoader(TensorDataset(x, y), batch_size=3, shuffle=shuffle, generator=random())
    for kind in (Hessian, GaussNewton, EmpiricalFisher):
        for size in (None, 2):
            close(
                kind(model, nn.CrossEntropyLoss(), loader, batch_size=size).dense(),
                kind(model, Categorical(), x, y).dense(),
            )
    close(Fisher(model, Categorical(), loader).dense(), Fisher(model, Categorical(), x).dense())
    found = curvature.loss_and_gradient(model, Categorical(), loader)
    close(found[1], curvature.loss_and_gradient(model, Categorical(), x, y)[1])
    batches = [(x[:3], y[:3]), (x[3:], y[3:])]
    close(GaussNewton(model, Categorical(), batches).trace(), GaussNewton(model, Categorical(), x, y).trace())


class Language(nn.Module):
    """A language model with tied weights, padding mask and a dict of outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.mix = nn.Embedding(5, 3), nn.Linear(3, 3)
        self.out = nn.Linear(3, 5, bias=False)
        self.out.weight = self.tokens.weight

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> dict[str, Tensor]:
        h = self.tokens(input_ids) * attention_mask[..., None]
        return {"logits": self.out(torch.tanh(self.mix(h).cumsum(1))), "hidden": h}


def test_dicts_sequences_tied_weights_and_batches_of_different_length():
    model, source = drawn(Language().double()), random()
    batches = []
    for n, length in ((2, 3), (3, 4)):
        ids = torch.randint(5, (n, length), generator=source)
        mask, labels = torch.ones(n, length).double(), torch.randint(5, (n, length), generator=source)
        mask[0, -1], labels[0, -1] = 0, -100
        batches.append({"input_ids": ids, "attention_mask": mask, "labels": labels})
    loss = nn.CrossEntropyLoss()

    def torch_loss(f) -> Tensor:
        rows = [f(b["input_ids"], b["attention_mask"])["logits"].reshape(-1, 5) for b in batches]
        return loss(torch.cat(rows), torch.cat([b["labels"].reshape(-1) for b in batches]))

    H = Hessian(model, loss, batches)
    assert H.shape == (27, 27)  # tied weights count once
    close(H.dense(), torch_hessian(model, torch_loss))
    G = GaussNewton(model, loss, batches)
    J = Jacobian(model, batches)
    assert J.shape == (18 * 5, 27)
    p = J.outputs.softmax(-1)
    A = (torch.diag_embed(p) - p[:, :, None] * p[:, None]) / 16
    kept = torch.cat([b["labels"].reshape(-1) for b in batches]) != -100
    rows = J.dense().reshape(18, 5, 27)
    close(G.dense(), torch.einsum("nci,ncd,ndj->ij", rows[kept], A[kept], rows[kept]))
    torch.testing.assert_close(G.diagonal(), G.dense().diagonal(), rtol=0, atol=1e-12)
    one = {k: v for k, v in batches[1].items() if k != "labels"}
    g = curvature.per_sample_gradients(model, loss, one, batches[1]["labels"])
    assert g.shape == (12, 27)
    close(g.sum(0) / 11, curvature.loss_and_gradient(model, loss, one, batches[1]["labels"])[1])
    with pytest.raises(ValueError, match="which a Fisher matrix does not read"):
        Fisher(model, nn.CrossEntropyLoss(), batches)


def test_targets_and_data_are_pinned_and_so_is_the_mode_of_the_model():
    model = drawn(
        nn.Sequential(
            nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Tanh(), nn.Linear(4, 3)
        ).double()
    ).eval()
    x, y = normal(6, 2), torch.tensor([0, 1, 2, 2, 1, 0])
    soft = normal(6, 3, seed=3)
    loss = nn.CrossEntropyLoss(weight=torch.ones(3).double() * 2)
    made = []
    for kind, size in itertools.product((Hessian, GaussNewton, EmpiricalFisher), (None, 4)):
        made += [
            kind(model, loss, x, y, batch_size=size),
            kind(model, nn.MSELoss(), x, soft, batch_size=size),
        ]
    before = [(A.dense(), A.diagonal()) for A in made]
    model.train()
    model[1].eps, model[3] = 10.0, nn.ReLU()
    x.fill_(3.0), y.fill_(1), soft.fill_(2.0), loss.weight.fill_(9.0)
    for A, (dense, diagonal) in zip(made, before, strict=True):
        assert torch.equal(A.dense(), dense) and torch.equal(A.diagonal(), diagonal)
    assert model.training and model[1].eps == 10.0 and isinstance(model[3], nn.ReLU)
    assert int(model[1].num_batches_tracked) == 0


def test_autocast_and_inference_mode_around_change_nothing():
    model, x, y = mlp().float(), normal(6, 2).float(), torch.tensor([0, 1, 2, 2, 1, 0])
    v = torch.ones(21)
    for kind, size in itertools.product((Hessian, GaussNewton), (None, 2)):
        expected = kind(model, Categorical(), x, y, batch_size=size) @ v
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert torch.equal(kind(model, Categorical(), x, y, batch_size=size) @ v, expected)
        with torch.inference_mode():
            assert torch.equal(kind(model, Categorical(), x, y, batch_size=size) @ v, expected)


def test_a_first_operation_in_place_leaves_the_data_alone():
    x, y = normal(6, 2), torch.tensor([0, 1, 2, 2, 1, 0])
    held = x.clone()
    for first, plain in (
        (nn.ReLU(inplace=True), nn.ReLU()),
        (nn.Hardtanh(-0.5, 0.5, inplace=True), nn.Hardtanh(-0.5, 0.5)),
    ):
        inplace, same = nn.Sequential(first, *mlp()), nn.Sequential(plain, *mlp())
        for kind, size in itertools.product((Hessian, GaussNewton, EmpiricalFisher), (None, 2)):
            A = kind(inplace, Categorical(), x, y, batch_size=size)
            close(A.dense(), kind(same, Categorical(), x, y, batch_size=size).dense())
            close(A.diagonal(), A.dense().diagonal())
    assert torch.equal(x, held)


def test_many_classes_take_memory_for_some_at_a_time():
    kept = 2**24
    classes, n = 2048, 6  # n classes^2 is above what is kept
    assert n * classes**2 > kept
    model = drawn(nn.Linear(1, classes, bias=False), 3)
    x = normal(n, 1).float()
    y = torch.arange(n)
    v = torch.randn(classes, generator=random(5))
    p = (x @ model.weight.T).softmax(-1).detach()
    u = x * v
    expected = (x * (p * u - p * (p * u).sum(-1, keepdim=True))).mean(0)
    G = GaussNewton(model, Categorical(), x, y)
    assert G._kept is None
    torch.testing.assert_close(G @ v, expected, rtol=1e-4, atol=1e-7)


class Cut(nn.Module):
    def __init__(self, how) -> None:
        super().__init__()
        self.body, self.head, self.how = nn.Linear(2, 3), nn.Linear(3, 3), how

    def forward(self, x: Tensor) -> Tensor:
        with torch.set_grad_enabled(self.how != "no_grad"):
            h = self.body(x)
        h = self.head(h.detach() if self.how == "detach" else h)
        return h.detach() if self.how == "all" else h


class Bag(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bag, self.out = nn.EmbeddingBag(4, 2), nn.Linear(2, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.bag(x))


X, Y = torch.linspace(-1, 1, 8).reshape(4, 2), torch.tensor([0, 1, 2, 0])
PACKED = nn.utils.rnn.pack_padded_sequence(X[None], torch.tensor([4]), batch_first=True)


@pytest.mark.parametrize(
    ("model", "x", "message"),
    [
        (Cut("no_grad"), X, "parameter 'body.weight' changes the outputs but has no derivative"),
        (Cut("detach"), X, "parameter 'body.weight'"),
        (Cut("all"), X, "parameter 'body.weight'"),
        (Bag(), torch.tensor([[0, 1], [2, 3], [1, 1], [0, 2]]), "cannot be differentiated twice"),
        (torch.jit.trace(nn.Linear(2, 3), X), X, "ScriptModule"),
        (nn.Sequential(torch.jit.trace(nn.Linear(2, 3), X)), X, "ScriptModule"),
        (nn.DataParallel(nn.Linear(2, 3)), X, "allowed: the module inside, model.module"),
        (nn.LazyLinear(3), X, "has no shape yet"),
        (nn.Linear(2, 3).bfloat16(), X.bfloat16(), "float32 or float64"),
        (nn.Linear(2, 3), PACKED, "PackedSequence"),
        (nn.Linear(2, 3), {}, "inputs is a dict"),
        (nn.Linear(2, 3), {"input": X, "other": X[:1]}, "numbers of samples"),
        (nn.Linear(2, 3), [(X, Y)], "one of the two"),
    ],
)  # fmt: skip
def test_models_and_data_that_are_refused(model, x, message):
    for kind in (Hessian, GaussNewton):
        with pytest.raises(ValueError, match=message) as error:
            kind(model, Categorical(), x, Y)
        assert "\n" not in str(error.value)


def test_a_wrong_second_derivative_is_seen_and_a_right_first_one_is_used():
    """Torch's second derivative of weight_norm fails its own gradgradcheck; the Gauss-Newton matrix needs none."""
    model = nn.utils.parametrizations.weight_norm(drawn(nn.Linear(2, 3).double()))
    x = X.double()
    with pytest.raises(ValueError, match="not symmetric"):
        Hessian(model, Categorical(), x, Y)
    J, outputs = Jacobian(model, x).dense(), model(x)
    rows = [torch.autograd.grad(f, list(model.parameters()), retain_graph=True) for f in outputs.reshape(-1)]
    close(J, torch.stack([torch.cat([g.reshape(-1) for g in row]) for row in rows]))


def test_parameters_that_are_cut_off_on_purpose_can_be_left_out():
    model = Cut("no_grad")
    G = GaussNewton(model, Categorical(), X, Y, parameters=model.head.parameters())
    J = Jacobian(model.head, model.body(X).detach())
    p = J.outputs.softmax(-1)
    A = torch.block_diag(*(torch.diag_embed(p) - p[:, :, None] * p[:, None])) / 4
    torch.testing.assert_close(G.dense(), J.dense().T @ A @ J.dense())


class TimeFirst(nn.Module):
    """A recurrent network whose first axis is time, as torch has it: its first outputs do not know the later inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.GRU(2, 3), nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x)[0])


class Drifting(nn.Module):
    def __init__(self, buffer: bool) -> None:
        super().__init__()
        self.linear, self.buffer, self.calls = nn.Linear(2, 3), buffer, [0]
        self.register_buffer("scale", torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        if self.buffer:
            self.scale.mul_(1.0003)
        self.calls[0] += 1
        return self.linear(x) * (self.scale if self.buffer else 1 + 3e-4 * self.calls[0])


class Recomputing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(2, 3), nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(checkpoint(lambda x: self.body(x).tanh(), x, use_reentrant=False))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (TimeFirst, "other outputs for a part of the batch"),
        (lambda: Drifting(True), "other outputs when it is called again"),
        (lambda: Drifting(False), "other outputs when it is called again"),
        (Recomputing, "recomputes its activations"),
    ],
)
def test_models_whose_outputs_move_or_are_recomputed_are_refused(make, message, dtype):
    model, x = drawn(make()).to(dtype), X.to(dtype)
    x = x[:, None] if isinstance(model, TimeFirst) else x
    y = Y[:, None] if isinstance(model, TimeFirst) else Y
    for kind in (Hessian, GaussNewton):
        for batch_size in (None, 2):
            with pytest.raises(ValueError, match=message):
                kind(model, Categorical(), x, y, batch_size=batch_size)


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)
        self.body, self.head = nn.TransformerEncoder(layer, 1), nn.Linear(4, 3)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return self.head(self.body(x, src_key_padding_mask=mask))


@pytest.mark.parametrize("longest", [3, 4])
def test_padded_transformers_in_eval_mode(longest):
    """Torch's fast path, taken without gradients, writes zeros to the padding, or cuts it off."""
    model = drawn(Encoder().double()).eval()
    x, y = normal(5, 4, 4), torch.arange(20).reshape(5, 4) % 3
    mask = torch.arange(4) >= torch.tensor([longest, 2, 3, 1, longest])[:, None]
    before = torch.backends.mha.get_fastpath_enabled()
    data = {"x": x, "mask": mask}
    G = GaussNewton(model, Categorical(), data, y)
    assert torch.backends.mha.get_fastpath_enabled() is before
    expected = G.dense()
    close(GaussNewton(model, Categorical(), data, y, batch_size=2).dense(), expected)
    close(G.diagonal(), expected.diagonal())
    with torch.enable_grad():
        loss = nn.functional.cross_entropy(model.train()(**data).flatten(0, 1), y.flatten())
    theta = nn.utils.parameters_to_vector(model.parameters()).detach()
    torch.testing.assert_close(G.loss_at(theta), loss.detach())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: Hessian(nn.Sequential(nn.Unflatten(1, (2, 1)), nn.Linear(1, 3)), nn.CrossEntropyLoss(), X,
                           torch.full((4, 2, 3), 1 / 3)), "may read the second or the last axis"),
        (lambda m: GaussNewton(m, nn.CrossEntropyLoss(ignore_index=0), X, torch.zeros(4).long()), "all ignore_index"),
        (lambda m: GaussNewton(m, nn.CrossEntropyLoss(weight=torch.ones(2)), X, Y), "weight of the loss has shape"),
        (lambda m: GaussNewton(m, nn.CrossEntropyLoss(weight=torch.zeros(3)), X, Y), "weights of all targets are zero"),
        (lambda m: Fisher(m, nn.CrossEntropyLoss(weight=torch.ones(3)), X), "belongs to targets"),
        (lambda m: Fisher(m, nn.CrossEntropyLoss(label_smoothing=0.1), X), "belongs to targets"),
        (lambda m: GaussNewton(m, Categorical(), X), "targets are missing"),
        (lambda m: GaussNewton(m, Categorical(), [(X,)]), "batches have no targets"),
        (lambda m: GaussNewton(m, Categorical(), [(X, Y, Y)]), "a batch has 3 entries"),
        (lambda m: GaussNewton(nn.Sequential(m, nn.Unflatten(1, (3, 1)), nn.Linear(1, 3)), nn.CrossEntropyLoss(), X,
                               torch.zeros(4, 3).long()), "may read the second or the last axis"),
        (lambda m: Categorical().loss(torch.zeros(1, 3), torch.tensor([7])), "classes from 7 to 7"),
        (lambda m: Categorical().gradient(torch.zeros(1, 3), torch.tensor([-1])), "classes from -1"),
    ],
)  # fmt: skip
def test_losses_and_targets_that_are_refused(call, message):
    with pytest.raises(ValueError, match=message) as error:
        call(nn.Linear(2, 3))
    assert "\n" not in str(error.value)


def test_class_indices_out_of_range_are_no_zero_under_vmap():
    found = torch.func.vmap(Categorical().loss)(torch.zeros(2, 3), torch.tensor([1, 7]))
    assert torch.isfinite(found[0]) and torch.isnan(found[1])


def test_frozen_weights_do_not_count_in_the_layerwise_kernel():
    model, x = mlp(), normal(5, 2)
    for frozen in (["0.weight"], ["0.bias", "2.weight"], ["0.weight", "0.bias"], []):
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(name not in frozen)
        J = Jacobian(model, x).dense()
        close(column_space.layerwise_gram(model, x), J @ J.T)
    model[2].weight = nn.Parameter(normal(3, 3))
    shared = nn.Sequential(nn.Linear(3, 3).double(), nn.Tanh(), nn.Linear(3, 3).double())
    shared[2].weight = shared[0].weight
    with pytest.raises(ValueError, match="share a parameter"):
        column_space.layerwise_gram(shared, normal(4, 3))
    with pytest.raises(ValueError, match="no parameter that requires a gradient"):
        column_space.layerwise_gram(shared.requires_grad_(False), normal(4, 3))


def test_one_triangle_is_not_read_for_a_matrix():
    A = torch.tensor([[2.0, 0.5], [0.0, 1.0]]).double()
    x, one = torch.ones(1, 2).double(), torch.ones(2).double()
    for call in (
        lambda: linear_models.nearest_solution(x, one[:1], one, A),
        lambda: column_space.from_gram(A, one),
        lambda: curvature.damped_step(A, one, 1.0),
        lambda: curvature.trust_region_step(A, one, 1.0),
        lambda: curvature.model_change(A, one, one),
    ):
        with pytest.raises(ValueError, match="differs from its transpose"):
            call()
