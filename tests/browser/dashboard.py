"""Tests the dashboard in Chromium, on a simulated fleet: every page, and what may go wrong.

Arguments: the URL, the administrator's password, the folder for screenshots, a file with the server's process id, and
the file of axe.
"""
import os
import signal
import sys
import urllib.request

import pages
from scene import FAILED, PASSWORD, URL, api, browser, check, image, log_in, member, page, shot, token_of

PID, AXE = sys.argv[4:6]
SERVER = {}


def furnish():
    """Creates an image, a flavor, and a member of another project. Returns a token of the administrator."""
    admin = token_of('admin', PASSWORD, 'admin')
    image('tiny', admin)
    api('POST', 'compute/v2.1/flavors', {'flavor': {'name': 'small', 'vcpus': 1, 'ram': 64, 'disk': 1}}, admin)
    member('mallory', 'a-password-1', 'other', admin)
    return admin


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
    SERVER['id'] = browser.run('return location.hash').split('/')[2]
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
    page(f'servers/{SERVER["id"]}')
    browser.sees('no such server', 'main')
    browser.click('#now')
    browser.sees('seen-1', 'h1')


def deleted():
    page(f'servers/{SERVER["id"]}')
    browser.press('Delete', '#actions')
    browser.click('#confirm-yes')
    browser.sees('What the log tells of it', 'main')
    page(f'audit?server={SERVER["id"]}')
    browser.type('#filter-kind', 'instance.delete_requested')
    browser.click('#search')
    browser.until('one event is left', lambda: browser.text('#count') == '1')
    browser.sees('admin', 'tbody')
    browser.sees('instance.delete_requested', 'tbody')
    shot('deleted')


def disable():
    page('fleet?host=sim-0001')
    browser.type('#reason', 'disk is noisy')
    browser.press('Disable', '#host')
    browser.sees('disk is noisy', '#host')
    browser.sees('disabled', 'tbody')
    browser.press('Enable', '#host')
    browser.lacks('disabled', 'tbody')


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
    browser.sees('Live', '#feed', 60)


def revoked():
    page('servers')
    browser.run('window.caught = null; const f = window.fetch; window.fetch = (u, o) => { window.caught = o?.headers?.["X-Auth-Token"] || window.caught; return f(u, o); }')
    page('fleet')
    token = browser.until('a token is used', lambda: browser.run('return window.caught'))
    request = urllib.request.Request(f'{URL}/identity/v3/auth/tokens', method='DELETE')
    request.add_header('X-Auth-Token', token)
    request.add_header('X-Subject-Token', token)
    urllib.request.urlopen(request, timeout=60).close()
    browser.sees('Your session has ended', 'main', 60)


try:
    admin = furnish()
    check('a wrong password is told, the right one opens the servers', wrong_password)
    check('a server is launched and seen ACTIVE', launch)
    check('its timeline tells who asked and what followed', timeline)
    check('before it existed it is not there, and actions are off', past)
    check('it is deleted, and the audit finds who did it', deleted)
    check('a host is disabled with a reason, and enabled', disable)
    check('the scheduler tells why, what if, and where a drain would lead', lambda: pages.scheduler(admin))
    check('a host is drained, and the page shows it', lambda: pages.drain(admin))
    check('two moments differ by a server, and the log says who deleted it', lambda: pages.difference(admin))
    check('flavors, networks, volumes, projects and quotas are made and changed', lambda: pages.resources(admin))
    check('several servers are stopped and deleted at once', lambda: pages.bulk(admin))
    check('a server that goes away meanwhile leaves its history', lambda: pages.gone_meanwhile(admin))
    check('another project receives no byte of a server', lambda: pages.others(admin))
    check('every page is shown, and the browser complains of nothing', pages.every_page)
    check('the keyboard is enough', lambda: pages.keyboard(admin))
    check('axe finds nothing serious, light and dark', lambda: pages.axe(open(AXE).read(), admin))
    check('a narrow screen shows every page', pages.narrow)
    check('only the rows in view are rendered', pages.big)
    check('an outage is told, and the page recovers', outage)
    check('a revoked session goes back to the log-in', revoked)
finally:
    browser.close()
sys.exit(1 if FAILED else 0)
