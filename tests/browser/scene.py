"""The parts that all checks in the browser share: requests to the cloud, the browser, and the results."""
import json
import os
import sys
import time
import urllib.error
import urllib.request

from webdriver import PATIENCE, Browser

URL, PASSWORD, FOLDER = sys.argv[1:4]
FAILED = []
browser = Browser(FOLDER)


def check(what, test):
    begun = time.monotonic()
    try:
        test()
        print(f'  ok    {what} ({time.monotonic() - begun:.1f} s)', flush=True)
    except Exception as error:  # the script reports every check and continues with the next one
        FAILED.append(what)
        print(f'  FAIL  {what}: {type(error).__name__}: {error}', flush=True)
        browser.screenshot(os.path.join(FOLDER, f'failed-{len(FAILED)}.png'))


def api(method, path, body=None, token=None, version='2.100'):
    raw = isinstance(body, bytes)
    request = urllib.request.Request(f'{URL}/{path}', body if raw or body is None else json.dumps(body).encode(), method=method)
    request.add_header('Content-Type', 'application/octet-stream' if raw else 'application/json')
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


def image(name, token, body=b'x' * 4096, disk_format='raw'):
    made = api('POST', 'image/v2/images', {'name': name, 'disk_format': disk_format, 'container_format': 'bare', 'visibility': 'public'}, token)[1]
    api('PUT', f'image/v2/images/{made["id"]}/file', body, token)
    return made['id']


def furnish(token):
    """Creates an image and a flavor."""
    image('tiny', token)
    api('POST', 'compute/v2.1/flavors', {'flavor': {'name': 'small', 'vcpus': 1, 'ram': 64, 'disk': 1}}, token)


def member(user, password, project, token):
    """Creates a user with the role member in a new project."""
    made = api('POST', 'identity/v3/projects', {'project': {'name': project, 'domain_id': 'default'}}, token)[1]['project']['id']
    person = api('POST', 'identity/v3/users', {'user': {'name': user, 'password': password, 'domain_id': 'default'}}, token)[1]['user']['id']
    roles = api('GET', 'identity/v3/roles?name=member', None, token)[1]['roles']
    api('PUT', f'identity/v3/projects/{made}/users/{person}/roles/{roles[0]["id"]}', None, token)


def create_server(name, token, networks='none', **more):
    flavor = api('GET', 'compute/v2.1/flavors', None, token)[1]['flavors'][0]['id']
    source = api('GET', 'image/v2/images', None, token)[1]['images'][0]['id']
    body = {'server': {'name': name, 'flavorRef': flavor, 'imageRef': source, 'networks': networks, **more}}
    return api('POST', 'compute/v2.1/servers', body, token)[1]['server']['id']


def status_of(server, token):
    try:
        return api('GET', f'compute/v2.1/servers/{server}', None, token)[1]['server']['status']
    except urllib.error.HTTPError as error:
        return error.code


def active_server(name, token, patience=PATIENCE, **more):
    server = create_server(name, token, **more)
    browser.until(f'{name} is active', lambda: status_of(server, token) == 'ACTIVE', patience)
    return server


def log_in(user='admin', password=PASSWORD, project='admin'):
    browser.type('#user', user)
    browser.type('#password', password)
    browser.type('#project', project)
    browser.click('#login')


def log_in_and_see_servers(user='admin', password=PASSWORD, project='admin'):
    log_in(user, password, project)
    browser.sees('Servers', 'h1')


def log_out():
    browser.click('#logout')
    page('servers')


def log_in_again(user='admin', password=PASSWORD, project='admin'):
    log_out()
    log_in_and_see_servers(user, password, project)


def page(path):
    browser.run('location.hash = arguments[0]', f'#/{path}')


def shot(name):
    browser.screenshot(os.path.join(FOLDER, f'{name}.png'))


