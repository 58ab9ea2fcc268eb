// Resource providers: their tree, inventories, usages and allocations; also the allocations of one consumer.
import { html, useMemo, useState } from '../lib/html.js';
import { get } from '../lib/api.js';
import { useLoad } from '../lib/load.js';
import { Facts, Meter, Table, Trouble, having, short } from '../lib/ui.js';

const usable = (inventory) => Math.floor((inventory.total - inventory.reserved) * inventory.allocation_ratio);

/** Providers in tree order: each parent before its children; `depth` is the level. */
function tree(providers) {
  const children = new Map();
  for (const one of providers) {
    const key = one.parent_provider_uuid || '';
    const known = children.get(key);
    if (known) known.push(one);
    else children.set(key, [one]);
  }
  const rows = [];
  const walk = (key, depth) => {
    for (const one of (children.get(key) || []).sort((a, b) => (a.name < b.name ? -1 : 1))) {
      rows.push({ ...one, id: one.uuid, depth, text: `${one.name} ${one.uuid}`.toLowerCase() });
      walk(one.uuid, depth + 1);
    }
  };
  walk('', 0);
  return rows;
}

const COLUMNS = [
  { name: 'name', title: 'Provider', value: (p) => p.name, show: (p) => html`<a href=${`#/placement?provider=${p.uuid}`}>${'\u00a0\u00a0'.repeat(p.depth * 2)}${p.depth ? '└ ' : ''}${p.name}</a>` },
  { name: 'uuid', title: 'Id', show: (p) => html`<span class="mono">${p.uuid}</span>` },
  { name: 'generation', title: 'Generation', value: (p) => p.generation, show: (p) => p.generation },
];
const INVENTORY = [
  { name: 'class', title: 'Class', value: (r) => r.id, show: (r) => r.id },
  { name: 'used', title: 'Used', value: (r) => r.used / (usable(r) || 1), show: (r) => html`<${Meter} used=${r.used} total=${usable(r)} label=${`${r.id} used`} />` },
  ...['total', 'reserved', 'allocation_ratio', 'min_unit', 'max_unit', 'step_size'].map((name) => ({ name, title: name.replaceAll('_', ' '), show: (r) => r[name] })),
];
const ALLOCATIONS = [
  { name: 'consumer', title: 'Consumer', value: (r) => r.id, show: (r) => html`<a href=${`#/servers/${r.id}`} class="mono">${r.id}</a>` },
  { name: 'resources', title: 'Resources', show: (r) => Object.entries(r.resources).map(([key, value]) => `${key} ${value}`).join(', ') },
];

function Provider({ provider }) {
  const at = `placement/resource_providers/${provider.uuid}`;
  const load = useLoad(async (signal) => {
    const [inventories, usages, allocations, traits, aggregates] = await Promise.all([
      get(`${at}/inventories`, { signal, past: true }), get(`${at}/usages`, { signal, past: true }), get(`${at}/allocations`, { signal, past: true }),
      get(`${at}/traits`, { signal, past: true }), get(`${at}/aggregates`, { signal, past: true }),
    ]);
    return {
      inventories: Object.entries(inventories.inventories).map(([id, one]) => ({ id, ...one, used: usages.usages[id] || 0 })),
      allocations: Object.entries(allocations.allocations).map(([id, one]) => ({ id, ...one })),
      traits: traits.traits, aggregates: aggregates.aggregates,
    };
  }, ['provider', provider.uuid], { every: 5000 });
  return html`<section aria-label=${`Provider ${provider.name}`} id="provider"><h2>${provider.name}</h2>
    <${Trouble} load=${load} what="provider" />
    ${load.data && html`
      <${Table} label="Inventories" columns=${INVENTORY} rows=${load.data.inventories} empty="It offers nothing." />
      <h2>Allocations <span class="quiet">${load.data.allocations.length}</span></h2>
      <${Table} label="Allocations" columns=${ALLOCATIONS} rows=${load.data.allocations} empty="Nothing is claimed." />
      <details><summary>${load.data.traits.length} traits</summary><p class="mono">${load.data.traits.join(', ')}</p></details>
      ${load.data.aggregates.length > 0 && html`<p>Aggregates: ${load.data.aggregates.map(short).join(', ')}</p>`}`}
  </section>`;
}

function Consumer({ id, providers }) {
  const load = useLoad((signal) => get(`placement/allocations/${id}`, { signal, past: true }), ['consumer', id], { every: 5000 });
  const name = (uuid) => providers.find((one) => one.uuid === uuid)?.name || uuid;
  const items = Object.entries(load.data?.allocations || {});
  return html`<section aria-label="Consumer" id="consumer"><h2>Claimed by <a href=${`#/servers/${id}`} class="mono">${id}</a></h2>
    <${Trouble} load=${load} what="consumer" />
    ${load.data && (items.length
      ? html`<${Facts} items=${items.map(([uuid, one]) => [name(uuid), Object.entries(one.resources).map(([key, value]) => html`<div>${key} ${value}</div>`)])} />`
      : html`<p class="quiet">Nothing is claimed.</p>`)}</section>`;
}

const NONE = /** @type {any[]} */ ([]);

export default function Placement({ query }) {
  const load = useLoad((signal) => get('placement/resource_providers', { signal, past: true }).then((body) => tree(body.resource_providers)), ['providers'], { every: 15_000 });
  const [filter, setFilter] = useState('');
  const rows = load.data || NONE;
  const shown = useMemo(() => having(rows, filter), [rows, filter]);
  const wanted = query.get('provider');
  const chosen = useMemo(() => (wanted ? rows.find((row) => row.uuid === wanted) : undefined), [rows, wanted]);
  return html`<div class="title"><h1>Placement <span class="quiet" id="count">${rows.length}</span></h1></div>
    <${Trouble} load=${load} what="list" />
    ${query.get('consumer') && load.data && html`<${Consumer} id=${query.get('consumer')} providers=${rows} />`}
    ${load.data && html`<div class="row"><input type="search" id="filter" aria-label="Filter providers" placeholder="Filter: name, id" value=${filter} onInput=${(e) => setFilter(e.target.value)} /></div>
      <${Table} label="Resource providers" columns=${COLUMNS} rows=${shown} />`}
    ${chosen && html`<${Provider} key=${chosen.uuid} provider=${chosen} />`}`;
}
