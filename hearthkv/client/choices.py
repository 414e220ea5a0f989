"""Choices that callers make by a member of an enum, or by its text. Pure."""

import enum
from typing import TypeVar

from hearthkv.core.errors import BadInputError

Choice = TypeVar("Choice", bound=enum.Enum)


def checked_choice(kind: type[Choice], name: str, given: Choice | str) -> Choice:
    """
    Return the member of `kind` that was given.

    Args:
        kind: An enum whose values are texts.
        name: The argument's, for the error.
        given: A member, or the text of one.

    Raises:
        BadInputError: If it is none; the text says which there are.
    """
    try:
        return kind(given)
    except ValueError:
        texts = ", ".join(known.value for known in kind)
        raise BadInputError(f"{name} is {given!r}, must be one of {texts}") from None
