// The page with an administrator's figures, which it reads again every few seconds and draws.
// Beside the path: from session-server/src/monitor, on a port of the server itself.
// Knows numbers, and names as text; changes nothing.

/** Times, by how long they are: see BOUNDS_MS. */
interface Times {
  counts: number[];
  sum_us: number;
}

interface Figures {
  sessions: number;
  viewed_sessions: number;
  viewers: [string, number][];
  counts: {
    echo: Times;
    round_trip: Times;
    encode: Times;
    command_bytes: number[];
    sent_bytes: number;
    updates: number;
  };
  memory: [string, number][];
  broker: {
    open_logins: number;
    logins: number;
    refusals: [string, number][];
    unauthenticated: number;
    is_draining: boolean;
    waiting: number;
    refused_starts: number;
    waited_starts: number;
    pressure_percent: [string, number][];
    implausible: number;
  } | null;
  rows: {
    user: string;
    name: string;
    age_s: number;
    screen: [number, number] | null;
    viewers: number;
    guests: number;
    round_trip_us: number | null;
  }[];
}

/** From one reading to the next: each asks every session, and may take 7 s. */
const INTERVAL_MS = 5000;
/** An hour of readings. */
const READINGS_MAX = 720;
/** Upper bounds of the buckets of times but the last, as in session-core/src/figures.rs. */
const BOUNDS_MS = [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000];

/** A line of a plot; a reading without a value is a gap. */
interface Series {
  name: string;
  values: (number | undefined)[];
}

/** What a reading adds to a series. */
type Value = [string, number | undefined];

interface Plot {
  title: string;
  unit: (value: number) => string;
  /** The values of a reading, by series; the one before is for rates. */
  read: (now: Figures, before: Figures | undefined, seconds: number) => Value[];
  series: Series[];
  figure: HTMLElement;
}

const find = (id: string) => document.getElementById(id) as HTMLElement;
const sum = (numbers: number[]) => numbers.reduce((a, b) => a + b, 0);

const count = (value: number) => String(Math.round(value * 10) / 10);
const milliseconds = (value: number) => `${Number(value.toPrecision(2))} ms`;
const percent = (value: number) => `${value.toFixed(1)} %`;

function bytes(value: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  for (; value >= 1024 && at < units.length - 1; at += 1) value /= 1024;
  return `${value < 10 && at > 0 ? value.toFixed(1) : Math.round(value)} ${units[at]}`;
}

function age(seconds: number): string {
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172_800) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86_400)} d`;
}

/** What has come since the reading before; a server that was started again counts from 0. */
function more(now: number[], before: number[] | undefined): number[] {
  const since = now.map((value, at) => value - (before?.[at] ?? value));
  return since.some((value) => value < 0) ? now : since;
}

/** The time that this part of all was at most as long as; none if there was none. */
function percentile(times: number[], part: number): number | undefined {
  let left = sum(times) * part;
  if (left === 0) return undefined;
  for (let at = 0; at < BOUNDS_MS.length; at += 1) {
    const from = BOUNDS_MS[at - 1] ?? 0;
    const to = BOUNDS_MS[at] as number;
    const inside = times[at] as number;
    if (left <= inside) return from + ((to - from) * left) / inside;
    left -= inside;
  }
  return BOUNDS_MS[BOUNDS_MS.length - 1];
}

function percentiles(of: (figures: Figures) => Times): Plot["read"] {
  return (now, before) => {
    const times = more(of(now).counts, before && of(before).counts);
    return [
      ["half", percentile(times, 0.5)],
      ["95 %", percentile(times, 0.95)],
      ["99 %", percentile(times, 0.99)],
    ];
  };
}

const rate = (now: number, before: number | undefined, seconds: number) =>
  sum(more([now], before === undefined ? undefined : [before])) / seconds;

function plot(title: string, unit: Plot["unit"], read: Plot["read"]): Plot {
  const figure = document.createElement("figure");
  const caption = document.createElement("figcaption");
  caption.textContent = title;
  figure.append(caption);
  find("plots").append(figure);
  return { title, unit, read, series: [], figure };
}

/** Those of the broker are left out of a session's own page. */
function plots(figures: Figures): Plot[] {
  const all = [
    plot("Sessions", count, (now) => [
      ["run", now.sessions],
      ["with a viewer", now.viewed_sessions],
    ]),
    plot("Viewers", count, (now) => now.viewers),
    plot(
      "Echo: from an input to its update",
      milliseconds,
      percentiles((f) => f.counts.echo),
    ),
    plot(
      "Round trip of updates",
      milliseconds,
      percentiles((f) => f.counts.round_trip),
    ),
    plot("Sent in a second", bytes, (now, before, seconds) => [
      ["bytes", rate(now.counts.sent_bytes, before?.counts.sent_bytes, seconds)],
    ]),
    plot("Commands in a second, before compression", bytes, (now, before, seconds) => {
      const [copy, sfill, pfill, bitmap, raw, photo, keep, recall, video] = more(
        now.counts.command_bytes,
        before?.counts.command_bytes,
      ).map((value) => value / seconds) as number[];
      const rest = sum([copy, sfill, pfill, bitmap, keep, recall] as number[]);
      return [
        ["pixels", raw],
        ["photographs", photo],
        ["video", video],
        ["the rest", rest],
      ];
    }),
    plot("Encoding, of one processor's time", percent, (now, before, seconds) => [
      ["busy", rate(now.counts.encode.sum_us, before?.counts.encode.sum_us, seconds) / 10_000],
    ]),
  ];
  if (figures.broker !== null) {
    all.push(
      plot("Logins and refusals in a minute", count, (now, before, seconds) => [
        ["logins", 60 * rate(now.broker?.logins ?? 0, before?.broker?.logins, seconds)],
        ["refusals", 60 * rate(refusals(now), before && refusals(before), seconds)],
      ]),
      plot("Connections before a login", count, (now) => [
        ["connections", now.broker?.unauthenticated],
      ]),
    );
  }
  if (figures.memory.length > 0) all.push(plot("Memory", bytes, (now) => now.memory));
  return all;
}

const refusals = (figures: Figures) =>
  sum((figures.broker?.refusals ?? []).map(([, value]) => value));

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 320;
const HEIGHT = 110;
/** Room above for the largest value, and what is left for lines. */
const TOP = 16;
const ROOM = HEIGHT - TOP - 2;

function shape(name: string, attributes: Record<string, string | number>): SVGElement {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
  return element;
}

/** The lines of a series, of which a gap begins another one. */
function lines(values: Series["values"], most: number, name: string): SVGElement[] {
  const step = WIDTH / Math.max(values.length - 1, 1);
  const found: [number, number][][] = [[]];
  values.forEach((value, at) => {
    if (value === undefined) found.push([]);
    else found[found.length - 1]?.push([at * step, HEIGHT - 1 - (ROOM * value) / most]);
  });
  return found
    .filter((points) => points.length > 0)
    .map((points) => {
      const [first] = points;
      // One reading alone is as wide as a line is thick.
      if (points.length === 1 && first !== undefined) points.push([first[0] + 3, first[1]]);
      const text = points.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(" ");
      return shape("polyline", { points: text, class: name });
    });
}

function draw({ title, unit, series, figure }: Plot): void {
  const known = series.flatMap(({ values }) => values.filter((value) => value !== undefined));
  const most = Math.max(...known, 0);
  const picture = shape("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img" });
  const told = series.map(({ name, values }) => {
    const last = values[values.length - 1];
    return `${name}: ${last === undefined ? "none" : unit(last)}`;
  });
  const highest = known.length === 0 ? "nothing yet" : `at most ${unit(most)}`;
  picture.setAttribute("aria-label", `${title}. Now ${told.join(", ")}; ${highest} in this plot`);
  const text = shape("text", { x: 2, y: 11 });
  text.textContent = known.length === 0 ? "" : unit(most);
  const top = { x1: 0, x2: WIDTH, class: "axis" };
  picture.append(
    shape("line", { ...top, y1: TOP, y2: TOP }),
    shape("line", { ...top, y1: HEIGHT - 0.5, y2: HEIGHT - 0.5 }),
    text,
  );
  const legend = document.createElement("ul");
  series.forEach(({ values }, at) => {
    const name = `series-${at % 4}`;
    picture.append(...lines(values, most || 1, name));
    const sample = shape("svg", { viewBox: "0 0 26 8", "aria-hidden": "true" });
    sample.append(shape("polyline", { points: "0,4 26,4", class: name }));
    const item = document.createElement("li");
    item.append(sample, told[at] ?? "");
    legend.append(item);
  });
  figure.replaceChildren(figure.firstElementChild as Element, picture, legend);
}

function showNow(figures: Figures): void {
  const { broker } = figures;
  const pairs: [string, string][] = [
    ["Sessions", String(figures.sessions)],
    ["With a viewer", String(figures.viewed_sessions)],
    ["Viewers", String(sum(figures.viewers.map(([, value]) => value)))],
  ];
  if (broker !== null) {
    pairs.push(
      ["Open logins", String(broker.open_logins)],
      ["Logins since the start", String(broker.logins)],
      ["Refusals since the start", String(refusals(figures))],
      ["Connections before a login", String(broker.unauthenticated)],
      ["New logins", broker.is_draining ? "refused: drained" : "taken"],
      ["People who wait for a desktop", String(broker.waiting)],
      ["Desktops not started, under pressure", String(broker.refused_starts)],
      ["Desktops started after a wait", String(broker.waited_starts)],
    );
    for (const [resource, value] of broker.pressure_percent)
      pairs.push([`Pressure, ${resource}`, percent(value)]);
  }
  for (const [part, value] of figures.memory) pairs.push([`Memory, ${part}`, bytes(value)]);
  const shown = pairs.map(([name, value]) => {
    const pair = document.createElement("div");
    const [term, definition] = [document.createElement("dt"), document.createElement("dd")];
    term.textContent = name;
    definition.textContent = value;
    pair.append(term, definition);
    return pair;
  });
  find("now").replaceChildren(...shown);
}

function showRows(figures: Figures): void {
  const rows = figures.rows.map((row) => {
    const line = document.createElement("tr");
    const user = document.createElement("th");
    user.scope = "row";
    user.textContent = row.user;
    line.append(user);
    const size = row.screen === null ? "?" : row.screen.join(" × ");
    const trip = row.round_trip_us === null ? "–" : milliseconds(row.round_trip_us / 1000);
    const cells = [row.name, age(row.age_s), size, row.viewers, row.guests, trip];
    cells.forEach((text, at) => {
      const cell = line.insertCell();
      cell.textContent = String(text);
      if (at > 0) cell.className = "number";
    });
    return line;
  });
  if (rows.length === 0) {
    const line = document.createElement("tr");
    const cell = line.insertCell();
    cell.colSpan = 7;
    cell.textContent = "There are none.";
    rows.push(line);
  }
  find("rows").replaceChildren(...rows);
  find("caption").hidden = figures.broker === null;
}

let shown: Plot[] = [];
let before: Figures | undefined;
let readAt = 0;
let paused = false;
let reading = false;
let next: number | undefined;

/** Who works with the table or a plot by keyboard or screen reader can keep it as it is. */
find("pause").addEventListener("click", () => {
  paused = !paused;
  find("pause").setAttribute("aria-pressed", String(paused));
  if (paused) {
    say("Paused.");
    clearTimeout(next);
    // No line leads over what nobody has read.
    for (const one of shown) add(one);
  } else void read();
});

/** Once each: a screen reader is not told of every reading. */
function say(text: string): void {
  if (find("state").textContent !== text) find("state").textContent = text;
}

/** Adds a reading to a plot; a gap where it has no values. */
function add(one: Plot, values: Value[] = one.series.map(({ name }) => [name, undefined])): void {
  values.forEach(([name, value], number) => {
    one.series[number] ??= { name, values: [] };
    const series = one.series[number];
    series.values.push(value);
    if (series.values.length > READINGS_MAX) series.values.shift();
  });
}

function show(now: Figures): void {
  const at = performance.now();
  if (shown.length === 0) shown = plots(now);
  for (const one of shown) {
    add(one, one.read(now, before, Math.max((at - readAt) / 1000, 0.5)));
    draw(one);
  }
  showNow(now);
  showRows(now);
  [before, readAt] = [now, at];
}

async function figures(): Promise<Figures> {
  const answer = await fetch("figures.json", { cache: "no-store" });
  if (!answer.ok) throw new Error(await answer.text());
  return (await answer.json()) as Figures;
}

/** One at a time: answers that overtake each other would look like a server that has restarted. */
async function read(): Promise<void> {
  if (reading) return;
  reading = true;
  const now = await figures().catch((error: unknown) => error as Error);
  reading = false;
  if (paused) return;
  next = setTimeout(() => void read(), INTERVAL_MS);
  if (now instanceof Error) {
    for (const one of shown) {
      add(one);
      draw(one);
    }
    say(`The figures cannot be read: ${now.message}`);
  } else {
    show(now);
    say(`Read every ${INTERVAL_MS / 1000} seconds.`);
  }
}

void read();
