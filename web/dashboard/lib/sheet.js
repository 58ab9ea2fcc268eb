// Loads the style sheet of a library, once.
const FILES = new URL('..', import.meta.url);

/** @param {string} name the file's place in the dashboard's folder */
export function sheet(name) {
  const { href } = new URL(name, FILES);
  if (document.querySelector(`link[href="${href}"]`)) return;
  const link = document.createElement('link');
  link.rel = 'stylesheet';
  link.href = href;
  document.head.append(link);
}
