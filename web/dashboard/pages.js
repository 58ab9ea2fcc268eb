// The pages: address, title, file. A page with a `probe` is in the menu if the policy allows that request.
/** @typedef {{name: string, path: string, title: string, file: string, probe?: [string, any?], menu?: boolean, past?: boolean}} Page */

/** @type {Page[]} */
export const PAGES = [
  { name: 'servers', path: '/servers', title: 'Servers', file: 'servers.js', menu: true, past: true },
  { name: 'launch', path: '/launch', title: 'Launch servers', file: 'launch.js' },
  { name: 'server', path: '/servers/:id', title: 'Server', file: 'server.js', past: true },
  { name: 'console', path: '/servers/:id/console', title: 'Console', file: 'console.js' },
  { name: 'audit', path: '/audit', title: 'Audit', file: 'audit.js', menu: true, past: true, probe: ['chronova/v1/events', { limit: 1 }] },
  { name: 'fleet', path: '/fleet', title: 'Fleet', file: 'fleet.js', menu: true, past: true, probe: ['compute/v2.1/os-hypervisors', { limit: 1 }] },
  { name: 'placement', path: '/placement', title: 'Placement', file: 'placement.js', menu: true, past: true, probe: ['placement/resource_providers', { name: '-' }] },
  { name: 'processes', path: '/processes', title: 'Processes', file: 'processes.js', menu: true, past: true, probe: ['chronova/v1/events', { limit: 1 }] },
  { name: 'health', path: '/health', title: 'Health', file: 'health.js', menu: true },
];

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
