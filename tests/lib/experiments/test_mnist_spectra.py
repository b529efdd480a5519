"""Spectra of networks on MNIST against the small Gram matrix, and the inequalities that tie the columns."""

import pytest
import torch

from learning_dynamics import curvature
from learning_dynamics.experiments.fisher_and_ggn import mnist_spectra


@pytest.fixture(scope="module")
def networks():
    return {step: network for step, network in mnist_spectra.checkpoints(0, "true", (0,))}


def test_gauss_newton_has_the_eigenvalues_of_its_gram_matrix(networks) -> None:
    kept = mnist_spectra.spectra(networks[0], 0, "true", samples=20)
    images, labels = (values[:20] for values in mnist_spectra.training_data(0, "true"))
    J = curvature.Jacobian(networks[0], images).dense().view(20, 10, -1)
    p = networks[0](images).detach().softmax(-1)
    root = p.sqrt()[:, :, None] * (
        torch.eye(10, dtype=p.dtype) - p[:, None, :]
    )  # root' root = diag(p) - p p'
    factors = (root @ J).flatten(0, 1) / 20**0.5
    expected = torch.linalg.eigvalsh(factors @ factors.T).flip(0)[: mnist_spectra.TOP]
    torch.testing.assert_close(kept["gauss_newton"], expected, rtol=1e-5, atol=1e-8)
    torch.testing.assert_close(kept["fisher"], expected, rtol=1e-5, atol=1e-8)
    assert (kept["hessian"][0] - kept["gauss_newton"][0]).abs() <= kept["distance"] * (1 + 1e-5)
    assert -kept["lowest"] <= kept["distance"] * (1 + 1e-5)


def test_permuted_labels_are_the_same_labels_in_another_order() -> None:
    (images, true), (same, permuted) = (mnist_spectra.training_data(0, kind) for kind in mnist_spectra.LABELS)
    assert torch.equal(images, same)
    assert torch.equal(true.sort().values, permuted.sort().values)
    assert 0.05 < (true == permuted).double().mean() < 0.15


def test_unknown_labels_are_refused() -> None:
    with pytest.raises(ValueError, match="labels = 'shuffled'"):
        mnist_spectra.training_data(0, "shuffled")
