"""Further checks of dashboard.py: scheduler, drain, comparison, resources, other projects, keyboard, accessibility."""
import datetime
import re

from scene import active_server, api, browser, create_server, log_in, log_in_and_see_servers, page, shot, status_of, token_of

# Every page that an administrator has in the menu: its address and its heading.
PAGES = {
    'servers': 'Servers', 'launch': 'Launch servers', 'fleet': 'Fleet', 'scheduler': 'Scheduler', 'placement': 'Placement', 'processes': 'Processes',
    'audit': 'Audit', 'compare': 'Compare two moments', 'images': 'Images', 'volumes': 'Volumes', 'networks': 'Networks', 'flavors': 'Flavors',
    'quotas': 'Quotas', 'projects': 'Projects and users', 'health': 'Health',
}
# The pages that a member of a project has in the menu.
OWN_PAGES = ['servers', 'launch', 'images', 'volumes', 'networks', 'flavors', 'quotas', 'health']


def now():
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec='milliseconds').replace('+00:00', 'Z')


def visit(name):
    page(name)
    browser.until(f'{name} is shown', lambda: browser.text('h1').startswith(PAGES[name]))
    browser.lacks('Loading', 'main')


def until_shown(name):
    browser.until(f'{name} is shown', lambda: browser.run('return document.querySelector("main h1") !== null') and 'Loading' not in browser.text('main'))


def place_of(server, admin):
    return api('GET', f'compute/v2.1/servers/{server}', None, admin)[1]['server']['OS-EXT-SRV-ATTR:host']


def scheduler(admin):
    create_server('placed-1', admin)
    visit('scheduler')
    browser.type('#if-count', '3')
    browser.click('#ask')
    browser.sees('goes to', '#answer')
    browser.sees('ComputeFilter', '#answer')
    browser.sees('RAMWeigher', '#answer')
    shot('scheduler-answer')
    browser.type('#if-specs', 'resources:CUSTOM_GOLD=1')
    browser.click('#ask')
    browser.sees('goes nowhere', '#answer')
    page('scheduler?tab=why&server=placed-1')
    browser.sees('goes to', '.decision')
    browser.sees('All hosts', '.decision')


def drain(admin):
    """The page shows the plan of a drain, then the drain itself. After the drain, the server is on another host."""
    server = active_server('moves-1', admin)
    host = place_of(server, admin)
    page(f'scheduler?tab=drain&host={host}')
    browser.sees('moves-1', '#plan')
    browser.sees('live', '#plan')
    shot('drain-plan')
    page(f'fleet?host={host}')
    browser.press('Drain', '#host')
    browser.click('#confirm-yes')
    browser.sees('left', '#host tbody', 60)
    browser.sees('moves-1', '#host')
    browser.sees('done', '#host', 60)
    shot('drain')
    moved = place_of(server, admin)
    assert moved != host, f'the server is still on {moved}'
    browser.press('Enable', '#host')
    browser.lacks('disabled', 'tbody')


def difference(admin):
    """The page compares two moments, and names the user who made the change."""
    server = active_server('brief-1', admin)
    before = now()
    api('DELETE', f'compute/v2.1/servers/{server}', None, admin)
    browser.until('the server is gone', lambda: status_of(server, admin) == 404)
    page(f'compare?from={before}')
    row = f'tr[data-id="{server} "]'
    browser.sees('gone', row)
    browser.sees('brief-1', row)
    shot('compare')
    browser.press('the log between', row)
    browser.sees('instance.delete_requested', 'tbody')
    browser.sees('admin', 'tbody')


def charts():
    """The page of health draws the metrics since it was opened, and writes their newest values."""
    visit('health')
    value = lambda title: browser.run('return document.querySelector(`figure[aria-label="${arguments[0]}"] figcaption`)?.textContent ?? ""', title)
    browser.until('requests are counted', lambda: re.search(r'answered [0-9.]*[1-9][0-9.]* per second', value('Requests')))
    browser.until('the hosts are counted', lambda: 'up 3' in value('Compute hosts') and 'down 0' in value('Compute hosts'))
    # The line of the answers is blue; the axes and the grid are grey.
    painted = ('const c = document.querySelector("figure[aria-label=Requests] canvas");'
               'const bytes = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;'
               'for (let at = 0; at < bytes.length; at += 4) if (bytes[at + 3] > 100 && bytes[at + 2] - bytes[at] > 80) return true;'
               'return false')
    browser.until('lines are drawn', lambda: browser.run(painted))
    shot('charts')


def resources(admin):
    visit('flavors')
    browser.press('Create a flavor')
    browser.type('#new-name', 'roomy')
    browser.type('#new-ram', '2048')
    browser.click('#create')
    browser.sees('roomy', 'tbody')
    browser.sees('2 GiB', 'tbody')
    visit('networks')
    browser.press('Create a network')
    browser.type('#new-name', 'front')
    browser.type('#new-cidr', '10.77.0.0/24')
    browser.click('#create')
    browser.sees('front', 'tbody')
    browser.press('Subnets')
    browser.sees('10.77.0.0/24', 'tbody')
    browser.press('Networks', '.tabs')
    browser.press('Create a network')
    browser.type('#new-name', 'bad')
    browser.type('#new-cidr', 'nonsense')
    browser.click('#create')
    browser.sees('nonsense', 'dialog [role=alert]')
    browser.press('Cancel', 'dialog')
    networks = api('GET', 'network/v2.0/networks', None, admin)[1]['networks']
    assert 'bad' not in [one['name'] for one in networks], 'a refused subnet leaves a network'
    visit('volumes')
    browser.press('Create a volume')
    browser.type('#new-name', 'data-1')
    browser.click('#create')
    browser.sees('data-1', 'tbody')
    browser.sees('available', 'tbody')
    visit('projects')
    browser.press('Create a project')
    browser.type('#new-name', 'shop')
    browser.click('#create')
    browser.sees('shop', 'tbody')
    browser.press('Roles')
    browser.sees('admin', 'tbody')
    visit('quotas')
    browser.sees('cores', 'main')
    browser.type('tr[data-id="cores"] input', '77')
    browser.press('Set', 'tr[data-id="cores"]')
    browser.until('the new limit is shown', lambda: '77' in browser.text('tr[data-id="cores"]'))
    visit('images')
    browser.sees('tiny', 'tbody')


def bulk(admin):
    """One action on several servers. The page learns of the changes from its feed."""
    for number in range(3):
        create_server(f'many-{number}', admin)
    visit('servers')
    browser.sees('Live', '#feed')
    browser.type('#filter', 'many-')
    browser.until('three are left', lambda: browser.text('#count') == '3')
    browser.until('all are active', lambda: browser.text('tbody').count('ACTIVE') == 3)
    browser.click('thead input[type=checkbox]')
    browser.sees('3 selected', 'main')
    browser.press('Stop', 'main')
    browser.until('all are stopped', lambda: browser.text('tbody').count('SHUTOFF') == 3)
    browser.click('thead input[type=checkbox]')
    browser.press('Delete', 'main')
    browser.click('#confirm-yes')
    browser.until('none is left', lambda: browser.text('#count') == '0')
    browser.type('#filter', '')


# Keeps all that the page receives, also from feeds, which never end.
HEAR = '''
window.heard = '';
const ask = window.fetch;
window.fetch = async (...given) => {
  const answer = await ask(...given);
  const reader = answer.clone().body?.pipeThrough(new TextDecoderStream()).getReader();
  (async () => { for (;;) { const { value, done } = await reader.read(); if (done) return; window.heard += value; } })().catch(() => {});
  return answer;
};
document.getElementById("logout").click();'''


def others(admin):
    """A member of another project sees its own servers at once, and receives no byte of other projects."""
    secret = active_server('secret-1', admin)
    browser.run(HEAR)
    page('servers')
    log_in_and_see_servers('mallory', 'a-password-1', 'other')
    # The feed has to be connected, or the rest of this check would prove nothing.
    browser.sees('Live', '#feed')
    browser.run('window.heard = ""')
    token = token_of('mallory', 'a-password-1', 'other')
    later = create_server('secret-2', admin)
    own = create_server('own-1', token)
    browser.sees('own-1', 'tbody')
    for name in OWN_PAGES:
        visit(name)
    for path in (f'servers/{secret}', f'servers/{secret}?tab=timeline', f'servers/{secret}/console', 'audit', 'fleet', 'scheduler', 'compare', 'projects', 'placement', 'processes'):
        page(path)
        until_shown(path)
    page(f'servers/{secret}')
    browser.sees('No such server was found', 'main')
    heard = browser.run('return window.heard')
    assert own in heard and len(heard) > 5000, f'only {len(heard)} bytes were heard'
    assert f'"servers":["{own}"]' in heard, 'the feed does not name the own server'
    for one in ('secret-1', 'secret-2', later):
        assert one not in heard, f'{one} is in what the browser received'
    # The page asks for this id itself, and the refusal repeats it.
    assert f'"id":"{secret}"' not in heard and f'"servers":["{secret}"' not in heard
    assert 'Audit' not in browser.text('nav') and 'Fleet' not in browser.text('nav')
    api('DELETE', f'compute/v2.1/servers/{own}', None, token)
    browser.run('location.hash = "#/servers"; location.reload()')
    browser.find('#user')
    log_in()
    browser.sees('secret-1', 'table')


def gone_meanwhile(admin):
    server = create_server('fleeting-1', admin)
    page(f'servers/{server}')
    browser.sees('ACTIVE', '#status', 60)
    api('DELETE', f'compute/v2.1/servers/{server}', None, admin)
    browser.sees('What the log tells of it', 'main')
    browser.sees('instance: deleted', '#story')


def keyboard(admin):
    """The skip link, the tabs and the confirmation work without a mouse."""
    server = api('GET', 'compute/v2.1/servers', None, admin)[1]['servers'][0]['id']
    browser.run('document.body.focus()')
    browser.run('document.activeElement.blur(); window.scrollTo(0, 0)')
    page(f'servers/{server}')
    browser.find('#tab-details')
    browser.run('document.querySelector(".skip").focus()')
    browser.keys('ENTER')
    assert browser.run('return document.activeElement.id') == 'main'
    browser.run('document.querySelector("#tab-details").focus()')
    browser.keys('RIGHT')
    browser.until('the arrow moves to the timeline', lambda: browser.run('return document.activeElement.id') == 'tab-timeline')
    browser.find('#story')
    browser.run('[...document.querySelectorAll("#actions button")].find((one) => one.textContent === "Delete").focus()')
    browser.keys('ENTER')
    browser.find('dialog[open]')
    browser.keys('ENTER')
    browser.until('the confirmation begins at No', lambda: not browser.all('dialog'))
    assert status_of(server, admin) != 404


def axe(source, admin):
    """No page has a serious violation of WCAG 2.2 AA, in light or dark colours."""
    # The two schemes differ only in their colours.
    rules = {'light': ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'], 'dark': ['color-contrast']}
    script = ('const [rules, done] = arguments; const options = { runOnly: rules, resultTypes: ["violations"] };'
              'window.axe.run(document, options).then((found) => done(found.violations), (error) => done(String(error)))')
    server = api('GET', 'compute/v2.1/servers', None, admin)[1]['servers'][0]['id']
    found, count = [], 0
    for scheme in ('light', 'dark'):
        browser.chrome('Emulation.setEmulatedMedia', features=[{'name': 'prefers-color-scheme', 'value': scheme}])
        browser.run(source)
        places = [*PAGES, f'servers/{server}', f'servers/{server}?tab=timeline', f'servers/{server}?tab=why', 'scheduler?tab=drain', 'audit?kind=instance']
        for name in places:
            page(name)
            until_shown(name)
            told = browser.run_async(script, rules[scheme])
            assert isinstance(told, list), told
            count += 1
            found += [f'{scheme} {name}: {one["id"]} {one["impact"]}: {one["nodes"][0]["target"]} {one["nodes"][0]["failureSummary"]}' for one in told if one['impact'] in ('serious', 'critical')]
            if scheme == 'dark' and name in ('servers', 'fleet', 'audit'):
                shot(f'{name}-dark')
    browser.chrome('Emulation.setEmulatedMedia', features=[])
    assert count == 2 * len(places) and not found, '\n'.join(found)


def narrow():
    """On a telephone no page is wider than the screen, and the menu opens."""
    browser.chrome('Emulation.setDeviceMetricsOverride', width=400, height=800, deviceScaleFactor=1, mobile=False)
    try:
        for name in PAGES:
            visit(name)
            wide = browser.run('return document.documentElement.scrollWidth')
            assert wide <= 400, f'{name} is {wide} wide'
        visit('servers')
        browser.press('Menu')
        browser.press('Fleet', 'nav')
        browser.sees('Fleet', 'h1')
        browser.sees('sim-0001', 'tbody')
        shot('narrow')
    finally:
        browser.chrome('Emulation.clearDeviceMetricsOverride')


def every_page():
    for name in PAGES:
        visit(name)
        shot(name)
    said = browser.complaints()
    assert not said, said


# Answers of a big cloud, made in the page, because this check measures the page and not the server.
BIG = '''
const ask = window.fetch;
window.small = ask;
const answer = (body) => new Response(JSON.stringify(body), { headers: { 'content-type': 'application/json' } });
window.fetch = async (target, options) => {
  const { pathname, searchParams } = new URL(target);
  if (pathname.endsWith('/servers/detail')) {
    if (searchParams.get('changes-since')) return answer({ servers: [] });
    const from = Number(searchParams.get('marker')?.slice(-12) || 0);
    const servers = Array.from({ length: 1000 }, (_, at) => ({ id: `00000000-0000-4000-8000-${String(from + at + 1).padStart(12, '0')}`, name: `server-${from + at + 1}`, status: at % 9 ? 'ACTIVE' : 'SHUTOFF',
      created: '2026-01-31T12:00:00Z', tenant_id: 'p', flavor: { original_name: 'small' }, addresses: { n: [{ addr: `10.${(from >> 8) & 255}.0.${at & 255}` }] }, 'OS-EXT-SRV-ATTR:host': `host-${at}` }));
    return answer({ servers, servers_links: from + 1000 < 100000 ? [{ rel: 'next', href: '' }] : [] });
  }
  if (pathname.endsWith('/os-hypervisors/detail')) {
    const from = Number(searchParams.get('marker')?.slice(-12) || 0);
    const hypervisors = Array.from({ length: 1000 }, (_, at) => ({ id: `00000000-0000-4000-9000-${String(from + at + 1).padStart(12, '0')}`, hypervisor_hostname: `host-${from + at + 1}`, state: 'up', status: 'enabled',
      service: { host: `host-${from + at + 1}` }, running_vms: 10, vcpus: 64, vcpus_used: 20, memory_mb: 262144, memory_mb_used: 65536, local_gb: 4096, local_gb_used: 100 }));
    return answer({ hypervisors, hypervisors_links: from + 1000 < 10000 ? [{ rel: 'next', href: '' }] : [] });
  }
  return ask(target, options);
};'''

# The time until the page has painted after a change.
TYPE = '''
const done = arguments[arguments.length - 1];
const input = document.querySelector('#filter');
const begun = performance.now();
input.value = arguments[0];
input.dispatchEvent(new Event('input', { bubbles: true }));
requestAnimationFrame(() => setTimeout(() => done(performance.now() - begun)));'''

SCROLL = '''
const done = arguments[arguments.length - 1];
const begun = performance.now();
document.querySelector('.table').scrollTop = arguments[0];
requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => done(performance.now() - begun))));'''


def big():
    """Lists of 100,000 servers and 10,000 hosts render only the rows in view. The times are measured, not judged."""
    visit('health')
    browser.run(BIG)
    told = []
    for name, count in (('servers', '100000'), ('fleet', '10000')):
        begun = browser.run('return performance.now()')
        page(name)
        browser.until('the first rows are shown', lambda: browser.run('return document.querySelectorAll("tbody tr[data-id]").length > 10'))
        first = browser.run('return performance.now()') - begun
        browser.until(f'{count} are listed', lambda: browser.text('#count') == count, 60)
        whole = browser.run('return performance.now()') - begun
        typed = [browser.run_async(TYPE, text) for text in ('9', '99', '999', '')]
        scrolled = [browser.run_async(SCROLL, place) for place in (40_000, 200_000, 10 ** 7, 0)]
        browser.run('document.querySelector("thead button").click()')
        browser.run('document.querySelector("thead button").click()')
        last = 'server-99999' if name == 'servers' else 'host-9999'
        browser.until('the list is sorted downwards', lambda: browser.text('tbody tr[data-id]').split()[0] == last, 60)
        rows = browser.run('return document.querySelectorAll("tbody tr").length')
        assert rows < 120, f'{rows} rows are rendered'
        told.append(f'{count} {name}: first rows {first:.0f} ms, all {whole:.0f} ms, typing {max(typed):.0f} ms, scrolling {max(scrolled):.0f} ms, {rows} rows rendered')
    browser.run('window.fetch = window.small')
    print('        ' + '\n        '.join(told), flush=True)
