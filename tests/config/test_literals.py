"""The value grammar: what texts stand for, what is refused, and that nothing is ever run."""

from __future__ import annotations

import math
import sys

import pytest

from rlzoo.config.values_as_text import (
    Name,
    interpret,
    merge,
    override_text,
    parse_overrides,
    parse_value,
    plain,
)
from rlzoo.core.errors import UserError
from rlzoo.core.schedules import LinearSchedule


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 0.001),
        ("1e6", 1_000_000.0),
        ("2.5e-4", 0.00025),
        ("-1", -1),
        ("1_000", 1000),
        ("true", True),
        ("False", False),
        ("null", None),
        ("None", None),
        ("'text'", "text"),
        ("MlpPolicy", "MlpPolicy"),
        ("[64, 64]", [64, 64]),
        ("[]", []),
        ("{a: 1}", {"a": 1}),
        ("{'a': 1e-3}", {"a": 0.001}),
        ("(1, 'episode')", (1, "episode")),
        ("dict()", {}),
        ("dict(net_arch=dict(pi=[64], vf=[32]))", {"net_arch": {"pi": [64], "vf": [32]}}),
        ("dict(activation_fn=nn.ReLU)", {"activation_fn": Name("torch.nn.ReLU")}),
        ("dict(optimizer_class=th.optim.Adam)", {"optimizer_class": Name("torch.optim.Adam")}),
        (
            "dict(features_extractor_class=mine.Extractor)",
            {"features_extractor_class": Name("mine.Extractor")},
        ),
        ("nn.Tanh", Name("torch.nn.Tanh")),
        ("RMSpropTFLike", Name("rlzoo.RMSpropTFLike")),
        ("lin_3e-4", "lin_3e-4"),
        ("lin_0.001", "lin_0.001"),
        ("piecewise_0:1_1:0", "piecewise_0:1_1:0"),
        ("mine.wrappers.Wrapper", "mine.wrappers.Wrapper"),
        ("[mine.A, {mine.B: {skip: 2}}]", ["mine.A", {"mine.B": {"skip": 2}}]),
        ("[lin_3e-4, nn.ReLU]", ["lin_3e-4", Name("torch.nn.ReLU")]),
        ("http://localhost:80/x", "http://localhost:80/x"),
        ("1:30", "1:30"),
        ("010", "010"),
        ("@home", "@home"),
        ("9.81/2", 4.905),
        ("2**14", 16384),
        ("np.pi*6/4", 1.5 * math.pi),
        ("-np.pi", -math.pi),
        ("7//2 - 1", 2),
        ("-(2+1)", -3),
        ("[64]*3", [64, 64, 64]),
        ("2*(64,)", (64, 64)),
        ("dict(net_arch=[2**6]*2)", {"net_arch": [64, 64]}),
        ("2024-11-26", "2024-11-26"),
        ("ns/My-v0", "ns/My-v0"),
        ("'1/2'", "1/2"),
        ("'a'*3", "'a'*3"),
    ],
)
def test_texts_and_their_values(text, value):
    parsed = parse_value(text)
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nn.RELU", "did you mean 'nn.ReLU'"),
        ("torch.nn.Relu", "did you mean 'torch.nn.ReLU'"),
        ("dict(activation_fn=relu)", "unknown name 'relu'"),
        ("dict(a=1", "a bracket, comma or quote is missing"),
        ("dict(a=b())", "'b()' is not allowed"),
        ("dict(a=1 + x)", "unknown name 'x'"),
        ("9**9**9", "too large"),
        ("10.0**400", "too large"),
        ("1000**100 * 1000", "too large"),
        ("1e200*1e200", "too large"),
        ("np.inf - np.inf", "too large"),
        ("[1]*10**9", "too large"),
        ("[[1]*90]*90", "too large"),
        ("dict(a=1/0)", "has no result"),
        ("(-8)**0.5", "has no result"),
        ("dict(**{'a': 1})", "is not allowed"),
        ("dict([('a', 1)])", "is not allowed"),
        ("(x for x in y)", "is not allowed"),
        ("[1, 2", "is no plain value"),
        ("{a: [}", "is no plain value"),
        ("(" * 500, "is no plain value"),
    ],
)
def test_what_is_refused_names_the_mistake_on_one_line(text, message):
    with pytest.raises(UserError) as caught:
        parse_value(text)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 300


@pytest.mark.parametrize(
    "text",
    [
        "dict(a=__import__('rlzoo_trap'))",
        "[__import__('rlzoo_trap')]",
        "__import__('rlzoo_trap')",
        "{'a': [x for x in [__import__('rlzoo_trap')]]}",
        "(lambda: __import__('rlzoo_trap'))()",
        "f\"{__import__('rlzoo_trap')}\"",
        "dict(activation_fn=rlzoo_trap.Trap)",
        "rlzoo_trap.Trap",
        "!!python/object/apply:rlzoo_trap.Trap []",
        "!!python/name:rlzoo_trap.Trap",
        "!!python/module:rlzoo_trap",
    ],
)
def test_nothing_is_run_or_imported(text, tmp_path, monkeypatch):
    (tmp_path / "rlzoo_trap.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    try:
        parse_value(text)
        interpret({"policy_kwargs": text, "activation_fn": "rlzoo_trap.Trap"})
    except UserError:
        pass
    assert "rlzoo_trap" not in sys.modules


def test_overrides_nest_and_merge():
    overrides = parse_overrides(
        [
            "n_steps:256",
            "learning_rate:1e-3",
            "policy_kwargs:dict(net_arch=[64])",
            "policy_kwargs.ortho_init:false",
            "policy_kwargs.features_extractor_class:mine.Extractor",
        ]
    )
    assert overrides == {
        "n_steps": 256,
        "learning_rate": 0.001,
        "policy_kwargs": {
            "net_arch": [64],
            "ortho_init": False,
            "features_extractor_class": Name("mine.Extractor"),
        },
    }


@pytest.mark.parametrize("item", ["n_steps", "n_steps:", ":3", "a..b:1", "n_steps=3"])
def test_an_override_without_key_and_value_is_refused(item):
    with pytest.raises(UserError, match="not of the form key:value"):
        parse_overrides([item])


@pytest.mark.parametrize(
    "value",
    ["lin_1e-3", "123", "true", "a b", "x:y", "dict(net_arch=[64], activation_fn=nn.ReLU)", 1e-5, 3, True,
     None, [1, "a: b"], {"net_arch": {"pi": [64]}, "activation_fn": "nn.ReLU"}, {"a": "dict(b=1)"}, ""],
)  # fmt: skip
def test_an_override_as_text_is_read_back(value):
    assert parse_overrides([override_text("key", value)]) == interpret({"key": value})


def test_merge_copies_and_replaces_wrappers_whole():
    values = {"policy_kwargs": {"net_arch": {"pi": [1], "vf": [2]}}, "env_wrapper": {"a.A": {"x": 1}}, "n": 1}
    before = repr(values)
    merged = merge(values, {"policy_kwargs": {"net_arch": {"pi": [3]}}, "env_wrapper": {"b.B": {}}})
    assert merged == {
        "policy_kwargs": {"net_arch": {"pi": [3], "vf": [2]}},
        "env_wrapper": {"b.B": {}},
        "n": 1,
    }
    merged["policy_kwargs"]["net_arch"]["vf"] = None
    assert repr(values) == before


def test_interpret_parses_old_strings_without_mutation():
    entry = {
        "policy": "MlpPolicy",
        "policy_kwargs": "dict(log_std_init=-2, activation_fn=nn.ReLU, net_arch=dict(pi=[256], vf=[256]))",
        "normalize": "{'norm_obs': True, 'norm_reward': False}",
        "learning_rate": "lin_3e-4",
        "monitor_kwargs": {"info_keywords": "('is_success',)"},
        "activation_fn": "relu",
    }
    before = dict(entry)
    assert interpret(entry) == {
        "policy": "MlpPolicy",
        "policy_kwargs": {
            "log_std_init": -2,
            "activation_fn": Name("torch.nn.ReLU"),
            "net_arch": {"pi": [256], "vf": [256]},
        },
        "normalize": {"norm_obs": True, "norm_reward": False},
        "learning_rate": "lin_3e-4",
        "monitor_kwargs": {"info_keywords": ("is_success",)},
        "activation_fn": "relu",
    }
    assert entry == before


def test_plain_is_what_interpret_reads_back():
    values = {
        "policy_kwargs": {
            "activation_fn": Name("torch.nn.ReLU"),
            "optimizer_class": Name("rlzoo.RMSpropTFLike"),
        },
        "learning_rate": LinearSchedule(0.001, 0.0),
        "train_freq": (1, "episode"),
        "features_extractor_class": Name("mine.Extractor"),
    }
    written = plain(values)
    assert written == {
        "policy_kwargs": {"activation_fn": "nn.ReLU", "optimizer_class": "RMSpropTFLike"},
        "learning_rate": "lin_0.001",
        "train_freq": [1, "episode"],
        "features_extractor_class": "mine.Extractor",
    }
    assert interpret(written)["policy_kwargs"] == values["policy_kwargs"]
    assert interpret(written)["features_extractor_class"] == values["features_extractor_class"]


def test_plain_names_classes_and_functions():
    torch = pytest.importorskip("torch")
    assert plain(torch.nn.ReLU) == "nn.ReLU"
    assert plain(torch.nn.Bilinear) == "torch.nn.Bilinear"
    assert plain(math.sqrt) == "sqrt"
    assert plain(Name) == "rlzoo.config.values_as_text.Name"


def test_the_table_of_names_is_right():
    torch = pytest.importorskip("torch")
    from rlzoo.config.class_names import CLASSES

    for path in set(CLASSES.values()):
        owner, _, name = path.rpartition(".")
        if owner.startswith("torch."):
            assert isinstance(getattr(getattr(torch, owner.removeprefix("torch.")), name), type)


def test_a_dotted_name_may_be_a_key():
    assert parse_value("{my.Wrapper:{x:1}}") == {"my.Wrapper": {"x": 1}}


def test_override_with_endless_levels_is_one_line():
    with pytest.raises(UserError, match=r"has 5001 levels; at most 100 are possible$"):
        parse_overrides(["a." * 5000 + "b:1"])


@pytest.mark.parametrize("text", [".", "a..b", ".a", "a.", "a b.c"])
def test_class_key_wants_a_dotted_name(text):
    with pytest.raises(UserError, match="unknown name"):
        parse_overrides([f"replay_buffer_class:{text}"])
