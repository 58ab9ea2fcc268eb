// The difference of two moments: servers and hosts that were added, removed or changed.
import { html, useEffect, useMemo, useState } from '../lib/html.js';
import { CAPACITY, list } from '../lib/api.js';
import { moment } from '../lib/state.js';
import { useLoad } from '../lib/load.js';
import { Choice, Field, Notice, Table, Tiles, Trouble, time } from '../lib/ui.js';
import { addresses } from './servers.js';

/** The compared fields: name, and how a server or host shows it. */
const FIELDS = {
  server: {
    name: (s) => s.name, status: (s) => s.status, task: (s) => s['OS-EXT-STS:task_state'], host: (s) => s['OS-EXT-SRV-ATTR:host'], flavor: (s) => s.flavor?.original_name,
    addresses, volumes: (s) => (s['os-extended-volumes:volumes_attached'] || []).map((one) => one.id).sort().join(', '),
    metadata: (s) => JSON.stringify(s.metadata || {}), tags: (s) => (s.tags || []).join(', '), locked: (s) => String(s.locked), fault: (s) => s.fault?.message,
  },
  host: {
    state: (h) => h.state, status: (h) => h.status, servers: (h) => h.running_vms, 'CPUs used': (h) => h.vcpus_used, CPUs: (h) => h.vcpus,
    'memory used': (h) => h.memory_mb_used, memory: (h) => h.memory_mb, 'disk used': (h) => h.local_gb_used, disk: (h) => h.local_gb,
  },
};

/** The differences of two lists, as rows: added items, removed items, and each changed field. */
export function difference(kind, before, after) {
  const [old, fresh] = [before, after].map((all) => new Map(all.map((one) => [one.id, one])));
  const rows = [];
  const row = (one, change, field, was, is) => rows.push({ id: `${one.id} ${field}`, kind, key: one.id, name: one.name || one.hypervisor_hostname, change, field, was, is });
  for (const [id, one] of old) if (!fresh.has(id)) row(one, 'gone', '', one.status, '');
  for (const [id, one] of fresh) {
    const earlier = old.get(id);
    if (!earlier) {
      row(one, 'new', '', '', one.status);
      continue;
    }
    for (const [field, read] of Object.entries(FIELDS[kind])) {
      const [was, is] = [read(earlier) ?? '', read(one) ?? ''];
      if (was !== is) row(one, 'changed', field, was, is);
    }
  }
  return rows;
}

async function states(at, viewer, signal) {
  const past = at ? { as_of: at } : {};
  const everything = viewer.may.all ? { all_tenants: 1 } : {};
  const [servers, hosts] = await Promise.all([
    list('compute/v2.1/servers/detail', 'servers', { signal, query: { ...past, ...everything } }),
    viewer.may.fleet ? list('compute/v2.1/os-hypervisors/detail', 'hypervisors', { signal, version: CAPACITY, query: past }) : [],
  ]);
  return { servers, hosts };
}

const CHANGES = { new: 'good', gone: 'bad', changed: '' };
const columns = (from, to) => [
  { name: 'change', title: 'Change', value: (r) => r.change, show: (r) => html`<span class=${`badge ${CHANGES[r.change]}`}>${r.change}</span>` },
  { name: 'kind', title: 'Kind', value: (r) => r.kind, show: (r) => r.kind },
  { name: 'name', title: 'Name', value: (r) => r.name, show: (r) => html`<a href=${r.kind === 'server' ? `#/servers/${r.key}?tab=timeline` : `#/fleet?host=${encodeURIComponent(r.name)}`}>${r.name}</a>` },
  { name: 'field', title: 'Field', value: (r) => r.field, show: (r) => r.field },
  { name: 'was', title: 'Before', show: (r) => html`<span class=${r.change === 'new' ? '' : 'was'} title=${r.was}>${r.was}</span>` },
  { name: 'is', title: 'After', show: (r) => html`<span class="became" title=${r.is}>${r.is}</span>` },
  { name: 'who', title: 'Who and why', show: (r) => r.kind === 'server' && html`<a href=${`#/audit?server=${r.key}&since=${encodeURIComponent(from)}${to ? `&until=${encodeURIComponent(to)}` : ''}`}>the log between</a>` },
];

/** `2026-01-31T12:00:00` in UTC, the format of the input field. */
const field = (iso) => (iso ? iso.slice(0, 19) : '');

export default function Compare({ viewer, query }) {
  const bar = moment.use();
  const hourAgo = useMemo(() => new Date(Date.now() - 3_600_000).toISOString(), []);
  const [from, setFrom] = useState(query.get('from') || bar || hourAgo);
  const [to, setTo] = useState(query.get('to') || '');
  const [only, setOnly] = useState('');
  // A comparison reads all servers and hosts of both moments, so it begins only for a moment that the viewer has chosen.
  const [asked, setAsked] = useState(from !== hourAgo);
  const wanted = query.get('from');
  useEffect(() => {
    if (!wanted) return;
    setFrom(wanted);
    setAsked(true);
  }, [wanted]);
  const load = useLoad(async (signal) => {
    if (!asked) return null;
    if (to && to < from) throw Object.assign(new Error('The second moment is before the first.'), { status: 400 });
    const [before, after] = await Promise.all([states(from, viewer, signal), states(to, viewer, signal)]);
    return { before, after, rows: [...difference('server', before.servers, after.servers), ...difference('host', before.hosts, after.hosts)] };
  }, ['compare', asked, asked && from, asked && to]);
  const rows = load.data?.rows || [];
  const of = (change) => rows.filter((one) => one.change === change).length;
  const shown = only ? rows.filter((one) => one.change === only || one.kind === only) : rows;
  const change = (set) => (event) => set(event.target.value ? new Date(`${event.target.value}Z`).toISOString() : '');
  return html`<div class="title"><h1>Compare two moments</h1></div>
    <div class="row end">
      <${Field} label="Before (UTC)"><input id="from" type="datetime-local" step="1" value=${field(from)} onChange=${change((value) => value && setFrom(value))} /><//>
      <${Field} label="After (UTC); empty: now"><input id="to" type="datetime-local" step="1" value=${field(to)} onChange=${change(setTo)} /><//>
      <${Field} label="Show"><${Choice} id="only" value=${only} onChange=${setOnly} options=${[['', 'Everything'], ['new', 'New'], ['gone', 'Gone'], ['changed', 'Changed'], ['server', 'Servers'], ['host', 'Hosts']]} /><//>
      <button type="button" class=${asked ? '' : 'primary'} id="ask" onClick=${asked ? load.reload : () => setAsked(true)}>${asked ? 'Compare again' : 'Compare'}</button>
    </div>
    ${asked ? html`<${Trouble} load=${load} what="moment" />` : html`<p class="quiet">A comparison reads all servers and hosts of both moments.</p>`}
    ${load.data && html`
      <${Tiles} items=${[['Servers before', load.data.before.servers.length], ['Servers after', load.data.after.servers.length], ['New', of('new')], ['Gone', of('gone')], ['Changed fields', of('changed')]]} />
      ${rows.length === 0 ? html`<${Notice}>Nothing differs between ${time(from)} and ${to ? time(to) : 'now'}.<//>`
        : html`<${Table} label="Differences" columns=${columns(from, to)} rows=${shown} empty="Nothing of this kind differs." />`}`}`;
}
