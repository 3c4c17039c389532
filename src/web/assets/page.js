/*
 * What the pages do beyond links and forms: live updates, the age of times, filters that send themselves, questions before
 * what cannot be undone, and buttons that copy. Without it every page still works.
 */
const UNITS = [
  ['day', 86_400],
  ['h', 3_600],
  ['min', 60],
  ['s', 1],
];

/** As the server writes it: see `platform/lib/quantities.ts`. */
function duration(seconds) {
  for (const [unit, size] of UNITS) {
    const count = Math.floor(seconds / size);
    if (count > 0) return unit === 'day' && count > 1 ? `${count} days` : `${count} ${unit}`;
  }
  return '0 s';
}

/** Tells all times anew from the clock of the server, whatever the clock of this machine says. */
let ahead = Date.parse(document.documentElement.dataset.at ?? '') - Date.now() || 0;
function tellTimes() {
  const now = Date.now() + ahead;
  for (const time of document.querySelectorAll('time[datetime]')) {
    const seconds = (now - Date.parse(time.dateTime)) / 1_000;
    const words = seconds < 0 ? `in ${duration(-seconds)}` : seconds < 1 ? 'just now' : `${duration(seconds)} ago`;
    if (time.textContent !== words) time.textContent = words;
  }
}
setInterval(tellTimes, 1_000);

/** Puts a new part in the place of the old one. What somebody types stays, and so do the focus and what is unfolded. */
function replacePart({ id, digest, html }) {
  const part = document.getElementById(id);
  if (!part || part.dataset.digest === digest) return;
  const focused = part.contains(document.activeElement) ? document.activeElement : null;
  if (focused?.matches('input, select, textarea')) return;
  const unfolded = [...part.querySelectorAll('details[id][open]')].map((details) => details.id);
  part.innerHTML = html;
  part.dataset.digest = digest;
  for (const each of unfolded) document.getElementById(each)?.setAttribute('open', '');
  if (focused?.id) document.getElementById(focused.id)?.focus({ preventScroll: true });
  addCopyButtons(part);
  tellTimes();
}

/** Times to wait before another attempt, milliseconds: a busy server is asked seldom. */
const AGAIN = 10_000;
const LOST = 4_000;

/** Streams only while somebody can see the page: a browser has few connections to one address for all its tabs. */
const pulse = document.querySelector('[data-live]');
let source;
let lost;
let again;
function show(isLive) {
  pulse.hidden = false;
  pulse.classList.toggle('lost', !isLive);
  const words = isLive ? 'Live' : 'Reconnecting';
  if (pulse.textContent !== words) pulse.textContent = words;
}
function listen() {
  source?.close();
  clearTimeout(again);
  source = new EventSource(pulse.dataset.live);
  source.addEventListener('at', ({ data }) => {
    ahead = Number(data) - Date.now();
    show(true);
  });
  source.addEventListener('part', ({ data }) => replacePart(JSON.parse(data)));
  source.addEventListener('title', ({ data }) => {
    document.title = JSON.parse(data);
  });
  source.addEventListener('open', () => clearTimeout(lost));
  // The server ends each stream after a while: only what stays lost is worth a word.
  source.addEventListener('error', ({ target }) => {
    clearTimeout(lost);
    lost = setTimeout(() => show(false), LOST);
    // A refusal ends it for good, though too many streams, or a server that starts, are soon over.
    if (target.readyState === EventSource.CLOSED) again = setTimeout(listen, AGAIN);
  });
}
function fallSilent() {
  source?.close();
  clearTimeout(lost);
  clearTimeout(again);
}
if (pulse) {
  if (!document.hidden) listen();
  document.addEventListener('visibilitychange', () => (document.hidden ? fallSilent() : listen()));
  addEventListener('pagehide', fallSilent);
  // A page that comes back from the history of the browser runs on from where it was.
  addEventListener('pageshow', ({ persisted }) => {
    if (persisted && !document.hidden) listen();
  });
}

document.addEventListener('change', ({ target }) => {
  if (target.matches('select, input[type="checkbox"]') && target.form?.matches('.filters')) target.form.requestSubmit();
});

document.addEventListener('submit', (event) => {
  const question = event.submitter?.dataset.confirm ?? event.target.dataset.confirm;
  if (question !== undefined && !confirm(question)) event.preventDefault();
});

/** A file that was picked fills the field beside it. */
document.addEventListener('change', ({ target }) => {
  if (!target.matches('input[type="file"][data-fills]')) return;
  const [file] = target.files;
  const field = document.getElementById(target.dataset.fills);
  if (file && field) void fill(field, file);
});
async function fill(field, file) {
  field.value = await file.text();
}

/** Only with a script is there anything to press. */
function addCopyButtons(within) {
  for (const each of within.querySelectorAll('[data-copy]')) {
    const button = document.createElement('button');
    button.type = 'button';
    button.className = 'copy';
    button.textContent = 'copy';
    button.setAttribute('aria-label', `Copy ${each.dataset.copy}`);
    each.after(button);
  }
}
document.addEventListener('click', ({ target }) => {
  const button = target.closest?.('button.copy');
  if (button) void copy(button);
});
async function copy(button) {
  await navigator.clipboard.writeText(button.previousElementSibling.dataset.copy);
  button.textContent = 'copied';
  setTimeout(() => {
    button.textContent = 'copy';
  }, 1_500);
}
addCopyButtons(document);
