// The frame: log-in, menu, time bar, notices, and the page of the current address.
import { html, render, useEffect, useState } from './lib/html.js';
import { down, moment, session, toast } from './lib/state.js';
import { logout } from './lib/api.js';
import { Icon } from './lib/icons.js';
import { alive, connect } from './lib/live.js';
import { find, GROUPS, PAGES } from './pages.js';
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
  const [open, setOpen] = useState(false);
  useEffect(() => setOpen(false), [current]);
  const inMenu = PAGES.filter((page) => page.group && viewer.may[page.name]);
  return html`<div class=${open ? 'side open' : 'side'}>
    <div class="side-top"><a class="brand" href="#/servers"><${Icon} name="brand" />Chronova</a>
      <button type="button" class="menu-button small" aria-expanded=${String(open)} aria-controls="menu" onClick=${() => setOpen(!open)}>Menu</button></div>
    <nav id="menu" aria-label="Pages">${GROUPS.map((group) => {
      const pages = inMenu.filter((page) => page.group === group);
      return pages.length > 0 && html`<h2 id=${`group-${group}`}>${group}</h2><ul aria-labelledby=${`group-${group}`}>${pages.map((page) => html`
        <li><a href=${`#${page.path}`} aria-current=${page.name === current ? 'page' : undefined}><${Icon} name=${page.name} />${page.title}</a></li>`)}</ul>`;
    })}</nav></div>`;
}

function Viewer({ viewer }) {
  const live = alive.use();
  const scope = viewer.project ? viewer.project.name : viewer.system ? 'the whole system' : 'no project';
  return html`<div class="viewer">
    <span class=${live ? 'live on' : 'live'} id="feed" title=${live ? 'Changes are shown at once.' : 'Pages ask every few seconds.'}>${live ? 'Live' : 'Polling'}</span>
    <span><b>${viewer.user.name}</b> <span class="quiet">in ${scope}</span></span>
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
  const skip = (event) => {
    event.preventDefault();
    document.getElementById('main')?.focus();
  };
  return html`
    <a class="skip" href="#main" onClick=${skip}>Skip to the page</a>
    <div class="frame"><${Menu} current=${found?.page.name} viewer=${viewer} />
    <div class="content">
      <header class="top">${viewer.may.past && html`<${TimeBar} supported=${found?.page.past} />`}<${Viewer} viewer=${viewer} /></header>
      <${Away} />
      <main id="main" tabindex="-1">
        ${!found && html`<h1>Not found</h1><p>There is no page ${here.path}. <a href="#/servers">To the servers</a></p>`}
        ${failed && html`<h1>${title}</h1><p role="alert">This page cannot be loaded. Perhaps the server was upgraded: reload.</p>`}
        ${found && Page && html`<${Page} key=${here.path} ...${found.params} query=${here.query} viewer=${viewer} />`}
      </main>
    </div></div>
    <${Toast} />`;
}

connect();
const root = /** @type {HTMLElement} */ (document.getElementById('app'));
root.textContent = '';
render(html`<${App} />`, root);
