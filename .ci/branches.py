"""Fail below 95 % covered branches in the pure core: branches.py COVERAGE_JSON."""

import json
import pathlib
import sys

LEAST_PERCENT = 95.0


def main(path: str) -> int:
    """Print the share of covered branches, and the modules that miss most of them."""
    report = json.loads(pathlib.Path(path).read_text())
    totals = report["totals"]
    percent = 100.0 * totals["covered_branches"] / max(totals["num_branches"], 1)
    print(f"core branches covered: {percent:.1f} % (at least {LEAST_PERCENT} %)")
    missing = sorted(
        ((file["summary"]["missing_branches"], name) for name, file in report["files"].items()),
        reverse=True,
    )
    for count, name in missing[:10]:
        if count:
            print(f"  {count:4} not covered in {name}")
    return 0 if percent >= LEAST_PERCENT else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
