"""Tests the dashboard in Chromium.

The subjects are log-in, launch, timeline, the past, audit, fleet, other people's servers, sessions and outages.

Arguments: the URL, the administrator's password, the folder for screenshots, and a file with the server's process id.
"""
import json
import os
import signal
import sys
import time
import urllib.request

from webdriver import Browser, Gone

URL, PASSWORD, FOLDER, PID = sys.argv[1:5]
FAILED = []


def check(what, test):
    begun = time.monotonic()
    try:
        test()
        print(f'  ok    {what} ({time.monotonic() - begun:.1f} s)', flush=True)
    except Exception as error:  # the script reports every check and continues with the next one
        FAILED.append(what)
        print(f'  FAIL  {what}: {error}', flush=True)
        browser.screenshot(os.path.join(FOLDER, f'failed-{len(FAILED)}.png'))


def api(method, path, body=None, token=None, version='2.100'):
    request = urllib.request.Request(f'{URL}/{path}', None if body is None else json.dumps(body).encode(), method=method)
    request.add_header('Content-Type', 'application/json')
    request.add_header('OpenStack-API-Version', f'compute {version}')
    if token:
        request.add_header('X-Auth-Token', token)
    with urllib.request.urlopen(request, timeout=60) as answer:
        text = answer.read()
        return answer.headers, json.loads(text) if text else None


def token_of(user, password, project):
    who = {'methods': ['password'], 'password': {'user': {'name': user, 'domain': {'id': 'default'}, 'password': password}}}
    scope = {'project': {'name': project, 'domain': {'id': 'default'}}}
    return api('POST', 'identity/v3/auth/tokens', {'auth': {'identity': who, 'scope': scope}})[0]['X-Subject-Token']


def furnish():
    """Creates an image, a flavor, and a member of another project. Returns a token of the administrator."""
    admin = token_of('admin', PASSWORD, 'admin')
    image = api('POST', 'image/v2/images', {'name': 'tiny', 'disk_format': 'raw', 'container_format': 'bare', 'visibility': 'public'}, admin)[1]
    upload = urllib.request.Request(f'{URL}/image/v2/images/{image["id"]}/file', b'x' * 4096, method='PUT')
    upload.add_header('Content-Type', 'application/octet-stream')
    upload.add_header('X-Auth-Token', admin)
    urllib.request.urlopen(upload, timeout=60).close()
    api('POST', 'compute/v2.1/flavors', {'flavor': {'name': 'small', 'vcpus': 1, 'ram': 64, 'disk': 1}}, admin)
    project = api('POST', 'identity/v3/projects', {'project': {'name': 'other', 'domain_id': 'default'}}, admin)[1]['project']['id']
    user = api('POST', 'identity/v3/users', {'user': {'name': 'mallory', 'password': 'a-password-1', 'domain_id': 'default'}}, admin)[1]['user']['id']
    roles = api('GET', 'identity/v3/roles?name=member', None, admin)[1]['roles']
    api('PUT', f'identity/v3/projects/{project}/users/{user}/roles/{roles[0]["id"]}', None, admin)
    return admin


def log_in(user='admin', password=PASSWORD):
    browser.type('#user', user)
    browser.type('#password', password)
    browser.type('#project', 'admin' if user == 'admin' else 'other')
    browser.click('#login')


def page(path):
    browser.run('location.hash = arguments[0]', f'#/{path}')


def shot(name):
    browser.screenshot(os.path.join(FOLDER, f'{name}.png'))


def wrong_password():
    browser.go(f'{URL}/dashboard/')
    shot('login')
    log_in(password='wrong')
    browser.sees('Wrong user name, password or project', '#login-error')
    log_in()
    browser.sees('Servers', 'h1')


def launch():
    page('launch')
    browser.type('#name', 'seen-1')
    browser.click('#launch')
    browser.sees('seen-1', 'h1')
    browser.sees('ACTIVE', '#status', 60)
    global server
    server = browser.run('return location.hash').split('/')[2]
    shot('server')


def timeline():
    browser.press('Timeline')
    browser.sees('instance: build requested', '#story')
    browser.sees('admin', '#story')
    browser.sees('instance: build succeeded', '#story')
    shot('timeline')


def past():
    page('servers')
    browser.sees('seen-1', 'table')
    browser.drag('#time', 0.0)
    browser.sees('actions are off', '#as-of')
    browser.lacks('seen-1', 'main')
    browser.sees('There were no servers then', 'main')
    assert browser.disabled('Launch') and browser.disabled('Start') and browser.disabled('Delete')
    shot('past')
    page(f'servers/{server}')
    browser.sees('no such server', 'main')
    browser.click('#now')
    browser.sees('seen-1', 'h1')


def deleted():
    page(f'servers/{server}')
    browser.press('Delete', '#actions')
    browser.click('#confirm-yes')
    browser.sees('What the log tells of it', 'main')
    page(f'audit?server={server}')
    browser.type('#filter-kind', 'instance.delete_requested')
    browser.click('#search')
    browser.until('one event is left', lambda: browser.text('#count') == '1')
    browser.sees('admin', 'tbody')
    browser.sees('instance.delete_requested', 'tbody')
    shot('audit')


def fleet():
    page('fleet?host=sim-0001')
    browser.type('#reason', 'disk is noisy')
    browser.press('Disable', '#host')
    browser.sees('disk is noisy', '#host')
    browser.sees('disabled', 'tbody')
    shot('fleet')
    browser.press('Enable', '#host')
    browser.lacks('disabled', 'tbody')


def others():
    made = api('GET', 'compute/v2.1/flavors', None, admin)[1]['flavors'][0]['id']
    body = {'server': {'name': 'secret-1', 'flavorRef': made, 'networks': 'none', 'imageRef': api('GET', 'image/v2/images', None, admin)[1]['images'][0]['id']}}
    theirs = api('POST', 'compute/v2.1/servers', body, admin)[1]['server']['id']
    browser.click('#logout')
    page('servers')
    log_in('mallory', 'a-password-1')
    browser.sees('Servers', 'h1')
    page(f'servers/{theirs}')
    browser.sees('No such server was found', 'main')
    assert 'secret-1' not in browser.text() and 'Audit' not in browser.text('nav')
    browser.click('#logout')
    page('servers')
    log_in()
    browser.sees('secret-1', 'table')


def every_page():
    for name in ('servers', 'launch', 'audit', 'fleet', 'placement', 'processes', 'health'):
        page(name)
        browser.until(f'{name} is shown', lambda: name[:5].lower() in browser.text('h1').lower())
        browser.lacks('Loading', 'main')
        shot(name)
    said = browser.complaints()
    assert not said, said


def outage():
    page('servers')
    browser.sees('secret-1', 'table')
    pid = int(open(PID).read())
    os.kill(pid, signal.SIGTERM)
    browser.sees('does not answer', '#away', 60)
    # The script that started the server restarts it when this file exists.
    open(f'{PID}.again', 'w').close()
    browser.until('the banner goes', lambda: not browser.all('#away'), 120)
    browser.sees('secret-1', 'table', 60)


def revoked():
    page('servers')
    browser.run('window.caught = null; const f = window.fetch; window.fetch = (u, o) => { window.caught = o?.headers?.["X-Auth-Token"] || window.caught; return f(u, o); }')
    token = browser.until('a token is used', lambda: browser.run('return window.caught'))
    request = urllib.request.Request(f'{URL}/identity/v3/auth/tokens', method='DELETE')
    request.add_header('X-Auth-Token', token)
    request.add_header('X-Subject-Token', token)
    urllib.request.urlopen(request, timeout=60).close()
    browser.sees('Your session has ended', 'main', 60)


server = ''
admin = furnish()
browser = Browser(FOLDER)
try:
    check('a wrong password is told, the right one opens the servers', wrong_password)
    check('a server is launched and seen ACTIVE', launch)
    check('its timeline tells who asked and what followed', timeline)
    check('before it existed it is not there, and actions are off', past)
    check('it is deleted, and the audit finds who did it', deleted)
    check('a host is disabled with a reason, and enabled', fleet)
    check("another project's server is not found by its address", others)
    check('every page is shown, and the browser complains of nothing', every_page)
    check('an outage is told, and the page recovers', outage)
    check('a revoked session goes back to the log-in', revoked)
finally:
    browser.close()
sys.exit(1 if FAILED else 0)
