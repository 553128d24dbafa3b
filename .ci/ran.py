"""Fail unless the tests on the real API server ran: ran.py JUNIT_XML."""

import sys
import xml.etree.ElementTree as ET


def is_real(case: ET.Element) -> bool:
    """Whether a test case stands in the folder of such tests, or was run for that server."""
    return "e2e" in case.get("classname", "") or "[real API server" in case.get("name", "")


def main(path: str) -> int:
    """Count the executed end-to-end cases in pytest's report; a skipped one counts as not run."""
    cases = [case for case in ET.parse(path).iter("testcase") if is_real(case)]
    skipped = [case for case in cases if case.find("skipped") is not None]
    print(f"real API server: {len(cases)} tests, {len(skipped)} skipped")
    return 0 if cases and not skipped else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
