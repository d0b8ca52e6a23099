"""All checks, in one Spark application: spark-submit checks.py ONEFLUSH FOLDER."""

from pathlib import Path
import sys

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import identified
import queried
from world import World

MODULES = [identified, queried]


def main() -> int:
    world = World(Path(sys.argv[1]), Path(sys.argv[2]))
    world.identify(world.expected, *world.paths())
    for module in MODULES:
        for claim in module.CHECKS:
            world.check(claim)
    print(f"fleet: {world.passed} passed, {world.failed} failed")
    return 1 if world.failed else 0


if __name__ == "__main__":
    sys.exit(main())
