"""Gradient steps as CUDA graphs: all kernels of a step are launched with one call.

A gradient step of a small network is a few hundred kernels, each shorter than its launch. A CUDA graph
records the kernels once and replays them on the same memory. What a step reads from outside is therefore
copied into static tensors before each replay, and what it returns is copied out of them afterwards.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

T = TypeVar("T")

WARM_UP = 3
"""Steps that are taken without a graph first: libraries and optimisers allocate what they keep."""

MAX_GRAPHS = 16
"""Graphs of different shapes that are kept; each holds the memory of a step."""


class Graph(Protocol):
    """A recorder of operations on tensors."""

    def warm_up(self, run: Callable[[], T]) -> T:
        """Run without recording."""

    def capture(self, run: Callable[[], T]) -> T:
        """Record what `run` does; its results are valid after the first `replay`."""

    def replay(self) -> None:
        """Do the same operations on the same memory."""


class CudaGraph:
    """Graph of the kernels on a CUDA device.

    Random numbers are new at every replay, because the generator of the device is registered with the graph:
    each replay then advances its offset. Kernels of a generator that is not registered would draw the numbers
    of the capture again and again.

    :param device: a CUDA device
    """

    def __init__(self, device: torch.device) -> None:
        index = torch.cuda.current_device() if device.index is None else device.index
        self.device = torch.device("cuda", index)
        self.graph = torch.cuda.CUDAGraph()
        self.graph.register_generator_state(torch.cuda.default_generators[index])

    def warm_up(self, run: Callable[[], T]) -> T:
        with torch.cuda.device(self.device):
            side, current = torch.cuda.Stream(), torch.cuda.current_stream()
            side.wait_stream(current)
            with torch.cuda.stream(side):
                result = run()
            current.wait_stream(side)
        return result

    def capture(self, run: Callable[[], T]) -> T:
        with torch.cuda.device(self.device):
            torch.cuda.synchronize()
            with torch.cuda.graph(self.graph):
                return run()

    def replay(self) -> None:
        self.graph.replay()


@dataclasses.dataclass
class Recording:
    """A captured step: its graph and the tensors it reads and writes."""

    graph: Graph
    inputs: list[Tensor]
    batch: Any  # made of `inputs`
    result: Any  # structure of the result; scalars are in `scalars`
    scalars: Tensor | None  # all scalar tensors of the result, stacked


class CapturedStep:
    """A gradient step that is captured as a graph when it is first taken, and replayed from then on.

    There is a graph for each combination of shapes in the batch and of arguments that are not floats. Floats,
    such as a clip range, become static tensors, so that schedules need no further graphs.

    :param step: called with a batch (a dataclass of tensors) and further arguments; its work must not depend
        on the values of tensors, and its result is made of dicts, tuples and tensors
    :param device: of the tensors
    :param new_graph: makes a graph
    :param have_changed: says before each step whether what the graphs depend on has changed
    :param may_replay: says after such a change whether steps can be captured still
    """

    def __init__(
        self,
        step: Callable[..., Any],
        device: torch.device,
        new_graph: Callable[[torch.device], Graph] = CudaGraph,
        have_changed: Callable[[], bool] = lambda: False,
        may_replay: Callable[[], bool] = lambda: True,
    ) -> None:
        self.step, self.device, self.new_graph = step, device, new_graph
        self.have_changed, self.may_replay = have_changed, may_replay
        self.is_plain = False  # whether steps are called as they are
        self.recordings: dict[Hashable, Recording] = {}
        self.warm_ups: dict[Hashable, int] = {}

    def __call__(self, batch: Any, **arguments: object) -> Any:
        if self.have_changed():
            self.recordings.clear()
            self.warm_ups.clear()
            self.is_plain = not self.may_replay()
        if self.is_plain:
            return self.step(batch, **arguments)
        numbers = {name: value for name, value in arguments.items() if isinstance(value, float)}
        others = {name: value for name, value in arguments.items() if name not in numbers}
        values = [torch.full((), number, device=self.device) for number in numbers.values()]
        inputs = [*tensors_of(batch), *values]
        layout = tuple((tuple(tensor.shape), tensor.dtype) for tensor in inputs)
        key = (layout, tuple(others.items()), *numbers)
        if key not in self.recordings:
            graph = self.new_graph(self.device)
            self.warm_ups[key] = self.warm_ups.get(key, 0) + 1
            if self.warm_ups[key] <= WARM_UP:
                given = {**others, **dict(zip(numbers, values, strict=True))}
                copied = copy_of(batch)  # of the layout in memory that is captured later
                result = graph.warm_up(lambda: self.step(copied, **given))
                give_back_priorities(copied, batch)
                return map_tensors(Tensor.detach, result)
            if len(self.recordings) == MAX_GRAPHS:
                del self.recordings[next(iter(self.recordings))]
            self.recordings[key] = self._record(graph, batch, others, list(numbers), values)
            del self.warm_ups[key]
        return self._replay(self.recordings[key], batch, inputs)

    def _record(
        self, graph: Graph, batch: Any, others: dict[str, object], names: list[str], values: list[Tensor]
    ) -> Recording:
        static = copy_of(batch)
        static_values = [value.clone() for value in values]
        inputs = [*tensors_of(static), *static_values]
        given = {**others, **dict(zip(names, static_values, strict=True))}

        def run() -> tuple[Any, Tensor | None]:
            result = map_tensors(Tensor.detach, self.step(static, **given))
            scalars = [tensor.float() for tensor in tensors_of(result) if tensor.dim() == 0]
            return result, torch.stack(scalars) if scalars else None

        result, scalars = graph.capture(run)
        return Recording(graph, inputs, static, result, scalars)

    def _replay(self, recording: Recording, batch: Any, inputs: list[Tensor]) -> Any:
        for static, given in zip(recording.inputs, inputs, strict=True):
            static.copy_(given)
        recording.graph.replay()
        give_back_priorities(recording.batch, batch)
        scalars = iter(() if recording.scalars is None else recording.scalars.clone().unbind())
        return map_tensors(lambda t: next(scalars) if t.dim() == 0 else t.clone(), recording.result)


def copy_of(batch: Any) -> Any:
    """Return a batch with copies of its tensors."""
    return map_tensors(lambda tensor: tensor.detach().clone(), batch)


def give_back_priorities(copied: Any, batch: Any) -> None:
    """Set the priorities of a batch to those that a step has found for its copy."""
    if (priorities := getattr(copied, "priorities", None)) is not None:
        batch.priorities = priorities.clone()


def map_tensors(function: Callable[[Tensor], Tensor], value: Any) -> Any:
    """Apply a function to all tensors in nested dataclasses, dicts and tuples; return the same structure.

    >>> map_tensors(torch.neg, {"a": (torch.ones(()), 3)})
    {'a': (tensor(-1.), 3)}
    """
    if isinstance(value, Tensor):
        return function(value)
    if isinstance(value, dict):
        return {key: map_tensors(function, part) for key, part in value.items()}
    if isinstance(value, tuple):
        return tuple(map_tensors(function, part) for part in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return dataclasses.replace(value, **map_tensors(function, parts))
    return value


def tensors_of(value: Any) -> list[Tensor]:
    """Return all tensors in nested dataclasses, dicts and tuples, in the order of `map_tensors`."""
    found: list[Tensor] = []

    def take(tensor: Tensor) -> Tensor:
        found.append(tensor)
        return tensor

    map_tensors(take, value)
    return found
