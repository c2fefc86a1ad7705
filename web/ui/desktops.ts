// The rows of a person's desktops: what each shows, its age and size, and where it is shown now,
// for as long as the list is looked at.
// Beside the path: from account.ts, which lists desktops and acts on them.
// Knows what the server says of desktops; never a login.

import { deskPath } from "../store/desk";
import { say } from "./words";

/** A desktop, as the server lists it. */
export interface Desktop {
  name: string;
  /** What its person calls it, if they have said. */
  title: string | null;
  command: string;
  started_s: number;
  /** Where it is shown now, the longest first. */
  shown: { from: string; since_s: number; is_guest: boolean }[];
}

export interface DesktopListOptions {
  list: HTMLUListElement;
  /** Whether the list is looked at. */
  isShown(): boolean;
  /** Asks the server; undefined without a login, which the person is told. */
  request(path: string): Promise<Response | undefined>;
  /** So many are in the list now. */
  counted(count: number): void;
  open(desktop: Desktop): Promise<void>;
  end(desktop: Desktop): Promise<void>;
  /** Calls it this; resolves to what went wrong, or to nothing. */
  rename(desktop: Desktop, title: string): Promise<string | undefined>;
  /** Tells the person what was done. */
  done(words: string): void;
}

/** What the person calls it. */
export const titleOf = (desktop: Desktop) => desktop.title ?? desktop.name;

/** How often a picture, and where desktops are shown, is asked for while the list is looked at. */
const REFRESH_MS = 5_000;
/** The same after failures in a row, at most: each doubles it. */
const RETRY_MS_MAX = 60_000;

/** How long to wait after so many failures in a row. */
const pause = (failures: number) =>
  new Promise((done) => setTimeout(done, Math.min(REFRESH_MS * 2 ** failures, RETRY_MS_MAX)));

export class DesktopList {
  private readonly rows = new Map<string, Row>();
  private isRefreshing = false;

  constructor(private readonly options: DesktopListOptions) {}

  /** Shows these, and keeps to them what the server says from now on. */
  show(desktops: Desktop[]): void {
    for (const [name, row] of this.rows) {
      if (desktops.some((desktop) => desktop.name === name)) continue;
      row.item.remove();
      this.rows.delete(name);
    }
    for (const desktop of desktops) {
      const row = this.rows.get(desktop.name) ?? new Row(desktop, this.options);
      this.rows.set(desktop.name, row);
      row.update(desktop);
      if (!row.item.isConnected) this.options.list.append(row.item);
      void row.keepPicture();
    }
    this.options.counted(desktops.length);
    void this.refresh();
  }

  /** Asks what is shown where until nobody looks any more. */
  private async refresh(): Promise<void> {
    if (this.isRefreshing) return;
    this.isRefreshing = true;
    for (let failures = 0; ; ) {
      await pause(failures);
      if (!this.options.isShown()) break;
      if (document.hidden) continue;
      const found = await this.options
        .request("sessions")
        .then(async (response) => response?.ok && ((await response.json()) as Answer))
        .catch(() => undefined);
      if (!this.options.isShown()) break;
      failures = found ? 0 : failures + 1;
      if (found) this.show(found.sessions);
    }
    this.isRefreshing = false;
  }
}

/** The server's answer. */
export interface Answer {
  user: string;
  sessions: Desktop[];
}

class Row {
  readonly item = document.createElement("li");
  private readonly picture = document.createElement("img");
  private readonly title = line();
  private readonly size = line();
  private readonly where = document.createElement("span");
  private readonly buttons = {
    open: button(say("open")),
    rename: button(say("rename")),
    end: button(say("end")),
  };
  private hasPictures = false;

  constructor(
    private desktop: Desktop,
    private readonly options: DesktopListOptions,
  ) {
    this.picture.hidden = true;
    const text = document.createElement("span");
    text.title = desktop.command;
    text.append(this.title, this.size, this.where);
    this.item.append(this.picture, text, ...Object.values(this.buttons));
    this.buttons.open.addEventListener("click", () => void options.open(this.desktop));
    this.buttons.rename.addEventListener("click", () => this.askForName());
    this.buttons.end.addEventListener("click", () => void options.end(this.desktop));
  }

  /** In place of the buttons: a field for the new name. */
  private askForName(): void {
    const { desktop } = this;
    const form = document.createElement("form");
    form.className = "rename";
    const label = document.createElement("label");
    label.htmlFor = `title-of-${desktop.name}`;
    label.textContent = say("newName", titleOf(desktop));
    const input = document.createElement("input");
    input.id = label.htmlFor;
    input.value = titleOf(desktop);
    input.autocomplete = "off";
    input.maxLength = 64;
    input.required = true;
    const problem = document.createElement("p");
    problem.className = "problem";
    problem.setAttribute("role", "alert");
    const save = button(say("save"), "submit");
    const cancel = button(say("cancel"));
    const row = document.createElement("div");
    row.className = "row";
    row.append(save, cancel);
    form.append(label, input, problem, row);
    const close = () => {
      form.remove();
      for (const element of Object.values(this.buttons)) element.hidden = false;
      this.buttons.rename.focus();
    };
    cancel.addEventListener("click", close);
    form.addEventListener("keydown", (event) => {
      if (event.key === "Escape") close();
    });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const title = input.value.trim().replaceAll(/\s+/g, " ");
      save.disabled = true;
      void this.options.rename(desktop, title).then((wrong) => {
        save.disabled = false;
        if (wrong === undefined) return close();
        problem.textContent = wrong;
        if (wrong !== "") return input.focus();
        this.options.done(say("renamed", titleOf(desktop), title));
        this.update({ ...this.desktop, title });
        close();
      });
    });
    for (const element of Object.values(this.buttons)) element.hidden = true;
    this.item.append(form);
    input.select();
    input.focus();
  }

  update(desktop: Desktop): void {
    this.desktop = desktop;
    const title = titleOf(desktop);
    this.picture.alt = say("pictureOf", title);
    for (const word of ["open", "rename", "end"] as const)
      this.buttons[word].setAttribute("aria-label", say(`${word}One`, title));
    setText(this.title, `${title}, ${age(desktop.started_s)}`);
    const shown = desktop.shown.map(({ from, since_s, is_guest }) =>
      say(is_guest ? "guestAt" : "shownAt", from, elapsed(since_s)),
    );
    const lines = shown.length === 0 ? [say("notShown")] : [...new Set(shown)];
    // A screen reader in these lines is not sent away by what stays the same.
    if (lines.join("\n") === [...this.where.children].map((at) => at.textContent).join("\n"))
      return;
    this.where.replaceChildren(...lines.map(line));
  }

  /** Shows what the desktop shows, and its size, as long as the row is in the list. */
  async keepPicture(): Promise<void> {
    if (this.hasPictures) return;
    this.hasPictures = true;
    const { picture, size } = this;
    let failures = 0;
    do {
      const response = document.hidden
        ? undefined
        : await this.options
            .request(`${deskPath(this.desktop.name)}thumbnail`)
            .catch(() => undefined);
      if (response?.ok) {
        const before = picture.src;
        picture.src = URL.createObjectURL(await response.blob());
        picture.hidden = false;
        if (before !== "") URL.revokeObjectURL(before);
        setText(size, (response.headers.get("thinc-screen") ?? "").replace("x", " × "));
      }
      // A session process that is restarted has none for a moment; one of an older version never.
      if (!document.hidden) failures = response?.ok ? 0 : failures + 1;
      await pause(failures);
    } while (this.item.isConnected && this.options.isShown());
    if (picture.src !== "") URL.revokeObjectURL(picture.src);
    picture.removeAttribute("src");
    picture.hidden = true;
    this.hasPictures = false;
  }
}

function button(words: string, type: "button" | "submit" = "button"): HTMLButtonElement {
  const element = document.createElement("button");
  element.type = type;
  element.textContent = words;
  return element;
}

function line(words = ""): HTMLElement {
  const element = document.createElement("span");
  element.className = "line";
  element.textContent = words;
  return element;
}

function setText(element: HTMLElement, words: string): void {
  if (element.textContent !== words) element.textContent = words;
}

/** Time since the start, in its largest unit. */
const age = (startedS: number) => elapsed(Date.now() / 1000 - startedS);

function elapsed(seconds: number): string {
  const minutes = Math.max(0, Math.floor(seconds / 60));
  if (minutes < 60) return say("minutes", minutes);
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? say("hours", hours) : say("days", Math.floor(hours / 24));
}
