"""Opens a guest's SPICE console in Chromium, with the viewer that the gateway serves, and sees the screen change.

Arguments: the URL of the console, and the folder for screenshots.
"""
import os
import sys

from webdriver import Browser

URL, FOLDER = sys.argv[1:3]
# A guest without hardware virtualisation shows its first picture late on a busy machine.
PATIENCE = 90


def picture():
    return browser.run('return document.querySelector("#spice-screen canvas")?.toDataURL() ?? ""')


browser = Browser(FOLDER)
try:
    browser.go(URL)
    seen = set()

    def changed():
        seen.add(picture())
        return len(seen) > 4

    try:
        # The empty screen and the first frame also count as pictures. Further pictures show what the guest writes.
        browser.until('the pixels of the screen change again and again', changed, PATIENCE)
    finally:
        browser.screenshot(os.path.join(FOLDER, 'spice.png'))
        print(*browser.complaints(), sep='\n', flush=True)
finally:
    browser.close()
