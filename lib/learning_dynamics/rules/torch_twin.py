"""A rule that is called like a torch optimizer says where the torch optimizer is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import wraps
from typing import Any, TypeVar

from torch import Tensor, nn

Class = TypeVar("Class", bound=type)


def torch_twin(name: str) -> Callable[[Class], Class]:
    """Return a decorator for the dataclass of a rule that names the torch class which takes parameters.

    The rule then raises one line, a ValueError, when its first argument is a module, parameters, an iterator or
    parameter groups, or when it is given `params` or `lr`.

    Args:
        name: the torch class, as one would write it.
    """

    def decorate(rule: Class) -> Class:
        original: Callable[..., None] = rule.__init__  # type: ignore[misc]  # of the class itself, not of an instance
        first = fields(rule)[0].name

        @wraps(original)
        def checked(self: Any, *arguments: Any, **named: Any) -> None:
            value = arguments[0] if arguments else named.get("params", named.get(first))
            where = (
                f"rules.{rule.__name__} is a function of its state; the class that takes parameters is {name}"
            )
            if "params" in named or _are_parameters(value):
                raise ValueError(
                    f"{first} = a {type(value).__name__}; allowed: {_ALLOWED.get(first)}; {where}"
                )
            if "lr" in named:
                raise ValueError(f"lr = {named['lr']!r}; allowed: the name {first}; {where}")
            original(self, *arguments, **named)

        rule.__init__ = checked  # type: ignore[misc]  # that is the point
        return rule

    return decorate


_ALLOWED = {
    "step_size": "a number, a tensor (*batch, 1) or a schedule",
    "cap": "a number, a tensor (*batch, 1) or a schedule",
    "rule": "a rule",
}


def _are_parameters(value: object) -> bool:
    """Whether a value is what torch optimizers take first: a module, parameters, an iterator, or groups of them."""
    if isinstance(value, list | tuple):
        return bool(value) and isinstance(value[0], Tensor | dict | tuple)
    return isinstance(value, nn.Module | nn.Parameter | Iterator | dict)
