// The frame: log-in, menu, time bar, notices, and the page of the current address.
import { html, render, useEffect, useState } from './lib/html.js';
import { down, moment, session, toast } from './lib/state.js';
import { logout } from './lib/api.js';
import { find, PAGES } from './pages.js';
import { TimeBar } from './lib/timebar.js';
import Login from './pages/login.js';

/** The path and the query in the page's address, such as `#/servers/ID?host=x`. */
function address() {
  const [path, query] = (location.hash.replace(/^#/, '') || '/servers').split('?');
  return { path, query: new URLSearchParams(query) };
}

function Toast() {
  const shown = toast.use();
  useEffect(() => {
    if (!shown) return undefined;
    const timer = setTimeout(() => toast.set(null), shown.bad ? 15_000 : 5000);
    return () => clearTimeout(timer);
  }, [shown]);
  return html`<div class="toasts" aria-live=${shown?.bad ? 'assertive' : 'polite'}>
    ${shown && html`<div class=${shown.bad ? 'toast bad' : 'toast'} id="toast"><span>${shown.text}</span>
      <button type="button" class="plain" aria-label="Dismiss" onClick=${() => toast.set(null)}>×</button></div>`}
  </div>`;
}

function Away() {
  return down.use()
    ? html`<div class="banner" role="alert" id="away">The server does not answer. This page shows what it last said, and tries again by itself.</div>`
    : null;
}

function Menu({ current, viewer }) {
  const may = (page) => page.menu && (!page.probe || viewer.may[page.name]);
  return html`<nav aria-label="Pages"><ul>${PAGES.filter(may).map((page) => html`
    <li><a href=${`#${page.path}`} aria-current=${page.name === current ? 'page' : undefined}>${page.title}</a></li>`)}</ul></nav>`;
}

function Viewer({ viewer }) {
  const scope = viewer.project ? `project ${viewer.project.name}` : viewer.system ? 'the whole system' : 'no project';
  return html`<div class="viewer"><span><b>${viewer.user.name}</b> <span class="quiet">in ${scope}</span></span>
    <button type="button" class="small" id="logout" onClick=${logout}>Log out</button></div>`;
}

/** The page's module, loaded when it is first shown. */
function usePage(file) {
  const [loaded, setLoaded] = useState(/** @type {any} */ ({}));
  useEffect(() => {
    if (!file) return;
    import(`./pages/${file}`).then(
      (module) => setLoaded({ file, Page: module.default }),
      () => setLoaded({ file, failed: true }),
    );
  }, [file]);
  return loaded.file === file ? loaded : {};
}

function App() {
  const viewer = session.use();
  const at = moment.use();
  const [here, setHere] = useState(address());
  useEffect(() => {
    const moved = () => setHere(address());
    addEventListener('hashchange', moved);
    return () => removeEventListener('hashchange', moved);
  }, []);
  const found = find(here.path);
  const { Page, failed } = usePage(viewer && found?.page.file);
  const title = viewer ? found?.page.title || 'Not found' : 'Log in';
  useEffect(() => {
    document.title = `${title} · Chronova`;
  }, [title]);
  useEffect(() => {
    document.documentElement.classList.toggle('past', Boolean(at));
  }, [at]);
  if (!viewer) return html`<${Away} /><${Login} /><${Toast} />`;
  return html`
    <a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); document.getElementById('main')?.focus(); }}>Skip to the page</a>
    <header><a class="brand" href="#/servers">Chronova</a><${Menu} current=${found?.page.name} viewer=${viewer} /><${Viewer} viewer=${viewer} /></header>
    ${viewer.may.past && html`<${TimeBar} supported=${found?.page.past} />`}
    <${Away} />
    <main id="main" tabindex="-1">
      ${!found && html`<h1>Not found</h1><p>There is no page ${here.path}. <a href="#/servers">To the servers</a></p>`}
      ${failed && html`<h1>${title}</h1><p role="alert">This page cannot be loaded. Perhaps the server was upgraded: reload.</p>`}
      ${found && Page && html`<${Page} key=${here.path} ...${found.params} query=${here.query} viewer=${viewer} />`}
    </main>
    <${Toast} />`;
}

const root = /** @type {HTMLElement} */ (document.getElementById('app'));
root.textContent = '';
render(html`<${App} />`, root);
