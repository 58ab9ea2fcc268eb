"""Runs a client's functional tests one after the other, and writes a line for each into RESULT.

    run.py PACKAGE RESULT DETAILS [REGEX]

PACKAGE is the package of tests (`novaclient.tests.functional`). REGEX chooses tests by their ids. Each line is PASS,
FAIL or SKIP, the id, and unless it passed, a reason. The file DETAILS gets all that a failed test says.
"""

import importlib
import os
import re
import sys
import time
import unittest

def reason(text):
    """The line that names the exception, and what a failed command wrote."""
    lines = [line.strip() for line in text.splitlines()]
    said = [line for line in lines if re.match(r"[\w.]*(Error|Exception|Failed|Forbidden|NotFound|Conflict|BadRequest|Timeout\w*)\b", line)]
    said = [line for line in said if "_StringException" not in line] or [line for line in lines if line] or ["no reason"]
    errors = [after for line, after in zip(lines, lines[1:]) if line == "stderr:"]
    return " | ".join([said[-1][:200]] + [error[-300:] for error in errors[-1:]])


class Report(unittest.TestResult):
    def __init__(self, tests, result, details):
        super().__init__()
        self.tests, self.result, self.details = tests, result, details
        self.outcomes = {}
        self.began = time.time()

    def startTest(self, test):
        super().startTest(test)
        self.began = time.time()

    def add(self, outcome, test, text=""):
        # unittest names the set-up of a class as one test; the outcome is that of each test of the class.
        group = re.match(r"(setUpClass|tearDownClass) \((.*)\)$", test.id())
        names = [name for name in self.tests if name.startswith(group[2] + ".")] if group else [test.id()]
        for name in names:
            if self.outcomes.get(name) != "FAIL":
                self.outcomes[name] = outcome
                why = "" if outcome == "PASS" else "  # " + (text if outcome == "SKIP" else reason(text)).replace("\n", " ")
                print(f"{outcome} {name}{why}", file=self.result, flush=True)
                print(f"{time.time() - self.began:6.1f} s  {outcome} {name}{why}", flush=True)
        if outcome == "FAIL":
            print("=" * 100, test.id(), text, sep="\n", file=self.details, flush=True)

    def addSuccess(self, test):
        self.add("PASS", test)

    def addError(self, test, err):
        self.add("FAIL", test, self._exc_info_to_string(err, test))

    addFailure = addError

    def addSkip(self, test, why):
        self.add("SKIP", test, str(why))

    def addExpectedFailure(self, test, err):
        self.add("PASS", test)

    def addUnexpectedSuccess(self, test):
        self.add("FAIL", test, "Failed: succeeds, and should not")

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.addError(test, err)


def flat(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from flat(test)
        else:
            yield test


def main():
    package, result, details, *pattern = sys.argv[1:]
    place = os.path.dirname(importlib.import_module(package).__file__)
    top = place
    for _ in package.split("."):
        top = os.path.dirname(top)
    tests = list(flat(unittest.TestLoader().discover(place, top_level_dir=top)))
    # The order of the ids keeps the tests of a class together.
    tests = sorted((test for test in tests if not pattern or re.search(pattern[0], test.id())), key=lambda test: test.id())
    with open(result, "a") as lines, open(details, "a") as texts:
        unittest.TestSuite(tests).run(Report([test.id() for test in tests], lines, texts))


main()
