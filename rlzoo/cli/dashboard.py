"""`rlzoo dashboard`: show a study in the browser, during or after the search."""

from __future__ import annotations

import argparse

from rlzoo.cli.flags.parser import IntInRange
from rlzoo.core.errors import UserError, install_command

EPILOG = """\
examples:
  rlzoo dashboard ppo_CartPole-v1
  rlzoo dashboard first --storage sqlite:///studies.db --port 8081
"""


def build_parser(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument("study", metavar="STUDY", help="name of the study")
    parser.add_argument(
        "--storage",
        default=None,
        metavar="URL",
        help="storage (default: the journal in the folder of the study)",
    )
    parser.add_argument(
        "-f", "--log-folder", default="logs", metavar="DIR", help="folder of the studies (default: logs)"
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
    parser.add_argument(
        "--port", type=IntInRange(1, 65535), default=8080, metavar="N", help="port (default: 8080)"
    )


def run(args: argparse.Namespace) -> int:
    from rlzoo.config.tune import study_folder
    from rlzoo.tuning.storage.storage import open_storage
    from rlzoo.tuning.storage.study_integrity import open_study

    try:
        from optuna_dashboard import run_server
    except ImportError:
        raise UserError(f"the dashboard needs an extra: {install_command('dashboard')}") from None
    storage = open_storage(args.storage, study_folder(args.log_folder, args.study), create=False)
    open_study(storage, args.study)
    print(f"Study {args.study} is at http://{args.host}:{args.port} until Ctrl-C")
    run_server(storage, host=args.host, port=args.port)
    return 0
