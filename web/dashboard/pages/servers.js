// The list of servers: filter, bulk actions; it follows changes while it is visible.
import { html, useEffect, useMemo, useRef, useState } from '../lib/html.js';
import { get, list, post, remove } from '../lib/api.js';
import { moment, say } from '../lib/state.js';
import { useLoad } from '../lib/load.js';
import { Act, Badge, Table, Trouble, short, time } from '../lib/ui.js';

const DETAIL = 'compute/v2.1/servers/detail';
/** Queries for changes overlap by this time, because an answer may miss a change that is older than the answer. */
const OVERLAP = 5000;

export const addresses = (server) => Object.values(server.addresses || {}).flat().map((one) => one.addr).join(', ');
const host = (server) => server['OS-EXT-SRV-ATTR:host'];

export const state = (server) => html`<${Badge}>${server.status}<//>${server['OS-EXT-STS:task_state'] && html` <small class="quiet">${server['OS-EXT-STS:task_state']}</small>`}`;

/** Loads all servers, then only those that changed since. */
function useServers(everywhere) {
  const [rows, setRows] = useState(/** @type {any[]} */ ([]));
  const seen = useRef({ since: '', byId: new Map() });
  const query = everywhere ? { all_tenants: 1 } : {};
  const load = useLoad(async (signal) => {
    const known = seen.current;
    const asked = new Date(Date.now() - OVERLAP).toISOString();
    if (known.of === everywhere && known.since && !moment.get()) {
      const changed = await list(DETAIL, 'servers', { signal, query: { ...query, 'changes-since': known.since } });
      known.since = asked;
      if (changed.length === 0) return true;
      for (const server of changed) {
        if (server.status === 'DELETED' || server.status === 'SOFT_DELETED') known.byId.delete(server.id);
        else known.byId.set(server.id, server);
      }
    } else {
      const fresh = { of: everywhere, since: moment.get() ? '' : asked, byId: new Map() };
      seen.current = fresh;
      const fill = (all) => {
        for (const server of all) fresh.byId.set(server.id, server);
        setRows([...fresh.byId.values()]);
      };
      await list(DETAIL, 'servers', { signal, past: true, query, onPage: fill });
    }
    setRows([...seen.current.byId.values()]);
    return true;
  }, ['servers', everywhere], { every: 2500 });
  const at = moment.use();
  useEffect(() => {
    setRows([]);
    seen.current = { since: '', byId: new Map() };
  }, [at, everywhere]);
  return { load, rows };
}

const COLUMNS = [
  { name: 'name', title: 'Name', value: (s) => s.name, show: (s) => html`<a href=${`#/servers/${s.id}`}>${s.name}</a>` },
  { name: 'status', title: 'Status', value: (s) => s.status, show: state },
  { name: 'addresses', title: 'Addresses', show: addresses },
  { name: 'flavor', title: 'Flavor', value: (s) => s.flavor?.original_name, show: (s) => s.flavor?.original_name },
  { name: 'created', title: 'Created', value: (s) => s.created, show: (s) => time(s.created) },
];
const HOST = { name: 'host', title: 'Host', value: host, show: host };
const PROJECT = { name: 'project', title: 'Project', value: (s) => s.tenant_id, show: (s) => html`<span title=${s.tenant_id}>${short(s.tenant_id)}</span>` };

const BULK = [
  ['Start', (id) => post(`compute/v2.1/servers/${id}/action`, { 'os-start': null })],
  ['Stop', (id) => post(`compute/v2.1/servers/${id}/action`, { 'os-stop': null })],
  ['Reboot', (id) => post(`compute/v2.1/servers/${id}/action`, { reboot: { type: 'SOFT' } })],
];
const DELETE = (id) => remove(`compute/v2.1/servers/${id}`);

/** Performs an action on several servers, a few at a time. Reports the number of refusals and the first reason. */
async function all(ids, act) {
  const failures = [];
  const waiting = [...ids];
  const worker = async () => {
    for (let id = waiting.shift(); id; id = waiting.shift()) await act(id).catch((error) => failures.push(error.message));
  };
  await Promise.all(Array.from({ length: 6 }, worker));
  if (failures.length) say(`${failures.length} of ${ids.size} were refused: ${failures[0]}`, true);
}

export default function Servers({ viewer, query }) {
  const [everywhere, setEverywhere] = useState(Boolean(viewer.may.all && (!viewer.project || query.get('host'))));
  const [filter, setFilter] = useState(query.get('host') || '');
  const [selected, setSelected] = useState(new Set());
  const { load, rows } = useServers(everywhere);
  const shown = useMemo(() => {
    const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
    const text = (s) => `${s.name} ${s.id} ${s.status} ${addresses(s)} ${host(s) || ''} ${s.flavor?.original_name}`.toLowerCase();
    return words.length ? rows.filter((s) => words.every((word) => text(s).includes(word))) : rows;
  }, [rows, filter]);
  const here = new Set([...selected].filter((id) => shown.some((s) => s.id === id)));
  const columns = [...COLUMNS, ...(rows.some(host) ? [HOST] : []), ...(everywhere ? [PROJECT] : [])];
  const act = (one) => () => all(here, one).then(() => setSelected(new Set()));
  const at = moment.use();
  return html`<div class="title"><h1>Servers <span class="quiet" id="count">${shown.length}</span></h1>
      ${at ? html`<button type="button" disabled title="The past cannot be changed.">Launch</button>` : html`<a class="button primary" href="#/launch">Launch</a>`}</div>
    <div class="row">
      <input type="search" id="filter" placeholder="Filter: name, id, status, address, host" aria-label="Filter servers" value=${filter} onInput=${(e) => setFilter(e.target.value)} />
      ${viewer.may.all && html`<label class="check"><input type="checkbox" id="everywhere" checked=${everywhere} onChange=${(e) => setEverywhere(e.target.checked)} /> All projects</label>`}
      <span class="row" role="group" aria-label="Selected servers">
        ${BULK.map(([name, one]) => html`<${Act} small disabled=${!here.size} on=${act(one)}>${name}<//>`)}
        <${Act} small danger disabled=${!here.size} sure=${`Delete ${here.size} server(s)?`} on=${act(DELETE)}>Delete<//>
      </span>
    </div>
    <${Trouble} load=${load} what="list" />
    ${!load.error || rows.length ? html`<${Table} label="Servers" columns=${columns} rows=${shown} selected=${here} onSelect=${setSelected}
      empty=${load.busy && !load.data ? 'Loading…' : at ? 'There were no servers then.' : 'There are no servers.'} />` : null}`;
}
