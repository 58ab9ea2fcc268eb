// The list of servers, with a filter and bulk actions. It follows changes.
import { html, useEffect, useMemo, useRef, useState } from '../lib/html.js';
import { doubling, list, serverNow } from '../lib/api.js';
import { act, ACTIONS, fits } from '../lib/actions.js';
import { alive, useChanges } from '../lib/live.js';
import { moment, say } from '../lib/state.js';
import { useLoad } from '../lib/load.js';
import { Act, Badge, Table, Trouble, time } from '../lib/ui.js';
import { Name } from '../lib/who.js';

const DETAIL = 'compute/v2.1/servers/detail';
/** Queries for changes overlap by this time, because an answer may miss a change that is older than the answer. */
const OVERLAP = 5000;

export const addresses = (server) => Object.values(server.addresses || {}).flat().map((one) => one.addr).join(', ');
const host = (server) => server['OS-EXT-SRV-ATTR:host'];

export const state = (server) => html`<${Badge}>${server.status}<//>${server['OS-EXT-STS:task_state'] && html` <small class="quiet">${server['OS-EXT-STS:task_state']}</small>`}`;

/** Loads all servers, then only those that changed since. */
function useServers(everywhere) {
  const [shown, setShown] = useState({ of: '', rows: /** @type {any[]} */ ([]) });
  const seen = useRef({ of: '', since: '', byId: new Map() });
  const missed = useRef(false);
  const connected = alive.use();
  const at = moment.use();
  // The key of the present scope and moment. Rows that were loaded for another key are not shown.
  const of = `${everywhere} ${at}`;
  const query = everywhere ? { all_tenants: 1 } : {};
  const load = useLoad(async (signal) => {
    const known = seen.current;
    const asked = new Date(serverNow() - OVERLAP).toISOString();
    if (known.of === of && known.since) {
      const changed = await list(DETAIL, 'servers', { signal, each: rowOf, query: { ...query, 'changes-since': known.since } });
      known.since = asked;
      if (changed.length === 0) return true;
      for (const server of changed) {
        if (server.status === 'DELETED' || server.status === 'SOFT_DELETED') known.byId.delete(server.id);
        else known.byId.set(server.id, server);
      }
      setShown({ of, rows: [...known.byId.values()] });
      return true;
    }
    const found = await list(DETAIL, 'servers', { signal, past: true, query, each: rowOf, onPage: doubling((rows) => setShown({ of, rows })) });
    const byId = new Map(found.map((server) => [server.id, server]));
    setShown({ of, rows: [...byId.values()] });
    seen.current = { of, since: at ? '' : asked, byId };
    return true;
  }, ['servers', everywhere], { every: connected ? 30_000 : 2500 });
  useChanges(() => {
    // A reload now would start a long first load again, so the reload waits until that load has ended.
    if (seen.current.of === of) load.reload();
    else missed.current = true;
  });
  useEffect(() => {
    if (!load.data || !missed.current) return;
    missed.current = false;
    load.reload();
  }, [load.data]);
  return { load, rows: shown.of === of ? shown.rows : NONE };
}

const NONE = /** @type {any[]} */ ([]);
const COLUMNS = [
  { name: 'name', title: 'Name', value: (s) => s.name, show: (s) => html`<a href=${`#/servers/${s.id}`}>${s.name}</a>` },
  { name: 'status', title: 'Status', value: (s) => s.status, show: state },
  { name: 'addresses', title: 'Addresses', show: (s) => s.addresses },
  { name: 'flavor', title: 'Flavor', value: (s) => s.flavor, show: (s) => s.flavor },
  { name: 'created', title: 'Created', value: (s) => s.created, show: (s) => html`<span class="num">${time(s.created)}</span>` },
];
const HOST = { name: 'host', title: 'Host', value: host, show: host };
const PROJECT = { name: 'project', title: 'Project', value: (s) => s.tenant_id, show: (s) => html`<${Name} kind="projects" id=${s.tenant_id} />` };

/** The parts of a server that the list keeps, and the text that the filter searches. 100,000 whole servers are too much. */
function rowOf(server) {
  const [found, flavor] = [addresses(server), server.flavor?.original_name];
  return {
    id: server.id, name: server.name, status: server.status, created: server.created, tenant_id: server.tenant_id, addresses: found, flavor,
    'OS-EXT-STS:task_state': server['OS-EXT-STS:task_state'], 'OS-EXT-SRV-ATTR:host': host(server),
    text: `${server.name} ${server.id} ${server.status} ${found} ${host(server) || ''} ${flavor}`.toLowerCase(),
  };
}

/** Performs an action on several servers, a few at a time. Reports the number of refusals and the first reason. */
async function forEach(servers, action) {
  const failures = [];
  const waiting = [...servers];
  const worker = async () => {
    for (let one = waiting.shift(); one; one = waiting.shift()) await act(action, one.id).catch((error) => failures.push(error.message));
  };
  await Promise.all(Array.from({ length: 6 }, worker));
  if (failures.length) say(`${failures.length} of ${servers.length} were refused: ${failures[0]}`, true);
  else say(`${action.name}: accepted for ${servers.length} server(s).`);
}

function Bulk({ picked, viewer, clear }) {
  const offered = ACTIONS.filter((action) => action.bulk && viewer.may.rules[action.rule]);
  const fitting = useMemo(() => new Map(offered.map((action) => [action.name, picked.filter((server) => fits(action, server))])), [picked]);
  return html`<span class="row" role="group" aria-label="Selected servers">
    ${offered.map((action) => {
      const these = fitting.get(action.name) || NONE;
      const sure = action.sure && `${action.name} ${these.length} server(s)?`;
      return html`<${Act} key=${action.name} small danger=${action.danger} sure=${sure} disabled=${!these.length} on=${() => forEach(these, action).then(clear)}>${action.name}<//>`;
    })}
    ${picked.length > 0 && html`<span class="quiet" role="status">${picked.length} selected</span>`}
  </span>`;
}

export default function Servers({ viewer, query }) {
  const [everywhere, setEverywhere] = useState(Boolean(viewer.may.all && (!viewer.project || query.get('host'))));
  const [filter, setFilter] = useState(query.get('host') || query.get('filter') || '');
  const [selected, setSelected] = useState(new Set());
  const { load, rows } = useServers(everywhere);
  const last = useRef({ rows: NONE, filter: '', found: NONE });
  const shown = useMemo(() => {
    const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
    // A longer filter searches only the rows that the shorter filter has found.
    const narrower = last.current.rows === rows && filter.startsWith(last.current.filter);
    const found = words.length ? (narrower ? last.current.found : rows).filter((s) => words.every((word) => s.text.includes(word))) : rows;
    last.current = { rows, filter, found };
    return found;
  }, [rows, filter]);
  const picked = useMemo(() => (selected.size ? shown.filter((s) => selected.has(s.id)) : NONE), [shown, selected]);
  const here = useMemo(() => new Set(picked.map((s) => s.id)), [picked]);
  const columns = [...COLUMNS, ...(rows.some(host) ? [HOST] : []), ...(everywhere ? [PROJECT] : [])];
  const at = moment.use();
  const launch = at || !viewer.may.create || !viewer.project
    ? html`<button type="button" disabled title=${at ? 'The past cannot be changed.' : 'Your roles do not allow this.'}>Launch</button>`
    : html`<a class="button primary" href="#/launch">Launch</a>`;
  return html`<div class="title"><h1>Servers <span class="quiet" id="count">${shown.length}</span></h1>${launch}</div>
    <div class="row">
      <input type="search" id="filter" placeholder="Filter: name, id, status, address, host" aria-label="Filter servers" value=${filter} onInput=${(e) => setFilter(e.target.value)} />
      ${viewer.may.all && html`<label class="check"><input type="checkbox" id="everywhere" checked=${everywhere} onChange=${(e) => setEverywhere(e.target.checked)} /> All projects</label>`}
      <${Bulk} picked=${picked} viewer=${viewer} clear=${() => setSelected(new Set())} />
    </div>
    <${Trouble} load=${load} what="list" />
    ${!load.error || rows.length ? html`<${Table} label="Servers" columns=${columns} rows=${shown} selected=${here} onSelect=${setSelected}
      empty=${load.busy && !load.data ? 'Loading…' : filter && rows.length ? 'No server fits the filter.' : at ? 'There were no servers then.' : 'There are no servers.'} />` : null}`;
}
