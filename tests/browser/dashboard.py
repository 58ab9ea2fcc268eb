"""Tests the dashboard in Chromium, on a simulated fleet: every page, and the pages during faults.

Arguments: the URL, the administrator's password, the folder for screenshots, a file with the server's process id, and
the file of axe.
"""
import os
import signal
import sys
import urllib.request

import pages
from scene import FAILED, PASSWORD, URL, api, browser, check, furnish, log_in, log_in_again, log_in_and_see_servers, log_out, member, page, shot, token_of

PID, AXE = sys.argv[4:6]
SERVER = {}


def prepare():
    """Creates an image, a flavor, and a member of another project. Returns a token of the administrator."""
    admin = token_of('admin', PASSWORD, 'admin')
    furnish(admin)
    member('mallory', 'a-password-1', 'other', admin)
    return admin


def wrong_password():
    browser.go(f'{URL}/dashboard/')
    shot('login')
    log_in(password='wrong')
    browser.sees('Wrong user name, password or project', '#login-error')
    log_in_and_see_servers()


def by_credential(admin):
    user = api('GET', 'identity/v3/users?name=admin', None, admin)[1]['users'][0]['id']
    body = {'application_credential': {'name': 'dashboard', 'secret': 's3cret'}}
    made = api('POST', f'identity/v3/users/{user}/application_credentials', body, admin)[1]['application_credential']
    log_out()
    browser.choose('#method', 'Application credential')
    browser.type('#credential', made['id'])
    browser.type('#secret', 'wrong')
    browser.click('#login')
    browser.sees('Wrong application credential', '#login-error')
    browser.type('#secret', 's3cret')
    browser.click('#login')
    browser.sees('Servers', 'h1')
    log_in_again()


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
    browser.until('the banner disappears', lambda: not browser.all('#away'), 120)
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
    admin = prepare()
    check('a wrong password shows an error, the right one opens the servers', wrong_password)
    check('an application credential opens the servers, and a wrong secret does not', lambda: by_credential(admin))
    check('a server is launched and seen ACTIVE', launch)
    check('the timeline of the server shows who requested it and what followed', timeline)
    check('at a time before the server existed, the page does not show it, and actions are off', past)
    check('the server is deleted, and the audit finds who deleted it', deleted)
    check('a host is disabled with a reason, and enabled', disable)
    check('the scheduler page says where servers would go, and why a server went to its host', lambda: pages.scheduler(admin))
    check('a host is drained, and the page shows the plan and the drain', lambda: pages.drain(admin))
    check('the comparison of two moments shows a deleted server, and the log says who deleted it', lambda: pages.difference(admin))
    check('a flavor, a network, a volume and a project are created, and a quota is changed', lambda: pages.resources(admin))
    check('several servers are stopped and deleted at once', lambda: pages.bulk(admin))
    check('the open page of a server that is deleted shows its history', lambda: pages.gone_meanwhile(admin))
    check('a member of another project receives no byte of a server', lambda: pages.others(admin))
    check('every page is shown, and the browser logs no error', pages.every_page)
    check('the tabs and the confirmation work with the keyboard alone', lambda: pages.keyboard(admin))
    check('axe finds no serious violation, in light and dark colours', lambda: pages.axe(open(AXE).read(), admin))
    check('a narrow screen shows every page', pages.narrow)
    check('the page of health draws the metrics over time', pages.charts)
    check('only the rows in view are rendered', pages.big)
    check('the page shows an outage of the control plane, and recovers', outage)
    check('after a token is revoked, the page says that the session has ended', revoked)
finally:
    browser.close()
sys.exit(1 if FAILED else 0)
