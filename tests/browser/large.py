"""Measures the dashboard in Chromium on a large simulated fleet; see large.sh.

Arguments: the URL, the administrator's password, the folder for screenshots, the beginning of the names of the files
that large.sh and this script wait for, the number of hosts, and the number of servers.
"""
import os
import signal
import sys
import time

from pages import PAGES
from scene import FAILED, PASSWORD, URL, active_server, api, browser, check, furnish, log_in_and_see_servers, page, shot, token_of

FLEET = sys.argv[4]
HOSTS, SERVERS = (int(text) for text in sys.argv[5:7])
ROWS = []
# The aims: the most milliseconds until a page is ready and for one answer to an input, and the most bytes of all files
# without the consoles, as they are sent. The table marks what is above.
READY, ANSWER, WEIGHT = 1000, 50, 700_000
# The lists that are as long as the fleet.
LONG = {'fleet': HOSTS, 'placement': HOSTS}

# Records the browser's long tasks (above 50 ms) from here on. The browser keeps 250 resources by default.
WATCH = '''
performance.setResourceTimingBufferSize(100_000);
window.longTasks = [];
new PerformanceObserver((list) => window.longTasks.push(...list.getEntries().map((one) => one.duration))).observe({ type: 'longtask' });'''

# Goes to a page. Answers with the milliseconds until the heading and the content are there and have been painted. A list
# has its first rows then, or says that it is empty.
OPEN = '''
const [hash, heading, done] = arguments;
const begun = performance.now();
window.longTasks.length = 0;
location.hash = hash;
const ready = () => {
  const main = document.querySelector('main');
  const [title, list] = [main?.querySelector('h1'), main?.querySelector('.table tbody')];
  return title?.textContent.startsWith(heading) && !main.textContent.includes('Loading') && (!list || list.querySelector('tr'));
};
const look = () => {
  if (ready()) requestAnimationFrame(() => setTimeout(() => done([performance.now() - begun, Math.max(0, ...window.longTasks)])));
  else if (performance.now() - begun > 90_000) done(null);
  else requestAnimationFrame(look);
};
look();'''

# Does one input. Answers with the milliseconds of the page's own work, and of all until the page has been painted.
ANSWERED = '''
const [kind, value, done] = arguments;
const begun = performance.now();
if (kind === 'type') {
  const input = document.querySelector('#filter');
  input.value = value;
  input.dispatchEvent(new Event('input', { bubbles: true }));
} else if (kind === 'scroll') document.querySelector('.table').scrollTop = value;
else document.querySelectorAll('thead button')[value].click();
requestAnimationFrame(() => {
  const worked = performance.now();
  setTimeout(() => done([worked - begun, performance.now() - begun]));
});'''


def prepare():
    """Waits for the hosts, builds one server, and waits until large.sh has copied it and all hosts are up again."""
    admin = token_of('admin', PASSWORD, 'admin')

    def all_up():
        time.sleep(2)  # the answer has all hosts, so it is not requested all the time
        return sum(one['state'] == 'up' for one in api('GET', 'compute/v2.1/os-services?binary=nova-compute', None, admin)[1]['services']) >= HOSTS

    browser.until(f'{HOSTS} hosts are up', all_up, 1200)
    furnish(admin)
    # The copies go to the hosts whose names are as long as the name of this server's host.
    server = active_server('server-0', admin, 120, availability_zone='nova:sim-0001')
    open(f'{FLEET}.ready', 'w').close()
    browser.until('the fleet is filled', lambda: os.path.exists(f'{FLEET}.filled'), 1800)
    browser.until(f'{HOSTS} hosts are up again', all_up, 1200)
    browser.until('the read models are settled', lambda: not api('GET', 'healthz')[1]['read_models']['work'], 600)
    return server


def enter():
    begun = time.monotonic()
    browser.go(f'{URL}/dashboard/')
    browser.find('#login')
    login = (time.monotonic() - begun) * 1000
    log_in_and_see_servers()
    browser.run(WATCH)
    browser.call('POST', '/timeouts', {'script': 120_000})
    ROWS.append(('the log-in page, from its address', login, None, None))


def measure(name, heading, whole=None):
    page('nowhere')
    browser.sees('Not found', 'main h1')
    found = browser.run_async(OPEN, f'#/{name}', heading)
    assert found, f'{name} is not ready within 90 s'
    ready, longest = found
    answers = lists(whole) if whole else None
    ROWS.append((name, ready, longest, answers))


def lists(whole):
    """Waits until a list is whole, and then types, scrolls and sorts in it. Returns the wait, the longest times of each
    kind of input, and the browser's longest task.
    """
    begun = time.monotonic()
    browser.until(f'{whole} are listed', lambda: int(browser.text('#count') or 0) >= whole, 300)
    filled = (time.monotonic() - begun) * 1000
    browser.run('window.longTasks.length = 0')
    rows = browser.run('return document.querySelectorAll("tbody tr").length')
    assert rows < 120, f'{rows} rows are rendered'
    longest = {}
    for kind, values in (('type', ('9', '99', '999', '')), ('scroll', (40_000, 200_000, 10 ** 7, 0)), ('sort', (0, 0, 1, 1))):
        times = [browser.run_async(ANSWERED, kind, value) for value in values]
        longest[kind] = (max(work for work, _ in times), max(painted for _, painted in times))
    rows = browser.run('return document.querySelectorAll("tbody tr").length')
    assert rows < 120, f'{rows} rows are rendered after the inputs'
    task = browser.run('return Math.max(0, ...window.longTasks)')
    return filled, longest, task


def everywhere():
    """The list of all projects, which the viewer asks for with one click."""
    page('servers')
    browser.find('#everywhere')
    begun = time.monotonic()
    browser.click('#everywhere')
    browser.until('a first page of rows is shown', lambda: browser.run('return document.querySelectorAll("tbody tr[data-id]").length > 20'), 120)
    first = (time.monotonic() - begun) * 1000
    ROWS.append(('servers, all projects', first, None, lists(SERVERS)))
    shot('large-servers')


def weight():
    """The bytes of the dashboard's own files that this session has loaded, as they were sent. The consoles are not among them."""
    script = ('return ["navigation", "resource"].flatMap((kind) => performance.getEntriesByType(kind))'
              '.filter((one) => one.name.includes("/dashboard/")).map((one) => [one.name, one.encodedBodySize])')
    sent = browser.run(script)
    assert sent and not [name for name, _ in sent if '/novnc/' in name or '/xterm/' in name], 'a console was loaded'
    return len(sent), sum(size for _, size in sent)


def table():
    mark = lambda value, most: f'{value:.0f}{"!" if value > most else ""}'
    print(f'\n{HOSTS} hosts, {SERVERS} servers; milliseconds; ! marks a page above {READY} and an answer above {ANSWER}')
    print(f'{"page":<36}{"ready":>8}{"task":>8}{"whole":>8}{"type":>8}{"scroll":>8}{"sort":>8}{"task":>8}')
    for name, ready, longest, answers in ROWS:
        line = f'{name:<36}{mark(ready, READY):>8}{"" if longest is None else f"{longest:.0f}":>8}'
        if answers:
            filled, by_kind, task = answers
            line += f'{filled:>8.0f}' + ''.join(f'{mark(by_kind[kind][0], ANSWER):>8}' for kind in ('type', 'scroll', 'sort')) + f'{task:>8.0f}'
        print(line)
    count, size = weight()
    name, ready = max(((name, ready) for name, ready, _, _ in ROWS), key=lambda one: one[1])
    inputs = [(times[0], kind, name) for name, _, _, answers in ROWS if answers for kind, times in answers[1].items()]
    said = lambda value, most: 'as aimed' if value < most else 'MISSED'
    print(f'ready:  {ready:.0f} ms, aim below {READY} ms, {said(ready, READY)} (the slowest page: {name})')
    print(f'weight: {size} bytes as sent, {count} files, aim below {WEIGHT} bytes, {said(size, WEIGHT)} (without consoles)')
    if inputs:
        took, kind, name = max(inputs)
        print(f'input:  {took:.0f} ms, aim below {ANSWER} ms, {said(took, ANSWER)} (the slowest input: {kind} in {name}, until its frame)')
    print(flush=True)


# large.sh ends this script by SIGTERM. The browser must end, too.
signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
try:
    SERVER = []
    check('the fleet is there', lambda: SERVER.append(prepare()))
    if SERVER:
        check('the viewer logs in', enter)
        for path, title in PAGES.items():
            check(f'{path} is ready', lambda path=path, title=title: measure(path, title, LONG.get(path)))
        check('a server is ready', lambda: measure(f'servers/{SERVER[0]}', 'server-0'))
        check('the timeline of a server is ready', lambda: measure(f'servers/{SERVER[0]}?tab=timeline', 'server-0'))
        check('the servers of all projects are listed', everywhere)
        if ROWS:
            table()
finally:
    browser.close()
sys.exit(1 if FAILED else 0)
