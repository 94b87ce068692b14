"""Loaders of what stable-baselines3 wrote: model files, statistics of VecNormalize, run folders."""

from __future__ import annotations

import base64
import io
import json
import pickletools
import shutil
import zipfile
from pathlib import Path
from random import Random

import rlzoo
from rlzoo.algorithms.agent.foreign import algorithm_of
from rlzoo.experiment.import_run import ImportConfig, import_runs
from tests.fuzz.agents import STEPS, Stop, make_env
from tests.fuzz.archives import bomb
from tests.fuzz.loader import Loader, ctrl_c_after, only
from tests.fuzz.mutations import CANARY, ODD, PICKLE, mutate_bytes, mutate_text, mutate_tree

FILES = Path(__file__).parents[1] / "interop" / "sb3_files"
AGENTS = (
    "2.9.2/ppo_box", "2.9.2/ppo_function", "2.9.2/ppo_dict", "2.9.2/ppo_lstm_box", "2.9.2/ddpg_mlp",
    "2.9.2/dqn_mlp", "2.9.2/sac_her", "2.9.2/tqc_mlp", "2.9.2/crossq_mlp", "2.9.2/ars_linear",
    "1.2.0/ppo_shared", "1.2.0/dqn_her", "2.0.0/ppo_linear_schedule",
)  # fmt: skip
ENVS = {
    "ppo_box": "Pendulum-v1",
    "ddpg_mlp": "Pendulum-v1",
    "dqn_mlp": "CartPole-v1",
    "ppo_shared": "CartPole-v1",
}
SHELL = f"touch {CANARY}".encode()
HOSTILE = (
    PICKLE,
    b"cposix\nsystem\n(S'" + SHELL + b"'\ntR.",
    b"csubprocess\nPopen\n(]S'" + SHELL + b"'\natR.",
    b"cbuiltins\nexec\n(S'open(\"" + CANARY.encode() + b'", "w")\'\ntR.',
    b"cbuiltins\ngetattr\n(cbuiltins\n__import__\n(S'os'\ntRS'system'\ntR(S'" + SHELL + b"'\ntR.",
    b"c" + CANARY.encode() + b"\nThing\n(tR.",
    b"ctorch\nload\n(S'/etc/passwd'\ntR.",
    b"cnumpy.core.multiarray\nscalar\n(cnumpy\ndtype\n(S'O8'\nI0\nI1\ntRS'x'\ntR.",
)
FIGURES = (
    b"J\xff\xff\xff\x7f",
    b"\x8a\x08" + b"\xff" * 7 + b"\x7f",
    b"K\x00",
    b"N",
    b"\x88",
    b"G\x7f\xf8" + bytes(6),
)
"""Opcodes that push odd numbers."""


def mutate_pickle(rng: Random, data: bytes) -> bytes:
    """Remove, repeat, swap or replace instructions of a pickle, or its bytes."""
    if rng.random() < 0.1:
        return rng.choice(HOSTILE)
    if rng.random() < 0.2:
        return mutate_bytes(rng, data)
    try:
        places = [place or 0 for _, _, place in pickletools.genops(data)]
    except ValueError:
        return mutate_bytes(rng, data)
    parts = [data[start:end] for start, end in zip(places, [*places[1:], len(data)], strict=True)]
    for _ in range(rng.choice((1, 1, 2, 4))):
        at, other = rng.randrange(len(parts)), rng.randrange(len(parts))
        match rng.randrange(7):
            case 0 if len(parts) > 1:
                del parts[at]
            case 1:
                parts[at:at] = [parts[other]] * rng.choice((1, 2, 100))
            case 2:
                parts[at], parts[other] = parts[other], parts[at]
            case 3:
                parts[at] = rng.choice(FIGURES)
            case 4:
                parts[at:at] = [rng.choice(HOSTILE)[:-1]]
            case 5:
                parts[at] = rng.choice(
                    (b"}", b"]", b")", b"(", b"0", b"R", b"b", b"u", b"e", b"\x81", b"\x93")
                )
            case _:
                parts[at] = mutate_bytes(rng, parts[at])
    return b"".join(parts)


def mutate_members(rng: Random, data: bytes, packing: int) -> bytes:
    """Mutate members of an archive by their kind: JSON with pickles, what torch.save wrote, pickles."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    for _ in range(rng.choice((1, 1, 2))):
        name = rng.choice(sorted(members))
        match rng.randrange(12):
            case 0:
                del members[name]
            case 1:
                members[name] = members[rng.choice(sorted(members))]
            case 2:
                members[rng.choice(("x", "../x", "data", "policy.pth", f"{name}x"))] = members[name]
            case 3:
                members[name] = rng.choice(HOSTILE)
            case _:
                members[name] = _mutate_member(rng, name, members[name])
        if not members:
            break
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", packing) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def _mutate_member(rng: Random, name: str, data: bytes) -> bytes:
    if name == "data":
        return _mutate_data(rng, data)
    if name.endswith(".pth") and data[:2] == b"PK":
        return mutate_members(rng, data, zipfile.ZIP_STORED)
    if name.endswith("data.pkl"):
        return mutate_pickle(rng, data)
    return mutate_bytes(rng, data) if data else b"x"


def _mutate_data(rng: Random, data: bytes) -> bytes:
    try:
        tree = json.loads(data)
        pickled = [key for key, value in tree.items() if isinstance(value, dict) and ":serialized:" in value]
    except (AttributeError, ValueError):
        return mutate_text(rng, data)
    match rng.randrange(4):
        case 0:
            return json.dumps(mutate_tree(rng, tree)).encode(errors="surrogatepass")
        case 1 if pickled:
            tree[rng.choice(list(tree))] = tree[rng.choice(pickled)]
        case 2:
            tree[rng.choice(list(tree))] = rng.choice(ODD)
        case _ if pickled:
            value = tree[rng.choice(pickled)]
            try:
                content = base64.b64decode(value[":serialized:"])
            except (TypeError, ValueError):
                content = b""
            value[":serialized:"] = base64.b64encode(mutate_pickle(rng, content)).decode()
    return json.dumps(tree).encode(errors="surrogatepass")


def mutate_model(rng: Random, name: str, data: bytes) -> bytes:
    if rng.random() < 0.05:
        return mutate_bytes(rng, data)
    if rng.random() < 0.005:
        return bomb("policy.pth")
    return mutate_members(rng, data, rng.choice((zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED)))


def save_models(folder: Path) -> None:
    for name in AGENTS:
        shutil.copyfile(FILES / f"{name}.zip", folder / f"{Path(name).name}.zip")


def load_model(folder: Path, rng: Random) -> None:
    path = only(folder)
    cls = getattr(rlzoo, algorithm_of(path))
    env = make_env(ENVS[path.stem]) if path.stem in ENVS and rng.random() < 0.5 else None
    model = cls.load(path, env=env, device="cpu")
    model.observation_space.seed(0)
    model.predict(model.observation_space.sample(), deterministic=rng.random() < 0.5)
    if env is not None and rng.random() < 0.5:
        with ctrl_c_after(5):
            model.learn(STEPS, callback=Stop(), reset_num_timesteps=rng.random() < 0.5)
    model.save(folder / "again.zip")
    cls.load(folder / "again.zip", device="cpu")


def save_statistics(folder: Path) -> None:
    for version in ("1.2.0", "2.9.2"):
        shutil.copyfile(FILES / version / "ppo_normalized_vecnormalize.pkl", folder / f"{version}.pkl")


def load_statistics(folder: Path, rng: Random) -> None:
    env = rlzoo.VecNormalize.load(only(folder), make_env("Pendulum-v1"))
    env.reset()
    env.step([[0.0]] * 2)
    env.save(folder / "again.npz")


ARGUMENTS = "algo: ppo\nenv: Pendulum-v1\nenv_kwargs: null\nseed: 1\n"
CONFIG = """\
!!python/object/apply:collections.OrderedDict
- - - n_timesteps
    - 1000.0
  - - normalize
    - true
  - - policy
    - MlpPolicy
  - - policy_kwargs
    - dict(net_arch=[6])
"""


def save_run(folder: Path) -> None:
    run = folder / "ppo" / "Pendulum-v1_1"
    (run / "Pendulum-v1").mkdir(parents=True)
    shutil.copyfile(FILES / "2.9.2" / "ppo_normalized.zip", run / "Pendulum-v1.zip")
    shutil.copyfile(FILES / "2.9.2" / "ppo_normalized.zip", run / "best_model.zip")
    shutil.copyfile(
        FILES / "2.9.2" / "ppo_normalized_vecnormalize.pkl", run / "Pendulum-v1" / "vecnormalize.pkl"
    )
    (run / "Pendulum-v1" / "args.yml").write_text(ARGUMENTS)
    (run / "Pendulum-v1" / "config.yml").write_text(CONFIG)


def import_run(folder: Path, rng: Random) -> None:
    import_runs(ImportConfig(source=str(folder / "ppo"), output=str(folder / "out")))


def mutate_run(rng: Random, name: str, data: bytes) -> bytes:
    if name.endswith(".zip"):
        return mutate_model(rng, name, data)
    return mutate_pickle(rng, data) if name.endswith(".pkl") else mutate_text(rng, data)


LOADERS = (
    Loader("sb3_model", save_models, load_model, mutate=mutate_model, share=6),
    Loader(
        "sb3_statistics",
        save_statistics,
        load_statistics,
        mutate=lambda rng, name, data: mutate_pickle(rng, data),
    ),
    Loader("sb3_run", save_run, import_run, ("*",), mutate_run, alone=False, share=2),
)
