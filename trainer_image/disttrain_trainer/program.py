"""Finding the user's program and running it as Python itself would. Imports no TensorFlow."""

from __future__ import annotations

import importlib
import importlib.util
import re
import runpy
import sys
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Final, Union

from disttrain_agent.contract import EXIT_NOT_FOUND
from disttrain_trainer import reporting
from disttrain_trainer.errors import UsageError

USAGE: Final = "disttrain-run program.py [args] | -m module [args] | module:function [args]"
_FUNCTION: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


@dataclass(frozen=True)
class Script:
    """A file, as `python file` runs it."""

    path: str
    arguments: tuple[str, ...]

    def run(self) -> None:
        """Exits with 127 if the file is not there or not readable."""
        try:
            source = Path(self.path).read_bytes()
        except OSError as error:
            message = f"cannot run {self.path}: {error.strerror or error} (working directory {Path.cwd()})"
            reporting.error(message)
            reporting.say(message)
            raise SystemExit(EXIT_NOT_FOUND) from error
        sys.argv = [self.path, *self.arguments]
        _search_first(Path(self.path).resolve().parent)
        path = str(Path(self.path).absolute())
        main = ModuleType("__main__")
        main.__file__ = path
        main.__loader__ = SourceFileLoader("__main__", path)
        main.__builtins__ = __builtins__  # type: ignore[attr-defined]
        # Stays there to the end, so that pickled classes and `multiprocessing` find the program's names.
        sys.modules["__main__"] = main
        code = compile(source, path, "exec", dont_inherit=True)
        exec(code, main.__dict__)  # noqa: S102 - running the user's program is what this is for


@dataclass(frozen=True)
class Module:
    """A module or package, as `python -m` runs it."""

    name: str
    arguments: tuple[str, ...]

    def run(self) -> None:
        """Raises UsageError if there is no such module."""
        _search_first(Path.cwd())
        try:
            found = importlib.util.find_spec(self.name) is not None
        except ModuleNotFoundError as error:
            if error.name is None or not _within(self.name, error.name):
                raise  # something that a parent package imports is missing: the program's own error
            found = False
        if not found:
            raise UsageError(f"-m {self.name}: no such module (working directory {Path.cwd()})")
        sys.argv = [self.name, *self.arguments]
        runpy.run_module(self.name, run_name="__main__", alter_sys=True)


@dataclass(frozen=True)
class Function:
    """A function without arguments, as the script of an entry point runs it: what it returns is the exit status."""

    module: str
    function: str
    arguments: tuple[str, ...]

    def run(self) -> None:
        """Raises UsageError if there is no such module or nothing callable of that name in it."""
        _search_first(Path.cwd())
        sys.argv = [f"{self.module}:{self.function}", *self.arguments]
        try:
            found: object = importlib.import_module(self.module)
        except ModuleNotFoundError as error:
            if error.name is None or not _within(self.module, error.name):
                raise  # something that the module imports is missing: the program's own error
            raise UsageError(f"{self.module}: no such module (working directory {Path.cwd()})") from error
        for name in self.function.split("."):
            found = getattr(found, name, None)
        if not callable(found):
            raise UsageError(f"{self.module}:{self.function}: {self.module} has no such function")
        sys.exit(found())


Program = Union[Script, Module, Function]


def parse(arguments: list[str]) -> Program:
    """What the command line names. Raises UsageError if it names nothing."""
    if not arguments:
        raise UsageError(f"no program given; usage: {USAGE}")
    first, rest = arguments[0], arguments[1:]
    if first == "-m":
        if not rest:
            raise UsageError(f"-m: no module given; usage: {USAGE}")
        return Module(rest[0], tuple(rest[1:]))
    if first.startswith("-"):
        raise UsageError(f"unknown option {first}; usage: {USAGE}")
    if _FUNCTION.fullmatch(first) and not Path(first).exists():
        module, _, function = first.partition(":")
        return Function(module, function, tuple(rest))
    return Script(first, tuple(rest))


def _search_first(directory: Path) -> None:
    """Let imports look into `directory` first, in place of the directory Python put there for this package."""
    if sys.flags.safe_path:  # `python -P` put none there
        sys.path.insert(0, str(directory))
    else:
        sys.path[0] = str(directory)


def _within(name: str, missing: str) -> bool:
    """True if `missing` is `name` or one of its parent packages."""
    return name == missing or name.startswith(f"{missing}.")
