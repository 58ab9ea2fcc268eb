// The page behind the URL of `openstack console url show`, unless noVNC is installed or the operator configures another
// viewer. The page shows a server's screen in the whole window. As in noVNC's own page, `path` is the WebSocket's path
// on this host.
import RFB from './vendor/novnc/core/rfb.js';

const status = /** @type {HTMLElement} */ (document.getElementById('status'));
const told = { up: 'Connected.', down: 'The connection to the console has ended. Ask for another address to open it again.' };
const path = new URLSearchParams(location.search).get('path') ?? 'console';
const address = new URL(`/${path.replace(/^\/+/, '')}`, location.href);
address.protocol = location.protocol === 'https:' ? 'wss:' : 'ws:';

const rfb = new RFB(document.getElementById('screen'), address.href, { wsProtocols: ['binary'] });
rfb.scaleViewport = true;
rfb.addEventListener('connect', () => { status.textContent = told.up; rfb.focus(); });
rfb.addEventListener('disconnect', () => { status.textContent = told.down; });
rfb.addEventListener('securityfailure', (event) => { status.textContent = event.detail.reason ?? told.down; });
rfb.addEventListener('desktopname', (event) => { document.title = event.detail.name; });
