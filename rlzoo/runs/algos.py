"""`rlzoo.ALGOS`: every algorithm by its name, as a dictionary that also registers."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping

from rlzoo.algorithms.base import Algorithm
from rlzoo.config import catalog
from rlzoo.core.errors import UserError


class Algos(MutableMapping[str, type[Algorithm]]):
    """The algorithms that `--algo` names. What is assigned is an algorithm of the commands from then on.

    It holds for this process: worker processes of a search import the modules of `--gym-packages`, which may
    assign, too.

    >>> import rlzoo
    >>> class PatientPPO(rlzoo.PPO): ...
    >>> rlzoo.ALGOS["patient_ppo"] = PatientPPO
    >>> rlzoo.train(algo="patient_ppo", conf_file="patient_ppo.yml")  # doctest: +SKIP
    """

    def __getitem__(self, name: str) -> type[Algorithm]:
        if not catalog.is_name(name):
            raise KeyError(name)
        algorithm: type[Algorithm] = catalog.load(name)
        return algorithm

    def __setitem__(self, name: str, algorithm: type[Algorithm]) -> None:
        """Register an algorithm of this process."""
        if not (isinstance(algorithm, type) and issubclass(algorithm, Algorithm)):
            raise UserError(
                f"ALGOS[{name!r}] must be a class derived from an algorithm of rlzoo, such as rlzoo.PPO, not"
                f" {algorithm!r}"
            )
        catalog.put(name, algorithm)

    def __delitem__(self, name: str) -> None:
        if not catalog.is_name(name):
            raise KeyError(name)
        catalog.remove(name)

    def __iter__(self) -> Iterator[str]:
        return iter(catalog.names())

    def __len__(self) -> int:
        return len(catalog.names())

    def __repr__(self) -> str:
        return f"ALGOS({', '.join(self)})"


ALGOS = Algos()
