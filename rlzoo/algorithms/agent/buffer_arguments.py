"""Class and arguments of custom rollout buffers in model files.

A file that names a class which cannot be found, or should not be imported, is loaded all the same: the agent
plays without it, and a warning says what training needs.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping

from rlzoo.core.errors import UserError
from rlzoo.io.encoding import decode_value, encode_value

KINDS: Mapping[str, type] = {"rollout_buffer_class": type, "rollout_buffer_kwargs": dict}
ATTRIBUTES = {"rollout_buffer_class": "own_buffer_class", "rollout_buffer_kwargs": "rollout_buffer_kwargs"}


def encoded_buffer(model: object, left_out: Collection[str]) -> dict[str, object]:
    """Return class and arguments of an agent's rollout buffers for a file; warn of what cannot be saved.

    :param left_out: arguments that the file should not hold
    """
    encoded: dict[str, object] = {}
    for name, attribute in ATTRIBUTES.items():
        value = getattr(model, attribute, None)
        if not value or name in left_out:
            continue
        try:
            encoded[name] = encode_value(value)
        except UserError:
            encoded[name] = "$callable"
        if "$callable" in str(encoded[name]):
            del encoded[name]
            warnings.warn(f"{name} is not saved: give it to load()", stacklevel=5)
    return encoded


def decoded_buffer(
    arguments: Mapping[str, object],
    custom_objects: Mapping[str, object],
    trusted_modules: tuple[str, ...],
    given: Collection[str],
) -> dict[str, object]:
    """Return class and arguments of the rollout buffers in a file; {} and a warning if they are unreadable.

    :param arguments: those of the constructor in the file
    :param given: arguments that are not those of the file
    """
    decoded: dict[str, object] = {}
    try:
        for name in KINDS.keys() & arguments.keys() - given:
            decoded[name] = decode_value(arguments[name], custom_objects, trusted_modules)
            if not isinstance(decoded[name], KINDS[name]):
                raise UserError(f"{name} is {str(decoded[name])[:40]!r}")
    except UserError as error:
        warnings.warn(f"the agent is loaded without its own rollout buffer: {error}", stacklevel=6)
        return {}
    return decoded
