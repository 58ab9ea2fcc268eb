// Flavors and their extra specs.
import { html } from '../lib/html.js';
import { list, post, remove } from '../lib/api.js';
import { useLoad } from '../lib/load.js';
import { gibibytes, mebibytes } from '../lib/ui.js';
import { Create, ID, NAME, Remove, Resources, column } from '../lib/resources.js';

const amount = (name, title, show, value = (r) => Number(r[name] || 0)) => ({ name, title, right: true, value, show: (r) => show(value(r)) });
const COLUMNS = [
  NAME(null), amount('vcpus', 'CPUs', String), amount('ram', 'Memory', mebibytes), amount('disk', 'Root disk', gibibytes),
  amount('ephemeral', 'Ephemeral', (n) => (n ? gibibytes(n) : ''), (r) => r['OS-FLV-EXT-DATA:ephemeral'] || 0), amount('swap', 'Swap', (n) => (n ? mebibytes(n) : '')),
  column('public', 'Public', (r) => (r['os-flavor-access:is_public'] ? 'yes' : 'no')),
  { name: 'specs', title: 'Extra specs', value: (r) => Object.entries(r.extra_specs || {}).map((pair) => pair.join('=')).join(' '), show: (r) => Object.entries(r.extra_specs || {}).map(([key, value]) => html`<span class="chip mono">${key}=${value}</span>`) }, ID,
];

const FIELDS = [
  { name: 'name', label: 'Name', required: true }, { name: 'vcpus', label: 'CPUs', type: 'number', min: 1, value: '1', required: true },
  { name: 'ram', label: 'Memory in MiB', type: 'number', min: 1, value: '1024', required: true }, { name: 'disk', label: 'Root disk in GiB', type: 'number', min: 0, value: '10', required: true },
  { name: 'ephemeral', label: 'Ephemeral disk in GiB', type: 'number', min: 0, value: '0' }, { name: 'swap', label: 'Swap in MiB', type: 'number', min: 0, value: '0' },
  { name: 'public', label: 'For all projects', type: 'checkbox', value: true }, { name: 'specs', label: 'Extra specs', hint: 'KEY=VALUE, separated by commas' },
];

async function create(values) {
  const { flavor } = await post('compute/v2.1/flavors', { flavor: {
    name: values.name, vcpus: Number(values.vcpus), ram: Number(values.ram), disk: Number(values.disk),
    'OS-FLV-EXT-DATA:ephemeral': Number(values.ephemeral), swap: Number(values.swap), 'os-flavor-access:is_public': Boolean(values.public),
  } });
  const specs = Object.fromEntries((values.specs || '').split(',').map((pair) => pair.trim()).filter(Boolean).map((pair) => pair.split(/=(.*)/s).slice(0, 2)));
  if (Object.keys(specs).length) await post(`compute/v2.1/flavors/${flavor.id}/os-extra_specs`, { extra_specs: specs });
}

export default function Flavors({ viewer }) {
  const query = viewer.may.flavors ? { is_public: 'None' } : {};
  const load = useLoad((signal) => list('compute/v2.1/flavors/detail', 'flavors', { signal, query }), ['flavors'], { every: 15_000 });
  const act = viewer.may.flavors ? (row, reload) => html`<${Remove} what=${`flavor ${row.name}`} on=${() => remove(`compute/v2.1/flavors/${row.id}`)} reload=${reload} />` : undefined;
  return html`<div class="title"><h1>Flavors</h1>${viewer.may.flavors && html`<${Create} title="Create a flavor" fields=${FIELDS} submit=${(values) => create(values).then(load.reload)} />`}</div>
    <${Resources} load=${load} what="flavors" columns=${COLUMNS} act=${act} />`;
}
