// The compute hosts: capacity, state, service, drain and maintenance.
import { html, useMemo, useState } from '../lib/html.js';
import { CAPACITY, doubling, get, list, post, put, remove } from '../lib/api.js';
import { moment } from '../lib/state.js';
import { useLoad } from '../lib/load.js';
import { Plan } from './scheduler.js';
import { Act, Badge, Facts, Meter, Table, Tiles, Trouble, gibibytes, having, mebibytes, time } from '../lib/ui.js';

/** The rows of the table: hosts, with their services and drains as far as they are known. */
function rowsOf(hosts, services, own) {
  const service = new Map((services || []).map((one) => [one.host, one]));
  const drains = new Map((own || []).map((one) => [one.name, one]));
  const row = (one) => ({
    ...one, name: one.hypervisor_hostname, text: `${one.hypervisor_hostname} ${one.state} ${one.status}`.toLowerCase(),
    service_: service.get(one.service.host), own: drains.get(one.service.host),
  });
  return hosts.map(row).sort((a, b) => (a.name < b.name ? -1 : 1));
}

const SHOWN = ['id', 'hypervisor_hostname', 'hypervisor_type', 'hypervisor_version', 'host_ip', 'state', 'status', 'service', 'running_vms', 'vcpus', 'vcpus_used', 'memory_mb', 'memory_mb_used', 'local_gb', 'local_gb_used'];
/** The parts of a host that the page shows. 10,000 whole hosts would make the browser pause to collect garbage. */
const short = (host) => Object.fromEntries(SHOWN.map((name) => [name, host[name]]));

/** Hosts with their services and drains; for a past moment, hosts alone. The first hosts are shown without the rest. */
async function fleet(signal, viewer, tell) {
  const at = moment.get();
  const [hosts, services, own] = await Promise.all([
    list('compute/v2.1/os-hypervisors/detail', 'hypervisors', { signal, past: true, version: CAPACITY, each: short, onPage: doubling((found) => tell(rowsOf(found, null, null))) }),
    at ? null : get('compute/v2.1/os-services', { signal, query: { binary: 'nova-compute' } }).then((body) => body.services),
    at || !viewer.may.hosts ? null : get('chronova/v1/hosts', { signal }).then((body) => body.hosts),
  ]);
  return rowsOf(hosts, services, own);
}

const share = (used, total) => (total ? used / total : 0);
const COLUMNS = [
  { name: 'name', title: 'Host', value: (h) => h.name, show: (h) => html`<a href=${`#/fleet?host=${encodeURIComponent(h.name)}`}>${h.name}</a>` },
  { name: 'state', title: 'State', value: (h) => h.state, show: (h) => html`<${Badge}>${h.state}<//>` },
  { name: 'status', title: 'Service', value: (h) => h.status, show: (h) => html`<${Badge}>${h.status}<//> ${h.own?.draining && html`<${Badge}>draining<//>`} ${h.own?.maintenance && html`<${Badge}>maintenance<//>`}` },
  { name: 'servers', title: 'Servers', value: (h) => h.running_vms, show: (h) => h.running_vms },
  { name: 'cpu', title: 'CPU', value: (h) => share(h.vcpus_used, h.vcpus), show: (h) => html`<${Meter} used=${h.vcpus_used} total=${h.vcpus} label="CPUs used" />` },
  { name: 'memory', title: 'Memory', value: (h) => share(h.memory_mb_used, h.memory_mb), show: (h) => html`<${Meter} used=${h.memory_mb_used} total=${h.memory_mb} show=${mebibytes} label="memory used" />` },
  { name: 'disk', title: 'Disk', value: (h) => share(h.local_gb_used, h.local_gb), show: (h) => html`<${Meter} used=${h.local_gb_used} total=${h.local_gb} show=${gibibytes} label="disk used" />` },
];

const DRAINED = [
  { name: 'name', title: 'Server', value: (s) => s.name, show: (s) => html`<a href=${`#/servers/${s.server}`}>${s.name || s.server}</a>` },
  { name: 'state', title: 'State', value: (s) => s.state, show: (s) => html`<${Badge}>${s.state}<//>` },
  { name: 'to', title: 'To', value: (s) => s.to, show: (s) => s.to },
  { name: 'note', title: 'Note', value: (s) => s.note, show: (s) => html`<span title=${s.note}>${s.note}</span>` },
];

/** The part of a guest's memory that is on its new host. */
const sent = (one) => (one.memory_total_bytes ? `, ${Math.round(100 * (1 - one.memory_remaining_bytes / one.memory_total_bytes))} % of the memory sent` : '');

function Drain({ drain }) {
  const done = drain.left.length;
  const total = done + drain.leaving.length + drain.stays.length + drain.waiting;
  const rows = [
    ...drain.leaving.map((one) => ({ ...one, state: 'leaving', note: `${one.how} ${one.status || ''}${sent(one)}` })),
    ...drain.stays.map((one) => ({ ...one, state: 'stays', note: one.reason })),
    ...drain.left.map((one) => ({ ...one, state: 'left', note: '' })),
  ].map((one) => ({ ...one, id: one.server }));
  return html`<h2>Drain <${Badge}>${drain.status}<//></h2>
    <p><${Meter} used=${done} total=${total} unit="servers have left" label="servers that have left" />, ${drain.waiting} wait; began ${time(drain.requested_at)}${drain.ended_at && `, ended ${time(drain.ended_at)}`}</p>
    ${rows.length > 0 && html`<${Table} low label="Servers of the drain" columns=${DRAINED} rows=${rows} rowClass=${(one) => (one.state === 'stays' ? 'bad' : '')} />`}`;
}

function Host({ name, host, viewer, reload }) {
  const detail = useLoad((signal) => (moment.get() || !viewer.may.hosts ? Promise.resolve(null) : get(`chronova/v1/hosts/${encodeURIComponent(name)}`, { signal }).then((body) => body.host)), ['host', name], { every: 2000 });
  const [why, setWhy] = useState('');
  const [planned, setPlanned] = useState(false);
  const own = detail.data;
  const at = `chronova/v1/hosts/${encodeURIComponent(name)}`;
  const again = () => { reload(); detail.reload(); };
  const reason = why ? { reason: why } : {};
  const enable = (status) => put(`compute/v2.1/os-services/${host.service_.id}`, { status, ...(status === 'disabled' && why ? { disabled_reason: why } : {}) }).then(again);
  return html`<section class="sheet" aria-label=${`Host ${name}`} id="host"><h2>${name}</h2>
    <${Facts} items=${[
      ['Address', host.host_ip], ['Hypervisor', `${host.hypervisor_type} ${host.hypervisor_version}`], ['Zone', host.service_?.zone],
      ['Disabled because', host.service_?.disabled_reason || host.service.disabled_reason], ['Last heard of', time(host.service_?.updated_at)],
      ['Maintenance', own?.maintenance && `${own.maintenance.reason || 'yes'}, since ${time(own.maintenance.since)}`],
      ['Servers', html`<a href=${`#/servers?host=${encodeURIComponent(name)}`}>${host.running_vms}, in the list</a>`],
    ]} />
    <div class="row" role="group" aria-label="Actions on the host">
      <input id="reason" class="grow" aria-label="Reason" placeholder="Reason" value=${why} onInput=${(e) => setWhy(e.target.value)} />
      ${host.service_ && viewer.may.services && (host.status === 'enabled'
        ? html`<${Act} done=${`${name} takes no new servers.`} on=${() => enable('disabled')}>Disable<//>`
        : html`<${Act} done=${`${name} takes servers again.`} on=${() => enable('enabled')}>Enable<//>`)}
      ${own && viewer.may.drain && (own.draining
        ? html`<${Act} on=${() => remove(`${at}/drain`).then(again)}>Cancel the drain<//>`
        : html`<${Act} danger sure=${`Move all servers away from ${name}?`} on=${() => post(`${at}/drain`, { drain: reason }).then(again)}>Drain<//>`)}
      ${own && viewer.may.maintenance && (own.maintenance
        ? html`<${Act} on=${() => remove(`${at}/maintenance`).then(again)}>End maintenance<//>`
        : html`<${Act} danger sure=${`Empty ${name} and take it out of service?`} on=${() => put(`${at}/maintenance`, { maintenance: reason }).then(again)}>Maintenance<//>`)}
    </div>
    ${own && viewer.may.whatif && !own.draining && host.running_vms > 0 && html`<details class="dry" onToggle=${(e) => setPlanned(e.target.open)}><summary>Dry run: where its servers would go</summary>${planned && html`<${Plan} host=${name} />`}</details>`}
    ${own?.drain && html`<${Drain} drain=${own.drain} />`}
  </section>`;
}

const NONE = /** @type {any[]} */ ([]);

/** The numbers at the top of the page. */
function tilesOf(rows) {
  const up = rows.filter((row) => row.state === 'up').length;
  const sum = (name) => rows.reduce((all, row) => all + (row[name] || 0), 0);
  const part = (title, used, total, show = (n) => String(n)) => [title, html`${show(used)} <small>of ${show(total)}</small>`, [used, total]];
  return [
    part('Hosts up', up, rows.length), ['Servers', sum('running_vms')], part('CPUs', sum('vcpus_used'), sum('vcpus')),
    part('Memory', sum('memory_mb_used'), sum('memory_mb'), mebibytes), part('Disk', sum('local_gb_used'), sum('local_gb'), gibibytes),
  ];
}

export default function Fleet({ viewer, query }) {
  const load = useLoad((signal, tell) => fleet(signal, viewer, tell), ['fleet'], { every: 4000 });
  const [filter, setFilter] = useState('');
  const rows = load.data || NONE;
  const shown = useMemo(() => having(rows, filter), [rows, filter]);
  const wanted = query.get('host');
  const chosen = useMemo(() => (wanted ? rows.find((row) => row.name === wanted) : undefined), [rows, wanted]);
  const tiles = useMemo(() => tilesOf(rows), [rows]);
  return html`<div class="title"><h1>Fleet <span class="quiet" id="count">${rows.length}</span></h1></div>
    <${Trouble} load=${load} what="fleet" />
    ${load.data && html`
      <${Tiles} items=${tiles} />
      <div class="row"><input type="search" id="filter" aria-label="Filter hosts" placeholder="Filter: name, state, service" value=${filter} onInput=${(e) => setFilter(e.target.value)} /></div>
      <${Table} label="Hosts" columns=${COLUMNS} rows=${shown} low=${Boolean(chosen)} chosen=${chosen?.id} empty=${moment.get() ? 'There were no hosts then.' : 'There are no hosts.'} />
      ${chosen && html`<${Host} key=${chosen.name} name=${chosen.name} host=${chosen} viewer=${viewer} reload=${load.reload} />`}`}`;
}
