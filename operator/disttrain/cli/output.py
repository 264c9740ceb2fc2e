"""Objects as JSON or YAML on stdout."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

from disttrain.cli.options import Format


def write(objects: Sequence[dict[str, Any]], form: Format) -> None:
    """One object as itself; several as a YAML stream, or in JSON as a v1 List, as kubectl does."""
    if form is Format.JSON:
        several = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        json.dump(objects[0] if len(objects) == 1 else several, sys.stdout, indent=2)
        sys.stdout.write("\n")
        return
    import yaml

    yaml.dump_all(objects, sys.stdout, Dumper=_dumper(), sort_keys=False, allow_unicode=True, width=120)


def _dumper() -> type[Any]:
    """A dumper without anchors: the pods of a role share parts, and nobody wants to read `*id001`."""
    import yaml
    from typing_extensions import override

    class Plain(yaml.SafeDumper):
        @override
        def ignore_aliases(self, _data: Any) -> bool:
            return True

    return Plain
