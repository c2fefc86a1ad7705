// The devices on which a person stays signed in, below the list of desktops: a name and the last
// use of each, and a button that forgets it.
// Used by account.ts, which sends the requests. Knows what is listed; never a key.

import { say } from "./words";

interface Listed {
  id: string;
  name: string;
  used_s: number;
  /** It is this one. */
  is_own: boolean;
}

export interface DeviceListElements {
  part: HTMLDetailsElement;
  list: HTMLUListElement;
  /** A request of this login; undefined if the login is not valid any more. */
  request(path: string, method?: string, body?: string): Promise<Response | undefined>;
  /** The login is not valid any more. */
  loggedOut(): void;
  /** Runs an action of a button, one at a time. */
  during(act: () => Promise<void>): Promise<void>;
  /** This browser was forgotten. */
  forgotten(): Promise<void>;
}

export class DeviceList {
  constructor(private readonly elements: DeviceListElements) {
    elements.part.addEventListener("toggle", () => {
      if (elements.part.open) void elements.during(() => this.show());
    });
  }

  /** Closed until somebody opens it; shown where devices are remembered. */
  reset(isOffered: boolean): void {
    this.elements.part.hidden = !isOffered;
    this.elements.part.open = false;
    this.elements.list.replaceChildren();
  }

  private async show(): Promise<void> {
    const { list, request, loggedOut } = this.elements;
    const response = await request("devices");
    if (response === undefined) return loggedOut();
    if (!response.ok) throw new Error(await response.text());
    const { devices } = (await response.json()) as { devices: Listed[] };
    const rows = devices.map((device) => this.row(device));
    if (rows.length === 0) {
      const none = document.createElement("li");
      none.textContent = say("noDevice");
      rows.push(none);
    }
    list.replaceChildren(...rows);
  }

  private row(device: Listed): HTMLLIElement {
    const item = document.createElement("li");
    const text = document.createElement("span");
    const when = new Intl.DateTimeFormat(document.documentElement.lang, {
      dateStyle: "medium",
      timeStyle: "short",
    }).format(device.used_s * 1000);
    const own = device.is_own ? [say("thisDevice")] : [];
    for (const words of [device.name, [...own, say("lastUsed", when)].join(", ")]) {
      const line = document.createElement("span");
      line.className = "line";
      line.textContent = words;
      text.append(line);
    }
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = say("forget");
    button.setAttribute("aria-label", say("forgetOne", device.name));
    button.addEventListener("click", () => void this.elements.during(() => this.forget(device)));
    item.append(text, button);
    return item;
  }

  private async forget(device: Listed): Promise<void> {
    const { request, loggedOut, forgotten } = this.elements;
    const body = JSON.stringify({ device: device.id });
    const response = await request("devices/forget", "POST", body);
    if (response === undefined) return loggedOut();
    if (device.is_own) await forgotten();
    const problem = response.ok ? "" : await response.text();
    await this.show();
    if (problem !== "") throw new Error(problem);
    this.elements.part.querySelector("summary")?.focus();
  }
}
