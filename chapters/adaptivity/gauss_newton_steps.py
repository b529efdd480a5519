# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Gauss-Newton steps: no step is too large
#
# You start a training run and must choose a step size before you know how curved the loss is. If it is too large, the run diverges;
# if it is too small, the run crawls; the right value is usually found by running everything several times.
#
# **Can a step size be chosen so that no setting makes training diverge?** Yes, if the loss is convex, smooth and
# never negative. Write the loss as the square of its root, replace the root by its tangent, and step to the minimum of the squared tangent, kept short by a penalty on the length of the step. The method is called NGN, for
# *non-negative Gauss-Newton*. In place of the step size it has a *largest* step $\eta_{\max}$, and it costs one division more than gradient descent.
# **What breaks it**: a loss whose minimum is positive. Nothing diverges then either, but a large step stops short of
# the minimum, at a height that is known before the run. Adding a constant to a loss is enough to see this. Gradient descent does not notice a constant, because
# the gradient is the same; NGN does.
#
# Move the constant $c$, the largest step $\eta_{\max}$ (written $\sigma$ in the panel) and the curvature of the parabola ($\lambda$). The thin line is the predicted height.
#
# <div class="ld-widget" data-widget="added-constant"></div>

# %% tags=["colab", "remove-cell"]
# On Colab only: fetch the library of this book. It replaces nothing that is installed there.
import subprocess
import sys

if "google.colab" in sys.modules:
    address = "git+https://github.com/learning-dynamics/learning-dynamics"
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", address], check=True)
    from learning_dynamics import colab

    colab.prepare()

# %% tags=["parameters", "remove-input"]
SCALE = "book"
DEVICE = "auto"
SEED = 0

# %% tags=["hide-input"]
import math

import matplotlib.pyplot as plt
import torch
from scipy.optimize import brentq
from torch import nn
from torch.nn.functional import cross_entropy

from learning_dynamics import data, ensembles, figures, results, rules, runs
from learning_dynamics.ensembles import ModuleEnsemble, shuffled
from learning_dynamics.experiments.gauss_newton_steps import image_training
from learning_dynamics.figures import COLORS
from learning_dynamics.ledger import (
    Ledger,
    at_most,
    between,
    confident,
    control,
    correction,
    equals,
    identity,
    inequality,
    ordering,
)
from learning_dynamics.models import SmallCNN
from learning_dynamics.optimizers import NGN
from learning_dynamics.rules import Averaged, GradientDescent, ngn_step_size
from learning_dynamics.statistics import mean_interval

figures.use_style()
run = runs.Run("adaptivity/gauss_newton_steps", scale=SCALE, device=DEVICE, seed=SEED)
ledger = Ledger(run)
like = {"dtype": run.dtype}  # small problems: on the CPU, whatever DEVICE says


# %%
# one step of NGN on the loss curvature·θ²/2 + c: new θ and its gap
def ngn_gap(theta, eta_max, curvature, c):
    loss, gradient = curvature * theta**2 / 2 + c, curvature * theta
    theta = theta - eta_max / (1 + eta_max * gradient**2 / (2 * loss)) * gradient
    return theta, curvature * theta**2 / 2


paths = {0.0: [2.0], 0.5: [2.0]}  # without a constant, and with c = 0.5
for c, path in paths.items():
    for _ in range(30):
        path.append(ngn_gap(path[-1], 4.0, 1.0, c)[0])

# %% tags=["hide-input", "static-twin"] mystnb={"figure": {"caption": "**A constant added to the loss stops NGN at a height known in advance.** The loss is $\\theta^2/2+c$, the largest step 4. Top: the gap to the minimum; without a constant it falls geometrically, with $c=0.5$ it settles on the predicted line. What breaks it: gradient descent with the same step (dashed) diverges, with or without the constant. Bottom: NGN with $c=0.5$ ends by jumping for ever between the two ringed points.", "name": "fig-gauss-newton-steps-constant"}, "image": {"alt": "Top: on a logarithmic axis a straight falling line, a line that levels off on a thin horizontal line, and a dashed line rising out of the picture. Bottom: a parabola with dots that gather in two rings at equal height on its two sides."}}
paths = {c: torch.tensor(path, **like) for c, path in paths.items()}
descent = 2.0 * (-3.0) ** torch.arange(31, **like)  # gradient descent with the step 4: θ ← θ − 4θ
fig, (top, bottom) = figures.subplots(2, 1, size=(6.0, 5.6))
top.semilogy(paths[0.5] ** 2 / 2, label="NGN, $c=0.5$")
top.semilogy(paths[0.0] ** 2 / 2, label="NGN, $c=0$")
height = 0.5 * (4 - 2) / (4 + 2)  # proved below
top.axhline(height, color=COLORS["grey"], lw=1, marker="")
figures.line_control(top, range(31), descent**2 / 2, label="gradient descent, any $c$")
top.set(ylim=(1e-8, 1e3), xlabel="step $k$", ylabel="$\\mathcal{L}(\\theta_k)-\\mathcal{L}^\\star$")
top.legend(loc="center right", fontsize=8.5)
grid = torch.linspace(-2.1, 2.1, 200, **like)
bottom.plot(grid, grid**2 / 2 + 0.5, color=COLORS["grey"], marker="")
bottom.plot(paths[0.5], paths[0.5] ** 2 / 2 + 0.5, "o", color=COLORS["blue"], markersize=4)
for side in (-1, 1):
    bottom.plot(
        side * math.sqrt(2 * height),
        height + 0.5,
        "o",
        mfc="none",
        color=COLORS["vermillion"],
        markersize=12,
    )
bottom.set(xlabel="$\\theta$", ylabel="$\\mathcal{L}(\\theta)$", ylim=(0, 2.8))
plt.show()

# %% [markdown]
# In the equation of the book, $\theta_{k+1}=\theta_k-\eta_kP_k(\nabla\mathcal L(\theta_k)+\xi_k)+\beta_1(\theta_k-\theta_{k-1})$, this chapter lets the step size $\eta_k$ depend on the loss and the gradient of
# the current batch. (The matrix $P_k$ is the identity, the noise $\xi_k$ comes from drawing batches, and the momentum $\beta_1$ is zero until the end.) After it you can
#
# - use NGN in PyTorch, and say what its one number does;
# - derive the step as a Gauss-Newton step, and place it between gradient descent and
#   {chapter}`Polyak's step <adaptivity/polyak_steps>`, which you should read first;
# - predict where it ends on a quadratic, and why its step there is the best fixed step of gradient descent;
# - say what is proved for it, with which constants, what it gains on networks, and when not to use it.
#
# The source is section 4.3 of {cite}`orvieto2023dynamics`, published later as {cite}`orvieto2024adaptive`. The page
# runs in about a minute and a half on one CPU core, in ten seconds with `SCALE = "smoke"`.
#
# ## Use it in five lines
#
# NGN needs what every training loop has: the loss of the batch and its gradient. Its `lr` is the largest step
# $\eta_{\max}$ that it may take. This cell trains the library's small convolutional network on 10,000 images of MNIST for one epoch, with three settings a factor of ten apart.


# %%
def one_epoch(lr, images, labels):
    torch.manual_seed(SEED)
    network = SmallCNN()
    optimizer = NGN(network.parameters(), lr=lr)
    for x, y in zip(images.split(128), labels.split(128), strict=True):
        loss = cross_entropy(network(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step(loss=loss)
    return loss.item()


digits, digit_labels = image_training.images_of("mnist-10k")
tried = (0.1, 1.0, 10.0) if run.scale != "smoke" else (1.0,)
for lr in tried:  # guessing costs ln 10
    assert one_epoch(lr, digits, digit_labels) < 0.5 * math.log(10)

# %% [markdown]
# All three settings learn in one pass over the images: each ends below half the loss of guessing, $\ln10$. Any learning-rate schedule of PyTorch can be put on `lr`.
#
# ## Where the formula comes from
#
# The training loss is a mean over $n$ samples, $\mathcal L=\frac1n\sum_i\ell_i$, and every $\ell_i$ is differentiable
# and never negative. So it has a root, $h_i=\sqrt{\ell_i}$, and the loss is a sum of squares,
# $\mathcal L=\frac1n\sum_ih_i^2$. Where $\ell_i>0$, the chain rule gives $\nabla h_i=\nabla\ell_i/(2\sqrt{\ell_i})$. (Where $\ell_i=0$ the gradient is zero as well, and the sample is left out of the sums below.) The idea of Gauss and Newton is
# to linearize what is squared, and not the loss itself. For a move $p\in\mathbb R^d$ of the parameters the model of the loss is
#
# $$
# \begin{aligned}
# M(p)=\frac1n\sum_{i=1}^n&\bigl(h_i+\nabla h_i^\top p\bigr)^2\\
# &+\frac{1}{2\eta_{\max}}\lVert p\rVert^2 .
# \end{aligned}
# $$ (eq-gauss-newton-steps-model)
#
# This model is never negative, like the loss. A linear model of $\ell_i$ itself falls below zero, where the
# loss never goes. The last term keeps the move short; $\eta_{\max}>0$ is the only number to choose. The model is quadratic in $p$,
# and its minimizer is the step of Levenberg and Marquardt {cite}`levenberg1944method,marquardt1963algorithm`:
#
# $$
# \begin{aligned}
# p&=-\,G^{-1}\,\nabla\mathcal L,\\
# G&=\frac1{\eta_{\max}}I+\frac1n\sum_{i=1}^n\frac{\nabla\ell_i\nabla\ell_i^\top}{2\ell_i}.
# \end{aligned}
# $$ (eq-gauss-newton-steps-full)
#
# With one sample, or with the loss of a batch taken as one function, $G$ is a multiple of the identity plus one outer
# product, and $\nabla\ell$ is one of its eigenvectors. No system has to be solved.
#
# :::{prf:proposition} The non-negative Gauss-Newton step
# :label: thesis-alg-ngn
# For one differentiable $\ell\ge0$ with $\ell(\theta)>0$ the minimizer of {eq}`eq-gauss-newton-steps-model` is $p=-\eta\,\nabla\ell(\theta)$
# with
#
# $$\eta=\frac{\eta_{\max}}{1+\dfrac{\eta_{\max}}{2\,\ell(\theta)}\lVert\nabla\ell(\theta)\rVert^2}.$$ (eq-gauss-newton-steps-ngn)
#
# *NGN* takes it with $\ell=\ell_{i_k}$ for the sample (or batch) $i_k$ of step $k$:
# $\theta_{k+1}=\theta_k-\eta_k\nabla\ell_{i_k}(\theta_k)$.
# :::
#
# *The key step.* $G\nabla\ell=\bigl(\frac1{\eta_{\max}}+\frac{\lVert\nabla\ell\rVert^2}{2\ell}\bigr)\nabla\ell$: the
# bracket is $1/\eta$.
#
# :::{dropdown} Proof of both formulas
# 1. The gradient of the model,
#    $\frac2n\sum_i(h_i+\nabla h_i^\top p)\nabla h_i+\frac1{\eta_{\max}}p$, vanishes where
#
#    $$
#    \begin{aligned}
#    \Bigl[\frac2n\sum_i\nabla h_i\nabla h_i^\top&+\frac1{\eta_{\max}}I\Bigr]p\\
#    &=-\frac2n\sum_ih_i\nabla h_i .
#    \end{aligned}
#    $$
#
# 2. $2h_i\nabla h_i=\nabla\ell_i$ and $2\nabla h_i\nabla h_i^\top=\nabla\ell_i\nabla\ell_i^\top/(2\ell_i)$. This is
#    {eq}`eq-gauss-newton-steps-full`; $G$ is positive definite, so the zero of $\nabla M$ is the minimizer.
# 3. For one function, $p=-\eta\nabla\ell$ solves $Gp=-\nabla\ell$ by the key step. $\square$
# :::
#
# :::{dropdown} The letters of the source
# | here | source, section 4.3 and D.2 | meaning |
# |---|---|---|
# | $\theta$, $\theta_k$, $\theta^\star$ | $x$, $x^k$, $x^*$ | parameters, iterate, a minimizer of the mean |
# | $\mathcal L$, $\ell_i$, $\ell_i^\star$ | $f$, $f_i$, $f_i^*$ | loss, loss of one sample, its infimum |
# | $h_i$ (local) | $r_i$ | root of the loss of one sample |
# | $\eta_k$, $\eta_{\max}$ | $\gamma_k$, $\sigma$ | step, largest step |
# | $\rho=\eta_{\max}L$ (local) | $\sigma L$ | largest step in units of $1/L$ |
# | $\hat\eta$ (local) | $\eta_\sigma$ | step in the rate of the convex theorem |
# | $n$, $d$, $K$ | $N$ or $n$, $d$, $K$ | samples, parameters, steps |
# | $\Delta_{\mathrm{noise}}^2$ | $\Delta_{\mathrm{noise}}^2$, $\zeta^2$ | largest variance of the gradient |
# :::
#
# *By hand.* Take $\ell=\frac12\theta^2+\frac12$ at $\theta_0=2$ with $\eta_{\max}=4$. The loss is $2.5$, the gradient $2$. So
# $\eta_0=4/(1+\frac{4}{2\cdot2.5}\cdot2^2)=4/4.2=0.952$ and $\theta_1=2-0.952\cdot2=0.095$. Gradient descent with the step $4$ jumps to $2-4\cdot2=-6$. At $\theta_1$ the
# gradient is small, the loss still $0.5045$, and NGN takes nearly the full step: $\eta_1=4/(1+\frac4{1.009}\cdot0.0091)=3.86$, $\theta_2=-0.272$. The iterate jumps across the minimum and moves
# away from it. The lower panel of {numref}`fig-gauss-newton-steps-constant` shows where this ends.
#
# The algorithm of this chapter, and the library's PyTorch optimizer `NGN` beside it. (Later cells use `rules.NGN`, the same rule for many runs at once.)


# %%
def ngn(loss, theta, eta_max, steps):
    for _ in range(steps):
        theta = theta.detach().requires_grad_()
        value = loss(theta)
        (gradient,) = torch.autograd.grad(value, theta)
        eta = eta_max / (1 + eta_max / (2 * value) * gradient.square().sum())
        theta = theta - eta * gradient
    return theta.detach()


def bowl(theta):  # a loss that is not quadratic
    return torch.log1p((theta**2).sum()) + 0.1 * (theta[0] - 1) ** 2 + 0.05


at_start = torch.tensor([1.5, -0.7, 0.4], **like)
parameter = nn.Parameter(at_start.clone())
optimizer = NGN([parameter], lr=5.0)  # the library's, as a PyTorch optimizer
for _ in range(50):
    optimizer.zero_grad()
    value = bowl(parameter)
    value.backward()
    optimizer.step(loss=value)
assert torch.allclose(parameter.detach(), ngn(bowl, at_start, 5.0, 50), rtol=1e-12, atol=1e-14)
by_steps = [ngn(lambda x: x[0] ** 2 / 2 + 0.5, torch.tensor([2.0], **like), 4.0, k).item() for k in (1, 2)]
assert [round(x, 3) for x in by_steps] == [0.095, -0.272]  # the example by hand

# %% [markdown]
# Each result on this page is checked by a computation. The row or card below it says what was measured, what it was allowed to be, and the same number for something
# wrong (the *control*), which has to fail. "200 values, worst 1.4e-15 against 1.3e-12. What breaks it: … (0.004 at best)" means: of 200 numbers that should be zero the largest is $1.4\cdot10^{-15}$, rounding would excuse $1.3\cdot10^{-12}$, and with the wrong formula
# the number nearest to passing is $0.004$. "Against at least 0, up to rounding" is a bound from below. A row "A exceeds B by x (at least y)" gives the mean difference x over the seeds and the lower end y of its 99.9 % interval; $\varepsilon$ in "100 ε" is the rounding unit of the number type, $2.2\cdot10^{-16}$ in double precision. {doc}`How claims are checked <../../book/how_claims_are_checked>` explains the words. The first check minimizes the model {eq}`eq-gauss-newton-steps-model` by automatic differentiation and compares.

# %%
# the minimizer of M(p), by automatic differentiation and by formula
many = run.pick(smoke=20, book=200, paper=200)
source = run.generator("derivation")
roots = torch.rand(many, 5, generator=source, **like) + 0.1  # h_i of five samples, any numbers will do
root_slopes = torch.randn(many, 5, 3, generator=source, **like)  # their gradients
caps = 10 ** (4 * torch.rand(many, generator=source, **like) - 2)


def model(p, h, slopes, cap, weight=0.5):  # M(p)
    return ((h + slopes @ p) ** 2).mean() + weight * (p**2).sum() / cap


def minimizer(h, slopes, cap, weight=0.5):  # the model is quadratic: one Newton step from 0
    zero = torch.zeros(slopes.shape[-1], **like)
    hessian = torch.func.hessian(model)(zero, h, slopes, cap, weight)
    return -torch.linalg.solve(hessian, torch.func.grad(model)(zero, h, slopes, cap, weight))


def closed_form(h, slopes, cap):  # -G⁻¹∇ℒ, from losses and their gradients
    losses, gradients = h**2, 2 * h[:, None] * slopes
    G = torch.eye(slopes.shape[-1], **like) / cap
    G = G + (gradients / (2 * losses[:, None])).T @ gradients / len(h)
    return -torch.linalg.solve(G, gradients.mean(0)), torch.linalg.cond(G)


# %%
moves, conditions = torch.vmap(closed_form)(roots, root_slopes, caps)
by_model = torch.vmap(minimizer)(roots, root_slopes, caps)
heavier = torch.vmap(lambda *each: minimizer(*each, weight=1.0))(roots, root_slopes, caps)


def apart(one, two):  # relative distance
    return (one - two).norm(dim=-1) / two.norm(dim=-1)


one_root, one_slope = roots[:, :1], root_slopes[:, :1]  # now with a single sample
single, condition = torch.vmap(closed_form)(one_root, one_slope, caps)
one_loss, one_gradient = one_root[:, 0] ** 2, (2 * one_root[..., None] * one_slope)[:, 0]
scalar = ngn_step_size(one_loss, one_gradient.square().sum(-1), caps)
halved = ngn_step_size(one_loss / 2, one_gradient.square().sum(-1), caps)

# %% tags=["hide-input"]
ledger.check(
    "thesis:eq-105",
    "The minimizer of the model, by automatic differentiation, is −G⁻¹∇ℒ",
    measured=apart(by_model, moves),
    criterion=identity("‖argmin M + G⁻¹∇ℒ‖/‖G⁻¹∇ℒ‖", condition=conditions.max().item()),
    control=control("‖p‖²/η_max in the place of ‖p‖²/2η_max", apart(heavier, moves)),
    expected="holds",
)
ledger.check(
    "thesis:alg-ngn",
    "For one function the matrix step is the NGN step of the library",
    measured=apart(-scalar[:, None] * one_gradient, single),
    criterion=identity("‖−η∇ℓ + G⁻¹∇ℓ‖/‖G⁻¹∇ℓ‖", condition=condition.max().item()),
    control=control("ℓ in the place of 2ℓ", apart(-halved[:, None] * one_gradient, single)),
    expected="holds",
    show="card",
)

# %% [markdown]
# {numref}`fig-gauss-newton-steps-toys` shows model and step on five functions of one variable. Gradient descent
# with the step $\eta_{\max}$ also minimizes a model, the tangent plus $p^2/2\eta_{\max}$. Only that one goes below zero.

# %%
toys = {  # function, starting point, eta_max
    "$\\theta^2/2+0.1$": (lambda x: x**2 / 2 + 0.1, 2.0, 1.5),
    "$5\\theta^2$": (lambda x: 5 * x**2, 1.0, 0.5),
    "$\\theta^4$": (lambda x: x**4, 1.2, 0.5),
    "$\\ln(1+\\theta^2)+0.1$": (lambda x: torch.log1p(x**2) + 0.1, 1.5, 4.0),
    "$1.1+\\sin\\theta$": (lambda x: 1.1 + torch.sin(x), 0.3, 6.0),
}
moves_from = torch.linspace(-6, 6, 601, **like)  # p
toy_numbers, drawn = [], {}
for name, (function, begin, cap) in toys.items():
    begin = torch.tensor(begin, **like)
    value, slope = function(begin), torch.func.grad(function)(begin)
    step = ngn_step_size(value, slope**2, cap).item()
    squared = (value.sqrt() + slope / (2 * value.sqrt()) * moves_from) ** 2  # (h + h' p)²
    tangent = value + slope * moves_from + moves_from**2 / (2 * cap)  # the model of gradient descent
    at_step = (value.sqrt() - step * slope**2 / (2 * value.sqrt())) ** 2 + step**2 * slope**2 / (2 * cap)
    lead = (squared + moves_from**2 / (2 * cap)).min() - at_step  # no other move has a lower model
    toy_numbers.append([step / cap, (cap * slope**2 / (2 * value)).item(), lead, tangent.min()])
    drawn[name] = begin, value, squared, tangent, begin - step * slope
toy_numbers = torch.tensor(toy_numbers, **like)

# %% tags=["hide-input"] mystnb={"figure": {"caption": "**NGN's model is never negative, and its step is shorter where the function is steep for its height.** Grey: five functions. Blue: the squared tangent of the root at the black dot, with the move to the star. What breaks it: the tangent plus $p^2/2\\eta_{\\max}$, the model of gradient descent (dashed), falls below zero. Last panel: all five steps on one curve.", "name": "fig-gauss-newton-steps-toys"}, "image": {"alt": "Six small panels. In five, a grey function, a blue parabola that touches zero at most, and a dashed line that goes below zero. In the last, five dots on a falling curve."}}
fig, axes = figures.subplots(3, 2, size=(6.4, 7.6))
for ax, (name, (begin, value, squared, tangent, end)) in zip(axes.flat, drawn.items(), strict=False):
    function = toys[name][0]
    ax.plot(begin + moves_from, function(begin + moves_from), color=COLORS["grey"], marker="")
    ax.plot(begin + moves_from, squared, color=COLORS["blue"], marker="")
    figures.line_control(ax, begin + moves_from, tangent)
    ax.plot(begin, value, "o", color=COLORS["black"])
    ax.plot(end, function(end), "*", color=COLORS["vermillion"], ms=11)
    ax.set(xlim=(begin - 4.5, begin + 1.5), ylim=(-1.5 * value, 2.2 * value), title=name, xlabel="$\\theta$")
last = axes.flat[-1]
sharpness = torch.logspace(-1, 2, 50, **like)
last.semilogx(sharpness, 1 / (1 + sharpness), marker="", color=COLORS["grey"])
last.semilogx(toy_numbers[:, 1], toy_numbers[:, 0], "o", color=COLORS["blue"])
last.set(xlabel="$\\eta_{\\max}\\|\\nabla\\ell\\|^2/2\\ell$", title="NGN step / $\\eta_{\\max}$")
plt.show()

# %% [markdown]
# On all five functions the step minimizes the model, and it is shorter than $\eta_{\max}$ by a factor that depends only on $\eta_{\max}\lVert\nabla\ell\rVert^2/(2\ell)$, the number on the axis of the last panel.

# %% tags=["hide-input"]
ledger.check(
    "thesis:fig-39",
    "On five functions no move has a lower non-negative model, and no step exceeds descent's",
    measured=torch.stack([toy_numbers[:, 2], 1 - toy_numbers[:, 0]]),
    criterion=inequality("least M on a fine grid of moves − M at the step; 1 − η/η_max"),
    control=control("least value of gradient descent's model", toy_numbers[:, 3]),
    expected="reproduced",
    claim="experiment",
)

# %% [markdown]
# ## What the step knows
#
# Take reciprocals in {eq}`eq-gauss-newton-steps-ngn`:
#
# $$\frac1\eta=\frac1{\eta_{\max}}+\frac{\lVert\nabla\ell\rVert^2}{2\,\ell}.$$ (eq-gauss-newton-steps-reciprocal)
#
# The second term is a *curvature estimate*. Call $\ell$ *$L$-smooth* if its gradient is $L$-Lipschitz ({prf:ref}`thesis-def-a-3-1`). Then
# with $\ell^\star=\inf\ell$, $\lVert\nabla\ell\rVert^2\le2L(\ell-\ell^\star)$, shown in {chapter}`Polyak steps <adaptivity/polyak_steps>`; as
# $\ell^\star\ge0$, the estimate lies between $0$ and $L$. So
#
# $$\eta\in\Bigl[\frac1{L+1/\eta_{\max}},\ \eta_{\max}\Bigr].$$ (eq-gauss-newton-steps-range)
#
# The lower end uses that the loss is not negative. The step is never above $\eta_{\max}$, and where the loss is sharply curved it may
# shrink to its lower end, for a large $\eta_{\max}$ just below $1/L$, a safe step, although the method does not know $L$.
#
# - **It underestimates.** For $\ell=\frac\lambda2\theta^2+c$ the estimate is
#   $\lambda\cdot\frac{\lambda\theta^2}{\lambda\theta^2+2c}\le\lambda$, with equality only for $c=0$. A constant makes the curvature
#   look smaller than it is, and the more so the closer $\theta$ is to the minimum.
# - **Its two limits.** For $\eta_{\max}\to0$ it is gradient descent with the step $\eta_{\max}$. For
#   $\eta_{\max}\to\infty$ it is $2\ell/\lVert\nabla\ell\rVert^2$: Polyak's step with $0$ in the place of $\ell^\star$, twice as long.
# - **In between.** With $q=2\ell/\lVert\nabla\ell\rVert^2$ the step is $\eta_{\max}q/(\eta_{\max}+q)$, a smooth
#   minimum: it lies between half of $\min\{\eta_{\max},q\}$ and the whole of it. This minimum is the stochastic Polyak step of the chapter before, with the cap $\eta_{\max}$, the divisor $\frac12$ and zero in the place of the minimum.
#
# :::{dropdown} Proofs
# *Range.* Put $0\le\lVert\nabla\ell\rVert^2/2\ell\le L$ into {eq}`eq-gauss-newton-steps-reciprocal`. *Estimate.*
# $\lVert\nabla\ell\rVert^2=\lambda^2\theta^2$ and $2\ell=\lambda\theta^2+2c$. *Limits and the smooth minimum.* From
# $\frac1\eta=\frac1{\eta_{\max}}+\frac1q$: $1-\eta/q=\frac{q/\eta_{\max}}{1+q/\eta_{\max}}\le q/\eta_{\max}$, and
# the same with the two exchanged; and
# $\max\{\frac1{\eta_{\max}},\frac1q\}\le\frac1\eta\le2\max\{\frac1{\eta_{\max}},\frac1q\}$. $\square$
# :::

# %%
# twenty quadratics in five dimensions, L = 1, with minima of different heights; used again for the theorems below
n, d = 20, 5
source = run.generator("quadratics")
turns = torch.linalg.qr(torch.randn(n, d, d, generator=source, **like)).Q
curvatures = 0.1 + 0.9 * torch.rand(n, d, generator=source, **like)
curvatures[:, 0] = 1.0  # so that L = 1
H = turns @ torch.diag_embed(curvatures) @ turns.mT
targets = torch.randn(n, d, generator=source, **like)
floors = 0.6 * torch.rand(n, generator=source, **like)
L = 1.0


def losses(theta, rows=slice(None)):  # l_i and its gradient; theta broadcasts against (rows, d)
    away = theta - targets[rows]
    gradient = (H[rows] @ away[..., None]).squeeze(-1)
    return (away * gradient).sum(-1) / 2 + floors[rows], gradient


# %%
distances = torch.logspace(-3, 1, run.pick(smoke=40, book=400, paper=400), **like)
directions = torch.randn(len(distances), n, d, generator=source, **like)
near = targets + distances[:, None, None] * directions / directions.norm(dim=-1, keepdim=True)
value, slope = losses(near)  # (points, n): every sample at points around its own minimizer
squared = slope.square().sum(-1)
etas_max = torch.tensor([0.01, 0.1, 0.5, 1.0, 3.0, 10.0, 30.0, 100.0, 1000.0], **like)[:, None, None]
eta = ngn_step_size(value, squared, etas_max)


def range_slack(step, cap, L):  # distances to both ends, in units of the cap; the smaller for each cap
    return torch.minimum((step - 1 / (L + 1 / cap)) / cap, 1 - step / cap).amin((-2, -1))


quotient = 2 * value / squared

# %% tags=["hide-input"]
ledger.check(
    "thesis:eq-116",
    "For smooth non-negative losses the step lies between 1/(L + 1/η_max) and η_max",
    measured=range_slack(eta, etas_max, L),
    criterion=inequality("distance of η/η_max from both ends of its range"),
    control=control(
        "losses lowered below zero",
        range_slack(1 / (1 / etas_max + squared / (2 * (value - floors - 1))), etas_max, L),
    ),
    expected="holds",
)


# %%
def estimate(curvature, error, c, factor=2.0):
    return curvature * curvature * error**2 / (curvature * error**2 + factor * c)


lam, err, cs = (10 ** (2 * torch.rand(many, generator=source, **like) - 1) for _ in range(3))
slopes_1d = torch.func.vmap(torch.func.grad(lambda e, a, c: a * e**2 / 2 + c))(err, lam, cs)
measured_estimate = slopes_1d**2 / (2 * (lam * err**2 / 2 + cs))
large, small = (
    quotient * 10.0 ** torch.tensor([3.0, 6.0])[:, None, None],
    quotient * 10.0 ** torch.tensor([-3.0, -6.0])[:, None, None],
)


def to_polyak(quotient):
    return (ngn_step_size(value, squared, large) / quotient - 1).abs() * large / quotient


def to_descent(quotient):
    return (ngn_step_size(value, squared, small) / small - 1).abs() * quotient / small


def distance_to_ends(step, polyak):
    smaller = torch.minimum(etas_max, polyak)
    return (torch.minimum(smaller - step, step - smaller / 2) / smaller).amin((-2, -1))


# %% tags=["hide-input"]
ledger.check(
    "thesis:claim-curvature-estimator",
    "For λθ²/2 + c the ratio ‖∇ℓ‖²/2ℓ is λ · λθ²/(λθ² + 2c), at most λ",
    measured=measured_estimate / estimate(lam, err, cs) - 1,
    criterion=identity("(‖∇ℓ‖²/2ℓ)/(λ · λθ²/(λθ² + 2c)) − 1"),
    control=control("c in the place of 2c", measured_estimate / estimate(lam, err, cs, 1.0) - 1),
    expected="holds",
)
ledger.check(
    "thesis:claim-ngn-limits",
    "η is q = 2ℓ/‖∇ℓ‖² up to q/η_max for large, and η_max up to η_max/q for small η_max",
    measured=torch.stack([to_polyak(quotient), to_descent(quotient)]),
    criterion=at_most("|η/q − 1| · η_max/q; |η/η_max − 1| · q/η_max", 1.0),
    control=control("Polyak's step without the factor 2", to_polyak(quotient / 2)),
    expected="holds",
)
ledger.check(
    "thesis:beyond-ngn-between-polyak",
    "NGN takes between half of and the whole capped Polyak step with c = 1/2",
    measured=distance_to_ends(eta, quotient),
    criterion=inequality("distance of η/min{η_max, q} from 1/2 and from 1"),
    control=control("the capped Polyak step with c = 1", distance_to_ends(eta, quotient / 2)[4:8]),
    expected="holds",
)

# %% [markdown]
# ## No step is too large, until you add a constant
#
# :::{admonition} Predict first
# :class: tip
# Minimize $\frac12\theta^2$ with $\eta_{\max}=1000$. Gradient descent multiplies $\theta$ by $-999$. By what does
# NGN multiply it?
# :::
#
# :::{dropdown} Answer
# The estimate $\lVert\nabla\ell\rVert^2/2\ell$ is exactly $1$ here, so $1/\eta=1/1000+1$, and $\theta$ is multiplied by
# $1-\eta=1/1001$. For $\frac12\theta^2$ an NGN step is a backward Euler step (the slope is taken at the end of the step) for the gradient flow
# $\dot\theta=-\theta$, which is stable for every step size.
# :::
#
# With a constant, or a second curvature, the estimate varies from step to step. Take a quadratic with
# curvatures $\lambda_1,\dots,\lambda_d>0$ plus a constant. Measure the *energy* of each direction,
# $e_i=\frac12\lambda_i[\theta]_i^2$, and count the constant as one more direction: energy $e_0=c$, curvature $\lambda_0=0$.
# Then $\ell=\sum_ie_i$, and
#
# $$
# \begin{aligned}
# \frac{\lVert\nabla\ell\rVert^2}{2\ell}&=\frac{\sum_i\lambda_ie_i}{\sum_ie_i},\\
# e_i&\leftarrow(1-\eta\lambda_i)^2\,e_i .
# \end{aligned}
# $$ (eq-gauss-newton-steps-energies)
#
# The curvature estimate is a mean of the curvatures, weighted by energy. A constant is a direction that holds energy
# and never moves. So "one curvature and a constant" and "two curvatures" are the same problem, with the same answer.
#
# :::{prf:theorem} Where a large step settles
# :label: thesis-beyond-ngn-limiting-step
# Let two energies $e_L,e_\mu>0$ with curvatures $L>\mu\ge0$ follow {eq}`eq-gauss-newton-steps-energies`, all others
# zero, and put $s=\eta_{\max}(L-\mu)$. The ratio $z=e_L/e_\mu$ obeys
#
# $$z\leftarrow z\Bigl(\frac{s-1-z}{1+(s+1)z}\Bigr)^2 .$$ (eq-gauss-newton-steps-map)
#
# 1. If $s\le2$, then $z\to0$ and $\eta\to1/(\mu+1/\eta_{\max})$.
# 2. If $s>2$, the only positive fixed point is $z^\star=\dfrac{s-2}{s+2}$. There $\eta=\dfrac{2}{L+\mu}$. It attracts for every
#    $s>2$: a small distance from it is multiplied by $8/s^2-1$ a step. No other cycle (values that repeat after some steps) attracts its neighbours.
# :::
#
# *Why one should expect it.* The steep energy grows under a step that is too long, and its growth raises the estimate, which shortens the
# step. The feedback comes to rest when both energies shrink equally fast, $(1-\eta L)^2=(1-\eta\mu)^2$, and that says $\eta=2/(L+\mu)$.
#
# *The key step.* Write the estimate as $\mu+(L-\mu)\frac{z}{1+z}$; the quotient of the two factors $1-\eta L$ and
# $1-\eta\mu$ then depends on $s$ alone.
#
# :::{dropdown} Proof
# 1. *The map.* $1/\eta=1/\eta_{\max}+\mu+(L-\mu)\frac z{1+z}$. Hence
#
#    $$
#    \begin{aligned}
#    \frac{1-\eta L}{1-\eta\mu}&=\frac{1/\eta-L}{1/\eta-\mu}\\
#    &=\frac{1/s-1/(1+z)}{1/s+z/(1+z)}\\
#    &=\frac{1+z-s}{1+(s+1)z} .
#    \end{aligned}
#    $$
#
#    Square it.
# 2. *Small steps.* Let $m(z)=\frac{s-1-z}{1+(s+1)z}$. $m<1$ if and only if $s-2<(s+2)z$, and $m>-1$ always. If $s\le2$, then $z$ decreases; its
#    limit is a fixed point, hence $0$.
# 3. *The fixed point.* For $s>2$, $m^2=1$ only at $z^\star$. There $\frac z{1+z}=\frac12-\frac1s$, so
#    $1/\eta=\frac1{\eta_{\max}}+\mu+\frac{L-\mu}2-\frac1{\eta_{\max}}=\frac{L+\mu}2$.
# 4. *Attraction.* $m'(z)=-\frac{s^2}{(1+(s+1)z)^2}$. At $z^\star$ the denominator is $\bigl(\frac{s^2}{s+2}\bigr)^2$, so $m'=-\frac{(s+2)^2}{s^2}$
#    and the derivative of the map is $1+2z^\star m'=1-\frac{2(s^2-4)}{s^2}=\frac8{s^2}-1$, between $-1$ and $1$.
# 5. *Nothing else attracts.* The argument counts: every attracting cycle of a rational map needs a critical point (a zero of the derivative) of its own, and all critical points are taken. With $z=x^2$ and a sign, the map is the rational function $F(x)=-x\frac{s-1-x^2}{1+(s+1)x^2}$ of
#    degree three, with four critical points: two real and two imaginary, the roots of $(s+1)w^2+(s^2+2)w-(s-1)=0$ in $w=x^2$. By a theorem of Fatou
#    {cite}`milnor2006dynamics` the orbit of at least one critical point tends to each attracting or parabolic cycle. (The *multiplier* of a cycle is the derivative of one whole round at any of its points; a cycle is *parabolic* if this is a root of unity.)
#    $F(\pm i)=\pm i$ with $F'(\pm i)=-1$, so $i$ and $-i$ are parabolic and each needs a critical point. The orbits of the two real critical points stay real and cannot tend to $\pm i$, so $\pm i$ use up the two imaginary ones.
#    The cycle $\pm\sqrt{z^\star}$ needs one of the two real ones, and as $F$ is odd the other tends to it as well. No critical point is left for another cycle. $\square$
# :::
#
# The theorem can be read in two ways. With one curvature $L$ and a constant, $\mu=0$ and $z=(\mathcal L-\mathcal L^\star)/c$:
#
# :::{prf:corollary} The price of a constant
# :label: thesis-beyond-ngn-two-cycle
# For $\ell=\frac\lambda2\theta^2+c$ with $c>0$ put $\rho=\eta_{\max}\lambda$. If $\rho\le2$, NGN converges to the minimum. If $\rho>2$, there is a *two-cycle* that attracts
# every start near enough to it, a jump from $\theta$ to $-\theta$ and back, with the step $2/\lambda$ and the gap
#
# $$\ell-\ell^\star=c\,\frac{\rho-2}{\rho+2}.$$ (eq-gauss-newton-steps-gap)
# :::
#
# However large the step, the gap on the two-cycle stays below $c$. The other reading has two curvatures and no constant:
#
# :::{prf:corollary} The best fixed step, found
# :label: thesis-beyond-ngn-best-fixed-step
# For a quadratic with extreme curvatures $L>\mu>0$ and minimum zero, let $s=\eta_{\max}(L-\mu)>2$. All the energy in the two
# extreme directions, in the ratio $z^\star$, is a regime that attracts. In it the step is $2/(L+\mu)$, and every step multiplies
# the loss by $\bigl(\frac{L-\mu}{L+\mu}\bigr)^2$.
# :::
#
# That is the step which a textbook chooses when it knows $L$ and $\mu$ {cite}`nesterov2018lectures`: no fixed step of gradient descent has a
# better worst case. NGN knows neither. Energies with curvatures in between shrink faster there and are soon gone, since
# $|1-\frac{2\lambda_i}{L+\mu}|<\frac{L-\mu}{L+\mu}$. We have checked that the starts we tried end there; we have not proved it for almost every start.
#
# The checks run the library's NGN in three dimensions, so that a middle curvature takes part and has to vanish. For the first corollary the control is the height at which the step would be
# $1/\lambda$; for the second it is the step $2/L$.

# %%
spectrum = torch.tensor([1.0, 0.4, 0.1], **like)  # L, a middle curvature, mu
ratios = torch.tensor([2.2, 2.5, 4.0, 6.0, 10.0], **like)[:, None, None]  # eta_max times (L - mu)
few_starts = run.pick(smoke=5, book=40, paper=40)
starts = torch.randn(len(ratios), few_starts, 3, generator=run.generator("energies"), **like)


# %%
def plain(curvatures, c):  # quadratic plus constant: loss and gradient
    def oracle(theta, k):
        return (curvatures * theta**2).sum(-1) / 2 + c, curvatures * theta

    return oracle


def settle(curvatures, c, cap, begin, steps):
    rule = rules.NGN(cap)
    path = ensembles.iterate(
        rule, plain(curvatures, c), begin, steps, record=[steps], watch=lambda state: state.step_size
    )
    return path.last, path.watched[-1]


def predicted_gap(rho, c):  # the first corollary
    return c * (rho - 2) / (rho + 2)


settled, step_c = settle(spectrum, 0.5, ratios, starts, 2000)
gaps = (spectrum * settled**2).sum(-1) / 2
heights = predicted_gap(ratios, 0.5)
at_one = 0.5 * (ratios - 1) / (ratios + 1)
amplified = (1 / (1 - (8 / ratios**2 - 1).abs())).max().item()
L_, mu_ = spectrum[0], spectrum[-1]
final, step_two = settle(spectrum, 0.0, ratios / (L_ - mu_), starts, 1000)
rate = ((L_ - mu_) / (L_ + mu_)) ** 2
before, _ = settle(spectrum, 0.0, ratios / (L_ - mu_), starts, 999)
shrink = (spectrum * final**2).sum(-1) / (spectrum * before**2).sum(-1)

# %% tags=["hide-input"]
ledger.check(
    "thesis:beyond-ngn-two-cycle",
    "With a constant c a large step ends at the gap c(ρ − 2)/(ρ + 2), with the step 2/L",
    measured=torch.stack([gaps / heights[..., 0] - 1, step_c * spectrum[0] / 2 - 1]),
    criterion=identity("gap/(c(ρ − 2)/(ρ + 2)) − 1; η L/2 − 1", condition=amplified, size=10.0),
    control=control("the height at which the step is 1/L", gaps / at_one[..., 0] - 1),
    expected="holds",
    show="card",
)
ledger.check(
    "thesis:beyond-ngn-best-fixed-step",
    "With minimum zero a large step settles at 2/(L + μ), the best fixed one",
    measured=torch.stack([step_two * (L_ + mu_) / 2 - 1, shrink / rate - 1]),
    criterion=identity(
        "η(L + μ)/2 − 1; ℓ(θ_{k+1})/ℓ(θ_k) · ((L + μ)/(L − μ))² − 1", condition=amplified, size=10.0
    ),
    control=control("2/L in the place of 2/(L + μ)", step_two * L_ / 2 - 1),
    expected="holds",
    show="card",
)


# %%
def log_odds_step(log_z, s):  # one step of NGN in ln z; curvatures 1 and 0, constant 1, η_max = s
    theta = (2 * log_z.exp()).sqrt()
    theta = theta - ngn_step_size(theta**2 / 2 + 1, theta**2, s) * theta
    return (theta**2 / 2).log()


s_values = torch.tensor([2.01, 2.2, 8**0.5, 4.0, 10.0, 100.0, 300.0], **like)
z_star = (s_values - 2) / (s_values + 2)
multipliers = torch.func.vmap(torch.func.grad(log_odds_step))(z_star.log(), s_values)
wide = torch.tensor([2.2, 2.5, 8**0.5, 4.0, 6.0, 10.0], **like)[:, None]


def far_and_near(c, height=(wide - 2) / (wide + 2)):  # from distances between 1e-4 and 1e4
    begin = torch.logspace(-4, 4, few_starts, **like)[None, :, None].expand(6, few_starts, 1)
    end, _ = settle(torch.ones(1, **like), c, wide[..., None], begin, 2000)
    return (end[..., 0] ** 2 / 2) / height - 1


rule = rules.NGN(ratios, lower_bound=0.5)
repaired = ensembles.iterate(rule, plain(spectrum, 0.5), starts, 1000, record=[1000]).last

# %% tags=["hide-input"]
ledger.check(
    "thesis:beyond-ngn-limiting-step",
    "Near the fixed point a step multiplies the distance by 8/s² − 1, for every s > 2",
    measured=multipliers - (8 / s_values**2 - 1),
    criterion=identity("derivative of one NGN step in ln z, minus (8/s² − 1)", condition=300.0),
    control=control("4/s² − 1", multipliers - (4 / s_values**2 - 1)),
    expected="holds",
)
ledger.check(
    "thesis:beyond-ngn-every-start",
    "From starts eight decades apart NGN reaches the same two-cycle",
    measured=far_and_near(1.0),
    criterion=identity("gap/(c(ρ − 2)/(ρ + 2)) − 1", condition=amplified, size=10.0),
    control=control("a height of c, which the cycle never reaches", far_and_near(1.0, height=1.0)),
    expected="holds",
)
ledger.check(
    "thesis:beyond-ngn-lower-bound",
    "Taking a known minimum off the loss (lower_bound) removes the two-cycle",
    measured=(spectrum * repaired**2).sum(-1) / 2,
    criterion=at_most("ℒ(θ_K) − ℒ⋆", 1e-12),
    control=control("the same runs without lower_bound", gaps),
    expected="holds",
)

# %% [markdown]
# The rate $8/s^2-1$ explains two things. At $s=2\sqrt2$ it vanishes, and the cycle is reached almost at once. For large $s$
# the map {eq}`eq-gauss-newton-steps-map` is nearly $z\leftarrow1/z$: the ratio swings between a value and its reciprocal, the gap between
# $cz$ and $c/z$. It takes about $s^2/8$ steps until the distance from rest has fallen by a factor $e$, so that a run with $s=100$ only seems to oscillate for ever.
# If the minimum is known, `NGN(..., lower_bound=c)` subtracts it from the loss, and then no step is too large.
#
# ### The source's picture: two curvatures, six decades
#
# The source runs deterministic NGN and gradient descent on such a quadratic, whose curvatures it does not print (we take 1 and 0.1), with growing hyper-parameter; gradient descent diverges above
# $2/L$, NGN never does. Its text says that the effective step converges to $2/L$. That is the case of a positive minimum, $\mu=0$ above; with
# minimum zero it is $2/(L+\mu)$, which comes to the same if $\mu$ is much smaller than $L$.

# %%
pair = torch.tensor([1.0, 0.1], **like)
hyper = torch.logspace(-2, 4, 61, **like)[:, None]
two = torch.tensor([1.0, 1.0], **like).expand(61, 2)
steps = 500


def along(rule, c):
    return ensembles.iterate(
        rule, plain(pair, c), two, steps, record=range(steps + 1), watch=lambda state: state.step_size
    )


zero_run = along(rules.NGN(hyper), 0.0)
plus_run = along(rules.NGN(hyper), 0.05)
gd_run = ensembles.iterate(GradientDescent(hyper), plain(pair, 0.0), two, steps, record=[steps])


def height_of(theta):
    return (pair * theta**2).sum(-1) / 2


start_height = height_of(two[0])
zero_gap, plus_gap = height_of(zero_run.values[-1]), height_of(plus_run.values[-1])
gd_gap = height_of(gd_run.last.clamp(max=1e200))

# %% tags=["hide-input"] mystnb={"figure": {"caption": "**Over six decades of $\\eta_{\\max}$ NGN never diverges.** Two curvatures, 1 and 0.1. Top: gap after 500 steps; with minimum zero it is negligible for every large step, with a constant it stops at the predicted height (thin line), except far to the right, where 500 steps are too few to come to rest. What breaks it: gradient descent with the same number (dashed) diverges above $2/L$. Bottom: mean step over the last 100 steps and the two predictions.", "name": "fig-gauss-newton-steps-decades"}, "image": {"alt": "Top: on double logarithmic axes, one curve falls below the picture, one levels off on a thin line, and a dashed curve shoots up at 2. Bottom: two curves rise and level off, one at 1.82, one at 2, and rise again at the right end."}}
fig, (top, bottom) = figures.subplots(2, 1, size=(6.2, 6.0))
x = hyper[:, 0]
plotted = {
    "gap_minimum_zero": top.loglog(x, zero_gap.clamp(min=1e-16), label="NGN, minimum 0")[0],
    "gap_minimum_positive": top.loglog(x, plus_gap.clamp(min=1e-16), label="NGN, minimum 0.05")[0],
}
top.loglog(x[x > 2], predicted_gap(x[x > 2], 0.05), color=COLORS["grey"], lw=1, marker="", zorder=0)
plotted["gradient_descent"] = figures.line_control(
    top, x[gd_gap < 1e4], gd_gap[gd_gap < 1e4].clamp(min=1e-16), label="gradient descent"
)
top.set(ylim=(1e-16, 1e3), xlabel="$\\eta_{\\max}$", ylabel="gap after 500 steps")
top.legend(fontsize=8.5, loc="lower right")
for path, limit, name in ((zero_run, 2 / 1.1, "minimum 0"), (plus_run, 2.0, "minimum 0.05")):
    (line,) = bottom.semilogx(x, path.watched[-100:].mean(0), label=f"NGN, {name}")
    plotted["step_minimum_zero" if path is zero_run else "step_minimum_positive"] = line
    bottom.axhline(limit, color=COLORS["grey"], lw=1, marker="", zorder=0)
bottom.annotate("$2/L$", (0.012, 2.03), color=COLORS["dark grey"], fontsize=9)
bottom.annotate("$2/(L+\\mu)$", (0.012, 1.63), color=COLORS["dark grey"], fontsize=9)
bottom.set(xlabel="$\\eta_{\\max}$", ylabel="mean step at the end", ylim=(0, 3.5))
bottom.legend(fontsize=8.5, loc="lower right")
plt.show()

# %%
row = int(torch.nonzero(x > 2.5)[0])
flat = torch.tensor([1.0, 0.01], **like)  # curvatures L and μ = L/100
_, flat_step = settle(flat, 0.0, torch.tensor([[4.0]], **like), two[:1], steps)

# %% tags=["hide-input"]
figures.numbers(
    run,
    "fig-gauss-newton-steps-decades",
    figures.columns("eta_max", plotted),
    rtol=1e-3,
    noise=1e-9,
)
ledger.check(
    "thesis:fig-37",
    "Two curvatures, minimum zero: NGN ends below its start for every η_max, descent diverges",
    measured=zero_gap / start_height,
    criterion=at_most("ℒ(θ_500)/ℒ(θ_0), η_max from 0.01 to 10⁴", 1.0),
    control=control("gradient descent with the same step, above 2/L", (gd_gap / start_height)[x > 2.01]),
    expected="reproduced",
    claim="experiment",
)
figures.comparison(
    [
        (
            "largest gap of NGN at the end over its start",
            "below 1",
            zero_gap.max() / start_height,
            bool(zero_gap.max() < start_height),
        ),
        (
            "settled step in units of 2/L, positive minimum",
            "1",
            plus_run.watched[-1, row] / 2,
            bool(abs(plus_run.watched[-1, row] / 2 - 1) < 0.01),
        ),
        (
            "settled step in units of 2/L, minimum zero, μ = L/100",
            "1",
            flat_step[0] / 2,
            bool(abs(flat_step[0] / 2 - 1) < 0.01),
        ),
    ],
    criterion="NGN stays below its start; steps within 1 %",
    run=run,
    name="quadratic",
    noise=1e-9,
)

# %% [markdown]
# ## What is proved, for every step
#
# In training each step sees one sample or batch, and the step size then depends on the sample. This makes every proof here difficult: step and gradient
# are correlated, so one cannot simply average over the sample. The proofs start with two facts about a single step.
#
# From {eq}`eq-gauss-newton-steps-reciprocal`, multiplied by $2\ell\eta_k$,
#
# $$\eta_k\lVert\nabla\ell\rVert^2=2\,\frac{\eta_{\max}-\eta_k}{\eta_{\max}}\,\ell .$$ (eq-gauss-newton-steps-identity)
#
# So the squared length of a step is known from the loss, without smoothness. With smoothness there is a second bound, $\lVert\nabla\ell\rVert^2\le2L(\ell-\ell^\star)$. The proof for convex losses adds
# the two with weights whose sum is one and for which the part with $\ell^\star$ can be dropped for small steps. Write $\rho=\eta_{\max}L$.
#
# :::{prf:lemma} The key inequality
# :label: thesis-lemma-d-2-3
# Let $\ell\ge0$ be $L$-smooth with infimum $\ell^\star$, and $\delta_+=\max\bigl\{0,\frac{2\rho-1}{2\rho+1}\bigr\}$. An NGN step with $\eta_{\max}>0$ satisfies
#
# $$
# \begin{aligned}
# \eta_k^2\lVert\nabla\ell\rVert^2\le{}&\frac{4\rho}{1+2\rho}\,\eta_k\,(\ell-\ell^\star)\\
# &+\frac{2\eta_{\max}\rho}{1+\rho}\,\delta_+\,\ell^\star .
# \end{aligned}
# $$
# :::
#
# Convexity is not used. The last term is the price of a positive minimum. It is absent for $\eta_{\max}\le1/(2L)$, and the two-cycle of the last section shows that it cannot be absent for all steps.
# Step 3 of the proof gives $\frac{\eta_{\max}}2\delta_+\ell^\star$ in its place, up to four times less. The check uses this smaller term. On a parabola with a constant the inequality then leaves almost no room: at $\rho=\frac12$ for the first
# term, and for large $\rho$ for the second.
#
# :::{dropdown} Proof, and why these weights
# 1. Let $\delta\le1$. Add $(1-\delta)$ times $\eta_k^2\lVert\nabla\ell\rVert^2\le2L\eta_k^2(\ell-\ell^\star)$ and $\delta$ times the identity {eq}`eq-gauss-newton-steps-identity`, multiplied by $\eta_k$. With
#    $t=\eta_k/\eta_{\max}$ and $A=\delta(1-t)+(1-\delta)\rho t$,
#
#    $$
#    \begin{aligned}
#    \eta_k^2\lVert\nabla\ell\rVert^2\le{}&2\eta_kA\,(\ell-\ell^\star)\\
#    &+2\eta_k\delta(1-t)\,\ell^\star .
#    \end{aligned}
#    $$
#
# 2. Choose $\delta=\frac{2\rho-1}{2\rho+1}$. Then $A=\frac{2\rho-1}{2\rho+1}+\frac t{2\rho+1}\le\frac{2\rho}{2\rho+1}$, since $t\le1$.
# 3. If $\rho\le\frac12$, then $\delta\le0$ and the last term of step 1 is at most $0$. Otherwise $\eta_k\le\eta_{\max}$ and
#    $1-t\le\frac\rho{1+\rho}$ by the range {eq}`eq-gauss-newton-steps-range`. Or, better, $\eta_k(1-t)=\eta_{\max}t(1-t)\le\frac{\eta_{\max}}4$.
# 4. *Why this $\delta$* (Remark D.2.1 of the source). We want $A\le a$ for all $t\in[\frac1{1+\rho},1]$ with some $a<1$; at $t=1$ this says
#    $\delta\ge1-a/\rho$. A smaller $a$ helps the first term, but $a=\frac\rho{1+\rho}$, the smallest possible because $A$ has this value at $t=\frac1{1+\rho}$ for every $\delta$, forces $\delta>0$, an error even for tiny
#    steps. With $a=\frac{2\rho}{1+2\rho}$ the smallest admissible $\delta$ is the one of step 2, negative for $\rho<\frac12$. $\square$
# :::

# %%
rho = etas_max[:, 0, 0] * L


# L = 1; right minus left side, over eta_max
def key_slack(value, squared, floor, cap, first=1.0, second=1.0):
    step, ratio = ngn_step_size(value, squared, cap), cap * L
    right = first * 4 * ratio / (1 + 2 * ratio) * step * (value - floor)
    price = cap / 2 * ((2 * ratio - 1) / (2 * ratio + 1)).clamp(min=0)
    return ((right + second * price * floor - step**2 * squared) / cap).amin((-2, -1))


climbs = torch.logspace(-4, 1, 301, **like)[:, None]  # of a parabola with L = 1 above its minimum


# %%
def first_needed(first=1.0):  # at eta_max = 1/(2L), on a constant of 10^4
    return key_slack(1e4 + climbs, 2 * climbs, 1e4, etas_max[1:2] * 5, first)


def second_needed(second=1.0):  # for large eta_max, on a constant of 1
    return key_slack(1 + climbs, 2 * climbs, 1.0, etas_max[5:], 1.0, second)


def identity_error(step, cap, factor=2.0):
    return (step * squared - factor * (cap - step) / cap * value) / (2 * value)


decreasing = 100 / (torch.arange(len(near), **like)[:, None] + 1).sqrt()  # eta_max of step k at point k
eta_k = ngn_step_size(value, squared, decreasing)
later = 100 / (torch.arange(len(near), **like)[:, None] + 2).sqrt()
steepest = ngn_step_size(climbs, 2 * climbs, etas_max)  # a parabola with minimum zero has the shortest step
# %% tags=["hide-input"]
ledger.check(
    "thesis:lemma-d.2.1",
    "Sample by sample the step lies between 1/(L + 1/η_max) and η_max, L the largest L_i",
    measured=torch.cat([range_slack(eta, etas_max, L), range_slack(steepest, etas_max, L)]),
    criterion=inequality("distance of η_k/η_max from both ends of its range"),
    control=control(
        "the smoothness of the mean loss in the place of the largest; L one per cent smaller, parabola",
        torch.cat(
            [
                range_slack(eta, etas_max, torch.linalg.eigvalsh(H.mean(0))[-1])[2:],
                range_slack(steepest, etas_max, 0.99 * L),
            ]
        ),
    ),
    expected="holds",
)
ledger.check(
    "thesis:lemma-d.2.2",
    "η_k‖∇ℓ‖² = 2ℓ(η_max − η_k)/η_max",
    measured=identity_error(eta, etas_max),
    criterion=identity("(η_k‖∇ℓ‖² − 2ℓ(η_max − η_k)/η_max)/2ℓ"),
    control=control("without the factor 2", identity_error(eta, etas_max, factor=1.0)[2:, distances > 0.1]),
    expected="holds",
)
ledger.check(
    "thesis:lemma-d.2.3",
    "The key inequality holds with the smaller last term, also where it is nearly attained",
    measured=torch.cat([key_slack(value, squared, floors, etas_max), first_needed(), second_needed()]),
    criterion=inequality("right minus left side, over η_max", size=100.0),
    control=control(
        "first term two per cent, last term a tenth smaller, where they are needed",
        torch.cat([first_needed(0.98), second_needed(0.9)]),
    ),
    expected="holds",
)

# %%
t = torch.linspace(0, 1, 201, **like)[:, None] * (rho / (1 + rho)) + 1 / (1 + rho)


def largest_weight(delta):
    return (delta * (1 - t) + (1 - delta) * rho * t).amax(0)


chosen, allowed = (2 * rho - 1) / (2 * rho + 1), 2 * rho / (1 + 2 * rho)

# %% tags=["hide-input"]
ledger.check(
    "thesis:remark-d.2.1",
    "With δ = (2ρ − 1)/(2ρ + 1) the largest A over all steps is 2ρ/(1 + 2ρ), no less",
    measured=largest_weight(chosen) - allowed,
    criterion=identity("max A − 2ρ/(1 + 2ρ)"),
    control=control("δ smaller by 0.001", largest_weight(chosen - 1e-3) - allowed),
    expected="holds",
)

# %% [markdown]
# Now the theorem. How much the samples disagree is measured by two numbers, with $\theta^\star$ a minimizer of $\mathcal L$ and $\ell_i^\star=\inf\ell_i$.
#
# :::{prf:definition} Two prices
# :label: thesis-def-ngn-constants
# $\Delta_{\mathrm{int}}=\mathbb E[\ell_i(\theta^\star)-\ell_i^\star]$, the price of not interpolating, and
# $\Delta_{\mathrm{pos}}=\mathbb E[\ell_i^\star]$, the price of positive minima.
# :::
#
# A model that fits every sample has neither. Noisy regression with square loss has the first only.
#
# :::{prf:theorem} Convex losses: every step converges to a ball
# :label: thesis-thm-4-3-1
# Let every $\ell_i\ge0$ be convex and $L_i$-smooth, $L=\max_iL_i$, let $i_k$ be drawn uniformly and independently, and let $\eta_{\max}>0$ be arbitrary. With
# $\rho=\eta_{\max}L$ and $\bar\theta_K=\frac1K\sum_{k<K}\theta_k$, NGN satisfies
#
# $$
# \begin{aligned}
# &\mathbb E[\mathcal L(\bar\theta_K)-\mathcal L(\theta^\star)]\\
# &\ \le\frac{\mathbb E\lVert\theta_0-\theta^\star\rVert^2}{\hat\eta\,K}\\
# &\quad+3\rho(1+\rho)\Delta_{\mathrm{int}}\\
# &\quad+\rho\max\{0,2\rho-1\}\Delta_{\mathrm{pos}},
# \end{aligned}
# $$ (eq-gauss-newton-steps-convex)
#
# where $\hat\eta=\dfrac{2\eta_{\max}}{(1+2\rho)^2}$, largest at $\eta_{\max}=1/(2L)$.
# :::
#
# *Why one should expect it.* Two things keep the method from the minimizer: where $\ell_i^\star>0$ the estimate is too low and the step too long, and
# samples with different minimizers pull in different directions. Without both, the theorem has no error term, for any $\eta_{\max}$. With them, for small $\eta_{\max}$ the error term is of order $\eta_{\max}$, and can be made as small as one likes.
#
# *The key step.* Split $\eta_k=\bar\eta+\varepsilon_k$ with a deterministic part $\bar\eta=\frac{\eta_{\max}}{(1+2\rho)(1+\rho)}$, which is not correlated with the
# sample, and a remainder $0\le\varepsilon_k\le\frac{3\rho}{1+2\rho}\eta_{\max}$, of second order in $\eta_{\max}$.
#
# :::{dropdown} Proof
# Write $\ell,\ell^\star$ for the sample $i_k$, $\nabla\ell$ for its gradient at $\theta_k$, $D_k=\lVert\theta_k-\theta^\star\rVert^2$,
# and for its two heights $u=\ell(\theta_k)-\ell^\star\ge0$, $v=\ell(\theta^\star)-\ell^\star\ge0$.
# 1. *Expand.* By convexity $D_{k+1}-D_k\le-2\eta_k(u-v)+\eta_k^2\lVert\nabla\ell\rVert^2$.
# 2. *Key inequality.* Bound the last term by {prf:ref}`thesis-lemma-d-2-3`; its second part is $T_2\ell^\star$ with $T_2=\frac{2\eta_{\max}\rho}{1+\rho}\delta_+$.
# 3. *Split.* Write $\eta_k=\bar\eta+\varepsilon_k$ in $-2\eta_k(u-v)$, and leave $u-v$ together only in the part with $\bar\eta$. The other terms in
#    $u$ add up to $-2\bigl(\varepsilon_k-\frac{2\rho}{1+2\rho}\eta_k\bigr)u$.
# 4. *Choice of $\bar\eta$.* The bracket in front is $\frac{\eta_k}{1+2\rho}-\bar\eta\ge0$, because $\eta_k\ge\frac{\eta_{\max}}{1+\rho}$. So these terms can be dropped.
# 5. *Size of the remainder.* $\varepsilon_k$ is at most $\eta_{\max}-\bar\eta=\frac{\rho(3+2\rho)}{(1+2\rho)(1+\rho)}\eta_{\max}$, and so at most $\frac{3\rho}{1+2\rho}\eta_{\max}$.
# 6. *One step.* With $T_0=2\bar\eta$ and $T_1=\frac{6\rho}{1+2\rho}\eta_{\max}$,
#
#    $$
#    \begin{aligned}
#    D_{k+1}-D_k\le{}&-T_0(u-v)\\
#    &+T_1v+T_2\ell^\star .
#    \end{aligned}
#    $$
#
#    The coefficients are deterministic. Given $\theta_k$ the expectations of $u-v$, $v$ and $\ell^\star$ are $\mathcal L(\theta_k)-\mathcal L(\theta^\star)$, $\Delta_{\mathrm{int}}$ and $\Delta_{\mathrm{pos}}$.
# 7. *Sum.* Take expectations, sum over $k<K$, drop $D_K\ge0$, divide by $T_0K$, and use Jensen's inequality:
#
#    $$
#    \begin{aligned}
#    &\mathbb E[\mathcal L(\bar\theta_K)-\mathcal L(\theta^\star)]\\
#    &\ \le\frac{\mathbb E D_0}{T_0K}+\frac{T_1}{T_0}\Delta_{\mathrm{int}}+\frac{T_2}{T_0}\Delta_{\mathrm{pos}}.
#    \end{aligned}
#    $$
#
# 8. *Simplify.* $T_1/T_0=3\rho(1+\rho)$, $T_2/T_0=\rho\max\{0,2\rho-1\}$, and $T_0\ge\hat\eta$ since $1+\rho\le1+2\rho$. $\square$
#
# Step 7 is slightly better than the theorem: $T_0$ in the place of $\hat\eta$, largest at $\eta_{\max}=1/(\sqrt2L)$.
# :::
#
# If $\eta_{\max}$ decreases from step to step, the ball shrinks to a point, and no constant has to be known.
#
# :::{prf:theorem} Decreasing steps
# :label: thesis-thm-d-2-1
# In addition let the largest step of step $k$ be $\eta_0/\sqrt{k+1}$ with any $\eta_0>0$, put $\rho_0=\eta_0L$, and weight the mean: $\bar\theta_K=\sum_{k<K}p_k\theta_k$
# with $p_k\propto(k+1)^{-1/2}$. Then for $K\ge2$
#
# $$
# \begin{aligned}
# \mathbb E[\mathcal L(\bar\theta_K)&-\mathcal L(\theta^\star)]\\
# &\le\frac{C_1}{\sqrt K-1}\bigl[\lVert\theta_0-\theta^\star\rVert^2\\
# &\qquad\qquad\ +C_2\,\ln(K+1)\bigr],
# \end{aligned}
# $$
#
# $$
# \begin{aligned}
# C_1&=\frac{(1+2\rho_0)(1+\rho_0)}{4\eta_0},\\
# C_2&=6\rho_0\eta_0\,\Delta_{\mathrm{int}}\\
# &\quad+2\rho_0\eta_0\max\{0,2\rho_0-1\}\,\Delta_{\mathrm{pos}} .
# \end{aligned}
# $$
# :::
#
# *The key step.* Weights $(k+1)^{-1/2}$ add up to at least $2(\sqrt K-1)$, in the denominator; the errors of the steps are of order $(k+1)^{-1}$ and add up to a multiple of the harmonic sum
# $H_K=1+\frac12+\dots+\frac1K$, in the numerator.
#
# :::{dropdown} Proof
# Write $m_k=\eta_0/\sqrt{k+1}$ for the largest step of step $k$, and $\rho_k=m_kL\le\rho_0$. The range, the identity and {prf:ref}`thesis-lemma-d-2-3` concern one step; they hold with $m_k$ in the place of
# $\eta_{\max}$. We show for every step the inequality of step 6 above, with coefficients $T_0,T_1,T_2$ that depend on $k$. Let $g=\frac{\sqrt5-1}2=0.618\dots$, the root of $g+g^2=1$.
# 1. *Large steps*, $\rho_k>g$. Take the coefficients of step 6 above. Here $1+2\rho_k\ge\sqrt5$ and $(1+\rho_k)(1+2\rho_k)\ge3.6$, so $T_1=\frac{6Lm_k^2}{1+2\rho_k}\le4Lm_k^2$ and
#    $T_2=\frac{2Lm_k^2(2\rho_k-1)}{(1+\rho_k)(1+2\rho_k)}\le\frac{2}{3.6}Lm_k^2\max\{0,2\rho_0-1\}$.
# 2. *Small steps*, $\rho_k\le g$. Use $\lVert\nabla\ell\rVert^2\le2Lu$ alone: $D_{k+1}-D_k\le-2\eta_k(1-L\eta_k)u+2\eta_kv$. The function $\eta(1-L\eta)$ is concave, so on the range
#    $[\frac{m_k}{1+\rho_k},m_k]$ it is least at an end, where it is $\frac{m_k}{(1+\rho_k)^2}$ or $m_k(1-\rho_k)$. The first is not larger, as $(1-\rho_k)(1+\rho_k)^2=1+\rho_k(1-\rho_k-\rho_k^2)\ge1$. So the inequality holds with
#    $T_0=\frac{2m_k}{(1+\rho_k)^2}$, $T_1=2m_k-T_0=\frac{2Lm_k^2(2+\rho_k)}{(1+\rho_k)^2}\le4Lm_k^2$ and $T_2=0$.
# 3. In both cases $T_0\ge\frac{2m_k}{(1+2\rho_0)(1+\rho_0)}=\frac{m_k}{2\eta_0C_1}$.
# 4. *The harmonic sum.* $H_K\le\frac32\ln(K+1)$: this is true for $K=1$, and from $K$ to $K+1$ the left side grows by $x=\frac1{K+1}\le\frac12$, the right side by
#    $\frac32\ln(1+x)\ge\frac32(x-\frac{x^2}2)\ge\frac98x$.
# 5. *Sum* over $k<K$. By steps 1, 2 and 4, with $\sum m_k^2=\eta_0^2H_K$, the errors $T_1\Delta_{\mathrm{int}}+T_2\Delta_{\mathrm{pos}}$ add up to at most $C_2\ln(K+1)$. So, with $w_k=(k+1)^{-1/2}$,
#
#    $$
#    \begin{aligned}
#    &\frac1{2C_1}\sum_kw_k\,\mathbb E[\mathcal L(\theta_k)-\mathcal L(\theta^\star)]\\
#    &\quad\le\lVert\theta_0-\theta^\star\rVert^2+C_2\ln(K+1).
#    \end{aligned}
#    $$
#
# 6. Divide by $\frac1{2C_1}\sum_kw_k\ge(\sqrt K-1)/C_1$, and use Jensen's inequality. $\square$
#
# The source's proof takes the coefficients of step 1 for all steps and bounds $H_K$ by $\ln(K+1)$, which is smaller than $H_K$ for every $K$. The theorem is true as printed, since the coefficients leave room. ("Refereed", in the row below, means that someone else has worked through the correction.)
# :::
#
# Both theorems are checked on the twenty convex quadratics from above, $L=1$, which have different minimizers and positive minima, so that both prices count. The upper end of the
# 99.9 % interval of the error, over runs with different draws, must lie below the bound. The control is plain stochastic gradient descent with the same step $\eta_{\max}$. The
# bounds lie far above these runs, which would not notice a wrong constant. So the same checks also compare the constants of the theorems with those of their proofs, and a row further below tests
# those of the proofs, sample by sample, on examples that need them. (The factor $\max\{0,2\rho_0-1\}$ in $C_2$ is not tested closely: it is several times too large.)

# %%
seeds = run.seeds(smoke=4, book=40, paper=100)
K = run.pick(smoke=200, book=2000, paper=10_000)
longest = run.pick(smoke=400, book=10_000, paper=100_000)
draws = torch.stack(
    [torch.randint(n, (longest,), generator=run.generator("samples", seed=s)) for s in seeds], 1
)  # (steps, seeds)
best_point = torch.linalg.solve(H.sum(0), (H @ targets[..., None]).sum(0).squeeze(-1))
at_best, _ = losses(best_point)
delta_int, delta_pos = (at_best - floors).mean(), floors.mean()


def one_sample(theta, k):
    return losses(theta, draws[k])


def excess(theta):  # of the mean loss over its minimum, exactly: it is a quadratic
    away = theta - best_point
    return (away * (H.mean(0) @ away[..., None]).squeeze(-1)).sum(-1) / 2


begin = 3 * torch.ones(d, **like)
far_off = (begin - best_point).square().sum()  # ‖θ_0 − θ⋆‖²
caps = etas_max[:8]  # (caps, 1, 1)


# %%
def one_step_terms(cap):  # T_0, T_1, T_2 of step 6
    ratio = cap * L
    T0 = 2 * cap / ((1 + 2 * ratio) * (1 + ratio))
    T1 = 6 * ratio / (1 + 2 * ratio) * cap
    T2 = 2 * cap * ratio / (1 + ratio) * ((2 * ratio - 1) / (2 * ratio + 1)).clamp(min=0)
    return T0, T1, T2


def convex_terms(cap):  # what stands in front of ‖θ_0 − θ⋆‖²/K, of Δ_int and of Δ_pos
    ratio = cap * L
    first = (1 + 2 * ratio) ** 2 / (2 * cap)
    return torch.stack([first, 3 * ratio * (1 + ratio), ratio * (2 * ratio - 1).clamp(min=0)])


def convex_bound(cap, steps):
    first, second, third = convex_terms(cap)
    return first * far_off / steps + second * delta_int + third * delta_pos


def upper_end(samples, bound):  # samples (rows, seeds): upper end of the interval of the mean, over the bound
    ends = [mean_interval(row).high if row.max() < 1e100 else math.inf for row in samples]
    return torch.tensor(ends, **like) / bound


# %%
def mean_iterates(rule):  # the excess of θ̄_K for every cap and seed
    wide_start = begin.expand(len(caps), len(seeds), d)
    path = ensembles.iterate(
        Averaged(rule), one_sample, wide_start, K, record=[K], watch=lambda state: state.mean
    )
    return excess(path.watched[-1].nan_to_num(nan=torch.inf)).nan_to_num(nan=torch.inf)


ngn_excess, sgd_excess = mean_iterates(rules.NGN(caps)), mean_iterates(GradientDescent(caps))
bounds = convex_bound(caps[:, 0, 0], K)

# %%
all_caps = torch.logspace(-8, 4, 121, **like)


def over_step_7(share=1.0):  # step 7's factors over the theorem's; the third where it is not zero
    T0, T1, T2 = one_step_terms(all_caps)
    first, second, third = share * convex_terms(all_caps)
    return 1 / T0 / first, T1 / T0 / second, (T2 / T0 / third)[third > 0]


# %% tags=["hide-input"]
ledger.check(
    "thesis:thm-4.3.1",
    "From 0.01/L to 100/L the mean iterate stays below the bound, which is at least step 7's",
    measured=1 - torch.cat([upper_end(ngn_excess, bounds), *over_step_7()]),
    criterion=inequality("1 − upper end of E[ℒ(θ̄_K) − ℒ⋆]/bound; 1 − factors of step 7/the theorem's"),
    control=control(
        "stochastic gradient descent with the step η_max, above 2/L; factors one per cent smaller",
        1
        - torch.cat(
            [
                upper_end(sgd_excess, bounds)[caps[:, 0, 0] > 2.5],
                *(x.max()[None] for x in over_step_7(0.99)),
            ]
        ),
    ),
    expected="holds",
    seeds=seeds,
    show="card",
    needs="book",
)


# %%
def decreasing_constants(cap):  # C_1 and the two parts of C_2
    c1 = (1 + 2 * cap * L) * (1 + cap * L) / (4 * cap)
    return c1, 6 * L * cap**2, 2 * (2 * cap * L - 1).clamp(min=0) * L * cap**2


def decreasing_bound(cap, steps):
    c1, c_int, c_pos = decreasing_constants(cap)
    c2 = c_int * delta_int + c_pos * delta_pos
    return c1 * (far_off + c2 * math.log(steps + 1)) / (math.sqrt(steps) - 1)


first_caps = torch.tensor([0.1, 1.0, 10.0, 100.0], **like)[:, None, None]
checkpoints = run.pick(smoke=[100, 400], book=[100, 1000, 10_000], paper=[1000, 10_000, 100_000])


def slowing(make):  # η_0/√(k + 1); the excess of the weighted mean, (checkpoints, caps, seeds)
    rule = Averaged(make(lambda k: first_caps / math.sqrt(k + 1)), weight=lambda k: (k + 1) ** -0.5)
    many_starts = begin.expand(len(first_caps), len(seeds), d)
    path = ensembles.iterate(
        rule, one_sample, many_starts, longest, record=checkpoints, watch=lambda state: state.mean
    )
    return excess(path.watched.nan_to_num(nan=torch.inf)).nan_to_num(nan=torch.inf)


slow_ngn, slow_sgd = slowing(rules.NGN), slowing(GradientDescent)
slow_bounds = [decreasing_bound(first_caps[:, 0, 0], steps) for steps in checkpoints]

# %%
golden = (math.sqrt(5) - 1) / 2
counts = torch.arange(1, run.pick(smoke=10_001, book=100_001, paper=100_001), **like)  # K
start_caps = torch.tensor([1e-6, 0.1, 0.51, 1.0, 10.0, 100.0], **like)


def terms_of_size(cap):  # T_0, T_1, T_2 of steps 1 and 2
    ratio, large = cap * L, one_step_terms(cap)
    small = 2 * cap / (1 + ratio) ** 2, 2 * cap * ratio * (2 + ratio) / (1 + ratio) ** 2, 0 * cap
    return [torch.where(ratio <= golden, a, b) for a, b in zip(small, large, strict=True)]


def over_theorem(share_1=1.0, share_2=1.0):  # what the proof replaces, over what it puts in its place
    c1, c_int, c_pos = decreasing_constants(start_caps)
    weights, logs = counts[:, None] ** -0.5, (counts[:, None] + 1).log()
    T0, T1, T2 = terms_of_size(start_caps * weights)
    return (
        (start_caps * weights / (2 * start_caps * share_1 * c1) / T0).max(),  # step 3
        (2 * (counts.sqrt() - 1) / share_1 / weights.cumsum(0)[:, 0]).max(),  # step 6
        (T1.cumsum(0) / (share_2 * c_int * logs))[1:].max(),  # step 5, from K = 2 on
        (T2.cumsum(0) / (c_pos * logs))[1:, start_caps * L > 0.5].max(),
    )


def short_steps(ratios):  # step 2: η(1 − Lη) over m/(1 + ρ)², less 1, for all steps in the range; L = 1
    ratios = torch.tensor(ratios, **like)
    eta = ratios / (1 + ratios) * (1 + torch.linspace(0, 1, 201, **like)[:, None] * ratios)
    return (eta * (1 - eta) * (1 + ratios) ** 2 / ratios - 1).amin(0)


# %% tags=["hide-input"]
ledger.check(
    "thesis:thm-d.2.1",
    "With η_0/√(k+1), η_0 from 0.1/L to 100/L, the weighted mean stays below the bound",
    measured=torch.cat(
        [1 - upper_end(e, b) for e, b in zip(slow_ngn, slow_bounds, strict=True)]
        + [1 - torch.stack(over_theorem()), short_steps([0.01, 0.1, 0.3, 0.5, 0.6, golden])]
    ),
    criterion=inequality("1 − upper end of E[ℒ(θ̄_K) − ℒ⋆]/bound; 1 − sums of the proof/their bounds; step 2"),
    control=control(
        "SGD, η_0 = 100/L; C_1 a twentieth, C_2 a tenth smaller; step 2 above the golden ratio",
        torch.cat(
            [1 - upper_end(e[-1:], b[-1:]) for e, b in zip(slow_sgd, slow_bounds, strict=True)]
            + [1 - torch.stack(over_theorem(0.95, 0.9)[:3]), short_steps([0.65, 0.8])]
        ),
    ),
    expected="holds",
    seeds=seeds,
    show="card",
    needs="book",
)

# %% [markdown]
# In {numref}`fig-gauss-newton-steps-floor` the bound of the first theorem is far above the runs. Both show that NGN does not diverge at any setting.

# %% tags=["hide-input"] mystnb={"figure": {"caption": "**A floor that grows slowly with $\\eta_{\\max}$, and no divergence.** Excess of the mean iterate on twenty quadratics that disagree, mean and 95 % band over runs, against the largest step (on the left the run has not arrived yet); thin line: the bound of the convex theorem. What breaks it: stochastic gradient descent with the same number (dashed) diverges above $2/L$.", "name": "fig-gauss-newton-steps-floor"}, "image": {"alt": "On double logarithmic axes, a curve with a minimum in the middle and a slow rise to the right, a steep V-shaped line far above it, and a dashed curve that follows the first and then leaves the picture."}}
fig, ax = figures.subplots()
x = caps[:, 0, 0]
figures.band(ax, x, ngn_excess.T, label="NGN", geometric=True)
ax.loglog(x, bounds, color=COLORS["grey"], lw=1, marker="", label="bound")
tame = x < 2
figures.line_control(ax, x[tame], sgd_excess[tame].mean(1), label="SGD, diverges beyond")
ax.set(
    xlabel="$\\eta_{\\max}$, in units of $1/L$",
    ylabel="$\\mathcal{L}(\\bar\\theta_K)-\\mathcal{L}^\\star$",
    xscale="log",
    yscale="log",
    ylim=(1e-4, 1e5),
)
ax.legend()
plt.show()

# %% [markdown]
# The first term of the convex bound cannot be much smaller, because one example nearly attains it: a long slope with a rounded bottom, $\ell=S|\theta|-\frac{S^2}{2L}$ for $|\theta|\ge S/L$
# and $\frac L2\theta^2$ inside, with $S=\theta_0/(\eta_{\max}K)$, so that $K$ small steps just end in the bottom. For $\eta_{\max}$ near $1/L$ or above we know no such example. The rows below also check the
# harmonic sum of the second proof.

# %%
lengths = torch.logspace(-3, 1, 40, **like)[:, None, None, None]
aside = torch.randn(40, 1, 5, d, generator=run.generator("aside"), **like)
visited = (best_point + lengths * aside)[..., None, :]  # (points, 1, 5, 1, d), from near the minimizer to far
some_losses, some_gradients = losses(visited)


def one_step_slack(at, value, gradient, star, value_star, floor, share=1.0):  # a number for each eta_max
    cap = caps[None, :]
    step = ngn_step_size(value, gradient.square().sum(-1), cap)
    moved = at - step[..., None] * gradient
    change = (moved - star).square().sum(-1) - (at - star).square().sum(-1)
    T0, T1, T2 = one_step_terms(cap)
    T2 = T2 * (1 + cap * L) / (4 * cap * L)  # by the smaller last term of the key inequality
    right = -T0 * (value - value_star) + share * (T1 * (value_star - floor) + T2 * floor)
    return (right - change).amin((0, 2, 3))


# %%
def on_slope(share=1.0):  # needs T_1: a slope of 1 over 1000 to its end, on 10⁶, η_max = 0.01/L
    one = torch.ones(1, 1, 1, 1, **like)
    at, value, value_star = -998 * one[..., None], 1e6 + 1.5 * one, 1e6 + 999.5 * one
    return one_step_slack(at, value, one[..., None], 0 * at, value_star, 1e6 * one, share)[:1]


def on_parabola(share=1.0):  # needs T_2: theta^2/2 + 1, measured from its own minimizer, eta_max from 30/L
    at = torch.logspace(-3, 2, 500, **like)[:, None, None, None, None]
    value, one = at[..., 0] ** 2 / 2 + 1, torch.ones_like(at[..., 0])
    return one_step_slack(at, value, at, 0 * at, one, one, share)[caps[:, 0, 0] >= 30]


def bracket(step, cap, share=1.0):  # needs T_0: what step 4 drops, over T_0/2
    return (step / (1 + 2 * cap * L) / (one_step_terms(cap)[0] / 2) - share).amin((-2, -1))


# %%
slope_cap = torch.tensor([[0.01]], **like)
harmonic = (1 / counts).cumsum(0)  # H_K


def slope_bottom(theta, k, S=1 / (0.01 * 2000)):  # L = 1, start 1, 2000 steps
    far = theta.abs() > S
    value = torch.where(far, S * theta.abs() - S**2 / 2, theta**2 / 2)
    return value[..., 0], torch.where(far, S * theta.sign(), theta)


def share_of_bound(oracle):  # one sample, minimum zero: the first term alone
    path = ensembles.iterate(
        Averaged(rules.NGN(slope_cap)),
        oracle,
        torch.ones(1, 1, **like),
        2000,
        record=[2000],
        watch=lambda state: state.mean,
    )
    return oracle(path.watched[-1], 0)[0] / ((1 + 2 * slope_cap) ** 2 / (2 * slope_cap * 2000))[0]


# %% tags=["hide-input"]
ledger.check(
    "thesis:beyond-ngn-harmonic",
    "In the proof of Theorem D.2.1 (which is true): H_K is at most 1 + ln K, not ln(K + 1)",
    measured=1 + counts.log() - harmonic,
    criterion=inequality("1 + ln K − (1 + 1/2 + … + 1/K)", size=100.0),
    control=control("ln(K + 1) in the place of 1 + ln K", (counts + 1).log() - harmonic),
    expected="corrected",
    correction=correction(
        printed="1 + 1/2 + … + 1/K ≤ ln(K + 1)", right="1 + 1/2 + … + 1/K ≤ 1 + ln K", evidence="refereed"
    ),
)
ledger.check(
    "thesis:beyond-ngn-one-step",
    "Steps 4 and 6 of the proof hold for every sample, also where their constants are needed",
    measured=torch.cat(
        [
            one_step_slack(visited, some_losses, some_gradients, best_point, at_best, floors),
            on_slope(),
            on_parabola(),
            bracket(eta, etas_max),
            bracket(steepest, etas_max),
        ]
    ),
    criterion=inequality("right minus left side of step 6; (η_k/(1 + 2ρ))/(T_0/2) − 1", size=100.0),
    control=control(
        "T_0 a hundredth larger, T_1 a fiftieth smaller, T_2 a tenth smaller, each where it is needed",
        torch.cat([bracket(steepest, etas_max, 1.01), on_slope(0.98), on_parabola(0.9)]),
    ),
    expected="holds",
)
ledger.check(
    "thesis:beyond-ngn-convex-tight",
    "A slope with a rounded bottom attains nine tenths of the bound at η_max = 0.01/L",
    measured=share_of_bound(slope_bottom),
    criterion=between("ℒ(θ̄_K) − ℒ⋆ over the bound", 0.9, 1.0),
    control=control("a parabola with the same L", share_of_bound(plain(torch.ones(1, **like), 0.0))),
    expected="holds",
)

# %% [markdown]
# ## Without convexity
#
# For general smooth losses no step size can promise a minimum. What can be promised is a small gradient, and here the source asks for a small
# $\eta_{\max}$.
#
# :::{prf:theorem} Non-convex losses: small steps
# :label: thesis-thm-4-3-2
# Let every $\ell_i\ge0$ be $L_i$-smooth, $L=\max_iL_i$, let $i_k$ be drawn uniformly and independently, and let
# $\eta_{\max}\le1/(2L)$. Then NGN satisfies
#
# $$
# \begin{aligned}
# \frac1K\sum_{k<K}\mathbb E\lVert\nabla\mathcal L(\theta_k)\rVert^2\le{}&\frac{12\,\mathbb E[\mathcal L(\theta_0)-\mathcal L^\star]}{\eta_{\max}K}\\
# &+18\,\eta_{\max}L\,\Delta_{\mathrm{noise}}^2 ,
# \end{aligned}
# $$
#
# with $\mathcal L^\star=\inf\mathcal L$ and $\Delta_{\mathrm{noise}}^2=\sup_\theta\mathbb E\lVert\nabla\mathcal L(\theta)-\nabla\ell_i(\theta)\rVert^2$. The proof below gives $\frac{12}5$ and $\frac95$ in the
# place of $12$ and $18$. If the largest step of step $k$ is $\eta_0/\sqrt{k+1}$ with $\eta_0\le1/(2L)$, the mean of the $\mathbb E\lVert\nabla\mathcal L(\theta_k)\rVert^2$ with the weights $p_k$ of {prf:ref}`thesis-thm-d-2-1` is $O(\ln K/\sqrt K)$.
# :::
#
# *The key step.* The step lies between $\frac{\eta_{\max}}{1+\rho}$ and $\eta_{\max}$, by the range {eq}`eq-gauss-newton-steps-range`. That it varies with the sample does harm only where the sample's
# gradient $g$ points against the mean's, $\bar g$, and then $-\langle\bar g,g\rangle=-\lVert\bar g\rVert^2-\langle\bar g,g-\bar g\rangle\le\frac14\lVert g-\bar g\rVert^2$: no more than noise.
#
# :::{dropdown} Proof
# Let $\mathbb E_k$ be the expectation given $\theta_k$, $g=\nabla\ell_{i_k}(\theta_k)$, $\bar g=\nabla\mathcal L(\theta_k)$, and $V=\mathbb E_k\lVert g-\bar g\rVert^2$, so that $\mathbb E_k\lVert g\rVert^2=\lVert\bar g\rVert^2+V$.
# 1. *Smoothness.* $\mathcal L$ changes by at most $-\eta_k\langle\bar g,g\rangle+\frac L2\eta_{\max}^2\lVert g\rVert^2$.
# 2. *Split.* With $[x]_-=\max\{0,-x\}$, $-\eta_k\langle\bar g,g\rangle$ is at most $-\frac{\eta_{\max}}{1+\rho}\langle\bar g,g\rangle+\frac{\eta_{\max}\rho}{1+\rho}[\langle\bar g,g\rangle]_-$:
#    use the lower end of the range if $\langle\bar g,g\rangle\ge0$, and the upper end otherwise.
# 3. *Expectation.* $\mathbb E_k\langle\bar g,g\rangle=\lVert\bar g\rVert^2$, and $\mathbb E_k[\langle\bar g,g\rangle]_-\le\frac14V$ by the key step.
# 4. *One step.* The expected change of $\mathcal L$ is at most
#
#    $$
#    \begin{aligned}
#    -\eta_{\max}&\Bigl[\frac1{1+\rho}-\frac\rho2\Bigr]\lVert\bar g\rVert^2\\
#    &+\eta_{\max}\rho\,\Bigl[\frac1{4(1+\rho)}+\frac12\Bigr]V .
#    \end{aligned}
#    $$
#
# 5. *Numbers.* The first bracket falls with $\rho$ and is $\frac5{12}$ at $\rho=\frac12$ (zero at $\rho=1$). The second is at most $\frac34$. So the change is at most
#    $-\frac5{12}\eta_{\max}\lVert\bar g\rVert^2+\frac34\eta_{\max}\rho V$.
# 6. *Sum* over $k$, divide by $\frac5{12}\eta_{\max}K$, and use $\mathbb E\mathcal L(\theta_K)\ge\mathcal L^\star$ and $V\le\Delta_{\mathrm{noise}}^2$.
# 7. *Decreasing steps* (not written out in the source). Step 5 holds with $m_k=\eta_0/\sqrt{k+1}$ in the place of $\eta_{\max}$. Sum it, and divide by $\frac5{12}\sum_km_k\ge\frac56\eta_0(\sqrt K-1)$: the weighted mean is at most
#    $\frac{6}{5\eta_0(\sqrt K-1)}$ times the sum of $\mathbb E\mathcal L(\theta_0)-\mathcal L^\star$ and $\frac34L\eta_0^2(1+\ln K)\Delta_{\mathrm{noise}}^2$. $\square$
# :::
#
# The check takes a robust regression, $\ell_i=\ln(1+(a_i^\top\theta-b_i)^2)$, where $L=2\max_i\lVert a_i\rVert^2$ and $\lVert\nabla\ell_i\rVert\le\lVert a_i\rVert$, so that
# $\Delta_{\mathrm{noise}}^2\le\frac1n\sum_i\lVert a_i\rVert^2$, and the smallest non-convex example, $\ln(1+\theta^2)+1$ with a single sample. The latter breaks the theorem if $\eta_{\max}$ is too large: the
# constant makes a two-cycle again, where the gradient is not small. The check uses the smaller constants $\frac{12}5$ and $\frac95$. A parabola with minimum zero attains three quarters of the first term; two samples with different minimizers
# attain about two fifths of the second; in a single step they attain two thirds of the term with $V$ in step 5 (row below).

# %%
source = run.generator("robust")
slopes_a = torch.randn(30, 4, generator=source, **like)
shift_b = slopes_a @ torch.ones(4, **like) + 2 * torch.randn(30, generator=source, **like)
robust_L = 2 * slopes_a.square().sum(1).max()
noise_bound = slopes_a.square().sum(1).mean()
rows30 = torch.stack(
    [torch.randint(30, (K,), generator=run.generator("robust samples", seed=s)) for s in seeds], 1
)
small_caps = torch.tensor([0.05, 0.1, 0.25, 0.5], **like)[:, None, None] / robust_L


def robust(theta, a, b):  # theta (*batch, 4) against samples (rows, 4)
    residual = (theta * a).sum(-1) - b
    return torch.log1p(residual**2), (2 * residual / (1 + residual**2))[..., None] * a


def mean_gradient(theta):
    return robust(theta[..., None, :], slopes_a, shift_b)[1].mean(-2)


def sampled(theta, k):
    return robust(theta, slopes_a[rows30[k]], shift_b[rows30[k]])


# %%
robust_start = torch.zeros(len(small_caps), len(seeds), 4, **like)
robust_run = ensembles.iterate(rules.NGN(small_caps), sampled, robust_start, K, record=range(0, K, 5))
gradient_square = mean_gradient(robust_run.values).square().sum(-1).mean(0)  # (caps, seeds)
initial = robust(robust_start[0, 0], slopes_a, shift_b)[0].mean()
caps_1 = small_caps[:, 0, 0]
falls, gains = 5 / 12, 3 / 4  # the numbers of step 5


def nonconvex_bound(height, cap, L, steps, noise):  # with the constants of the proof
    return (height / (cap * steps) + gains * cap * L * noise) / falls


robust_bounds = nonconvex_bound(initial, caps_1, robust_L, K, noise_bound)


def lonely(theta, k):  # ln(1 + theta^2) + 1, L = 2
    return torch.log1p(theta[..., 0] ** 2) + 1, 2 * theta / (1 + theta**2)


# %%
def alone_ratio(oracle, L, rho, start, steps=K):  # mean squared gradient over the bound; one sample, no noise
    cap = torch.tensor(rho, **like)[:, None] / L
    begin = torch.full((len(rho), 1), start, **like)
    path = ensembles.iterate(rules.NGN(cap), oracle, begin, steps, record=range(steps))
    mean_square = oracle(path.values, 0)[1][..., 0].square().mean(0)
    height = oracle(begin, 0)[0] - oracle(0 * begin, 0)[0]
    return mean_square / nonconvex_bound(height, cap[:, 0], L, steps, 0.0)


def at_rest_ratio():  # two parabolas with minima at 1 and -1, on a large constant, from the minimizer; eta_max = 1/2
    def sampled(theta, k):
        away = theta - 2.0 * (rows30[k][:, None] % 2) + 1
        return away[..., 0] ** 2 / 2 + 1e6, away

    path = ensembles.iterate(rules.NGN(0.5), sampled, torch.zeros(len(seeds), 1, **like), K, record=range(K))
    return upper_end(path.values[..., 0].square().mean(0)[None], nonconvex_bound(0.0, 0.5, 1.0, K, 1.0))


parabola = plain(torch.ones(1, **like), 0.0)

# %% tags=["hide-input"]
ledger.check(
    "thesis:thm-4.3.2",
    "Up to 1/(2L) the mean squared gradient is below the bound with 12/5 and 9/5",
    measured=torch.cat(
        [
            upper_end(gradient_square, robust_bounds),
            alone_ratio(lonely, 2.0, [0.05, 0.1, 0.25, 0.5], 3.0),
            alone_ratio(parabola, 1.0, [0.5], 1.0, 200),
            at_rest_ratio(),
        ]
    ),
    criterion=at_most("upper end of the mean of ‖∇ℒ(θ_k)‖² over the bound", 1.0),
    control=control(
        "η_max from 32/L on, with a constant in the loss; 7/12 in the place of 5/12, parabola",
        torch.cat(
            [
                alone_ratio(lonely, 2.0, [32.0, 64.0], 3.0),
                alone_ratio(parabola, 1.0, [0.5], 1.0, 200) * (7 / 12) / (5 / 12),
            ]
        ),
    ),
    expected="holds",
    seeds=seeds,
    show="card",
    needs="book",
)


# %%
def decrease_slack(theta, caps, a, b, c, L, fall=falls, gain=gains):
    """Right minus left side of step 5, the expectation over all samples taken exactly."""
    value, gradient = robust(theta[..., None, :], a, b)
    step = ngn_step_size(value + c, gradient.square().sum(-1), caps)
    moved = theta[..., None, :] - step[..., None] * gradient
    after = robust(moved[..., None, :], a, b)[0].mean((-2, -1))
    mean = gradient.mean(-2)
    variance = gradient.square().sum(-1).mean(-1) - mean.square().sum(-1)
    cap = caps[..., 0]
    right = -cap * fall * mean.square().sum(-1) + gain * cap**2 * L * variance
    return right - (after - value.mean(-1))


one = torch.ones(1, 1, **like)
half = 0.25 * one  # 1/(2L) for L = 2
cycle = 7.0**0.5 * one  # with a huge constant and eta_max = 16/L, NGN jumps between this and minus this


def near_zero(fall):  # near zero ln(1 + θ²) is a parabola; per unit of the squared gradient
    theta = 1e-3 * one
    return decrease_slack(theta, half, one, 0 * one[0], 0.0, 2.0, fall) / (4 * theta**2)[0]


def apart_slack(gain):  # two samples at rest between their minima, with a large constant
    both_ways = torch.tensor([0.1, -0.1], **like)
    return decrease_slack(0 * one, half, torch.ones(2, 1, **like), both_ways, 1e6, 2.0, gain=gain)


on_iterates = decrease_slack(robust_run.values[::20, :, :8], small_caps, slopes_a, shift_b, 0.0, robust_L)

# %% tags=["hide-input"]
ledger.check(
    "thesis:beyond-ngn-nonconvex-step",
    "Step 5 of the proof with 5/12 and 3/4, on iterates and where two thirds of them are needed",
    measured=torch.cat([on_iterates.flatten(), near_zero(falls), apart_slack(gains)]),
    criterion=inequality("right minus left side of step 5", size=10.0),
    control=control(
        "η_max = 16/L with a large constant; 7/12 in the place of 5/12; 9/20 in the place of 3/4",
        torch.cat(
            [
                decrease_slack(cycle, 32 * half, one, 0 * one[0], 1e6, 2.0),
                near_zero(1.4 * falls),
                apart_slack(0.6 * gains),
            ]
        ),
    ),
    expected="holds",
)

# %% [markdown]
# ## On data
#
# The source's first data set is Wine: three kinds, thirteen measurements, softmax regression with a ridge penalty $\frac{0.01}2\lVert\theta\rVert^2$ (our choice: the source names neither the loss nor the
# grids). The penalty makes the minimum positive. The *normalized gap* in the figure is the loss above its minimum, divided by the same at the start.
#
# :::{admonition} Predict first
# :class: tip
# In {numref}`fig-gauss-newton-steps-wine`, will NGN with $\eta_{\max}=100$ reach the minimum?
# :::
#
# :::{dropdown} Answer
# No: $\mathcal L^\star>0$, and as on the quadratic of {prf:ref}`thesis-beyond-ngn-two-cycle` a large step stays above the minimum. It will not diverge either.
# :::

# %%
wine = data.load("wine")
features = (wine.inputs - wine.inputs.mean(0)) / wine.inputs.std(0)
features = torch.cat([features, torch.ones(len(features), 1, **like)], 1)
one_hot = torch.nn.functional.one_hot(wine.targets, 3).to(**like)
ridge = 0.01


def wine_oracle(theta, k):  # theta (*batch, 42)
    W = theta.unflatten(-1, (3, 14))
    log_p = torch.log_softmax(features @ W.mT, -1)  # (*batch, 178, 3)
    value = -(one_hot * log_p).sum(-1).mean(-1) + ridge / 2 * theta.square().sum(-1)
    slope = (log_p.exp() - one_hot).mT @ features / len(features)
    return value, slope.flatten(-2) + ridge * theta


# %%
wine_caps = torch.tensor([0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0], **like)[:, None, None]
wine_steps = run.pick(smoke=100, book=500, paper=500)
wine_seeds = run.seeds(smoke=3, book=6, paper=20)
wine_start = 2 * torch.stack(
    [torch.randn(42, generator=run.generator("wine", seed=s), **like) for s in wine_seeds]
)
wine_start = wine_start.expand(len(wine_caps), -1, -1)
shown = [*range(20), *range(20, wine_steps + 1, 10)]
wine_ngn = ensembles.iterate(
    rules.NGN(wine_caps),
    wine_oracle,
    wine_start,
    wine_steps,
    record=shown,
    watch=lambda state: state.step_size,
)
wine_gd = ensembles.iterate(GradientDescent(wine_caps), wine_oracle, wine_start, wine_steps, record=shown)
solution = ensembles.iterate(
    GradientDescent(3.0), wine_oracle, 0 * wine_start[0, :1], 3000, record=[3000]
).last
wine_minimum, rest = wine_oracle(solution, 0)
assert rest.norm() < 1e-12


def normalized(path):  # 1 at the start, 0 at the minimum; (records, caps, seeds)
    gap = wine_oracle(path.values, 0)[0] - wine_minimum
    return gap / gap[0]


ngn_wine, gd_wine = normalized(wine_ngn), normalized(wine_gd)

# %% tags=["hide-input"] mystnb={"figure": {"caption": "**On Wine NGN never diverges; a positive minimum sets its floor.** Top left: normalized gap along the run for three settings of NGN. Top right: its steps. Bottom left: gap after 500 steps against the hyper-parameter, bands over starts. Bottom right: the path for the largest setting in the plane of its two principal components (circle: start, square: after one step, star: end). What breaks it: gradient descent with the same number (dashed).", "name": "fig-gauss-newton-steps-wine"}, "image": {"alt": "Four panels. Falling curves with floors that depend on the setting; steps that shrink at first and level off; two curves that agree on the left and part on the right, the dashed one above 1; two paths in a plane, the dashed one far away."}}
fig, ((a1, a2), (a3, a4)) = figures.subplots(2, 2, size=(6.6, 6.6))
for i in (2, 4, 6):
    label = f"$\\eta_{{\\max}}={wine_caps[i].item():g}$"
    a1.semilogy(shown, ngn_wine[:, i, 0].clamp(min=1e-15), label=label)
    a2.semilogy(shown[1:], wine_ngn.watched[1:, i, 0], label=label)
figures.line_control(a1, shown, gd_wine[:, 6, 0], label="GD, 100")
a1.set(xlabel="step $k$", ylabel="normalized gap")
a2.set(xlabel="step $k$", ylabel="$\\eta_k$")
a1.legend(fontsize=8)
figures.band(a3, wine_caps[:, 0, 0], ngn_wine[-1].T.clamp(min=1e-15), label="NGN", geometric=True)
figures.line_control(a3, wine_caps[:, 0, 0], gd_wine[-1].mean(1).clamp(min=1e-15), label="GD")
a3.set(xscale="log", yscale="log", xlabel="$\\eta_{\\max}$", ylabel="normalized gap, 500 steps")
a3.legend(fontsize=8)
cloud = wine_ngn.values[:, 6, 0] - wine_ngn.values[-1, 6, 0]
plane = torch.linalg.svd(cloud, full_matrices=False)[2][:2].T
for path, style in ((wine_gd, True), (wine_ngn, False)):
    flat = (path.values[:, 6, 0] - wine_ngn.values[-1, 6, 0]) @ plane
    if style:
        figures.line_control(a4, *flat.T, lw=0.8)
    else:
        a4.plot(*flat.T, lw=1, markevery=1, markersize=2)
    a4.plot(*flat[0], "o", color=COLORS["black"], mfc="none")
    a4.plot(*flat[1], "s", color=COLORS["black"], mfc="none")
    a4.plot(*flat[-1], "*", color=COLORS["black"], ms=9)
a4.set(xlabel="first component", ylabel="second component")
plt.show()

# %%
large_wine = wine_caps[:, 0, 0] >= 10
as_ratio = ngn_wine[-1] / gd_wine[-1]

# %% tags=["hide-input"]
ledger.check(
    "thesis:fig-38",
    "On Wine NGN ends below its start for every η_max, and below descent for η_max ≥ 10",
    measured=torch.cat([ngn_wine[-1].flatten(), as_ratio[large_wine].flatten()]),
    criterion=at_most("gap/gap at the start; NGN/GD for η_max ≥ 10", 1.0),
    control=control("gradient descent with the step 100", gd_wine[-1, -1]),
    expected="reproduced",
    claim="experiment",
    seeds=wine_seeds,
    needs="book",
)

# %% [markdown]
# The second is linear regression with batches of eight and steps that fall like $1/k$. The source says that NGN converges faster than tuned SGD and "is robust to initial overshooting". The source's Boston set is withdrawn from scikit-learn; we use
# three quarters of the diabetes set, standardized. The source does not give the start, so we take two: far away, at $\theta_0=(3,\dots,3)$, and zero. Both methods get the same 17 settings, four a
# decade from $0.1$ to $1000$; the best of each is chosen on the runs that are compared.

# %%
diabetes = data.load("diabetes")
X = (diabetes.inputs - diabetes.inputs.mean(0)) / diabetes.inputs.std(0)
X = torch.cat([X, torch.ones(len(X), 1, **like)], 1)[: len(X) * 3 // 4]
y = ((diabetes.targets - diabetes.targets.mean()) / diabetes.targets.std())[: len(X)]
least = (X @ torch.linalg.lstsq(X, y).solution - y).square().mean()
grid = 10 ** torch.linspace(-1, 3, 17, **like)[:, None, None]
regression_seeds = run.seeds(smoke=4, book=20, paper=20)
regression_steps = run.pick(smoke=100, book=3000, paper=3000)
rows8 = torch.stack(
    [
        torch.randint(len(X), (regression_steps, 8), generator=run.generator("batch", seed=s))
        for s in regression_seeds
    ],
    1,
)


def regression(theta, k):  # half the mean square over the batch of step k
    x, target = X[rows8[k]], y[rows8[k]]
    residual = (x @ theta[..., None]).squeeze(-1) - target
    return residual.square().mean(-1) / 2, (residual[..., None, :] @ x).squeeze(-2) / 8


def full_gap(theta):  # infinite for a run that diverged
    gap = ((theta @ X.T - y).square().mean(-1) - least).clamp(min=0) / 2
    return gap.nan_to_num(nan=math.inf)


# %%
marks = ensembles.log_spaced(regression_steps, per_decade=10)
fits = {}
for place, height in (("far", 3.0), ("zero", 0.0)):
    from_there = torch.full((len(grid), len(regression_seeds), 11), height, **like)
    for name, make in (("NGN", rules.NGN), ("SGD", GradientDescent)):
        rule = make(lambda k: grid / (k + 1))
        path = ensembles.iterate(rule, regression, from_there, regression_steps, record=marks)
        fits[place, name] = full_gap(path.values)  # (marks, settings, seeds)
finals = {key: gap[-1] for key, gap in fits.items()}
best = {key: int(gap.mean(1).argmin()) for key, gap in finals.items()}


def lead(place, setting=None):  # ln(gap of the best SGD/gap of NGN), a number for each seed
    setting = best[place, "NGN"] if setting is None else setting
    return finals[place, "SGD"][best[place, "SGD"]].log() - finals[place, "NGN"][setting].log()


shrunk = {key: gap / fits[key][0] for key, gap in finals.items()}  # gap at the end over gap at the start

# %% tags=["hide-input"] mystnb={"figure": {"caption": "**Regression with steps $\\eta/k$ (for NGN the largest step): NGN is ahead of tuned SGD, by much from afar and by little from zero.** Gap at the end against the setting, mean and 95 % band over runs. What breaks it: SGD (dashed) overshoots, and has to be tuned on a narrow range; a run that ends above the picture is not drawn. Dotted: the gap at the start.", "name": "fig-gauss-newton-steps-regression"}, "image": {"alt": "Two panels, far start and start at zero. In each a wide valley for NGN and a narrower dashed one for SGD that leaves the picture; on the right the two valleys are nearly equally deep."}}
fig, panels = figures.subplots(1, 2, size=(8.4, 3.9), sharey=True)
for ax, place, title in ((panels[0], "far", "start at (3, …, 3)"), (panels[1], "zero", "start at zero")):
    figures.band(ax, grid[:, 0, 0], finals[place, "NGN"].T, label="NGN", geometric=True)
    sane = finals[place, "SGD"].mean(1) < 1e3
    figures.line_control(ax, grid[sane, 0, 0], finals[place, "SGD"][sane].mean(1), label="SGD")
    ax.axhline(fits[place, "NGN"][0, 0, 0], color=COLORS["grey"], lw=1, ls=":", marker="")
    ax.set(xscale="log", yscale="log", xlabel="$\\eta_{\\max}$ or $\\eta$", ylim=(2e-4, 1e3), title=title)
panels[0].set(ylabel="gap after 3000 steps")
panels[0].legend(fontsize=8.5)
plt.show()

# %% [markdown]
# From afar the best NGN ends about eighty times lower than the best SGD, from zero not quite twice. Its largest setting ends above the best SGD from zero, and below it from afar.

# %% tags=["hide-input"]
ledger.check(
    "thesis:fig-40",
    "On the regression the best NGN ends below the best SGD, from afar and from zero",
    measured=torch.minimum(lead("far"), lead("zero")),
    criterion=confident("ln(gap of SGD/gap of NGN at the end), the smaller of two starts", at_least=0.0),
    control=control(
        "NGN at its smallest setting in the place of its best", torch.minimum(lead("far", 0), lead("zero", 0))
    ),
    expected="reproduced",
    claim="experiment",
    seeds=regression_seeds,
    needs="book",
    rtol=1e-3,
)
ledger.check(
    "thesis:beyond-ngn-regression-range",
    "Over four decades of settings and from both starts NGN ends below its start",
    measured=torch.stack([shrunk["far", "NGN"], shrunk["zero", "NGN"]]),
    criterion=at_most("gap at the end over gap at the start", 1.0),
    control=control(
        "SGD with the settings from 30 on", torch.stack([shrunk["far", "SGD"], shrunk["zero", "SGD"]])[:, 10:]
    ),
    expected="reproduced",
    claim="experiment",
    seeds=regression_seeds,
    needs="book",
)

# %% [markdown]
# ## On a network
#
# A network's loss is not convex, and the convex theorems say nothing about it. The source trains a ResNet-18 on CIFAR-10 without a schedule, and reports three things: NGN is faster than tuned SGD, less
# sensitive to its setting, and its step *warms up and decays* by itself. This size needs a GPU: the code is ready, and the rows below name the
# commands. We ran the same protocol on a smaller scale: the network of the first section, 8,000 digits of MNIST, batches of 128, 12 epochs, 6 seeds for each setting,
# with and without momentum. The results are kept with the book; this page computes the beginning of two of their runs again.
#
# With momentum, the later paper of the authors {cite}`islamov2025enhancing` puts the NGN step in front of
# the new gradient and leaves the old increment alone (*NGN-M*):
#
# $$
# \begin{aligned}
# \theta_{k+1}=\theta_k&-(1-\beta_1)\,\eta_k\nabla\ell_{i_k}(\theta_k)\\
# &+\beta_1(\theta_k-\theta_{k-1}).
# \end{aligned}
# $$ (eq-gauss-newton-steps-momentum)
#
# The factor $1-\beta_1$ makes $\eta_k$ comparable with and without momentum; we write SGD with momentum in the same way, and use $\beta_1=0.9$.

# %%
kept = {
    name: results.load("adaptivity/gauss_newton_steps", f"cnn-mnist-10k-{name}")
    for name in ("ngn", "sgd", "ngn-momentum", "sgd-momentum")
}


def last_epoch(name):  # mean training loss over the last epoch, (settings, seeds); infinite if diverged
    return torch.as_tensor(kept[name]["loss"][..., -2:].mean(-1), **like)


final_loss = {name: last_epoch(name) for name in kept}
settings = {name: torch.as_tensor(kept[name]["lr"], **like) for name in kept}
best_of = {name: int(loss.mean(1).argmin()) for name, loss in final_loss.items()}

# %% tags=["hide-input"] mystnb={"figure": {"caption": "**NGN's valley is wider than SGD's and at least as deep.** Training loss of a small network, mean over the last of 12 epochs, 95 % bands over 6 seeds; top without, bottom with momentum 0.9. SGD dashed. What breaks NGN without momentum: at 100 nothing diverges, and some runs learn nothing. From kept results.", "name": "fig-gauss-newton-steps-network"}, "image": {"alt": "Two panels on double logarithmic axes. Top: a wide blue valley that rises steeply at the right end, a dashed valley that rises steeply at 1. Bottom: a wide blue valley without the rise and a dashed curve."}}
fig, panels = figures.subplots(2, 1, size=(6.2, 6.0), sharex=True)
for ax, ending, title in ((panels[0], "", "without momentum"), (panels[1], "-momentum", "with momentum")):
    figures.band(ax, settings["ngn" + ending], final_loss["ngn" + ending].T, label="NGN", geometric=True)
    sgd_look = {"color": figures.CONTROL_COLOR, "linestyle": "--", "marker": ""}
    figures.band(
        ax, settings["sgd" + ending], final_loss["sgd" + ending].T, label="SGD", geometric=True, **sgd_look
    )
    ax.axhline(math.log(10), color=COLORS["light grey"], lw=1, marker="")
    ax.annotate("guessing", (0.011, 2.5), color=COLORS["dark grey"], fontsize=9)
    ax.set(xscale="log", yscale="log", ylabel="training loss", title=title, ylim=(0.01, 12))
    ax.legend(fontsize=8.5)
panels[1].set(xlabel="$\\eta_{\\max}$ (NGN) or $\\eta$ (SGD)")
plt.show()

# %% [markdown]
# Without momentum SGD does not train at its largest setting: all runs stay at the loss of guessing. NGN was run at seven settings from $0.1$ to $100$, of which the five up to $10$ are the source's; at $100$ some runs fail, at the others none. The next figure shows how the step of NGN changes during training.

# %% tags=["hide-input"] mystnb={"figure": {"caption": "**With a constant $\\eta_{\\max}$ the step of NGN warms up, then decays.** Mean step on the network in windows of 31 batches, 95 % bands over 6 seeds. At $\\eta_{\\max}=1$ the cap hides the rise. Without the effect: the constant step of SGD at its best setting (dashed). From kept results.", "name": "fig-gauss-newton-steps-schedule"}, "image": {"alt": "Three curves that dip, rise within three epochs and then fall slowly, the larger the setting the higher; a dashed horizontal line."}}
fig, ax = figures.subplots()
windows = (torch.arange(kept["ngn"]["step_size"].shape[-1]) + 0.5) / 2
for i in (2, 3, 4):
    curve = torch.as_tensor(kept["ngn"]["step_size"][i], **like)
    figures.band(ax, windows, curve, label=f"$\\eta_{{\\max}}={settings['ngn'][i].item():g}$")
steady = torch.full((len(windows),), settings["sgd"][best_of["sgd"]].item())
figures.line_control(ax, windows, steady, label="SGD", role="without the effect")
ax.set(xlabel="epoch", ylabel="$\\eta_k$")
ax.legend(fontsize=8.5)
plt.show()

# %% [markdown]
# The step of NGN rises and falls as a schedule would. By
# {eq}`eq-gauss-newton-steps-reciprocal` this is a statement about the curvature estimate $\lVert\nabla\ell\rVert^2/2\ell$ of a batch: it is largest soon after the start, falls, and grows again while the
# loss goes to zero. A rise is seen only if $\eta_{\max}$ leaves room for
# it: at $0.1$ the step only shrinks, at $1$ it rises by three per cent.
#
# The source says that the step shows "warm-up/decay behavior", and highlights $\eta_{\max}=3$. The check takes that setting and asks for a rise from the first epoch to a later one and a fall to the last. For each seed the epoch of the peak is
# read from the other five seeds, because choosing it on the seed itself would find a rise in any noise. The other rows compare the spread over settings and the best setting on the source's own grids: five settings for either method, the largest 100 times the smallest. The control of the first of them leaves out the largest setting of SGD, with which it is lost; over the other four no larger spread is shown for SGD than for NGN.

# %%
for name, setting in (("ngn", 3.0), ("sgd", 0.3)):  # recomputed here: two epochs of one seed
    again = image_training.one_run(
        digits,
        digit_labels,
        network="cnn",
        optimizer=name,
        lr=setting,
        seed=0,
        epochs=run.pick(smoke=1, book=2, paper=2),
        batch_size=128,
    )
    place = int(abs(kept[name]["lr"] - setting).argmin())
    for field in ("loss", "step_size"):
        means = image_training.window_means(getattr(again, field), 31)
        results.agree({field: kept[name][field][place, 0, : len(means)]}, {field: means}, rtol=0.05)

# %%
source_grid = {"ngn": slice(0, 5), "sgd": slice(0, 5)}  # η_max from 0.1 to 10, η from 0.01 to 1


def spread(name, settings):  # ln(worst over best setting), a number for each seed
    losses_there = final_loss[name][settings]
    return (losses_there.amax(0) / losses_there.amin(0)).log()


def rise_and_fall(steps):  # ln(peak epoch's mean step over the first's) and over the last's, the smaller
    epochs = torch.as_tensor(steps, **like).unflatten(-1, (-1, 2)).mean(-1)  # (seeds, epochs)
    others = (epochs.sum(0) - epochs)[:, 1 : epochs.shape[1] // 2]  # of all seeds but this one
    peak = epochs.gather(1, 1 + others.argmax(1, keepdim=True))  # a later epoch, in the first half
    return torch.minimum(peak / epochs[:, :1], peak / epochs[:, -1:])[:, 0].log()


kept_seeds = list(kept["ngn"].provenance.seeds)


# %%
def forward_passes(make):  # of one step
    torch.manual_seed(SEED)
    network, calls = SmallCNN(), []
    network.register_forward_hook(lambda *_: calls.append(1))
    optimizer = make(network.parameters())

    def closure():
        optimizer.zero_grad()
        loss = cross_entropy(network(digits[:8]), digit_labels[:8])
        loss.backward()
        return loss

    optimizer.step(closure)
    return len(calls)


# %% tags=["hide-input"]
ledger.check(
    "thesis:beyond-ngn-network-range",
    "Over a factor of 100, the source's five settings each, NGN's training loss varies less",
    measured={name: spread(name.lower(), source_grid[name.lower()]) for name in ("NGN", "SGD")},
    criterion=ordering("ln(worst/best training loss over five settings)", ["NGN", "SGD"]),
    control=control(
        "SGD without its largest setting, which is lost",
        {"NGN": spread("ngn", source_grid["ngn"]), "SGD": spread("sgd", slice(0, 4))},
    ),
    expected="reproduced",
    claim="experiment",
    seeds=kept_seeds,
    show="card",
)
ledger.check(
    "thesis:beyond-ngn-network-best",
    "On the network the best setting of NGN ends below the best of SGD",
    measured={name: final_loss[name.lower()][best_of[name.lower()]] for name in ("NGN", "SGD")},
    criterion=ordering("training loss in the last epoch, best setting of each", ["NGN", "SGD"]),
    control=control(
        "NGN at its smallest setting",
        {"NGN": final_loss["ngn"][0], "SGD": final_loss["sgd"][best_of["sgd"]]},
    ),
    expected="reproduced",
    claim="experiment",
    seeds=kept_seeds,
)
ledger.check(
    "thesis:claim-ngn-warmup-and-cost",
    "At the setting 3 the step of NGN warms up, then decays",
    measured=rise_and_fall(kept["ngn"]["step_size"][3]),
    criterion=confident(
        "ln of the peak epoch's step over the first's and the last's, the smaller", at_least=0.0
    ),
    control=control("the setting 0.1, where it only decays", rise_and_fall(kept["ngn"]["step_size"][0])),
    expected="partly",
    claim="experiment",
    seeds=kept_seeds,
    reason="All six runs rise, by 10 to 36 per cent, and then fall below their first epoch; six seeds are too few for the interval at 99.9 per cent. At the settings 0.1 and 1 there is no warm-up to speak of.",
)
ledger.check(
    "thesis:beyond-ngn-cost",
    "A step of NGN evaluates the network once, as SGD does",
    measured=[forward_passes(lambda p: NGN(p, lr=1.0)), forward_passes(lambda p: torch.optim.SGD(p, lr=0.1))],
    criterion=equals("forward passes a step", 1),
    control=control("a method with a line search, L-BFGS", forward_passes(lambda p: torch.optim.LBFGS(p))),
    expected="holds",
    rtol=0.3,  # L-BFGS asks for 19 or 20, as the processor rounds
)

# %% [markdown]
# ### On images it has not seen
#
# Training loss is not what a practitioner wants to know. We compare test accuracy, and put beside NGN what it would replace: SGD with a constant step, SGD with a *schedule* (linear warm-up over the first tenth, then a half cosine down to
# zero), Adam and AdaGrad. Every method is tuned: its one number runs over a grid, and the value with the best accuracy on 200 validation images is used. The network is small (64 pixels, 64 hidden units, 10 digits), so that all
# seeds and settings train at once on this page: 600 of scikit-learn's digits, batches of 50, 500 steps; 997 test images. A seed decides the split, the start and the order; all methods share them.
#
# The question was fixed before these runs, whose seeds no earlier trial had used: *is NGN, tuned, at most one percentage point of test accuracy behind the best of its four rivals?*

# %%
pictures = data.load("digits")
pixels, kinds = pictures.inputs.reshape(-1, 64).float(), pictures.targets
training_seeds = [1000 + s for s in run.seeds(smoke=4, book=16, paper=64)]
training_steps = run.pick(smoke=15, book=500, paper=500)


def small_network(seed):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def loss_of(network, x, y):
    return cross_entropy(network(x), y)


def accuracy_of(network, x, y):
    return (network(x).argmax(-1) == y).double().mean()


def scheduled(peak):  # linear warm-up, then half a cosine
    def eta(k):
        fall = (1 + math.cos(math.pi * k / training_steps)) / 2
        return peak * min(1.0, (k + 1) / (training_steps / 10)) * fall

    return GradientDescent(eta)


# %%
splits = torch.stack(
    [torch.randperm(len(kinds), generator=run.generator("split", seed=s)) for s in training_seeds]
).split([600, 200, 997], 1)  # training, validation, test


def tune(make, numbers):  # validation and test accuracy, (settings, seeds) each
    every = len(numbers)
    column = torch.tensor(numbers).repeat_interleave(len(training_seeds))[:, None]
    networks = [small_network(s) for _ in numbers for s in training_seeds]
    ensemble = ModuleEnsemble(networks, make(column), loss_of)
    train, *judge = [(pixels[rows].repeat(every, 1, 1), kinds[rows].repeat(every, 1)) for rows in splits]
    order = shuffled(600, 50, [run.generator("order", seed=s) for s in training_seeds])
    ensemble.train(ensembles.batches((rows.repeat(every, 1) for rows in order), *train), training_steps)
    return [ensemble.evaluate(accuracy_of, *part).view(every, -1) for part in judge]


contest = {
    "NGN": (rules.NGN, [0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0]),
    "SGD": (GradientDescent, [0.01, 0.03, 0.1, 0.3, 1.0, 3.0]),
    "SGD with a schedule": (scheduled, [0.03, 0.1, 0.3, 1.0, 3.0, 10.0]),
    "Adam": (rules.Adam, [1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1]),
    "AdaGrad": (rules.AdaGrad, [1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1, 1.0]),
}
held, tested = {}, {}
for name, (make, numbers) in contest.items():
    held[name], tested[name] = tune(make, numbers)
chosen_of = {name: int(share.mean(1).argmax()) for name, share in held.items()}
at_best_of = {name: tested[name][place] for name, place in chosen_of.items()}  # test accuracy, (seeds)
rival = max((name for name in contest if name != "NGN"), key=lambda name: held[name].mean(1).max())

# %% tags=["hide-input"] mystnb={"figure": {"caption": "**Tuned, five methods end within about a point of each other; they differ in how much tuning they need.** Test accuracy on digits against the setting, in units of the setting that each method's validation accuracy chose; means and 95 % bands over seeds. Dashed: the two kinds of SGD. What breaks NGN: beyond the setting that validation chose some of its runs are lost, which the wide band shows.", "name": "fig-gauss-newton-steps-accuracy"}, "image": {"alt": "Five curves that meet near 96 per cent at one. Adam's plateau is the widest; at a factor of three to the right the two dashed curves are at ten per cent, NGN's at about 77 with a wide band."}}
fig, ax = figures.subplots(size=(6.4, 4.0))
looks = zip(contest, ("blue", "grey", "vermillion", "green", "purple"), strict=True)
for name, colour in looks:
    numbers = torch.tensor(contest[name][1], **like)
    figures.band(
        ax,
        numbers / numbers[chosen_of[name]],
        100 * tested[name].T,
        label=name,
        color=COLORS[colour],
        linestyle="--" if "SGD" in name else "-",
    )
ax.set(xscale="log", xlabel="setting, over the one that validation chose", ylabel="test accuracy, %")
ax.legend(fontsize=8.5, loc="lower center")
plt.show()

# %%
ahead = {name: 100 * (at_best_of["NGN"] - at_best_of[name]) for name in contest if name != "NGN"}  # points
intervals = {name: mean_interval(points) for name, points in ahead.items()}
lost = (tested["NGN"] < 0.5).double().mean(1)  # share of runs, for each setting
within = {}  # factor between the largest and the smallest setting within two points of the method's best
for name, (_, numbers) in contest.items():
    share = tested[name].mean(1)
    good = torch.tensor(numbers, **like)[share > share.max() - 0.02]
    within[name] = good.max() / good.min()

# %% tags=["hide-input"]
ledger.check(
    "thesis:beyond-ngn-test-accuracy",
    "Digits: tuned NGN is at most one point of test accuracy behind the best tuned rival",
    measured=at_best_of["NGN"] - at_best_of[rival],
    criterion=confident("test accuracy of NGN − test accuracy of the rival", at_least=-0.01),
    control=control("NGN at its smallest setting", tested["NGN"][0] - at_best_of[rival]),
    expected="reproduced",
    claim="experiment",
    seeds=training_seeds,
    needs="book",
    rtol=0.1,
)
figures.comparison(
    [
        (
            f"test accuracy of NGN minus {name}, points (99.9 % interval)",
            "not compared",
            [interval.low, interval.high],
            None,
        )
        for name, interval in intervals.items()
    ]
    + [
        (f"settings of {name} within two points of its best span a factor of", "not compared", factor, None)
        for name, factor in within.items()
    ]
    + [
        (
            "share of NGN's runs below 50 % of test accuracy, settings 3 and 10",
            "not compared",
            lost[4:6],
            None,
        )
    ],
    criterion="an advantage is shown where the interval lies above zero",
    run=run,
    name="test-accuracy",
    rtol=0.5,
    noise=0.5,
)

# %% [markdown]
# (The source has no such comparison, hence *not compared* in the table.) NGN passes: it is not a point behind, and the interval of its difference to the best rival contains zero. An advantage is shown over AdaGrad only (table above); over SGD, over SGD with a schedule and over Adam **no advantage is shown**.
# What differs is the price of a wrong setting. The settings within two points of the best span a factor of about 3 for the two kinds of SGD, 10 for AdaGrad, 30 for NGN and 100 for Adam. Just beyond, both kinds of SGD fail in all runs, NGN in
# some. So on this small problem NGN tolerates a wrong setting better than SGD, and Adam better still. It is one problem, and it says nothing about large networks.
#
# The data of this section beside the source's statements, and what was out of reach:

# %% tags=["hide-input"]
figures.comparison(
    [
        (
            "Wine, runs of NGN that end above their start (figure 38)",
            "none",
            int((ngn_wine[-1] >= 1).sum()),
            not (ngn_wine[-1] >= 1).any(),
        ),
        (
            "diabetes from afar, gap of tuned SGD over NGN's (figure 40)",
            "above 1",
            lead("far").mean().exp(),
            bool(lead("far").mean() > 0),
        ),
        (
            "diabetes from zero, gap of tuned SGD over NGN's (figure 40)",
            "above 1",
            lead("zero").mean().exp(),
            bool(lead("zero").mean() > 0),
        ),
        ("best η_max of NGN on the network (figure 41)", "3", settings["ngn"][best_of["ngn"]], None),
        ("best η of SGD on the network (figure 41)", "0.03", settings["sgd"][best_of["sgd"]], None),
    ],
    criterion="as the source says; the best settings are for the source's network and data, which are not ours",
    run=run,
    name="data",
    rtol=0.05,
)
reach = (
    "python -m learning_dynamics.experiments.gauss_newton_steps.image_training --scale paper --device cuda"
)
ledger.out_of_reach(
    "thesis:fig-41",
    "CIFAR-10 with a ResNet-18: NGN is faster than tuned SGD and less sensitive",
    needs="a GPU for some hours (24 settings, 30 epochs each) and the CIFAR-10 archive",
    command=reach + " --data cifar-10 --optimizers ngn sgd",
    stand_in="the small network on MNIST above",
)
ledger.out_of_reach(
    "thesis:beyond-ngn-resnet18",
    "MNIST with a ResNet-18, the protocol above",
    needs="a GPU for about an hour",
    command=reach + " --data mnist-10k",
    stand_in="the small network on MNIST above",
)
ledger.out_of_reach(
    "thesis:fig-42",
    "ImageNet with a ResNet-50: NGN is competitive with SGD with momentum and with AdamW",
    needs="ImageNet and about eleven GPU hours a run; prepared: a ResNet-18, constant steps, images from a file",
    command=reach + " --data imagenet64.npz --optimizers ngn sgd-momentum adamw",
)

# %% [markdown]
# ### What momentum changes
#
# With $\beta_1=0.9$ NGN-M {eq}`eq-gauss-newton-steps-momentum` gives the current gradient a tenth of the weight, so a large step does less harm. On a quadratic with a constant one can say how much less.
#
# :::{prf:proposition} Momentum moves the threshold
# :label: thesis-beyond-ngn-momentum
# For $\ell=\frac\lambda2\theta^2+c$ with $c>0$ and $0\le\beta_1<1$ the minimum attracts NGN-M from nearby if
#
# $$\eta_{\max}\lambda<\frac{2\,(1+\beta_1)}{1-\beta_1},$$
#
# and repels it if $\eta_{\max}\lambda$ is larger than that.
# :::
#
# :::{dropdown} Proof
# Near the minimum $\lVert\nabla\ell\rVert^2/2\ell\approx\lambda^2\theta^2/2c$ is of second order, so to first order $\eta_k=\eta_{\max}$, and NGN-M is the linear recursion $\theta_{k+1}=(1+\beta_1-(1-\beta_1)\eta_{\max}\lambda)\theta_k-\beta_1\theta_{k-1}$. It tends to zero if the roots of
# its characteristic polynomial $x^2-(1+\beta_1-(1-\beta_1)\eta_{\max}\lambda)x+\beta_1$ lie inside the unit circle, and leaves the minimum if one lies outside. They lie inside if and only if the value at $x=-1$ is positive (that at $1$ is, and the product of the roots is $\beta_1<1$):
# $2(1+\beta_1)-(1-\beta_1)\eta_{\max}\lambda>0$. $\square$
# :::
#
# For $\beta_1=0$ the threshold is $2$, for $\beta_1=0.9$ it is $38$. The network agrees: with momentum all runs learn at a setting where plain NGN loses some. The price is that far beyond the threshold the gap can stay above $c$,
# which the two-cycle of plain NGN never does. A coordinate-wise variant, and rates for the strongly convex case, are in
# {cite}`islamov2025enhancing,orvieto2024adaptive`.

# %%
betas = torch.tensor([0.0, 0.5, 0.9], **like)[:, None]
threshold = 2 * (1 + betas) / (1 - betas)


def near_minimum(share):
    rule = rules.NGN(share * threshold, momentum=betas)
    one = torch.ones(1, **like)
    close = torch.full((3, 1), 1e-3, **like)
    return ensembles.iterate(rule, plain(one, 1.0), close, 1000, record=[1000]).last[:, 0].square() / 2


ten_fold = rules.NGN(10 * threshold[2:], momentum=betas[2:])
wandering = ensembles.iterate(
    ten_fold,
    plain(torch.ones(1, **like), 1.0),
    torch.full((1, 1), 2.0, **like),
    2000,
    record=range(1900, 2001),
).values
assert (wandering.square() / 2).mean() > 1  # the gap, for c = 1

# %% tags=["hide-input"]
ledger.check(
    "thesis:beyond-ngn-momentum",
    "NGN-M reaches the minimum up to η_max λ = 2(1 + β_1)/(1 − β_1)",
    measured=near_minimum(0.95),
    criterion=at_most("ℓ(θ_1000) − ℓ⋆ from a start with gap 5·10⁻⁷, 5 % below the threshold", 1e-12),
    control=control("5 % above the threshold", near_minimum(1.05)),
    expected="holds",
)
ledger.check(
    "thesis:beyond-ngn-momentum-network",
    "With momentum every run of the network learns, up to η_max = 100",
    measured=final_loss["ngn-momentum"].amax(1) / math.log(10),
    criterion=at_most("largest training loss of the six runs of a setting, over ln 10", 0.5),
    control=control("NGN without momentum at η_max = 100", final_loss["ngn"][-1].max() / math.log(10)),
    expected="reproduced",
    claim="experiment",
    seeds=kept_seeds,
)

# %% [markdown]
# ## For the practitioner
#
# - **Start with `NGN(lr=1)` and try $10$ and $0.1$.** One forward and one backward pass a step, as SGD. Put a decreasing schedule on `lr` if the batches disagree at the end: the error term of {prf:ref}`thesis-thm-4-3-1` shrinks with $\eta_{\max}$.
# - **Expect a wider range of settings, not a better result.** Where SGD with a tuned step works, NGN was within one point of its test accuracy here.
# - **The loss can be negative**, as a log-density, a reward or a difference of losses can: there is no root, and no guarantee. The library raises an error.
# - **The minimum is positive and not small**: targets that are no longer 0 or 1 (label smoothing), a strong penalty, noisy targets. Large steps stop short. Keep $\eta_{\max}$ moderate, let it decrease, or give `lower_bound` if you know it. The batch's own minimum
#   counts, not the mean's.
# - **Not diverging is not learning.** At $\eta_{\max}=100$ some runs of the convolutional network stay above the loss of guessing, and so do some of the small network from $10$ on. Outside the convex theorem nothing is promised.
# - **Directions that need different steps.** NGN has one step for all parameters, like SGD. Where layers differ by orders of magnitude ({chapter}`vanishing curvature <adaptivity/vanishing_curvature>`), Adam or a coordinate-wise variant is the tool.
#
# ## Exercises
#
# :::{exercise} By hand
# :label: ex-gauss-newton-steps-power
# Let $\ell=\theta^{2m}$ with an integer $m\ge1$ and $\eta_{\max}=\infty$. By what does one step multiply $\theta$? Where have you met this number?
# :::
#
# :::{solution} ex-gauss-newton-steps-power
# :class: dropdown
# $\eta=2\ell/\lVert\nabla\ell\rVert^2=\theta^{2-2m}/(2m^2)$, so $\theta-\eta\cdot2m\theta^{2m-1}=(1-\frac1m)\theta$. NGN is Newton's method for the root of $h=\theta^m$, and this is its
# rate at a zero of multiplicity $m$. For $m=1$ it is exact.
# :::
#
# :::{exercise} Predict a number
# :label: ex-gauss-newton-steps-number
# $\ell=\theta^2+0.5$ and $\eta_{\max}=5$. Where does NGN end, and with which step?
# :::
#
# :::{solution-start} ex-gauss-newton-steps-number
# :class: dropdown
# :::
#
# $\lambda=2$, $\rho=10$: the gap is $0.5\cdot\frac8{12}=\frac13$, so $\theta=\pm\frac1{\sqrt3}$, and the step is $2/\lambda=1$.

# %% tags=["hide-cell"]
theta = torch.tensor(2.0, **like)
for _ in range(1000):
    theta, gap = ngn_gap(theta, 5.0, 2.0, 0.5)
assert abs(gap - 1 / 3) < 1e-9 and abs(abs(theta) - 3**-0.5) < 1e-9

# %% [markdown]
# :::{solution-end}
# :::
#
# :::{exercise} Change one line
# :label: ex-gauss-newton-steps-slow
# In the loop of the last solution put $\eta_{\max}=100$, $\lambda=1$, $c=1$. Expected: after 4,000 steps the gap is still more than one per cent away from {eq}`eq-gauss-newton-steps-gap`, after 20,000 it agrees to six digits. Explain both.
# :::
#
# :::{solution-start} ex-gauss-newton-steps-slow
# :class: dropdown
# :::
#
# $\rho=100$, so near the cycle the distance shrinks by $1-8/\rho^2=0.9992$ a step: a factor $e$ in 1,250 steps. In 4,000 steps it falls to about $e^{-3.2}=0.04$ of what it was, in 20,000 to about $e^{-16}\approx10^{-7}$.

# %% tags=["hide-cell"]
theta, away = torch.tensor(2.0, **like), {}
for k in range(1, 20_001 if run.scale != "smoke" else 4001):
    theta, gap = ngn_gap(theta, 100.0, 1.0, 1.0)
    away[k] = abs(gap.item() / (98 / 102) - 1)
assert away[4000] > 0.01 and away.get(20_000, 0.0) < 1e-6

# %% [markdown]
# :::{solution-end}
# :::
#
# :::{exercise} Finish a proof
# :label: ex-gauss-newton-steps-best
# Step 7 of the proof of {prf:ref}`thesis-thm-4-3-1` has the rate $1/T_0$. For which $\eta_{\max}$ is $T_0$ largest, and how does it compare with the largest $\hat\eta$?
# :::
#
# :::{solution-start} ex-gauss-newton-steps-best
# :class: dropdown
# :::
#
# $LT_0=\frac{2\rho}{(1+2\rho)(1+\rho)}=\frac2{1/\rho+3+2\rho}$, and $1/\rho+2\rho$ is smallest at $\rho=1/\sqrt2$. There
# $T_0=\frac{2}{(3+2\sqrt2)L}\approx\frac{0.343}L$, against $\hat\eta=\frac1{4L}$ at $\rho=\frac12$.

# %% tags=["hide-cell"]
best_rho = brentq(lambda r: 1 / r**2 - 2, 0.1, 2.0)
assert abs(best_rho - 0.5**0.5) < 1e-9
assert abs(2 * best_rho / (1 + 2 * best_rho) / (1 + best_rho) - 0.343) < 1e-3

# %% [markdown]
# :::{solution-end}
# :::
#
# :::{exercise} Open
# :label: ex-gauss-newton-steps-open
# Does NGN settle from almost every start on a quadratic with $d$ curvatures, and at which pace if $\eta_{\max}(L-\mu)$ is large? Known: with two energies nothing else attracts
# ({prf:ref}`thesis-beyond-ngn-limiting-step`); steepest descent with exact line search also ends in the two extreme directions, and there the proof for $d$ dimensions is subtle {cite}`akaike1959successive`.
# :::
#
# ## What to remember
#
# 1. NGN: write the loss as a square, linearize the root. $1/\eta_k=1/\eta_{\max}+\lVert\nabla\ell\rVert^2/2\ell$.
# 2. For convex smooth losses with minimum zero every $\eta_{\max}$ converges. On a quadratic a large one finds $2/(L+\mu)$, the best fixed step, by itself.
# 3. A constant in the loss is a direction that never moves. The price is a two-cycle of height $c\frac{\rho-2}{\rho+2}$, below $c$; `lower_bound` removes it.
# 4. With samples that disagree, an excess loss of $O(\eta_{\max})$ for small $\eta_{\max}$, or $O(\ln K/\sqrt K)$ with decreasing steps, without knowing $L$.
# 5. On our networks it works over a wider range of settings than SGD and a narrower one than Adam. Tuned, it showed no advantage in test accuracy over either. Momentum widens its range.
#
# **Further reading.** {cite}`orvieto2024adaptive` is the published version, with strongly convex rates. {cite}`loizou2021stochastic` introduced the capped stochastic Polyak step.
# {cite}`martens2020natural` has the Gauss-Newton matrix for networks; {chapter}`Fisher and Gauss-Newton <curvature/fisher_and_ggn>` compares it with its relatives.
#
# ## Checks behind this page
#
# The rows check the range of the step, the identity and the key inequality once more, with a largest step that decreases, $\eta_{\max}=100/\sqrt{k+1}$, and the algorithm with its weighted mean.


# %%
def by_hand(steps, power=0.5):  # the algorithm of the source with its weighted mean
    theta, total, weights = begin, torch.zeros(d, **like), 0.0
    for k in range(steps):
        cap = 10 / math.sqrt(k + 1)
        value, gradient = losses(theta, draws[k, :1])
        weight = (k + 1) ** -power
        total, weights = total + weight * theta, weights + weight
        eta = cap / (1 + cap / (2 * value[0]) * gradient[0].square().sum())
        theta = theta - eta * gradient[0]
    return torch.stack([theta, total / weights])


rule = Averaged(rules.NGN(lambda k: 10 / math.sqrt(k + 1)), weight=lambda k: (k + 1) ** -0.5)
library = ensembles.iterate(
    rule,
    lambda theta, k: losses(theta, draws[k, :1]),
    begin[None],
    200,
    record=[200],
    watch=lambda state: state.mean,
)
both = torch.stack([library.last[0], library.watched[-1, 0]])

# %% tags=["hide-input"]
ledger.check(
    "thesis:lemma-d.2.4",
    "With decreasing η_max every step lies in the range of its own η_max",
    measured=range_slack(eta_k, decreasing, L),
    criterion=inequality("distance of η_k/η_max from both ends of its range"),
    control=control("the η_max of the next step", range_slack(eta_k, later, L)),
    expected="holds",
)
ledger.check(
    "thesis:lemma-d.2.5",
    "The identity holds with decreasing η_max",
    measured=identity_error(eta_k, decreasing),
    criterion=identity("(η_k‖∇ℓ‖² − 2ℓ(η_max − η_k)/η_max)/2ℓ"),
    control=control("the η_max of the next step", identity_error(eta_k, later)[distances > 0.1]),
    expected="holds",
)
ledger.check(
    "thesis:lemma-d.2.6",
    "The key inequality holds with decreasing η_max",
    measured=key_slack(value, squared, floors, decreasing),
    criterion=inequality("right minus left side, over η_max", size=100.0),
    control=control("without the term in ℓ⋆", key_slack(value, squared, floors, decreasing, second=0.0)),
    expected="holds",
)
ledger.check(
    "thesis:alg-ngn-decreasing",
    "Iterate and weighted mean of the library are those of the written-out algorithm",
    measured=apart(by_hand(200), both),
    criterion=identity("relative distance of θ_200 and of the weighted mean", condition=100.0),
    control=control("equal weights", apart(by_hand(200, power=0.0), both)[1]),
    expected="holds",
)

# %% tags=["remove-input"]
ledger.table()
