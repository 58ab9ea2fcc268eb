"""Compares a run with the list of known failures. Exits 0 if no other test failed and no known failure passed."""
import json
import sys

result, known_file = sys.argv[1:]
with open(result) as file:
    run = json.load(file)
with open(known_file) as file:
    known = json.load(file)
bad = False
for name, entry in run['files'].items():
    failed, excused = set(entry['failed']), set(known.get(name, []))
    for test in sorted(failed - excused):
        print('FAILED and not known: %s: %s' % (name, test))
        bad = True
    for test in sorted(excused - failed if entry['passed'] else set()):
        print('PASSES, so strike it from the list: %s: %s' % (name, test))
        bad = True
print('%(passed)d passed, %(failed)d failed, %(skipped)d skipped' % run['total'])
sys.exit(1 if bad else 0)
