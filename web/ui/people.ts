// Who shows the session: the list in the menu, the owner's actions on guests, and the others'
// pointers over the picture.
// Path 13/13, and path back: between main.ts and the page; the session decides what takes effect.
// Knows elements, people and requests; never bytes of the protocol.

import type { Position } from "../display/view";
import type { Invitation, Person, PersonPointer, ShareAction, Shared } from "../engine/messages";

/** A pointer that has not moved for this long is hidden: its owner does something else. */
const POINTER_REST_MS = 10_000;
/** The session answers at once, or after it has hashed a password. */
const ANSWER_MS_MAX = 20_000;

export interface PeopleOptions {
  /** The menu's entry, for the focus. */
  button: HTMLButtonElement;
  list: HTMLElement;
  /** The invitations that the owner can revoke, with a heading. */
  invited: HTMLElement;
  /** Only for the owner. */
  form: HTMLFormElement;
  /** The link of the last invitation. */
  link: HTMLInputElement;
  copy: HTMLButtonElement;
  /** Says what became of a request. */
  words: HTMLElement;
  /** Holds the others' pointers, at the stage's place. */
  pointers: HTMLElement;
  send(request: number, action: ShareAction): void;
  /** Where a pixel of the session's screen is on the stage, in CSS pixels. */
  placeOf(pixel: Position): Position;
  notice(words: string): void;
}

interface Pointer {
  element: HTMLElement;
  at: Position;
  timer: ReturnType<typeof setTimeout>;
}

interface Pending {
  done(link: string): void;
  timer: ReturnType<typeof setTimeout>;
}

/** What a list says of a person; names are the guests' own words. */
export function describe(person: Person, own: number): string {
  const who = person.guest === 0 ? "Owner" : person.name;
  const you = person.number === own ? " (you)" : "";
  const rights = person.control ? "control" : "view only";
  return `${who}${you}: ${rights}${person.pointer ? ", has the pointer" : ""}`;
}

/** What a list says of an invitation. */
export function describeInvitation(invitation: Invitation): string {
  const { number, name, control, clipboard, sound, password, locked, used, uses, expiryS } =
    invitation;
  const does = control ? (clipboard ? "control and clipboard" : "control") : "view only";
  const may = sound ? does : `${does}, no sound`;
  const left = `${Math.max(0, uses - used)} of ${uses} uses left`;
  const until = new Date(expiryS * 1000).toLocaleString([], {
    dateStyle: "medium",
    timeStyle: "short",
  });
  const more = `${password ? ", password" : ""}${locked ? ", locked after wrong passwords" : ""}`;
  return `${number}${name === "" ? "" : ` ${name}`}: ${may}, ${left}, until ${until}${more}`;
}

export class People {
  private own = 0;
  private people: Person[] = [];
  private readonly pointers = new Map<number, Pointer>();
  private readonly pending = new Map<number, Pending>();
  private lastRequest = 0;

  constructor(private readonly options: PeopleOptions) {
    const { form, link, copy } = options;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.invite();
    });
    copy.addEventListener("click", () => void this.copyLink());
    link.addEventListener("focus", () => link.select());
  }

  /** Without a connection nobody is known to be there. */
  setConnected(connected: boolean): void {
    if (connected) return;
    this.show(0, []);
    this.showInvitations([]);
    for (const request of [...this.pending.keys()])
      this.answer({ request, refused: true, text: "The connection was lost." });
  }

  show(own: number, people: Person[]): void {
    const guestsBefore = new Map(this.people.filter(isGuest).map((one) => [one.guest, one]));
    const knew = this.people.length > 0;
    this.own = own;
    this.people = people;
    const { list, form } = this.options;
    form.hidden = !this.isOwner;
    // Who uses the list by keyboard keeps its place.
    const focused = document.activeElement instanceof HTMLElement ? document.activeElement : null;
    const key = focused !== null && list.contains(focused) ? focused.dataset.action : undefined;
    list.replaceChildren(...people.map((person) => this.row(person)));
    if (key !== undefined)
      [...list.querySelectorAll("button")].find((one) => one.dataset.action === key)?.focus();
    for (const number of [...this.pointers.keys()])
      if (!people.some((person) => person.number === number)) this.hidePointer(number);
    for (const [number, { element }] of this.pointers) this.nameOf(number, element);
    if (!knew) return;
    for (const guest of people.filter(isGuest)) {
      const before = guestsBefore.get(guest.guest);
      guestsBefore.delete(guest.guest);
      if (before === undefined && guest.number !== own)
        this.options.notice(`${guest.name} sees the session now`);
      else if (before !== undefined && guest.number === own && before.control !== guest.control)
        this.options.notice(
          guest.control ? "You may type and point now" : "You only see the session now",
        );
    }
    for (const gone of guestsBefore.values()) this.options.notice(`${gone.name} has left`);
  }

  showInvitations(invitations: Invitation[]): void {
    const { invited } = this.options;
    const list = invited.querySelector("ul") as HTMLUListElement;
    const focused = document.activeElement;
    const hadFocus = focused instanceof HTMLElement && list.contains(focused);
    const key = hadFocus ? focused.dataset.invitation : undefined;
    // The newest first: it is the one that was just made.
    list.replaceChildren(
      ...[...invitations].reverse().map((invitation) => {
        const row = document.createElement("li");
        const words = document.createElement("span");
        words.textContent = describeInvitation(invitation);
        const button = document.createElement("button");
        button.type = "button";
        button.textContent = "Revoke";
        button.dataset.invitation = String(invitation.number);
        button.setAttribute("aria-label", `Revoke: ${invitation.number} ${invitation.name}`.trim());
        const action: ShareAction = { type: "revoke", invitation: invitation.number };
        const done = `Invitation ${invitation.number} has ended.`;
        button.addEventListener("click", () => this.request(action, () => this.say(done)));
        row.append(words, button);
        return row;
      }),
    );
    invited.hidden = invitations.length === 0;
    if (!hadFocus) return;
    // Who uses the list by keyboard keeps its place, or goes on at the next one.
    const buttons = [...list.querySelectorAll("button")];
    const next = buttons.find((one) => one.dataset.invitation === key) ?? buttons[0];
    (next ?? this.options.button).focus();
  }

  showPointer({ number, x, y }: PersonPointer): void {
    let pointer = this.pointers.get(number);
    if (pointer === undefined) {
      const element = document.createElement("div");
      element.className = "person-pointer";
      element.style.setProperty("--hue", String((number * 137) % 360));
      this.nameOf(number, element);
      this.options.pointers.append(element);
      pointer = { element, at: { x, y }, timer: this.rest(number) };
      this.pointers.set(number, pointer);
    } else {
      clearTimeout(pointer.timer);
      pointer.timer = this.rest(number);
    }
    pointer.at = { x, y };
    this.place(pointer);
  }

  /** The picture has moved or changed its scale. */
  layOut(): void {
    for (const pointer of this.pointers.values()) this.place(pointer);
  }

  /** The session's answer to a request. */
  answer({ request, refused, text }: Shared): void {
    const pending = this.pending.get(request);
    if (pending === undefined) return;
    clearTimeout(pending.timer);
    this.pending.delete(request);
    if (refused) this.say(text);
    else pending.done(text);
  }

  private get isOwner(): boolean {
    return this.people.some((person) => person.number === this.own && person.guest === 0);
  }

  private row(person: Person): HTMLElement {
    const row = document.createElement("li");
    const words = document.createElement("span");
    words.textContent = describe(person, this.own);
    row.append(words);
    const { guest, control, name } = person;
    if (!this.isOwner || guest === 0) return row;
    const add = (label: string, kind: string, action: ShareAction, done: string) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = label;
      button.dataset.action = `${kind}-${guest}`;
      button.setAttribute("aria-label", `${label}: ${name}`);
      button.addEventListener("click", () => this.request(action, () => this.say(done)));
      row.append(button);
    };
    if (control)
      add(
        "View only",
        "control",
        { type: "takeControl", guest },
        `${name} only sees the session now.`,
      );
    else
      add(
        "Give control",
        "control",
        { type: "giveControl", guest },
        `${name} may type and point now.`,
      );
    add("Disconnect", "end", { type: "endVisit", guest }, `The visit of ${name} has ended.`);
    return row;
  }

  private invite(): void {
    const { form, link, copy } = this.options;
    const data = new FormData(form);
    const text = (name: string) => String(data.get(name) ?? "");
    const control = text("rights") === "control";
    const action: ShareAction = {
      type: "invite",
      control,
      clipboard: control && data.get("clipboard") !== null,
      sound: data.get("sound") !== null,
      lifeS: Number(text("life")),
      uses: Number(text("uses")),
      password: text("password"),
    };
    this.say("Making the link…");
    this.request(action, (made) => {
      link.value = made;
      link.hidden = false;
      copy.hidden = false;
      (form.elements.namedItem("password") as HTMLInputElement).value = "";
      this.say("Give this link to whom you invite.");
      link.focus();
    });
  }

  private async copyLink(): Promise<void> {
    const { link } = this.options;
    try {
      await navigator.clipboard.writeText(link.value);
      this.say("The link is copied.");
    } catch {
      link.focus();
      this.say("This browser does not let the page copy: the link is selected, copy it yourself.");
    }
  }

  private request(action: ShareAction, done: (link: string) => void): void {
    this.lastRequest += 1;
    const request = this.lastRequest;
    const timer = setTimeout(
      () => this.answer({ request, refused: true, text: "The session does not answer." }),
      ANSWER_MS_MAX,
    );
    this.pending.set(request, { done, timer });
    this.options.send(request, action);
  }

  private say(words: string): void {
    this.options.words.textContent = words;
  }

  private nameOf(number: number, element: HTMLElement): void {
    const person = this.people.find((person) => person.number === number);
    element.textContent = person === undefined ? "" : person.guest === 0 ? "Owner" : person.name;
  }

  private rest(number: number): ReturnType<typeof setTimeout> {
    return setTimeout(() => this.hidePointer(number), POINTER_REST_MS);
  }

  private hidePointer(number: number): void {
    const pointer = this.pointers.get(number);
    if (pointer === undefined) return;
    clearTimeout(pointer.timer);
    pointer.element.remove();
    this.pointers.delete(number);
  }

  private place({ element, at }: Pointer): void {
    const { x, y } = this.options.placeOf(at);
    element.style.transform = `translate(${x}px, ${y}px)`;
  }
}

function isGuest(person: Person): boolean {
  return person.guest !== 0;
}
