"""Tests the dashboard with a real guest: its launch, serial output, serial line, screen and deletion.

Arguments: the URL, the administrator's password, the folder for screenshots, NAME and FILE. The image, the flavor and
the network all have the name NAME. The script writes the server's id to FILE.
"""
import sys

from scene import FAILED, PASSWORD, URL, browser, check, log_in_and_see_servers, page, shot, status_of, token_of

NAME, FILE = sys.argv[4:6]
SERVER = {}
# A guest without hardware virtualisation takes up to a minute to boot, more on a busy machine.
BOOT = 180


def launch():
    browser.go(f'{URL}/dashboard/')
    log_in_and_see_servers()
    page('launch')
    browser.type('#name', 'seen-guest')
    for field in ('image', 'flavor', 'network'):
        browser.choose(f'#{field}', NAME)
    browser.click('#launch')
    browser.sees('seen-guest', 'h1')
    SERVER['id'] = browser.run('return location.hash').split('/')[2]
    with open(FILE, 'w') as file:
        file.write(SERVER['id'])
    browser.sees('ACTIVE', '#status', BOOT)


def output():
    browser.press('Serial output')
    browser.sees('GUEST-READY', '#output', BOOT)
    shot('serial-output')


def say(text):
    """Types on the serial line."""
    browser.run('document.querySelector(".screen textarea").focus()')
    browser.keys(*text, 'ENTER')


def lines():
    """The text of the terminal."""
    return browser.run('return [...document.querySelectorAll(".xterm-rows > div")].map((row) => row.textContent).join("\\n")')


def serial():
    page(f'servers/{SERVER["id"]}/console?kind=serial')
    browser.sees('up', '#state', 60)
    browser.find('.screen textarea')
    say('echo typed-$((6*7))')
    browser.until('the guest answers', lambda: 'typed-42' in lines(), 60)
    shot('serial')
    # The screen changes every second from now on.
    say('while sleep 1; do date >/dev/tty1; done &')
    browser.until('the guest echoes the command', lambda: '/dev/tty1' in lines())


def picture():
    return browser.run('return document.querySelector(".screen canvas")?.toDataURL() ?? ""')


def screen():
    browser.press('Screen')
    browser.sees('up', '#state', 60)
    seen = set()

    def changed():
        seen.add(picture())
        return len(seen) > 4

    # The empty screen and the first frame also count as pictures. Further pictures show the text that the guest writes.
    browser.until('the pixels of the screen change again and again', changed, 60)
    shot('screen')


def deleted():
    page(f'servers/{SERVER["id"]}')
    browser.press('Delete', '#actions')
    browser.click('#confirm-yes')
    browser.sees('What the log tells of it', 'main', 120)
    browser.sees('instance: deleted', '#story', 60)
    assert status_of(SERVER['id'], token_of('admin', PASSWORD, 'admin')) == 404


try:
    check('a guest is launched on real QEMU', launch)
    check('the serial output says that the guest has booted', output)
    check('the guest answers a command typed on its serial line', serial)
    check('the page shows the guest\'s screen, and its pixels change', screen)
    check('the server is deleted, and its history stays', deleted)
finally:
    browser.close()
sys.exit(1 if FAILED else 0)
