# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Which boundary does gradient descent choose?
#
# You train a linear classifier. After a minute every training image is right, and yet the loss goes on to fall and the weights go on to grow. A loss such as the logistic one is never zero, so there is nowhere to arrive: the
# length of the weights has no limit, and only their direction, the boundary between the classes, can settle. Many boundaries separate the training data. Whether it pays to go on depends on which of them training is heading for, and how soon it gets there.
#
# **To which boundary does gradient descent turn, and how fast?** To the one that keeps the largest distance from the nearest points, the *maximum margin*. But its distance from there falls only like
# $1/\log t$ with the time $t$ of training: if one unit of time took a second, after the age of the universe the boundary would still be visibly off. **What breaks it**: squared loss stops at another
# boundary, steps along the signs of the gradient head for another margin, and a loss that falls only like a power of the margin leaves the maximum margin again. One small change repairs the speed: divide
# the gradient by the loss, and $1/\log t$ becomes $1/k$ after $k$ steps.

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

import torch

from learning_dynamics import data, ensembles, figures, runs
from learning_dynamics.figures import COLORS
from learning_dynamics.implicit_bias import margins
from learning_dynamics.ledger import (
    Ledger,
    at_least,
    at_most,
    confident,
    control,
    correction,
    identity,
    inequality,
    ordering,
)
from learning_dynamics.rules import GradientDescent

figures.use_style()
run = runs.Run("implicit_bias/maximum_margin", scale=SCALE, device=DEVICE, seed=SEED)
ledger = Ledger(run)
like = {"dtype": run.dtype, "device": run.device}


def tensor(values):
    return torch.tensor(values, **like)


turn = tensor([[math.cos(0.6), math.sin(0.6)], [-math.sin(0.6), math.cos(0.6)]])
near = [[1.0, 0.7], [1.0, -0.2], [1.4, 1.9], [1.2, 1.4], [1.6, 2.2]]
idle = [[1.9, 1.5], [1.5, 0.9], [1.3, 2.4], [2.1, 0.6], [1.9, 2.0]]
y = tensor([1.0, -1, 1, 1, -1, 1, -1, -1, -1, 1])
X = y[:, None] * (tensor(near + idle) @ turn)
times = {
    "1 s": 0.0,
    "1 day": math.log(86_400),
    "13.8 billion years": math.log(4.35e17),
    "$e^{4000}$ s": 4000.0,
}
clock = torch.cat([torch.linspace(-1, 10, 45), torch.logspace(1.02, math.log10(4000), 60)]).double()
clock = torch.unique(torch.cat([clock, torch.tensor(list(times.values()), dtype=torch.float64)]))

# %% [markdown]
# Ten points $X$ in the plane with labels $y=\pm1$. The cell computes three boundaries through the origin, each given by its normal vector: the maximum margin, as a support vector machine; the continuous-time limit of gradient descent on the exponential loss, at the logarithms of time in `clock`; and least squares.

# %%
opening = margins.signed_samples(X, y)  # each sample times its label
svm = margins.hard_margin_svm(opening)
turning = margins.exponential_flow(opening, torch.zeros(2, **like), clock, tolerance=1e-8).values
least_squares = torch.linalg.lstsq(X, y[:, None]).solution.squeeze(-1)


def angle(theta, target):  # in degrees
    cosine = (theta @ target) / (theta.norm(dim=-1) * target.norm())
    sine = (theta[..., 0] * target[1] - theta[..., 1] * target[0]) / (theta.norm(dim=-1) * target.norm())
    return torch.rad2deg(torch.atan2(sine.abs(), cosine))


# %% tags=["hide-input"] mystnb={"figure": {"caption": "**The clock and the boundary.** Left: gradient flow of the exponential loss on ten points; the boundary after one second, one day, the age of the universe, and e⁴⁰⁰⁰ seconds, where it lies on the maximum-margin boundary with its empty strip (grey). Right: the angle that is left falls like one over the logarithm of the time. What breaks it (dashed): the boundary of least squares, which never turns there.", "name": "fig-maximum-margin-clock"}, "image": {"alt": "Left, two groups of points with an empty grey strip between them and five lines through the origin that turn step by step into the middle of the strip; a dashed line stays tilted. Right, on logarithmic axes the angle falls along a straight line of slope minus one from about forty degrees to a twentieth of a degree, marks at one second, a day, the age of the universe and e to the 4000; a dashed horizontal line stays above."}}
fig, (left, right) = figures.subplots(1, 2, size=(9.4, 4.2))
for side, marker, color in ((1, "o", COLORS["blue"]), (-1, "s", COLORS["vermillion"])):
    left.plot(*X[y == side].T, marker, color=color, markersize=6)
normal = svm.weights / svm.weights.norm()
along = 9 * torch.stack([-normal[1], normal[0]])
strip = torch.stack([normal + along, normal - along, -normal - along, -normal + along])
left.add_patch(figures.plt.Polygon(strip.numpy(), color=COLORS["pale grey"], zorder=0))
shades = figures.plt.get_cmap("viridis")
for i, (name, log_time) in enumerate(times.items()):
    at = int((clock - log_time).abs().argmin())
    theta = turning[at] / turning[at].norm()
    line = torch.stack([-theta[1], theta[0]])
    left.plot(*torch.stack([-4 * line, 4 * line]).T, "-", marker="", color=shades(i / 3.6), label=name)
    turned_by = angle(turning[at], svm.weights).item()
    spot, shift = (
        (math.log1p(math.exp(log_time)) if i < 3 else log_time, turned_by),
        (8, 4) if i < 3 else (-10, -4),
    )
    right.plot(*spot, "o", color=shades(i / 3.6), markersize=8, zorder=3)
    right.annotate(name, spot, shift, textcoords="offset points", ha="left" if i < 3 else "right")
line = torch.stack([-least_squares[1], least_squares[0]]) / least_squares.norm()
figures.line_control(left, *torch.stack([-4 * line, 4 * line]).T, label="least squares")
left.set(xlim=(-3.2, 3.2), ylim=(-3, 3), aspect="equal", xlabel="$x_1$", ylabel="$x_2$")
left.legend(loc="upper center", fontsize=7.5, bbox_to_anchor=(0.5, -0.16), ncol=3)
later = torch.logaddexp(torch.zeros_like(clock), clock)  # log(1 + t)
right.plot(later, angle(turning, svm.weights), "-", marker="", color=COLORS["ink"])
figures.line_control(right, later, 0 * clock + angle(least_squares, svm.weights), label="least squares")
right.set(
    xscale="log",
    yscale="log",
    xlim=(0.25, 7000),
    xlabel="log(1 + t) (the clock's logarithm)",
    ylabel="angle to the maximum margin, degrees",
)
right.legend(loc="lower left", fontsize=8)
figures.plt.show()

# %% [markdown]
# In the update that this book follows,
#
# $$\begin{aligned}\theta_{k+1}=\theta_k&-\eta_k\,P_k\,(\nabla\mathcal L(\theta_k)+\xi_k)\\&+\beta_1(\theta_k-\theta_{k-1}),\end{aligned}$$
#
# with the step size $\eta_k$, a matrix $P_k$ in front of the gradient, noise $\xi_k$ and momentum $\beta_1$ (here, unless said otherwise, $P_k=I$, $\xi_k=0$ and $\beta_1=0$),
# this chapter looks at $\mathcal L$ itself: at what the loss does far away, since it has no minimum at any finite $\theta$. In
# [the first chapter](minimum_norm) the start decided among the solutions. Here the start has no influence on the limit; the loss and the norm decide. After reading on you can
#
# - predict the limit of gradient descent on separable data, for the Euclidean norm and for sign steps;
# - bound the margin at any time, from any start, with constants;
# - say why the approach is $1/\log t$, and compute the constant in front from the support vectors;
# - repair the speed with one division, and prove that the gap of the repaired steps is $O(1/k)$;
# - name the losses and data for which all of this is false.
#
# The source is section 9.4 of {cite}`ma2022lecture`, which follows {cite}`soudry2018implicit,ji2019implicit`. You need gradient flow
# ([Tools in ten minutes](../toolbox/tools_in_ten_minutes)) and convexity ({prf:ref}`thesis-def-a-3-2`, and {prf:ref}`thesis-thm-a-3-1`
# for its gradient). The page runs in about 35 seconds on one CPU core.
#
# ## The setting
#
# We have samples $x_1,\dots,x_n\in\mathbb R^d$ with labels $y_i\in\{-1,+1\}$, and classify by the sign of $\langle\theta,x\rangle$. Whether sample $i$ is right depends on
# $y_i\langle\theta,x_i\rangle$ alone. So we fold the label into the sample once and for all: the **signed sample** is $z_i=y_ix_i$, and $\theta$ is right on it if
# $\langle z_i,\theta\rangle>0$.
#
# :::{prf:assumption} Separable data, and a loss with an exponential tail
# :label: regularization-assumption-separable
# There is a $\theta$ with $\langle z_i,\theta\rangle>0$ for all $i$. The loss is $\mathcal L(\theta)=\sum_{i=1}^n\ell(\langle z_i,\theta\rangle)$ with the logistic
# $\ell(z)=\log(1+e^{-z})$ or the exponential $\ell(z)=e^{-z}$.
# :::
#
# :::{admonition} The loss is a sum here
# :class: note
# As in the source, $\mathcal L$ is the sum over samples, not the mean of the rest of the book. With the mean, times and the step sizes of gradient descent below are to be multiplied by $n$ (normalized and sign steps stay as they are), and $\log n$ is to
# be added to $-\log\mathcal L$. No direction changes. No offset is fitted either: a boundary passes through the origin. Append a constant feature to have one.
# :::
#
# :::{dropdown} The letters of the source
# | here | source, section 9.4 | meaning |
# |---|---|---|
# | $\theta$, $\theta_0$, $\theta_k$, $\theta(t)$ | $w$, $w(0)$, –, $w(t)$ | weights |
# | $z_i=y_ix_i$ | $y^{(i)}x^{(i)}$ | signed sample |
# | $\mathcal L$, $\ell$ | $\hat L$, $\ell$ | loss, a sum |
# | $\gamma(\theta)$, $\tilde\gamma(\theta)$, $\bar\gamma$, $w^\star$ | $\gamma(w)$, $\tilde\gamma(w)$, $\bar\gamma$, $w^*$ | normalized, smooth and largest margin, its direction |
# | $\hat w=w^\star/\bar\gamma$, $a_i$ | not used | the hard-margin classifier, its multipliers |
# | $p_i=e^{-\langle z_i,\theta\rangle}/\mathcal L$, $g=\sum_ip_iz_i$ | not used | shares of the exponential loss, mean sample |
# | $R=\max_i\lVert z_i\rVert$, $H$, $H_\infty$ | not used | longest sample, Shannon and min-entropy |
# :::
#
# :::{prf:definition} Margin
# :label: regularization-def-9-22
# The margin of $\theta$ on separable data is $\min_i\langle z_i,\theta\rangle$. It is positive if $\theta$ separates the data.
# :::
#
# Doubling $\theta$ doubles this number without moving the boundary. What is geometric is the distance of the nearest point from the boundary:
#
# :::{prf:definition} Normalized margin
# :label: regularization-def-9-23
# For $\theta\neq0$, $\;\gamma(\theta)=\dfrac{\min_i\langle z_i,\theta\rangle}{\lVert\theta\rVert}$. For every $c>0$, $\gamma(c\,\theta)=\gamma(\theta)$. (For $c<0$ the minimum turns into minus the maximum.)
# :::
#
# :::{prf:definition} Maximum margin
# :label: regularization-def-9-24
# $\bar\gamma=\max_{\theta\neq0}\gamma(\theta)$, and $w^\star$ is the unit vector with $\gamma(w^\star)=\bar\gamma$.
# :::
#
# There is only one such vector: if two unit vectors had margin $\bar\gamma$, their midpoint would have at least that and a norm below one. The scaled vector
# $\hat w=w^\star/\bar\gamma$ is the hard-margin support vector machine, the shortest vector with $\langle z_i,\hat w\rangle\ge1$. By the optimality conditions of that problem
#
# $$
# \begin{aligned}
# \hat w=\sum_ia_iz_i,\quad a_i&\ge0,\\
# a_i&>0\text{ only if }\langle z_i,\hat w\rangle=1.
# \end{aligned}
# $$ (eq-maximum-margin-kkt)
#
# The $a_i$ are the Lagrange multipliers of the constraints, *multipliers* in short: with which weight a sample holds the boundary in place. Take the inner product with $\hat w$: $\sum_ia_i=\lVert\hat w\rVert^2=1/\bar\gamma^2$. The samples with $\langle z_i,\hat w\rangle=1$ are the **support vectors**. The library solves for $\hat w$ with non-negative least squares, a finite method that has nothing to do with
# gradients.
#
# Three families of random data are used in all checks: $n$ normal samples in $d$ dimensions, with those removed that lie closer than $0.3$ to a hidden boundary. Each seed is one data set, and the
# data sets are one batch axis.

# %%
shapes = [(20, 2), (40, 20), (100, 10)]
seeds = run.seeds(smoke=4, book=20, paper=100)


def problem(seed, n, d):  # signed samples; drawn again if nearly degenerate, see below
    source = run.generator(f"{n} samples", seed=seed)
    while True:
        hidden = torch.randn(d, generator=source, dtype=run.dtype)
        X = torch.randn(8 * n, d, generator=source, dtype=run.dtype)
        side = X @ hidden / hidden.norm()
        X, y = X[side.abs() > 0.3][:n], side[side.abs() > 0.3][:n].sign()
        signed = margins.signed_samples(X, y)
        best = margins.hard_margin_svm(signed)
        others = margins.functional_margins(best.weights, signed)[~best.support]
        pulls = signed[best.support] * best.dual[best.support].sqrt()[:, None]
        if others.min() > 1.002 and torch.linalg.svdvals(pulls)[-1] ** 2 > 0.002:
            return (signed,)


families = [
    ensembles.stack_over_seeds(lambda seed, size=size: problem(seed, *size), seeds)[0] for size in shapes
]
families = [signed.to(run.device) for signed in families]
best = [margins.hard_margin_svm(signed) for signed in families]

# %% [markdown]
# The redrawing leaves out data sets that are nearly degenerate: another sample within 0.2 % of the support vectors, or multipliers so small or support vectors so nearly dependent that the
# law below sets in late. They change no limit, but that law is checked at one time.
#
# The update of this chapter, written out:


# %%
def logistic_descent(signed, eta, theta, steps):
    iterates = [theta]
    for _ in range(steps):
        wrongness = 1 / (1 + torch.exp(signed @ theta))  # near 1 where theta is wrong
        theta = theta + eta * wrongness @ signed
        iterates.append(theta)
    return torch.stack(iterates)


by_hand = logistic_descent(opening, 0.1, torch.zeros(2, **like), 50)
gradient = margins.logistic_gradient(opening)
library = ensembles.iterate(GradientDescent(0.1), gradient, torch.zeros(2, **like), 50, record=range(51))
assert torch.allclose(library.values, by_hand, rtol=1e-12, atol=1e-12)

# %% [markdown]
# ## Far out, the loss sees only the nearest samples
#
# Why does the loss favour a large margin? Four observations show it.
#
# **The loss goes to zero.** Along a separating direction every term vanishes, so $\inf\mathcal L=0$, and gradient descent finds it. For the flow of the exponential loss from zero we prove more below: $\mathcal L(\theta(t))\le1/(1/n+\bar\gamma^2t)$.
#
# **So the weights diverge.** With $\lVert\theta\rVert\le B$ every $\langle z_i,\theta\rangle$ is at most $B\lVert z_i\rVert$, and the loss stays above a positive constant:
#
# $$\mathcal L(\theta)\ge\sum_i\ell(B\lVert x_i\rVert)>0,\qquad\text{for logistic loss }\sum_i\log\bigl(1+e^{-B\lVert x_i\rVert}\bigr).$$
#
# **Far out the logistic loss is exponential.** For every $z$, with $u=e^{-z}$: $\;u-\tfrac12u^2\le\log(1+u)\le u$. At $z=10$ the two differ by two parts in $10^5$.
#
# **The logarithm of a sum of exponentials is nearly its largest term.** For $q>0$ and numbers $u_1,\dots,u_n$,
#
# $$q\max_iu_i\;\le\;\log\sum_ie^{qu_i}\;\le\;q\max_iu_i+\log n .$$ (eq-maximum-margin-lse)
#
# Put $u_i=-\langle z_i,\bar w\rangle$ with $\bar w=\theta/\lVert\theta\rVert$ and $q=\lVert\theta\rVert$. Then, for the exponential loss, $\log\mathcal L(\theta)=-q\,\gamma(\theta)$ up to $\log n$. When $q$ is
# large, to make the loss small at a given norm is to make the margin large.
#
# :::{dropdown} Proofs
# 1. *Bounded weights.* By the Cauchy–Schwarz inequality $\langle z_i,\theta\rangle\le B\lVert z_i\rVert=B\lVert x_i\rVert$, and $\ell$ decreases.
# 2. *Tails.* $\frac{d}{du}\log(1+u)=\frac1{1+u}$ lies between $1-u$ and $1$ for $u\ge0$. Integrate from $0$.
# 3. *Log-sum-exp.* The sum is at least its largest term and at most $n$ times it. Take logarithms. $\square$
# :::
#
# The source prints the sum of $e^{-B\lVert x_i\rVert}$ as the lower bound for the logistic loss too. That is slightly too much, since $\log(1+u)<u$. The checks of the four observations stand at the end of the page. The next section replaces "up to $\log n$" by an equation.
#
# ## The gap is an entropy
#
# From here on the loss is exponential, $\mathcal L(\theta)=\sum_ie^{-\langle z_i,\theta\rangle}$. Define the **smooth margin**
#
# $$\tilde\gamma(\theta)=\frac{-\log\mathcal L(\theta)}{\lVert\theta\rVert},$$
#
# and let $p_i=e^{-\langle z_i,\theta\rangle}/\mathcal L(\theta)$ be the share of sample $i$ in the loss. The shares form a probability vector. Two entropies measure how evenly they are spread:
# Shannon's entropy $H(p)=-\sum_ip_i\log p_i$ and the min-entropy $H_\infty(p)=-\log\max_ip_i$, with $0\le H_\infty\le H\le\log n$.
#
# :::{prf:theorem} The margin sandwich
# :label: regularization-eq-9-156
# For every $\theta\ne0$,
#
# $$\gamma(\theta)-\tilde\gamma(\theta)=\frac{H_\infty(p)}{\lVert\theta\rVert},\qquad\text{hence}\qquad
# \gamma(\theta)-\frac{\log n}{\lVert\theta\rVert}\;\le\;\tilde\gamma(\theta)\;\le\;\gamma(\theta)\;\le\;\bar\gamma .$$
#
# Moreover, with the mean sample $g=\sum_ip_iz_i$, $\quad\gamma(\theta)\,\lVert\theta\rVert=\langle g,\theta\rangle-\bigl(H(p)-H_\infty(p)\bigr)$.
# :::
#
# *The key step.* The largest share belongs to the nearest sample: $\max_ip_i=e^{-\min_i\langle z_i,\theta\rangle}/\mathcal L$. Take the logarithm, and the margin appears on one side, the loss on the other.
#
# :::{dropdown} Proof
# 1. $\log\max_ip_i=-\min_i\langle z_i,\theta\rangle-\log\mathcal L$, so $\min_i\langle z_i,\theta\rangle=-\log\mathcal L+H_\infty(p)$. Divide by $\lVert\theta\rVert$.
# 2. The largest of $n$ shares lies between $1/n$ and $1$, so $0\le H_\infty(p)\le\log n$. And $\gamma\le\bar\gamma$ by definition of $\bar\gamma$.
# 3. $\log p_i=-\langle z_i,\theta\rangle-\log\mathcal L$, hence $H(p)=\langle g,\theta\rangle+\log\mathcal L$. Insert $-\log\mathcal L=\langle g,\theta\rangle-H(p)$ in step 1. $\square$
# :::
#
# *By hand.* Two samples with margins $1$ and $2$ under a $\theta$ of length $1$: $\mathcal L=e^{-1}+e^{-2}=0.503$, so the smooth margin is $-\log0.503=0.687$ and the margin is $1$. The shares are $0.731$ and $0.269$; $H_\infty=-\log0.731=0.313$, which is the difference. Ten times the
# weights: $\mathcal L=e^{-10}+e^{-20}$, the smooth margin is $0.999995$.
#
# Each result on this page is checked by a computation whose outcome stands in a row or a card. "1000 values, worst 3.66e-16 against 2.22e-14" says what was measured and how large it was allowed to be; then follows what breaks it, the same number for a wrong statement, which has to fail. "At best" is the value of the wrong statement that comes nearest to passing. Where an inequality is checked along a computed path, "at least $-7\cdot10^{-6}$" leaves room for the error of the solver, and $\varepsilon$ is the rounding of 64-bit numbers.
# {doc}`How claims are checked <../../book/how_claims_are_checked>` explains the cards. A corrected statement is marked *refereed* if a referee, who derived it again from the source, confirmed the correction, and *rederived* if it was derived independently and an exact counterexample on the page shows it. The first check takes random $\theta$ of all lengths, most of which do not separate the data; the second takes the flow itself.


# %%
def shares(theta, signed):
    p = margins.sample_weights(theta, signed)
    return p, torch.special.entr(p).sum(-1), -p.amax(-1).log()  # shares, Shannon entropy, min-entropy


anywhere = [
    10 ** (4 * torch.rand(50, len(seeds), 1, generator=run.generator("lengths"), dtype=run.dtype) - 2)
    * torch.randn(50, len(seeds), d, generator=run.generator("directions"), dtype=run.dtype)
    for n, d in shapes
]
first, second, wrong = [], [], []
for theta, signed in zip([theta.to(run.device) for theta in anywhere], families, strict=True):
    p, shannon, least = shares(theta, signed)
    margin = margins.functional_margins(theta, signed).amin(-1)
    scale = 1 + theta.norm(dim=-1) * signed.norm(dim=-1).amax(-1)
    first.append((margin + margins.log_exponential_loss(theta, signed) - least) / scale)
    second.append(
        (margin - ((p[..., None, :] @ signed).squeeze(-2) * theta).sum(-1) + shannon - least) / scale
    )
    wrong.append(((margin + margins.log_exponential_loss(theta, signed) - shannon) / scale)[scale < 10])

# %% tags=["hide-input"]
ledger.check(
    "regularization:beyond-margin-entropy",
    "Margin minus smooth margin is the min-entropy of the shares over ‖θ‖, at every θ",
    measured=torch.cat([torch.stack(first).reshape(-1), torch.stack(second).reshape(-1)]),
    criterion=identity("(min⟨zᵢ,θ⟩ + log L − H∞)/(1 + R‖θ‖), and the form with ⟨g,θ⟩"),
    control=control("Shannon's entropy in the place of H∞", torch.cat(wrong)),
    expected="holds",
    seeds=seeds,
)

# %% [markdown]
# Now the flow $\dot\theta=-\nabla\mathcal L(\theta)$. At time $e^{4000}$ neither the time nor the loss fits in a floating-point number, so the library integrates in $s=\log(1+t)$, with
# everything under logarithms:
#
# $$\frac{d\theta}{ds}=e^{\,s+\log\mathcal L(\theta)}\,g(\theta).$$
#
# (The flow is $\dot\theta=\mathcal L\,g$, since $\nabla\mathcal L=-\sum_iz_ie^{-\langle z_i,\theta\rangle}$, and $dt=e^sds$.) The exponent stays bounded, because $t\,\mathcal L$ tends to a constant ({prf:ref}`regularization-beyond-log-law`). We follow every data set up to $t=e^{100000}$, from two starts: zero and a draw from $N(0,9I)$.

# %%
log_times = torch.cat(
    [
        torch.linspace(-2, 10, run.pick(smoke=13, book=37, paper=61), dtype=run.dtype),
        torch.logspace(1.05, 3.6, run.pick(smoke=12, book=35, paper=60), dtype=run.dtype),
        torch.tensor([1e4, 1e5], dtype=run.dtype),
    ]
)
tolerance = run.pick(smoke=1e-5, book=1e-7, paper=1e-7)  # of the solver, one step, in units of θ
starts, paths = [], []
for (_, d), signed in zip(shapes, families, strict=True):
    draw = 3 * torch.randn(len(seeds), d, generator=run.generator(f"start {d}"), dtype=run.dtype).to(
        run.device
    )
    starts.append(torch.stack([0 * draw, draw]))
    flow = margins.exponential_flow(signed, starts[-1], log_times, tolerance=tolerance)
    paths.append(flow.values)  # (T, 2, seeds, d)
log_times = log_times.to(run.device)


def over_families(measure):  # measure(path, signed, best, start) for each family, all numbers in one row
    return torch.cat([measure(*each).reshape(-1) for each in zip(paths, families, best, starts, strict=True)])


# %%
def sandwich(path, signed, best, start):  # the three inequalities, right minus left side, times the norm
    norm = path.norm(dim=-1)
    hard, smooth = margins.normalized_margin(path, signed), margins.smooth_margin(path, signed)
    steps = torch.stack(
        [smooth - hard + math.log(signed.shape[-2]) / norm, hard - smooth, best.margin - hard]
    )
    return steps * norm / (1 + norm)


def without_log_n(path, signed, best, start):
    norm = path.norm(dim=-1)
    return (
        (margins.smooth_margin(path, signed) - margins.normalized_margin(path, signed)) * norm / (1 + norm)
    )[:10, 0]


# %% tags=["hide-input"]
ledger.check(
    "regularization:eq-9.156",
    "Along every flow: γ − log n/‖θ‖ ≤ γ̃ ≤ γ ≤ γ̄",
    measured=over_families(sandwich),
    criterion=inequality("right minus left side of the three inequalities", size=10.0),
    control=control(
        "the first inequality without log n, early on the paths from zero", over_families(without_log_n)
    ),
    expected="holds",
    seeds=seeds,
    show="card",
)

# %% tags=["hide-input"] mystnb={"figure": {"caption": "**The sandwich closes.** Left: margins along one flow from zero on 40 samples in 20 dimensions, against the logarithm of time: the smooth margin (blue) and the margin (vermillion) rise to the maximum (black); between them lies the min-entropy of the shares, at most log n/‖θ‖ (grey). Right: the distance of both from the maximum, over all data sets of this family (bands: 95 %), with the guarantee of the theorem dotted. What breaks it (dashed): stop training at the least-squares solution.", "name": "fig-maximum-margin-sandwich"}, "image": {"alt": "Left, two rising curves, one above the other, squeezed against a horizontal line as log t grows, inside a grey wedge. Right, on logarithmic axes two parallel falling lines with thin bands below a dotted line, and a dashed horizontal line far above at the right end."}}
fig, (left, right) = figures.subplots(1, 2, size=(9.4, 3.8))
signed, top = families[1], best[1].margin
from_zero = paths[1][:, 0]
hard, smooth = margins.normalized_margin(from_zero, signed), margins.smooth_margin(from_zero, signed)
shown = (log_times > 1.9) & (log_times < 4001)
wedge = hard - math.log(40) / from_zero.norm(dim=-1)
left.fill_between(
    log_times[shown],
    wedge[shown, 0],
    hard[shown, 0],
    color=COLORS["pale grey"],
    label="within log n/‖θ‖ below γ",
)
left.plot(log_times[shown], smooth[shown, 0], marker="", label="smooth margin γ̃")
left.plot(log_times[shown], hard[shown, 0], marker="", label="margin γ")
left.axhline(top[0].item(), color=COLORS["ink"], lw=1.2, label="maximum margin")
left.set(xscale="log", xlabel="log t", ylabel="margin", ylim=(top[0].item() - 1.0, top[0].item() + 0.08))
left.legend(loc="lower right", fontsize=8)
bound = top * math.log(40) / torch.logaddexp(tensor(-math.log(40)), log_times[shown, None] + 2 * top.log())
figures.band(
    right, log_times[shown], (1 - smooth / top)[shown].T, label="1 − γ̃/max", geometric=True, marker=""
)
figures.band(right, log_times[shown], (1 - hard / top)[shown].T, label="1 − γ/max", geometric=True, marker="")
right.plot(
    log_times[shown],
    (bound / top).log().mean(-1).exp(),
    ":",
    color=COLORS["ink"],
    marker="",
    label="guarantee",
)
labels = signed[..., :1].sign()
fitted = torch.linalg.lstsq(signed, torch.ones_like(labels)).solution.squeeze(-1)
left_over = (1 - margins.normalized_margin(fitted, signed) / top).mean().item()
figures.line_control(right, log_times[shown], 0 * log_times[shown] + left_over, label="least squares")
right.set(
    xscale="log", yscale="log", xlabel="log t", ylabel="relative gap to the maximum margin", ylim=(1e-5, 9)
)
right.legend(loc="lower left", fontsize=8)
figures.plt.show()

# %% tags=["hide-input"]
figures.numbers(
    run,
    "fig-maximum-margin-sandwich",
    {
        "log_time": log_times[shown],
        "gap": (1 - hard / top)[shown].log().mean(-1).exp(),
        "smooth_gap": (1 - smooth / top)[shown].log().mean(-1).exp(),
    },
    rtol=1e-4,
)

# %% [markdown]
# ## The flow ends at the maximum margin
#
# The margin lies between the smooth margin and $\bar\gamma$. So it is enough to show that the smooth margin tends to $\bar\gamma$. It is a quotient whose numerator $-\log\mathcal L$ and denominator $\lVert\theta\rVert$ both grow, so we must compare their speeds.
#
# :::{prf:theorem} Gradient flow converges to the maximum margin
# :label: regularization-thm-9-25
# Let the data be separable and $\dot\theta=-\nabla\mathcal L(\theta)$ with the exponential loss. From every start $\theta_0$ the flow exists for all times, and
#
# $$\gamma(\theta(t))\to\bar\gamma,\qquad\frac{\theta(t)}{\lVert\theta(t)\rVert}\to w^\star\qquad(t\to\infty).$$
#
# With constants: if $\mathcal L_0=\mathcal L(\theta_0)$, then for every $t>0$ with $1/\mathcal L_0+\bar\gamma^2t>1$
#
# $$0\le\bar\gamma-\gamma(\theta(t))\;\le\;\frac{\log\mathcal L_0+\bar\gamma\lVert\theta_0\rVert}{\lVert\theta(t)\rVert}\;\le\;
# \bar\gamma\;\frac{\log\mathcal L_0+\bar\gamma\lVert\theta_0\rVert}{\log(1/\mathcal L_0+\bar\gamma^2t)} .$$
#
# From zero the numerator is $\log n$.
# :::
#
# *The key step.* Every sample pulls with its share $p_i$, and each pull has a component of at least $\bar\gamma$ along $w^\star$: $\lVert g\rVert\ge\langle g,w^\star\rangle=\sum_ip_i\langle z_i,w^\star\rangle\ge\bar\gamma$. So $-\log\mathcal L$ grows at the rate $\lVert\dot\theta\rVert\,\lVert g\rVert\ge\bar\gamma\,\lVert\dot\theta\rVert$: per unit of path, at
# least $\bar\gamma$.
#
# :::{prf:lemma} The loss pays for the path
# :label: regularization-eq-9-164
# Along the flow, for every $T\ge0$,
#
# $$\begin{aligned}-\log\mathcal L(\theta(T))&=-\log\mathcal L(\theta_0)+\int_0^T\frac{\lVert\dot\theta\rVert^2}{\mathcal L}\,dt\\
# &\ge-\log\mathcal L(\theta_0)+\bar\gamma\,\lVert\theta(T)-\theta_0\rVert .\end{aligned}$$
# :::
#
# :::{dropdown} Proof of the lemma and of the theorem
# 1. $\nabla\mathcal L=-\sum_iz_ie^{-\langle z_i,\theta\rangle}=-\mathcal L\,g$, so $\dot\theta=\mathcal L\,g$. The loss decreases, so $\lVert\dot\theta\rVert\le\mathcal L_0R$ with
#    $R=\max_i\lVert z_i\rVert$: no blow-up in finite time.
# 2. $\frac{d}{dt}(-\log\mathcal L)=\lVert\nabla\mathcal L\rVert^2/\mathcal L=\lVert\dot\theta\rVert^2/\mathcal L=\lVert\dot\theta\rVert\,\lVert g\rVert\ge\bar\gamma\lVert\dot\theta\rVert$ by the key step.
# 3. Integrate: $\int_0^T\lVert\dot\theta\rVert\,dt\ge\lVert\int_0^T\dot\theta\,dt\rVert=\lVert\theta(T)-\theta_0\rVert$. This is the lemma.
# 4. *The gap.* $\lVert\theta(T)-\theta_0\rVert\ge\lVert\theta(T)\rVert-\lVert\theta_0\rVert$. Divide the lemma by $\lVert\theta(T)\rVert$:
#    $\tilde\gamma(\theta(T))\ge\bar\gamma-(\log\mathcal L_0+\bar\gamma\lVert\theta_0\rVert)/\lVert\theta(T)\rVert$. With $\tilde\gamma\le\gamma\le\bar\gamma$
#    ({prf:ref}`regularization-eq-9-156`) the first bound follows. Its numerator is not negative, since $\tilde\gamma(\theta_0)\le\bar\gamma$.
# 5. *The norm.* $\frac{d}{dt}\frac1{\mathcal L}=\lVert\nabla\mathcal L\rVert^2/\mathcal L^2=\lVert g\rVert^2\ge\bar\gamma^2$, so $1/\mathcal L\ge1/\mathcal L_0+\bar\gamma^2t$. By $\tilde\gamma\le\bar\gamma$,
#    $\bar\gamma\lVert\theta\rVert\ge-\log\mathcal L\ge\log(1/\mathcal L_0+\bar\gamma^2t)$. This is the second bound, and it tends to zero.
# 6. *The direction.* Let $u=\theta/\lVert\theta\rVert$ and $p^\star_i=\bar\gamma^2a_i$, a probability vector by {eq}`eq-maximum-margin-kkt` with $\sum_ip^\star_iz_i=\bar\gamma w^\star$. Then
#    $\gamma(u)\le\sum_ip_i^\star\langle z_i,u\rangle=\bar\gamma\langle w^\star,u\rangle$, so $\lVert u-w^\star\rVert^2=2-2\langle w^\star,u\rangle\le2(1-\gamma(u)/\bar\gamma)\to0$. $\square$
# :::
#
# The theorem and its constants are for the exponential loss, as is the source's proof; the source's section is about the logistic loss, for which the limit is the same {cite}`soudry2018implicit,ji2019implicit`. The check after the law below follows the logistic flow too.
#
# The card measures the gap as a share of the guarantee, on all data sets, from both starts, at all times. What breaks it is a method that converges to another boundary: least
# squares.


# %%
def guarantee(path, signed, best, start):  # the last member of the theorem's chain, and where it applies
    log_loss = margins.log_exponential_loss(start, signed)
    above = torch.logaddexp(-log_loss, log_times[:, None, None] + 2 * best.margin.log())
    return best.margin * (log_loss + best.margin * start.norm(dim=-1)) / above, above > 0


def gap_share(path, signed, best, start):
    bound, applies = guarantee(path, signed, best, start)
    return ((best.margin - margins.normalized_margin(path, signed)) / bound)[applies]


def least_squares_share():  # the largest family: there no data set happens to be solved by least squares
    fitted = torch.linalg.lstsq(families[2], torch.ones_like(families[2][..., :1])).solution.squeeze(-1)
    bound, _ = guarantee(paths[2], families[2], best[2], starts[2])
    return (best[2].margin - margins.normalized_margin(fitted, families[2])) / bound[-1]


single, aside = (
    tensor([[1.0, 0.0]]),
    tensor([0.0, 2.0]),
)  # one sample, where the start's length is all of the bound
beside = margins.exponential_flow(single, aside, log_times.cpu(), tolerance=tolerance).values[:, None, None]
one_share = gap_share(beside, single, margins.hard_margin_svm(single), aside).reshape(-1)

# %% tags=["hide-input"]
ledger.check(
    "regularization:thm-9.25",
    "From any start the margin of the flow tends to the largest one, within the stated bound",
    measured=torch.cat([over_families(gap_share), one_share]),
    criterion=at_most("(γ̄ − γ(θ(t))) over the bound", 1.0, signed=True),
    control=control("least squares, at the last time", least_squares_share),
    expected="holds",
    seeds=seeds,
    show="card",
)


# %%
def up_to_solver(symbols):  # an inequality along computed paths: θ is known up to the solver's tolerance
    longest = max(signed.norm(dim=-1).max().item() for signed in families)
    return at_least(
        symbols, -10 * tolerance * longest, bound_symbols="−10 tolerances of the solver times R", signed=True
    )


def loss_slack(path, signed, best, start, rate=None):
    lower = best.margin if rate is None else rate
    log_loss = margins.log_exponential_loss(path, signed)
    first = margins.log_exponential_loss(start, signed)
    return -log_loss - torch.logaddexp(-first, log_times[:, None, None] + 2 * lower.log())


def with_longest(path, signed, best, start):
    return loss_slack(path, signed, best, start, signed.norm(dim=-1).amax(-1))[-20:]


# %% tags=["hide-input"]
ledger.check(
    "regularization:claim-loss-vanishes",
    "The loss goes to zero: 1/L(θ(t)) ≥ 1/L(θ₀) + γ̄²t",
    measured=over_families(loss_slack),
    criterion=up_to_solver("−log L − log(1/L₀ + γ̄²t)"),
    control=control("R² in the place of γ̄²", over_families(with_longest)),
    expected="holds",
    noise=1e-9,
    seeds=seeds,
)


# %%
def norm_slack(path, signed, best, start):  # from zero: two sides
    n, longest = signed.shape[-2], signed.norm(dim=-1).amax(-1)
    length = best.margin * path[:, 0].norm(dim=-1)
    lower = torch.logaddexp(tensor(-math.log(n)), log_times[:, None] + 2 * best.margin.log())
    upper = torch.logaddexp(tensor(0.0), math.log(n) + log_times[:, None] + 2 * longest.log())
    return torch.stack([length - lower, upper - length])


def norm_with_longest(path, signed, best, start):
    length = best.margin * path[:, 0].norm(dim=-1)
    return (length - log_times[:, None] - 2 * signed.norm(dim=-1).amax(-1).log())[-20:]


# %% tags=["hide-input"]
ledger.check(
    "regularization:beyond-norm-rate",
    "From zero: log(1/n + γ̄²t) ≤ γ̄‖θ(t)‖ ≤ log(1 + nR²t)",
    measured=over_families(norm_slack),
    criterion=up_to_solver("right minus left side of both"),
    control=control("log(R²t) as the lower bound", over_families(norm_with_longest)),
    expected="holds",
    noise=1e-9,
    seeds=seeds,
)

# %% [markdown]
# **Cite this result** as the anchor `regularization-thm-9-25` of this page, with the release of the book.
#
# The row on $\bar\gamma\lVert\theta(t)\rVert$ says why the approach is slow: the length of $\theta$ is $\log t/\bar\gamma$ up to a constant, and the guarantee for the gap is a constant over this length. (Upper bound: $\lVert g\rVert\le R$ gives $1/\mathcal L\le1/n+R^2t$, and the lemma gives
# $\bar\gamma\lVert\theta\rVert\le\log n-\log\mathcal L$.)
#
# ### Why the start must be subtracted
#
# From $\theta_0$ to $\theta(T)$ the path is at least $\lVert\theta(T)-\theta_0\rVert$ long, and that may be less than $\lVert\theta(T)\rVert$. The source prints $\lVert\theta(T)\rVert$ in {prf:ref}`regularization-eq-9-164`, which is right for $\theta_0=0$; for another start read
# $\lVert\theta(T)-\theta_0\rVert$, as above; the limit is the same. One sample shows the difference: $z=(1,0)$ and $\theta_0=(2,0)$. Here $\bar\gamma=1$ and
# $-\log\mathcal L(\theta)=[\theta]_1$. The lemma reads $[\theta(T)]_1\ge2+([\theta(T)]_1-2)$, an equality. With $\lVert\theta(T)\rVert$ it would read $[\theta(T)]_1\ge2+[\theta(T)]_1$, which is off by exactly two at all times.


# %%
def path_slack(path, signed, top, start, subtract=True):
    gained = margins.log_exponential_loss(start, signed) - margins.log_exponential_loss(path, signed)
    moved = (path - start).norm(dim=-1) if subtract else path.norm(dim=-1)
    return gained - top * moved


away = tensor([2.0, 0.0])
alone = margins.exponential_flow(single, away, log_times.cpu(), tolerance=tolerance).values
# %%
everywhere = [path_slack(alone, single, tensor(1.0), away).reshape(-1)]
everywhere += [
    path_slack(*each[:2], each[2].margin, each[3]).reshape(-1)
    for each in zip(paths, families, best, starts, strict=True)
]

# %% tags=["hide-input"]
ledger.check(
    "regularization:eq-9.164",
    "−log L grows by at least γ̄ per unit of path, from any start",
    measured=torch.cat(everywhere),
    criterion=up_to_solver("log L(θ₀) − log L(θ(T)) − γ̄‖θ(T) − θ₀‖"),
    control=control(
        "‖θ(T)‖ in the place of ‖θ(T) − θ₀‖, one sample from (2, 0)",
        path_slack(alone, single, 1.0, away, False),
    ),
    correction=correction(
        printed="−log L(θ(T)) ≥ −log L(θ₀) + γ̄‖θ(T)‖",
        right="−log L(θ(T)) ≥ −log L(θ₀) + γ̄‖θ(T) − θ₀‖; for a start other than zero read ‖θ(T) − θ₀‖, the limit is the same",
        evidence="refereed",
    ),
    expected="corrected",
    seeds=seeds,
    show="card",
)

# %% [markdown]
# ## One over log t, with its constant
#
# The guarantee falls like $1/\log t$. Is the gap really that slow, or is the proof wasteful? Two examples can be solved with pencil and paper.
#
# ### A pair of samples
#
# Let $z_1=(1,a)$ and $z_2=(1,-b)$ with $a>b>0$. Then $w^\star=(1,0)$ and $\bar\gamma=1$: both samples are support vectors, with multipliers $b/(a+b)$ and $a/(a+b)$. Under the flow the second coordinate
# obeys $[\dot\theta]_2=e^{-[\theta]_1}(ae^{-a[\theta]_2}-be^{b[\theta]_2})$. It has a rest point, $[\theta]_2=u^\star=\log(a/b)/(a+b)$, where the two pulls balance. Start there, at $\theta_0=(0,u^\star)$, and
# the first coordinate is $[\dot\theta]_1=E\,e^{-[\theta]_1}$ with $E=e^{-au^\star}+e^{bu^\star}$. So for all times
#
# $$\theta(t)=\bigl(\Lambda,\;u^\star\bigr),\quad\Lambda=\log(1+Et),\qquad
# \bar\gamma-\gamma(\theta(t))=1-\frac{\Lambda-b\,u^\star}{\sqrt{\Lambda^2+u^{\star2}}}.$$ (eq-maximum-margin-pair)
#
# Expand: the gap is $b\,u^\star/\log t+O(1/\log^2t)$. In numbers, $a=2$ and $b=\frac12$: $u^\star=\log4/2.5=0.555$ and $b\,u^\star=0.277$. After a day of one unit a second, $\log t=11.4$, the leading term is $2.4\,\%$ of $\bar\gamma$; after the age of the universe, $\log t=40.6$, it is $0.7\,\%$.
#
# The weights move along a line parallel to that of $w^\star$, at the constant distance $u^\star$ from it. The angle between the two closes only because the weights become long. The opening picture is such a pair ($a=0.7$, $b=0.2$), with eight idle samples.
#
# :::{admonition} Predict first
# :class: tip
# Let $a=b$. What is the constant $b\,u^\star$ then? What does it mean for the speed?
# :::
#
# :::{dropdown} Answer
# $u^\star=0$: the pulls balance on the axis of $w^\star$ itself. The $1/\log t$ term vanishes, and the gap falls like a power of $t$ (exercise 1). So equal multipliers are the fast case.
# :::
#
# ### The law
#
# In general, the support vectors' shares in the loss tend to be proportional to their multipliers, and this fixes the line along which the weights move.
#
# :::{prf:theorem} The 1/log t law
# :label: regularization-beyond-log-law
# Let $S$ be the set of the support vectors, let these $z_i$, $i\in S$, be linearly independent, with multipliers $a_i>0$ for all $i\in S$. Along the flow of the exponential loss, from every start,
#
# $$\langle z_i,\theta(t)\rangle=\log t-\log a_i+o(1)\quad\text{for }i\in S,\qquad p_i\to p_i^\star=\bar\gamma^2a_i ,$$
#
# and $\theta(t)-\hat w\log t$ stays bounded. Consequently $t\,\mathcal L(\theta(t))\to1/\bar\gamma^2$, and up to $O(1/\log^2t)$
#
# $$\bar\gamma-\gamma(\theta(t))=\frac{\bar\gamma\,\bigl(H(p^\star)-H_\infty(p^\star)\bigr)}{\log t},\qquad
# \bar\gamma-\tilde\gamma(\theta(t))=\frac{\bar\gamma\,H(p^\star)}{\log t}.$$
# :::
#
# The first statement is that of {cite:t}`soudry2018implicit`, here for the flow; the constant in front is worth knowing. It depends on the data through the multipliers alone, not on the start. It is zero exactly if
# all support vectors carry the same weight. And it says how good the theorem's bound is: $\log n$ stands where the truth is $H(p^\star)-H_\infty(p^\star)$ (for the smooth margin, $H(p^\star)$).
#
# *The key step.* Look at $\rho=\theta-\hat w\log t$ in the time $s=\log t$. On the support vectors it follows, up to what dies out, the gradient flow of the convex function $\sum_{i\in S}e^{-\langle z_i,\rho\rangle}+\langle\hat w,\rho\rangle$, whose minimum has $e^{-\langle z_i,\rho\rangle}=a_i$.
#
# :::{dropdown} Proof
# 1. *The equation.* With $m_i=\langle z_i,\hat w\rangle$, equal to one on $S$ and at least $1+\delta$ elsewhere,
#    $\frac{d\rho}{ds}=\sum_{i\in S}z_ie^{-\langle z_i,\rho\rangle}-\hat w+h$ with $h=\sum_{j\notin S}z_je^{-\langle z_j,\rho\rangle}e^{-s(m_j-1)}$.
# 2. *The rest point.* By independence there is $\rho^\star$ with $\langle z_i,\rho^\star\rangle=-\log a_i$ for $i\in S$. Put $r=\rho-\rho^\star$. As $\hat w=\sum_Sa_iz_i$,
#    $\frac{d}{ds}\frac12\lVert r\rVert^2=-\sum_{i\in S}a_i\langle z_i,r\rangle(1-e^{-\langle z_i,r\rangle})+\langle r,h\rangle$. In the sum every term $x(1-e^{-x})$ is $\ge0$.
# 3. *The rest is small.* $\langle z_j,r\rangle e^{-\langle z_j,\rho\rangle}=e^{-\langle z_j,\rho^\star\rangle}\,xe^{-x}$ with $x=\langle z_j,r\rangle$, and $xe^{-x}\le1/e$. So
#    $\langle r,h\rangle\le Ce^{-\delta s}$, which is integrable. Hence $\lVert r\rVert$ stays bounded, and $\int\sum_Sa_i\langle z_i,r\rangle(1-e^{-\langle z_i,r\rangle})\,ds<\infty$.
# 4. *Convergence.* The integrand is non-negative, and its derivative is bounded because $r$ and $dr/ds$ are; so it tends to zero, and with it every $\langle z_i,r\rangle$, $i\in S$. This is the first statement.
#    The shares are $e^{-\langle z_i,\theta\rangle}/\mathcal L$ with $e^{-\langle z_i,\theta\rangle}=a_i(1+o(1))/t$ on $S$ and $O(t^{-1-\delta})$ elsewhere; add them up for $t\,\mathcal L\to\sum a_i=1/\bar\gamma^2$.
# 5. *The gap.* By {prf:ref}`regularization-eq-9-156`, $(\bar\gamma-\gamma)\lVert\theta\rVert=\bar\gamma\lVert\theta\rVert-\langle g,\theta\rangle+H(p)-H_\infty(p)$. Since $\theta=\hat w\log t+O(1)$,
#    $\lVert\theta\rVert=\langle w^\star,\theta\rangle+O(1/\log t)$. From step 2, $\lVert g-\bar\gamma w^\star\rVert$ is at most a constant times $\lVert r_S\rVert+e^{-\delta s}$, where $r_S$ is the part of $r$ in the span of the support vectors. This part decays exponentially in $s$:
#    near its minimum the convex function of the key step is strongly convex on that span, with some constant $2c$, and so $\frac{d}{ds}\lVert r_S\rVert\le-c\lVert r_S\rVert+\lVert h\rVert$ for large $s$, with $\lVert h\rVert\le C'e^{-\delta s}$ as $\rho$ is bounded. Multiply by $e^{cs}$ and integrate: $\lVert r_S\rVert=O(e^{-cs}+s\,e^{-\min(c,\delta)s})$. So $\langle g-\bar\gamma w^\star,\theta\rangle$, in which $\lVert\theta\rVert$ grows only like $s$, and $p-p^\star$ decay exponentially in $s$ as well. Hence
#    $(\bar\gamma-\gamma)\lVert\theta\rVert=H(p^\star)-H_\infty(p^\star)+O(1/\log t)$, with $\lVert\theta\rVert=\log t/\bar\gamma+O(1)$. The same with $\tilde\gamma$, without $H_\infty$. $\square$
# :::
#
# Four checks. The pair tests the integrator against {eq}`eq-maximum-margin-pair` itself. Then all random data sets, at $t=e^{100000}$: the margins of the support vectors, to rounding, for the exponential and for the logistic loss; and the
# constant, together with the next term of the expansion, $\bar\gamma^3\bigl(\frac12\lVert\rho_\perp\rVert^2-(H-H_\infty)\sum_Sa_i\log\frac1{a_i}\bigr)/\log^2t$ in the gap, where $\rho_\perp$ is the part of $\rho$
# perpendicular to $w^\star$. (It comes from putting $\langle z_i,\theta\rangle=\log t-\log a_i$ and $\lVert\theta\rVert^2=(\log t/\bar\gamma+\langle\rho,w^\star\rangle)^2+\lVert\rho_\perp\rVert^2$ into the quotient and expanding by one more power of $1/\log t$, with $\langle\rho,\hat w\rangle=\sum_Sa_i\log\frac1{a_i}$.)

# %%
a, b = 2.0, 0.5
pair, rest = tensor([[1.0, a], [1.0, -b]]), math.log(a / b) / (a + b)
strength = math.exp(-a * rest) + math.exp(b * rest)
length = torch.logaddexp(tensor(0.0), log_times + math.log(strength))  # log(1 + E t)
predicted = 1 - (length - b * rest) / torch.sqrt(length**2 + rest**2)


def off_the_form(start, announced):
    path = margins.exponential_flow(pair, tensor(start), log_times.cpu(), tolerance=1e-9).values
    return ((1 - margins.normalized_margin(path, pair) - announced) * length).abs()


# %% tags=["hide-input"]
ledger.check(
    "regularization:beyond-solvable-pair",
    "Two samples, balanced start: the gap follows its closed form up to t = e^100000",
    measured=off_the_form([0.0, rest], predicted),
    criterion=at_most("|gap − closed form| log(1 + Et)", 1e-8, bound_symbols="10 tolerances of the solver"),
    control=control(
        "the leading term alone, t < 1000", off_the_form([0.0, rest], b * rest / length)[log_times < 6.9]
    ),
    expected="holds",
)


# %%
def support_margins(path, signed, best, start, sign=-1.0):  # and, last, the logarithm of t L γ̄²
    found = margins.functional_margins(path[-1], signed) - log_times[-1]
    apart = torch.where(best.support, found - sign * best.dual.clamp(min=1e-300).log(), 0 * found)
    total = margins.log_exponential_loss(path[-1], signed) + log_times[-1] + 2 * best.margin.log()
    return torch.cat([apart, total[..., None]], -1)


def upside_down(*each):
    return support_margins(*each, sign=1.0).abs().amax(-1)


logistic_ends = [  # the flow of the logistic loss, from zero, at the last time only
    margins.exponential_flow(
        signed, start[0], log_times[-1:].cpu(), loss="logistic", tolerance=tolerance
    ).values
    for signed, start in zip(families, starts, strict=True)
]
logistic = torch.cat(
    [
        support_margins(*each)[..., :-1].reshape(-1)
        for each in zip(logistic_ends, families, best, starts, strict=True)
    ]
)


# %% tags=["hide-input"]
ledger.check(
    "regularization:beyond-log-law",
    "Every support vector's margin is log t − log aᵢ, from any start, and t L tends to 1/γ̄²",
    measured=over_families(support_margins),
    criterion=identity("⟨zᵢ,θ(t)⟩ − log t + log aᵢ and log(γ̄²tL) at t = e^100000", size=1e5, condition=10),
    control=control("log t + log aᵢ", over_families(upside_down)),
    expected="holds",
    seeds=seeds,
    show="card",
)
ledger.check(
    "regularization:beyond-logistic-flow",
    "The flow of the logistic loss, from zero: every support vector's margin is log t − log aᵢ as well",
    measured=logistic,
    criterion=identity("⟨zᵢ,θ(t)⟩ − log t + log aᵢ at t = e^100000", size=1e5, condition=10),
    control=control("exponential loss, log t + log aᵢ", over_families(upside_down)),
    expected="holds",
    seeds=seeds,
)


# %%
def law(best):  # the constant H - Hmin and the mean of log(1/a)
    p = best.dual * best.margin[:, None] ** 2
    shannon, least = torch.special.entr(p).sum(-1), -p.amax(-1).log()
    return shannon, least, torch.special.entr(best.dual).sum(-1)


def second_order(path, signed, best, start, shannon_alone=False):  # what is left after two terms
    shannon, least, shift = law(best)
    height = shannon if shannon_alone else shannon - least
    rho = path[-1] - best.weights * log_times[-1]
    unit = best.weights * best.margin[:, None]
    sideways = (rho - (rho * unit).sum(-1, keepdim=True) * unit).square().sum(-1)
    gap = best.margin - margins.normalized_margin(path[-1], signed)
    remainder = (gap * log_times[-1] - best.margin * height) * log_times[-1] / best.margin**3
    size = sideways / 2 + (shannon - least) * shift.abs()
    return (remainder - sideways / 2 + (shannon - least) * shift).abs() / size


# %% tags=["hide-input"]
ledger.check(
    "regularization:beyond-log-law-constant",
    "Gap times log t tends to γ̄(H(p⋆) − H∞(p⋆)); the next term is known too",
    measured=over_families(second_order),
    criterion=at_most(
        "|(gap·log t − constant) log t/γ̄³ − next term|, over the size of the next term's parts", 0.01
    ),
    control=control(
        "Shannon's entropy alone, n = 100", second_order(paths[2], families[2], best[2], starts[2], True)
    ),
    expected="holds",
    seeds=seeds,
    show="card",
    noise=1e-3,
)

# %% [markdown]
# ### When a multiplier is zero
#
# The law asks for $a_i>0$ on every support vector. Take $z_1=(1,0)$ and $z_2=(1,1)$. Both are at distance one from the boundary of $w^\star=(1,0)$, but $\hat w=z_1$: the second multiplier is zero. In the
# time $\tau$ with $d\tau=e^{-[\theta]_1}dt$ the flow from zero is solved by $[\theta]_2=\log(1+\tau)$ and $[\theta]_1=\tau+\log(1+\tau)$, and then $t=\tau e^\tau$. So $\tau=W(t)$, Lambert's function, which is defined as the solution of $We^W=t$, and
#
# $$\theta(t)=\bigl(W+\log(1+W),\;\log(1+W)\bigr),\qquad\text{angle}\sim\frac{\log\log t}{\log t} .$$ (eq-maximum-margin-lambert)
#
# The weights move away from the line for ever, to the distance $\log\log t$ at time $t$. {cite}`soudry2018implicit` state the law for almost all data, and this is the case that they exclude; the maximum margin is reached all the same, as
# {prf:ref}`regularization-thm-9-25` asks for nothing of the kind.

# %%
W = log_times.clamp(min=0.2)
for _ in range(60):  # Newton for W + log W = log t
    W = (W - (W + W.log() - log_times) / (1 + 1 / W)).clamp(min=1e-3)
edge = tensor([[1.0, 0.0], [1.0, 1.0]])
path_edge = margins.exponential_flow(edge, torch.zeros(2, **like), log_times.cpu(), tolerance=1e-9).values
closed = torch.stack([W + torch.log1p(W), torch.log1p(W)], -1)
bounded = torch.stack([log_times, torch.log1p(W[0]).expand_as(W)], -1)

# %% tags=["hide-input"]
ledger.check(
    "regularization:beyond-degenerate-support",
    "A support vector with multiplier zero: Lambert's W, off the line by log log t",
    measured=(path_edge - closed).norm(dim=-1),
    criterion=at_most("‖θ(t) − closed form‖", 1e-8, bound_symbols="10 tolerances of the solver"),
    control=control(
        "a line parallel to w⋆, for t > e^10", (path_edge - bounded).norm(dim=-1)[log_times > 10]
    ),
    expected="holds",
    noise=1e-9,
)

# %% tags=["hide-input"] mystnb={"figure": {"caption": "**The law and its constant.** Left: gap times $\\log t$ over the predicted constant $\\bar\\gamma(H-H_\\infty)$, for the three families of random data (bands: 95 % of the mean over data sets); all settle at one. Right: angle times $\\log t$ for the solvable pair tends to the value of its closed form (dotted). What breaks it (dashed): a support vector with multiplier zero, whose curve keeps rising like $\\log\\log t$.", "name": "fig-maximum-margin-law"}, "image": {"alt": "Left, three curves with bands against log t that approach the horizontal line at one. Right, a line that joins a dotted line, and a dashed curve that rises without end."}}
fig, (left, right) = figures.subplots(1, 2, size=(9.4, 3.8))
shown = log_times >= 10
for path, signed, margin_of, (n, d) in zip(paths, families, best, shapes, strict=True):
    shannon, least, _ = law(margin_of)
    ratio = (margin_of.margin - margins.normalized_margin(path[:, 0], signed)) * log_times[:, None]
    ratio = ratio / (margin_of.margin * (shannon - least))
    ratio = ratio[
        :, shannon - least > 0.01
    ]  # with equal multipliers, or a single support vector, the limit is zero
    figures.band(left, log_times[shown], ratio[shown].T, label=f"n = {n}, d = {d}", geometric=True, marker="")
left.axhline(1, color=COLORS["ink"], lw=1, ls=":")
left.set(xscale="log", ylim=(0.5, 1.8), xlabel="log t", ylabel="gap × log t over its predicted limit")
left.legend(loc="upper right")


def turned(path):  # angle to (1, 0), times log t
    return torch.atan2(path[:, 1].abs(), path[:, 0]) * log_times


pair_path = margins.exponential_flow(pair, tensor([0.0, 0.0]), log_times.cpu(), tolerance=1e-8).values
right.plot(log_times[shown], turned(pair_path)[shown], marker="", label="pair of samples")
right.axhline(rest, color=COLORS["ink"], lw=1, ls=":")
figures.line_control(right, log_times[shown], turned(path_edge)[shown], label="multiplier zero")
right.set(xscale="log", xlabel="log t", ylabel="angle × log t")
right.legend(loc="upper left")
figures.plt.show()

# %% tags=["hide-input"]
figures.numbers(
    run,
    "fig-maximum-margin-law",
    {
        "log_time": log_times[shown],
        "pair": turned(pair_path)[shown],
        "multiplier_zero": turned(path_edge)[shown],
    },
    rtol=1e-3,
)

# %% [markdown]
# **Cite this result** as the anchor `regularization-beyond-log-law` of this page, with the release of the book.
#
# ## Faster: divide by the loss
#
# The flow takes the right path, but too slowly, because its velocity is $\mathcal L\,g$ and $\mathcal L$ tends to zero. Divide by it:
#
# $$\theta_{k+1}=\theta_k+\eta\sum_ip_iz_i=\theta_k-\eta\,\nabla\log\mathcal L(\theta_k).$$ (eq-maximum-margin-normalized)
#
# These are **normalized steps**: gradient descent with the step size $\eta/\mathcal L(\theta_k)$, which grows as the loss falls {cite}`nacson2019convergence,ji2021characterizing`. On the ten points of the opening:


# %%
def normalized_descent(signed, eta, theta, steps):
    iterates = [theta]
    for _ in range(steps):
        p = torch.softmax(-signed @ theta, 0)  # each sample's share of the loss
        theta = theta + eta * p @ signed
        iterates.append(theta)
    return torch.stack(iterates)


longest_of_ten = opening.norm(dim=-1).max().item()
ten_steps = normalized_descent(opening, 1 / longest_of_ten**2, torch.zeros(2, **like), 10)
rule, slope = GradientDescent(1 / longest_of_ten**2), margins.normalized_gradient(opening)
ours = ensembles.iterate(rule, slope, torch.zeros(2, **like), 10, record=range(11)).values
assert torch.allclose(ours, ten_steps, rtol=1e-12, atol=1e-12)

# %% [markdown]
# :::{admonition} Predict first
# :class: tip
# Are they better from the first step on? After 30,000 steps, by a factor of two, of ten, of a hundred? And should one fear the growing step size?
# :::
#
# :::{prf:theorem} Normalized steps gain 1/k
# :label: regularization-beyond-normalized-steps
# Let the data be separable with $\lVert z_i\rVert\le R$, let $\theta_0=0$ and $0<\eta\le1/R^2$. Then for every $K\ge1$
#
# $$\bar\gamma-\gamma(\theta_K)\;\le\;\frac{\log n+\frac12}{\lVert\theta_K\rVert}\;\le\;\frac{\log n+\frac12}{\eta\,\bar\gamma\,K}.$$
# :::
#
# *The key step.* The shares do [mirror descent](minimum_norm) (a gradient step in their logarithms): $p_{k+1}\propto p_ke^{-\eta\nabla\varphi(p_k)}$ with $\varphi(p)=\frac12\lVert\sum_ip_iz_i\rVert^2$, whose minimum over probability vectors is $\bar\gamma^2/2$ (no mean sample is shorter than $\bar\gamma$, by the key step of {prf:ref}`regularization-thm-9-25`, and $p^\star$ attains it). What
# a discrete step loses against the flow is at most $\eta(\varphi(p_k)-\varphi(p_{k+1}))$; over all steps these add up to at most $\frac12$.
#
# :::{dropdown} Proof
# Write $g_k=\sum_i[p_k]_iz_i$ and $\mathrm{KL}(p,q)=\sum_ip_i\log(p_i/q_i)$.
# 1. *Shares.* $[p_{k+1}]_i\propto[p_k]_ie^{-\eta\langle z_i,g_k\rangle}$, and $\langle z_i,g_k\rangle=[\nabla\varphi(p_k)]_i$. The normalizing factor is
#    $\sum_i[p_k]_ie^{-\eta\langle z_i,g_k\rangle}=\mathcal L(\theta_{k+1})/\mathcal L(\theta_k)$, so
#    $\log\mathcal L(\theta_{k+1})-\log\mathcal L(\theta_k)=-\eta\lVert g_k\rVert^2+\mathrm{KL}(p_k,p_{k+1})$.
# 2. *Descent.* By step 1, $\eta\langle\nabla\varphi(p_k),p_{k+1}-p_k\rangle=-\mathrm{KL}(p_{k+1},p_k)-\mathrm{KL}(p_k,p_{k+1})$. And $\varphi$ is quadratic with
#    $\varphi(q)-\varphi(p)-\langle\nabla\varphi(p),q-p\rangle=\frac12\lVert\sum_i(q_i-p_i)z_i\rVert^2\le\frac{R^2}2\lVert q-p\rVert_1^2\le R^2\,\mathrm{KL}(q,p)$, the last by Pinsker's inequality. With $\eta R^2\le1$ the two
#    terms in $\mathrm{KL}(p_{k+1},p_k)$ cancel in our favour: $\mathrm{KL}(p_k,p_{k+1})\le\eta\,(\varphi(p_k)-\varphi(p_{k+1}))$.
# 3. *Telescope.* $\sum_k\mathrm{KL}(p_k,p_{k+1})\le\eta\,\varphi(p_0)\le\eta R^2/2\le\frac12$. Sum step 1 from $\log\mathcal L(0)=\log n$:
#    $-\log\mathcal L(\theta_K)\ge-\log n-\frac12+\eta\sum_{k<K}\lVert g_k\rVert^2$.
# 4. *Margin.* $\lVert g_k\rVert\ge\bar\gamma$ and $\lVert\theta_K\rVert\le\eta\sum\lVert g_k\rVert$ give $-\log\mathcal L(\theta_K)\ge-\log n-\frac12+\bar\gamma\lVert\theta_K\rVert$. Divide, and use $\tilde\gamma\le\gamma$.
# 5. *Norm.* $\lVert\theta_K\rVert\ge\langle\theta_K,w^\star\rangle=\eta\sum_k\langle g_k,w^\star\rangle\ge\eta\bar\gamma K$. $\square$
# :::
#
# ## Another norm, another margin
#
# The {chapter}`first chapter <implicit_bias/minimum_norm>` could tilt the end point with a matrix before the gradient. Here the end point is changed by the norm in which a step is *steepest*: among all steps of a given length in that norm, it lowers the loss most, to first order. **Sign steps**,
# $\theta_{k+1}=\theta_k+\eta_k\,\mathrm{sign}(g_k)$, which are Adam without its averages over past gradients, are steepest when length is measured by the largest entry $\lVert\theta\rVert_\infty=\max_j|[\theta]_j|$. The same proof, with that norm, leads to the margin of that norm
# {cite}`gunasekar2018characterizing`:
#
# $$\gamma_\infty(\theta)=\frac{\min_i\langle z_i,\theta\rangle}{\lVert\theta\rVert_\infty},\qquad\bar\gamma_\infty=\max_{\theta\ne0}\gamma_\infty(\theta).$$
#
# :::{prf:theorem} Sign steps go to the margin of the largest entry
# :label: regularization-beyond-sign-steps
# Let the data be separable with $\lVert z_i\rVert_1\le R_1$, let $\theta_0=0$, and $\theta_{k+1}=\theta_k+\eta_k\,\mathrm{sign}(g_k)$ with $\eta_k>0$. Then
#
# $$\bar\gamma_\infty-\gamma_\infty(\theta_K)\le\frac{\log n+\frac12R_1^2\sum_{k<K}\eta_k^2}{\sum_{k<K}\eta_k}$$
#
# for every $K$ for which the right side is at most $\bar\gamma_\infty$. With $\eta_k=\eta_0/\sqrt{k+1}$ it is of order $\log K/\sqrt K$.
# :::
#
# *The key step.* A sign step gains $\eta\lVert g\rVert_1$ to first order, and $\lVert g\rVert_1=\max_{\lVert v\rVert_\infty\le1}\langle g,v\rangle\ge\bar\gamma_\infty$.
#
# :::{dropdown} Proof
# 1. Along a direction $v$ the second derivative of $\log\mathcal L$ is the variance of $\langle z_i,v\rangle$ under the shares, at most $R_1^2\lVert v\rVert_\infty^2$. So
#    $-\log\mathcal L(\theta_{k+1})\ge-\log\mathcal L(\theta_k)+\eta_k\lVert g_k\rVert_1-\frac12R_1^2\eta_k^2$.
# 2. Let $v$ with $\lVert v\rVert_\infty=1$ have margin $\bar\gamma_\infty$. Then $\lVert g_k\rVert_1\ge\langle g_k,v\rangle=\sum_ip_i\langle z_i,v\rangle\ge\bar\gamma_\infty$.
# 3. Sum: $\min_i\langle z_i,\theta_K\rangle\ge-\log\mathcal L(\theta_K)\ge\bar\gamma_\infty\Sigma-C$ with $\Sigma=\sum\eta_k$ and $C$ the numerator of the claim. If $C\le\bar\gamma_\infty\Sigma$ the
#    right side is not negative, and $\lVert\theta_K\rVert_\infty\le\Sigma$ gives $\gamma_\infty(\theta_K)\ge\bar\gamma_\infty-C/\Sigma$. $\square$
# :::
#
# All three kinds of step now run on the 40-by-20 data: gradient descent on the logistic loss with the step size $1/L$, $L=\lVert Z\rVert^2/4$ (the rows of $Z$ are the $z_i$); normalized steps with $\eta=1/R^2$; sign steps with
# $\eta_k=1/(R_1\sqrt{k+1})$.

# %%
signed, top = families[1], best[1].margin
n, d = shapes[1]
steps = run.pick(smoke=2000, book=30_000, paper=1_000_000)
kept = [k for k in ensembles.log_spaced(steps, 10) if k > 0]
longest = signed.norm(dim=-1).amax(-1)
longest_1 = signed.abs().sum(-1).amax(-1)
smoothness = torch.linalg.matrix_norm(signed, 2)[:, None] ** 2 / 4

mean_sample = margins.normalized_gradient(signed)  # minus g


def sign_gradient(theta, k):
    return mean_sample(theta, k).sign()


zero = torch.zeros(len(seeds), d, **like)
runs_of = {
    "gradient descent": (GradientDescent(1 / smoothness), margins.logistic_gradient(signed)),
    "normalized steps": (GradientDescent(1 / longest[:, None] ** 2), margins.normalized_gradient(signed)),
    "sign steps": (GradientDescent(lambda k: 1 / (longest_1[:, None] * math.sqrt(k + 1))), sign_gradient),
}
tracks = {
    name: ensembles.iterate(rule, slope, zero, steps, record=kept).values
    for name, (rule, slope) in runs_of.items()
}
counts = torch.tensor(kept, **like)
assert torch.allclose(tracks["normalized steps"][0], signed.mean(-2) / longest[:, None] ** 2)


# %%
def share_of_bound(theta, signed, top, eta):  # gap over the bound of the theorem, the last member
    n = signed.shape[-2]
    bound = (math.log(n) + 0.5) / (eta * top * counts.reshape(-1, *[1] * top.ndim))
    return (top - margins.normalized_margin(theta, signed)) / bound


pair_zero = torch.zeros(2, **like)
slow = ensembles.iterate(
    GradientDescent(4 / torch.linalg.matrix_norm(pair, 2).item() ** 2),
    margins.logistic_gradient(pair),
    pair_zero,
    steps,
    record=kept,
).values
pair_eta = 1 / pair.square().sum(-1).max()

# %% tags=["hide-input"]
ledger.check(
    "regularization:beyond-normalized-steps",
    "Normalized steps: the margin's gap is at most (log n + ½)/(ηγ̄K)",
    measured=share_of_bound(tracks["normalized steps"], signed, top, 1 / longest**2),
    criterion=at_most("gap over the bound", 1.0, signed=True),
    control=control(
        "gradient descent on the solvable pair, last step",
        share_of_bound(slow, pair, tensor(1.0), pair_eta)[-1],
    ),
    expected="holds",
    seeds=seeds,
    show="card",
)

# %%
best_entry = margins.largest_margin(signed, math.inf)
etas = 1 / torch.sqrt(torch.arange(1, steps + 1, **like))
covered, squares = etas.cumsum(0)[counts.long() - 1, None], etas.square().cumsum(0)[counts.long() - 1, None]
assert (tracks["sign steps"].abs().amax(-1) <= (1 + 1e-12) * covered / longest_1).all()  # step 3 of the proof


def entry_share(theta, signed, top, longest):  # gap γ̄∞ - γ∞ over its bound, where it applies
    bound = (math.log(signed.shape[-2]) + squares / 2) * longest / covered
    gap = top - margins.normalized_margin(theta, signed, math.inf)
    return (gap / bound)[bound <= top]


one = tensor([[[2.0, 1.0]]])  # one sample: the best largest-entry margin is that of (1, 1)
start = torch.zeros(1, 2, **like)
rule = GradientDescent(lambda k: 1 / (3 * math.sqrt(k + 1)))
wide = ensembles.iterate(
    rule, lambda theta, k: margins.normalized_gradient(one)(theta, k).sign(), start, steps, record=kept
)
toward = ensembles.iterate(GradientDescent(0.2), margins.normalized_gradient(one), start, steps, record=kept)
three = tensor([3.0])

# %% tags=["hide-input"]
ledger.check(
    "regularization:beyond-sign-steps",
    "Sign steps: γ∞ is within the stated bound of its maximum γ̄∞",
    measured=torch.cat(
        [
            entry_share(tracks["sign steps"], signed, best_entry, longest_1),
            entry_share(wide.values, one, margins.largest_margin(one, math.inf), three),
        ]
    ),
    criterion=at_most("gap over the bound", 1.0, signed=True),
    control=control(
        "normalized steps on one sample (2, 1), last step", entry_share(toward.values, one, three, three)[-1]
    ),
    expected="holds",
    seeds=seeds,
    show="card",
)

# %% [markdown]
# **Cite these results** as the anchors `regularization-beyond-normalized-steps` and `regularization-beyond-sign-steps` of this page, with the release of the book.
#
# Now the comparison: one row on speed, two on where sign steps end. In these two, "exceeds by 0.137 (at least 0.088)" is the mean difference over the data sets and the lower end of its 99.9 % interval, which must be positive.


# %%
def relative_gap(theta):
    return 1 - margins.normalized_margin(theta, signed) / top


last = {name: track[-1] for name, track in tracks.items()}
gaps = {name: relative_gap(theta).log10() for name, theta in last.items()}
early = int((counts <= 10).nonzero()[-1])

# %% tags=["hide-input"]
ledger.check(
    "regularization:beyond-step-speed",
    "At equal steps the gap of gradient descent is more than ten times that of normalized steps, in the mean",
    measured=(gaps["gradient descent"] - gaps["normalized steps"]),
    criterion=confident("log₁₀ of the ratio of the gaps at the last step", at_least=1.0),
    control=control(
        "the same after ten steps",
        (
            relative_gap(tracks["gradient descent"][early]) / relative_gap(tracks["normalized steps"][early])
        ).log10(),
    ),
    expected="reproduced",
    claim="experiment",
    seeds=seeds,
    needs="book",
)

# %%
euclidean = {name: margins.normalized_margin(theta, signed) / top for name, theta in last.items()}
by_entry = {
    name: margins.normalized_margin(theta, signed, math.inf) / best_entry for name, theta in last.items()
}
pick = ("sign steps", "normalized steps")

# %% tags=["hide-input"]
ledger.check(
    "regularization:beyond-sign-euclidean",
    "Sign steps end below normalized steps in the Euclidean margin",
    measured={name: euclidean[name] for name in pick},
    criterion=ordering("γ/γ̄ at the last step", pick),
    control=control("margins in the norm of the largest entry", {name: by_entry[name] for name in pick}),
    expected="reproduced",
    claim="experiment",
    seeds=seeds,
    needs="book",
)
ledger.check(
    "regularization:beyond-sign-entry",
    "Sign steps end above normalized steps in the margin of the largest entry",
    measured={name: by_entry[name] for name in pick},
    criterion=ordering("γ∞/γ̄∞ at the last step", pick[::-1]),
    control=control("Euclidean margins", {name: euclidean[name] for name in pick}),
    expected="reproduced",
    claim="experiment",
    seeds=seeds,
    needs="book",
)

# %% tags=["hide-input"] mystnb={"figure": {"caption": "**Same path, other clock; other norm, other end.** Relative gap to the maximum margin against the number of steps (lines: geometric mean over data sets, bands: 95 %), from the step at which all data sets are separated. Left, Euclidean margin: gradient descent on the logistic loss creeps; normalized steps fall, below a bound of order 1/k. Right, margin in the norm of the largest entry: sign steps approach its maximum. What breaks it (dashed): in each panel the method of the other norm stays behind.", "name": "fig-maximum-margin-steps"}, "image": {"alt": "Two panels on logarithmic axes. Left, the curve of gradient descent flattens, that of normalized steps falls straight, and the dashed curve of sign steps stays far above. Right, the curve of sign steps falls, the dashed curve of normalized steps levels off."}}
fig, (left, right) = figures.subplots(1, 2, size=(9.4, 3.8))
separated = torch.stack(
    [(margins.normalized_margin(track, signed) > 0).all(-1) for track in tracks.values()]
).all(0)
shown = (
    counts >= counts[separated.logical_not().nonzero().max() + 1] if bool((~separated).any()) else counts > 0
)
for name in ("gradient descent", "normalized steps"):
    figures.band(
        left, counts[shown], relative_gap(tracks[name])[shown].T, label=name, geometric=True, marker=""
    )
figures.line_control(
    left, counts[shown], relative_gap(tracks["sign steps"])[shown].log().mean(-1).exp(), label="sign steps"
)
left.set(xscale="log", yscale="log", xlabel="steps", ylabel="1 − γ/max, Euclidean norm")
left.legend(loc="lower left", fontsize=8)
entry_gap = {
    name: 1 - margins.normalized_margin(track, signed, math.inf) / best_entry
    for name, track in tracks.items()
}
right.plot([], [])
right.plot([], [])
figures.band(
    right, counts[shown], entry_gap["sign steps"][shown].T, label="sign steps", geometric=True, marker=""
)
figures.line_control(
    right, counts[shown], entry_gap["normalized steps"][shown].log().mean(-1).exp(), label="normalized steps"
)
right.set(xscale="log", yscale="log", xlabel="steps", ylabel="1 − γ∞/max, norm of the largest entry")
right.legend(loc="lower left", fontsize=8)
right.yaxis.set_minor_formatter(figures.plt.NullFormatter())
figures.plt.show()

# %% tags=["hide-input"]
figures.numbers(
    run,
    "fig-maximum-margin-steps",
    {"steps": counts[shown]}
    | {
        name.replace(" ", "_"): relative_gap(track)[shown].log().mean(-1).exp()
        for name, track in tracks.items()
    },
    rtol=1e-3,
)

# %% [markdown]
# :::{dropdown} Answer
# First they are behind: $1/R^2$ is a short step as long as the loss is large (the control of the first row). At the last step they lead by a factor of about $10^{1.66}\approx45$ in the geometric mean. Since $-\log\mathcal L$ rises by about $\eta\bar\gamma^2$ a step,
# $k$ normalized steps stand where the clock of the flow reads about $e^{\eta\bar\gamma^2k}$ seconds. The step size $\eta/\mathcal L(\theta_k)$ does grow
# without bound, exponentially even. That is harmless: the curvature of $\mathcal L$ is at most $R^2\mathcal L$, so step size times curvature is at most $\eta R^2\le1$.
# :::
#
# ## Where it goes elsewhere
#
# Each hypothesis can be dropped, and each time training ends at another boundary.
#
# **Data that cannot be separated.** Take the 100-by-10 data and flip the labels of a quarter of the samples. Now the logistic loss has a finite minimizer, and gradient descent converges to it; Newton's method
# computes the same point. On separable data there is no minimizer to arrive at.
#
# **Squared loss.** Back to the 40-by-20 data. $\sum_i(1-\langle z_i,\theta\rangle)^2$ asks every sample to have the same margin, near and far. Its minimizer is finite, and nothing ties the margin there to $\bar\gamma$.
#
# **A heavier tail.** Let $\ell(z)=z^{-3}$ for a $\theta$ that already separates. The loss still vanishes at infinity, and the flow still diverges. But far out it is the same function at every scale:
#
# $$\sum_i\langle z_i,c\,\theta\rangle^{-3}=c^{-3}\sum_i\langle z_i,\theta\rangle^{-3},$$
#
# so no distance is ever large enough for the nearest samples alone to count. The direction $w$ that the flow keeps once it has got there is one where the gradient is parallel to $w$, that is, the minimizer of the loss on the unit sphere:
# $w\parallel\sum_iz_i\langle z_i,w\rangle^{-4}$ {cite}`ji2020gradient`. (The loss is convex, so on the sphere a parallel gradient is enough for the minimum.) We start *at* the maximum margin, and watch the flow leave it.
# The control starts there as well and follows the flow of $e^{-z}$: that too moves away, while $\lVert\theta\rVert$ is small, but comes back.

# %%
crowd = families[2]  # 100 samples in 10 dimensions
flips = torch.rand(*crowd.shape[:2], 1, generator=run.generator("flips"), dtype=run.dtype).to(run.device)
noisy = torch.where(flips < 0.25, -crowd, crowd)
curvature = torch.linalg.matrix_norm(crowd, 2)[:, None] ** 2 / 4


def newton(signed, steps=40):  # minimizer of the logistic loss
    theta = torch.zeros(*signed.shape[:-2], signed.shape[-1], **like)
    for _ in range(steps):
        pull = torch.sigmoid(-margins.functional_margins(theta, signed))
        hessian = (signed * (pull * (1 - pull))[..., None]).mT @ signed
        slope = (pull[..., None, :] @ signed).squeeze(-2)
        theta = theta + torch.linalg.solve(hessian, slope)
    return theta, torch.linalg.cond(hessian).max().item()


# %%
minimizer, condition = newton(noisy)
many = run.pick(smoke=2000, book=6000, paper=6000)
origin = torch.zeros_like(crowd[:, 0])
finite, endless = (
    ensembles.iterate(GradientDescent(1 / curvature), margins.logistic_gradient(each), origin, many)
    for each in (noisy, crowd)
)
before = endless.values[-10]

# %% tags=["hide-input"]
ledger.check(
    "regularization:beyond-nonseparable",
    "Flipped labels: gradient descent converges to the finite minimizer",
    measured=(finite.last - minimizer).norm(dim=-1) / minimizer.norm(dim=-1),
    criterion=identity("‖θ_K − Newton's minimizer‖/‖minimizer‖", condition=condition),
    control=control(
        "labels as they were, against ten recorded points earlier",
        (endless.last - before).norm(dim=-1) / endless.last.norm(dim=-1),
    ),
    expected="holds",
    seeds=seeds,
)

# %%
fitted = torch.linalg.lstsq(signed, torch.ones_like(signed[..., :1])).solution.squeeze(-1)


def power_pull(theta):  # minus ‖θ‖ times the gradient of the loss's logarithm: a function of the direction
    m = margins.functional_margins(theta / theta.norm(dim=-1, keepdim=True), signed)
    pull = 3 * (m**-4)[..., None, :] @ signed
    return pull.squeeze(-2) / (m**-3).sum(-1, keepdim=True)


# %% tags=["hide-input"]
ledger.check(
    "regularization:beyond-squared-loss",
    "Squared loss ends with less than nine tenths of the maximum margin, in the mean",
    measured=margins.normalized_margin(fitted, signed) / top,
    criterion=confident("γ/γ̄", at_most=0.9),
    control=control("normalized steps", euclidean["normalized steps"]),
    expected="reproduced",
    claim="experiment",
    seeds=seeds,
    needs="book",
)

# %%
start = best[1].weights / best[1].weights.norm(dim=-1, keepdim=True)
heavy = ensembles.iterate(
    GradientDescent(0.002),
    lambda theta, k: -power_pull(theta) * theta.norm(dim=-1, keepdim=True),
    start,
    run.pick(smoke=4000, book=6000, paper=6000),
    observe=lambda theta: theta / theta.norm(dim=-1, keepdim=True),
)


def apart(theta):  # sine of the angle between θ and the pull
    u = theta / theta.norm(dim=-1, keepdim=True)
    v = (signed / margins.functional_margins(u, signed)[..., None] ** 4).sum(-2)
    v = v / v.norm(dim=-1, keepdim=True)
    return (u - v * (u * v).sum(-1, keepdim=True)).norm(dim=-1)


# the flow of the loss exp(-z) from the same start, to log t = 10⁵
faithful = margins.exponential_flow(signed, start, [0.0, 1e5], tolerance=tolerance).values[-1]

# %% tags=["hide-input"]
ledger.check(
    "regularization:beyond-polynomial-tail",
    "Loss z⁻³: the direction that is kept minimizes the loss on the sphere",
    measured=apart(heavy.last),
    criterion=at_most("sine of the angle between θ and Σ zᵢ⟨zᵢ,θ⟩⁻⁴", 1e-8),
    control=control("the maximum margin, where it started", apart(start)),
    expected="reproduced",
    claim="experiment",
    seeds=seeds,
)
ledger.check(
    "regularization:beyond-polynomial-margin",
    "Loss z⁻³: it leaves the maximum margin",
    measured=1 - margins.normalized_margin(heavy.last, signed) / top,
    criterion=at_least("1 − γ/γ̄", 1e-3, signed=True),
    control=control("loss e⁻ᶻ from the same start, log t = 10⁵", relative_gap(faithful)),
    expected="reproduced",
    claim="experiment",
    seeds=seeds,
)

# %% tags=["hide-input"] mystnb={"figure": {"caption": "**Drop a hypothesis, and another end point takes over.** Left: length of θ under gradient descent on the logistic loss; with flipped labels it stops at the finite minimizer (dotted, Newton's method). What breaks it (dashed): on separable data it grows without end. Right: every data set of the family as a dot, its margin as a share of the maximum, at the end of each method.", "name": "fig-maximum-margin-elsewhere"}, "image": {"alt": "Left, a curve that saturates at a dotted line and a dashed curve that rises above it, against steps on a logarithmic axis. Right, four columns of dots: normalized steps at one, sign steps, cubic tail and squared loss below it, spread out."}}
fig, (left, right) = figures.subplots(1, 2, size=(9.4, 3.8))
norms = finite.values.norm(dim=-1)
at = finite.steps > 0
figures.band(left, finite.steps[at], norms[at].T, label="a quarter of the labels flipped", marker="")
left.axhline(minimizer.norm(dim=-1).mean().item(), color=COLORS["ink"], ls=":", lw=1.2)
figures.line_control(
    left, endless.steps[at], endless.values.norm(dim=-1).mean(-1)[at], label="labels as they were"
)
left.set(xscale="log", xlabel="steps", ylabel="‖θ‖")
left.legend(loc="upper left", fontsize=8)
ends = {
    "normalized": last["normalized steps"],
    "sign": last["sign steps"],
    "tail $z^{-3}$": heavy.last,
    "squared": fitted,
}
for i, theta in enumerate(ends.values()):
    sideways = i + torch.linspace(-0.2, 0.2, len(seeds), dtype=run.dtype)
    right.plot(sideways, margins.normalized_margin(theta, signed) / top, "o", markersize=4)
right.axhline(1, color=COLORS["ink"], ls=":", lw=1.2)
right.set(xticks=range(4), ylabel="γ over the maximum margin")
right.set_xticklabels(ends)
figures.plt.show()

# %% tags=["hide-input"]
figures.numbers(
    run,
    "fig-maximum-margin-elsewhere",
    {"normalized": euclidean["normalized steps"], "sign": euclidean["sign steps"]}
    | {
        "cubic_tail": margins.normalized_margin(heavy.last, signed) / top,
        "squared": margins.normalized_margin(fitted, signed) / top,
    },
    rtol=1e-4,
)

# %% [markdown]
# ## Fours and nines
#
# Does any of this matter on real images? We take the fours and nines of MNIST, 200 of them to train and the rest to test, with several random splits as a batch. With 784 pixels, 200 samples are separable. The weights stay in the
# span of the samples, so we rotate it into 200 coordinates once; nothing else is changed.
#
# :::{admonition} Predict first
# :class: tip
# After the training error is zero, gradient descent goes on for thousands of steps and enlarges the margin. Will the test error fall, stay or rise? And the test loss?
# :::

# %%
digits = data.load("mnist-10k")
chosen = ((digits.targets == 4) | (digits.targets == 9)).nonzero().squeeze(-1)
images, sides = (
    digits.inputs[chosen].reshape(len(chosen), -1).to(**like),
    torch.where(digits.targets[chosen] == 9, 1.0, -1.0),
)
everything = margins.signed_samples(images, sides.to(run.device))
splits = run.seeds(smoke=4, book=8, paper=40)
size = 200


def split(seed):
    order = torch.randperm(len(chosen), generator=run.generator("split", seed=seed))
    return everything[order[:size]], everything[order[size:]]


# %%
train, test = ensembles.stack_over_seeds(split, splits)
basis = torch.linalg.qr(train.mT).Q  # (splits, 784, 200)
train, test = train @ basis, test @ basis
machine = margins.hard_margin_svm(train)
digit_steps = run.pick(smoke=1000, book=8000, paper=200_000)
digit_kept = [k for k in ensembles.log_spaced(digit_steps, 10) if k > 0]
nowhere = torch.zeros(len(splits), size, **like)
digit_rules = {
    "gradient descent": (
        GradientDescent(4 / torch.linalg.matrix_norm(train, 2)[:, None] ** 2),
        margins.logistic_gradient(train),
    ),
    "normalized steps": (
        GradientDescent(1 / train.square().sum(-1).amax(-1, keepdim=True)),
        margins.normalized_gradient(train),
    ),
}
digit_tracks = {
    name: ensembles.iterate(rule, slope, nowhere, digit_steps, record=digit_kept).values
    for name, (rule, slope) in digit_rules.items()
}


# %%
def mean_loss(theta, signed):
    return torch.nn.functional.softplus(-margins.functional_margins(theta, signed)).mean(-1)


def error(theta, signed):
    return (margins.functional_margins(theta, signed) <= 0).to(run.dtype).mean(-1)


digit_errors = {name: error(track, test) for name, track in digit_tracks.items()}  # (records, splits)
digit_losses = {name: mean_loss(track, test) for name, track in digit_tracks.items()}
digit_counts = torch.tensor(digit_kept, **like)
middle = int((digit_counts <= digit_steps / 5).nonzero()[-1])
quick = digit_tracks["normalized steps"]
shares_of_margin = {
    name: margins.normalized_margin(track[-1], train) / machine.margin for name, track in digit_tracks.items()
}

# %% tags=["hide-input"]
ledger.check(
    "regularization:beyond-mnist-margin",
    "Fours and nines: normalized steps reach four fifths of the maximum margin, in the mean",
    measured=shares_of_margin["normalized steps"],
    criterion=confident("γ/γ̄ at the last step", at_least=0.8),
    control=control("gradient descent", shares_of_margin["gradient descent"]),
    expected="reproduced",
    claim="experiment",
    seeds=splits,
    needs="book",
)
ledger.check(
    "regularization:beyond-mnist-loss",
    "Fours and nines: over the last four fifths of the steps the test loss grows",
    measured=mean_loss(quick[-1], test) / mean_loss(quick[middle], test),
    criterion=confident("test loss at the last step over the one at a fifth of it", at_least=1.0),
    control=control("training loss", mean_loss(quick[-1], train) / mean_loss(quick[middle], train)),
    expected="reproduced",
    claim="experiment",
    seeds=splits,
    needs="book",
)

# %% tags=["hide-input"]
ledger.check(
    "regularization:beyond-mnist-error",
    "Fours and nines: the last of the margin gains at most half a point of test error",
    measured=error(quick[middle], test) - error(machine.weights, test),
    criterion=confident("test error at a fifth of the steps minus that of the maximum margin", at_most=0.005),
    control=control("what the steps before that gained", error(quick[9], test) - error(quick[middle], test)),
    expected="reproduced",
    claim="experiment",
    seeds=splits,
    needs="book",
    show="card",
)

# %% tags=["hide-input"] mystnb={"figure": {"caption": "**A larger margin, a larger test loss, no fewer errors.** Fours and nines, 200 training images (lines: mean over splits, bands: 95 %). Left: margin as a share of the maximum. Middle: test error, with that of the maximum margin dotted. Right: mean logistic loss on the test images; it turns and grows while the errors no longer fall. What breaks the reading of a loss as an error (dashed): the training loss falls all the while.", "name": "fig-maximum-margin-mnist"}, "image": {"alt": "Three panels against steps on a logarithmic axis, two curves each. Margins rise towards one, normalized steps first. Test errors fall and level off near a dotted line. Test losses fall, turn and rise, most for normalized steps, while a dashed training loss falls."}}
fig, axes = figures.subplots(1, 3, size=(11, 3.7))
for name, track in digit_tracks.items():
    share = margins.normalized_margin(track, train) / machine.margin
    figures.band(axes[0], digit_counts, share.T, label=name, marker="")
    figures.band(axes[1], digit_counts, digit_errors[name].T, label=name, marker="")
    figures.band(axes[2], digit_counts, digit_losses[name].T, label=name, marker="")
axes[0].set(xscale="log", xlabel="steps", ylabel="γ over the maximum margin", xlim=(30, None), ylim=(0, 1.02))
axes[1].axhline(error(machine.weights, test).mean().item(), color=COLORS["ink"], ls=":", lw=1.2)
axes[1].set(xscale="log", yscale="log", xlabel="steps", ylabel="test error")
figures.line_control(axes[2], digit_counts, mean_loss(quick, train).mean(-1), label="training loss")
axes[2].set(xscale="log", yscale="log", xlabel="steps", ylabel="mean logistic loss, test", ylim=(0.02, 1.2))
axes[1].yaxis.set_minor_formatter(figures.plt.NullFormatter())
axes[1].legend(loc="lower left", fontsize=8)
axes[2].legend(handles=axes[2].lines[-1:], loc="lower left", fontsize=8)
figures.plt.show()

# %% tags=["hide-input"]
figures.numbers(
    run,
    "fig-maximum-margin-mnist",
    {"steps": digit_counts}
    | {f"loss_{name.replace(' ', '_')}": loss.mean(-1) for name, loss in digit_losses.items()}
    | {f"error_{name.replace(' ', '_')}": wrong.mean(-1) for name, wrong in digit_errors.items()},
    rtol=2e-2,
)

# %% [markdown]
# :::{dropdown} Answer
# The errors fall no further; with normalized steps they even rise a little, from 4.9 to 5.3 per cent in the mean over the splits. The test loss grows (the rows measure normalized steps, which are further along), and that is no contradiction: a test image on the wrong side costs about its distance times $\lVert\theta\rVert$, and the norm grows without end. So a rising validation loss alone does not
# say that the classifier gets worse {cite}`soudry2018implicit`; look at the error, or at the direction. Nor does it say that the maximum margin is what one should want: on these images training on to the maximum margin
# gains nothing.
# :::
#
# ## For the practitioner
#
# - **When to stop.** On separable data a small training loss does not say that the boundary has settled: it moves like $1/\log t$. Watch the margin over the norm, $\gamma(\theta)$, or the test error; both are cheap. A test loss that grows while the error stays is the norm growing, not a worse classifier. If you need calibrated
#   probabilities, divide the scores $\langle\theta,x\rangle$ (the logits) by a constant chosen on held-out data or use weight decay, which gives the loss a finite minimizer.
# - **To get to the maximum margin**, do not train longer. Divide the step by the loss (one line, {eq}`eq-maximum-margin-normalized`), or solve for it: {py:func}`~learning_dynamics.implicit_bias.margins.hard_margin_svm` here, a linear support vector machine with a large constant elsewhere.
# - **What the optimizer changes.** Sign steps, and Adam to the extent that it resembles them, prefer the margin of the largest entry. Weighting the classes changes nothing in the limit (exercise 3).
# - **When all of this fails.** The data are not separable, as with label noise and few features; the loss is squared or has a heavy tail; training is stopped long before the limit, which is the usual case.
#
# ## Exercises
#
# :::{exercise} Equal multipliers
# :label: ex-maximum-margin-equal
# By hand. Let $z_1=(1,a)$ and $z_2=(1,-a)$, and start the flow at $(0,u_0)$ with $u_0\ne0$. Show that the gap is of the order $t^{-a^2}/\log t$.
# :::
#
# :::{solution} ex-maximum-margin-equal
# :class: dropdown
# With $d\tau=e^{-[\theta]_1}dt$, $\;[\theta]_2'=-2a\sinh(a[\theta]_2)$ and $[\theta]_1'=2\cosh(a[\theta]_2)$. So $[\theta]_2$ decays like $e^{-2a^2\tau}$, $[\theta]_1=2\tau+O(1)$ and
# $t\sim e^{2\tau}$ up to constants: $[\theta]_2\sim t^{-a^2}$. The margin is $[\theta]_1-a|[\theta]_2|$ and the norm $[\theta]_1+O([\theta]_2^2)$, so the gap is $a|[\theta]_2|/\log t$ to leading order.
# :::
#
# :::{exercise} How long is one percent?
# :label: ex-maximum-margin-percent
# Predict a number. Three support vectors carry the shares $p^\star=(0.5,0.3,0.2)$. By the law, at which time is the margin of the flow within one percent of the maximum? Give years, at one second per unit of time.
# :::
#
# :::{solution} ex-maximum-margin-percent
# :class: dropdown
# $H=1.0297$ and $H_\infty=\log2=0.6931$, so $\log t=(H-H_\infty)/0.01=33.65$, $t\approx4\cdot10^{14}$ seconds: about 13 million years. The cell below repeats the sum.
# :::
#
# :::{exercise} Does it help to weight a class?
# :label: ex-maximum-margin-weights
# Change one line. In the normalized steps, weight the loss of every sample with $y_i=+1$ by 1000, that is, add $\log1000$ to $-\langle z_i,\theta\rangle$ before the softmax. Where do the steps end on the opening data? (Expected: at the same
# maximum margin, within a tenth of a percent after 20,000 steps, and with the same shares $p^\star$.)
# :::
#
# :::{solution} ex-maximum-margin-weights
# :class: dropdown
# Weights $c_i$ turn $e^{-\langle z_i,\theta\rangle}$ into $e^{-\langle z_i,\theta\rangle+\log c_i}$. The proofs go through with $\log\sum_ic_i$ in the place of $\log n$; in the law, $\langle z_i,\rho^\star\rangle=\log c_i-\log a_i$. The direction is the
# same: weighting classes moves the boundary on separable data only for a while.
# :::

# %%
entropy = -sum(p * math.log(p) for p in (0.5, 0.3, 0.2))
years = math.exp((entropy - math.log(2)) / 0.01) / (365.25 * 86_400)
assert 12e6 < years < 14e6

weights = torch.where(y > 0, math.log(1000), 0.0).to(**like)
theta = torch.zeros(2, **like)
for _ in range(20_000):
    p = torch.softmax(weights - opening @ theta, 0)
    theta = theta + p @ opening / opening.square().sum(-1).max()
assert margins.normalized_margin(theta, opening) > 0.999 * svm.margin
assert (p - svm.dual * svm.margin**2).abs().max() < 1e-3

# %% [markdown]
# :::{exercise} Dependent support vectors
# :label: ex-maximum-margin-dependent
# Finish a proof. Let the support vectors be linearly dependent, but let some choice of multipliers be positive on all of them. Show that the flow's shares still converge, and to which of the many possible $p^\star$.
# :::
#
# :::{solution} ex-maximum-margin-dependent
# :class: dropdown
# Steps 1 to 4 of the law need only a $\rho^\star$ with $\sum_Sz_ie^{-\langle z_i,\rho^\star\rangle}=\hat w$, a minimizer of the convex function $\Phi(\rho)=\sum_Se^{-\langle z_i,\rho\rangle}+\langle\hat w,\rho\rangle$. It
# grows without bound in every direction of the span of $S$ because $\hat w=\sum a_iz_i$ with positive $a_i$, so it has one. Put $\tilde a_i=e^{-\langle z_i,\rho^\star\rangle}$: multipliers, all positive, whose logarithms are linear in $z_i$. That is the
# condition for the largest entropy $-\sum a_i\log a_i$ among all multipliers (Lagrange, with $\sum a_iz_i=\hat w$; the sum $\sum a_i$ is fixed by it). So the flow chooses the most even shares.
# :::
#
# :::{exercise} Beyond linear models
# :label: ex-maximum-margin-open
# Open. Which of the results here hold for a network that is homogeneous in its weights, $f(x;c\,\theta)=c^Lf(x;\theta)$?
# :::
#
# :::{solution} ex-maximum-margin-open
# :class: dropdown
# Known: the smooth margin, normalized by $\lVert\theta\rVert^L$, still rises, and limits of directions are critical points of the margin problem {cite}`lyu2020gradient`; infinitely wide two-layer networks reach a global optimum of a margin in
# function space {cite}`chizat2020implicit`. Open in general: to which of the critical points, and how fast.
# :::
#
# ## Checks behind this page
#
# The four observations about losses far out, and the definition of the margin.

# %%
draws = 4 * torch.randn(2000, 8, generator=run.generator("numbers"), dtype=run.dtype)
q = 10 ** (4 * torch.rand(2000, 1, generator=run.generator("scales"), dtype=run.dtype) - 2)
excess = torch.logsumexp(q * draws, -1) - q.squeeze(-1) * draws.amax(-1)

z = torch.linspace(-5, 30, 701, dtype=run.dtype)
u, logistic = torch.exp(-z), torch.nn.functional.softplus(-z)

bounded = anywhere[1].to(run.device)
radius = bounded.norm(dim=-1)
floor = torch.nn.functional.softplus(-radius[..., None] * signed.norm(dim=-1)).sum(-1)
loss_there = torch.nn.functional.softplus(-margins.functional_margins(bounded, signed)).sum(-1)
reach = torch.linspace(0.1, 5, 50, **like)
aligned = torch.nn.functional.softplus(-reach * one.norm())

factor = 10 ** (6 * torch.rand(50, 1, 1, generator=run.generator("factors"), dtype=run.dtype) - 3).to(
    run.device
)
scale = signed.norm(dim=-1).amax(-1)
base = margins.normalized_margin(bounded, signed)

# %% tags=["hide-input"]
ledger.check(
    "regularization:eq-9.150",
    "q max u ≤ log Σ exp(q u) ≤ q max u + log n",
    measured=torch.stack([excess, math.log(8) - excess]),
    criterion=inequality("right minus left side of both", size=(q * draws).abs().max().item()),
    control=control("the upper bound without log n, small q", -excess[q.squeeze(-1) < 0.1]),
    expected="holds",
)
ledger.check(
    "regularization:claim-logistic-exponential",
    "Logistic loss is exponential far out: u − u²/2 ≤ log(1 + u) ≤ u with u = exp(−z)",
    measured=torch.stack([(logistic - u) / u + u / 2, (u - logistic) / u]),
    criterion=inequality("right minus left side of both, over u", size=200.0),
    control=control(
        "u − u²/3 as the lower bound, 0 < z < 5", ((logistic - u) / u + u / 3)[(z > 0.9) & (z < 5)]
    ),
    expected="holds",
)
ledger.check(
    "regularization:claim-norm-diverges",
    "Within ‖θ‖ ≤ B the logistic loss is at least Σ log(1 + exp(−B‖xᵢ‖)) > 0",
    measured=torch.cat(
        [
            ((loss_there - floor) / loss_there).reshape(-1),
            (aligned - torch.log1p(torch.exp(-reach * one.norm()))) / aligned,
        ]
    ),
    criterion=inequality("(loss − bound)/loss"),
    control=control(
        "Σ exp(−B‖xᵢ‖) as the bound, one sample", (aligned - torch.exp(-reach * one.norm())) / aligned
    ),
    correction=correction(
        printed="for logistic loss and ‖θ‖ ≤ B, the loss is at least Σ exp(−B‖xᵢ‖)",
        right="it is at least Σ log(1 + exp(−B‖xᵢ‖)), which is a little less and positive too",
        evidence="rederived",
    ),
    expected="corrected",
    seeds=seeds,
)
ledger.check(
    "regularization:def-9.23",
    "The normalized margin does not change when θ is multiplied by a positive number",
    measured=(margins.normalized_margin(factor * bounded, signed) - base) / scale,
    criterion=identity("(γ(cθ) − γ(θ))/R, c > 0"),
    control=control("c < 0", (margins.normalized_margin(-factor * bounded, signed) - base) / scale),
    expected="holds",
    seeds=seeds,
)

# %% [markdown]
# ## What to remember
#
# - On separable data the weights diverge, and their direction goes to the maximum margin: for gradient flow, from any start, with a bound at every time.
# - $\gamma\lVert\theta\rVert-\tilde\gamma\lVert\theta\rVert$ is the min-entropy of the samples' shares in the loss. Everything else follows from it and from $\lVert g\rVert\ge\bar\gamma$.
# - The approach is $\bar\gamma(H-H_\infty)/\log t$, with the entropies of the support vectors' multipliers. With equal multipliers this term vanishes, and the gap falls like $1/\log^2t$ or faster; with any others, training longer hardly helps.
# - Divide the gradient by the loss, and $1/\log t$ becomes $1/k$. Take signs, and the margin is that of another norm.
# - The tail of the loss and separability are essential. The test loss may grow all the while; look at the error.
#
# **Further reading.** {cite:t}`soudry2018implicit` for steps, logistic loss and the degenerate cases; {cite:t}`ji2019implicit` for data that are not separable; {cite:t}`ji2021characterizing` for the dual
# view of normalized steps and still faster ones; {cite:t}`gunasekar2018characterizing` for other norms; {cite:t}`lyu2020gradient` for networks.

# %% tags=["remove-input"]
ledger.table()
