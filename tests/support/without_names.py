"""Takes an epoch of loaders over object storage whose name nothing resolves, and prints what each says of it.

    unshare --net python -m tests.support.without_names CORPUS [{"loader": ..., "options": ..., "location": ...}, ...]

In a network namespace of its own, without any interface: no name is resolved there, and nothing is sent.
"""

import json
import sys
from pathlib import Path

from scripts.common import plugins
from scripts.common.corpus import Corpus
from scripts.common.location import from_json
from tests.support.loader_cases import request_for


def main() -> None:
    """Print a line of JSON for each loader: its error, null where an epoch came to its end all the same."""
    corpus, cases = Corpus(Path(sys.argv[1])), json.loads(sys.argv[2])
    for case in cases:
        request = request_for(corpus, case["loader"], from_json(case["location"]), options=case["options"])
        error = None
        try:
            with plugins.load("loaders", case["loader"]).open_epochs(request) as epoch:
                for _ in epoch(0):
                    pass
        except Exception as raised:
            error = f"{type(raised).__name__}: {raised}"
        print(json.dumps({"loader": case["loader"], "error": error}), flush=True)


if __name__ == "__main__":
    main()
