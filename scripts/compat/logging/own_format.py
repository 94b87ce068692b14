"""Write an output format, and use a logger without a model."""

import io
import pathlib
import sys

from stable_baselines3.common.logger import (
    INFO,
    CSVOutputFormat,
    HumanOutputFormat,
    KVWriter,
    Logger,
    make_output_format,
)


class Collect(KVWriter):
    def __init__(self):
        self.rows = []

    def write(self, key_values, key_excluded, step=0) -> None:
        self.rows.append((step, dict(key_values), dict(key_excluded)))

    def close(self) -> None:
        self.rows.append("closed")


collect, text = Collect(), io.StringIO()
logger = Logger(folder=None, output_formats=[collect, HumanOutputFormat(text), CSVOutputFormat("a.csv")])
logger.set_level(INFO)
logger.record("loss/actor", 0.5)
logger.record("secret", 3, exclude="csv")
logger.record_mean("mean", 1.0)
logger.record_mean("mean", 2.0)
assert logger.name_to_value["mean"] == 1.5
logger.dump(step=7)
logger.info("a message")
step, values, excluded = collect.rows[0]
assert step == 7 and values["mean"] == 1.5 and "csv" in excluded["secret"]
assert "actor" in text.getvalue() and "0.5" in text.getvalue()
logger.close()
assert collect.rows[-1] == "closed"
assert "secret" not in pathlib.Path("a.csv").read_text()
assert isinstance(make_output_format("stdout", "."), HumanOutputFormat)
HumanOutputFormat(sys.stdout).write({"a": 1}, {"a": ()})
