// The pages: address, title, file, and group in the menu. A page with a `probe` is in the menu if the server serves
// that request to the viewer. A page with a `rule` is in the menu if that rule holds for the viewer.
/** @typedef {{name: string, path: string, title: string, file: string, probe?: [string, any?], rule?: string, group?: string, past?: boolean}} Page */

/** @type {Page[]} */
export const PAGES = [
  { name: 'servers', path: '/servers', title: 'Servers', file: 'servers.js', group: 'Compute', past: true },
  { name: 'launch', path: '/launch', title: 'Launch servers', file: 'launch.js' },
  { name: 'server', path: '/servers/:id', title: 'Server', file: 'server.js', past: true },
  { name: 'console', path: '/servers/:id/console', title: 'Console', file: 'console.js' },
  { name: 'fleet', path: '/fleet', title: 'Fleet', file: 'fleet.js', group: 'Compute', past: true, rule: 'os_compute_api:os-hypervisors:list-detail' },
  { name: 'scheduler', path: '/scheduler', title: 'Scheduler', file: 'scheduler.js', group: 'Compute', rule: 'chronova:scheduler:what_if' },
  { name: 'placement', path: '/placement', title: 'Placement', file: 'placement.js', group: 'Compute', past: true, probe: ['placement/resource_providers', { name: '-' }] },
  { name: 'processes', path: '/processes', title: 'Processes', file: 'processes.js', group: 'Compute', past: true, rule: 'chronova:events:list' },
  { name: 'audit', path: '/audit', title: 'Audit', file: 'audit.js', group: 'History', past: true, rule: 'chronova:events:list' },
  { name: 'compare', path: '/compare', title: 'Compare', file: 'compare.js', group: 'History', past: true, rule: 'os_compute_api:chronova:as_of' },
  { name: 'images', path: '/images', title: 'Images', file: 'images.js', group: 'Resources' },
  { name: 'volumes', path: '/volumes', title: 'Volumes', file: 'volumes.js', group: 'Resources', probe: ['volume/v3/volumes', { limit: 1 }] },
  { name: 'networks', path: '/networks', title: 'Networks', file: 'networks.js', group: 'Resources' },
  { name: 'flavors', path: '/flavors', title: 'Flavors', file: 'flavors.js', group: 'Resources' },
  { name: 'quotas', path: '/quotas', title: 'Quotas', file: 'quotas.js', group: 'Access' },
  { name: 'projects', path: '/projects', title: 'Projects and users', file: 'projects.js', group: 'Access', probe: ['identity/v3/users', { limit: 1 }] },
  { name: 'health', path: '/health', title: 'Health', file: 'health.js', group: 'System' },
];

/** The groups of the menu, in order. */
export const GROUPS = ['Compute', 'History', 'Resources', 'Access', 'System'];

/** The page of an address, with the parameters in the address. */
export function find(path) {
  const parts = path.split('/').filter(Boolean);
  for (const page of PAGES) {
    const pattern = page.path.split('/').filter(Boolean);
    if (pattern.length !== parts.length) continue;
    const params = {};
    const fits = pattern.every((part, at) => (part.startsWith(':') ? ((params[part.slice(1)] = decodeURIComponent(parts[at])), true) : part === parts[at]));
    if (fits) return { page, params };
  }
  return null;
}
