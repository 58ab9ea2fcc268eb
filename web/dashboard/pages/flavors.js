// The flavors that the viewer may use, and their sizes.
import { html } from '../lib/html.js';
import { COMPUTE, list } from '../lib/api.js';
import { useLoad } from '../lib/load.js';
import { Table, Trouble } from '../lib/ui.js';

const COLUMNS = [
  { name: 'name', title: 'Name', value: (f) => f.name, show: (f) => f.name },
  { name: 'vcpus', title: 'CPUs', value: (f) => f.vcpus, show: (f) => f.vcpus },
  { name: 'ram', title: 'Memory, MiB', value: (f) => f.ram, show: (f) => f.ram },
  { name: 'disk', title: 'Disk, GiB', value: (f) => f.disk, show: (f) => f.disk },
];

export default function Flavors() {
  const load = useLoad((signal) => list('compute/v2.1/flavors/detail', 'flavors', { signal, version: COMPUTE }), ['flavors']);
  if (!load.data) return html`<h1>Flavors</h1><${Trouble} load=${load} what="flavors" />`;
  return html`<h1>Flavors</h1><${Table} label="Flavors" columns=${COLUMNS} rows=${load.data} />`;
}
