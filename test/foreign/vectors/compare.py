#!/usr/bin/env python3
"""compare.py PROFILE RECORDED ALLOWED CODE OUTPUT: judges one run of record.py.

RECORDED is the file of vectors it checked, ALLOWED the list of expected
differences ("name  reason" a line, # starts a comment), CODE its exit status
and OUTPUT the file with what it printed. One line per vector, then the sum.
"""
import json
import sys


def expected(path):
    """The reasons by vector name."""
    reasons = {}
    with open(path) as f:
        for line in f:
            line = line.split("#", 1)[0].strip()
            if line:
                name, _, reason = line.partition(" ")
                if not reason.strip():
                    sys.exit("%s: no reason given for %s" % (path, name))
                reasons[name] = reason.strip()
    return reasons


def differing(text):
    """The details by vector name, and how many vectors a whole run made.

    None instead of the number when the run did not come to its end.
    """
    details, name, made, ended = {}, None, None, False
    for line in text.splitlines():
        if line.startswith(("DIFF ", "NEW ")):
            name = line.split()[1]
            details[name] = line.split()[0].lower()
        elif name and line.startswith("   "):
            details[name] += " " + line.strip()
        elif line.endswith(" vectors"):
            made = int(line.split()[0])
        elif line.endswith(" differences"):
            ended = True
    return details, made if ended else None


def main():
    profile, recorded, allowed, code, output = sys.argv[1:]
    suite = "vectors-" + profile
    with open(recorded) as f:
        names = [json.loads(line)["name"] for line in f]
    with open(output) as f:
        text = f.read()
    reasons = expected(allowed)
    details, made = differing(text)
    if made is None:
        last = (text.strip().splitlines() or ["no output"])[-1]
        print("FAIL %s run: record.py stopped (exit code %s): %s" % (suite, code, last))
        print("0 passed, 1 failed")
        return 1
    passed = failed = 0
    new = [n for n in details if n not in names]
    if made != len(names) + len(new):
        failed += 1
        print("FAIL %s run: %d vectors were made, %d are recorded" % (suite, made, len(names)))
    for name in names + new:
        if name not in details:
            note = " (listed as different, was not)" if name in reasons else ""
        elif name in reasons:
            note = " (differs as expected: %s)" % reasons[name]
        else:
            failed += 1
            print("FAIL %s %s: %s" % (suite, name, details[name][:2000]))
            continue
        passed += 1
        print("ok %s %s%s" % (suite, name, note))
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
