// A server's console in the page: its screen (noVNC) or its serial line (xterm.js), through the console gateway.
import { html, useEffect, useRef, useState } from '../lib/html.js';
import { get, post, url } from '../lib/api.js';
import { session } from '../lib/state.js';
import { useLoad } from '../lib/load.js';
import { sheet } from '../lib/sheet.js';
import { Badge, Notice, Trouble } from '../lib/ui.js';

/** The WebSocket address of the console gateway, with the token from the API's URL. */
async function gateway(id, protocol, type) {
  const { remote_console: given } = await post(`compute/v2.1/servers/${id}/remote-consoles`, { remote_console: { protocol, type } });
  const token = /token(?:=|%3D)([^&%]+)/i.exec(given.url)?.[1];
  if (!token) throw new Error('The console has no token.');
  const target = url('console');
  target.protocol = target.protocol === 'https:' ? 'wss:' : 'ws:';
  target.searchParams.set('token', token);
  return target.href;
}

/**
 * xterm.js writes style elements and style attributes. The content security policy forbids both, but lets a script
 * adopt style sheets and set style properties. After a call of this function, new elements use these two ways. The call
 * returns a function that undoes the change.
 */
function lawful() {
  const make = document.createElement.bind(document);
  document.createElement = (name, options) => {
    const element = make(name, options);
    if (name === 'style') {
      const rules = new CSSStyleSheet();
      document.adoptedStyleSheets.push(rules);
      const fill = (text) => { rules.replaceSync(text); };
      Object.defineProperty(element, 'textContent', { set: fill, get: () => '' });
      element.remove = () => {
        document.adoptedStyleSheets = document.adoptedStyleSheets.filter((one) => one !== rules);
        Element.prototype.remove.call(element);
      };
    } else if (name === 'span' || name === 'div') {
      element.setAttribute = (key, value) => {
        if (key === 'style') element.style.cssText = value;
        else Element.prototype.setAttribute.call(element, key, value);
      };
    }
    return element;
  };
  return () => { document.createElement = make; };
}

async function serial(box, id, tell) {
  const [{ Terminal }, { FitAddon }] = await Promise.all([import('../vendor/xterm/xterm.js'), import('../vendor/xterm/addon-fit.js')]);
  sheet('vendor/xterm/xterm.css');
  const socket = new WebSocket(await gateway(id, 'serial', 'serial'), ['binary']);
  socket.binaryType = 'arraybuffer';
  const undo = lawful();
  const terminal = new Terminal({ convertEol: false, scrollback: 5000, screenReaderMode: true });
  const fit = new FitAddon();
  terminal.loadAddon(fit);
  terminal.open(box);
  fit.fit();
  const text = new TextEncoder();
  const typing = terminal.onData((data) => socket.readyState === WebSocket.OPEN && socket.send(text.encode(data)));
  socket.onopen = () => { tell('up'); terminal.focus(); };
  socket.onmessage = (event) => terminal.write(new Uint8Array(event.data));
  socket.onclose = () => tell('down');
  const resized = () => fit.fit();
  addEventListener('resize', resized);
  return () => {
    removeEventListener('resize', resized);
    typing.dispose();
    socket.close();
    terminal.dispose();
    undo();
  };
}

async function screen(box, id, tell) {
  const { default: RFB } = await import('../vendor/novnc/core/rfb.js');
  const rfb = new RFB(box, await gateway(id, 'vnc', 'novnc'), { wsProtocols: ['binary'] });
  rfb.scaleViewport = true;
  rfb.addEventListener('connect', () => { tell('up'); rfb.focus(); });
  rfb.addEventListener('disconnect', () => tell('down'));
  rfb.addEventListener('securityfailure', (event) => tell('down', event.detail.reason));
  return () => rfb.disconnect();
}

export default function Console({ id, query }) {
  const load = useLoad((signal) => get(`compute/v2.1/servers/${id}`, { signal }).then((body) => body.server), ['console', id]);
  const [kind, setKind] = useState(query.get('kind') || 'vnc');
  const [turn, setTurn] = useState(0);
  const [state, setState] = useState('');
  const [error, setError] = useState('');
  const box = useRef(null);
  const is = Boolean(load.data);
  useEffect(() => {
    if (!is || !session.get()) return undefined;
    let close = () => {};
    let over = false;
    const tell = (next, why) => { if (!over) { setState(next); if (why) setError(why); } };
    setState('');
    setError('');
    (kind === 'vnc' ? screen : serial)(box.current, id, tell).then(
      (end) => { if (over) end(); else close = end; },
      (failure) => !over && setError(failure.message),
    );
    return () => { over = true; close(); };
  }, [is, kind, turn]);
  return html`<div class="title"><h1>Console of ${load.data?.name || 'a server'} ${state && html`<span id="state"><${Badge}>${state}<//></span>`}</h1>
      <div class="row"><button type="button" aria-pressed=${String(kind === 'vnc')} onClick=${() => setKind('vnc')}>Screen</button>
        <button type="button" id="serial" aria-pressed=${String(kind === 'serial')} onClick=${() => setKind('serial')}>Serial line</button>
        <button type="button" onClick=${() => setTurn(turn + 1)}>Connect again</button>
        <a class="button" href=${`#/servers/${id}`}>Back</a></div></div>
    <${Trouble} load=${load} what="server" />
    ${error && html`<${Notice} bad>${error}<//>`}
    ${is && html`<div class="screen" key=${`${kind}${turn}`} ref=${box} role="application" aria-label=${kind === 'vnc' ? 'Screen of the server' : 'Serial line of the server'}></div>`}`;
}
