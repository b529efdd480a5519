# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Where does noise in the labels take you?
#
# A network that fits all its training data could do so with many other weights, and these do not predict equally well on new data. Gradient descent keeps the first that it meets. Now suppose that the labels are perturbed a little, afresh at every step: each image is labelled
# by another person every time it is shown, or somebody adds random numbers to the targets as a regularizer. Then the weights never stand still. Do they go anywhere, and is it worth going there?
#
# Take the smallest case: fit the number 1 by a product of two weights, $uv=1$. Every point of a hyperbola does it without error. Ten thousand runs of gradient descent start on the hyperbola, and before every step the toss of a coin replaces the label 1 by $1+\sigma$ or by $1-\sigma$.
#
# **The loss is zero at the start. Does anything happen at all, and where does it end?** All runs slide along the hyperbola and gather at $u=v=1$. There the loss is *flattest*: the trace of its Hessian, the sum of its curvatures in all directions, is least. Noise in the labels acts like a penalty
# on this trace. **What breaks it**: without noise nothing moves, and noise of the same size that is added to the weights, in place of the label, never settles.

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

import numpy as np
import torch
from scipy.optimize import linprog
from scipy.stats import chi2, f, norm, uniform
from torch.func import hessian, jacrev, vmap

from learning_dynamics import diffusions, ensembles, figures, runs, statistics
from learning_dynamics.figures import COLORS
from learning_dynamics.ledger import (
    Ledger,
    at_least,
    at_most,
    between,
    confident,
    control,
    equals,
    exponent,
    identity,
    inequality,
)
from learning_dynamics.rules import GradientDescent

figures.use_style()
run = runs.Run("implicit_bias/label_noise", scale=SCALE, device=DEVICE, seed=SEED)
ledger = Ledger(run)
like = {"dtype": run.dtype, "device": run.device}
chains = run.pick(smoke=1000, book=10_000, paper=100_000)

# %%
eta, sigma, coin = 0.05, 0.5, run.generator("coins")
steps = run.pick(smoke=4000, book=8000, paper=8000)
u = torch.full((chains,), 3.0, **like)
u[: chains // 2] = 0.4  # half of the runs start at each of the two crosses
v, frames = 1 / u, {}
for k in range(steps + 1):
    if k in (0, 400, 1600, steps):
        frames[k] = torch.stack([u, v])
    xi = sigma * (2 * torch.randint(2, u.shape, generator=coin) - 1).to(u)
    e = u * v - (1 + xi)  # residual against the perturbed label
    u, v = u - eta * e * v, v - eta * e * u

# %% tags=["hide-input"] mystnb={"figure": {"caption": "**Label noise slides along the minima to the flattest one.** Ten thousand runs on the loss (uv − 1)²/2 (some of them are drawn), half of them from each cross. Every point of the grey curve has zero loss; the ring is its flattest point. Each cloud lies across the valley, about equally long everywhere, and has no extent along it. What breaks it: without label noise the runs stay at the crosses for ever.", "name": "fig-label-noise-hyperbola"}, "image": {"alt": "Four frames with one branch of a hyperbola. First all runs sit on two crosses near its two arms; then two elongated clouds leave the crosses along the curve; they approach each other; in the last frame they have merged into one small cloud around the point one, one, marked by a ring."}}
fig, panels = figures.subplots(2, 2, size=(6.8, 5.2), sharex=True, sharey=True)
curve = torch.linspace(0.2, 4.0, 200)
for ax, (k, frame) in zip(panels.flat, frames.items(), strict=True):
    u, v = frame[:, :: max(1, chains // 1200)].cpu()
    ax.plot(curve, 1 / curve, color=COLORS["grey"], marker="", lw=1)
    ax.plot(u, v, ".", color=COLORS["blue"], markersize=2, alpha=0.5)
    ax.plot([3, 0.4], [1 / 3, 2.5], "x", color=figures.CONTROL_COLOR, markersize=8, label="no noise")
    ax.plot(1, 1, "o", color=COLORS["vermillion"], mfc="none", markersize=13, label="flattest")
    ax.set(xlim=(0, 4), ylim=(0, 3.4), title=f"after {k} steps")
    ax.label_outer()
fig.supxlabel("u")
fig.supylabel("v")
panels[0, 0].legend(loc="upper right")
figures.plt.show()

# %% [markdown]
# This book follows one update, and asks what each of its symbols does:
#
# $$\theta_{k+1}=\theta_k-\eta_k\,P_k\,(\nabla\mathcal L(\theta_k)+\boxed{\xi_k})+\beta_1(\theta_k-\theta_{k-1}).$$
#
# Here $\theta_k$ are the weights at step $k$, $\eta_k$ is the step size, $\mathcal L$ the loss, $P_k$ a matrix and $\beta_1$ momentum. In this chapter $P_k$ is the identity, $\beta_1$ is zero, the step size $\eta$ is constant, and the noise $\xi_k$ is what we study. After it you can
#
# - compute the cloud that noise keeps around a minimum, exactly, in one dimension and in many, and say what its continuous limit gets wrong;
# - derive the penalty that label noise amounts to, $\lambda\,\mathrm{tr}\,\nabla^2\mathcal L$ with $\lambda=\eta\sigma^2/(4b)$, and measure it in a small network;
# - follow the runs above with a law that holds at every step of every run;
# - say which kinds of noise find a sparse solution, and what label noise finds when there is too little data.
#
# The source is section 9.5 of {cite}`ma2022lecture`, of which only a list of three heuristic claims is at hand; statements and proofs here are our own, after {cite}`blanc2020implicit`,
# {cite}`haochen2021shape`, {cite}`damian2021label` and {cite}`li2022happens`. Read [Tools in ten minutes](../toolbox/tools_in_ten_minutes) first; {chapter}`From kernel to rich <implicit_bias/kernel_to_rich>`
# helps. The page runs in less than a minute on one CPU core, in about ten seconds with
# `SCALE = "smoke"`.
#
# ## The setting
#
# A model has $d$ weights $\theta$ and outputs $f_1(\theta),\dots,f_n(\theta)$ on $n$ samples with targets $y_1,\dots,y_n$. The loss is the mean
#
# $$\mathcal L(\theta)=\frac1n\sum_{i=1}^n\tfrac12\,(f_i(\theta)-y_i)^2 .$$
#
# *Label noise* of size $\sigma$ perturbs the targets anew at every step. With a batch $B_k$ of $b$ samples, drawn with replacement, or all $n$ once,
#
# $$\theta_{k+1}=\theta_k-\frac{\eta}{b}\sum_{i\in B_k}\bigl(f_i(\theta_k)-y_i-\xi_{k,i}\bigr)\nabla f_i(\theta_k),\qquad\mathbb E\,\xi_{k,i}=0,\quad\mathbb E\,\xi_{k,i}^2=\sigma^2 ,$$ (eq-label-noise-update)
#
# all $\xi_{k,i}$ independent of each other and of the past; a sample that is drawn twice in a batch gets a new label each time. Where the model fits the data, $f_i(\theta)=y_i$, the gradient of every sample is zero, and this noise is the only thing that still moves the weights.
#
# :::{dropdown} The letters of the source
# | here | source, section 9.5 | meaning |
# |---|---|---|
# | $\mathcal L(\theta)$ | $\hat L(\theta)$ | training loss, a mean over samples here |
# | $\lambda$ | $\lambda$ | strength of the penalty on the trace (in other chapters $\lambda$ is a damping) |
# | $\mathrm{tr}\,\nabla^2\mathcal L$ | $\mathrm{tr}(\nabla^2\hat L)$ | trace of the Hessian |
# | $h$, $H$ | not at hand | curvature in one dimension, Hessian |
# | $\Sigma$, $V$ | not at hand | covariance of the gradient noise, of the iterate |
# | $\sigma$, $b$ | not at hand | standard deviation of the label noise, batch size |
# :::
#
# *By hand.* In the opening example $f(\theta)=uv$, $y=1$, $n=b=1$, and the gradient of $f$ is $(v,u)$. Start at $u=3$, $v=\frac13$ with $\eta=0.05$, and let the first coin add $0.5$. The residual against the perturbed label is $1-1.5=-0.5$. So $u$ becomes
# $3+0.05\cdot0.5\cdot\frac13=3.0083$ and $v$ becomes $\frac13+0.05\cdot0.5\cdot3=0.4083$. The larger weight has grown by $0.008$ and the smaller one by $0.075$. The difference $u^2-v^2$ falls from $8.8889$ to $8.8833$, and it would have fallen by the same amount if the coin had
# shown $-0.5$. This small loss at every step is what drives the runs of the first figure.
#
# The same update in code; the library's rule gives the same iterates.


# %%
def label_noise_descent(u, v, noise, eta=0.05):
    iterates = [(u, v)]
    for xi in noise:
        e = u * v - (1 + xi)  # residual against the perturbed label
        u, v = u - eta * e * v, v - eta * e * u
        iterates.append((u, v))
    return torch.tensor(iterates, **like)


coins = 2 * torch.randint(2, (60,), generator=run.generator("by hand")) - 1
by_hand = label_noise_descent(3.0, 1 / 3, (0.5 * coins).tolist())
noisy = diffusions.label_noise_gradient(
    lambda theta: theta.prod(-1, keepdim=True),
    torch.ones(1, **like),
    0.5,
    run.generator("by hand"),
    noise="signs",
)
start = torch.tensor([3.0, 1 / 3], **like)
library = ensembles.iterate(GradientDescent(0.05), noisy, start, 60, record=range(61)).values
assert torch.allclose(library, by_hand, rtol=1e-12, atol=1e-12)
for xi in (0.5, -0.5):  # the example by hand, and the other coin
    u1, v1 = label_noise_descent(3.0, 1 / 3, [xi])[1].tolist()
    assert round(u1**2 - v1**2, 4) == 8.8833

# %% [markdown]
# ## One dimension: a contraction and a cloud
#
# Begin where everything can be solved: a parabola of curvature $h$ with its minimum at zero. Its gradient is $h\theta$, so with noise $\xi_k$ the step is $\theta_{k+1}=\theta_k-\eta\,(h\theta_k+\xi_k)$. It multiplies $\theta_k$ by $1-\eta h$ and adds fresh noise. In the long run the two balance, and the iterates form a cloud
# around the minimum. The theorem says how wide the cloud is, and compares it with the process that is usually put in its place, a diffusion in continuous time.
#
# :::{prf:theorem} The cloud around a minimum
# :label: regularization-claim-ou-1d
# Let $0<\eta h<2$, let $\theta_0$ be fixed, and let $\xi_0,\xi_1,\dots$ be independent with mean zero and variance $\sigma^2$. Then
#
# $$\theta_k=\underbrace{(1-\eta h)^k\,\theta_0}_{\text{contraction}}\;-\;\underbrace{\eta\sum_{j=0}^{k-1}(1-\eta h)^{k-1-j}\,\xi_j}_{\text{cloud}},$$
#
# $$\mathrm{Var}\,\theta_k\;\to\;V=\frac{\eta\,\sigma^2}{h\,(2-\eta h)} ,$$
#
# and once the start is forgotten neighbouring iterates have correlation $1-\eta h$. If the noise is normal, so is the limit. The continuous limit of small steps, where one step takes the time $\eta$,
#
# $$d\theta=-h\,\theta\,dt+\sqrt\eta\,\sigma\,dW,$$
#
# an Ornstein-Uhlenbeck process {cite}`uhlenbeck1930theory`, has the stationary variance $\eta\sigma^2/(2h)$: too small by the factor $1-\eta h/2$.
# :::
#
# The line with $dW$ is read as follows: in a short time $dt$ the parameter changes by $-h\theta\,dt$ and by a normal number of mean zero and variance $\eta\sigma^2\,dt$, independent of the past ({chapter}`Flows and diffusions <toolbox/flows_and_diffusions>` has the theory, and the law of a diffusion at rest in general). As $\eta h$ comes near 2,
# $V$ grows without bound, and from $\eta h=2$ on there is no cloud, because a step no longer contracts.
#
# *By hand.* Take $h=\sigma=1$, $\eta=\frac12$, and start at zero. After one step the variance is $\eta^2\sigma^2=\frac14$, after two $\frac14\cdot\frac14+\frac14=\frac5{16}=0.3125$, after three $0.328$. The theorem has $V=\frac12/(1\cdot\frac32)=\frac13$, the diffusion $\frac14$.
#
# *The key step.* In equilibrium a step changes nothing: $V=(1-\eta h)^2V+\eta^2\sigma^2$. Solve for $V$. For the process the balance is $0=-2hV+\eta\sigma^2$; the term $\eta h^2V$ is missing there.
#
# :::{dropdown} Proof
# 1. *Unrolling.* The formula for $\theta_k$ holds at $k=0$. If it holds at $k$, then $\theta_{k+1}=(1-\eta h)\theta_k-\eta\xi_k$ multiplies every term by $1-\eta h$ and appends $-\eta\xi_k$.
# 2. *Variance.* The terms are independent: $\mathrm{Var}\,\theta_k=\eta^2\sigma^2\sum_{j<k}(1-\eta h)^{2j}\to\eta^2\sigma^2/(1-(1-\eta h)^2)$, since $|1-\eta h|<1$. The denominator is
#    $\eta h(2-\eta h)$.
# 3. *Correlation.* $\mathrm{Cov}(\theta_{k+1},\theta_k)=(1-\eta h)\,\mathrm{Var}\,\theta_k$, because $\xi_k$ is independent of $\theta_k$. Divide by $V$.
# 4. *Law.* A sum of independent normal variables is normal; its mean tends to zero and its variance to $V$.
# 5. *The process.* Itô's rule ({prf:ref}`thesis-thm-a-2-3`), the chain rule for diffusions, applied to $\theta^2$ gives $\frac{d}{dt}\mathbb E\theta^2=-2h\,\mathbb E\theta^2+\eta\sigma^2$, at rest at $\eta\sigma^2/(2h)$. $\square$
# :::
#
# Each result on this page is checked by a computation, and what is seen of it is a card or a row. It says what was measured, what it was allowed to be, and the same number for something wrong, the *control*, which has to fail. "3 values, worst 0.99 against 0.98 to 1.02. What breaks it: … (0.95 at best)" means that three ratios which
# should be one deviate by at most 0.01, that sampling error excuses 0.02, and that a wrong formula misses by 0.05 even where it comes closest to passing. The $\varepsilon$ in "100 ε" is the rounding unit of the number type, $2.2\cdot10^{-16}$ in double precision, multiplied by a condition number and a size where they enlarge rounding. {doc}`How claims are checked <../../book/how_claims_are_checked>` explains the words.
#
# The first check runs $N$ chains at three step sizes, short, medium and nearly unstable, and compares the mean of $\theta^2/V$ with one. For normal $\theta$ this mean has the standard error $\sqrt{2/N}$, and with a probability of 99.9 % all three means lie within 3.6 standard errors of one. The control is the continuous process, sampled without
# any discretization.

# %%
products = torch.tensor([0.1, 0.5, 1.5], **like)[:, None]  # ηh, with h = σ = 1
crowd = run.pick(smoke=60_000, book=100_000, paper=1_000_000)


def chain(noise, stream, eta_h=products, count=200, size=None):
    source, theta = run.generator(stream), torch.zeros(len(eta_h), size or crowd, **like)
    for _ in range(count):
        if noise == "signs":
            xi = (2 * torch.randint(2, theta.shape, generator=source) - 1).to(theta)
        else:
            xi = torch.randn(theta.shape, generator=source, dtype=run.dtype).to(theta)
        before, theta = theta, (1 - eta_h) * theta - eta_h * xi
    return before, theta


def process(eta_h):  # the diffusion, time in units of 1/h
    noise = math.sqrt(eta_h) * torch.eye(1, **like)
    ou = diffusions.OrnsteinUhlenbeck(torch.eye(1, **like), noise)
    source = run.generator(f"process {eta_h:.1f}")
    return ou.sample(torch.zeros(crowd, 1, **like), [30.0], source)[0, :, 0]


V = products / (2 - products)
before, clouded = chain("normal", "cloud")
diffused = torch.stack([process(eta_h) for eta_h in products.flatten().tolist()])

# %% tags=["hide-input"]
errors = norm.isf(0.0005 / 3)  # standard errors, two-sided, 0.1 % for the three together
room = errors * math.sqrt(2 / crowd)
ledger.check(
    "regularization:claim-ou-1d",
    "The fluctuation is a cloud of variance ησ²/(h(2 − ηh)), with the usual OU process as its limit for ηh → 0",
    measured=(clouded**2 / V).mean(1),
    criterion=between("mean of θ²h(2 − ηh)/(ησ²)", 1 - room, 1 + room),
    control=control("the Ornstein-Uhlenbeck limit", (diffused**2 / V).mean(1)),
    expected="holds",
    show="card",
    rtol=0.05,
)

# %% [markdown]
# **Cite this result** as the anchor `regularization-claim-ou-1d` of this page, with the release of the book.

# %% tags=["hide-input"] mystnb={"figure": {"caption": "**The diffusion formula is right only for short steps.** Histograms of the chains at three steps, with h = σ = 1 and normal noise; solid, the normal law with the exact variance. What breaks it: the law of the continuous limit (dashed) is indistinguishable at ηh = 0.1, visibly narrow at 0.5, and useless at 1.5.", "name": "fig-label-noise-variance"}, "image": {"alt": "Three histograms with two bell curves each. In the first both curves coincide with the histogram; in the second the dashed curve is a little higher and narrower; in the third the dashed curve is half as wide as the histogram, which the solid curve follows."}}
fig, panels = figures.subplots(1, 3)
densities = {}
for ax, eta_h, sample, var in zip(
    panels, products.flatten().tolist(), clouded.cpu(), V.flatten().tolist(), strict=True
):
    edges = math.sqrt(var) * np.linspace(-4, 4, 82)
    grid, width = (edges[1:] + edges[:-1]) / 2, edges[1] - edges[0]
    heights = np.histogram(sample, edges)[0] / (len(sample) * width)
    ax.fill_between(grid, heights, step="mid", color=COLORS["light grey"], linewidth=0)
    lines = {
        "histogram": ax.step(grid, heights, where="mid", color=COLORS["grey"], marker="", lw=1)[0],
        "exact": ax.plot(grid, norm.pdf(grid, scale=math.sqrt(var)), marker="", label="exact")[0],
        "diffusion": figures.line_control(
            ax, grid, norm.pdf(grid, scale=math.sqrt(eta_h / 2)), label="diffusion"
        ),
    }
    case = f"_eta_h_{eta_h:g}".replace(".", "_")
    densities |= figures.columns("theta" + case, {name + case: line for name, line in lines.items()})
    ax.set(xlabel="θ", title=f"ηh = {eta_h:g}")
panels[0].set_ylabel("density")
panels[0].legend(loc="upper left", fontsize=7.5)
panels[0].set_ylim(0, 2.6)
figures.plt.show()

# %% tags=["hide-input"]
figures.numbers(
    run,
    "fig-label-noise-variance",
    densities,
    rtol=0.1,
    noise=5e-3,
)

# %% [markdown]
# The source says that an Ornstein-Uhlenbeck process "characterizes" the fluctuation, and does not say which. For the usual process that is true in the limit of small steps only: at $\eta h=0.1$ its variance is five per cent too small. With normal noise and $\eta h<1$ the sentence is exact for *another* process, one with the rate
# $-\ln(1-\eta h)/\eta$ in the place of $h$ and with the stationary variance $V$. Read at the times $0,\eta,2\eta,\dots$ it has the law of the chain. For $\eta h>1$ the correlation of neighbouring iterates is
# negative, and no such process exists. Two rows in "Checks behind this page" test the rate and the correlation. The variance is not all that the limit forgets: it also forgets the law of the noise.
#
# :::{admonition} Predict first
# :class: tip
# Take coins for the noise, $\xi_k=\pm\sigma$, and run many chains for a long time. What does the histogram of $\theta$ look like at $\eta h=\tfrac12$? And at $\eta h=\tfrac23$?
# :::

# %%
coin_steps = torch.tensor([1 / 2, 2 / 3], **like)[:, None]
_, coin = chain("signs", "coin law", coin_steps, 60, 10 * chains)
_, bell = chain("normal", "bell law", coin_steps, 60, 10 * chains)
reach = coin_steps / (1 - (1 - coin_steps).abs())  # the farthest a chain can get, with h = σ = 1

# %% tags=["hide-input"] mystnb={"figure": {"caption": "**The law of the noise survives.** Stationary histograms with coins for noise. At ηh = 1/2 every chain halves its position and adds a coin: the law is uniform. At ηh = 2/3 it is the Cantor law, with an empty middle third, and empty middle thirds in what remains. What breaks the bell: the normal law of the same variance (dashed) is wrong at both.", "name": "fig-label-noise-coins"}, "image": {"alt": "Left, a flat histogram that ends abruptly on both sides, under a dashed bell curve. Right, a histogram in many separate spikes with gaps, the widest gap in the middle third where the dashed bell curve has its maximum."}}
fig, panels = figures.subplots(1, 2)
for ax, name, sample, r, eta_h in zip(
    panels, ("1/2", "2/3"), coin.cpu(), reach.cpu(), coin_steps.cpu(), strict=True
):
    edge, var = float(r), float(eta_h / (2 - eta_h))
    grid = torch.linspace(-1.6 * edge, 1.6 * edge, 201)
    ax.hist(sample, bins=243, range=(-edge, edge), density=True, color=COLORS["blue"])
    figures.line_control(ax, grid, norm.pdf(grid, scale=math.sqrt(var)), label="normal law")
    ax.set(xlabel="θ", title=f"coins, ηh = {name}")
panels[0].set_ylabel("density")
panels[0].set_ylim(0, 0.9)
panels[0].legend(loc="upper left", fontsize=8)
figures.plt.show()

# %% [markdown]
# :::{dropdown} Answer
# By step 1 of the proof, $-\theta$ has in the long run the law of $\eta\sum_j(1-\eta h)^j\xi_j$ (the start is forgotten, and the noise is numbered backwards). At $\eta h=\tfrac12$ this is $\eta\sigma\sum_j\pm2^{-j}$, a number with random binary digits: uniform on $[-2\eta\sigma,2\eta\sigma]$. At $\eta h=\tfrac23$ it is
# $\eta\sigma\sum_j\pm3^{-j}$, a number which after shifting and scaling to $[0,1]$ has only the digits 0 and 2 in base three. Such numbers form the Cantor set, here stretched to $[-a,a]$ with $a=\tfrac32\eta\sigma$. Both laws have exactly the variance of the theorem.
# :::

# %%
exact = statistics.ks_test(coin[0], uniform(-2 * 0.5, 4 * 0.5).cdf).p_value
bell_fit = statistics.ks_test(coin[0], norm(scale=math.sqrt(1 / 3)).cdf).p_value


def in_the_middle(sample):  # chains in the middle third of [-a, a], in ten groups
    return (sample.reshape(10, -1).abs() < reach[1] / 3 * (1 - 1e-9)).sum(1)


# %% tags=["hide-input"]
ledger.check(
    "regularization:beyond-label-uniform",
    "Coins at ηh = 1/2: the stationary law is uniform",
    measured=exact,
    criterion=at_least("p value of the Kolmogorov-Smirnov test", 0.001),
    control=control("the normal law with the same variance", bell_fit),
    expected="holds",
    rtol=0.1,
)
ledger.check(
    "regularization:beyond-label-cantor",
    "Coins at ηh = 2/3: no chain is ever in the middle third",
    measured=in_the_middle(coin[1]),
    criterion=equals("chains with |θ| < a/3", 0),
    control=control("normal noise of the same variance", in_the_middle(bell[1])),
    expected="holds",
    rtol=0.02,
)

# %% [markdown]
# So the variance of the diffusion can be repaired, and the shape of its law cannot. In what follows only the variance matters.
#
# ## Many dimensions: the shape of the noise
#
# Now let the loss be a quadratic in $d$ weights with a symmetric positive definite Hessian $H$, and let the noise have the covariance $\Sigma$: $\theta_{k+1}=\theta_k-\eta\,(H\theta_k+\xi_k)$.
#
# :::{prf:theorem} The shape of the cloud
# :label: regularization-claim-ou-multivariate
# Let every eigenvalue $h_i$ of $H$ satisfy $0<\eta h_i<2$, and let the $\xi_k$ be independent with mean zero and covariance $\Sigma$. The covariance of $\theta_k$ converges to the one solution $V$ of the equation
#
# $$V=(I-\eta H)\,V\,(I-\eta H)+\eta^2\,\Sigma ,$$
#
# called the discrete Lyapunov equation. In the eigenbasis of $H$ its entries are
#
# $$V_{ij}=\frac{\eta\,\Sigma_{ij}}{h_i+h_j-\eta\,h_ih_j}\,.$$ (eq-label-noise-lyapunov)
#
# 1. The cloud splits into one-dimensional ones along the axes of $H$, without correlation, if and only if $H\Sigma=\Sigma H$. Then $V_{ii}=\eta\Sigma_{ii}/(h_i(2-\eta h_i))$.
# 2. The diffusion $d\theta=-H\theta\,dt+\sqrt\eta\,\Sigma^{1/2}dW$ has $HV+VH=\eta\Sigma$, that is {eq}`eq-label-noise-lyapunov` without the term $\eta h_ih_j$.
# :::
#
# *The key step.* Covariances obey $V_{k+1}=(I-\eta H)V_k(I-\eta H)+\eta^2\Sigma$. In the eigenbasis each entry has its own scalar recursion with the factor $(1-\eta h_i)(1-\eta h_j)$.
#
# :::{dropdown} Proof
# 1. $\theta_{k+1}-\mathbb E\theta_{k+1}=(I-\eta H)(\theta_k-\mathbb E\theta_k)-\eta\xi_k$, and the two terms are uncorrelated. This gives the recursion.
# 2. Write $H$ as a diagonal matrix. Then $[V_{k+1}]_{ij}=\rho_{ij}[V_k]_{ij}+\eta^2\Sigma_{ij}$ with $\rho_{ij}=(1-\eta h_i)(1-\eta h_j)\in(-1,1)$, so it converges to $\eta^2\Sigma_{ij}/(1-\rho_{ij})$, and
#    $1-\rho_{ij}=\eta\,(h_i+h_j-\eta h_ih_j)$.
# 3. $V_{ij}=0$ exactly where $\Sigma_{ij}=0$. All entries with $i\ne j$ vanish in some eigenbasis of $H$ if and only if $\Sigma$ is diagonal there, which is to say that the two matrices commute.
# 4. Itô's rule gives $\dot V=-HV-VH+\eta\Sigma$ for the diffusion; set it to zero. $\square$
# :::
#
# The source's second claim is that the iterate splits into "separate" processes in one dimension each. This is part 1 of the theorem (the cloud splits), and it needs the hypothesis $H\Sigma=\Sigma H$, which we have added. A row below tests it, with noise that does not commute with $H$ as its control.
#
# The card draws random $4\times4$ problems with noise that does not commute with $H$, and asks whether the sample covariance $\hat V$ of $N$ chains agrees with $V$ in all ten entries at once. Write $V=LL^\top$ (the Cholesky factor). If $V$ is right, then $L^{-1}\hat VL^{-\top}$ is the identity up to sampling error, and
# $\frac N2\lVert L^{-1}\hat VL^{-\top}-I\rVert_F^2$ has nearly the $\chi^2$ law of $d(d+1)/2=10$ degrees of freedom. An error in any entry of $V$ adds to it.

# %%
problems = run.seeds(smoke=20, book=40, paper=100)


def quadratic(seed):  # H with eigenvalues from 0.2 to 2, a root of Σ in another basis
    source = run.generator("quadratic", seed=seed)
    turn = torch.linalg.qr(torch.randn(4, 4, generator=source, dtype=run.dtype)).Q
    h = torch.tensor([0.2, 0.5, 1.0, 2.0], dtype=run.dtype)
    return (turn * h) @ turn.T, torch.randn(4, 4, generator=source, dtype=run.dtype), turn


H4, root4, turn4 = (each.to(run.device) for each in ensembles.stack_over_seeds(quadratic, problems))
Sigma4, step4, each4 = root4 @ root4.mT, 0.5, run.pick(smoke=2000, book=2000, paper=10_000)
exact4 = torch.stack([diffusions.chain_covariance(H, S, step4) for H, S in zip(H4, Sigma4, strict=True)])
limit4 = torch.stack([diffusions.diffusion_covariance(H, S, step4) for H, S in zip(H4, Sigma4, strict=True)])
source, theta4 = run.generator("shape"), torch.zeros(len(problems), each4, 4, **like)
for _ in range(150):
    xi = torch.randn(theta4.shape, generator=source, dtype=run.dtype).to(run.device) @ root4.mT
    theta4 = theta4 - step4 * (theta4 @ H4 + xi)


# %%
def misfit(V):  # of the sample covariance, about χ² with 10 degrees of freedom if V is right
    white = torch.linalg.solve_triangular(torch.linalg.cholesky(V), theta4.mT, upper=False)
    return each4 / 2 * (white @ white.mT / each4 - torch.eye(4, **like)).square().sum((-2, -1))


def correlated(V):  # entries off the diagonal in the eigenbasis of H
    inside = turn4.mT @ V @ turn4
    return (inside - torch.diag_embed(inside.diagonal(dim1=-2, dim2=-1))).norm(dim=(-2, -1)) / V.norm(
        dim=(-2, -1)
    )


shared = (turn4 * torch.tensor([3.0, 0.5, 1.0, 0.2], **like)) @ turn4.mT  # commutes with H
commuting = torch.stack([diffusions.chain_covariance(H, S, step4) for H, S in zip(H4, shared, strict=True)])

# %% tags=["hide-input"]
ledger.check(
    "regularization:claim-ou-multivariate",
    "In d dimensions the cloud solves V = (I − ηH)V(I − ηH) + η²Σ; it is separate if H and Σ commute",
    measured=misfit(exact4),  # 0.1 % for all problems together
    criterion=at_most("½N‖L⁻¹V̂L⁻⊤ − I‖²", float(chi2.isf(0.001 / len(problems), 10))),
    control=control("the cloud of the diffusion, HV + VH = ηΣ", misfit(limit4)),
    expected="holds",
    show="card",
    seeds=problems,
    rtol=0.2,
)
ledger.check(
    "regularization:beyond-label-commute",
    "The cloud splits along the axes of H if H and Σ commute",
    measured=correlated(commuting),
    criterion=identity("‖off-diagonal of V‖/‖V‖ in the eigenbasis of H", condition=10.0, size=4),
    control=control("noise that does not commute with H", correlated(exact4)),
    expected="holds",
)

# %% [markdown]
# ### Label noise makes a round cloud
#
# Which $\Sigma$ does label noise have? At a point that fits all samples the gradient in {eq}`eq-label-noise-update` is $-\frac1b\sum\xi_i\nabla f_i$. This noise lives in the directions in which the outputs can be changed. The Hessian lives there as well: the second
# derivatives of $f_i$ come with a factor $f_i-y_i=0$, and only $H=\frac1n\sum\nabla f_i\nabla f_i^\top$ is left.
#
# Call a direction $w$ *invisible* if $Jw=0$ for the matrix $J$ with the rows $\nabla f_i$: moving along it changes no output to first order. The directions orthogonal to all these are *visible*. The projector on the visible directions is $\Pi=J^+J$, with the pseudo-inverse $J^+$.
#
# :::{prf:proposition} Noise in the shape of the Hessian
# :label: regularization-beyond-label-shape
# Let $f_i(\theta)=y_i$ for all $i$, let $J$ be the $n\times d$ matrix with rows $\nabla f_i(\theta)$, and let $\eta\lambda_1(H)<2$, where $\lambda_1(H)$ is the largest eigenvalue of the Hessian $H$. Then $H=\nabla^2\mathcal L(\theta)=\frac1nJ^\top J$ and
#
# $$\Sigma=\frac{\sigma^2}{b}\,H,\qquad V=\frac{\eta\sigma^2}{b}\,(2I-\eta H)^{-1}\,\Pi\;=\;\frac{\eta\sigma^2}{2b}\,\Pi+O(\eta^2),$$
#
# where $V$ is the stationary covariance, in the visible directions, of the chain linearized at $\theta$.
# :::
#
# In a steep direction label noise is stronger, and the loss pulls back harder. The two cancel. So for small steps the cloud is *round*: it has the same variance $\eta\sigma^2/(2b)$ in every visible direction and no extent in the invisible ones.
#
# :::{dropdown} Proof
# 1. $\nabla^2\mathcal L=\frac1n\sum(\nabla f_i\nabla f_i^\top+(f_i-y_i)\nabla^2f_i)$, and the second term vanishes.
# 2. One sample of the batch, with a uniformly drawn index $i$, contributes $-\xi_i\nabla f_i$, which has mean zero and covariance $\sigma^2\frac1n\sum\nabla f_i\nabla f_i^\top=\sigma^2H$. The mean of $b$ independent samples has $\sigma^2H/b$. If all $n$ samples are used once
#    ($b=n$), the covariance is $\frac{\sigma^2}{n^2}J^\top J=\sigma^2H/n$.
# 3. $\Sigma$ and $H$ commute, so {prf:ref}`regularization-claim-ou-multivariate` applies eigenvalue by eigenvalue: $V_{ii}=\eta\frac{\sigma^2h_i}{b}/(h_i(2-\eta h_i))$. Where $h_i=0$ there is no noise either. $\square$
# :::

# %% tags=["hide-input"] mystnb={"figure": {"caption": "**Label noise makes a round cloud.** Three clouds in the same valley, of curvatures 0.3 and 1.2, at ηh up to 0.72; curves: exact ellipses of 95 %. Left, noise with a shape of its own: a tilted cloud. Middle, equal noise in all directions: long in the flat direction. Right, label noise, whose covariance is proportional to the Hessian: round, almost. What breaks it: the ellipse of the diffusion (dashed) is too small in the steep direction.", "name": "fig-label-noise-ellipses"}, "image": {"alt": "Three scatter plots with the same axes. The first cloud is a tilted ellipse, the second a horizontal ellipse, the third nearly a circle. In each a solid ellipse surrounds the points and a dashed one lies slightly inside it at the top and bottom."}}
H2, step2 = torch.diag(torch.tensor([0.3, 1.2], **like)), 0.6
shapes = {
    "a shape of its own": torch.tensor([[0.5, -0.6], [-0.6, 1.0]], **like),
    "the same in all directions": 0.5 * torch.eye(2, **like),
    "label noise, Σ = H": H2,
}
turns = torch.linspace(0, 2 * math.pi, 121, **like)
circle = math.sqrt(5.991) * torch.stack([turns.cos(), turns.sin()])  # 95 % of a normal law in the plane
fig, panels = figures.subplots(1, 3, size=(10.5, 3.6), sharex=True, sharey=True)
for ax, (name, Sigma) in zip(panels, shapes.items(), strict=True):
    theta = torch.zeros(1500, 2, **like)
    source, root = run.generator(name), torch.linalg.cholesky(Sigma)
    for _ in range(60):
        xi = torch.randn(1500, 2, generator=source, dtype=run.dtype).to(run.device) @ root.T
        theta = theta - step2 * (theta @ H2 + xi)
    exact_ellipse = torch.linalg.cholesky(diffusions.chain_covariance(H2, Sigma, step2)) @ circle
    limit_ellipse = torch.linalg.cholesky(diffusions.diffusion_covariance(H2, Sigma, step2)) @ circle
    ax.plot(*theta.T.cpu(), ".", color=COLORS["light grey"], markersize=2)
    ax.plot(*exact_ellipse.cpu(), marker="", label="exact")
    figures.line_control(ax, *limit_ellipse, label="diffusion")
    ax.set(title=name, aspect="equal", xlabel="flat direction, h = 0.3")
panels[0].set_ylabel("steep direction, h = 1.2")
panels[0].legend(loc="lower left", fontsize=7.5)
figures.plt.show()

# %% [markdown]
# The rest of the chapter rests on this roundness. A small network lets us check it where nothing is quadratic: eight problems, each with three samples and four tanh units, $f(x;\theta)=\sum_{j=1}^4a_j\tanh(w_jx+c_j)$ with twelve weights, brought to zero loss by
# Newton's method. At such a point three directions are visible and nine are not.

# %%
inputs, targets = torch.tensor([-1.0, 0.3, 1.2], **like), torch.tensor([0.5, -0.7, 1.0], **like)
nets = run.seeds(smoke=3, book=8, paper=20)


def network(theta):  # (*batch, 12) -> outputs on the three samples (*batch, 3)
    a, w, c = theta.unflatten(-1, (3, 4)).unbind(-2)
    return (a[..., None, :] * torch.tanh(w[..., None, :] * inputs[:, None] + c[..., None, :])).sum(-1)


def pullback(theta, e):  # J⊤e
    a, w, c = theta.unflatten(-1, (3, 4)).unbind(-2)
    z = torch.tanh(w[..., None, :] * inputs[:, None] + c[..., None, :])
    inner = (1 - z**2) * e[..., None]
    return torch.cat(
        [(z * e[..., None]).sum(-2), a * (inner * inputs[:, None]).sum(-2), a * inner.sum(-2)], -1
    )


def loss(theta):
    return 0.5 * (network(theta) - targets).square().mean()


# %%
def fitted(seed):
    theta = torch.randn(12, generator=run.generator("network", seed=seed), dtype=run.dtype).to(run.device)
    for _ in range(60):
        theta = theta - torch.linalg.pinv(jacrev(network)(theta)) @ (network(theta) - targets)
    return (theta,)


(minima,) = ensembles.stack_over_seeds(fitted, nets)
J = vmap(jacrev(network))(minima)
H = vmap(hessian(loss))(minima)
Pi = torch.linalg.pinv(J) @ J
eye = torch.eye(12, **like)

# %%
coin_table = torch.cartesian_prod(*[torch.tensor([-1.0, 1.0], **like)] * 3)  # all eight outcomes, σ = 1


def enumerated(theta):  # covariance of the full-batch gradient, by going through all outcomes
    errors = (network(theta)[:, None] - targets - coin_table) / 3
    g = vmap(pullback, in_dims=(0, 0))(theta[:, None].expand(-1, 8, -1), errors)
    centred = g - g.mean(1, keepdim=True)
    return centred.mT @ centred / 8


def gap(one, two):
    return (one - two).norm(dim=(-2, -1)) / two.norm(dim=(-2, -1))


away = minima + 0.3 * torch.randn(minima.shape, generator=run.generator("away"), dtype=run.dtype).to(
    run.device
)


def unbalance(V):  # by how much a step changes V, relative; η = 0.1, σ = 1, b = 3
    contraction = eye - 0.1 * H
    return gap(contraction @ V @ contraction + 0.01 * H / 3, V)


# %% tags=["hide-input"]
ledger.check(
    "regularization:beyond-label-shape",
    "Where the data are fitted, label noise has covariance σ²H/b (three samples, all eight outcomes)",
    measured=gap(enumerated(minima), H / 3),
    criterion=identity("‖Σ − σ²H/b‖/‖σ²H/b‖", size=12),
    control=control(
        "a point that does not fit the data", gap(enumerated(away), vmap(hessian(loss))(away) / 3)
    ),
    expected="holds",
    seeds=nets,
)
ledger.check(
    "regularization:beyond-label-round",
    "The cloud of label noise is ησ²/b (2I − ηH)⁻¹ on the directions the loss sees, and nothing elsewhere",
    measured=unbalance(0.1 / 3 * torch.linalg.inv(2 * eye - 0.1 * H) @ Pi),
    criterion=identity("‖(I − ηH)V(I − ηH) + η²Σ − V‖/‖V‖", size=12),
    control=control("its limit of small steps, ησ²/(2b) Π", unbalance(0.1 / 6 * Pi)),
    expected="holds",
    seeds=nets,
)

# %% [markdown]
# ## The third order moves along the minima
#
# So far nothing moves along the valley of minima. What moves the iterates there is that the valley is wider at some places than at others. A cloud of fixed size climbs higher on the walls where the valley is narrow; the mean gradient over the cloud therefore points towards the narrow part, and the steps, against it, go towards the wide part. In formulas: let $\delta$ be the deviation from a
# point $\theta^\star$ of zero loss, with covariance $V$. The mean gradient over the cloud is
#
# $$\mathbb E\,\nabla\mathcal L(\theta^\star+\delta)=H\,\mathbb E\delta+\tfrac12D^3\mathcal L[V]+\dots,\qquad [D^3\mathcal L[V]]_l=\sum_{i,j}\partial_i\partial_j\partial_l\mathcal L\;V_{ij} ,$$
#
# where $D^3\mathcal L[V]$ is the vector of third derivatives of the loss, averaged with the weights $V_{ij}$. For its component along a vector $w$ we write $D^3\mathcal L[V,w]$, and for $V=pq^\top$ simply $D^3\mathcal L[p,q,w]$: the third derivative of $\mathcal L$ in the directions $p$, $q$ and $w$.
#
# Across the valley a small shift $\mathbb E\delta$ of the cloud makes the first term balance the second. Along the valley $H$ is zero and nothing balances: the second term acts step after step in the same direction. Insert the round cloud $V=\frac{\eta\sigma^2}{2b}\Pi$. If $\Pi$ were the identity,
# $\frac12D^3\mathcal L[V]$ would be $\frac{\eta\sigma^2}{4b}\nabla\,\mathrm{tr}\,\nabla^2\mathcal L$, the gradient of a penalty on the trace. But $\Pi$ is not the identity: in the invisible directions there is no cloud. The theorem says that these directions do not contribute.
#
# :::{prf:theorem} Third order and flatness
# :label: regularization-beyond-label-third-order
# Let the $f_i$ be three times continuously differentiable, $f_i(\theta^\star)=y_i$ for all $i$, and let $J$ have rank $n$. For every $w$ with $Jw=0$
#
# $$D^3\mathcal L[\Pi,w]=\langle w,\nabla\,\mathrm{tr}\,\nabla^2\mathcal L\rangle .$$
#
# On the set of minimizers $\mathrm{tr}\,\nabla^2\mathcal L=\frac1n\sum_i\lVert\nabla f_i\rVert^2$. More generally, if $\eta\lambda_1(\nabla^2\mathcal L)<2$, with the exact cloud $V=\frac{\eta\sigma^2}{b}(2I-\eta H)^{-1}\Pi$,
#
# $$\tfrac12D^3\mathcal L[V,w]=\langle w,\nabla R\rangle,$$
#
# $$R=-\frac{\sigma^2}{2b}\ln\det\bigl(I-\tfrac\eta2\nabla^2\mathcal L\bigr),$$
#
# and $R=\frac{\eta\sigma^2}{4b}\,\mathrm{tr}\,\nabla^2\mathcal L+O(\eta^2)$.
# :::
#
# *The key step.* At zero residual $D^3\mathcal L[p,q,w]=\frac1n\sum_i\bigl(D^2f_i[p,q]\,Df_i[w]+D^2f_i[p,w]\,Df_i[q]+D^2f_i[q,w]\,Df_i[p]\bigr)$ with $Df_i[w]=\nabla f_i^\top w$ and $D^2f_i[p,q]=p^\top(\nabla^2f_i)\,q$. If $p,q,w$ are all invisible, every $Df_i$ is zero, and so is the sum.
#
# :::{dropdown} Proof
# 1. Differentiate $\mathcal L=\frac1{2n}\sum(f_i-y_i)^2$ three times; the term $(f_i-y_i)D^3f_i$ vanishes at $\theta^\star$. This is the key step's formula.
# 2. $\langle w,\nabla\,\mathrm{tr}\,\nabla^2\mathcal L\rangle=D^3\mathcal L[I,w]=D^3\mathcal L[\Pi,w]+D^3\mathcal L[I-\Pi,w]$. The last is a sum of $D^3\mathcal L[t,t,w]$ over an orthonormal basis of invisible $t$, hence zero.
# 3. On the minimizers $\nabla^2\mathcal L=\frac1nJ^\top J$, with trace $\frac1n\sum\lVert\nabla f_i\rVert^2$.
# 4. For a symmetric $V$ and an invisible $w$ the first of the three terms vanishes and $D^3\mathcal L[V,w]=\frac2n\sum_i\nabla f_i^\top V\,(\nabla^2f_i)w=\mathrm{tr}(V\,D_w(\tfrac1nJ^\top J))$, with $D_w$ the derivative along $w$. The derivative of
#    $\nabla^2\mathcal L$ along $w$ has the further term $\frac1n\sum Df_i[w]\nabla^2f_i=0$, so $D^3\mathcal L[V,w]=\mathrm{tr}(V\,D_wH)$.
# 5. $D_w\ln\det(I-\frac\eta2H)=-\frac\eta2\mathrm{tr}((I-\frac\eta2H)^{-1}D_wH)=-\eta\,\mathrm{tr}((2I-\eta H)^{-1}D_wH)$. Hence $D_wR=\frac{\eta\sigma^2}{2b}\mathrm{tr}((2I-\eta H)^{-1}D_wH)$. The part of $(2I-\eta H)^{-1}$ on the invisible directions is
#    $\frac12(I-\Pi)$ and contributes nothing, as in step 2. What remains is $\frac12\mathrm{tr}(VD_wH)$. $\square$
# :::
#
# The formula with the determinant is the regularizer of {cite}`damian2021label`. Two special cases show what the theorem says. *A model that is linear in its weights* has constant $\nabla f_i$, so the trace is the same at all minimizers, and label noise does not drift. *Noise of another shape* has another penalty: if the noise has the
# variance $s^2$ in every visible direction, $\Sigma=s^2\Pi$, then for small steps $V=\frac{\eta s^2}2H^+$, step 4 of the proof gives $\frac12D^3\mathcal L[V,w]=\frac{\eta s^2}4\,\mathrm{tr}(H^+D_wH)$, and this is the derivative of $\frac{\eta s^2}4\ln\det(\frac1nJJ^\top)$: a logarithm of the determinant in place of the trace.
#
# Both identities of the theorem are checked on the networks, all derivatives by automatic differentiation. The last two lines confirm the logarithm.

# %%
D3 = vmap(jacrev(hessian(loss)))(minima)  # (nets, 12, 12, 12)
tangent = eye - Pi


def onto(tensor, V):  # D³L[V], its part along the minima
    return (tangent @ torch.einsum("...ijk,...ij->...k", tensor, V)[..., None]).squeeze(-1)


def relative(one, two):
    return (one - two).norm(dim=-1) / two.norm(dim=-1)


trace_slope = (tangent @ vmap(jacrev(lambda theta: hessian(loss)(theta).trace()))(minima)[..., None]).squeeze(
    -1
)
kappa = float((torch.linalg.cond(J) ** 2).max())

# %%
exact_slope = vmap(jacrev(lambda theta: -torch.logdet(eye - 0.05 * hessian(loss)(theta)) / 6))(minima)
cloud = 0.1 / 3 * torch.linalg.inv(2 * eye - 0.1 * H) @ Pi  # η = 0.1, σ = 1, b = 3
exact_slope = (tangent @ exact_slope[..., None]).squeeze(-1)
log_slope = vmap(jacrev(lambda theta: torch.logdet(jacrev(network)(theta) @ jacrev(network)(theta).T / 3)))(
    minima
)
even_slope = onto(
    D3, torch.linalg.pinv(H, hermitian=True)
)  # of noise that is even over the visible directions
assert torch.allclose(even_slope, (tangent @ log_slope[..., None]).squeeze(-1), rtol=1e-6, atol=1e-8)

# %% tags=["hide-input"]
ledger.check(
    "regularization:beyond-label-third-order",
    "Along the minima the third derivative on a round cloud is the gradient of the trace",
    measured=relative(onto(D3, Pi), trace_slope),
    criterion=identity("‖D³L[Π] − ∇tr∇²L‖/‖∇tr∇²L‖ along the minima", condition=kappa, size=12),
    control=control("a cloud with the shape of H", relative(onto(D3, H), trace_slope)),
    expected="holds",
    seeds=nets,
    show="card",
)
ledger.check(
    "regularization:beyond-label-log-det",
    "The finite-step regularizer is −σ²/(2b) ln det(I − ηH/2)",
    measured=relative(onto(D3, cloud) / 2, exact_slope),
    criterion=identity("‖½D³L[V] − ∇R‖/‖∇R‖ along the minima", condition=kappa, size=12),
    control=control("its limit of small steps, ησ²/(4b) tr H", relative(0.1 / 12 * trace_slope, exact_slope)),
    expected="holds",
    seeds=nets,
)

# %% [markdown]
# It remains to show that the *chain* follows this push. The source's third claim is that descent with label noise converges to a stationary point of $\mathcal L+\lambda\,\mathrm{tr}\,\nabla^2\mathcal L$, "mainly due to the accumulation of a third order effect". The next theorem has the mechanism and the constant $\lambda$, which the source leaves open. Where the
# runs end is shown later, on three models: the hyperbola, small networks and a sparse problem.
#
# :::{prf:theorem} The drift along the minima
# :label: regularization-claim-label-noise
# Let $f_i$ be smooth, $\theta_0=\theta^\star$ a point with $f_i(\theta^\star)=y_i$, $J$ of rank $n$, and let {eq}`eq-label-noise-update` run with all samples in every step ($b=n$) and label noise that is symmetric and bounded by a multiple of $\sigma$.
# For fixed $\eta$ and $k$, as $\sigma\to0$,
#
# $$\mathbb E\,(I-\Pi)(\theta_k-\theta^\star)=-\frac\eta2\sum_{j<k}(I-\Pi)\,D^3\mathcal L[V_j]+O(\sigma^4),$$
#
# where $V_0=0$ and $V_{j+1}=(I-\eta H)V_j(I-\eta H)+\frac{\eta^2\sigma^2}{b}H$.
#
# If $\eta\lambda_1(H)<2$, then once $V_j$ has settled, and for small steps, each step drifts by
#
# $$-\eta\,\lambda\;(I-\Pi)\,\nabla\,\mathrm{tr}\,\nabla^2\mathcal L,\qquad\boxed{\lambda=\frac{\eta\,\sigma^2}{4b}}$$
#
# as a gradient step on $\mathcal L+\lambda\,\mathrm{tr}\,\nabla^2\mathcal L$ would. (A bare $\lambda$ is this penalty, $\lambda_1(H)$ an eigenvalue.) To move by a fixed distance takes about $1/(\eta\lambda)=4b/(\eta^2\sigma^2)$ steps.
# :::
#
# *The key step.* Expand the iterate in powers of $\sigma$. The term of first order is the linear chain with covariance $V_j$, and it does not move along the minima. Two things enter the second order. The noise multiplies the deviation of the step before, which is independent of it: on average this is zero. And the third derivative acts on the first order: this is the drift.
#
# :::{dropdown} Proof
# 1. For fixed $k$ the iterate is a smooth function of the finitely many numbers $\xi_{j,i}=\sigma\epsilon_{j,i}$, and the $\epsilon_{j,i}$ are bounded. So $\theta_k=\theta^\star+\sigma p_k+\sigma^2q_k+\sigma^3r_k+O(\sigma^4)$, uniformly over the noise.
# 2. *First order.* $p_{k+1}=(I-\eta H)p_k+\frac\eta nJ^\top\epsilon_k$, $p_0=0$. So $(I-\Pi)p_k=0$, and $\sigma^2\mathbb Ep_kp_k^\top=V_k$ by the proof of {prf:ref}`regularization-claim-ou-multivariate`.
# 3. *Second order.* The gradient of {eq}`eq-label-noise-update` is $\nabla\mathcal L(\theta)-\frac1nJ(\theta)^\top\xi$. Its terms of order $\sigma^2$ are $Hq_k+\frac12D^3\mathcal L[p_kp_k^\top]-\frac1n\sum_i\epsilon_{k,i}\nabla^2f_i\,p_k$.
# 4. $p_k$ depends on the noise before step $k$ only. So the last term has mean zero, and with $(I-\Pi)H=0$:
#    $\mathbb E(I-\Pi)q_{k+1}=\mathbb E(I-\Pi)q_k-\frac\eta2(I-\Pi)D^3\mathcal L[\mathbb Ep_kp_k^\top]$. Sum over $k$.
# 5. Changing all signs of the noise turns $\sigma$ into $-\sigma$ and does not change the law: odd orders have mean zero, so the error is $O(\sigma^4)$.
# 6. $V_j$ tends to the cloud of {prf:ref}`regularization-beyond-label-shape`, and {prf:ref}`regularization-beyond-label-third-order` turns it into the gradient of $R$, which is $\lambda\,\mathrm{tr}\,\nabla^2\mathcal L$ up to $O(\eta^2)$. $\square$
# :::
#
# With $b<n$ the residuals of the cloud add sampling noise to the label noise, a relative change of order $\eta$. What the theorem does not say is what happens after $4b/(\eta^2\sigma^2)$ steps, when the weights have moved and the expansion at $\theta^\star$ no longer applies. That the drift goes on as a flow along the minimizers is proved by {cite}`li2022happens` for $\eta\to0$, and
# {cite}`damian2021label` prove convergence to stationary points of $\mathcal L+R$. Below we follow three models all the way.
#
# The card measures the drift: coin noise in all networks, thousands of chains in all, each projected on the predicted direction and divided by the predicted length. The control is noise of the same total size, spread evenly over the three visible directions. A row below the card tests the whole vector: in each network the mean
# displacement in all nine invisible directions is compared with the prediction by Hotelling's statistic (the squared distance of a mean from its claimed value in units of its sampling error, which follows an $F$ law if the claim is right).

# %%
small, step, count = 0.02, 0.05, 400
marks = list(range(0, count + 1, 20))
per_net = max(chains // (2 * len(nets)), 50)
begin = minima[:, None].expand(-1, per_net, -1)
labelled = diffusions.label_noise_gradient(
    network, targets, small, run.generator("drift"), noise="signs", pullback=pullback
)
source = run.generator("even")
power = (small**2 / 3 * H.diagonal(dim1=-2, dim2=-1).sum(-1) / 3).sqrt()[:, None, None]


def even(theta, k):
    fresh = torch.randn(theta.shape, generator=source, dtype=run.dtype).to(run.device)
    return pullback(theta, (network(theta) - targets) / 3) + power * fresh @ Pi


clouds = torch.stack([diffusions.chain_covariance_path(h, small**2 / 3 * h, step, count) for h in H], 1)
pushes = -step / 2 * onto(D3, clouds[:-1])  # (count, nets, 12)
promised = torch.cat([torch.zeros_like(pushes[:1]), pushes.cumsum(0)])[marks]
direction = promised[-1] / promised[-1].norm(dim=-1, keepdim=True)

# %%
drifted, strayed = {}, {}
along = torch.linalg.eigh(tangent).eigenvectors[..., 3:]  # a basis of the nine invisible directions
for name, gradient in {"label": labelled, "even": even}.items():
    track = ensembles.iterate(GradientDescent(step), gradient, begin, count, record=marks).values - begin
    drifted[name] = (track * direction[:, None]).sum(-1) / promised[-1].norm(dim=-1)[:, None]
    off = (track[-1] - promised[-1][:, None]) @ along  # (nets, chains, 9)
    spread = torch.linalg.inv(torch.stack([torch.cov(each.T) for each in off]))
    hotelling = per_net * torch.einsum("si,sij,sj->s", off.mean(1), spread, off.mean(1))
    strayed[name] = hotelling * (per_net - 9) / (9 * (per_net - 1))  # F law, 9 and N - 9 degrees of freedom

# %% tags=["hide-input"]
ledger.check(
    "regularization:claim-label-noise",
    "Label noise drifts along the minima by −ηλ∇tr∇²L with λ = ησ²/(4b), in its finite-step form",
    measured=statistics.mean_interval(drifted["label"][-1].flatten()),
    criterion=exponent("drift / predicted drift", 1.0, neighbours=[0.5, 2.0]),
    control=control(
        "noise of the same size, even over the visible directions",
        statistics.mean_interval(drifted["even"][-1].flatten()),
    ),
    expected="holds",
    seeds=nets,
    show="card",
    rtol=0.05,
)
ledger.check(
    "regularization:beyond-label-drift-vector",
    "In each network the whole drift along the minima is the predicted vector, up to sampling error",
    measured=strayed["label"],  # 0.1 % for all networks together
    criterion=at_most(
        "Hotelling's statistic of the mean drift", float(f.isf(0.001 / len(nets), 9, per_net - 9))
    ),
    control=control("noise of the same size, even over the visible directions", strayed["even"]),
    expected="holds",
    seeds=nets,
    rtol=0.3,
)

# %% tags=["hide-input"] mystnb={"figure": {"caption": "**The drift has the predicted length.** Mean displacement along the minima in eight small networks, in units of the predicted displacement after 400 steps (band: 95 % over five thousand chains); dotted, the theorem's sum, straight once the cloud has formed. What breaks it: noise of the same total size, spread evenly over the directions that the loss sees (dashed), has another cloud and another drift.", "name": "fig-label-noise-drift"}, "image": {"alt": "A rising curve with a narrow band that coincides with a dotted line and ends at one, and a dashed curve that does not follow it."}}
fig, ax = figures.subplots()
expected_line = ((promised * direction).sum(-1) / promised[-1].norm(dim=-1)).mean(-1)
figures.band(ax, marks, drifted["label"].flatten(1).T, label="label noise", lw=3)
ax.plot(marks, expected_line.cpu(), ":", color=COLORS["black"], marker="", label="theorem")
figures.line_control(ax, marks, drifted["even"].flatten(1).mean(1), label="even noise")
ax.set(xlabel="step k", ylabel="drift / predicted drift at k = 400")
ax.legend(loc="upper left")
figures.plt.show()

# %% tags=["hide-input"]
figures.numbers(
    run,
    "fig-label-noise-drift",
    {
        "step": marks,
        "label_noise": drifted["label"].flatten(1).mean(1),
        "theorem": expected_line,
        "even_noise": drifted["even"].flatten(1).mean(1),
    },
    rtol=0.1,
    noise=0.05,
)

# %% [markdown]
# **Cite this result** as the anchor `regularization-claim-label-noise` of this page, with the release of the book.
#
# ## On the hyperbola, exactly
#
# Back to the opening, $f=uv$ with one sample, so $b=1$. Here $\nabla^2\mathcal L$ has the diagonal $(v^2,u^2)$, its trace is $u^2+v^2=\lVert\theta\rVert^2$, and on $uv=1$ it is smallest at $u=v=1$. The theory above predicts the drift, but in this example one identity is enough. Write $e_k=u_kv_k-1-\xi_k$ for the residual
# against the perturbed label.
#
# :::{prf:theorem} A product law
# :label: regularization-beyond-label-product
# For every sequence of label noise, every $\eta$ and every start,
#
# $$u_{k}^2-v_{k}^2=(u_0^2-v_0^2)\prod_{j<k}\bigl(1-\eta^2e_j^2\bigr).$$
# :::
#
# *Proof.* $u_{k+1}^2-v_{k+1}^2=(u-\eta ev)^2-(v-\eta eu)^2=u^2-v^2-2\eta e\,(uv-vu)+\eta^2e^2(v^2-u^2)$. The middle term cancels. $\square$
#
# Gradient *flow* conserves $u^2-v^2$, which is why the start decides everything in {chapter}`From kernel to rich <implicit_bias/kernel_to_rich>`. A finite step loses a factor $1-\eta^2e^2$. Without noise $e_j\to0$ so fast that the product stays away from zero: the start is remembered. Label noise
# keeps $e_j$ of size $\sigma$ for ever, and the product tends to zero: the runs become balanced, $|u|=|v|$, and this is the flattest point.
#
# :::{prf:theorem} With probability one, every run ends balanced
# :label: regularization-beyond-label-flattest
# Let $\xi_k=\pm\sigma$ be fair coins with $0<\sigma<1$, let $u_0v_0=1$ with $0<u_0\ne1$, and put $\Delta_k=u_k^2-v_k^2$ and $T=\sqrt{\Delta_0^2+4(1+\sigma)^2}$. If $\eta T+2\eta^2\sigma(1+\sigma)\le1$, then for all $k$
#
# $$1-\sigma\le u_kv_k\le1+\sigma,$$
#
# $$|\Delta_k|\le|\Delta_0|\exp\Bigl(-\eta^2\sum_{j<k}e_j^2\Bigr),$$
#
# $$\mathbb E\ln\frac{|\Delta_k|}{|\Delta_0|}\le-\eta^2\sigma^2k ,$$
#
# and $\Delta_k\to0$ with probability one: $|u_k|-|v_k|\to0$.
# :::
#
# *Why one should expect it.* $\mathbb Ee^2\ge\sigma^2$, so the imbalance loses at least a share $\eta^2\sigma^2$ a step. The penalty says the same: the flow $\dot\theta=-\lambda\nabla\lVert\theta\rVert^2=-2\lambda\theta$ shrinks $u^2-v^2$ at the rate $4\lambda$, and $4\lambda\eta=\eta^2\sigma^2$.
#
# *The key step.* Of the two coins at least one gives $|u_kv_k-1-\xi_k|\ge\sigma$. So at every step $e_j^2\ge\sigma^2$ with probability at least $\frac12$, whatever went before; this happens infinitely often, and $\sum e_j^2$ is infinite.
#
# :::{dropdown} Proof
# 1. *Confinement.* Put $p=uv$ and $q=1+\xi$, so $e=p-q$. Then $p'=p-\eta e(u^2+v^2)+\eta^2e^2p$, hence $p'-q=e\,m$ with $m=1-\eta(u^2+v^2)+\eta^2ep$. Suppose $p\in[1-\sigma,1+\sigma]$ and $|\Delta|\le|\Delta_0|$. As $(u^2+v^2)^2=\Delta^2+4p^2$, we have
#    $2p\le u^2+v^2\le T$. Since $|e|\le2\sigma$, the hypothesis gives $m\ge1-\eta T-2\eta^2\sigma(1+\sigma)\ge0$; and $\eta^2ep\le\eta\cdot2\eta\sigma\cdot p\le2\eta p\le\eta(u^2+v^2)$ gives $m\le1$. (The hypothesis contains $\eta\le1/T\le\frac12$, so $2\eta\sigma<1$.) So $p'$ lies between $q$ and $p$, both in the
#    interval. By step 2, $|\Delta'|\le|\Delta|$. Induction over $k$.
# 2. *Decay.* $\eta|e|\le2\eta\sigma<1$, so $0<1-\eta^2e^2\le\exp(-\eta^2e^2)$. Insert it in {prf:ref}`regularization-beyond-label-product`.
# 3. *In the mean.* $\xi_j$ is independent of $u_jv_j$, so $\mathbb Ee_j^2=\mathbb E(u_jv_j-1)^2+\sigma^2\ge\sigma^2$. Take logarithms and means in step 2.
# 4. *Almost surely.* Given the past, $e_j^2\ge\sigma^2$ with probability at least $\frac12$: it happens for $\xi_j=-\sigma$ if $u_jv_j\ge1$ and for $\xi_j=\sigma$ if $u_jv_j\le1$. By the conditional Borel-Cantelli lemma (events whose conditional probabilities add up to infinity happen infinitely often) it happens infinitely often, so $\sum e_j^2=\infty$ and step 2 gives $\Delta_k\to0$. Then
#    $\bigl||u|-|v|\bigr|^2\le|\Delta|$. $\square$
# :::

# %%
every = 40


def slide(kind, stream):
    """Run all chains; return u, v, the product of 1 - (ηe)² every 40 steps, and the largest |uv - 1| met."""
    source, u = run.generator(stream), torch.full((chains,), 3.0, **like)
    u[: chains // 2] = 0.4
    v, product, widest, kept = 1 / u, torch.ones_like(u), torch.zeros_like(u), []
    for k in range(steps + 1):
        if k % every == 0:
            kept.append(torch.stack([u, v, product]))
        widest = torch.maximum(widest, (u * v - 1).abs())
        xi = 0.0
        if kind == "signs":
            xi = sigma * (2 * torch.randint(2, u.shape, generator=source) - 1).to(u)
        elif kind == "normal":
            xi = sigma * torch.randn(u.shape, generator=source, dtype=run.dtype).to(u)
        e = u * v - 1 - xi  # residual against the perturbed label
        product = product * (1 - (eta * e) ** 2)
        u, v = u - eta * e * v, v - eta * e * u
        if kind == "weights":
            both = torch.randn(2, chains, generator=source, dtype=run.dtype).to(u)
            u, v = u - eta * sigma * both[0], v - eta * sigma * both[1]
    return torch.stack(kept), widest


# %%
path, widest = slide("signs", "coins")  # (records, 3, chains), the runs of the first figure
assert torch.equal(path[-1, :2], frames[steps])
imbalance = path[:, 0] ** 2 - path[:, 1] ** 2  # (records, chains)
law = imbalance[0] * path[:, 2]
total = path[:, 0] ** 2 + path[:, 1] ** 2
shaken, _ = slide("weights", "weights")
shaken_gap = shaken[:, 0] ** 2 - shaken[:, 1] ** 2

# %%
reach_T = torch.sqrt(imbalance[0] ** 2 + 4 * (1 + sigma) ** 2).max()
assert eta * reach_T + 2 * eta**2 * sigma * (1 + sigma) <= 1  # the hypothesis, for both starts
quiet, _ = slide("none", "none")
quiet_gap = quiet[:, 0] ** 2 - quiet[:, 1] ** 2


def log_decay(gap):  # ln(|Δ_k|/|Δ₀|)/(η²σ²k) of every chain
    return (gap[-1] / gap[0]).abs().log() / (eta**2 * sigma**2 * steps)


fallen, wandered = log_decay(imbalance), log_decay(shaken_gap)

# %% tags=["hide-input"]
ledger.check(
    "regularization:beyond-label-product",
    "u² − v² is multiplied by 1 − η²e² at every step of every chain",
    measured=((imbalance - law) / total)[1:],
    criterion=identity("(u² − v² − product law)/(u² + v²)", size=math.sqrt(steps)),
    control=control(
        "noise on the weights instead of the label",
        ((shaken_gap - shaken_gap[0] * shaken[:, 2]) / (shaken[:, 0] ** 2 + shaken[:, 1] ** 2))[-1],
    ),
    expected="holds",
    show="card",
)
ledger.check(
    "regularization:beyond-label-flattest",
    "ln|u² − v²| falls by at least η²σ² a step on average",
    measured=fallen,
    criterion=confident("ln(|Δ_k|/|Δ₀|)/(η²σ²k)", at_most=-1.0),
    control=control("noise on the weights instead of the label", wandered),
    expected="holds",
    show="card",
    rtol=0.05,
)

# %% tags=["hide-input"] mystnb={"figure": {"caption": "**Every run obeys its product.** Imbalance |u² − v²| of six runs from (3, 1/3) (lines) on the product of the factors 1 − η²e² that each of them met (dots, every tenth record); dotted, the guaranteed mean rate η²σ², which the runs outpace while the loss is steep. What breaks it: without label noise the imbalance stands still (dashed), and noise of the same size on the weights makes it wander (dash-dotted).", "name": "fig-label-noise-imbalance"}, "image": {"alt": "On a logarithmic axis six nearly straight lines fall together by two decades, with dots exactly on them, slightly below a dotted straight line. A dashed line stays at the top, and a dash-dotted curve goes down and up again."}}
fig, ax = figures.subplots()
at, plotted = torch.arange(len(path)) * every, {}
for i, c in enumerate(range(-6, 0)):  # from (3, 1/3)
    (plotted[f"run_{i + 1}"],) = ax.plot(
        at,
        imbalance[:, c].abs().cpu(),
        color=COLORS["blue"],
        marker="",
        lw=1,
        label=None if i else "six runs",
    )
    (plotted[f"product_{i + 1}"],) = ax.plot(
        at[::10],
        law[::10, c].abs().cpu(),
        ".",
        color=COLORS["vermillion"],
        label=None if i else "product law",
    )
guaranteed = torch.exp(-(eta**2) * sigma**2 * at)
ax.plot(at, imbalance[0, -1].cpu() * guaranteed, ":", color=COLORS["black"], marker="", label="rate η²σ²")
plotted["no_noise"] = figures.line_control(ax, at, quiet_gap[:, -1].abs(), label="no noise")
plotted["noise_on_weights"] = figures.line_control(
    ax, at, shaken_gap[:, -1].abs(), label="noise on the weights", linestyle="-."
)
ax.set(yscale="log", xlabel="step k", ylabel="|u² − v²|", ylim=(2e-3, None))
ax.legend(loc="lower left", fontsize=8)
figures.plt.show()

# %% tags=["hide-input"]
figures.numbers(
    run,
    "fig-label-noise-imbalance",
    figures.columns("step", plotted),
    noise=1e-9,
)

# %% [markdown]
# **Cite this result** as the anchor `regularization-beyond-label-flattest` of this page, with the release of the book.
#
# Rows at the end of the page check the other two parts of the theorem. It remains to find the limit point itself. On the line $u=v$ the regularized loss $\frac12(uv-1)^2+\lambda(u^2+v^2)$ is stationary at $uv=1-2\lambda=1-\eta\sigma^2/2$. The mean product of the chain is below one by the same amount. Averaging the iterates does not remove this bias; only less noise or a shorter step does.
#
# :::{prf:proposition} Where the runs settle
# :label: regularization-beyond-label-shift
# Let the chain of {prf:ref}`regularization-beyond-label-flattest` start on the line $u=v>0$ with $1-\sigma\le uv\le1+\sigma$. For small $\eta$ it stays there, by step 1 of that proof. Let the law of the start be stationary. Then $\mathbb E\ln(1-\eta e)=0$ exactly, and $\mathbb E\,uv=1-\frac{\eta\sigma^2}{2(1-\eta)}+O(\eta^3)=1-2\lambda+O(\eta^2)$.
# :::
#
# :::{dropdown} Proof
# 1. With $u=v$ the update is $u_{k+1}=u_k(1-\eta e_k)$, so $\ln u_{k+1}=\ln u_k+\ln(1-\eta e_k)$. In a stationary state the mean of $\ln u$ does not change.
# 2. Expand: $0=-\eta\,\mathbb Ee-\frac{\eta^2}2\mathbb Ee^2+O(\eta^3)$, and $\mathbb Ee=\mathbb E\,uv-1$, $\mathbb Ee^2=\sigma^2+O(\eta)$. So $\mathbb Ee=-\eta\sigma^2/2+O(\eta^2)$.
# 3. One order more: $\mathbb Ee^2=\sigma^2+\mathbb E(uv-1)^2$, and near $u=v=1$ one step changes the product by $-\eta e(u^2+v^2)\approx-\eta\,(2(uv-1)-2\xi)$, which is the chain of curvature $h=2$ with noise of variance $4\sigma^2$. So {prf:ref}`regularization-claim-ou-1d` gives $\mathbb E(uv-1)^2=\eta\sigma^2+O(\eta^2)$; and $\mathbb Ee^3=O(\eta)$, because
#    $\mathbb E\xi^3=0$. So $\mathbb Ee=-\frac{\eta\sigma^2}2(1+\eta)+O(\eta^3)$. $\square$
# :::
#
# The chain runs in half the sum $p$ and half the difference $m$ of $u$ and $v$: then $uv=p^2-m^2$, and a step multiplies $p$ by $1-\eta e$ and $m$ by $1+\eta e$. With $m=0$ this is the chain of the proof. What breaks it is a start on the minima that is not balanced, $(3,\frac13)$, under the same coins for equally many steps.

# %%
short, length = 0.02, run.pick(smoke=1000, book=2000, paper=4000)


def mean_product(u, v):
    """Time average of e = uv - 1 - ξ in every chain, after 300 steps; its mean is that of uv - 1."""
    source, total = run.generator("settle"), torch.zeros(chains, **like)
    p, m = total + (u + v) / 2, total + (u - v) / 2
    for k in range(300 + length):
        xi = sigma * (2 * torch.randint(2, p.shape, generator=source) - 1).to(p)
        e = p * p - m * m - 1 - xi
        if k >= 300:
            total = total + e
        p, m = p * (1 - short * e), m * (1 + short * e)
    return total / length / (-short * sigma**2 / (2 - 2 * short))


# %% tags=["hide-input"]
ledger.check(
    "regularization:beyond-label-shift",
    "The mean of uv settles at the stationary point of L + λ tr∇²L, 2λ/(1 − η) below one",
    measured=statistics.mean_interval(mean_product(1, 1)),
    criterion=exponent("(mean of uv − 1)/(−2λ/(1 − η))", 1.0, neighbours=[0.95, 1.05]),
    control=control("a start that is not balanced", statistics.mean_interval(mean_product(3, 1 / 3))),
    expected="holds",
    needs="book",
    rtol=0.05,
)

# %% [markdown]
# ### All the way down, in the networks
#
# The networks have no product law, but the third-order theory predicts their whole way: the flow $\dot\theta=-(I-\Pi)\nabla R$ along the minimizers, with no fitted constant, where $k$ steps take the time $k\eta$. We follow the flow with short steps along the minimizers, each with a Newton step back onto them. Beside it we run chains with large label
# noise, and compare the traces.


# %%
def trace(theta):  # mean of ‖∇f‖² over the samples, the trace of the Hessian at zero loss
    a, w, c = theta.unflatten(-1, (3, 4)).unbind(-2)
    z = torch.tanh(w[..., None, :] * inputs[:, None] + c[..., None, :])
    inner = (a[..., None, :] * (1 - z**2)) ** 2 * (1 + inputs[:, None] ** 2)
    return (z**2 + inner).sum(-1).mean(-1)


def regularizer(theta, eta, sigma):
    jacobian = jacrev(network)(theta)
    return -(sigma**2) / 6 * torch.logdet(torch.eye(3, **like) - eta / 6 * jacobian @ jacobian.T)


# %%
def along_minima(theta, eta, sigma, steps, records):
    """Follow the flow of R on the minimizers; return the trace at each record."""
    seen, each = [trace(theta)], 10
    for k in range(1, each * records + 1):
        jacobian = vmap(jacrev(network))(theta)
        inverse = torch.linalg.pinv(jacobian)
        slope = vmap(lambda point: jacrev(regularizer)(point, eta, sigma))(theta)
        slope = slope - (inverse @ (jacobian @ slope[..., None])).squeeze(-1)
        theta = theta - eta * steps / (each * records) * slope
        theta = theta - (inverse @ (network(theta) - targets)[..., None]).squeeze(-1)
        if k % each == 0:
            seen.append(trace(theta))
    return torch.stack(seen)


# %%
step, large, count, records = 0.05, 1.0, run.pick(smoke=1000, book=6000, paper=40_000), 20
assert torch.allclose(trace(minima), H.diagonal(dim1=-2, dim2=-1).sum(-1))
foretold = along_minima(minima, step, large, count, records)
many = minima[:, None].expand(-1, 16, -1)
marks = range(0, count + 1, count // records)
traces = {}
for name, size in (("label", large), ("none", 0.0)):
    source = run.generator("all the way")
    gradient = diffusions.label_noise_gradient(
        network, targets, size, source, noise="signs", pullback=pullback
    )
    traces[name] = ensembles.iterate(GradientDescent(step), gradient, many, count, marks, trace).values


def mismatch(values):  # mean over networks
    return (values.mean(-1) / foretold - 1).abs().mean(-1)


# %% tags=["hide-input"]
ledger.check(
    "regularization:beyond-label-flow",
    "In networks the trace of the Hessian follows the flow of R along the minimizers",
    measured=mismatch(traces["label"]),
    criterion=at_most("mean over networks of |trace/trace of the flow − 1|", 0.05),
    control=control("no label noise, at the end", mismatch(traces["none"])[-1]),
    expected="reproduced",
    claim="experiment",
    seeds=nets,
    needs="book",
    rtol=0.1,
)

# %% [markdown]
# The result is the left panel of {numref}`fig-label-noise-trace` below.
#
# ## Four kinds of noise on one sparse problem
#
# What is flatness good for? In one model the answer can be given exactly. Take the model of {chapter}`Sparse recovery <implicit_bias/sparse_recovery>`, $f(x;\theta)=\langle\theta\odot\theta,x\rangle$ with effective weights $\beta=\theta\odot\theta\ge0$, and data $y=X\beta^\star$ with few samples and few nonzero entries in $\beta^\star$. Here
# $\nabla f_i=2\,\theta\odot x_i$, and at zero loss
#
# $$\mathrm{tr}\,\nabla^2\mathcal L=\frac4n\sum_{i=1}^n\lVert\theta\odot x_i\rVert^2=4\sum_jm_j\beta_j,\qquad m_j=\frac1n\sum_ix_{ij}^2 .$$
#
# So the trace is a weighted $\ell_1$ norm of $\beta$. Its minimum over the interpolants (all $\beta\ge0$ with $X\beta=y$) is a linear program, basis pursuit with weights, and finds sparse solutions. Label noise should therefore do, from any start without zeros, what that chapter achieves by a tiny start
# {cite}`haochen2021shape`.
#
# The same can be seen coordinate by coordinate. With all samples in each step and $g_j=\frac1n\sum_i(f_i-y_i-\xi_i)x_{ij}$ the update is $\theta_j\leftarrow\theta_j(1-2\eta g_j)$. Where $\ln|\theta_j|$ is stationary, $0=\mathbb E\ln|1-2\eta g_j|\approx-2\eta\,\mathbb Eg_j-2\eta^2\,\mathbb Eg_j^2$, and $\mathbb Eg_j^2\approx\sigma^2m_j/n$:
#
# $$\frac1n\,\mathbb E\bigl[X^\top(X\beta-y)\bigr]_j\approx-\frac{\eta\sigma^2}n\,m_j\quad\text{if }\beta_j\text{ stays},\qquad\ge\ \text{if }\beta_j\text{ dies out.}$$
#
# These are the optimality conditions of a lasso, $\min_{\beta\ge0}\frac1{2n}\lVert X\beta-y\rVert^2+\frac{\eta\sigma^2}n\sum_jm_j\beta_j$, and its penalty is $\lambda\,\mathrm{tr}\,\nabla^2\mathcal L$ with $\lambda=\eta\sigma^2/(4b)$, $b=n$, once more.
#
# :::{admonition} Predict first
# :class: tip
# 40 samples, 100 weights, five of them nonzero in the truth; all runs start at $\theta=(1,\dots,1)$, with the same step size. Four contestants: (1) no noise; (2) batches of ten samples; (3) normal label noise on all samples; (4) normal noise on the
# weights, equal in all coordinates, of the same total size as (3) at the start. The noise has its full size for the first 35 % of the steps and then falls linearly to zero at 95 %. Who finds the truth? How far does (2) get?
# :::
#
# The settings: $\eta=0.03$ and $\sigma=4$, ten problems, 24,000 steps; in the second experiment below, with 12 samples, $\eta=0.02$.

# %%
truth = torch.zeros(100, **like)
truth[:5] = 1.0
draws = run.seeds(smoke=3, book=10, paper=50)


def design(n):
    def make(seed):
        return (torch.randn(n, 100, generator=run.generator(f"design {n}", seed=seed), dtype=run.dtype),)

    return ensembles.stack_over_seeds(make, draws)[0].to(run.device)


# %%
def contest(X, kinds, eta, sigma, steps, records=40):
    """Run all seeds and kinds of noise as one batch; return β at the records, (records + 1, seeds, kinds, 100)."""
    (seeds, n, d), y = X.shape, (X @ truth)[:, None]
    source, kept = run.generator(f"contest {n}"), []
    place = {kind: i for i, kind in enumerate(kinds)}
    size = (
        4 * X.square().mean(1).sum(-1, keepdim=True) / n / d
    ).sqrt()  # of label noise at the start, a coordinate
    theta = torch.ones(seeds, len(kinds), d, **like)
    for k in range(steps + 1):
        if k % (steps // records) == 0:
            kept.append(theta**2)
        level = sigma * min(1.0, max(0.0, (0.95 - k / steps) / 0.6))  # full, then down to zero
        e = (theta**2) @ X.mT - y
        if "batches" in place:
            rows = torch.randint(n, (seeds, 10), generator=source).to(run.device)
            e[:, place["batches"]] *= torch.zeros(seeds, n, **like).scatter_add_(
                1, rows, torch.full_like(rows, n / 10, **like)
            )
        e[:, place["labels"]] -= level * torch.randn(seeds, n, generator=source, dtype=run.dtype).to(
            run.device
        )
        theta = theta - eta * 2 * theta * (e @ X) / n
        if "weights" in place:
            fresh = torch.randn(seeds, d, generator=source, dtype=run.dtype).to(run.device)
            theta[:, place["weights"]] -= eta * level * size * fresh
    return torch.stack(kept)


# %%
kinds = ["none", "batches", "labels", "weights"]
enough, few = design(40), design(12)
beta = contest(enough, kinds, 0.03, 4.0, run.pick(smoke=2000, book=24_000, paper=100_000))
beta_few = contest(few, ["labels"], 0.02, 4.0, run.pick(smoke=2000, book=24_000, paper=100_000))
error = (beta - truth).square().sum(-1)  # (records + 1, seeds, kinds)

# %% tags=["hide-input"]
ledger.check(
    "regularization:beyond-label-sparse",
    "40 samples, 100 weights: label noise finds the sparse truth; no noise, batches and noise on the weights do not",
    measured=error[-1, :, kinds.index("labels")],
    criterion=at_most("‖β − β*‖² after the noise is turned off", 1e-3),
    control=control("the other three kinds", error[-1][:, [0, 1, 3]]),
    expected="reproduced",
    claim="experiment",
    seeds=draws,
    needs="book",
    show="card",
    rtol=0.1,
)

# %% tags=["hide-input"] mystnb={"figure": {"caption": "**Only label noise finds the sparse truth.** Squared distance to the truth for ten problems with 40 samples and 100 weights, all from the same large start (lines: geometric means, bands: 95 %). The noise is full for a third of the way and then goes down to zero at the last grey line. What breaks it: no noise and batches stop at the first interpolant they meet, and noise on the weights drives the run further away.", "name": "fig-label-noise-four"}, "image": {"alt": "Squared error on a logarithmic axis against steps. Two flat lines near the top, one line that rises above them, and one that falls by many decades."}}
fig, ax = figures.subplots()
total_steps = run.pick(smoke=2000, book=24_000, paper=100_000)
at = np.linspace(0, total_steps, len(error))
names = {
    "none": "no noise",
    "batches": "batches of 10",
    "labels": "label noise",
    "weights": "noise on the weights",
}
for kind, look in zip(kinds, ("--", "-.", "-", ":"), strict=True):
    figures.band(ax, at, error[..., kinds.index(kind)].T, label=names[kind], geometric=True, ls=look)
for share in (0.35, 0.95):
    ax.axvline(share * total_steps, color=COLORS["light grey"], lw=1, zorder=0)
ax.set(yscale="log", xlabel="step k", ylabel="$\\|\\beta-\\beta^*\\|^2$")
ax.legend(loc="lower left", fontsize=8.5)
figures.plt.show()

# %% tags=["hide-input"]
figures.numbers(
    run,
    "fig-label-noise-four",
    {"step": at} | {kind: error[..., kinds.index(kind)].log().mean(1).exp() for kind in kinds},
    rtol=0.1,
)

# %% [markdown]
# :::{dropdown} Answer
# Only (3). Without noise the run stops at the interpolant near its start. Batches are noisy on the way, but their noise is a multiple of the residuals and dies with them: it stops as well, at another interpolant {cite}`pesme2021implicit`. Noise on the weights
# never dies, not even in coordinates that ought to be zero, and nothing stops the random walk that the weights make along the invisible directions: $\beta_j=\theta_j^2$ grows.
# Label noise does neither. It lives on when the data are fitted, and it has the shape of the Hessian: the noise of coordinate $j$ is multiplied by $\theta_j$, so it vanishes with the coordinate.
# :::
#
# The pace of the drift is $\eta\lambda=\eta^2\sigma^2/(4b)$ a step. Here the label noise is four times the largest entry of $\beta^\star$; with $\sigma=1$ the same way would take sixteen times as many steps. The price of large noise is a large penalty, hence a bias, and for this reason the noise is
# turned down at the end.
#
# ### Flattest is not always right
#
# Now give label noise too little data: 12 samples. The theory promises the flattest interpolant, which we can compute with a linear program. It does not promise the truth.


# %%
def flattest(X):  # least trace over β ≥ 0 with Xβ = y
    m, y = X.square().mean(1).cpu().numpy(), (X @ truth).cpu().numpy()
    found = [
        linprog(w, A_eq=x, b_eq=t, bounds=(0, None)) for w, x, t in zip(m, X.cpu().numpy(), y, strict=True)
    ]
    assert all(each.status == 0 for each in found)
    return torch.stack([torch.as_tensor(each.x) for each in found]).to(**like)


def excess(X, beta):  # trace over least trace, minus 1; beta (seeds, kinds, 100)
    m = X.square().mean(1)[:, None]
    return (m * beta).sum(-1) / (m * flattest(X)[:, None]).sum(-1) - 1


ends = torch.stack([excess(enough, beta[-1])[:, kinds.index("labels")], excess(few, beta_few[-1])[:, 0]])
missed = (flattest(few) - truth).square().sum(-1) > 0.5

# %% tags=["hide-input"]
ledger.check(
    "regularization:beyond-label-flattest-interpolant",
    "Label noise ends at the least trace that a linear program finds, with 40 samples and with 12",
    measured=ends.abs(),
    criterion=at_most("|trace/least trace − 1|", 0.05),
    control=control("the other three kinds of noise", excess(enough, beta[-1])[:, [0, 1, 3]]),
    expected="reproduced",
    claim="experiment",
    seeds=draws,
    needs="book",
    show="card",
    rtol=0.1,
)
ledger.check(
    "regularization:beyond-label-too-few",
    "12 samples: where the flattest interpolant is not the truth, label noise misses the truth",
    measured=(beta_few[-1, :, 0] - truth).square().sum(-1)[missed],
    criterion=at_least("‖β − β*‖²", 0.5),
    control=control("40 samples", error[-1, :, kinds.index("labels")]),
    expected="reproduced",
    claim="experiment",
    seeds=draws,
    needs="book",
    rtol=0.1,
)

# %% tags=["hide-input"] mystnb={"figure": {"caption": "**The trace of the Hessian along the way.** Left: eight small networks under label noise (lines, means of 16 chains), on the flow of R along the minimizers that the theory predicts (dotted). Right: the sparse problem, trace over the least trace of any interpolant, with enough and with too few samples. What breaks it: without label noise the traces stand still as soon as the data are fitted (dashed).", "name": "fig-label-noise-trace"}, "image": {"alt": "Left, eight falling curves, each with a dotted curve on it, and eight dashed horizontal lines at their starting heights. Right, two curves fall on a logarithmic axis from more than ten towards one, and a dashed line stays at the top."}}
fig, (left, right) = figures.subplots(1, 2)
for i in range(len(nets)):
    last = i == len(nets) - 1
    left.plot(
        marks,
        traces["label"][:, i].mean(-1).cpu(),
        marker="",
        color=COLORS["blue"],
        label="label noise" if last else None,
    )
    left.plot(
        marks,
        foretold[:, i].cpu(),
        ":",
        marker="",
        color=COLORS["black"],
        label="flow of R" if last else None,
    )
    still = traces["none"][:, i].mean(-1).cpu()
    left.plot(
        marks, still, "--", marker="", color=figures.CONTROL_COLOR, lw=0.8, label="no noise" if last else None
    )
left.set(xlabel="step k", ylabel="trace of the Hessian", ylim=(0, None))
left.legend(fontsize=7.5)
ratio = torch.stack([excess(enough, each) for each in beta]) + 1
ratio_few = torch.stack([excess(few, each) for each in beta_few]) + 1
figures.band(right, at, ratio[..., kinds.index("labels")].T, label="40 samples", geometric=True)
figures.band(right, at, ratio_few[..., 0].T, label="12 samples", geometric=True)
figures.line_control(right, at, ratio[..., 0].log().mean(1).exp(), label="no noise")
right.set(yscale="log", xlabel="step k", ylabel="trace / least trace")
right.legend(fontsize=7.5)
figures.plt.show()

# %% tags=["hide-input"]
figures.numbers(
    run,
    "fig-label-noise-trace",
    {
        "step": at,
        "ratio_40": ratio[..., kinds.index("labels")].log().mean(1).exp(),
        "ratio_12": ratio_few[..., 0].log().mean(1).exp(),
        "ratio_40_no_noise": ratio[..., 0].log().mean(1).exp(),
    },
    rtol=0.3,
)

# %% [markdown]
# With 12 samples label noise reaches the least trace all the same, at a vector that is not the truth. Label noise finds what is flat. On this model flat means small in a weighted $\ell_1$ norm, and the smallest interpolant in this norm is the truth when there are enough samples.
#
# ## For the practitioner
#
# What the three numbers do, for small steps:
#
# | | variance of the cloud | penalty on the trace | steps for a fixed way along the minima |
# |---|---|---|---|
# | formula | $\eta\sigma^2/(2b)$ | $\lambda=\eta\sigma^2/(4b)$ | $4b/(\eta^2\sigma^2)$ |
# | $\eta$ doubled | twice | twice | a quarter |
# | $\sigma$ doubled | four times | four times | a quarter |
# | $b$ doubled | half | half | twice |
#
# - **Use it where many solutions fit and a flat one is wanted**: a regression that interpolates its data, with the square loss. Redraw the noise at every step. Noise that is drawn once and kept is only another label, and chooses nothing.
# - **Plan for two times.** It takes about $1/(\eta h)$ steps to fall into the valley, with $h$ its least visible curvature, and $4b/(\eta^2\sigma^2)$ to move along it. With $\eta=0.01$, $\sigma=0.1$ and $b=32$ the second is about $10^8$ steps: small noise in large batches changes nothing in a run of usual length.
# - **Turn the noise down at the end.** As long as it is on, the cloud and a bias of order $\lambda$ remain.
# - **Mind the edge.** The formulas need $\eta\lambda_1(H)<2$, and the cloud grows without bound there.
# - **When not to use it.** The model is linear in its weights (no drift); the data are few (the flattest solution need not be right); the data are not fitted (then the noise of the batches acts as well, with another shape). For the cross-entropy loss label noise has another covariance, and this page proves nothing.
#
# ## Exercises
#
# :::{exercise} By hand
# :label: ex-label-noise-cubic
# Let $f=uv^2$ with one sample, $y=1$ and $u,v>0$. What is the trace of the Hessian on the minimizers, and where is it least? Which combination of $u$ and $v$ does gradient flow conserve, and does it vanish at the flattest point?
# :::
#
# :::{solution-start} ex-label-noise-cubic
# :class: dropdown
# :::
#
# $\nabla f=(v^2,2uv)$, so the trace is $v^4+4u^2v^2=v^4+4v^{-2}$ with $u=v^{-2}$. Its derivative $4v^3-8v^{-3}$ vanishes at $v=2^{1/6}$, $u=2^{-1/3}$. The flow conserves $2u^2-v^2$, which at this point is $2^{1/3}-2^{1/3}=0$. It is balanced, like $u^2-v^2=0$ before.

# %% tags=["hide-cell"]
cubic = diffusions.label_noise_gradient(
    lambda theta: theta[..., :1] * theta[..., 1:] ** 2,
    torch.ones(1, **like),
    0.4,
    run.generator("cubic"),
    noise="signs",
)
ends_cubic = ensembles.iterate(
    GradientDescent(0.05), cubic, torch.tensor([2.0, 0.5**0.5], **like).expand(200, 2), 6000
)
assert (ends_cubic.last.mean(0) - torch.tensor([2 ** (-1 / 3), 2 ** (1 / 6)], **like)).abs().max() < 0.05

# %% [markdown]
# :::{solution-end}
# :::
#
# :::{exercise} Predict a number
# :label: ex-label-noise-half-life
# On the hyperbola with $\eta=0.02$ and $\sigma=1$: after how many steps is $u^2-v^2$ about half of what it was, near the flattest point? What changes if each step averages $b=4$ labels?
# :::
#
# :::{solution} ex-label-noise-half-life
# :class: dropdown
# The share lost in a step is $\eta^2\mathbb Ee^2\approx\eta^2\sigma^2=4\cdot10^{-4}$; half is gone after $\ln2/(4\cdot10^{-4})\approx1733$ steps. With four labels $\mathbb Ee^2\approx\sigma^2/4$, and it takes four times as long, about 6931 steps, as $4b/(\eta^2\sigma^2)$ says. More precisely
# $\mathbb Ee^2\approx2\sigma^2/(2-\eta(u^2+v^2))$, by {prf:ref}`regularization-claim-ou-1d` for the product $uv$, two percent more near $u=v=1$.
# :::
#
# :::{exercise} Change one line
# :label: ex-label-noise-frozen
# Draw the label noise of each run *once* and keep it for all steps. In the first cell of the page this moves the line of `xi` in front of the loop. Expected: every run stops, its product at $1\pm\sigma$, and the imbalance loses less than ten percent in all, instead of more than 99.
# :::
#
# :::{solution-start} ex-label-noise-frozen
# :class: dropdown
# :::
#
# A frozen label is just another label. The run converges to $uv=1+\xi$, the residual $e_k$ tends to zero geometrically, and $\prod(1-\eta^2e_k^2)$ stays near one. The drift comes from noise that is new at every step; errors that stay in the labels do not cause it.

# %% tags=["hide-cell"]
u, v = torch.full((200,), 3.0, **like), torch.full((200,), 1 / 3, **like)
xi = sigma * (2 * torch.randint(2, u.shape, generator=run.generator("frozen")) - 1).to(u)
for _ in range(steps):
    e = u * v - 1 - xi
    u, v = u - eta * e * v, v - eta * e * u
assert torch.allclose(u * v, 1 + xi, atol=1e-9)
assert ((u**2 - v**2) / (9 - 1 / 9) > 0.9).all()

# %% [markdown]
# :::{solution-end}
# :::
#
# :::{exercise} Break the proof
# :label: ex-label-noise-weights
# Put the noise on the weights: $u'=u-\eta(rv+\zeta_1)$, $v'=v-\eta(ru+\zeta_2)$ with $r=uv-1$ and independent $\zeta_1,\zeta_2$ of mean zero and variance $\sigma^2$. Compute the conditional mean and variance of $\Delta'=u'^2-v'^2$. Which step of the proof of
# {prf:ref}`regularization-beyond-label-flattest` fails, and what does $\Delta_k$ do instead?
# :::
#
# :::{solution-start} ex-label-noise-weights
# :class: dropdown
# :::
#
# The product law fails: $\mathbb E[\Delta'\mid u,v]=(1-\eta^2r^2)\Delta$, since the variances of $\zeta_1$ and $\zeta_2$ cancel, so nothing pulls $\Delta$ to zero except the small $r^2$. And it has a variance, $4\eta^2\sigma^2\bigl((u-\eta rv)^2+(v-\eta ru)^2\bigr)$ to leading order: a random walk whose steps are the larger the further out it is.
# {numref}`fig-label-noise-imbalance` shows it.

# %% tags=["hide-cell"]
source, count_one = run.generator("one step"), 400_000
u, v, r = 2.0, 0.6, 2.0 * 0.6 - 1
zeta = sigma * torch.randn(2, count_one, generator=source, dtype=run.dtype)
gap_after = (u - eta * (r * v + zeta[0])) ** 2 - (v - eta * (r * u + zeta[1])) ** 2
step_size = 2 * eta * sigma * math.hypot(u - eta * r * v, v - eta * r * u)
assert abs(gap_after.mean().item() - (1 - (eta * r) ** 2) * (u**2 - v**2)) < 5 * step_size / math.sqrt(
    count_one
)
assert abs(gap_after.std().item() / step_size - 1) < 0.02

# %% [markdown]
# :::{solution-end}
# :::
#
# :::{exercise} Open
# :label: ex-label-noise-open
# How large may $\eta$ be? All of this page but the product law is an expansion in small steps. Known: with the exact cloud the regularizer is $R=-\frac{\sigma^2}{2b}\ln\det(I-\frac\eta2H)$, which grows without bound as $\eta\lambda_1(H)\to2$, so that label noise keeps away from minima that are too steep
# {cite}`damian2021label`; for $\eta\to0$ the flow along the minimizers is a theorem {cite}`li2022happens`. What happens between, where $\eta\lambda_1(H)$ is near 2 and the cloud is not small, is not understood. Try the networks of this page with $\eta=0.2$.
# :::
#
# ## What to remember
#
# 1. Noise of covariance $\Sigma$ keeps a cloud with $V=(I-\eta H)V(I-\eta H)+\eta^2\Sigma$; the diffusion is its limit for small steps, and misses a factor $1-\eta h/2$.
# 2. Label noise has covariance $\sigma^2H/b$ where the data are fitted: a round cloud of variance $\eta\sigma^2/(2b)$, and none in the directions that the loss does not see.
# 3. A round cloud and the third derivative push along the minimizers as the penalty $\lambda\,\mathrm{tr}\,\nabla^2\mathcal L$ would, with $\lambda=\eta\sigma^2/(4b)$. It takes about $4b/(\eta^2\sigma^2)$ steps.
# 4. For $f=uv$ this is exact: $u^2-v^2$ is multiplied by $1-\eta^2e^2$, and with probability one every run ends balanced.
# 5. The kind of noise decides. The noise of batches vanishes at zero loss, noise on the weights wanders, and label noise finds the flattest interpolant, which may or may not be the truth.
#
# **Further reading.** {cite}`blanc2020implicit` found the effect and its shape in networks; {cite}`damian2021label` prove convergence and treat momentum; {cite}`li2022happens` have the limiting flow for general noise; {cite}`haochen2021shape` the sparse model and the comparison with spherical noise;
# {cite}`pesme2021implicit` what sampling noise does instead. The part on noise returns to $\xi_k$ with other laws.
#
# ## Checks behind this page
#
# The rows that the text announced: the two forms of the chain in one dimension, and the two other parts of the theorem on the hyperbola.

# %%
source = run.generator("unroll")
xi = torch.randn(50, 3, 20, generator=source, dtype=run.dtype).to(run.device)
theta_k = torch.full((3, 20), 2.0, **like)
for each in xi:
    theta_k = theta_k - products * (theta_k + each)
powers = (1 - products) ** torch.arange(49, -1, -1, **like)  # (3, 50)


def unrolled(power):
    return 2.0 * (1 - products) ** 50 - products * torch.einsum("sk,ksc->sc", power, xi)


# %%
variance = V[:, 0]


def neighbours(now, previous):
    return (now * previous).mean(1) / variance / (1 - products[:, 0])


rho = 1 - products  # the standard error of the ratio is √((1 + ρ²)/N)/|ρ|, largest at ρ = ±1/2
wide = errors * float(((1 + rho**2) / crowd).sqrt().div(rho.abs()).max())


def exact_process(eta_h, rate):  # mean factor and variance over one step, against those of the chain
    stationary = eta_h / (2 - eta_h)
    noise = math.sqrt(2 * rate * stationary) * torch.eye(1, **like)
    decay, spread = diffusions.OrnsteinUhlenbeck(rate * torch.eye(1, **like), noise).transition(eta_h)
    return [decay.item() - (1 - eta_h), spread.item() - eta_h**2]


slow_steps = (0.05, 0.1, 0.5, 0.9)

# %% tags=["hide-input"]
ledger.check(
    "regularization:beyond-label-unrolled",
    "The iterate is a contraction of the start plus a weighted sum of the noise",
    measured=theta_k - unrolled(powers),
    criterion=identity("θ₅₀ − (contraction + cloud)", size=10),
    control=control(
        "weights (1 − ηh)^(k−j), one power too many", theta_k - unrolled(powers * (1 - products))
    ),
    expected="holds",
)
ledger.check(
    "regularization:beyond-label-correlation",
    "Neighbouring iterates have correlation 1 − ηh, negative at ηh = 1.5",
    measured=neighbours(clouded, before),
    criterion=between("mean of θ_k θ_{k+1}/(V(1 − ηh))", 1 - wide, 1 + wide),
    control=control("chains paired with other chains", neighbours(clouded, before.roll(1, dims=1))),
    expected="holds",
    rtol=0.05,
)
ledger.check(
    "regularization:beyond-label-exact-process",
    "For ηh < 1 the chain is an Ornstein-Uhlenbeck process of rate −ln(1 − ηh)/η, read at times kη",
    measured=[x for p in slow_steps for x in exact_process(p, -math.log(1 - p) / p)],
    criterion=identity("decay and variance over one step: process − chain"),
    control=control("rate h", [x for p in slow_steps for x in exact_process(p, 1.0)]),
    expected="holds",
)

# %%
normal, widest_normal = slide("normal", "normal")
coins_only = run.generator("sum of squares")
u, v, squares = torch.full((500,), 3.0, **like), torch.full((500,), 1 / 3, **like), torch.zeros(500, **like)
slack, printed = [], []
for k in range(2000):
    e = u * v - 1 - sigma * (2 * torch.randint(2, u.shape, generator=coins_only) - 1).to(u)
    squares = squares + e**2
    u, v = u - eta * e * v, v - eta * e * u
    if k % 100 == 99:
        share = (u**2 - v**2).abs() / (9 - 1 / 9)
        slack.append(torch.exp(-(eta**2) * squares) - share)
        printed.append(torch.exp(-2 * eta**2 * squares) - share)

# %% tags=["hide-input"]
ledger.check(
    "regularization:beyond-label-confined",
    "With coins for noise uv never leaves [1 − σ, 1 + σ]",
    measured=(sigma - widest).min(),
    criterion=inequality("min over runs and steps of σ − |uv − 1|"),
    control=control("normal noise of the same variance", (sigma - widest_normal).min()),
    expected="holds",
)
ledger.check(
    "regularization:beyond-label-path-bound",
    "On every run |Δ_k| ≤ |Δ₀| exp(−η² Σ e²)",
    measured=torch.stack(slack),
    criterion=inequality("exp(−η² Σ e²) − |Δ_k|/|Δ₀|"),
    control=control("twice the exponent", torch.stack(printed)),
    expected="holds",
)

# %% tags=["remove-input"]
ledger.table()
