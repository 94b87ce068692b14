"""Keywords of policies in Stable Baselines: `layers`, `act_fun`, `feature_extraction`, ..."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Mapping

from rlzoo.core.errors import UserError, unknown

Keywords = Mapping[str, object]


def translate_policy_keywords(
    policy_kwargs: Keywords,
    accepted: Collection[str],
    extractors: Mapping[str, type],
    activation: Callable[[object], object],
) -> dict[str, object]:
    """Return `policy_kwargs` under current names; one warning lists the old ones.

    :param accepted: current keywords of the policy
    :param extractors: what `feature_extraction` may name
    :param activation: makes a class of the value of `act_fun`
    :raises UserError: an old keyword has no current one in this policy, or is given under both names
    """

    def renamed(name: str, value: object) -> dict[str, object]:
        if name == "act_fun":
            return {"activation_fn": activation(value)}
        if name == "feature_extraction":
            if not isinstance(value, str) or value not in extractors:
                raise unknown("feature_extraction", str(value), extractors)
            return {"features_extractor_class": extractors[value]}
        return _KEYWORDS[name](value, "lstm_hidden_size" in accepted)

    keywords: dict[str, object] = {}
    notices = []
    for name, value in policy_kwargs.items():
        if name in accepted or name not in (*_KEYWORDS, "act_fun", "feature_extraction"):
            keywords[name] = value
            continue
        for new_name, new_value in renamed(name, value).items():
            if new_name not in accepted:
                raise unknown("policy keyword", name, accepted)
            if new_name in policy_kwargs:
                raise UserError(f"the policy keywords {name!r} (old) and {new_name!r} say the same: give one")
            shown = getattr(new_value, "__name__", new_value)
            notices.append(f"policy keyword {name!r} is now {new_name!r}: {shown}")
            keywords[new_name] = new_value
    if notices:
        warnings.warn("; ".join(notices), stacklevel=4)
    return keywords


def _layers(value: object, has_lstm: bool) -> dict[str, object]:
    if value is None:
        return {}
    if not isinstance(value, Iterable):
        raise UserError(f"layers must be a list of widths such as [64, 64], not {value!r}")
    return {"net_arch": [*value, "lstm"] if has_lstm else list(value)}


def _n_lstm(value: object, has_lstm: bool) -> dict[str, object]:
    return {"lstm_hidden_size": value}


def _cnn_extractor(value: object, has_lstm: bool) -> dict[str, object]:
    if not isinstance(value, type):
        raise UserError(
            "cnn_extractor is now features_extractor_class, a class derived from BaseFeaturesExtractor, "
            f"not a function ({getattr(value, '__name__', value)})"
        )
    return {"features_extractor_class": value}


def _layer_norm(value: object, has_lstm: bool) -> dict[str, object]:
    return {"layer_norm": value} if value else {}  # a policy without the keyword has no layer normalisation


_KEYWORDS: dict[str, Callable[[object, bool], dict[str, object]]] = {
    "layers": _layers,
    "layer_norm": _layer_norm,
    "cnn_extractor": _cnn_extractor,
    "n_lstm": _n_lstm,
}
