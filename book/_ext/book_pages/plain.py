"""Formulas as plain words and signs, for where nothing can be typeset: search results, hover text."""

from __future__ import annotations

import re

from docutils import nodes
from sphinx import addnodes

SKIPPED = "…"
"""What stands for a formula that has no short form in one line."""

_LETTERS = dict(
    zip(
        "alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu xi pi rho "
        "sigma varsigma tau upsilon phi varphi chi psi omega "
        "Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi Omega".split(),
        "αβγδεεζηθϑικλμνξπρσςτυφφχψωΓΔΘΛΞΠΣΦΨΩ",
        strict=True,
    )
)
_SIGNS = {
    "le": "≤", "leq": "≤", "ge": "≥", "geq": "≥", "ne": "≠", "neq": "≠", "approx": "≈", "sim": "∼", "equiv": "≡",
    "to": "→", "mapsto": "↦", "leftarrow": "←", "rightarrow": "→", "Rightarrow": "⇒", "in": "∈", "notin": "∉",
    "nabla": "∇", "partial": "∂", "infty": "∞", "sum": "∑", "prod": "∏", "int": "∫", "pm": "±", "mp": "∓",
    "cdot": "·", "times": "×", "otimes": "⊗", "odot": "⊙", "circ": "∘", "top": "⊤", "star": "⋆", "ell": "ℓ",
    "langle": "⟨", "rangle": "⟩", "lVert": "‖", "rVert": "‖", "Vert": "‖", "lvert": "|", "rvert": "|", "mid": "|",
    "parallel": "∥", "perp": "⊥", "propto": "∝", "dots": "…", "ldots": "…", "cdots": "⋯", "square": "□",
    "succeq": "⪰", "preceq": "⪯", "succ": "≻", "ll": "≪", "gg": "≫", "subset": "⊂", "subseteq": "⊆", "cap": "∩",
    "cup": "∪", "lceil": "⌈", "rceil": "⌉", "lfloor": "⌊", "rfloor": "⌋", "forall": "∀", "exists": "∃",
    "gtrsim": "≳", "lesssim": "≲", "colon": ":", "prime": "′", "ast": "∗", "setminus": "∖", "triangleright": "▷",
    "downarrow": "↓",
}  # fmt: skip
_WORDS = set(
    "log ln exp sin cos tan sinh cosh tanh min max inf sup lim det dim"
    " arg Pr limsup liminf arccos arcsin arctan ker".split()
)
_DROPPED = set(
    "left right bigl bigr Bigl Bigr biggl biggr big Big bigg "
    "displaystyle textstyle limits nolimits quad qquad rm".split()
)
_FACES = "mathrm|mathcal|mathbf|mathsf|mathtt|mathit|operatorname|text|textrm|textbf|boldsymbol|mathscr"
_LINES = "equation|align|aligned|gather|gathered|split|multline|alignat|alignedat"
_ACCENTS = {
    "hat": "\u0302", "bar": "\u0304", "tilde": "\u0303", "dot": "\u0307", "ddot": "\u0308",
    "underline": "\u0332", "overline": "\u0304", "widehat": "\u0302", "widetilde": "\u0303", "vec": "\u20d7",
}  # fmt: skip
_DOUBLE = {"R": "ℝ", "E": "𝔼", "N": "ℕ", "C": "ℂ", "P": "ℙ", "Z": "ℤ", "V": "𝕍", "1": "𝟙"}
_HIGH = str.maketrans("0123456789+-⊤⋆∗′nT", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ᵀ*∗′ⁿᵀ")
_LOW = str.maketrans("0123456789+-aeijkmnprtx", "₀₁₂₃₄₅₆₇₈₉₊₋ₐₑᵢⱼₖₘₙₚᵣₜₓ")
_GROUP = r"\{([^{}]*)\}"


def formula(tex: str) -> str:
    """Return a formula in plain signs, or an ellipsis where one line cannot hold it.

    Args:
        tex: What stands between the dollars.
    """
    text = re.sub(rf"\\(?:begin|end)\{{(?:{_LINES})\*?\}}", "", tex).strip()
    if text != tex.strip():  # several lines, aligned
        text = re.sub(r"\\\\(?:\[[^]]*\])?", " ", text.replace("&", " "))
    text = re.sub(r"\\(?:tag|label)\{[^}]*\}|\\notag", "", text)
    if "\\begin" in text or "\\\\" in text or "&" in text:
        return SKIPPED
    text = re.sub(r"\\[,;:! ]|~", " ", text)
    text = re.sub(r"\\([{}|%#_])", lambda sign: {"{": "❴", "}": "❵", "|": "‖"}.get(sign[1], sign[1]), text)
    text = re.sub(
        r"\\(?:mathbb|mathds)\s*(?:\{(\w)\}|(\w))", lambda m: _DOUBLE.get(m[1] or m[2], m[1] or m[2]), text
    )
    text = re.sub(r"\\([A-Za-z]+)\*?", _command, text)
    for _ in range(12):
        before = text
        text = re.sub(rf"\\(?:{_FACES})\s*(?:{_GROUP}|(\w))", lambda m: m[1] or m[2] or "", text)
        text = re.sub(rf"\\({'|'.join(_ACCENTS)})\s*(?:{_GROUP}|(\w))", _accent, text)
        text = re.sub(rf"\\[dt]?binom\s*(?:{_GROUP}|(\w))\s*(?:{_GROUP}|(\w))", _choose, text)
        text = re.sub(rf"\\[dt]?frac\s*(?:{_GROUP}|(\w))\s*(?:{_GROUP}|(\w))", _fraction, text)
        text = re.sub(rf"\\sqrt\s*(?:{_GROUP}|(\w))", lambda m: "√" + _bound(m[1] or m[2] or ""), text)
        text = re.sub(rf"\^(?:{_GROUP}|(\S))", lambda m: _shifted(m[1] or m[2] or "", _HIGH, "^"), text)
        text = re.sub(rf"_(?:{_GROUP}|(\S))", lambda m: _shifted(m[1] or m[2] or "", _LOW, "ˍ"), text)
        if text == before:
            break
    text = re.sub(r" +(?=[_^ˍ])", "", text)
    text = re.sub(r"[{}]", "", text).replace("❴", "{").replace("❵", "}").replace("ˍ", "_")
    text = re.sub(r" (?=[,.;](?: |$))", "", re.sub(r"\s+", " ", text).strip())
    return SKIPPED if "\\" in text or "$" in text else text


def _command(found: re.Match[str]) -> str:
    name = found[1]
    if name in _DROPPED:
        return " " if name.endswith("quad") else ""
    if name in _WORDS:
        return f"{name} "
    return _LETTERS.get(name) or _SIGNS.get(name) or found[0]


def _accent(found: re.Match[str]) -> str:
    inside = found[2] or found[3] or ""
    return inside + _ACCENTS[found[1]] if len(inside) == 1 else inside


def _bound(text: str) -> str:
    return text if len(text) <= 1 or re.fullmatch(r"[\w.]+", text) else f"({text})"


def _fraction(found: re.Match[str]) -> str:
    return f"{_bound(found[1] or found[2] or '')}/{_bound(found[3] or found[4] or '')}"


def _choose(found: re.Match[str]) -> str:
    return f"C({found[1] or found[2]}, {found[3] or found[4]})"


def _shifted(text: str, table: dict[int, int], sign: str) -> str:
    text = text.strip()
    moved = text.translate(table)
    if all(old != new for old, new in zip(text, moved, strict=True)):
        return moved
    return f"{sign}{_bound(text)}"


def text(node: nodes.Node) -> str:
    """Return what a reader sees of a node in one line: formulas in plain signs, nothing of folded code."""
    return re.sub(r"\s+", " ", "".join(_pieces(node))).strip()


def hidden(node: nodes.Node) -> bool:
    """Return whether a node is code that a page folds away or leaves out."""
    if not isinstance(node, nodes.Element):
        return False
    classes = node.get("classes", [])
    if "cell_input" not in classes:
        return {"tag_hide-cell", "tag_remove-cell"} & set(classes) != set()
    tags = set(node.parent.get("classes", [])) if node.parent is not None else set()
    return bool(tags & {f"tag_{what}-{part}" for what in ("hide", "remove") for part in ("input", "cell")})


def _pieces(node: nodes.Node) -> list[str]:
    if isinstance(node, nodes.math | nodes.math_block):
        return [
            f" {formula(node.astext())} " if isinstance(node, nodes.math_block) else formula(node.astext())
        ]
    if isinstance(node, nodes.Text):
        return [node.astext()]
    if isinstance(node, addnodes.pending_xref) and not node.get("refexplicit"):  # its words are not known yet
        return [SKIPPED]
    if hidden(node) or isinstance(node, nodes.raw | nodes.comment | nodes.system_message | addnodes.index):
        return []
    pieces = [piece for child in node.children for piece in _pieces(child)]
    apart = isinstance(node, nodes.Element) and not isinstance(node, nodes.Inline | nodes.TextElement)
    return [" ", *pieces, " "] if apart or isinstance(node, nodes.paragraph | nodes.title) else pieces
