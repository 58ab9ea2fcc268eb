// One server: its fields, its actions, its timeline, its console output, and why it is on its host.
import { html, useEffect, useState } from '../lib/html.js';
import { get, post, remove } from '../lib/api.js';
import { act, ACTIONS, fits } from '../lib/actions.js';
import { alive, useChanges } from '../lib/live.js';
import { moment } from '../lib/state.js';
import { useLoad } from '../lib/load.js';
import { Act, Choice, Facts, Field, Notice, Tabs, Trouble, gibibytes, mebibytes, time } from '../lib/ui.js';
import { Name } from '../lib/who.js';
import { state } from './servers.js';
import { Timeline } from './timeline.js';
import { Decisions } from './decisions.js';

function Actions({ server, reload, viewer }) {
  const fitting = ACTIONS.filter((action) => viewer.may.rules[action.rule] && fits(action, server));
  return html`<div class="row" role="group" aria-label="Actions" id="actions">
    ${!moment.get() && viewer.may.consoles && html`<a class="button primary" href=${`#/servers/${server.id}/console`}>Console</a>`}
    ${fitting.map((action) => html`<${Act} key=${action.name} danger=${action.danger} sure=${action.sure} done=${action.danger ? `${server.name} is being deleted.` : `${action.name}: accepted.`}
      on=${() => act(action, server.id).then(reload)}>${action.name}<//>`)}
  </div>`;
}

function Addresses({ server }) {
  const all = Object.entries(server.addresses || {}).flatMap(([network, given]) => given.map((one) => ({ network, ...one })));
  return html`<section class="sheet" aria-label="Addresses"><h2>Addresses</h2>
    ${all.length === 0 ? html`<p class="quiet">It has no addresses.</p>` : html`<table class="plain-table"><thead><tr><th scope="col">Network</th><th scope="col">Address</th><th scope="col">Kind</th><th scope="col">MAC address</th></tr></thead>
    <tbody>${all.map((one) => html`<tr><td>${one.network}</td><td class="mono">${one.addr}</td><td>${one['OS-EXT-IPS:type']}</td><td class="mono">${one['OS-EXT-IPS-MAC:mac_addr']}</td></tr>`)}</tbody></table>`}
    <p class="quiet">Security groups: ${(server.security_groups || []).map((one) => one.name).join(', ') || 'none'}</p></section>`;
}

function Volumes({ server, viewer, reload }) {
  const past = Boolean(moment.use());
  const at = `compute/v2.1/servers/${server.id}/os-volume_attachments`;
  const [volume, setVolume] = useState('');
  const load = useLoad(async (signal) => {
    if (past) return { attached: (server['os-extended-volumes:volumes_attached'] || []).map((one) => ({ volumeId: one.id })), free: [] };
    const [attached, volumes] = await Promise.all([
      get(at, { signal }).then((body) => body.volumeAttachments),
      get('volume/v3/volumes/detail', { signal, quiet: true }).then((body) => body.volumes, () => []),
    ]);
    return { attached: attached.map((one) => ({ ...one, volume: volumes.find((known) => known.id === one.volumeId) })), free: volumes.filter((one) => one.status === 'available') };
  }, ['volumes of', server.id, (server['os-extended-volumes:volumes_attached'] || []).length]);
  const data = load.data;
  const again = () => { load.reload(); reload(); };
  return html`<section class="sheet" aria-label="Volumes"><h2>Volumes</h2>
    <${Trouble} load=${load} what="volume" />
    ${data && (data.attached.length === 0 ? html`<p class="quiet">No volume is attached.</p>` : html`<table class="plain-table"><thead><tr><th scope="col">Volume</th><th scope="col">Size</th><th scope="col">Device</th><th scope="col">With the server</th><th scope="col"><span class="quiet">Action</span></th></tr></thead>
      <tbody>${data.attached.map((one) => html`<tr><td><a href=${`#/volumes?volume=${one.volumeId}`}>${one.volume?.name || html`<span class="mono">${one.volumeId}</span>`}</a></td>
        <td>${one.volume && gibibytes(one.volume.size)}</td><td class="mono">${one.device}</td><td>${one.delete_on_termination === undefined ? '' : one.delete_on_termination ? 'deleted' : 'kept'}</td>
        <td>${viewer.may.detach && html`<${Act} small sure="Detach the volume?" done="The volume is being detached." on=${() => remove(`${at}/${one.volumeId}`).then(again)}>Detach<//>`}</td></tr>`)}</tbody></table>`)}
    ${viewer.may.attach && data?.free.length > 0 && html`<div class="row end"><${Field} label="Attach a volume"><${Choice} id="attach" value=${volume || data.free[0].id} onChange=${setVolume} options=${data.free.map((one) => [one.id, `${one.name || one.id} (${gibibytes(one.size)})`])} /><//>
      <${Act} done="The volume is being attached." on=${() => post(at, { volumeAttachment: { volumeId: volume || data.free[0].id } }).then(again)}>Attach<//></div>`}
  </section>`;
}

function Details({ server, viewer, reload }) {
  const host = server['OS-EXT-SRV-ATTR:host'];
  const extra = (map) => Object.entries(map || {}).map(([key, value]) => html`<span class="chip">${key}: ${String(value)}</span>`);
  const flavor = server.flavor;
  return html`
    ${server.fault && html`<${Notice} bad><b>${server.fault.code}</b> ${server.fault.message} <span class="num">${time(server.fault.created)}</span>
      ${server.fault.details && html`<pre tabindex="0">${server.fault.details}</pre>`}<//>`}
    <section class="sheet" aria-label="Server"><${Facts} items=${[
      ['Id', html`<span class="mono">${server.id}</span>`],
      ['Created', time(server.created)], ['Changed', time(server.updated)],
      ['Flavor', flavor && `${flavor.original_name}: ${flavor.vcpus} CPU, ${mebibytes(flavor.ram)} memory, ${gibibytes(flavor.disk)} disk`],
      ['Image', server.image?.id && html`<a class="mono" href=${`#/images?image=${server.image.id}`}>${server.image.id}</a>`],
      ['Key pair', server.key_name], ['Locked', server.locked ? `yes${server.locked_reason ? `: ${server.locked_reason}` : ''}` : null],
      ['Availability zone', server['OS-EXT-AZ:availability_zone']],
      ['Host', host && html`<a href=${`#/fleet?host=${encodeURIComponent(host)}`}>${host}</a>`],
      ['Name on the host', server['OS-EXT-SRV-ATTR:instance_name']],
      ['Project', html`<${Name} kind="projects" id=${server.tenant_id} />`], ['User', html`<${Name} kind="users" id=${server.user_id} />`],
      ['Tags', (server.tags || []).length ? server.tags.map((tag) => html`<span class="chip">${tag}</span>`) : null],
      ['Metadata', Object.keys(server.metadata || {}).length ? extra(server.metadata) : null],
    ]} /></section>
    <div class="two"><${Addresses} server=${server} /><${Volumes} server=${server} viewer=${viewer} reload=${reload} /></div>
    ${viewer.may.audit && html`<p><a href=${`#/audit?server=${server.id}`}>Everything that the log says about it</a>
      ${viewer.may.placement && html`, <a href=${`#/placement?consumer=${server.id}`}>what it has claimed</a>`}</p>`}`;
}

/** Control sequences of terminals, which a page cannot show. */
// eslint-disable-next-line no-control-regex
const CONTROL = /\x1b\[[0-9;?]*[A-Za-z]|\x1b[()][A-Z0-9]|[\x00-\x08\x0b-\x1f]/g;

function Output({ id }) {
  const load = useLoad((signal) => post(`compute/v2.1/servers/${id}/action`, { 'os-getConsoleOutput': { length: 500 } }, { signal }).then((body) => body.output.replace(CONTROL, '')), ['output', id], { every: 4000 });
  return html`<${Trouble} load=${load} what="output" />
    ${load.data !== null && (load.data ? html`<pre class="log" tabindex="0" id="output" aria-label="The last 500 lines of the serial line">${load.data}</pre>` : html`<p class="quiet">The serial line has printed nothing yet.</p>`)}`;
}

export default function Server({ id, viewer, query }) {
  const [tab, setTab] = useState(query.get('tab') || 'details');
  useEffect(() => setTab(query.get('tab') || 'details'), [query.get('tab')]);
  const at = moment.use();
  const connected = alive.use();
  const load = useLoad((signal) => get(`compute/v2.1/servers/${id}`, { signal, past: true }).then((body) => body.server), ['server', id], { every: connected ? 20_000 : 2500 });
  useChanges((ids) => (!ids || ids.has(id)) && load.reload());
  const server = load.data;
  // The API does not find a deleted server any more, but the log still has its events.
  const gone = load.error?.status === 404 && viewer.may.audit;
  const tabs = [['details', 'Details'], ['timeline', 'Timeline'], ...(viewer.may.scheduling && !at ? [['why', 'Why this host']] : []), ...(viewer.may.output && !at ? [['output', 'Serial output']] : [])];
  const shown = tabs.some(([name]) => name === tab) ? tab : 'details';
  return html`<div class="title"><h1>${server ? server.name : 'Server'} ${server && html`<span id="status">${state(server)}</span>`}</h1></div>
    <${Trouble} load=${load} what="server" />
    ${gone && html`<h2>What the log tells of it</h2><${Timeline} id=${id} viewer=${viewer} />`}
    ${server && html`<${Actions} server=${server} reload=${load.reload} viewer=${viewer} />
      <${Tabs} label="About the server" tabs=${tabs} tab=${shown} onTab=${setTab}>
        ${shown === 'details' && html`<${Details} server=${server} viewer=${viewer} reload=${load.reload} />`}
        ${shown === 'timeline' && html`<${Timeline} id=${id} viewer=${viewer} />`}
        ${shown === 'why' && html`<${Decisions} id=${id} />`}
        ${shown === 'output' && html`<${Output} id=${id} />`}
      <//>`}`;
}
