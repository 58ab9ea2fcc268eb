// One server: its fields, its actions, and its timeline.
import { html, useState } from '../lib/html.js';
import { get, post, remove } from '../lib/api.js';
import { moment } from '../lib/state.js';
import { useLoad } from '../lib/load.js';
import { Act, Facts, Notice, Trouble, time } from '../lib/ui.js';
import { Name } from '../lib/who.js';
import { state } from './servers.js';
import { Timeline } from './timeline.js';

/** The actions: name, body, allowed states (`null` for all), and a further condition. */
const ACTIONS = [
  ['Start', { 'os-start': null }, ['SHUTOFF']],
  ['Stop', { 'os-stop': null }, ['ACTIVE', 'ERROR']],
  ['Reboot', { reboot: { type: 'SOFT' } }, ['ACTIVE']],
  ['Hard reboot', { reboot: { type: 'HARD' } }, ['ACTIVE', 'SHUTOFF', 'ERROR', 'PAUSED', 'SUSPENDED', 'HARD_REBOOT', 'REBOOT']],
  ['Pause', { pause: null }, ['ACTIVE']],
  ['Unpause', { unpause: null }, ['PAUSED']],
  ['Suspend', { suspend: null }, ['ACTIVE']],
  ['Resume', { resume: null }, ['SUSPENDED']],
  ['Shelve', { shelve: null }, ['ACTIVE', 'SHUTOFF', 'PAUSED', 'SUSPENDED']],
  ['Unshelve', { unshelve: null }, ['SHELVED', 'SHELVED_OFFLOADED']],
  ['Lock', { lock: null }, null, (server) => !server.locked],
  ['Unlock', { unlock: null }, null, (server) => server.locked],
  ['Confirm resize', { confirmResize: null }, ['VERIFY_RESIZE']],
  ['Revert resize', { revertResize: null }, ['VERIFY_RESIZE']],
];

function Actions({ server, reload }) {
  const at = `compute/v2.1/servers/${server.id}`;
  const fitting = ACTIONS.filter(([, , states, fits]) => (!states || states.includes(server.status)) && (!fits || fits(server)));
  return html`<div class="row" role="group" aria-label="Actions" id="actions">
    ${fitting.map(([name, body]) => html`<${Act} key=${name} done=${`${name}: accepted.`} on=${() => post(`${at}/action`, body).then(reload)}>${name}<//>`)}
    <${Act} danger sure=${`Delete ${server.name}? Its disks that are no volumes are lost.`} done=${`${server.name} is being deleted.`}
      on=${() => remove(at).then(reload)}>Delete<//>
    ${!moment.get() && html`<a class="button" href=${`#/servers/${server.id}/console`}>Console</a>`}
  </div>`;
}

function Details({ server, viewer }) {
  const host = server['OS-EXT-SRV-ATTR:host'];
  const volumes = server['os-extended-volumes:volumes_attached'] || [];
  const extra = (map) => Object.entries(map || {}).map(([key, value]) => html`<div>${key}: ${String(value)}</div>`);
  return html`
    ${server.fault && html`<${Notice} bad><b>${server.fault.code}</b> ${server.fault.message} <span class="num">${time(server.fault.created)}</span>
      ${server.fault.details && html`<pre tabindex="0">${server.fault.details}</pre>`}<//>`}
    <${Facts} items=${[
      ['Id', html`<span class="mono">${server.id}</span>`],
      ['Created', time(server.created)], ['Changed', time(server.updated)],
      ['Flavor', server.flavor && `${server.flavor.original_name}: ${server.flavor.vcpus} CPU, ${server.flavor.ram} MiB, ${server.flavor.disk} GiB`],
      ['Image', server.image?.id && html`<span class="mono">${server.image.id}</span>`],
      ['Key pair', server.key_name], ['Locked', server.locked ? `yes${server.locked_reason ? `: ${server.locked_reason}` : ''}` : null],
      ['Availability zone', server['OS-EXT-AZ:availability_zone']],
      ['Host', host && html`<a href=${`#/fleet?host=${encodeURIComponent(host)}`}>${host}</a>`],
      ['Name on the host', server['OS-EXT-SRV-ATTR:instance_name']],
      ['Project', html`<${Name} kind="projects" id=${server.tenant_id} />`], ['User', html`<${Name} kind="users" id=${server.user_id} />`],
      ['Security groups', (server.security_groups || []).map((one) => one.name).join(', ')],
      ['Volumes', volumes.length ? volumes.map((one) => html`<div class="mono">${one.id}</div>`) : null],
      ['Tags', (server.tags || []).join(', ')], ['Metadata', Object.keys(server.metadata || {}).length ? extra(server.metadata) : null],
    ]} />
    <h2>Addresses</h2>
    <${Facts} items=${Object.entries(server.addresses || {}).map(([network, all]) => [network, all.map((one) => html`<div>${one.addr} <span class="quiet">${one['OS-EXT-IPS:type']} ${one['OS-EXT-IPS-MAC:mac_addr']}</span></div>`)])} />
    ${viewer.may.audit && html`<p><a href=${`#/audit?server=${server.id}`}>Everything that the log says about it</a>
      ${viewer.may.placement && html`, <a href=${`#/placement?consumer=${server.id}`}>what it has claimed</a>`}</p>`}`;
}

export default function Server({ id, viewer, query }) {
  const [tab, setTab] = useState(query.get('tab') || 'details');
  const load = useLoad((signal) => get(`compute/v2.1/servers/${id}`, { signal, past: true }).then((body) => body.server), ['server', id], { every: 2500 });
  const server = load.data;
  const tabs = [['details', 'Details'], ['timeline', 'Timeline']];
  // The API does not find a deleted server any more, but the log still has its events.
  const gone = load.error?.status === 404 && viewer.may.audit;
  const shown = gone ? 'timeline' : tab;
  const move = (event) => {
    if (event.key !== 'ArrowLeft' && event.key !== 'ArrowRight') return;
    setTab(tab === 'details' ? 'timeline' : 'details');
    event.currentTarget.querySelector('[aria-selected=false]')?.focus();
  };
  return html`<div class="title"><h1>${server ? server.name : 'Server'} ${server && html`<span id="status">${state(server)}</span>`}</h1></div>
    <${Trouble} load=${load} what="server" />
    ${server && html`<${Actions} server=${server} reload=${load.reload} />`}
    ${server && html`<div class="tabs" role="tablist" aria-label="About the server" onKeyDown=${move}>${tabs.map(([name, title]) => html`
      <button type="button" role="tab" id=${`tab-${name}`} aria-controls="panel" tabindex=${tab === name ? 0 : -1} aria-selected=${String(tab === name)} onClick=${() => setTab(name)}>${title}</button>`)}</div>`}
    ${(server || gone) && html`<div id="panel" role=${server ? 'tabpanel' : undefined} aria-labelledby=${server ? `tab-${tab}` : undefined}>
      ${shown === 'details' && server ? html`<${Details} server=${server} viewer=${viewer} />` : html`${gone && html`<h2>What the log tells of it</h2>`}<${Timeline} id=${id} viewer=${viewer} />`}</div>`}`;
}
