"""Drives Chromium over WebDriver (W3C), with nothing but Python's own library.

Searches, clicks and choices wait, so a page that still loads is no failure. Errors name the awaited condition.
"""
import base64
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

PATIENCE = 30
FLAGS = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
         '--disable-component-update', '--disable-sync', '--disable-dev-shm-usage', '--window-size=1280,860']
ELEMENT = 'element-6066-11e4-a52e-4f735466cecf'
KEYS = {'ENTER': '\ue007', 'TAB': '\ue004', 'HOME': '\ue011', 'END': '\ue010', 'LEFT': '\ue012', 'RIGHT': '\ue014', 'SPACE': ' '}


class Gone(Exception):
    """A condition did not become true in time."""


class DriverError(Exception):
    """The driver refused a command."""


def free_port():
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        return probe.getsockname()[1]


class Browser:
    def __init__(self, folder):
        self.profile = tempfile.mkdtemp(prefix='profile.', dir=folder)
        self.log = open(os.path.join(folder, 'chromedriver.log'), 'ab')
        port = free_port()
        self.driver = subprocess.Popen(['chromedriver', f'--port={port}'], stdout=self.log, stderr=self.log)
        self.root = f'http://127.0.0.1:{port}'
        self.session = None
        self.until('the driver answers', lambda: self._up())
        options = {'args': FLAGS + [f'--user-data-dir={self.profile}'], 'binary': shutil.which('chromium')}
        caps = {'alwaysMatch': {'browserName': 'chrome', 'goog:chromeOptions': options, 'goog:loggingPrefs': {'browser': 'ALL'}}}
        made = self._call('POST', '/session', {'capabilities': caps})
        self.session = f"/session/{made['sessionId']}"

    def _up(self):
        try:
            return self._call('GET', '/status')['ready']
        except OSError:
            return False

    def _call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.root + path, data, {'Content-Type': 'application/json'}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return json.load(answer)['value']
        except urllib.error.HTTPError as error:
            raise DriverError(json.load(error)['value']['message'].split('\n')[0]) from None

    def call(self, method, path, body=None):
        return self._call(method, self.session + path, body)

    def close(self):
        try:
            if self.session:
                self.call('DELETE', '')
        except (OSError, DriverError):
            pass
        self.driver.terminate()
        self.driver.wait(30)
        self.log.close()
        shutil.rmtree(self.profile, ignore_errors=True)

    def until(self, what, test, patience=PATIENCE):
        """Waits until the test returns a true value, and returns it."""
        end, last = time.monotonic() + patience, None
        while time.monotonic() < end:
            try:
                found = test()
                if found:
                    return found
            except DriverError as error:
                last = error
            time.sleep(0.1)
        raise Gone(f'{what}: not within {patience} s{f" ({last})" if last else ""}')

    def go(self, url):
        self.call('POST', '/url', {'url': url})

    def run(self, script, *args):
        return self.call('POST', '/execute/sync', {'script': script, 'args': list(args)})

    def run_async(self, script, *args):
        return self.call('POST', '/execute/async', {'script': script, 'args': list(args)})

    def all(self, css):
        return [one[ELEMENT] for one in self.call('POST', '/elements', {'using': 'css selector', 'value': css})]

    def find(self, css):
        return self.until(f'{css} is there', lambda: self.all(css))[0]

    def button(self, text, within='body'):
        """The button or link with exactly this text."""
        script = ('return [...document.querySelectorAll(arguments[0] + " button, " + arguments[0] + " a")]'
                  '.find((one) => one.textContent.trim() === arguments[1]) || null')
        return self.until(f'a button {text!r} is in {within}', lambda: self.run(script, within, text))[ELEMENT]

    def click(self, css):
        self.until(f'{css} can be clicked', lambda: self._click(self.find(css)))

    def press(self, text, within='body'):
        self.until(f'{text!r} can be pressed', lambda: self._click(self.button(text, within)))

    def _click(self, element):
        self.call('POST', f'/element/{element}/click', {})
        return True

    def type(self, css, text, clear=True):
        element = self.find(css)
        if clear:
            self.call('POST', f'/element/{element}/clear', {})
        self.call('POST', f'/element/{element}/value', {'text': text})

    def choose(self, css, text):
        """Chooses the option of a select by the beginning of its text."""
        self.find(css)
        script = ('const s = document.querySelector(arguments[0]); const o = [...s.options].find((x) => x.text.startsWith(arguments[1]));'
                  'if (!o) return false; s.value = o.value; s.dispatchEvent(new Event("change", {bubbles: true})); return true')
        self.until(f'{css} offers {text!r}', lambda: self.run(script, css, text))

    def text(self, css='body'):
        return self.run('return document.querySelector(arguments[0])?.innerText ?? ""', css)

    def sees(self, text, css='body', patience=PATIENCE):
        return self.until(f'{css} shows {text!r}', lambda: text in self.text(css), patience)

    def lacks(self, text, css='body', patience=PATIENCE):
        return self.until(f'{css} no longer shows {text!r}', lambda: text not in self.text(css), patience)

    def disabled(self, text, within='body'):
        return self.run('return arguments[0].disabled === true', {ELEMENT: self.button(text, within)})

    def drag(self, css, share):
        """Drags a slider from its position to this share of its width."""
        script = 'const r = document.querySelector(arguments[0]).getBoundingClientRect(); const e = document.querySelector(arguments[0]);' \
                 'return [r.left, r.top + r.height / 2, r.width, (e.value - e.min) / (e.max - e.min)]'
        left, y, width, now = self.run(script, css)
        thumb = 16
        at = lambda part: round(left + thumb / 2 + (width - thumb) * part)
        move = lambda part: {'type': 'pointerMove', 'duration': 60, 'x': at(part), 'y': round(y), 'origin': 'viewport'}
        steps = [move(now), {'type': 'pointerDown', 'button': 0}, move((now + share) / 2), move(share), {'type': 'pointerUp', 'button': 0}]
        self.call('POST', '/actions', {'actions': [{'type': 'pointer', 'id': 'mouse', 'parameters': {'pointerType': 'mouse'}, 'actions': steps}]})

    def keys(self, *names):
        actions = []
        for name in names:
            value = KEYS.get(name, name)
            actions += [{'type': 'keyDown', 'value': value}, {'type': 'keyUp', 'value': value}]
        self.call('POST', '/actions', {'actions': [{'type': 'key', 'id': 'keyboard', 'actions': actions}]})

    def chrome(self, command, **params):
        """A command of Chromium's own protocol."""
        return self.call('POST', '/goog/cdp/execute', {'cmd': command, 'params': params})

    def screenshot(self, path):
        with open(path, 'wb') as file:
            file.write(base64.b64decode(self.call('GET', '/screenshot')))

    def complaints(self):
        """The severe messages of the browser's console since the last call, without those about failed requests."""
        lines = self.call('POST', '/se/log', {'type': 'browser'})
        return [line['message'] for line in lines if line['level'] == 'SEVERE' and 'Failed to load resource' not in line['message']]
