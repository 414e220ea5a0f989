"""The `hearthkv` command: `demo`, `up`, `status` and `drain`."""

import logging
import sys
from collections.abc import Sequence

import hearthkv
from hearthkv.cli import arguments, extras
from hearthkv.core.errors import HearthKVError

EXIT_TROUBLE = 2
EXIT_INTERRUPTED = 130


def main(given: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code. Trouble is one line on standard error."""
    options = arguments.parse(sys.argv[1:] if given is None else given, hearthkv.__version__)
    # The client logs what goes wrong; here it is said once, by the line below.
    logging.getLogger("hearthkv").addHandler(logging.NullHandler())
    try:
        return _run(options)
    except HearthKVError as error:
        print(f"hearthkv: {error}", file=sys.stderr)
        return EXIT_TROUBLE
    except KeyboardInterrupt:
        print("hearthkv: interrupted; everything is stopped", file=sys.stderr)
        return EXIT_INTERRUPTED


def _run(options: arguments.Options) -> int:
    # Imported when it is known to be there: none of this comes with the bare package.
    match options:
        case arguments.DemoOptions():
            extras.require(extras.DEMO_PACKAGES)
            from hearthkv.cli import demo  # noqa: PLC0415

            return demo.run(options)
        case arguments.UpOptions():
            extras.require(extras.DEMO_PACKAGES)
            from hearthkv.cli import up  # noqa: PLC0415

            return up.run(options)
        case arguments.StatusOptions():
            extras.require(extras.STATUS_PACKAGES)
            from hearthkv.cli import status  # noqa: PLC0415

            return status.run(options)
        case arguments.DrainOptions():
            extras.require(extras.STATUS_PACKAGES)
            from hearthkv.cli import drain  # noqa: PLC0415

            return drain.run(options)


if __name__ == "__main__":
    sys.exit(main())
