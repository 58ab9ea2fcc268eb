"""Checks a Grafana dashboard: its form, and that Prometheus answers each of its queries with data.

Arguments: the address of Prometheus, the dashboard's file, the server's address, and its administrator's password.
"""
import json
import sys
import time
import urllib.parse
import urllib.request

PROMETHEUS, FILE, SERVER, PASSWORD = sys.argv[1:5]
PATIENCE = 90


def ask(path, **query):
    with urllib.request.urlopen(f'{PROMETHEUS}/api/v1/{path}?{urllib.parse.urlencode(query)}', timeout=30) as answer:
        return json.load(answer)['data']


def work():
    """A few requests, so that rates are above zero."""
    who = {'methods': ['password'], 'password': {'user': {'name': 'admin', 'domain': {'id': 'default'}, 'password': PASSWORD}}}
    body = json.dumps({'auth': {'identity': who, 'scope': {'project': {'name': 'admin', 'domain': {'id': 'default'}}}}}).encode()
    request = urllib.request.Request(f'{SERVER}/identity/v3/auth/tokens', body, {'Content-Type': 'application/json'})
    with urllib.request.urlopen(request, timeout=30) as answer:
        token = answer.headers['X-Subject-Token']
    for path in ('compute/v2.1/servers', 'image/v2/images', 'network/v2.0/networks'):
        urllib.request.urlopen(urllib.request.Request(f'{SERVER}/{path}', headers={'X-Auth-Token': token}), timeout=30).close()


def form(board):
    panels = board['panels']
    assert len({panel['id'] for panel in panels}) == len(panels), 'panels share an id'
    cells = set()
    for panel in panels:
        place = panel['gridPos']
        assert place['x'] + place['w'] <= 24, f'{panel["title"]} is outside the grid'
        own = {(x, y) for x in range(place['x'], place['x'] + place['w']) for y in range(place['y'], place['y'] + place['h'])}
        assert not own & cells, f'{panel["title"]} covers another panel'
        cells |= own
        for target in panel.get('targets', []):
            assert target['datasource']['uid'] == '${datasource}', f'{panel["title"]} names a fixed data source'
    return [(panel['title'], target['expr']) for panel in panels for target in panel.get('targets', [])]


def empty(queries):
    """The queries without an answer, or with nothing but NaN."""
    found = []
    for title, query in queries:
        real = query.replace('$instance', '.*').replace('$__rate_interval', '10s')
        series = ask('query', query=real)['result']
        if not any(one['value'][1] != 'NaN' for one in series):
            found.append(f'{title}: {query}')
    return found


queries = form(json.load(open(FILE)))
assert len(queries) > 10, f'only {len(queries)} queries'
end, missing = time.monotonic() + PATIENCE, ['Prometheus has not answered']
while missing and time.monotonic() < end:
    try:
        work()
        missing = empty(queries)
    except OSError as error:
        missing = [str(error)]
    time.sleep(1)
rules = [rule for group in ask('rules')['groups'] for rule in group['rules']]
bad = [rule['name'] for rule in rules if rule['health'] == 'err']
print(f'        {len(queries)} queries, {len(rules)} rules')
for line in missing + bad:
    print(f'        without data: {line}')
sys.exit(1 if missing or bad or not rules else 0)
