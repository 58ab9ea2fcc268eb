// Volumes and their snapshots.
import { html, useState } from '../lib/html.js';
import { get, list, post, remove } from '../lib/api.js';
import { useLoad } from '../lib/load.js';
import { Act, Facts, Tabs, gibibytes, time } from '../lib/ui.js';
import { Create, ID, NAME, Remove, Resources, STATUS, column, created } from '../lib/resources.js';

const AT = 'volume/v3/volumes';
const size = { name: 'size', title: 'Size', right: true, value: (r) => r.size, show: (r) => gibibytes(r.size) };
const server = (row) => row.attachments?.[0]?.server_id;

const VOLUMES = [
  NAME((r) => `#/volumes?volume=${r.id}`), STATUS, size, column('type', 'Type', (r) => r.volume_type), column('bootable', 'Bootable', (r) => (r.bootable === 'true' ? 'yes' : 'no')),
  { name: 'server', title: 'Attached to', value: server, show: (r) => server(r) && html`<a class="mono" href=${`#/servers/${server(r)}`}>${server(r).slice(0, 8)}…</a>` }, created('created_at'), ID,
];
const SNAPSHOTS = [NAME(null), STATUS, size, column('volume', 'Of volume', (r) => r.volume_id), created('created_at'), ID];

function One({ volume, reload }) {
  const [gib, setGib] = useState('');
  const extend = () => post(`${AT}/${volume.id}/action`, { 'os-extend': { new_size: Number(gib) } }, { headers: { 'OpenStack-API-Version': 'volume 3.59' } }).then(reload);
  const snapshot = () => post('volume/v3/snapshots', { snapshot: { volume_id: volume.id, name: `of ${volume.name || volume.id}`, force: true } }).then(reload);
  return html`<section class="sheet" aria-label=${`Volume ${volume.name}`} id="chosen"><h2>${volume.name || volume.id}</h2><${Facts} items=${[
    ['Id', html`<span class="mono">${volume.id}</span>`], ['Zone', volume.availability_zone], ['Description', volume.description], ['Changed', time(volume.updated_at)],
    ['Image', volume.volume_image_metadata?.image_name], ['Encrypted', volume.encrypted ? 'yes' : 'no'], ['Host', volume['os-vol-host-attr:host']],
    ...Object.entries(volume.metadata || {}),
  ]} />
  <div class="row"><input class="small" type="number" min=${volume.size + 1} aria-label="New size in GiB" placeholder="GiB" value=${gib} onInput=${(e) => setGib(e.target.value)} />
    <${Act} small disabled=${!(Number(gib) > volume.size)} done="The volume is being extended." on=${extend}>Extend<//>
    <${Act} small done="The snapshot is being made." on=${snapshot}>Snapshot<//></div></section>`;
}

export default function Volumes({ query }) {
  const [tab, setTab] = useState('volumes');
  const volumes = useLoad((signal) => list(`${AT}/detail`, 'volumes', { signal }), ['volumes'], { every: 5000 });
  const snapshots = useLoad((signal) => list('volume/v3/snapshots/detail', 'snapshots', { signal }), ['snapshots'], { every: 10_000 });
  const types = useLoad((signal) => get('volume/v3/types', { signal }).then((body) => body.volume_types, () => []), ['types']);
  const chosen = volumes.data?.find((one) => one.id === query.get('volume'));
  const fields = [
    { name: 'name', label: 'Name' }, { name: 'size', label: 'Size in GiB', type: 'number', min: 1, value: '1', required: true },
    { name: 'type', label: 'Type', choices: [['', '(default)'], ...(types.data || []).map((one) => [one.name, one.name])] },
  ];
  const create = (values) => post(AT, { volume: { name: values.name, size: Number(values.size), ...(values.type && { volume_type: values.type }) } }).then(volumes.reload);
  const both = () => { volumes.reload(); snapshots.reload(); };
  const bulk = [{ name: 'Delete', sure: 'Delete % volume(s)? What they hold is lost.', on: (row) => remove(`${AT}/${row.id}`) }];
  return html`<div class="title"><h1>Volumes</h1><${Create} title="Create a volume" fields=${fields} submit=${create} /></div>
    <${Tabs} label="Volumes and snapshots" tab=${tab} onTab=${setTab} tabs=${[['volumes', 'Volumes'], ['snapshots', 'Snapshots']]}>
    ${tab === 'volumes' ? html`<${Resources} load=${volumes} what="volumes" columns=${VOLUMES} chosen=${chosen?.id} low=${Boolean(chosen)} bulk=${bulk} />
      ${chosen && html`<${One} key=${chosen.id} volume=${chosen} reload=${both} />`}`
    : html`<${Resources} load=${snapshots} what="snapshots" columns=${SNAPSHOTS} act=${(row, reload) => html`<${Remove} what=${`snapshot ${row.name || row.id}`} on=${() => remove(`volume/v3/snapshots/${row.id}`)} reload=${reload} />`} />`}<//>`;
}
