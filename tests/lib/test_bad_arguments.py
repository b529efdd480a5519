"""Nothing is silently wrong: every public name that takes tensors, called with each of them spoilt in turn.

`specimens.py` has for each name a call that works, with the names of the axes of its tensors. From it follow the
mutations of each argument: one axis less; one more, in front and behind; an axis that must agree with another one
longer, and of size one; an integer dtype; a complex dtype; a NaN; another device, where there is one; and for each
axis no entry at all. The call must then refuse in the one dialect, or give a right value:

- One axis more in front: each slice is the result of the specimen (a batch); behind, or one axis less: likewise.
- An integer dtype: what the same numbers give in floating point.
- A NaN: the numbers that depend on it are NaN, and a flag such as `converged` says so; all others are unchanged.
- No entry: no entry in the result, or zero, the sum of nothing.

What a specimen exempts from this has its reason beside it. The counts stand at the end of a run.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import math
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import specimens_experiments  # noqa: F401  # adds its specimens
import specimens_models  # noqa: F401  # likewise
import torch
from specimens import ROOMS, SPECIMENS, UNWALKED, Specimen
from torch import Tensor, nn

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "book/_ext"))

from book_pages import surface  # noqa: E402

TENSOR = re.compile(r"\b(Tensor|Samples|Hyperparameter|StepSize|Schedule|Momentum|Data)\b")
FLAGS = {"converged": False, "diverged": True, "success": False}
DTYPES = {"integers", "real", "floating point", "another device"}
WORK = {"iterations", "steps", "evaluations", "sweeps", "rounds"}  # how long it took is no result
COUNTS: Counter[str] = Counter()


# ------------------------------------------------------------------------------------- what a specimen must name


def takes_tensors(annotation: str) -> bool:
    """Whether a parameter of this annotation may be a tensor, not only a function of one."""
    while (start := annotation.find("Callable[")) >= 0:
        depth, at = 1, start + len("Callable[")
        while depth:
            depth += {"[": 1, "]": -1}.get(annotation[at], 0)
            at += 1
        annotation = annotation[:start] + annotation[at:]
    return bool(TENSOR.search(annotation))


def parameters(function: ast.FunctionDef) -> dict[str, str]:
    """Return the annotations of a function's parameters."""
    every = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    every += [each for each in (function.args.vararg,) if each]
    return {each.arg: ast.unparse(each.annotation) for each in every if each.annotation}


def fields(node: ast.ClassDef) -> dict[str, str]:
    """Return what makes an object of a class: the parameters of its `__init__`, or the fields of a dataclass."""
    for each in node.body:
        if isinstance(each, ast.FunctionDef) and each.name == "__init__":
            return parameters(each)
    made = [
        each for each in node.body if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
    ]
    if not any("dataclass" in ast.unparse(each) for each in node.decorator_list):
        return {}
    return {
        each.target.id: ast.unparse(each.annotation)
        for each in made
        if not each.target.id.startswith("_") and "init=False" not in ast.unparse(each)
    }


def public() -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the public functions, classes and methods of the library, with the annotations of their parameters.

    Left out are named tuples, which the library makes itself, and protocols, which have no body.
    """
    for name in (name for room in surface.rooms(ROOT) for name in room.all_names()):
        path = name.path.removeprefix(f"{surface.PACKAGE}.")
        if isinstance(name.node, ast.FunctionDef):
            yield path, parameters(name.node)
        elif isinstance(name.node, ast.ClassDef):
            bases = {ast.unparse(base).partition("[")[0] for base in name.node.bases}
            if "Protocol" in bases:
                continue
            if "NamedTuple" not in bases:
                yield path, fields(name.node)
            for method in surface.methods(name.node):
                yield f"{path}.{method.name}", parameters(method)


def taking_tensors() -> dict[str, set[str]]:
    """Return the public names of all rooms that take tensors, with the names of these parameters."""
    found = {}
    for path, given in public():
        taken = {name for name, annotation in given.items() if takes_tensors(annotation)}
        if taken:
            found[path] = taken
    return found


def test_every_name_that_takes_tensors_has_a_specimen() -> None:
    given: dict[str, set[str]] = {}
    for each in SPECIMENS:
        given.setdefault(each.name, set()).update(each.tensors)
    wanted = taking_tensors()
    assert set(UNWALKED) <= set(wanted), "a reason for what is not there"
    missing = {
        name: sorted(parameters - given.get(name, set()))
        for name, parameters in wanted.items()
        if name not in UNWALKED and parameters - given.get(name, set())
    }
    assert missing == {}
    assert set(given) - set(wanted) == set(), "a specimen of what is not there"


# --------------------------------------------------------------------------------------------------- mutations


def resized(tensor: Tensor, axis: int, size: int) -> Tensor:
    """Return the tensor with another size of an axis, by leaving out or repeating its last entry."""
    places = torch.arange(size, device=tensor.device).clamp(max=tensor.shape[axis] - 1)
    return tensor.index_select(axis, places)


def spoilt(tensor: Tensor, value: float = math.nan) -> Tensor:
    """Return the tensor with another entry in the middle."""
    flat = tensor.clone().reshape(-1)
    flat[flat.numel() // 2] = value
    return flat.reshape(tensor.shape)


Tensors = dict[str, Tensor]


def mutations(specimen: Specimen) -> Iterator[tuple[str, Tensors, Tensors | None]]:
    """Yield the name of a mutation, the tensors, and for a change of dtype those that must give the same."""
    tensors, axes = specimen.make(), specimen.axes()
    every = [axis for words in axes.values() for axis in words]
    for name, tensor in tensors.items():

        def put(value: Tensor, name: str = name) -> Tensors:
            return tensors | {name: value}

        if tensor.ndim:
            same_rows = (
                put(tensor[:1].expand(tensor.shape).clone()) if axes[name][0].startswith("*") else None
            )
            yield f"{name}: one axis less", put(tensor[0]), same_rows
        yield f"{name}: one axis more", put(torch.stack([tensor, tensor])), None
        bound = [every.count(word) > 1 or word.endswith("!") for word in axes[name]]
        if any(bound) or not tensor.ndim:
            yield f"{name}: one axis behind", put(tensor[..., None]), None
        for axis, word in enumerate(axes[name]):
            size = tensor.shape[axis]
            if bound[axis]:
                yield f"{name}: {word} larger, axis {axis}", put(resized(tensor, axis, size + 1)), None
            if bound[axis] and size > 1:
                one = resized(tensor, axis, 1)
                whole = put(one.expand(tensor.shape).clone()) if word.startswith("*") else None
                yield f"{name}: {word} = 1, axis {axis}", put(one), whole
        if tensor.is_floating_point():
            whole = tensor.round()
            yield f"{name}: integers", put(whole.long()), put(whole)
            yield f"{name}: complex", put(torch.complex(tensor, tensor)), None
            yield f"{name}: NaN", put(spoilt(tensor)), None
        elif tensor.is_complex():
            yield f"{name}: real", put(tensor.real), put(tensor.real.to(tensor.dtype))
            yield f"{name}: NaN", put(spoilt(tensor)), None
        else:
            yield f"{name}: floating point", put(tensor.double()), put(tensor)
        if torch.cuda.is_available() and len(tensors) > 1:
            yield f"{name}: another device", put(tensor.cuda()), None
    for word in dict.fromkeys(every):
        yield (
            f"no {word}",
            {
                name: resized_all(tensor, [i for i, each in enumerate(axes[name]) if each == word])
                for name, tensor in tensors.items()
            },
            None,
        )


def resized_all(tensor: Tensor, places: list[int]) -> Tensor:
    for axis in places:
        tensor = tensor.narrow(axis, 0, 0)
    return tensor


# ---------------------------------------------------------------------------------------------- right or wrong


def leaves(value: Any, name: str = "") -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors and numbers of a result, with the names of their fields."""
    if isinstance(value, Tensor):
        yield name, value.detach()
    elif isinstance(value, bool | int | float | complex | np.ndarray | np.generic):
        yield name, torch.as_tensor(value)
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from leaves(each, str(key))
    elif hasattr(value, "_asdict"):
        yield from leaves(value._asdict())
    elif isinstance(value, list | tuple):
        for each in value:
            yield from leaves(each, name)
    elif dataclasses.is_dataclass(value):
        yield from leaves({field.name: getattr(value, field.name) for field in dataclasses.fields(value)})
    elif isinstance(value, nn.Module):
        yield from leaves(dict(value.named_parameters()))


def same(one: Tensor, other: Tensor) -> bool:
    if one.shape != other.shape:
        return False
    kind = torch.promote_types(one.dtype, other.dtype)
    return torch.allclose(one.to(kind), other.to(kind), rtol=1e-6, atol=1e-9, equal_nan=True)


def sliced(found: Tensor, wanted: Tensor) -> bool:
    """Whether the slices of a result along some axis are what is wanted, or the result itself is."""
    return same(found, wanted) or any(
        all(same(each, wanted) for each in found.unbind(axis)) for axis in range(found.ndim)
    )


def judge(mutation: str, found: object, wanted: object, moved: Iterable[object] = ()) -> str:
    """Return "" for a right value, or what is wrong with it.

    Args:
        mutation: its name.
        found: the result with it.
        wanted: the result of the specimen, or of the reference that the mutation names.
        moved: for a NaN, results with other numbers in its place: what they change must not swallow the NaN.
    """
    others = [[leaf for _, leaf in leaves(each)] for each in moved]
    pairs = list(zip(leaves(found), leaves(wanted), strict=False))
    if len([*leaves(found)]) != len([*leaves(wanted)]):
        return "another number of results"
    if not pairs:
        return "nothing to compare: the specimen returns no number"
    kind = mutation.rpartition(": ")[2]
    for place, ((name, new), (_, old)) in enumerate(pairs):
        if name in WORK:
            continue
        if kind in ("one axis more", "one axis behind"):
            right = sliced(new, old)
        elif kind == "one axis less":
            right = same(new, old) or any(
                same(new, part)
                for axis in range(old.ndim)
                for part in (old.select(axis, 0), old.narrow(axis, 0, 1))
            )
        elif kind == "NaN":
            said = name in FLAGS and bool((new == FLAGS[name]).any())
            free = all(same(each[place], old) for each in others if len(each) == len(pairs))
            right = said or same(new, old) and free
            right |= bool((new.is_floating_point() or new.is_complex()) and new.isnan().any())
        elif kind.startswith("no "):
            right = new.numel() == 0 or not bool((new != 0).any()) or same(new, old)
        else:
            promised = kind.startswith("*") and " = 1" in kind
            right = (promised or kind in DTYPES) and same(new, old)
        if not right:
            return f"{name or 'result'} {tuple(new.shape)} in place of {tuple(old.shape)}"
    return ""


def outcome(specimen: Specimen, mutation: str, tensors: Tensors, reference: Tensors | None) -> str:
    """Return "refused", "right value", or what went wrong."""
    try:
        found = specimen.call(**tensors)
    except (ValueError, TypeError) as error:
        return (
            "refused"
            if "allowed:" in str(error) and "\n" not in str(error)
            else f"{type(error).__name__}: {error}"
        )
    except Exception as error:  # whatever else comes out is what this test is about
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    wanted = specimen.call(**(specimen.make() if reference is None else reference))
    moved = []
    if mutation.endswith(": NaN"):
        name = mutation.partition(": ")[0]
        for value in (0.75, -2.5, 20.0):
            with contextlib.suppress(Exception):
                moved.append(specimen.call(**tensors | {name: spoilt(tensors[name], value)}))
    return judge(mutation, found, wanted, moved) or "right value"


@pytest.mark.filterwarnings("error:Casting complex")
@pytest.mark.parametrize("specimen", SPECIMENS, ids=str)
def test_nothing_is_silently_wrong(specimen: Specimen) -> None:
    assert (
        judge("", specimen.call(**specimen.make()), 0) != "nothing to compare: the specimen returns no number"
    )
    wrong, unused = {}, set(specimen.exempt)
    for mutation, tensors, reference in mutations(specimen):
        result = outcome(specimen, mutation, tensors, reference)
        kind = mutation.partition(": ")[2] or mutation
        argument = mutation.partition(": ")[0]
        reason = [key for key in (mutation, kind, argument) if key in specimen.exempt]
        if result not in ("refused", "right value") and reason:
            unused -= set(reason)
            result = "exempt, with the reason"
        COUNTS[result if result in ("refused", "right value", "exempt, with the reason") else "wrong"] += 1
        if result not in ("refused", "right value", "exempt, with the reason"):
            wrong[mutation] = result
    assert wrong == {}
    assert unused == set(), "exempt without need"


def test_the_counts(capsys: pytest.CaptureFixture) -> None:
    """Not a test of its own: what the walk has seen, and by room what it leaves out, written into the run."""
    names = len({each.name for each in SPECIMENS})
    counted = ", ".join(f"{count} {what}" for what, count in sorted(COUNTS.items()))
    reasons = Counter(path.partition(".")[0] for path in UNWALKED)
    with capsys.disabled():
        print(f"\n{names} names in {len(ROOMS)} rooms, {sum(COUNTS.values())} mutations: {counted}")
        print(f"names without a walk, each with a reason: {dict(sorted(reasons.items()))}")


# ----------------------------------------------------------------------------------------- the walk can fail


def scaled(x: Tensor, y: Tensor) -> Tensor:
    return x * y


def test_what_broadcasts_is_found() -> None:
    specimen = Specimen("scaled", scaled, {"x": "n", "y": "n"})
    wrong = {
        mutation: result
        for mutation, tensors, reference in mutations(specimen)
        if (result := outcome(specimen, mutation, tensors, reference)) not in ("refused", "right value")
    }
    assert {"x: one axis behind", "y: n = 1, axis 0", "x: complex", "x: n larger, axis 0"} <= set(wrong)
    assert "x: integers" not in wrong and "x: NaN" not in wrong


def test_a_cast_is_found() -> None:
    specimen = Specimen("half", lambda x: (x / 2).to(x.dtype), {"x": "n"})
    found = {m: outcome(specimen, m, t, r) for m, t, r in mutations(specimen)}
    assert found["x: integers"].startswith("result") and found["x: NaN"] == "right value"


def test_a_swallowed_nan_is_found() -> None:
    specimen = Specimen("sign", lambda x: (x > 0).sum(), {"x": "n"})
    found = {m: outcome(specimen, m, t, r) for m, t, r in mutations(specimen)}
    assert found["x: NaN"].startswith("result") and found["no n"] == "right value"
