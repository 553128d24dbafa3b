"""Fail when functions or modules grow past what one reads at a glance: shape.py PACKAGE."""

import ast
import pathlib
import statistics
import sys
from collections.abc import Iterator

MOST_LINES = {"median function": 8, "p90 function": 25, "longest function": 50, "module": 400}


def functions(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Lines of each function without its docstring, and where it stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0]
            text = ast.get_docstring(node, clean=False) is not None
            doc = (first.end_lineno or 0) - first.lineno + 1 if text else 0
            yield (node.end_lineno or 0) - node.lineno + 1 - doc, f"{node.lineno} {node.name}"


def code_lines(text: str) -> int:
    """Lines that are neither empty nor a comment."""
    return sum(
        1 for line in text.splitlines() if line.strip() and not line.strip().startswith("#")
    )


def main(package: str) -> int:
    """Print the figures and what exceeds them."""
    texts = {path: path.read_text() for path in sorted(pathlib.Path(package).rglob("*.py"))}
    found = sorted(
        (length, f"{path}:{where}")
        for path, text in texts.items()
        for length, where in functions(ast.parse(text))
    )
    lengths = [length for length, _ in found]
    modules = sorted((code_lines(text), str(path)) for path, text in texts.items())
    figures = {
        "median function": statistics.median(lengths),
        "p90 function": lengths[int(0.9 * (len(lengths) - 1))],
        "longest function": lengths[-1],
        "module": modules[-1][0],
    }
    for name, figure in figures.items():
        print(f"{name}: {figure:g} lines (at most {MOST_LINES[name]})")
    long = [item for item in found if item[0] > MOST_LINES["longest function"]]
    long += [item for item in modules if item[0] > MOST_LINES["module"]]
    for length, where in long:
        print(f"  too long: {length} {where}")
    return 0 if all(figure <= MOST_LINES[name] for name, figure in figures.items()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
