# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Rank collapse
#
# You train a small Transformer, with layer normalization after each sum as in the original design, to write sequences of 16 digits backwards. In 2,000 steps SGD learns which digits occur, but not where. You multiply the step of
# two matrices in each block, those of the queries and keys, by ten, and change nothing else: now six of ten runs learn the task. The log had given a hint: at the start the gradient of the query weights was four times smaller than
# that of the value weights in the first block, and fifty-five times smaller in the last.
#
# **Why are queries and keys starved, when does depth do it, and is Adam the only cure?** At the start attention adds nearly the same vector to all tokens, so the tokens
# become more and more alike; the query gradient needs their differences, the value gradient needs what they have in common. **What breaks it**: adding the attention with a strength
# that falls with the depth, and tokens whose mean is zero. And the larger step is no law: with 8 digits and a smaller network it makes no difference.
#
# In what follows $p$ is the part of the squared length of all tokens that lies in their mean, and $\nu$ the strength with which a block adds its attention to the tokens. Move $\nu$, the number of tokens, their correlation at the start and
# the number of blocks; the two factors multiply the squared gradients of the values and of the queries in the last block.
#
# <div class="ld-widget" data-widget="token-share"></div>

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
import itertools
import math

import matplotlib.pyplot as plt
import torch
from torch.func import jacrev, vmap
from torch.nn.functional import cross_entropy, layer_norm, normalize

from learning_dynamics import figures, models, results, runs, statistics
from learning_dynamics.adaptivity import attention_gradients, token_geometry
from learning_dynamics.experiments.rank_collapse import attention_training
from learning_dynamics.ledger import (
    Ledger,
    at_least,
    at_most,
    confident,
    control,
    correction,
    exponent,
    identity,
)

figures.use_style()
run = runs.Run("adaptivity/rank_collapse", scale=SCALE, device=DEVICE, seed=SEED)
ledger = Ledger(run)
like = {"dtype": run.dtype}  # small problems: on the CPU, whatever DEVICE says
plain = {"marker": ""}


# %%
def rest(share, strength, depth):  # 1 - p after some blocks: the odds p/(1 - p) grow by 1 + ν² a block
    odds = (1 + strength**2) ** depth * share / (1 - share)
    return 1 / (1 + odds)


depths = torch.arange(0, 48.25, 0.25, **like)
value_factor = 1 - rest(1 / 16, 1.0, depths)
query_factor = rest(1 / 16, 1.0, depths) ** 2

# %% tags=["hide-input", "static-twin"] mystnb={"figure": {"caption": "**Depth starves the queries, not the values.** Factors by which the squared gradients of the value weights (green) and of the query weights (vermillion) change with the depth at a fixed size of the tokens: 16 orthogonal tokens, uniform attention, residual strength $\\nu=1$. What breaks it (dashed): the strength $\\nu/\\sqrt{12}$ in a network of 12 blocks.", "name": "fig-rank-factors"}, "image": {"alt": "Against the depth from 0 to 48 on a logarithmic axis: one curve rises from a sixteenth to one, another falls as a straight line below ten to the minus ten; a short dashed curve stays near one."}}
fig, ax = figures.subplots(size=(7.0, 3.8))
ax.plot(depths, value_factor, color=figures.COLORS["green"], label="values: $p$", **plain)
ax.plot(depths, query_factor, color=figures.COLORS["vermillion"], label="queries: $(1-p)^2$", **plain)
gentle = depths[depths <= 12]
figures.line_control(ax, gentle, rest(1 / 16, 12**-0.5, gentle) ** 2, label=r"queries, $\nu/\sqrt{D}$")
ax.set(xlabel="depth", ylabel="factor", yscale="log", ylim=(1e-10, 2), xlim=(0, 48))
ax.legend(fontsize=8.5, loc="lower left")
plt.show()

# %% [markdown]
# This chapter is about the matrix $P_k$ in $\theta_{k+1}=\theta_k$ $-\,\eta_kP_k(\nabla\mathcal L(\theta_k)+\xi_k)$ $+\,\beta_1(\theta_k-\theta_{k-1})$: here it is diagonal
# and gives queries and keys another step than the rest. After it you can
#
# - compute how alike the tokens of a Transformer are at any depth at its start, and choose the residual strength for it;
# - say how the gradients of queries, keys and values depend on the likeness, the size, the width and the number of tokens;
# - tell a query gradient that is small because tokens are alike from one that is small because the softmax is saturated;
# - say what a toy experiment with SGD and Adam shows about the role of these gradients, and what not.
#
# The source is section 3.3 with appendix C.2 of {cite}`orvieto2023dynamics`, after {cite:t}`noci2022signal`. Read {doc}`Tools in ten minutes <../../chapters/toolbox/tools_in_ten_minutes>` first;
# {chapter}`Vanishing curvature <adaptivity/vanishing_curvature>` is the first half of the story. The page runs in about 20 seconds on one CPU core, in about ten seconds with `SCALE = "smoke"`; five results that were computed beforehand and stored (*kept results*) took 22 minutes more.
#
# ## One block of a Transformer
#
# A sequence has $T$ *tokens* (words, or pieces of an image), each a vector of $m$ numbers, the rows of $X\in\mathbb R^{T\times m}$. *Attention* replaces each token by a weighted mean of
# all tokens, and the weights depend on the tokens: a token asks with its *query*, is found by its *key*, and hands over its *value*.
#
# :::{prf:definition} Transformer block
# :label: thesis-eq-66
# With weights $W_Q,W_K,W_V,W_1,W_2\in\mathbb R^{m\times m}$, residual strengths $\nu_1,\nu_2$ and an activation $\phi$,
#
# $$
# \begin{aligned}
# \mathcal A&=\mathrm{softmax}\Bigl(\tfrac{XW_Q(XW_K)^\top}{\tau\sqrt m}\Bigr),\\
# S&=\mathcal AXW_V,\\
# Z&=X+\nu_1S,\\
# X'&=Z+\nu_2\,\phi(ZW_1)W_2 .
# \end{aligned}
# $$ (eq-rank-block)
#
# The softmax acts on each row, so that the rows of $\mathcal A$ sum to one; its argument are the *logits*; the temperature $\tau$ is 1 unless said otherwise. $\phi$ is ReLU, or the identity: a *linear* feed-forward layer. At the start all weights are
# independent with mean zero and variance $\frac1m$, in a ReLU layer $\frac2m$. *POST-LN* passes both sums through layer normalization, which shifts and scales each token to mean 0 and mean square 1; *PRE-LN* passes
# the input of both branches through it.
# :::
#
# :::{dropdown} The letters of the source
# | here | source, section 3.3 | meaning |
# |---|---|---|
# | $T$, $m$, $D$ | $n$, $d_v=d_k=d$, $L$ | tokens, width, blocks |
# | $\mathcal A$, $\bar x$ | $\mathbf A$, $\bar{\mathbf x}$ | attention, mean token |
# | $W_1,W_2$ | $\mathbf W^{F_1},\mathbf W^{F_2}$ | feed-forward weights |
# | $\nu_1,\nu_2$; $\bar\nu_i=D\nu_i^2$ | $\alpha_1,\alpha_2$; $\tilde\alpha_i$ | residual strengths |
# | $p$ | not used | share of the mean token |
# | $T^2\lVert\bar x\rVert^2$ | $C(\mathbf X)$ | sum of all inner products |
# | $\rho$, $\sigma_x^2$ | $\rho$, $\sigma_x^2$ | correlation of tokens, variance of an entry |
# | $\Gamma$ | $\mathbf X^\top\mathbf X-n\bar{\mathbf x}\bar{\mathbf x}^\top$ | what is left without the mean token |
# | $\tau$ | $1/\tau$ | temperature, which **divides** the logits here |
# :::


# %%
def norm(X):  # layer normalization without parameters
    return layer_norm(X, X.shape[-1:])


def draw(count, m, source, relu=True):  # W_Q, W_K, W_V, W_1, W_2 of `count` blocks
    scales = (1, 1, 1, 1 + relu, 1 + relu)
    return [torch.randn(count, m, m, generator=source, **like) * math.sqrt(s / m) for s in scales]


def block(X, weights, nu=(1.0, 1.0), uniform=False, relu=True, ln="none", centred=False):
    W_Q, W_K, W_V, W_1, W_2 = weights
    U = norm(X) if ln == "pre" else X
    logits = (U @ W_Q) @ (U @ W_K).mT / math.sqrt(X.shape[-1])
    A = torch.full_like(logits, 1 / X.shape[-2]) if uniform else logits.softmax(-1)
    S = A @ U @ W_V
    S = S - S.mean(-2, keepdim=True) if centred else S
    Z = norm(X + nu[0] * S) if ln == "post" else X + nu[0] * S
    H = (norm(Z) if ln == "pre" else Z) @ W_1
    X = Z + nu[1] * (H.relu() if relu else H) @ W_2
    return norm(X) if ln == "post" else X


# %%
source = run.generator("blocks")
kinds = [("none", True), ("pre", True), ("post", True), ("none", False)]
against_library, skipped = [], []
for ln, relu in kinds:  # the library's block
    theirs = models.EncoderBlock(
        8, strengths=(0.7, 0.4), norm=ln, activation="relu" if relu else "linear", generator=source, **like
    )
    weights = [getattr(theirs, name).detach() for name in ("W_Q", "W_K", "W_V", "W_1", "W_2")]
    X = torch.randn(5, 8, generator=source, **like)
    with torch.no_grad():
        against_library.append(block(X, weights, (0.7, 0.4), relu=relu, ln=ln) - theirs(X))
        skipped.append((block(X, weights, (0.7, 0.4), relu=relu, ln=ln) - X - theirs(X)).norm())

# %% [markdown]
# Each result on this page is checked by a computation, whose outcome stands in a row or a card below it. A row such as "9 values, worst 1e-15 against 2e-13. What breaks it: … (0.5 at best)" says that nine numbers that should be
# zero were at most 1e-15, that rounding would excuse 2e-13, and that the same measurement with something wrong on purpose gave 0.5, of several wrong values the one nearest to passing. "Mean 1.39, interval 0.07 to 2.7 against at least 0" is a mean over
# seeds; its 99.9 % interval has to lie on the right side of the bound. {doc}`How claims are checked <../../book/how_claims_are_checked>` explains the words.

# %% tags=["hide-input"]
ledger.check(
    "thesis:fig-26",
    "The block as drawn below, written out above, is the library's: none, PRE-LN, POST-LN, and linear",
    measured=torch.stack(against_library),
    criterion=identity("block − library's block", size=10.0),
    control=control("the last residual branch left out", skipped),
    expected="reproduced",
    claim="experiment",
)

# %% tags=["hide-input"] mystnb={"figure": {"caption": "**One block: two branches, each added to what passes by.** The dots on the vertical line are the sums; POST-LN puts a normalization on the line after each, PRE-LN at the entrance of each branch. What breaks it (dashed): without the line past the branches all tokens become equal within a few blocks.", "name": "fig-rank-block"}, "image": {"alt": "A vertical line from X at the bottom to X prime at the top with two sums; into the first runs a box with attention, into the second a box with the feed-forward layer."}}
fig, ax = figures.subplots(size=(5.2, 3.2))
ink = figures.COLORS["ink"]
ax.plot([0, 0], [0, 6], color=ink, lw=1.5, **plain)
for low, words, strength in (
    (0.6, "attention\nqueries, keys, values", r"$\nu_1$"),
    (3.4, "feed-forward\n$W_1$, $\\phi$, $W_2$", r"$\nu_2$"),
):
    ax.plot([0, 2, 2, 0], [low, low, low + 1.9, low + 1.9], color=figures.COLORS["blue"], lw=1.5, **plain)
    ax.plot([0], [low + 1.9], "o", color=ink)
    box = {"boxstyle": "round", "facecolor": figures.COLORS["pale grey"], "edgecolor": ink}
    ax.text(2, low + 0.95, words, ha="center", va="center", fontsize=9, bbox=box)
    ax.text(1, low + 2.0, strength, ha="center", va="bottom")
for height, words in ((-0.1, "$X$"), (3.05, "$Z$"), (6.1, "$X'$")):
    ax.text(-0.15, height, words, ha="right", va="center")
figures.line_control(
    ax, torch.tensor([0.0, 0.0]), torch.tensor([0.7, 2.4]), label="no line past", lw=5, alpha=0.4
)
ax.set(xlim=(-1, 4), ylim=(-0.4, 6.5))
ax.axis("off")
ax.legend(fontsize=8, loc="lower right")
plt.show()

# %% [markdown]
# ## One number for how alike the tokens are
#
# Split $X$ into the mean token $\bar x=\frac1T\sum_ix_i$, repeated $T$ times, and the rest. Of the squared length of $X$ the first part has the *share*
#
# $$p=\frac{T\lVert\bar x\rVert^2}{\lVert X\rVert^2},\qquad0\le p\le1 .$$ (eq-rank-share)
#
# $p=1$ means that all tokens are equal, $p=0$ that they sum to zero, and $p=\frac1T$ that their inner products are zero on average. By $\sigma_x^2$ we denote the mean square of an entry of $X$.
#
# :::{prf:definition} Token correlation and rank collapse
# :label: thesis-def-rank-collapse
# For random tokens $\rho_{ij}=\mathbb E\langle x_i,x_j\rangle/\sqrt{\mathbb E\lVert x_i\rVert^2\,\mathbb E\lVert x_j\rVert^2}$: a ratio of means, not a mean of cosines. $\rho$ is its average over the pairs
# $i\ne j$. If $\mathbb E\lVert x_i\rVert^2$ is the same for all tokens, then with $p=T\,\mathbb E\lVert\bar x\rVert^2/\mathbb E\lVert X\rVert^2$,
#
# $$\rho=\frac{Tp-1}{T-1} .$$ (eq-rank-rho)
#
# *Rank collapse* of such tokens is $\rho=1$: all rows of $X$ are one vector, and $X$ has rank one.
# :::
#
# To see what a random block does, replace the attention by the mean over all tokens. How far this is right is measured below.
#
# :::{prf:assumption} Uniform attention
# :label: thesis-assumption-3-3-1
# $\mathcal A=\frac1T\mathbf 1\mathbf 1^\top$: every token attends to all tokens alike.
# :::
#
# **Predict first.** Three orthogonal tokens of equal length pass blocks with uniform attention, a linear feed-forward layer and $\nu_1=\nu_2=1$. After how many blocks is their correlation above $\frac12$? And with a feed-forward
# layer of strength $\nu_2=10$?
#
# :::{dropdown} Answer
# After two it is exactly $\frac12$, so after three, for every $\nu_2$. *By hand*: $p_0=\frac13$, so the odds $p/(1-p)$ are $\frac12$. Each block multiplies them by $1+\nu_1^2=2$: after two blocks the odds are $2$, $p=\frac23$ and
# $\rho=\frac{3p-1}2=\frac12$; after four the odds are $8$, $p=\frac89$ and $\rho=\frac56$. In the meantime $(1-p)^2$ has gone from $\frac49$ to $\frac1{81}$.
# :::
#
# :::{prf:theorem} The odds of the mean token grow by one factor a block
# :label: thesis-beyond-odds-of-the-mean
# Under uniform attention with a linear feed-forward layer and independent weights of mean zero and variance $\frac1m$, the expected share $p_D=T\,\mathbb E\lVert\bar x_D\rVert^2/\mathbb E\lVert X_D\rVert^2$ after $D$ blocks satisfies
#
# $$\frac{p_D}{1-p_D}=(1+\nu_1^2)^D\,\frac{p_0}{1-p_0} .$$ (eq-rank-odds)
#
# The feed-forward layer plays no part. With $\nu_1^2=\bar\nu_1/D$ the logarithm of the odds moves by at most $\bar\nu_1$, however deep the network is.
# :::
#
# *Why one should expect it.* Uniform attention sees only the mean token and writes the same vector to all tokens: it feeds the mean and cannot touch the differences. *The key step.* The vector that is added, $\nu_1W_V^\top\bar x$, has a random direction, so
# in expectation its square adds: $\mathbb E\lVert\bar x+\nu_1W_V^\top\bar x\rVert^2=(1+\nu_1^2)\lVert\bar x\rVert^2$.
#
# :::{dropdown} Proof
# 1. Write $x_i=\bar x+d_i$ with $\sum_id_i=0$; then $\lVert X\rVert^2=T\lVert\bar x\rVert^2+\sum_i\lVert d_i\rVert^2$. Attention: $x_i\mapsto\bar x+\nu_1W_V^\top\bar x+d_i$. The differences stay, the mean changes as in the key step, since $\mathbb E\langle\bar x,W_V^\top\bar x\rangle=0$
#    and $\mathbb E\lVert W_V^\top\bar x\rVert^2=\lVert\bar x\rVert^2$.
# 2. Feed-forward: every vector is multiplied by $I+\nu_2W_2^\top W_1^\top$, which multiplies the expected square of mean and differences alike by $1+\nu_2^2$.
# 3. The odds are $T\,\mathbb E\lVert\bar x\rVert^2/\mathbb E\sum_i\lVert d_i\rVert^2$, and blocks are independent. $D\ln(1+\bar\nu_1/D)\le\bar\nu_1$. $\square$
# :::
#
# Three results of the source, under the same assumptions, are contained in this line.
#
# :::{prf:lemma} Inner products
# :label: thesis-lemma-3-3-2
# $\mathbb E\lVert\bar x_D\rVert^2=(1+\nu_1^2)^D(1+\nu_2^2)^D\lVert\bar x_0\rVert^2$, which tends to $e^{\bar\nu_1+\bar\nu_2}\lVert\bar x_0\rVert^2$ for $\nu_i^2=\bar\nu_i/D$.
# :::
#
# :::{prf:lemma} The norm
# :label: thesis-lemma-3-3-3
#
# $$
# \begin{aligned}
# \mathbb E\lVert X_D\rVert^2&=(1+\nu_2^2)^D\bigl[\lVert X_0\rVert^2\\
# &\quad+T\lVert\bar x_0\rVert^2\bigl((1+\nu_1^2)^D-1\bigr)\bigr] .
# \end{aligned}
# $$
#
# For $\nu_i^2=\bar\nu_i/D$ the powers tend to $e^{\bar\nu_i}$.
# :::
#
# :::{prf:theorem} The limit of the correlation
# :label: thesis-thm-3-3-2
# Let the tokens at the start have one length. With $\nu_i^2=\bar\nu_i/D$, as $D\to\infty$,
#
# $$
# \begin{aligned}
# \rho\to\;&\frac{T}{T-1}\,\frac{e^{\bar\nu_1}p_0}{1+(e^{\bar\nu_1}-1)p_0}\\
# &-\frac1{T-1} .
# \end{aligned}
# $$ (eq-rank-limit)
#
# With constant strengths, $\nu_1\ne0$, and **if $\bar x_0\ne0$**, $\rho\to1$: rank collapse.
# :::
#
# :::{dropdown} Proofs
# The lemmas are steps 1 and 2 of the proof above, multiplied over the blocks. Tokens of one length keep equal mean squares, since a block adds the same to each in expectation; insert the odds into {eq}`eq-rank-rho`, which gives {eq}`eq-rank-limit` with $(1+\nu_1^2)^D$ in the place of $e^{\bar\nu_1}$, at every depth. With constant strength the odds tend to infinity if they are not zero. $\square$
# :::
#
# **Why the limit needs its own hypothesis.** Take the tokens $x$ and $-x$. Their mean is zero, so uniform attention adds nothing, and $\rho=-\frac1{T-1}$ at every depth. The source states the limit 1 without the condition; its own first lemma gives
# $\mathbb E\lVert\bar x_D\rVert^2=0$ here.
#
# These statements hold for every law of the weights with the right mean and variance. So we can test them without any sampling: let the entries be $\pm1/\sqrt m$, and average over **all** patterns of signs.


# %%
def patterns(entries):  # every pattern of signs, one a row
    return torch.tensor(list(itertools.product((-1.0, 1.0), repeat=entries)), **like)


def exact_networks(X, nu):  # the tokens after all 4096 networks: 4 blocks of width 1, or one of width 2
    T, m = X.shape
    signs = patterns(12).view(4096, -1, 3, m, m) / math.sqrt(m)
    X = X.expand(4096, T, m)
    for W_V, W_1, W_2 in (each.unbind(1) for each in signs.unbind(1)):
        X = X + nu[0] * X.mean(1, keepdim=True) @ W_V
        X = X + nu[1] * X @ W_1 @ W_2
    return X, signs.shape[1]


corner, pair = [[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]], [[1.0], [-1.0]]
sequences = [[[1.0], [1.0], [1.0], [-1.0]], [[2.0], [-1.0], [0.5]], corner, pair]
sequences = [torch.tensor(each, **like) for each in sequences]
strengths = [(1.0, 1.0), (0.5, 2.0), (0.3, 0.0)]

# %%
odds_off, with_second, means_off, norms_off, rho_off = [], [], [], [], []
no_second, no_growth = [], []
for X, (one, two) in itertools.product(sequences, strengths):
    after, depth = exact_networks(X, (one, two))
    mean, square = after.mean(1).square().sum(1).mean(), after.square().sum((1, 2)).mean()
    T, before, whole = len(X), X.mean(0).square().sum(), X.square().sum()
    growth, second = (1 + one**2) ** depth, (1 + two**2) ** depth
    norms_off.append(square / (second * (whole + T * before * (growth - 1))) - 1)
    p0 = T * before / whole
    law = T / (T - 1) * growth * p0 / (1 + (growth - 1) * p0) - 1 / (T - 1)  # the theorem's
    if len({round(float(x.norm()), 9) for x in X}) == 1:
        rho_off.append(token_geometry.token_correlation(after) - law)  # by its definition
    if before > 0:
        odds = T * mean / (square - T * mean) * (whole - T * before) / (T * before)
        odds_off.append(odds / growth - 1)
        means_off.append(mean / (growth * second * before) - 1)
        with_second.append(odds / (growth * second) - 1)
        no_second.append(mean / (growth * before) - 1)
        no_growth.append(square / (second * (whole + T * before * growth)) - 1)
active = [two > 0 for (_, (_, two)) in itertools.product(sequences[:3], strengths)]
rho_of_pairs = token_geometry.token_correlation(exact_networks(sequences[-1], (1.0, 1.0))[0])

# %% tags=["hide-input"]
ledger.check(
    "thesis:beyond-odds-of-the-mean",
    "The odds of the mean token grow by (1 + ν₁²) a block: three sequences, three pairs of strengths, all sign patterns",
    measured=torch.stack(odds_off),
    criterion=identity("odds_D/((1 + ν₁²)^D odds_0) − 1", condition=10.0),
    control=control(
        "with the factor (1 + ν₂²) of the feed-forward layer",
        torch.stack([each for each, on in zip(with_second, active, strict=True) if on]),
    ),
    expected="holds",
    show="card",
)
ledger.check(
    "thesis:lemma-3.3.2",
    "The expected square of the mean token, all sign patterns",
    measured=torch.stack(means_off),
    criterion=identity("E‖x̄_D‖²/((1 + ν₁²)^D (1 + ν₂²)^D ‖x̄_0‖²) − 1", condition=10.0),
    control=control(
        "without the feed-forward factor",
        torch.stack([each for each, on in zip(no_second, active, strict=True) if on]),
    ),
    expected="holds",
)
ledger.check(
    "thesis:lemma-3.3.3",
    "The expected square of all tokens, four sequences, all sign patterns",
    measured=torch.stack(norms_off),
    criterion=identity("E‖X_D‖²/formula − 1", condition=10.0),
    control=control("(1 + ν₁²)^D in the place of (1 + ν₁²)^D − 1", torch.stack(no_growth)),
    expected="holds",
)
ledger.check(
    "thesis:thm-3.3.2",
    "The formula of the theorem for ρ, with (1 + ν₁²)^D for its limit, for tokens of one length, the pair x, −x among them",
    measured=torch.stack(rho_off),
    criterion=identity("ρ_D − formula", condition=10.0),
    control=control("the printed limit 1 for the pair x, −x", rho_of_pairs - 1.0),
    expected="corrected",
    correction=correction(
        printed="with constant strengths the correlation tends to 1",
        right="with constant strengths it tends to 1 if the mean token is not zero; else it stays −1/(T − 1)",
        evidence="rederived",
    ),
    show="card",
)

# %% [markdown]
# **Cite this result** as the anchor `thesis-beyond-odds-of-the-mean` of this page, with the release of the book.
#
# ### Real blocks: softmax, ReLU and normalization bend the line
#
# The logarithm of the odds is a straight line in the depth, with slope $\ln(1+\nu_1^2)$. How do real blocks, Gaussian weights and a true softmax, compare? The tokens are 16 independent Gaussian vectors of width 32, scaled to the length $\sqrt{32}$, so that
# $\sigma_x=1$; 400 draws, $\nu_1=\nu_2=1$ and eight blocks.

# %%
variants = {
    "uniform, linear": {"uniform": True, "relu": False},
    "softmax, linear": {"relu": False},
    "softmax, ReLU": {},
    "PRE-LN": {"ln": "pre"},
    "POST-LN": {"ln": "post"},
}
copies = run.pick(smoke=60, book=400, paper=1000)


def unit_tokens(count, T, m, source):  # independent directions, σ_x = 1
    return normalize(torch.randn(count, T, m, generator=source, **like), dim=-1) * math.sqrt(m)


def propagate(X, depth, nu, source, **kind):  # the tokens before and after each block, weights for each copy
    path = [X]
    for _ in range(depth):
        path.append(block(path[-1], draw(len(X), X.shape[-1], source, kind.get("relu", True)), nu, **kind))
    return path


# %%
def log_odds(X):  # of the ratio of means, T E‖x̄‖²/E‖X‖²
    p = X.shape[1] * X.mean(1).square().sum(1).mean() / X.square().sum((1, 2)).mean()
    return torch.log(p / (1 - p))


source = run.generator("odds")
starts = unit_tokens(copies, 16, 32, source)
lines = {
    name: torch.stack([log_odds(X) for X in propagate(starts, 8, (1.0, 1.0), source, **kind)])
    for name, kind in variants.items()
}

# %%
long = run.pick(smoke=24, book=24, paper=48)
few = run.pick(smoke=10, book=60, paper=200)
tokens_of_few = unit_tokens(few, 16, 32, run.generator("correlations"))
cosines = {}  # mean cosine of two tokens, (draws, depth): (ln, scaled)
for ln, scaled in itertools.product(("none", "pre", "post"), (False, True)):
    nu = long**-0.5 if scaled else 1.0
    path = propagate(tokens_of_few, long, (nu, nu), run.generator(f"weights {scaled}"), ln=ln)
    cosines[ln, scaled] = torch.stack([token_geometry.token_correlation(X, kind="cosine") for X in path], 1)
weak = {}  # cosine after the last block, branches half as strong as with scaling
for ln in ("none", "pre"):
    weak_path = propagate(tokens_of_few, long, (long**-0.5 / 2,) * 2, run.generator("weights weak"), ln=ln)
    weak[ln] = token_geometry.token_correlation(weak_path[-1], kind="cosine")
mirrored = torch.cat([tokens_of_few[:, :8], -tokens_of_few[:, :8]], 1)
never = propagate(mirrored, 8, (1.0, 1.0), run.generator("pairs"), uniform=True, relu=False)
never = torch.stack([token_geometry.token_correlation(X, kind="cosine").mean() for X in never])
with_relu = propagate(mirrored, 8, (1.0, 1.0), run.generator("pairs"), uniform=True)  # with ReLU

# %% tags=["hide-input"] mystnb={"figure": {"caption": "**The line is exact for uniform attention; a softmax and normalization bend it; scaling removes the collapse.** Left: logarithm of the odds of the mean token against the depth, $\\nu=1$, 400 draws; solid grey: the law. Right: mean cosine of two tokens; softmax and ReLU; bands: 95 %; solid: $\\nu=1$, dotted: $\\nu=1/\\sqrt{24}$ in 24 blocks. What breaks it (dashed): tokens in pairs $x,-x$ under uniform attention with a linear feed-forward layer.", "name": "fig-rank-odds"}, "image": {"alt": "Left: five rising lines of slopes between 0.3 and 0.9 and a grey straight line under one of them. Right: solid curves rise to one, dotted curves end near one half, a dashed line stays slightly below zero."}}
fig, (left, right) = figures.subplots(1, 2, size=(9.2, 4.0))
for name, line in lines.items():
    left.plot(range(9), line, label=name, ls="" if name.startswith("uniform") else "-", markevery=1)
left.plot(
    range(9),
    lines["uniform, linear"][0] + math.log(2) * torch.arange(9),
    color=figures.COLORS["grey"],
    **plain,
)
left.set(xlabel="depth", ylabel=r"$\ln\,(p/(1-p))$")
left.legend(fontsize=8)
for (ln, scaled), values in cosines.items():
    color = figures.COLORS[{"none": "blue", "pre": "green", "post": "vermillion"}[ln]]
    label = {"none": "no LN", "pre": "PRE-LN", "post": "POST-LN"}[ln] if not scaled else None
    figures.band(
        right, range(long + 1), values, label=label or "_", color=color, ls=":" if scaled else "-", **plain
    )
figures.line_control(right, range(9), never, label="$x,-x$")
right.set(xlabel="depth", ylabel="mean cosine of two tokens")
right.legend(fontsize=8)
plt.show()

# %% [markdown]
# In the law the slope is $\ln2=.69$. The mean slope over the eight blocks is $.68$ for uniform attention in this sample, $.33$ for softmax with linear layers, $.71$ with ReLU, $.41$ with PRE-LN and $.85$ with POST-LN. A softmax that is not uniform feeds the mean less. ReLU adds likeness of its own: it makes all entries of the hidden layer positive or zero, so any two tokens get a common part.
#
# :::{prf:remark} ReLU makes tokens more alike
# :label: thesis-claim-relu-increases-correlation
# A linear feed-forward layer preserves the correlation $\rho$ of tokens in expectation; a ReLU layer with Gaussian weights increases it, for every $-1\le\rho<1$.
# :::
#
# *Why.* In expectation a ReLU layer with Gaussian weights sends the correlation through the map of {cite:t}`cho2009kernel`, $\rho\mapsto\bigl(\sqrt{1-\rho^2}+(\pi-\arccos\rho)\rho\bigr)/\pi$, which lies above the diagonal (and sends $-1$ to $0$); see
# {chapter}`Vanishing curvature <adaptivity/vanishing_curvature>`. So the pairs $x,-x$, which never collapse in the linear network, do so with ReLU: after eight blocks their mean cosine is $.98$.
#
# The right panel shows the cure that the theorem suggests. After 24 blocks with $\nu_1=\nu_2=1$ the mean cosine is $1.00$ without normalization, $.72$ with PRE-LN and $1.00$ with POST-LN; with $\nu=1/\sqrt{24}$ it is $.53$, $.34$ and $.53$. So PRE-LN
# still matters with scaling, and of POST-LN no effect is shown (intervals in the table at the end); averaged over the blocks, PRE-LN changes the curve much less with scaling than without. The source says of its figure that neither changes the curve significantly once the branches are scaled. For PRE-LN this
# does not hold here. With branches half as strong, $\nu=1/(2\sqrt{24})$, all cosines stay low and the difference after 24 blocks shrinks to $.03$, but it is there.


# %%
def through_layer(rho, relu, count=4000, m=16):
    """z-score of the change of the ratio of means, by two feed-forward matrices, for two tokens of correlation rho."""
    source = run.generator(f"layer {rho}")
    x = torch.zeros(2, m, **like)
    x[0, 0], x[1, 0], x[1, 1] = 1.0, rho, math.sqrt(1 - rho**2)
    *_, W_1, W_2 = draw(count, m, source, relu)
    Y = ((x @ W_1).relu() if relu else x @ W_1) @ W_2
    inner, square = (Y[:, 0] * Y[:, 1]).sum(1), Y.square().sum((1, 2)) / 2
    difference = inner - rho * square  # mean zero where the correlation is preserved
    return difference.mean() / difference.std() * math.sqrt(count)


spoiled = token_geometry.token_correlation(with_relu[-1], kind="cosine").mean()
assert spoiled > 0.9
relu_raises = [through_layer(rho, True) for rho in (-0.5, 0.0, 0.5, 0.8)]
linear_keeps = [through_layer(rho, False) for rho in (-0.5, 0.0, 0.5, 0.8)]


def effect(ln, scaled):  # of normalization on the cosine, mean over the blocks; (draws)
    return (cosines["none", scaled] - cosines[ln, scaled]).mean(1)


# %% tags=["hide-input"]
figures.numbers(
    run,
    "log-odds-against-depth",
    {
        "depth": range(9),
        **{name.replace(", ", "_").replace("-", "_").lower(): line for name, line in lines.items()},
    },
)
ledger.check(
    "thesis:claim-relu-increases-correlation",
    "A ReLU feed-forward layer raises the correlation −0.5, 0, 0.5 and 0.8 of two tokens",
    measured=relu_raises,
    criterion=at_least("mean of (⟨y₁, y₂⟩ − ρ‖y‖²) in standard errors", 4.5, signed=True),
    control=control("linear layer", linear_keeps),
    expected="holds",
    rtol=0.5,
)
ledger.check(
    "thesis:fig-28",
    "With scaled branches neither PRE-LN nor POST-LN changes the rise of the cosine; mean over 24 blocks",
    measured=effect("pre", True),
    criterion=confident("cosine without normalization − with PRE-LN, ν = 1/√24", at_most=0.0),
    control=control("the same with ν = 1", effect("pre", False)),
    expected="not reproduced",
    reason="With scaled branches PRE-LN still lowers the cosine, a third as much as without scaling; with ν half as "
    "large a small change is left (table at the end). The rest of the figure is reproduced: scaling removes the collapse, "
    "without it PRE-LN slows the rise, and with it no effect of POST-LN is shown.",
    claim="experiment",
    needs="book",
    rtol=0.2,
)
normalized = [  # for the table at the end: what, by the source, whether it lowers the cosine, here
    (f"{name} lowers the mean cosine", there, there == "yes", statistics.mean_interval(lowered))
    for name, there, lowered in (
        ("PRE-LN without scaling", "yes", effect("pre", False)),
        ("PRE-LN with scaling", "not significantly", effect("pre", True)),
        ("PRE-LN with ν half as large", "not significantly", weak["none"] - weak["pre"]),
        ("POST-LN with scaling", "not significantly", effect("post", True)),
    )
]

# %% [markdown]
# ## What the gradients see
#
# How strongly does the output $S$ of one attention layer react to each of its weights? The answer is the squared norm of a Jacobian: the sum of squares of all derivatives of entries of $S$. For *given* weights and the *true* softmax it has a closed form. A change of $W_V$ acts through $\mathcal AX$, the
# attended tokens. A change of $W_Q$ moves the attention weights of token $i$, which can only move weight from one token to another; what comes out is the covariance of the keys $k_j=W_K^\top x_j$ and the values $v_j=W_V^\top x_j$ when token $j$ is drawn with probability $\mathcal A_{ij}$:
#
# $$
# \begin{aligned}
# \Bigl\lVert\frac{\partial S}{\partial W_Q}\Bigr\rVert^2&=\frac1m\sum_i\lVert x_i\rVert^2\,\bigl\lVert\mathrm{Cov}_i(k,v)\bigr\rVert^2,\\
# \Bigl\lVert\frac{\partial S}{\partial W_V}\Bigr\rVert^2&=m\,\lVert\mathcal AX\rVert^2 .
# \end{aligned}
# $$ (eq-rank-closed)
#
# The first line holds because the derivative of a softmax mean $\sum_j\mathcal A_{ij}v_j$ with respect to the query $q_i$ is $\mathrm{Cov}_i(k,v)/\sqrt m$, and $q_i=W_Q^\top x_i$.


# %%
def covariances(A, a, b):  # of the rows of a and b under each row of A: (..., T, m, m)
    joint = torch.einsum("...ij,...jk,...jl->...ikl", A, a, b)
    return joint - (A @ a)[..., :, None] * (A @ b)[..., None, :]


def jacobian_norms(X, W_Q, W_K, W_V, gain=1.0):  # ‖∂S/∂W_Q‖², ‖∂S/∂W_V‖²
    m = X.shape[-1]
    A = (gain * (X @ W_Q) @ (X @ W_K).mT / math.sqrt(m)).softmax(-1)
    squares = covariances(A, X @ W_K, X @ W_V).square().sum((-1, -2))
    query = gain**2 / m * (X.square().sum(-1) * squares).sum(-1)
    return query, m * (A @ X).square().sum((-1, -2))


source = run.generator("jacobians")
X, weights = torch.randn(4, 3, generator=source, **like), [w[0] for w in draw(1, 3, source)[:3]]
automatic = jacrev(lambda q, v: models.attention(X, q, weights[1], v), (0, 1))(weights[0], weights[2])
by_formula = jacobian_norms(X, *weights)
for J, formula in zip(automatic, by_formula, strict=True):
    assert torch.allclose(J.square().sum(), formula, rtol=1e-10)
library = attention_gradients.jacobian_norms(X, *weights)
assert torch.allclose(torch.stack(by_formula), torch.stack([library.query, library.value]), rtol=1e-10)

# %% [markdown]
# If all tokens are equal, every covariance is zero: moving weight between equal tokens changes nothing. Under uniform attention the means over the weights are explicit. Uniform attention means two things here: the value of $\mathcal A$ is $\frac1T$, and its derivative
# is that of the softmax at equal logits.
#
# :::{prf:lemma} Gradient norms
# :label: thesis-lemma-3-3-1
# Let $\Gamma=X^\top X-T\bar x\bar x^\top$, and let all weights have the variance $\frac1m$. Under uniform attention, for given $X$,
#
# $$
# \begin{aligned}
# \mathbb E\Bigl\lVert\frac{\partial S}{\partial W_V}\Bigr\rVert^2&=mT\lVert\bar x\rVert^2=m\,p\,\lVert X\rVert^2,\\
# \mathbb E\Bigl\lVert\frac{\partial S}{\partial W_Q}\Bigr\rVert^2&=\frac{\lVert X\rVert^2\lVert\Gamma\rVert^2}{mT^2}
# \end{aligned}
# $$ (eq-rank-means)
#
# and the same for the keys, and
#
# $$
# \begin{aligned}
# \mathbb E\Bigl\lVert\frac{\partial S}{\partial X}\Bigr\rVert^2=m&+\frac{\lVert X\rVert^2\,\mathrm{tr}\,\Gamma}{mT^2}\\
# &+\frac{(Tm+2)\lVert\Gamma\rVert^2}{m^2T^2} .
# \end{aligned}
# $$ (eq-rank-tokens)
# :::
#
# $\Gamma$ contains the differences of the tokens only: $\mathrm{tr}\,\Gamma=(1-p)\lVert X\rVert^2$. With $\mathrm{erank}=(\mathrm{tr}\,\Gamma)^2/\lVert\Gamma\rVert^2$, the *effective rank*, which counts the directions over which the differences spread,
#
# $$\mathbb E\Bigl\lVert\frac{\partial S}{\partial W_Q}\Bigr\rVert^2=\frac{\lVert X\rVert^6}{mT^2}\,\frac{(1-p)^2}{\mathrm{erank}} .$$ (eq-rank-query)
#
# So the value gradient is proportional to $p$, the query gradient to $(1-p)^2$, which are the two curves of {numref}`fig-rank-factors`.
#
# *The key step.* At equal logits the softmax has the derivative $\frac1T(I-\frac1T\mathbf 1\mathbf 1^\top)$, which subtracts the mean: keys and values enter as differences from their means, and $\mathrm{Cov}(k,v)=\frac1TW_K^\top\Gamma W_V$.
#
# :::{dropdown} Proof
# 1. Values: $S=\mathbf 1\bar x^\top W_V$, so $\partial S_{ic}/\partial(W_V)_{ab}=\bar x_a\delta_{bc}$; the squares sum to $Tm\lVert\bar x\rVert^2$ for every draw.
# 2. Queries: {eq}`eq-rank-closed` with $\mathcal A_{ij}=\frac1T$ is $\sum_i\frac{\lVert x_i\rVert^2}{m}\lVert\frac1TW_K^\top\Gamma W_V\rVert^2$, and $\mathbb E\lVert W_K^\top\Gamma W_V\rVert^2=\lVert\Gamma\rVert^2$, since each side multiplies the mean square by $m\cdot\frac1m$.
# 3. Tokens: let $W=W_QW_K^\top/\sqrt m$, whose entries are uncorrelated with variance $\frac1{m^2}$, and $d_j=x_j-\bar x$. A change of $X$ gives
#
# $$
# \begin{aligned}
# \partial S_i&=\tfrac1T\textstyle\sum_j\partial x_jW_V\\
# &\quad+\tfrac1T\textstyle\sum_j(\partial x_iWx_j^\top)\,d_jW_V\\
# &\quad+\tfrac1T\textstyle\sum_j(x_iW\,\partial x_j^\top)\,d_jW_V ,
# \end{aligned}
# $$
#
# where the $x_j$ are rows. The mean squares of the three terms are $m$, then $\frac1{mT}\lVert\Gamma\rVert^2$, because $\sum_jWx_j^\top d_j=W\Gamma$, then $\frac1{mT^2}\lVert X\rVert^2\,\mathrm{tr}\,\Gamma$. The first is uncorrelated with the others, as $\mathbb EW=0$. The last
# two meet where $j=i$; their cross term is $\frac2{m^2T^2}\lVert\Gamma\rVert^2$. $\square$
# :::
#
# **The third formula replaces a bound.** The source bounds $\mathbb E\lVert\partial S/\partial X\rVert^2$ by $2m+\frac8{mT}\lVert\Gamma\rVert^2$. This leaves out the product of $\lVert X\rVert^2$ and $\mathrm{tr}\,\Gamma$, which is large when the mean token is. Two tokens of width one, $X=(5,3)$: $\Gamma=2$ and $\lVert X\rVert^2=34$, the exact
# value is $1+\frac{34\cdot2}4+\frac{4\cdot4}4=22$, the bound $2+\frac82\cdot4=18$. For tokens of mean zero the bound
# holds (see the exercise below). The source allows other variances and key widths, for which the card shows the general form. Again all patterns of signs can be averaged, because every derivative is linear in each single weight.


# %%
def uniform_layer(X, W_Q, W_K, W_V, at):  # value 1/T, and the slope of softmax at equal logits
    logits = (X @ W_Q) @ (X @ W_K).mT / math.sqrt(X.shape[1])
    move = (logits - logits.mean(1, keepdim=True)) / len(X)
    return (X.mean(0, keepdim=True) + (move - move.detach()) @ at) @ W_V


def mean_norms(X):  # over all signs: queries, keys, values, tokens
    m = X.shape[1]
    weights = (patterns(3 * m * m).view(-1, 3, m, m) / math.sqrt(m)).unbind(1)
    slopes = vmap(jacrev(uniform_layer, (1, 2, 3, 0)), (None, 0, 0, 0, None))(X, *weights, X)
    return torch.stack([J.flatten(1).square().sum(1).mean() for J in slopes])


def lemma(X):
    T, m = X.shape
    G, square = X.T @ X - T * torch.outer(X.mean(0), X.mean(0)), X.square().sum()
    query = square * G.square().sum() / (m * T**2)
    tokens = m + square * G.trace() / (m * T**2) + (T * m + 2) * G.square().sum() / (m * T) ** 2
    return torch.stack([query, query, m * T * X.mean(0).square().sum(), tokens])


examples = [torch.tensor([[5.0], [3.0]], **like), torch.randn(3, 2, generator=source, **like) + 1]
lemma_off = torch.cat([mean_norms(X) / lemma(X) - 1 for X in examples])
assert torch.allclose(lemma(examples[1]), torch.stack(attention_gradients.uniform_norms(examples[1])))

# %% tags=["hide-input"]
assert abs(float(lemma(examples[0])[3]) - 22) < 1e-12
centred = examples[0] - examples[0].mean(0)
printed_bound = 2 + 8 * (centred.T @ centred).square().sum() / 2  # T = 2, m = 1
assert float(printed_bound) == 18
ledger.check(
    "thesis:lemma-3.3.1",
    "Queries, keys, values and tokens: X = (5, 3) and three tokens of width two, all sign patterns",
    measured=lemma_off,
    criterion=identity("mean square of the Jacobian/formula − 1", condition=10.0),
    control=control(
        "the printed bound for the tokens at X = (5, 3)", mean_norms(examples[0])[3] / printed_bound - 1
    ),
    expected="corrected",
    correction=correction(
        printed="E‖∂S/∂X‖² ≤ 8 σ_q² σ_k² σ_v² m_k m E‖Γ‖²/T + 2 m² σ_v²",
        right="E‖∂S/∂X‖² = m² σ_v² + σ_q² σ_k² σ_v² m (T m‖Γ‖² + m‖X‖² tr Γ + 2‖Γ‖²)/T²",
        evidence="refereed",
    ),
    show="card",
)

# %% [markdown]
# :::{prf:theorem} Queries and keys lose their gradient under rank collapse
# :label: thesis-thm-3-3-1
# If $X=\mathbf 1x^\top$ at some block (all tokens equal), the gradients of any loss with respect to $W_Q$ and $W_K$ of this block vanish, for the true softmax and every draw of the weights. The derivative with respect to $W_V$ remains: $\lVert\partial S/\partial W_V\rVert^2=mT\lVert x\rVert^2$.
# :::
#
# *The key step.* All covariances in {eq}`eq-rank-closed` are zero, and a key $k_j$ acts on $S_i$ through the difference between the value $v_j$ and the mean of all values, weighted by the attention; this difference is zero too. (The source states the expectation under uniform attention, and says in addition that the gradient of the loss with respect to $W_V$ stays far from zero. This depends on the loss, hence the derivative of $S$ here.)
#
# **Predict first.** Is rank one enough? Take tokens that are multiples of one vector, $x_i=a_ix$, with different numbers $a_i$.
#
# :::{dropdown} Answer
# No. Tokens on one line still differ, $\Gamma=\sum_i(a_i-\bar a)^2xx^\top\ne0$, and the query gradient does not vanish. A remark of the source before the theorem speaks of rank one only; its theorem and its proof ask for equal tokens, and that is what is needed.
# :::
#
# In floating point zero means rounding. We take six POST-LN blocks, so that nothing grows, with a random linear loss (the entries of the output times random numbers, summed), and compare the query and key gradients with the value gradient of the same block.


# %%
# norms (3, depth, draws): W_Q, W_K, W_V
def block_gradients(X, depth, seed_name, nu=1.0, ln="post", draws=1):
    source = run.generator(seed_name)
    layers = [[w.requires_grad_() for w in draw(draws, X.shape[-1], source)] for _ in range(depth)]
    for weights in layers:
        X = block(X, weights, (nu, nu), ln=ln)
    (X * torch.randn(X.shape, generator=source, **like)).sum().backward()
    return torch.stack([torch.stack([w.grad.flatten(1).norm(dim=1) for w in ws[:3]]) for ws in layers], 1)


source = run.generator("equal tokens")
one = torch.randn(1, 1, 32, generator=source, **like)
equal = block_gradients(one.expand(1, 16, 32), 6, "collapsed")
on_a_line = block_gradients(one * torch.randn(1, 16, 1, generator=source, **like), 6, "collapsed")
assert equal[2].min() > 0.1

# %% tags=["hide-input"]
ledger.check(
    "thesis:thm-3.3.1",
    "Equal tokens: gradients of queries and keys over that of the values, six blocks, true softmax",
    measured=(equal[:2] / equal[2]).flatten(),
    criterion=identity("‖∂L/∂W_Q‖/‖∂L/∂W_V‖ and the same for keys", condition=10.0),
    control=control("multiples of one vector", (on_a_line[:2] / on_a_line[2]).flatten()),
    expected="holds",
    show="card",
)

# %% [markdown]
# ### Tokens that are all equally correlated
#
# For numbers, let the tokens be Gaussian: entries of variance $\sigma_x^2$, independent along a token, and any two tokens with the same correlation $\rho$.
#
# :::{prf:proposition} Equicorrelated tokens
# :label: thesis-eq-83
# Then, over tokens and weights, under uniform attention,
#
# $$
# \begin{aligned}
# \mathbb E\Bigl\lVert\frac{\partial S}{\partial W_V}\Bigr\rVert^2&=\sigma_x^2m^2(1+\rho(T-1)),\\
# \mathbb E\Bigl\lVert\frac{\partial S}{\partial W_Q}\Bigr\rVert^2&=\sigma_x^6\frac{T-1}T(1-\rho)^2m(T+m)\\
# &\quad\cdot\Bigl(1+\frac{4(1-\rho)}{Tm}\Bigr) .
# \end{aligned}
# $$ (eq-rank-gauss)
# :::
#
# The source assumes that norm and correlation are independent, which drops the last factor; it matters for few and narrow tokens only. Read the two lines: correlation raises one and lowers the other; the variance enters with the power one and with the power **three**. That is one reason
# for layer normalization, which sets $\sigma_x=1$.
#
# *The key step.* $\Gamma$ is $(1-\rho)\sigma_x^2$ times a Wishart matrix (a sum of $T-1$ squares of standard Gaussian vectors), independent of $\bar x$.
#
# :::{dropdown} Proof
# Let $\sigma_x=1$ and $N=T-1$. $\bar x$ has variance $\frac{1+\rho N}T$ an entry: the first line. For the Wishart matrix $\Omega$ of $N$ degrees of freedom, $\mathbb E\,\mathrm{tr}\,\Omega^2=Nm(N+m+1)$. A Gaussian matrix is a radius $R$ times an independent direction; $\mathrm{tr}\,\Omega=R^2$, and $\mathrm{tr}\,\Omega^2$ is
# $R^4$ times a function of the direction. As $R^2\sim\chi^2_{Nm}$, $\mathbb E[\mathrm{tr}\,\Omega\,\mathrm{tr}\,\Omega^2]=(Nm+4)\,\mathbb E\,\mathrm{tr}\,\Omega^2$. With $\lVert X\rVert^2=T\lVert\bar x\rVert^2+(1-\rho)\,\mathrm{tr}\,\Omega$,
#
# $$
# \begin{aligned}
# \mathbb E[\lVert X\rVert^2\lVert\Gamma\rVert^2]&=(1-\rho)^2Nm(T+m)\\
# &\quad\cdot\bigl[m(1+\rho N)\\
# &\qquad+(1-\rho)(Nm+4)\bigr] ,
# \end{aligned}
# $$
#
# and the bracket is $mT+4(1-\rho)$. Divide by $mT^2$. $\square$
# :::


# %%
def tokens(count, T, m, rho, std, source):  # equicorrelated Gaussian tokens
    common, own = (torch.randn(count, n, m, generator=source, **like) for n in (1, T))
    return std * (math.sqrt(rho) * common + math.sqrt(1 - rho) * own)


def query_claim(T, m, rho, std):
    return std**6 * (T - 1) / T * (1 - rho) ** 2 * m * (T + m) * (1 + 4 * (1 - rho) / (T * m))


def value_claim(T, m, rho, std):
    return std**2 * m**2 * (1 + rho * (T - 1))


assert math.isclose(
    query_claim(5, 3, 0.2, 0.7), attention_gradients.equicorrelated_norms(5, 3, 0.2, 0.7).query
)
source = run.generator("equicorrelated")
sample = run.pick(smoke=10_000, book=40_000, paper=200_000)
scores, independent = [], []
for T, m, rho in ((2, 3, 0.0), (4, 4, 0.3), (8, 16, 0.6)):
    means = attention_gradients.uniform_norms(tokens(sample, T, m, rho, 1.0, source))
    error = means.query.std() / math.sqrt(sample)
    printed = query_claim(T, m, rho, 1.0) / (1 + 4 * (1 - rho) / (T * m))
    scores += [(means.query.mean() - query_claim(T, m, rho, 1.0)).abs() / error]
    scores += [
        (means.value.mean() - value_claim(T, m, rho, 1.0)).abs() / means.value.std() * math.sqrt(sample)
    ]
    independent += [(means.query.mean() - printed).abs() / error] * (m < 16)

# %%
pairs_drawn = run.pick(smoke=10, book=40, paper=200)


def over_theory(T, m, rho, std, stream, gain=1.0):  # true softmax over the claim: queries, values; (2, draws)
    source = run.generator(stream)
    X = tokens(pairs_drawn, T, m, rho, std, source)
    query, value = jacobian_norms(X, *draw(pairs_drawn, m, source)[:3], gain=gain)
    return torch.stack([query / (gain**2 * query_claim(T, m, rho, std)), value / value_claim(T, m, rho, std)])


base = {"m": 32, "T": 16, "rho": 0.2, "std": 0.3}
sweeps = {
    "m": (8, 16, 32, 64),
    "T": (4, 8, 16, 32),
    "rho": (0.0, 0.3, 0.6, 0.9),
    "std": (0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 4.0, 8.0),
}
swept = {
    name: torch.stack(
        [over_theory(**(base | {name: value}), stream=f"{name} {value}") for value in values], 1
    )
    for name, values in sweeps.items()
}
in_range = torch.cat([values[:, :4].flatten(0, 1) for values in swept.values()])  # queries and values
z_scores = (in_range.mean(1) - 1).abs() / in_range.std(1) * math.sqrt(pairs_drawn)
stds = torch.tensor(sweeps["std"][:4], **like)[:, None]
wrong_power = swept["std"][0, :4] * stds**2  # as if the claim had σ_x⁴

# %% tags=["hide-input"] mystnb={"figure": {"caption": "**The formulas hold for the true softmax, until the tokens are large.** Squared Jacobian norm of queries (vermillion) and values (green) over {eq}`eq-rank-gauss`, true softmax, 40 draws; bands: 95 %. Base point: $m=32$, $T=16$, $\\rho=0.2$, $\\sigma_x=0.3$. What breaks it (dashed, last panel): the power $\\sigma_x^4$ in the place of $\\sigma_x^6$, scaled to agree at $0.3$.", "name": "fig-rank-sweeps"}, "image": {"alt": "Four panels with two curves near one each; in the last panel both leave one beyond a standard deviation of one, the one of the queries falls and the one of the values rises; a dashed line crosses steeply."}}
fig, axes = figures.subplots(2, 2, size=(8.6, 5.8), sharey=True)
names = {"m": "width m", "T": "tokens T", "rho": r"correlation $\rho$", "std": r"$\sigma_x$"}
for ax, (name, values) in zip(axes.flat, swept.items(), strict=True):
    for row, color, label in ((0, "vermillion", "queries"), (1, "green", "values")):
        figures.band(
            ax,
            sweeps[name],
            values[row].T,
            label=label,
            color=figures.COLORS[color],
            geometric=True,
            markevery=1,
        )
    ax.axhline(1, color=figures.COLORS["light grey"], lw=1)
    ax.set(xlabel=names[name], yscale="log", xscale="linear" if name == "rho" else "log")
    if name in "mT":
        ax.set_xticks(sweeps[name], [str(value) for value in sweeps[name]])
        ax.set_xticks([], minor=True)
line = torch.tensor(sweeps["std"], **like)
figures.line_control(axes[1, 1], line, (line / 0.3) ** 2, label=r"$\sigma_x^4$")
axes[0, 0].set(ylim=(0.05, 20), ylabel="true/theory")
axes[1, 0].set(ylabel="true/theory")
axes[1, 1].legend(fontsize=8)
plt.show()

# %% tags=["hide-input"]
ledger.check(
    "thesis:eq-83",
    "Gaussian tokens of three sizes: mean squared Jacobian norms of queries and values, uniform attention",
    measured=scores,
    criterion=at_most("|sample mean − formula| in standard errors", 4.5),
    control=control("without the factor 1 + 4(1 − ρ)/(Tm), for (T, m) = (2, 3) and (4, 4)", independent),
    expected="holds",
    show="card",
    rtol=0.5,
)
ledger.check(
    "thesis:fig-67",
    "True softmax against the formulas for queries and values: 16 points of four sweeps with σ_x ≤ 0.5",
    measured=z_scores,
    criterion=at_most("|mean of true/theory − 1| in standard errors", 4.5),
    control=control(
        "the power σ_x⁴ in the place of σ_x⁶",
        (wrong_power.mean(1) - 1).abs() / wrong_power.std(1) * math.sqrt(pairs_drawn),
    ),
    expected="reproduced",
    claim="experiment",
    rtol=0.5,
)

# %% [markdown]
# ### A second way to lose the query gradient
#
# The last panel of {numref}`fig-rank-sweeps` shows another cause. For large tokens the logits are large, the softmax puts all weight on one token, and its derivative vanishes: the attention is *saturated*. Then the query gradient is far below its formula although the tokens differ. The two causes
# are told apart by the *entropy* of the attention, $-\sum_j\mathcal A_{ij}\ln\mathcal A_{ij}$ over $\ln T$: 1 for uniform attention, 0 for a saturated one. Without layer normalization the tokens grow with the depth, so a deep network can suffer from both.


# %%
count = run.pick(smoke=20, book=60, paper=200)


def relative_entropy(m, key_width, std, stream, T=8):
    source = run.generator(stream)  # mean over the rows of -Σ A ln A / ln T, (draws)
    X = tokens(count, T, m, 0.0, std, source)
    W_Q, W_K = (
        torch.randn(count, m, key_width, generator=source, **like) / math.sqrt(key_width) for _ in "QK"
    )
    A = ((X @ W_Q) @ (X @ W_K).mT / math.sqrt(key_width)).softmax(-1)
    return -(A * A.clamp(min=1e-300).log()).sum(-1).mean(-1) / math.log(T)


key_widths = (512, 1024, 2048)
less = torch.stack([1 - relative_entropy(32, k, 1.0, f"keys {k}") for k in key_widths], 1)  # (draws, 3)
both_wide = torch.stack([1 - relative_entropy(k, k, 1.0, f"both {k}") for k in (32, 64, 128)], 1)
flat = statistics.log_log_slope(torch.tensor(key_widths, **like), less)
not_flat = statistics.log_log_slope(torch.tensor([32.0, 64, 128], **like), both_wide)
saturated = over_theory(16, 32, 0.2, 8.0, "saturated")[0]

# %% tags=["hide-input"]
ledger.check(
    "thesis:assumption-3.3.1",
    "Attention becomes uniform as the key width grows at fixed m: 1 − entropy/ln T falls with the power −2",
    measured=flat,
    criterion=exponent("power of m_k in 1 − entropy/ln T", -2.0, neighbours=(-1.0, -3.0)),
    control=control("m growing with m_k", not_flat),
    expected="holds",
    rtol=0.1,
)
ledger.check(
    "thesis:beyond-saturation",
    "Tokens with σ_x = 8: the query gradient is below half of the formula although the tokens differ",
    measured=saturated,
    criterion=confident("true/theory, queries", at_most=0.5),
    control=control("σ_x = 0.3", swept["std"][0, 2]),
    expected="reproduced",
    claim="experiment",
    rtol=0.5,
)

# %% [markdown]
# The first row says when the assumption of uniform attention is right: for keys of width $m_k$, with entries of $W_Q$ and $W_K$ of variance $1/m_k$, the logits have the standard deviation $\sigma_x^2m/m_k$, so it is right for wide keys and fixed $m$, or for small tokens. With $m_k=m$ and $\sigma_x=1$ it is not, at any width.
#
# ### Gradients in a deep network
#
# Now the whole network at its start, with POST-LN, which keeps $\sigma_x=1$ and so excludes the size of the tokens as a cause. (The gradient that arrives from the blocks above changes with the block, too.) **Predict first.** In a network of 12 blocks with $\nu=1$, by what factor does the query gradient fall from the first block to the last: two, ten, a thousand?

# %%
deep = 12
graph_draws = run.pick(smoke=6, book=24, paper=100)
graph_tokens = unit_tokens(graph_draws, 16, 32, run.generator("network"))
by_strength = {
    nu: block_gradients(graph_tokens, deep, "network weights", nu=nu, draws=graph_draws)
    for nu in (1.0, 0.5, deep**-0.5)
}
cosine_of = {
    nu: torch.stack(
        [
            token_geometry.token_correlation(X, kind="cosine")
            for X in propagate(graph_tokens, deep, (nu, nu), run.generator("network cosines"), ln="post")
        ],
        1,
    )
    for nu in by_strength
}
query_falls = (by_strength[1.0][:2, -1] / by_strength[1.0][:2, 0]).log().amax(0)  # queries and keys
value_rises = (by_strength[1.0][2, -1] / by_strength[1.0][2, 0]).log()

# %% tags=["hide-input"] mystnb={"figure": {"caption": "**In the last block of a deep network the query gradient is hundreds of times smaller than in the first; the value gradient is larger.** From left to right: mean cosine of two tokens after each block; norm of the gradient of queries, and of values, over that of the first block. POST-LN, 12 blocks, $T=16$, $m=32$, 24 draws, random linear loss; bands: 95 %. What breaks it (dashed): strength $1/\\sqrt{12}$.", "name": "fig-rank-layers"}, "image": {"alt": "Three panels against the block. Left: cosines rise to one for strength one and to about 0.5 for the dashed curve. Middle: on a logarithmic axis the curve of strength one falls by several decades. Right: curves near one that rise or fall moderately."}}
fig, axes = figures.subplots(1, 3, size=(10.5, 3.9))
looks = {
    1.0: {"color": figures.COLORS["vermillion"]},
    0.5: {"color": figures.COLORS["blue"]},
    deep**-0.5: {"color": figures.COLORS["dark grey"], "ls": "--"},
}
for nu, norms in by_strength.items():
    label = rf"$\nu={nu:g}$" if nu > 0.4 else r"what breaks it: $\nu=1/\sqrt{12}$"
    figures.band(axes[0], range(deep + 1), cosine_of[nu], label=label, **looks[nu], **plain)
    for ax, row in ((axes[1], 0), (axes[2], 2)):
        relative = (norms[row] / norms[row, :1]).T
        figures.band(ax, range(1, deep + 1), relative, label=label, geometric=True, **looks[nu], **plain)
axes[0].set(xlabel="block", ylabel="mean cosine")
axes[1].set(xlabel="block", ylabel="queries, over block 1", yscale="log")
axes[2].set(xlabel="block", ylabel="values, over block 1", yscale="log", ylim=(0.05, 20))
fig.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", fontsize=8, ncols=3)
plt.show()

# %% [markdown]
# :::{dropdown} Answer
# By about 250 (geometric mean over the draws), while the value gradient grows by nearly four.
# :::

# %% tags=["hide-input"]
ledger.check(
    "thesis:fig-29",
    "POST-LN, ν = 1: the gradients of queries and keys fall from the first block to the twelfth by more than a factor ten",
    measured=query_falls,
    criterion=confident(
        "larger of ln(gradient of block 12/block 1) for queries and keys", at_most=-math.log(10)
    ),
    control=control("the value gradient", value_rises),
    expected="reproduced",
    claim="experiment",
    needs="book",
    rtol=0.2,
)

# %% [markdown]
# ## What it does to training
#
# The source conjectures that Adam succeeds with Transformers partly because it repairs this imbalance: it divides each entry of the gradient by its recent size, so queries and keys get larger steps. We look at what Adam does, and then test the conjecture by giving queries and keys a step of their own.
#
# **The task**: reverse a sequence of digits. An encoder with one head per block sees digits $0$ to $9$, embedded in $m$ numbers with sinusoidal positions, and must put out the same digits in opposite order; without attention it cannot. Knowing nothing costs the loss $\ln10=2.30$; knowing which digits occur in the sequence, but not where, costs
# $1.62$ at 8 digits and $1.95$ at 16. A run has *solved* the task if its loss ends below $.05$. Each step takes 32 fresh sequences. SGD has momentum $.9$; all step sizes are
# multiplied by $.3$ after 40 % and by $.1$ after 80 % of the steps. The rule for SGD is, with the factor $c$ for queries and keys,
#
# $$
# \begin{aligned}
# u_{k+1}&=.9\,u_k+g_k,\\
# \theta_{k+1}&=\theta_k-\eta_kP\,u_{k+1},
# \end{aligned}
# $$ (eq-rank-sgd)
#
# where $P$ is diagonal, with $c$ at the entries of $W_Q$ and $W_K$ and 1 elsewhere.


# %%
def train_by_hand(model, sequences, rate, factor, steps):  # before the first cut of the step
    velocity = {name: 0.0 for name, _ in model.named_parameters()}
    for digits in itertools.islice(sequences, steps):
        loss = cross_entropy(model(digits).flatten(0, 1), digits.flip(1).flatten())
        model.zero_grad()
        loss.backward()
        for name, weights in model.named_parameters():
            if weights.grad is not None:
                velocity[name] = 0.9 * velocity[name] + weights.grad
                own = factor if name.endswith(("W_Q", "W_K")) else 1.0
                weights.data -= rate * own * velocity[name]


shape = {"width": 16, "depth": 5, "length": 8}
arm = attention_training.ARMS["normalized"]["sgd qk x 10"]
hand = attention_training.make_encoder("normalized", arm, 0, **shape)
stream = runs.Run("adaptivity/rank_collapse").generator("sequences", seed=0)
fresh = (torch.randint(10, (32, 8), generator=stream) for _ in itertools.count())
slice_steps = run.pick(smoke=26, book=104, paper=104)
again = attention_training.train("normalized", "sgd qk x 10", [0], steps=2600, stop=slice_steps, **shape)
train_by_hand(hand, fresh, arm.rate, arm.factor, int(again["records"][-1]))
shown = torch.randint(
    10, (128, 8), generator=runs.Run("adaptivity/rank_collapse").generator("shown sequences", seed=0)
)
with torch.no_grad():
    loss_by_hand = cross_entropy(hand(shown).flatten(0, 1), shown.flip(1).flatten())
assert torch.allclose(loss_by_hand, again["losses"][0, -1], rtol=1e-4)  # the library's training

# %%
kept = {
    name: results.load("adaptivity/rank_collapse", f"attention-training-{name}")
    for name in attention_training.ARMS
}
seeds = list(range(10))


def of(setting, arm, quantity="losses"):  # what was kept of one arm, (seeds, records, ...)
    number = list(attention_training.ARMS[setting]).index(arm)
    return torch.as_tensor(kept[setting][quantity], **like)[number]


def last(setting, arm):  # the final loss of each seed; 2.303 is chance
    return of(setting, arm)[:, -1].clamp(max=5)


def solved(setting, arm):  # how many of ten seeds end below a loss of 0.05
    return int((last(setting, arm) < 0.05).sum())


record_count = len(again["records"])
agreement = results.agree(
    {"losses": of("normalized", "sgd qk x 10")[:1, :record_count]}, {"losses": again["losses"]}, rtol=5e-2
)


# %%
def in_words(name):
    rule, _, how = name.replace(",", "").partition(" ")
    how = how.replace("qk", "queries and keys").replace(" x ", " times ").replace(" / ", " over ")
    return {"sgd": "SGD", "adam": "Adam"}[rule] + (f", {how}" if how else "")


titles = {
    "normalized": "8 digits, POST-LN",
    "large": "16 digits, POST-LN",
    "scaled": "8 digits, scaled branches",
}
for setting, title in titles.items():
    length = 16 if setting == "large" else 8
    digits = torch.randint(
        10,
        (128, length),
        generator=runs.Run("adaptivity/rank_collapse").generator("shown sequences", seed=0),
    )
    shares = torch.nn.functional.one_hot(digits, 10).double().mean(1)  # of each digit in a sequence
    print(f"{title}; knowing which digits occur: {torch.special.entr(shares).sum(1).mean():.2f}")
    for name in attention_training.ARMS[setting]:
        result = f"solved {solved(setting, name):2d} of 10, median loss {last(setting, name).median():.2f}"
        print(f"  {in_words(name):30s} {result}")

# %% tags=["hide-input"] mystnb={"figure": {"caption": "**With 16 digits a step ten times larger for queries and keys trains six of ten networks on which SGD is stuck; with 8 digits it changes nothing.** Loss on 128 sequences against the step; thin: ten seeds each, thick: their median. Left: 8 digits, 5 POST-LN blocks, $m=16$, step .05 for SGD and .003 for Adam. Middle: 16 digits, 6 POST-LN blocks, $m=32$, step .05. Right: as left without normalization, strengths start at $1/\\sqrt5$ and are trained. What breaks it (dashed): queries and keys frozen at their start, under Adam on the left, under SGD on the right; in the middle three times the step for all weights. Kept results.", "name": "fig-rank-training"}, "image": {"alt": "Three panels of loss against steps. Left: SGD, SGD with a larger query step and Adam all fall in about half of the seeds, the dashed curve stays high. Middle: SGD with the larger query step falls, SGD and the dashed curve stay at two. Right: all fall to zero, the dashed one too."}}
fig, axes = figures.subplots(1, 3, size=(10.5, 3.9), sharey=True)
panels = {
    "normalized": (
        "8 digits, POST-LN",
        {"sgd": "blue", "sgd qk x 10": "vermillion", "adam": "green", "adam, qk frozen": "dark grey"},
    ),
    "large": (
        "16 digits, POST-LN",
        {"sgd": "blue", "sgd qk x 10": "vermillion", "sgd all x 3": "dark grey"},
    ),
    "scaled": ("8 digits, scaled", {"sgd": "blue", "adam": "green", "sgd, qk frozen": "dark grey"}),
}
words = {"sgd": "SGD", "sgd qk x 10": "SGD, queries and keys times 10", "adam": "Adam"}
for ax, (setting, (title, arms)) in zip(axes, panels.items(), strict=True):
    steps = torch.as_tensor(kept[setting]["records"])
    for name, color in arms.items():
        curves = of(setting, name).clamp(max=5)
        ax.plot(steps, curves.T, color=figures.COLORS[color], lw=0.5, alpha=0.5, **plain)
        if "frozen" in name or "all" in name:
            label = "frozen" if "frozen" in name else "all times 3"
            figures.line_control(ax, steps, curves.median(0).values, label=label, lw=2)
        else:
            ax.plot(
                steps,
                curves.median(0).values,
                color=figures.COLORS[color],
                lw=2.2,
                label=words[name],
                **plain,
            )
    ax.set(title=title, xlabel="step", ylim=(-0.1, 3.6))  # room for the legends
axes[0].set(ylabel="loss")
for ax in axes:
    ax.legend(fontsize=7.5, loc="upper right")
plt.show()

# %% [markdown]
# Read the panels one by one.
#
# - **8 digits, five blocks.** At the start the value gradient is three times the query gradient in the first block and seventeen times in the last. Yet SGD at its best step ($.05$, of four that were tried) solves the task for six of ten seeds, as Adam does. A larger step for queries and keys does
#   not help: seven, six and one of ten for the factors 3, 10 and 30. That queries and keys *learn* is necessary: with both frozen Adam solves the task for no seed, and ends at the loss of a model that knows only which digits occur.
# - **16 digits, six blocks.** The ratio goes from four to fifty-five. SGD, tried with the steps $.05$ and $.15$, solves it for no seed; with $.05$ all ten end near $1.95$, so they know which digits occur and nothing else. Multiply the step of queries and keys alone by ten: six of ten seeds are solved. So a fixed factor on two matrices can be enough, and no adaptive method is needed. Adam is
#   in the table, not in the panel: it was run with one step size ($.001$) only, and solved it for no seed in 2,000 steps. That is no comparison with a tuned Adam.
# - **Scaled branches, no normalization.** SGD solves it for all seeds. It also does so *with queries and keys frozen at random*, unless it diverges (three of ten). On this network the toy says nothing about query gradients.
#
# Before the ten seeds were run, a pilot with two to six seeds on 8 digits had found the factor ten to succeed for four of four seeds and SGD for one of six. Ten seeds do not confirm it there. The setting with 16 digits was added after that, because a single seed had shown SGD failing on a similar one; its criterion, the same as for 8 digits, was fixed before it was run. So the first row below rests on a setting that was chosen after the second row had failed.

# %% tags=["hide-input"]
ledger.check(
    "thesis:beyond-query-step",
    "16 digits, a setting added after 8 digits had shown no difference: SGD with ten times the step for queries and keys ends lower than plain SGD, paired over ten seeds",
    measured=last("large", "sgd") - last("large", "sgd qk x 10"),
    criterion=confident("loss of SGD − loss of SGD with the factor", at_least=0.0),
    control=control(
        "three times the step for all weights", last("large", "sgd") - last("large", "sgd all x 3")
    ),
    expected="reproduced",
    claim="experiment",
    show="card",
    seeds=seeds,
    rtol=0.5,
)
ledger.check(
    "thesis:beyond-query-step-small",
    "8 digits: the same comparison",
    measured=last("normalized", "sgd") - last("normalized", "sgd qk x 10"),
    criterion=confident("loss of SGD − loss of SGD with the factor", at_least=0.0),
    control=control(
        "ten times the step for all weights", last("normalized", "sgd") - last("normalized", "sgd all x 10")
    ),
    expected="not reproduced",
    claim="experiment",
    reason="six of ten seeds are solved with and without the factor; a pilot with fewer seeds had found a difference",
    seeds=seeds,
    rtol=0.5,
)
ledger.check(
    "thesis:beyond-frozen-queries",
    "8 digits: Adam with queries and keys frozen ends higher than Adam, paired over ten seeds",
    measured=last("normalized", "adam, qk frozen") - last("normalized", "adam"),
    criterion=confident("loss of Adam, frozen − loss of Adam", at_least=0.0),
    control=control(
        "SGD against SGD with the larger step in the place of freezing",
        last("normalized", "sgd") - last("normalized", "sgd qk x 10"),
    ),
    expected="reproduced",
    claim="experiment",
    seeds=seeds,
    rtol=0.5,
)

# %% [markdown]
# ### What Adam does
#
# Adam's step for one entry is $\eta$ times a mean gradient over $\sqrt v$, where $v$ is a running mean of its squared gradient. Its *effective step* is $\eta/\sqrt v$; we take the median over the entries of a matrix. The source's toy: 20 digits, 5 POST-LN blocks, $m=16$, $\eta=.01$.


# %%
def step_gap(setting, arm):  # ln, queries over values: (seeds, records, blocks)
    queries, _, values = of(setting, arm, "effective")
    return (queries / values).log()


gap_long, gap_deep, gap_scaled = (step_gap(setting, "adam") for setting in ("long", "deep", "scaled"))
blocks = torch.arange(5.0, **like) - 2


def slope_in_depth(gap):  # of each seed, mean over the records
    return (gap.mean(1) @ blocks) / blocks.square().sum()


smallest = gap_long.mean(1).amin(1)  # of the five blocks


def early_minus_late(logarithm):  # means of the first and of the last five records, seed by seed
    return logarithm[:, :5].mean((1, 2)) - logarithm[:, -5:].mean((1, 2))


early_late = early_minus_late(gap_long)
values_early_late = early_minus_late(of("long", "adam", "effective")[2].log())


# 1 for each seed whose gap grows with the block and stays within a factor of two in time
def as_printed(gap):
    return ((slope_in_depth(gap) > 0) & (early_minus_late(gap).abs() < math.log(2))).to(**like)


# %% tags=["hide-input"] mystnb={"figure": {"caption": "**Adam gives queries larger steps than values, more so in deeper blocks; the gap does not stay constant, and at fifteen blocks it does not save the training.** Left: effective step of queries over that of values during training, block by block, the source's toy (geometric mean of ten seeds). Middle: the same over the block, mean over the training, 5 and 15 blocks; bands: 95 %. Right: mean cosine of two tokens at the start (solid) and after training (dotted), 5 and 15 POST-LN blocks. What breaks it (dashed): branches scaled with the depth, after training. Kept results.", "name": "fig-rank-adam"}, "image": {"alt": "Left: five curves between one and thirty that fall over time, higher for later blocks. Middle: a line rising to about fifteen at block five and one rising beyond ten thousand at block fifteen. Right: cosines rising towards one at fifteen blocks before and after training; a dashed curve falls to zero."}}
fig, axes = figures.subplots(1, 3, size=(10.5, 3.7))
steps = torch.as_tensor(kept["long"]["records"])
for j in range(5):
    axes[0].plot(steps, gap_long[:, :, j].mean(0).exp(), label=f"block {j + 1}", **plain)
axes[0].set(xlabel="step", ylabel="queries/values", yscale="log")
axes[0].legend(fontsize=7.5, ncols=2)
for gap_kept, label in ((gap_long, "20 digits, 5 blocks"), (gap_deep, "8 digits, 15 blocks")):
    figures.band(
        axes[1],
        range(1, gap_kept.shape[2] + 1),
        gap_kept.mean(1).exp(),
        label=label,
        geometric=True,
        markevery=1,
    )
axes[1].set(xlabel="block", ylabel="queries/values", yscale="log")
axes[1].legend(fontsize=7.5)
for name, color in (("normalized", "blue"), ("deep", "vermillion")):
    values = of(name, "adam", "cosines")
    for record, style in ((0, "-"), (-1, ":")):
        axes[2].plot(
            range(values.shape[2]),
            values[:, record].mean(0),
            color=figures.COLORS[color],
            ls=style,
            label=f"{values.shape[2] - 1} blocks" if not record else None,
            **plain,
        )
figures.line_control(axes[2], range(6), of("scaled", "adam", "cosines")[:, -1].mean(0), label="scaled")
axes[2].set(xlabel="block", ylabel="mean cosine", ylim=(0, 1.02))
axes[2].legend(fontsize=7.5)
plt.show()

# %% tags=["hide-input"]
ledger.check(
    "thesis:claim-adam-query-rates",
    "The source's toy: Adam's effective step is larger for queries than for values in every block, and more so in later blocks",
    measured=torch.minimum(smallest, slope_in_depth(gap_long)),
    criterion=confident(
        "least of ln(step of queries/step of values) and of its increase a block", at_least=0.0
    ),
    control=control(
        "branches scaled, nothing normalized, 8 digits",
        torch.minimum(gap_scaled.mean(1).amin(1), slope_in_depth(gap_scaled)),
    ),
    expected="reproduced",
    claim="experiment",
    show="card",
    seeds=seeds,
    rtol=0.5,
)
ledger.check(
    "thesis:fig-30",
    "The gap grows with the block and is constant in time within a factor of two, seed by seed",
    measured=as_printed(gap_long),
    criterion=confident("share of seeds that show both", at_least=0.5),
    control=control("branches scaled, nothing normalized, 8 digits", as_printed(gap_scaled)),
    expected="partly",
    claim="experiment",
    reason="it grows with the block in every seed, but falls in time, by a factor of two on average (row below)",
    seeds=seeds,
    rtol=0.5,
)
ledger.check(
    "thesis:beyond-gap-in-time",
    "The gap shrinks: it is larger in the first five records (up to step 40) than in the last five",
    measured=early_late,
    criterion=confident("ln gap early − ln gap late", at_least=0.0),
    control=control("the step of the values alone in the place of the gap", values_early_late),
    expected="reproduced",
    claim="experiment",
    seeds=seeds,
    rtol=0.5,
)

# %% [markdown]
# Two claims of the source reproduce: queries get the larger steps, and the more so the later the block; the ratio is about 2 in the first block and 15 in the last. That it is constant in time does not: averaged over the blocks it falls from about 7 to 3. And there is a limit. With fifteen POST-LN blocks (8 digits, $\eta=.003$) the mean cosine in the last is above $.998$ at the start; Adam raises
# the step of its queries to more than ten thousand times that of its values, and after 1,000 steps no seed has a loss below $1.99$, worse than knowing which digits occur, and the mean cosine is still above $.98$. An adaptive step repairs the *size* of a gradient, not its direction.
#
# ## Two cures, and their limits
#
# **Scale the branches.** By {eq}`eq-rank-odds` the log-odds of the mean token grow by at most $\bar\nu_1=D\nu_1^2$ in all. If $D\nu_1^2$ is kept at one, the tokens of a deep network are hardly more alike at the end than those of a shallow one.
#
# **Give queries and keys another step**, or make their gradient larger by a factor in the logits, the *gain* $1/\tau$.
#
# :::{prf:proposition} The temperature that balances the gradients
# :label: thesis-eq-86
# For equicorrelated tokens, with uniform attention and without the last factor in {eq}`eq-rank-gauss`, queries and values have equal mean squared Jacobian norms at the temperature $\tau$ with
#
# $$\frac1{\tau^2}=\frac{mT\,(1+\rho(T-1))}{\sigma_x^4(1-\rho)^2(T+m)(T-1)} .$$ (eq-rank-temperature)
# :::
#
# *The key step.* Dividing the logits by $\tau$ divides the query gradient by $\tau$ and leaves uniform attention as it is.
#
# **Predict first.** Take this temperature, uncorrelated tokens, many more than $m$, and a true softmax. Is the ratio of the two squared gradients then one?
#
# :::{dropdown} Answer
# It is nearly one half, however small the tokens are. To make the query gradient as large as the value gradient the logits must be so large that the attention is not uniform any more, and then the value gradient is twice its formula.
# :::
#
# :::{prf:proposition} The value gradient contains the query gradient
# :label: thesis-beyond-values-contain-queries
# Let the attention be linear in the logits $M=XW_Q(XW_K)^\top/(\tau\sqrt m)$, that is $\mathcal A_{ij}=\frac1T(1+M_{ij}-\bar M_i)$ with the row mean $\bar M_i$: the softmax to first order. Then
#
# $$
# \begin{aligned}
# \mathbb E\Bigl\lVert\frac{\partial S}{\partial W_V}\Bigr\rVert^2&=mT\lVert\bar x\rVert^2\\
# &\quad+\mathbb E\Bigl\lVert\frac{\partial S}{\partial W_Q}\Bigr\rVert^2 .
# \end{aligned}
# $$ (eq-rank-contain)
# :::
#
# *The key step.* $\mathcal AX$ is $\mathbf 1\bar x^\top$ plus $\frac1TXW\Gamma$ with $W=W_QW_K^\top/(\tau\sqrt m)$; in expectation the squares add.
#
# :::{dropdown} Proof
# $\lVert\partial S/\partial W_V\rVert^2=m\lVert\mathcal AX\rVert^2$, and $\sum_j(M_{ij}-\bar M_i)x_j=\sum_jM_{ij}d_j=\Gamma W^\top x_i$. The entries of $W$ have mean zero, are uncorrelated and have the variance $1/(\tau m)^2$, so $\mathbb E\lVert\frac1TXW\Gamma\rVert^2=\lVert X\rVert^2\lVert\Gamma\rVert^2/(\tau mT)^2$. Times $m$ this is the mean for the queries
# in {eq}`eq-rank-means`, over $\tau^2$. $\square$
# :::
#
# Under uniform attention, which the source assumes, the temperature does not change the value gradient; to first order in the logits it does. At {eq}`eq-rank-temperature` the two terms are equal, so the squared ratio is one half. A larger gain brings it nearer
# to one as long as the logits stay small, which needs many more tokens than $m$.


# %%
def first_order_values(X):  # mean of m‖AX‖² over all signs, attention linear in the logits
    T, m = X.shape
    W_Q, W_K = (patterns(2 * m * m).view(-1, 2, m, m) / math.sqrt(m)).unbind(1)
    logits = (X @ W_Q) @ (X @ W_K).mT / math.sqrt(m)
    A = (1 + logits - logits.mean(2, keepdim=True)) / T
    return m * (A @ X).square().sum((1, 2)).mean()


contained = torch.stack([first_order_values(X) / (lemma(X)[2] + lemma(X)[0]) - 1 for X in examples])
alone = torch.stack([first_order_values(X) / lemma(X)[2] - 1 for X in examples])


def balancing_gain(T, m, rho, std):  # 1/τ
    return math.sqrt(m * T * (1 + rho * (T - 1)) / (std**4 * (1 - rho) ** 2 * (T + m) * (T - 1)))


assert math.isclose(
    balancing_gain(9, 4, 0.1, 0.5) * attention_gradients.balancing_temperature(9, 4, 0.1, 0.5), 1
)
settings = [(64, 4, 0.0, 0.25), (25, 512, 0.3, 1.0), (8, 8, 0.7, 2.0)]


def balance(T, m, rho, std, gain):  # of the formulas, in the source's form
    query = query_claim(T, m, rho, std) / (1 + 4 * (1 - rho) / (T * m))
    return gain**2 * query / value_claim(T, m, rho, std)


formulas = torch.tensor([balance(*each, balancing_gain(*each)) for each in settings], **like) - 1
wrong_gain = [balance(*each, balancing_gain(*each) * each[3] ** 2) for each in settings if each[3] != 1]
wrong_gain = torch.tensor(wrong_gain, **like) - 1

# %%
source, hot = run.generator("balance"), run.pick(smoke=40, book=200, paper=1000)
small = tokens(hot, 128, 16, 0.0, 0.25, source)  # 128 small tokens of width 16
query, value = jacobian_norms(small, *draw(hot, 16, source)[:3], gain=balancing_gain(128, 16, 0.0, 0.25))
true_ratio, to_formula = query / value.mean(), query / value_claim(128, 16, 0.0, 0.25)

# %%
speed = torch.as_tensor(kept["scaled"]["records"])


def first_below(arm, loss=0.05):  # the first record at which each seed is below it
    return torch.stack([speed[int((curve < loss).nonzero()[0])] for curve in of("scaled", arm)]).to(**like)


sooner = first_below("sgd") - first_below("sgd, gain 2")
than_adam = first_below("sgd, gain 2") - first_below("adam")
wide_draws = run.pick(smoke=4, book=16, paper=60)
crowd = unit_tokens(wide_draws, 32, 64, run.generator("crowd"))
ends = {}
for name, kind in (("as it is", {}), ("centred", {"centred": True}), ("POST-LN", {"ln": "post"})):
    for_each = propagate(crowd, long, (1.0, 1.0), run.generator("centred"), **kind)[-1]
    ends[name] = token_geometry.token_correlation(for_each, kind="cosine")

# %% tags=["hide-input"]
ledger.check(
    "thesis:eq-86",
    "At the balancing temperature the formulas for queries and values agree, for three settings",
    measured=formulas,
    criterion=identity("formula of queries/formula of values − 1", condition=10.0),
    control=control("σ_x² in the place of σ_x⁴ in the square of the gain", wrong_gain),
    expected="holds",
)
ledger.check(
    "thesis:beyond-values-contain-queries",
    "Attention linear in the logits: the value gradient is its uniform part plus the query gradient, all sign patterns",
    measured=contained,
    criterion=identity("mean for the values/(mT‖x̄‖² + mean for the queries) − 1", condition=10.0),
    control=control("the uniform part alone", alone),
    expected="holds",
)
ledger.check(
    "thesis:beyond-half-of-the-balance",
    "True softmax at the balancing temperature, T = 128, m = 16, ρ = 0: the ratio is near one half, not one",
    measured=true_ratio,
    criterion=confident("queries/mean of values", at_most=2 / 3),
    control=control("over the formula for the values", to_formula),
    expected="reproduced",
    claim="experiment",
    rtol=0.1,
)
race = {"claim": "experiment", "seeds": seeds, "rtol": 0.5}
ledger.check(
    "thesis:claim-sgd-matches-adam",
    "Toy, scaled branches, gain 2: SGD ends within 0.05 of Adam on the same network, paired over ten seeds",
    measured=last("scaled", "sgd, gain 2") - last("scaled", "adam"),
    criterion=confident("loss of SGD − loss of Adam", at_most=0.05),
    control=control("SGD on the POST-LN network − Adam", last("normalized", "sgd") - last("scaled", "adam")),
    expected="reproduced",
    **race,
)
ledger.check(
    "thesis:beyond-temperature-on-the-toy",
    "The gain of 2 makes SGD reach a loss of 0.05 sooner than without it",
    measured=sooner,
    criterion=confident("steps without − steps with the gain", at_least=0.0),
    control=control("steps with the gain − steps of Adam", than_adam),
    expected="partly",
    reason="the mean difference is 6 steps of about a thousand, and its interval, −147 to 159, contains zero",
    **race,
)
ledger.check(
    "thesis:beyond-centred-attention",
    "Subtract the mean token from the output of the attention: the cosine stays lower by more than 0.3",
    measured=ends["as it is"] - ends["centred"],
    criterion=confident("cosine as it is − cosine with centred attention, last block", at_least=0.3),
    control=control("POST-LN in the place of centring", ends["as it is"] - ends["POST-LN"]),
    expected="reproduced",
    claim="experiment",
    rtol=0.3,
    needs="book",
)

# %% [markdown]
# **A third cure follows from the theorem**: since attention collapses the tokens by writing on the mean token, subtract the mean over the tokens from its output. {cite:t}`ali2023centered` subtract $\frac1T$ from each entry of $\mathcal A$, which is the same under uniform attention. With softmax, ReLU and no normalization, 32 tokens of width 64, the mean cosine after 24 blocks is then about $.4$ in the place of $1$; what is left is the work of ReLU.
#
# ### Source and here

# %% tags=["hide-input"]
said = {each["id"].split(":")[1]: each["verdict"] == "reproduced" for each in ledger.records}
gap_first, gap_last = gap_long.mean((0, 1)).exp()[[0, -1]].tolist()
figures.comparison(
    [
        ("Adam's step, queries over values, last block", "larger", gap_last, said["claim-adam-query-rates"]),
        ("the same, first block", "smaller than in the last", gap_first, gap_first < gap_last),
        (
            "gap early/gap late in training",
            "1, remarkably constant",
            float(early_late.mean().exp()),
            not said["beyond-gap-in-time"],
        ),
        (
            "SGD POST-LN − Adam POST-LN, BLEU there, loss here",
            "−4.03",
            float((last("normalized", "sgd") - last("normalized", "adam")).mean()),
            None,
        ),
        (
            "SGD scaled, temperature − Adam, BLEU there, loss here",
            "0.30",
            float((last("scaled", "sgd, gain 2") - last("scaled", "adam")).mean()),
            said["claim-sgd-matches-adam"],
        ),
        *(
            (what, there, [found.low, found.high], bool(found.low > 0) == yes)
            for what, there, yes, found in normalized
        ),
    ],
    "the verdict of the row above on the same quantity; not compared where no row decides it; cosines: whether the 99.9 % interval of the difference lies above zero, mean over the blocks, for ν half as large after the last",
    run=run,
    name="source-and-here",
    rtol=0.5,
)
reach = "python -m learning_dynamics.experiments.rank_collapse.attention_training --setting deep --width 64 --depth 12"
for number, statement, stand_in in (
    (
        "fig-27",
        "Token cosine while POST-LN Transformers of growing depth are trained: escape is harder in deeper ones",
        "the right panel above: 5 and 15 blocks on the toy",
    ),
    (
        "fig-31",
        "Translation score against the number of blocks: SGD with scaling and temperature keeps up with Adam",
        "thesis:claim-sgd-matches-adam",
    ),
    ("table-2", "Translation scores of seven methods, 31.36 to 35.69", "thesis:claim-sgd-matches-adam"),
    (
        "fig-69",
        "Cosines, trained strengths and norms during training of the best model",
        "the exercise on trained strengths",
    ),
):
    ledger.out_of_reach(
        f"thesis:{number}",
        statement,
        needs="the translation data set IWSLT14, which does not ship, and GPU hours; prepared: 36 POST-LN blocks of width 64 on the toy",
        command=reach,
        stand_in=stand_in,
    )

# %% [markdown]
# :::{prf:remark} Settings of the translation experiments
# :label: thesis-table-7
# Width 512, feed-forward width 2048, four heads, dropout $.3$; Adam with step $7\cdot10^{-4}$, $\beta=(.9,.98)$, warm-up over 6,000 of 100,000 steps; SGD with step $.02$, cut by ten after 100,000 and 200,000 of 250,000 steps; gain $1/\tau=8.5$, reached linearly in 1,000 steps; strengths trained.
# :::
#
# **What the toy shows, and what not.** It shows that the step of queries and keys can decide whether SGD trains, that it need not, and that scaled branches make the question disappear. It has one head, random sequences and at most 16 digits; it says nothing about translation, where the source reports 31.36 for SGD with POST-LN, 32.79 with scaled
# branches and 35.69 with the gain as well, against 35.39 for Adam. There the gain matters more than the scaling; on the toy it makes no measurable difference.
#
# ## For the practitioner
#
# - Log $p=T\lVert\bar x\rVert^2/\lVert X\rVert^2$ after each block at the start; it costs one mean. If $1-p$ is below a few per cent in the last blocks, their queries are starved.
# - Keep $D\nu_1^2$ fixed when you change the depth: start the attention branches at $1/\sqrt D$, or at zero and train the strength. With PRE-LN the tokens grow from block to block while what is added does not, so later blocks change them less; this does a part of the work.
# - Before you give up on SGD, or when you choose groups for an optimizer, compare the gradient norms of queries, keys and values at the start. A step of its own for queries and keys costs one line.
# - If the query gradient is small, look at the entropy of the attention. Near one: tokens are alike, scale the branches. Near zero: logits are too large; normalize queries and keys {cite}`dehghani2023scaling`, or use a higher temperature.
# - Do not expect {eq}`eq-rank-temperature` to balance the gradients: it brings the squared ratio to one half, because the value gradient grows as well.
# - Use ten seeds or more. In a pilot of this page the factor ten had succeeded for four of four seeds on 8 digits; of ten seeds it succeeded for six, as SGD did without it.
#
# ## Exercises
#
# :::{exercise}
# :label: ex-rank-hand
# **By hand.** Tokens $(1,0),(1,0),(0,1)$, uniform attention, linear feed-forward layer, $\nu_1=1$. What are $p$ and $\rho$ at the start, and after three blocks?
# :::
#
# :::{solution} ex-rank-hand
# :class: dropdown
# $\bar x=(\frac23,\frac13)$, $\lVert\bar x\rVert^2=\frac59$, so $p=\frac{3\cdot5/9}3=\frac59$ and $\rho=\frac{3p-1}2=\frac13$: one of three pairs has cosine 1. The odds are $\frac54$, after three blocks $10$: $p=\frac{10}{11}$ and $\rho=\frac{19}{22}$.
# :::
#
# :::{exercise}
# :label: ex-rank-depth
# **Predict a number.** 127 orthogonal tokens, $\nu_1=1$. After how many blocks is $\rho=\frac12$? And with $\nu_1=\frac12$?
# :::
#
# :::{solution} ex-rank-depth
# :class: dropdown
# $\rho=\frac12$ means $p=\frac{T+1}{2T}$, odds $\frac{T+1}{T-1}$; the odds at the start are $\frac1{T-1}$. So $(1+\nu_1^2)^D=T+1=128$: seven blocks, and $\ln128/\ln1.25=21.7$ for $\nu_1=\frac12$, so that $\rho$ passes $\frac12$ in the 22nd block.
# :::

# %% tags=["hide-input"]
predicted = [token_geometry.depth_of_share(128 / 254, 1 / 127, strength) for strength in (1.0, 0.5)]
assert math.isclose(predicted[0], 7) and abs(predicted[1] - 21.7) < 0.05

# %% [markdown]
# :::{exercise}
# :label: ex-rank-line
# **Change one line.** Centre the attention of the POST-LN blocks in {numref}`fig-rank-layers` (`centred=True`), $\nu=1$. The mean cosine after 12 blocks falls from $.999$ to about $.76$.
# :::
#
# :::{solution} ex-rank-line
# :class: dropdown
# The cell below does it. What remains is due to ReLU, whose outputs share a positive part.
# :::

# %% tags=["hide-input"]
changed = propagate(
    graph_tokens, deep, (1.0, 1.0), run.generator("network cosines"), ln="post", centred=True
)[-1]
changed = token_geometry.token_correlation(changed, kind="cosine").mean()
assert 0.7 < float(changed) < 0.85 and cosine_of[1.0][:, -1].mean() > 0.99

# %% [markdown]
# :::{exercise}
# :label: ex-rank-bound
# **Break a bound.** For two tokens of width one, $X=(a+b,a-b)$, write the exact mean of $\lVert\partial S/\partial X\rVert^2$ and the source's bound, and find tokens for which the first is more than twice the second. For which tokens does the bound hold?
# :::
#
# :::{solution} ex-rank-bound
# :class: dropdown
# $\Gamma=2b^2$, $\lVert X\rVert^2=2(a^2+b^2)$: the mean is $1+(a^2+b^2)b^2+4b^4$, the bound $2+16b^4$. For $a=20$, $b=.1$: $5.0005$ and $2.0016$. With mean zero, $a=0$: $1+5b^4\le2+16b^4$. In general, for $\bar x=0$, $\lVert X\rVert^2=\mathrm{tr}\,\Gamma$ and $(\mathrm{tr}\,\Gamma)^2\le\min(T,m)\lVert\Gamma\rVert^2$, so the product is
# at most $\frac1T\lVert\Gamma\rVert^2\cdot\frac{\min(T,m)}{mT}$, and the bound holds.
# :::

# %% tags=["hide-input"]
far = torch.tensor([[20.1], [19.9]], **like)
assert abs(float(mean_norms(far)[3]) - 5.0005) < 1e-9 and abs(2 + 16 * 0.1**4 - 2.0016) < 1e-12

# %% [markdown]
# :::{exercise}
# :label: ex-rank-open
# **Open.** Does the best factor for queries and keys follow the ratio of gradient norms at the start, when the depth changes? Known: the ratio is 3 to 17 at 5 blocks, where factors of 3 and 10 did no harm and 30 did; 4 to 55 at 6 blocks of width 32, where 10 helped; beyond 9,000 in the last of 15 blocks, where even Adam failed.
# A related question has an answer in the kept results: where the strengths are trained under SGD with gain 2, as in the source's figure 69, $|\nu_1|$ grows from $.45$ to $.63$ on average, $|\nu_2|$ falls to $.14$, the mean cosine after the last block *falls* from $.63$ to $.06$, and the mean square of an entry, 1 up to the last block but one, is 12 after the last.
# :::
#
# ## What to remember
#
# 1. Attention writes one vector to all tokens: the odds of the mean token grow by about $1+\nu_1^2$ a block, and tokens become alike.
# 2. The value gradient is proportional to $p$, the query gradient to $(1-p)^2$ and to the cube of the tokens' variance.
# 3. Equal tokens give queries and keys no gradient at all; tokens on a line still give one. Tokens with mean zero do not collapse under uniform attention with linear layers.
# 4. Strength $1/\sqrt D$ stops the collapse at every depth. An adaptive step repairs only the size of a gradient.
# 5. On the larger toy one factor on two matrices made SGD work where it had failed; on the smaller one, where SGD solves six of ten, it made no difference.
#
# **Further reading.** {cite:t}`noci2022signal` for the theorems; {cite:t}`dong2021attention` for collapse without residual branches, which is doubly exponential; {cite:t}`vaswani2017attention` for the architecture and {cite:t}`xiong2020layer` for the place of the normalization; {cite:t}`noci2023shaped` for attention that stays
# non-degenerate at infinite depth; {cite:t}`zhang2024transformers` for another explanation of Adam's lead, by the spectra of blocks of the Hessian.
#
# ## Checks behind this page
#
# Two figures of the source's appendix. The law of the norm under uniform and under true attention (linear feed-forward layers, $T=10$, $m=30$, $\nu=1/\sqrt{10}$, 1,000 draws of the weights), and maps of the ratio of query and value gradients over the sizes.

# %%
norm_draws = run.pick(smoke=200, book=1000, paper=1000)
norm_laws, norm_claims = {}, {}
for name, std, uniform in (
    ("uniform, small", 30**-0.5, True),
    ("softmax, small", 30**-0.5, False),
    ("softmax, σ_x = 1", 1.0, False),
):
    source = run.generator("norms")
    X = std * torch.randn(10, 30, generator=source, **like)
    path = propagate(
        X.expand(norm_draws, 10, 30), 10, (10**-0.5, 10**-0.5), source, uniform=uniform, relu=False
    )
    norm_laws[name] = torch.stack([each.square().sum((1, 2)) for each in path[1:]])
    mean = 10 * X.mean(0).square().sum()
    norm_claims[name] = 1.1**10 * (X.square().sum() + mean * (1.1**10 - 1))  # the lemma at D = 10
    norm_claims[name + ", wrong"] = 1.1**10 * (X.square().sum() + mean * 1.1**10)
norm_off = {name: (law[-1].mean() / norm_claims[name] - 1).abs() for name, law in norm_laws.items()}
norm_wrong = norm_laws["uniform, small"][-1].mean() / norm_claims["uniform, small, wrong"] - 1

# %%
map_draws = run.pick(smoke=4, book=12, paper=40)
sizes_T, sizes_m, rhos, stds_shown = (4, 8, 16, 32), (8, 16, 32, 64), (0.0, 0.3, 0.6, 0.9), (0.1, 0.5)
theory, measured = torch.empty(2, 4, 4, 4, **like), torch.empty(2, 4, 4, 4, **like)
for (a, std), (b, rho), (c, m), (d, T) in itertools.product(
    *(enumerate(v) for v in (stds_shown, rhos, sizes_m, sizes_T))
):
    source = run.generator(f"map {std} {rho} {m} {T}")
    query, value = jacobian_norms(tokens(map_draws, T, m, rho, std, source), *draw(map_draws, m, source)[:3])
    theory[a, b, c, d] = math.log(query_claim(T, m, rho, std) / value_claim(T, m, rho, std)) / 2
    measured[a, b, c, d] = (query.mean() / value.mean()).log() / 2


def apart(x, y):  # root mean square difference of two maps, for each σ_x
    return (x - y).flatten(1).square().mean(1).sqrt()


one_power_less = theory - torch.log(1 - torch.tensor(rhos, **like))[:, None, None] / 2

# %% tags=["hide-input"] mystnb={"figure": {"caption": "**Theory and truth look the same.** $\\ln$ of query over value gradient, over $T$ (across) and $m$ (up), for four correlations $\\rho$; upper row: formula, lower row: true softmax, $\\sigma_x=0.5$. The check below includes $\\sigma_x=0.1$. What breaks it: $1-\\rho$ in the place of $(1-\\rho)^2$.", "name": "fig-rank-maps"}, "image": {"alt": "Two rows of four small heat maps that agree; the maps darken from left to right."}}
fig, axes = figures.subplots(2, 4, size=(9.2, 4.4))
limits = {
    "vmin": float(theory[1].min()),
    "vmax": float(theory[1].max()),
    "cmap": "viridis",
    "origin": "lower",
}
for row, (maps, label) in enumerate(((theory, "formula"), (measured, "true"))):
    for b, rho in enumerate(rhos):
        axes[row, b].imshow(maps[1, b], **limits)
        axes[row, b].grid(False)
        axes[row, b].set(xticks=range(4), xticklabels=sizes_T, yticks=range(4), yticklabels=sizes_m)
        if row == 0:
            axes[row, b].set(title=rf"$\rho={rho:g}$")
    axes[row, 0].set(ylabel=f"{label}\nm")
for ax in axes[1]:
    ax.set(xlabel="T")
plt.show()

# %% tags=["hide-input"] mystnb={"figure": {"caption": "**Small tokens follow the lemma, large ones do not.** Densities of $\\log_{10}\\lVert X\\rVert^2$ after 1, 4, 7 and 10 blocks. Vertical: the mean by the lemma at ten blocks (solid) and the sample mean (dotted). What breaks it (dashed): the normal law of the same mean and variance as at ten blocks, which has no heavy right tail.", "name": "fig-rank-norms"}, "image": {"alt": "Three panels of bell-shaped densities that move to the right and widen with the depth; in the third panel the solid and the dotted vertical line differ."}}
fig, axes = figures.subplots(1, 3, size=(10.5, 3.4))
for ax, (name, law) in zip(axes, norm_laws.items(), strict=True):
    for depth in (1, 4, 7, 10):
        height, edges = torch.histogram(law[depth - 1].log10().float(), bins=30, density=True)
        ax.plot((edges[1:] + edges[:-1]) / 2, height, label=f"D = {depth}", **plain)
    ax.axvline(float(norm_claims[name].log10()), color=figures.COLORS["black"], lw=1)
    ax.axvline(float(law[-1].mean().log10()), color=figures.COLORS["black"], ls=":", lw=1.5)
    grid = torch.linspace(*(float(e) for e in (law[-1].min(), law[-1].max())), 200, **like)
    bell = (
        (-(((grid - law[-1].mean()) / law[-1].std()) ** 2) / 2).exp() / law[-1].std() / math.sqrt(2 * math.pi)
    )
    figures.line_control(ax, grid.log10(), bell * grid * math.log(10), label="normal")
    ax.set(title=name, xlabel=r"$\log_{10}\|X\|^2$")
axes[0].set(ylabel="density")
axes[0].legend(fontsize=7)
plt.show()

# %% tags=["hide-input"]
ledger.check(
    "thesis:fig-66",
    "Small tokens, uniform and true attention: the mean squared norm at ten blocks is that of the lemma within 3 %",
    measured=torch.stack([norm_off["uniform, small"], norm_off["softmax, small"]]),
    criterion=at_most("|mean/lemma − 1|", 0.03),
    control=control(
        "(1 + ν₁²)^D in the place of (1 + ν₁²)^D − 1; true attention, σ_x = 1",
        torch.stack([norm_wrong.abs(), norm_off["softmax, σ_x = 1"]]),
    ),
    expected="reproduced",
    claim="experiment",
    needs="book",
    rtol=0.5,
)
ledger.check(
    "thesis:fig-68",
    "Maps of ln of query over value gradient by formula and by the true softmax, σ_x = 0.1 and 0.5, 64 cells each",
    measured=apart(theory, measured),
    criterion=at_most("root mean square of the difference", 0.15),
    control=control("1 − ρ in the place of (1 − ρ)² in the formula", apart(one_power_less, measured)),
    expected="reproduced",
    claim="experiment",
    needs="book",
    rtol=0.2,
)

# %% tags=["remove-input"]
ledger.table()
