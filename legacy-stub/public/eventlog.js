// The list of call events that came and went: direction, name, acknowledgement. Knows names and outcomes only, never
// what is inside an event.

const most = 300;

export function createEventLog(list) {
  /** The open line of candidates by direction; any other event closes both. */
  let bursts = {};

  function add(direction, name, detail = '') {
    const candidate = name === 'ice-candidate';
    const burst = candidate ? bursts[direction] : undefined;
    if (burst) {
      burst.count += 1;
      burst.times.textContent = `× ${burst.count}`;
      return burst.entry;
    }
    if (!candidate) bursts = {};
    const item = document.createElement('li');
    item.className = direction;
    const time = element('time', new Date().toLocaleTimeString([], { hour12: false }));
    const arrow = element('span', direction === 'out' ? '↑' : direction === 'in' ? '↓' : '·', `dir ${direction}`);
    arrow.setAttribute('aria-label', direction === 'out' ? 'sent' : direction === 'in' ? 'received' : 'note');
    const times = element('span', '', 'times');
    const ack = element('span', detail, 'ack');
    item.append(time, arrow, element('code', name), times, ack);
    list.append(item);
    while (list.children.length > most) list.firstElementChild.remove();
    list.scrollTop = list.scrollHeight;
    const entry = {
      /** `ok`, `refused`, `list` or `none` decides the colour. */
      settle(outcome, text) {
        // Of a burst, a refusal stays visible.
        if (ack.dataset.outcome === 'refused' && outcome !== 'refused') return;
        ack.dataset.outcome = outcome;
        ack.textContent = text;
        ack.title = text;
      },
    };
    if (candidate) bursts[direction] = { count: 1, times, entry };
    return entry;
  }

  return {
    sent: (name) => add('out', name, '…'),
    received: (name, detail) => add('in', name, detail),
    note: (text) => add('note', text),
  };
}

function element(tag, text, className) {
  const made = document.createElement(tag);
  made.textContent = text;
  if (className) made.className = className;
  return made;
}
